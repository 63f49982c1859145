"""A session whose journal lies in a Redis that is killed by -9, and comes back with all, with less, or with nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from multimodal import wire
from multimodal.bench.redis_stage import RedisServer
from multimodal.events import AnyEvent
from multimodal.journal import Entry
from multimodal.journal_redis import RedisJournal
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Link
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.resilient import ResilientViewer
from tests.redis_server import own_redis_server
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import until

__all__ = ["own_redis_server"]

WORDS = [f"w{number} " for number in range(60)]
PICTURES = [picture(f"p{i}", 20_000) for i in range(4)]


class KeptJournal(RedisJournal):
    """Shows what lay in it when the session was over."""

    final: list[Entry]

    async def drop(self, session: str) -> None:
        self.final = await self.read(session, -1, 100_000)
        await super().drop(session)


class Place:
    """A seat, its viewer, and the links between them."""

    def __init__(self, live: LiveSession) -> None:
        self.live, self.seat = live, live.sit(Seat(turns=False))
        self.links: list[MemoryLink] = []
        self.viewer = ResilientViewer("http://h/whep/demo", roads=("whep",), take={"whep": self._connect})

    async def _connect(self, url: str, seat: str, token: str) -> tuple[Link, str]:
        server, client = memory_link()
        self.links.append(client)
        self.live.connect(self.seat, server)
        return client, "http://h/whep/demo/seat"


@pytest.mark.parametrize(
    ("back_with", "pause"), [("all", 0.0), ("less", 0.0), ("less", 0.9), ("nothing", 0.9)], ids=lambda value: str(value)
)
def test_viewers_lose_nothing_and_neither_does_the_journal(
    own_redis_server: RedisServer, back_with: str, pause: float
) -> None:
    """One viewer stays, one comes back while Redis is away, one after its return.

    With a pause of the narration Redis is away and back while nobody appends anything, and nobody has noticed.
    """
    emitted: list[AnyEvent] = []

    def record(line: dict[str, Any]) -> None:
        if line["vantage"] == "emitted":
            event = wire.decode_event(msgspec.json.encode(line["event"]))
            assert event is not None
            emitted.append(event)

    async def kill_and_start() -> None:
        safe = own_redis_server.log_bytes()
        await asyncio.sleep(0.45)
        own_redis_server.kill()
        if back_with == "less":
            own_redis_server.lose_after(safe)
        elif back_with == "nothing":
            own_redis_server.forget()
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_redis_server.start)

    async def scenario() -> None:
        journal = KeptJournal(own_redis_server.url)
        stream = MultiModalStream(ScriptTextPipe(WORDS, gap=0.06, stalls={13: pause}), ScriptImagePipe(PICTURES))
        live = LiveSession(stream, name="s", journal=journal)
        live.sit(Seat(record=record))
        places = [Place(live) for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            running = group.create_task(live.run())
            watching = [group.create_task(place.viewer.watch()) for place in places]
            await asyncio.sleep(0.4)
            killing = group.create_task(kill_and_start())
            await asyncio.sleep(0.6)
            places[1].links[-1].sever()
            await killing
            await asyncio.sleep(0.2)
            places[2].links[-1].sever()
            await asyncio.wait(watching)
            await asyncio.sleep(0.6)
            await until(lambda: not live.kept.unsaved)
            for seat in tuple(live.seats.values()):
                await live.leave(seat, "the end of the test")
            await running
        for place, seen in zip(places, watching, strict=True):
            assert seen.result().events == emitted
            assert seen.result().text == "".join(WORDS)
            assert (seen.result().ended, place.viewer.protocol.doubled) == ("end", 0)
        assert [len(place.links) for place in places] == [1, 2, 2]
        kept = [wire.decode_event(event) for entry in journal.final for event in entry.events]
        assert kept == emitted
        assert not live.kept.unsaved
        await journal.aclose()

    run(scenario())
