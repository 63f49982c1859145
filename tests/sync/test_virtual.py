"""Virtual time jumps, stands still between steps and closes what it ran; a stepped stream is like a played one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from multimodal.errors import PipeError, SyncError, UsageError
from multimodal.events import Reveal, StreamEnd, Text
from multimodal.stream import MultiModalStream
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, record
from multimodal.sync.virtual import SteppedStream, VirtualClock
from multimodal.values import Cue, EncodedImage


async def spoken(count: int = 6, gap: float = 0.5) -> AsyncIterator[str]:
    for number in range(count):
        yield f"word{number} "
        await asyncio.sleep(gap)


async def shown(*delays: float) -> AsyncIterator[EncodedImage]:
    for number, delay in enumerate(delays):
        await asyncio.sleep(delay)
        yield EncodedImage(f"p{number}", b"x", "image/webp", 4, 3)


def make() -> MultiModalStream:
    return MultiModalStream(spoken(), shown(0, 0.2), cues=[Cue(1, "p0"), Cue(4, "p1")])


def test_an_hour_passes_at_once_and_goes_on_from_there() -> None:
    before = time.monotonic()
    with VirtualClock() as clock:
        clock.run(asyncio.sleep(3600))
        assert clock.now == pytest.approx(3600)
        clock.sleep(1)
        assert clock.now == pytest.approx(3601)
    assert time.monotonic() - before < 5


def test_what_never_comes_is_an_error() -> None:
    with VirtualClock() as clock:
        with pytest.raises(TimeoutError):
            clock.run(asyncio.Event().wait(), limit=10)
        assert clock.now == pytest.approx(10)


def test_inside_a_loop_and_after_its_end_it_says_so() -> None:
    clock = VirtualClock()

    async def inside() -> None:
        with pytest.raises(UsageError, match="cannot be used inside one"):
            clock.run(asyncio.sleep(1))

    asyncio.run(inside())
    clock.close()
    clock.close()
    with pytest.raises(UsageError, match="the clock is closed"):
        clock.sleep(1)


def test_closing_cancels_what_still_runs() -> None:
    clock, ended = VirtualClock(), []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(clock.now)

    async def start() -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(background())
        await asyncio.sleep(1)
        return task

    clock.run(start())
    clock.close()
    assert ended == [pytest.approx(1)]


def test_a_stepped_stream_gives_what_a_played_one_gives() -> None:
    with VirtualClock() as clock:
        stepped = SteppedStream(make(), clock).rest()
    with VirtualClock() as clock:
        played = clock.run(record(make()))

    def plain(log: object) -> list[object]:
        return [msgspec.structs.replace(event, sid="") for event in log.events]  # type: ignore[attr-defined]

    assert plain(stepped) == plain(played)
    assert stepped.plan == played.plan
    assert_in_sync(stepped, "strict")
    assert_every_cue_settled(stepped, text="".join(f"word{number} " for number in range(6)))


def test_time_stands_still_between_steps() -> None:
    with VirtualClock() as clock:
        stepped = SteppedStream(make(), clock)
        first = stepped.step()
        assert first
        before = stepped.now
        assert stepped.now == before
        words = stepped.until(Text, lambda event: event.token_index == 2)
        assert stepped.now == pytest.approx(words.pts_ms / 1000)
        assert [event.key for event in stepped.log.of(Reveal)] == ["p0"]  # of the same bundle
        assert stepped.until(Reveal).key == "p1"
        assert len(stepped.log.events) < len(stepped.rest().events)
        assert stepped.ended
        assert stepped.step() == ()
        assert stepped.advance(5) == ()


def test_advancing_gives_what_came_in_that_time_its_end_included() -> None:
    with VirtualClock() as clock:
        stepped = SteppedStream(make(), clock)
        stepped.until(Text)
        begun = stepped.now
        assert [event.text for event in stepped.advance(1.0) if isinstance(event, Text)] == ["word1 ", "word2 "]
        assert stepped.now == pytest.approx(begun + 1.0)
        assert stepped.advance(0.3) == ()
        assert [event.text for event in stepped.advance(0.2) if isinstance(event, Text)] == ["word3 "]
        stepped.close()
        assert stepped.step() == ()
        stepped.close()


def test_a_cue_may_be_declared_between_two_steps() -> None:
    with VirtualClock() as clock:
        stepped = SteppedStream(MultiModalStream(spoken(), shown(0), cues=[]), clock)
        stepped.until(Text)
        stepped.stream.cue(3, "p0")
        assert stepped.until(Reveal).mark == 3


def test_waiting_for_what_does_not_come_names_it() -> None:
    with VirtualClock() as clock:
        stepped = SteppedStream(make(), clock)
        with pytest.raises(SyncError, match=r"without the Reveal that was waited for; its last event was: .*end"):
            stepped.until(Reveal, lambda event: event.key == "p9")


def test_a_failing_pipe_comes_out_behind_the_end() -> None:
    async def failing() -> AsyncIterator[str]:
        yield "word "
        raise OSError("the cable is out")

    with VirtualClock() as clock:
        stepped = SteppedStream(MultiModalStream(failing(), shown(0), cues=[]), clock)
        stepped.until(StreamEnd)
        with pytest.raises(PipeError, match="the cable is out"):
            stepped.step()
        assert stepped.step() == ()


def test_a_stream_that_was_never_stepped_is_closed_too() -> None:
    stream = make()
    with VirtualClock() as clock:
        SteppedStream(stream, clock).close()
        with pytest.raises(UsageError, match="runs once"):
            clock.run(stream.__aenter__())


def test_a_busy_loop_is_told_instead_of_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.sync.virtual.BUSY_TURNS", 1000)

    async def polls() -> None:
        while True:  # noqa: ASYNC110 - the fault itself
            await asyncio.sleep(0)

    with VirtualClock() as clock, pytest.raises(SyncError, match="a busy loop: 1000 turns at 0"):
        clock.run(polls())


def test_waiting_for_the_first_word_is_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before nor after the preroll is over."""
    monkeypatch.setattr("multimodal.sync.virtual.BUSY_TURNS", 1000)

    async def late() -> AsyncIterator[str]:
        await asyncio.sleep(5)
        yield "word "

    with VirtualClock() as clock:
        log = SteppedStream(MultiModalStream(late(), shown(9), cues=[Cue(1, "p0")], preroll=1.0), clock).rest()
    assert log.text == "word "
