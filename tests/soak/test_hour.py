"""An hour's tour: memory stays where it was, and no queue fills up."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from multimodal.events import AnyEvent, StreamEnd, Text
from multimodal.journal import MemoryJournal
from multimodal.shelf import KEEP_BYTES
from multimodal.stream import MultiModalStream
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import memory_link
from multimodal.transport.viewer import Viewer
from multimodal.transport.window import MOST_BYTES
from multimodal.values import Cue, EncodedImage
from tests.fuzz.mutator import count
from tests.soak.gauges import HighWater, growth_bytes, resident_bytes
from tests.support import virtual

MINUTES = count("MULTIMODAL_HOUR", 1)
"""Minutes of the tour; `make soak` asks for 60."""
RATE = 20
"""Tokens a second."""
EACH = 144
"""Tokens from one picture to the next: 500 in an hour."""
SETTLED = 26
"""Minutes until what is kept for resume and rewind is full: 20,000 tokens of the tape, and twice 20,000 events of the
journal, which forgets them by halves."""
GROWTH = 2**20
"""Bytes an hour of tour."""


async def pictures(number: int) -> AsyncIterator[EncodedImage]:
    """Made when they are due, as out of a store: nobody but the stream holds their bytes."""
    rng = random.Random(1)
    for place in range(number):
        if place > 4:
            await asyncio.sleep(EACH / RATE)
        yield EncodedImage(f"p{place}", rng.randbytes(30_000), "image/webp", 300, 300, alt=f"picture {place}")


async def words(number: int) -> AsyncIterator[str]:
    for place in range(number):
        await asyncio.sleep(1 / RATE)
        yield f"word{place % 1000}. " if place % 15 == 14 else f"word{place % 1000} "


class Lean(Viewer):
    """A viewer that forgets what it showed, so that only the server's memory is measured."""

    shown = 0

    def forget(self, bundle: tuple[AnyEvent, ...]) -> None:
        self.shown += len(bundle)
        self.seen.events.clear()
        self.seen.at.clear()
        self.seen.pictures.clear()

    def drop(self) -> None:
        arrivals = self.protocol._pictures
        arrivals._held.clear()
        arrivals._held_bytes = 0


def watch_queues(high: HighWater, live: LiveSession, stream: MultiModalStream, journal: MemoryJournal) -> None:
    """Everything that waits anywhere between the pipes and the viewer."""
    (connection,) = live._connections
    scheduler, inbox, desk = connection.scheduler, stream._inbox, stream._desk
    high.add("scheduler: bundles, bytes", lambda: scheduler._waiting_bytes)
    high.add("scheduler: control", lambda: len(scheduler._control))
    high.add("scheduler: pictures", lambda: len(scheduler.waiting_pictures))
    high.add("scheduler: un-acked picture bytes", lambda: scheduler.unacked_bytes)
    high.add("link: buffered bytes", lambda: connection.link.buffered_amount)
    high.add("link inbox: messages", lambda: len(connection.link._inbox._waiting))  # type: ignore[attr-defined]
    high.add("stream inbox: tokens", lambda: len(inbox.turn.tokens))
    high.add("stream inbox: others", lambda: len(inbox.others))
    high.add("aligner: held tokens", lambda: len(stream._aligner._held))
    high.add("desk: asked", lambda: len(desk._asked))
    high.add("desk: to be asked", lambda: len(desk._later))
    high.add("desk: picture bytes in memory", lambda: desk._pictures.held_bytes)
    high.add("session: recent events", lambda: live.kept._recent_events)
    high.add("session: unsaved events", lambda: live.kept.unsaved)
    high.add("journal: events", lambda: 1 + journal._logs[live.name].last - journal._logs[live.name].first)


BOUNDS = {
    "scheduler: bundles, bytes": 256 * 1024,
    "scheduler: control": 64,
    "scheduler: pictures": 8 + 1,
    "scheduler: un-acked picture bytes": MOST_BYTES,
    "link inbox: messages": 64,
    "stream inbox: tokens": 64,
    "stream inbox: others": 16 + 8,
    "aligner: held tokens": 256,
    "desk: asked": 8,
    "desk: picture bytes in memory": KEEP_BYTES,
    "session: recent events": 4096,
    "session: unsaved bundles": 0,
    "journal: events": 20_000,
}


def test_an_hour_of_a_tour(capsys: pytest.CaptureFixture[str]) -> None:
    samples: list[int] = []
    high = HighWater()

    async def scenario() -> None:
        tokens = MINUTES * 60 * RATE
        number = tokens // EACH + 1
        cues = [Cue(place * EACH, f"p{place}") for place in range(number)]
        stream = MultiModalStream(words(tokens), pictures(number), cues=cues)
        live = LiveSession(stream, keep=5.0)
        assert isinstance(live._own_journal, MemoryJournal)
        heard = dict.fromkeys((Text, StreamEnd), 0)

        def record(line: dict[str, Any]) -> None:
            if line["vantage"] == "emitted":
                high.look()
                heard[Text] += line["event"]["kind"] == "text"
                heard[StreamEnd] += line["event"]["kind"] == "end"

        server, client = memory_link("4g")
        live.connect(live.sit(Seat(record=record)), server)
        watch_queues(high, live, stream, live._own_journal)
        viewer = Lean(client)
        viewer._on_show = viewer.forget

        async def minute() -> None:
            while True:
                await asyncio.sleep(60.0)
                viewer.drop()
                gc.collect()
                samples.append(resident_bytes())

        async with asyncio.TaskGroup() as group:
            group.create_task(live.run())
            sampling = group.create_task(minute())
            await viewer.watch()
            sampling.cancel()
        assert heard == {Text: tokens, StreamEnd: 1}
        assert number * 2 + tokens < viewer.shown
        for name, most in high.most.items():
            assert most <= BOUNDS.get(name, 10**9), f"{name} was {most}"

    virtual(scenario())
    line = samples[SETTLED:]
    growth = growth_bytes(line) * 60 / max(1, len(line))
    with capsys.disabled():
        print(f"\n{MINUTES} min of a tour, {RATE} tokens a second; at most:")
        print("".join(f"    {name}: {most:,}\n" for name, most in high.most.items()))
        if line:
            every = [round(each / 2**20, 1) for each in samples[::5]]
            print(f"    memory every five minutes, MB: {every}; {growth / 2**20:+.2f} MB an hour once settled")
    if MINUTES >= 40:
        assert growth < GROWTH
