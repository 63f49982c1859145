"""Spoilt messages over real peer connections and WebSockets: who sends them is sent away, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from multimodal.errors import ChannelClosedOK, TransportError
from multimodal.events import StreamEnd
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Channel, Inbound, Link
from multimodal.transport.connection import Limits
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.whep import join
from tests.fuzz.attacker import Attacker, Say
from tests.fuzz.faults import watched
from tests.fuzz.mutator import SEED, count
from tests.serving.test_app import Served, serving
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

MESSAGES = count("MULTIMODAL_FUZZ_LINKS", 400)
"""Messages in all; `make soak` asks for 4,000."""
BESIDE = 4
EACH = 30
WORDS = [f"w{number} " for number in range(40)]
SHARED = "together"


def make_stream(tour: str) -> MultiModalStream:
    words = [*WORDS] * (1 if tour != SHARED else 100)
    return MultiModalStream(ScriptTextPipe(words, gap=0.05), ScriptImagePipe([picture("p0", 20_000)]))


class Socket:
    """A WebSocket on which anything can be said; of a `Link` it has what an attacker needs."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def opened(self) -> None:
        """It is."""

    async def receive(self) -> Inbound:
        """The next message."""
        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            raise ChannelClosedOK(str(closed)) from None
        return Inbound("events" if isinstance(data, str) else "images", data)

    async def say(self, channel: Channel, data: str | bytes) -> None:
        """As text frames, some of which are no text, or as binary ones."""
        with suppress(ConnectionClosed):
            await self._connection.send(data, text=channel == "events")

    async def aclose(self) -> None:
        """Close it."""
        await self._connection.close()


async def by_websocket(served: Served, tour: str) -> tuple[Any, Say]:
    url = f"ws://127.0.0.1:{served.port}/tour/ws/{tour}"
    socket = Socket(await connect(url, compression=None, max_size=None, close_timeout=0.5, ping_interval=None))
    return socket, socket.say


async def by_webrtc(served: Served, tour: str) -> tuple[Link, Say]:
    link, _ = await join(f"{served.base}/tour/whep/{tour}", bind_addresses=["127.0.0.1"])
    try:
        await link.opened()
    except TransportError:
        await link.aclose()
        raise
    return link, lambda channel, data: _say(link, channel, data)


def _say(link: WebRTCLink, channel: Channel, data: str | bytes) -> None:
    if link._inbox.ended is not None:
        raise link._inbox.ended.with_traceback(None)
    # Above what the peer announced, aiortc refuses to send.
    with suppress(ValueError):
        (link._events if channel == "events" else link._images).send(data)


@pytest.mark.parametrize("road", [by_webrtc, by_websocket])
def test_rubbish_on_real_links(road: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ends, said = Counter[str](), 0

    async def scenario() -> None:
        limits = Limits(hello=1.0, linger=1.0)
        app = asgi(
            make_stream,
            bind_addresses=["127.0.0.1"],
            limits=limits,
            keep=0.5,
            shared=(SHARED,),
            quotas=Quotas.unlimited(),
        )
        async with nothing_left(), serving(app) as served:
            link, _ = await join(f"{served.base}/tour/whep/{SHARED}", bind_addresses=["127.0.0.1"])
            watcher = Viewer(link)
            watching = asyncio.ensure_future(watcher.watch())
            await until(lambda: bool(watcher.seen.events))

            async def work(number: int) -> None:
                nonlocal said
                while said < MESSAGES // 2:
                    number += BESIDE
                    with suppress(TransportError):
                        client, say = await road(served, SHARED if number % 3 == 0 else "own")
                        attacker = Attacker(client, say, SEED + number, EACH, gap=0.01)
                        await attacker.run()
                        await client.aclose()
                        said += attacker.said
                        ends[(attacker.bye or "no word").partition(":")[0].partition(",")[0][:40]] += 1

            async with asyncio.TaskGroup() as group:
                for number in range(BESIDE):
                    group.create_task(work(number))
            events = list(watcher.seen.events)
            assert [event.seq for event in events] == list(range(len(events)))
            assert not any(isinstance(event, StreamEnd) for event in events), "the tour was too short"
            assert not watching.done(), "the watcher was sent away"
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await until(lambda: not served.sessions, 20.0)

    with watched():
        run(scenario(), 60.0 + MESSAGES / 10)
    with capsys.disabled():
        print(f"\n{said} messages {road.__name__.replace('_', ' ')} (seed {SEED}): {dict(ends)}")
    assert len(ends) >= 2
