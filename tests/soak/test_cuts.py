"""The link cut at every event, and at random: every word once, in order, whoever notices first."""

from __future__ import annotations

import asyncio
import random

import pytest

from multimodal.events import AnyEvent, StreamEnd, Text
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.live import LiveSession, Seat
from tests.fuzz.mutator import count
from tests.soak.returning import Emitted, MemoryRoad, Returning
from tests.support import virtual
from tests.transport.events import picture
from tests.transport.leaks import until

EVENTS = 120
WORDS = [f"w{number} " for number in range(74)]
PICTURES = {f"p{number}": picture(f"p{number}", 20_000) for number in range(9)}
"""74 words, a mark before each third and one at the end, nine pictures reserved and revealed, start and end: 120."""
AWAY = 4.5
"""Seconds without a network: the viewer has noticed by then, and the server has paused."""
SEED = count("MULTIMODAL_FUZZ_SEED", 20261130)


def tour(words: list[str] = WORDS, gap: float = 0.1) -> MultiModalStream:
    return MultiModalStream(ScriptTextPipe(words, gap=gap), ScriptImagePipe(list(PICTURES.values())))


class Cut:
    """One tour, cut once.

    Args:
        at: the event.
        sent: True = when it is about to be sent, so that it is lost on the way; False = when it was painted, so that
            the receipts are.
        silent: nobody is told.
    """

    def __init__(self, at: int, *, sent: bool, silent: bool) -> None:
        self.at, self.sent, self.silent = at, sent, silent
        self.restored: float | None = None
        self.took: float | None = None

    async def play(self) -> None:
        self.emitted = Emitted(self._on_event)
        self.live = LiveSession(tour(), keep=30.0)
        self.road = MemoryRoad(self.live, self.live.sit(Seat(record=self.emitted)))
        self.viewer = Returning(self.road.connect, on_show=self._on_show, pictures=len(PICTURES))
        async with asyncio.TaskGroup() as group:
            group.create_task(self.live.run())
            await self.viewer.watch()
        assert self.viewer.left
        assert self.viewer.events == self.emitted.events
        assert [event.seq for event in self.emitted.events] == list(range(len(self.emitted.events)))
        assert "".join(event.text for event in self.viewer.events if isinstance(event, Text)) == "".join(WORDS)
        assert self.viewer.seen.pictures == {key: each.data for key, each in PICTURES.items()}

    def _on_event(self, event: AnyEvent) -> None:
        if self.sent and event.seq == self.at:
            self._cut()

    def _on_show(self, bundle: tuple[AnyEvent, ...]) -> None:
        if self.restored is not None and self.took is None:
            self.took = asyncio.get_running_loop().time() - self.restored
        if not self.sent and bundle[0].seq <= self.at <= bundle[-1].seq:
            self._cut()

    def _cut(self) -> None:
        self.road.cut(silent=self.silent)
        asyncio.get_running_loop().call_later(AWAY, self._restore)

    def _restore(self) -> None:
        self.restored = asyncio.get_running_loop().time()
        self.road.restore()


def test_the_tour_has_as_many_events() -> None:
    async def scenario() -> None:
        cut = Cut(EVENTS, sent=True, silent=True)
        await cut.play()
        assert len(cut.viewer.events) == EVENTS

    virtual(scenario())


def test_the_link_is_cut_at_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    every = [(sent, silent) for sent in (True, False) for silent in (True, False)]
    ways = every if count("MULTIMODAL_CUTS", 10) >= EVENTS else None
    took: list[float] = []
    cuts = 0
    for at in range(EVENTS):
        for sent, silent in ways or [every[at % 4]]:
            cut = Cut(at, sent=sent, silent=silent)
            virtual(cut.play())
            cuts += 1
            assert len(cut.viewer.connections) == 1 or cut.restored is not None
            if cut.took is not None:
                took.append(cut.took)
            else:
                assert isinstance(cut.viewer.events[-1], StreamEnd)
    assert len(took) > cuts * 0.9
    with capsys.disabled():
        print(f"\n{cuts} cuts in memory: 0 lost, 0 doubled; resumed after {max(took):.2f} s at most (virtual time)")
    assert max(took) < 2.0


@pytest.mark.parametrize("seed", range(3))
def test_fifty_random_cuts_in_one_tour(seed: int) -> None:
    chance = random.Random(SEED + seed)

    async def scenario() -> None:
        emitted = Emitted()
        # A session of its own would be over when it is cut before the first hello.
        live = LiveSession(tour(WORDS * 12, gap=0.5), keep=30.0, open_ended=True)
        road = MemoryRoad(live, live.sit(Seat(record=emitted)))
        viewer = Returning(road.connect, pictures=len(PICTURES))

        async def saw() -> None:
            for _ in range(50):
                await until(lambda: road.connected)
                # Before the hello, in the middle of the replay, or in peace.
                await asyncio.sleep(chance.choice((0.0, 0.03, 0.05, 0.1, chance.random() * 3)))
                road.cut(silent=chance.random() < 0.5)
                await asyncio.sleep(chance.choice((0.0, 0.3, chance.random() * 6)))
                road.restore()

        async with asyncio.TaskGroup() as group:
            group.create_task(live.run())
            sawing = group.create_task(saw())
            await viewer.watch()
            assert sawing.done(), "the tour was over before the cuts were"
        assert viewer.left
        assert len(viewer.connections) == 51
        assert viewer.events == emitted.events
        assert viewer.seen.pictures == {key: each.data for key, each in PICTURES.items()}

    virtual(scenario())
