"""Tours served over real HTTP, and what a viewer of any road must have seen of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette

from multimodal import wire
from multimodal.errors import UsageError
from multimodal.events import AnyEvent
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.transport.live import LiveSession
from multimodal.transport.roads import Road
from multimodal.transport.sse_client import join_sse
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.websocket_client import join_websocket
from multimodal.transport.whep import join
from tests.serving.mounted import mounted
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left

__all__ = [
    "PICTURES",
    "WORDS",
    "Cuts",
    "Served",
    "Tours",
    "check",
    "closed_by",
    "joined",
    "plain",
    "serving",
    "timeless",
    "whole",
]

WORDS = [f"w{number} " for number in range(90)]

PICTURES = [picture(f"p{i}", 20_000 + i) for i in range(6)]


class Tours:
    """Makes the tour's streams; the last one is kept."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self.records: list[list[dict[str, Any]]] = []

    def make(self, tour: str) -> MultiModalStream:
        if tour not in {"demo", "demos/kettle"}:
            raise UsageError(f"there is no tour {tour!r}; there is: demo")
        # Held, a log does not depend on how soon each picture came.
        text, images = ScriptTextPipe(WORDS, gap=self.gap), ScriptImagePipe(PICTURES)
        return MultiModalStream(text, images, late="hold", max_hold=10.0)

    def recorder(self, stream: Any) -> Callable[[dict[str, Any]], None]:
        self.records.append([])
        return self.records[-1].append

    def emitted(self, record: int = 0) -> list[dict[str, Any]]:
        events = [line["event"] for line in self.records[record] if line["vantage"] == "emitted"]
        told: list[dict[str, Any]] = json.loads(json.dumps(events))
        return told


class Served:
    """A running server and its address."""

    def __init__(self, port: int, app: Starlette, tours: Tours) -> None:
        self.app, self.tours = app, tours
        self.base = f"http://127.0.0.1:{port}/shop"
        self.url = f"{self.base}/whep/demo"

    @property
    def live(self) -> list[LiveSession]:
        return list(self.app.state.door._live.values())


@asynccontextmanager
async def serving(gap: float = 0.02, **settings: Any) -> AsyncIterator[Served]:
    tours = Tours(gap)
    settings.setdefault("quotas", Quotas.unlimited())
    app = asgi(tours.make, recorder=tours.recorder, **settings)
    async with mounted(app) as port:
        yield Served(port, app, tours)


def check(scenario: Callable[[Served], Awaitable[None]], **settings: Any) -> None:
    async def checked() -> None:
        async with nothing_left(), serving(**settings) as served:
            await scenario(served)

    run(checked())


def plain(events: list[AnyEvent]) -> list[dict[str, Any]]:
    return [json.loads(wire.encode_event(event)) for event in events]


def timeless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs from one run to the next: the clock, and which tokens were released together."""
    told: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "text" and told and told[-1]["kind"] == "text":
            told[-1]["text"] += event["text"]
        else:
            clocked = {"sid", "pts_ms", "seq", "tok", "token_count"}
            told.append({key: value for key, value in event.items() if key not in clocked})
    return told


def whole(seen: Seen, served: Served, viewer: Viewer) -> None:
    """Word for word what the server emitted, once, and the pictures."""
    assert plain(seen.events) == served.tours.emitted()
    assert [event.seq for event in seen.events] == list(range(len(seen.events)))
    assert len(seen.events) >= 120
    assert seen.pictures == {image.key: image.data for image in PICTURES}
    assert (seen.ended, viewer.protocol.doubled) == ("end", 0)


async def joined(road: Road, url: str) -> Any:
    if road == "whep":
        return (await join(url))[0]
    return await (join_websocket(url) if road == "ws" else join_sse(url))


class Cuts:
    """Cuts the road when so many events have come, without a word."""

    def __init__(self, places: list[int], cut: Callable[[], None]) -> None:
        self.places, self._cut = places, cut

    def on_show(self, bundle: tuple[AnyEvent, ...]) -> None:
        if self.places and bundle[-1].seq >= self.places[0]:
            self.places = [place for place in self.places if place > bundle[-1].seq]
            self._cut()


def closed_by(served: Served) -> Callable[[], None]:
    """The far end of the road goes."""

    def cut() -> None:
        connection = next(iter(served.live[0].seats.values())).connection
        assert connection is not None
        connection.stop("cut", farewell=False)

    return cut
