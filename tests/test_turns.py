"""Interruptions and questions through MultiModalStream on virtual time: turns, fences, what the viewer had seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.events import AnyEvent, CueMissed, ErrorRaised, Interrupted, Reveal, StreamEnd, Text
from multimodal.pipes.base import TextPipe
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.history import Heard, History
from multimodal.tape import Tape
from multimodal.values import Cue, EncodedImage, Token
from multimodal.wire import Hello, Painted, Ready
from tests.support import virtual

KEYS = ("a", "b", "c")
LONG = [f"w{i} " for i in range(100)]


def images() -> PlannedScriptImagePipe:
    return PlannedScriptImagePipe([EncodedImage(key, b"x", "image/webp", 4, 3) for key in KEYS])


def words(log: list[AnyEvent], epoch: int) -> str:
    return "".join(e.text for e in log if isinstance(e, Text) and e.epoch == epoch)


def reveals(log: list[AnyEvent], epoch: int) -> list[tuple[str, int, int]]:
    return [(e.key, e.anchor, e.mark) for e in log if isinstance(e, Reveal) and e.epoch == epoch]


def test_an_interruption_at_the_very_instant_of_the_end_comes_first() -> None:
    """On a clock that begins at 0.0, where the first instant is no sign that nothing was fed yet."""

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        cues = [Cue(0, "a", late="hold")]
        async with MultiModalStream(
            ScriptTextPipe([]), images(), cues=cues, preroll=0.0, max_hold=0.05, slow_images=1.0
        ) as stream:
            # At 0.05 the hold is over, and with it the stream.
            asyncio.get_running_loop().call_later(0.05, stream.interrupt)
            asyncio.get_running_loop().call_later(0.1, stream.finish)
            async for event in stream:
                log.append(event)
        return log

    log = virtual(main())
    assert [event.reason for event in log if isinstance(event, CueMissed)] == ["interrupted"]
    assert sum(isinstance(event, Interrupted) for event in log) == 1


def test_a_question_is_answered_in_the_middle_and_the_application_learns_what_was_heard() -> None:
    asked: list[tuple[str, Heard]] = []

    def answer(text: str, heard: Heard) -> tuple[TextPipe, list[Cue]]:
        asked.append((text, heard))
        return ScriptTextPipe("It holds one litre."), [Cue(2, "c")]

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        cues = [Cue(1, "a"), Cue(50, "b")]
        async with MultiModalStream(ScriptTextPipe(LONG), images(), cues=cues, on_ask=answer) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 7:
                    assert stream.ask("How much?")
            assert stream.epoch == 1
        return log

    log = virtual(main())
    assert words(log, 0) == "".join(LONG[:8])
    assert words(log, 1) == "It holds one litre."
    assert [(text, heard.text, heard.pictures, heard.tokens) for text, heard in asked] == [
        ("How much?", "".join(LONG[:8]), ("a",), 8)
    ]
    assert [(e.key, e.reason) for e in log if isinstance(e, CueMissed)] == [("b", "interrupted")]
    assert reveals(log, 1) == [("c", 10, 11)], "anchors of a turn count from its beginning"
    assert isinstance(log[-1], StreamEnd)


def test_what_a_viewer_did_not_paint_it_did_not_hear() -> None:
    async def main() -> Heard | None:
        heard = None
        async with MultiModalStream(ScriptTextPipe(LONG), images(), cues=[Cue(1, "a"), Cue(4, "b")]) as stream:
            stream.ack(Hello())
            stream.ack(Ready("a"))
            async for event in stream:
                if isinstance(event, Text) and event.token_index == 4:
                    stream.ack(Painted(event.seq, 0.0, 1))
                if isinstance(event, Text) and event.token_index == 9:
                    heard = stream.interrupt()
                    stream.finish()
        return heard

    heard = virtual(main())
    assert heard is not None
    assert (heard.text, heard.pictures, heard.tokens, heard.complete) == ("w0 w1 w2 w3 w4 ", ("a",), 5, True)


def test_a_stop_that_comes_late_is_refused() -> None:
    async def main() -> MultiModalStream:
        stream = MultiModalStream(ScriptTextPipe(LONG), images())
        async with stream:
            async for event in stream:
                if isinstance(event, Text) and event.token_index == 3 and event.epoch == 0:
                    assert stream.interrupt(epoch=0) is not None
                    stream.say(ScriptTextPipe("a second turn is told to its end"))
                    assert stream.interrupt(epoch=0) is None, "the second stop names the epoch that is over"
        return stream

    assert virtual(main()).refused_stops == 1


def test_generation_stops_within_one_token() -> None:
    pulled: list[int] = []

    async def endless() -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(0.05)
            pulled.append(1)
            yield "word "

    async def main() -> int:
        async with MultiModalStream(endless(), images(), cues=[]) as stream:
            async for event in stream:
                if isinstance(event, Text) and event.token_index == 20:
                    before = len(pulled)
                    stream.interrupt()
                    await asyncio.sleep(5)
                    stream.finish()
        return len(pulled) - before

    assert virtual(main()) <= 1


def test_say_interrupts_what_is_told_and_may_go_on_for_many_turns() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        turns = 0
        async with MultiModalStream(ScriptTextPipe(LONG), images()) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.text.startswith("w3") and turns < 5:
                    turns += 1
                    stream.say(ScriptTextPipe(LONG if turns < 5 else ["the ", "end"]), [Cue(0, KEYS[turns % 3])])
        return log

    log = virtual(main())
    assert [e.epoch for e in log if isinstance(e, Interrupted)] == [1, 2, 3, 4, 5]
    assert words(log, 5) == "the end"
    assert [reveals(log, epoch)[0][0] for epoch in range(1, 6)] == ["b", "c", "a", "b", "c"]


def test_an_answer_that_the_viewer_did_not_wait_for_is_not_told() -> None:
    closed: list[str] = []
    cancelled: list[str] = []

    async def slow_answer(text: str, heard: Heard) -> TextPipe:
        try:
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            cancelled.append(text)
            raise
        return Pipe(text)

    class Pipe:
        def __init__(self, text: str) -> None:
            self.text, self.given = text, False

        def __aiter__(self) -> AsyncIterator[str]:
            return self

        async def __anext__(self) -> str:
            if self.given:
                raise StopAsyncIteration
            self.given = True
            return self.text

        async def aclose(self) -> None:
            closed.append(self.text)

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        async with MultiModalStream(ScriptTextPipe(LONG), images(), on_ask=slow_answer) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 3 and event.epoch == 0:
                    stream.ask("first")
                    await asyncio.sleep(0.5)
                    stream.ask("second")
        return log

    log = virtual(main())
    assert words(log, 2) == "second"
    assert "first" not in "".join(e.text for e in log if isinstance(e, Text))
    assert (cancelled, closed) == (["first"], ["second"])


def test_an_on_ask_that_fails_ends_the_stream_with_its_reason() -> None:
    def broken(text: str, heard: Heard) -> TextPipe:
        raise LookupError("no such product")

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        async with MultiModalStream(ScriptTextPipe(LONG), images(), on_ask=broken) as stream:
            with pytest.raises(PipeError, match="could not be answered: LookupError: no such product"):  # noqa: PT012
                async for event in stream:
                    log.append(event)
                    if isinstance(event, Text) and event.token_index == 3:
                        stream.ask("what?")
        return log

    log = virtual(main())
    assert [e.message for e in log if isinstance(e, ErrorRaised)] == ["the question could not be answered"]
    assert isinstance(log[-1], StreamEnd)
    assert log[-1].reason == "error"


def test_a_hundred_interruptions_at_random_moments() -> None:
    random_moments = random.Random(20261130)
    left = 100

    def answer(text: str, heard: Heard) -> tuple[TextPipe, list[Cue]]:
        told = [f"{text}.{i} " for i in range(30 if left else 4)]
        return ScriptTextPipe(told, gap=0.02), [Cue(2, "b"), Cue(9, "c", "hold", 0.3)]

    async def main() -> list[AnyEvent]:
        nonlocal left
        log: list[AnyEvent] = []
        async with MultiModalStream(ScriptTextPipe(LONG), images(), on_ask=answer) as stream:

            async def read() -> None:
                async for event in stream:
                    log.append(event)

            async with asyncio.TaskGroup() as group:
                group.create_task(read())
                while left:
                    await asyncio.sleep(random_moments.uniform(0.0, 0.5))
                    left -= 1
                    stream.ask(f"q{99 - left}")
        assert len(asyncio.all_tasks()) == 1
        return log

    log = virtual(main())
    assert [e.epoch for e in log if isinstance(e, Interrupted)] == list(range(1, 101))
    assert all(a.epoch <= b.epoch for a, b in pairwise(log)), "an older epoch came out again"
    for epoch in range(1, 101):
        assert all(word.startswith(f"q{epoch - 1}.") for word in words(log, epoch).split())
        for key, anchor, mark in reveals(log, epoch):
            assert key in ("b", "c")
            assert 0 <= mark - anchor <= 2
    assert words(log, 100) == "q99.0 q99.1 q99.2 q99.3 "


def test_a_viewer_goes_back_to_a_mark_and_hears_it_again_at_its_pace() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        text = ScriptTextPipe([f"w{i} " for i in range(12)], gap=0.1)
        async with MultiModalStream(text, images(), cues=[Cue(1, "a"), Cue(4, "b"), Cue(10, "c")]) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 7 and event.epoch == 0:
                    heard = stream.rewind(3)
                    assert heard is not None
                    assert heard.tokens == 8
        return log

    log = virtual(main())
    assert words(log, 0) == "".join(f"w{i} " for i in range(8))
    assert words(log, 1) == "".join(f"w{i} " for i in range(3, 12))
    assert reveals(log, 0) == [("a", 1, 3), ("b", 4, 6)]
    assert reveals(log, 1) == [("b", 9, 11), ("c", 15, 17)], "on the stream's own boundaries, five tokens later"
    assert [(e.key, e.reason) for e in log if isinstance(e, CueMissed)] == [("c", "interrupted")]
    again = [e.pts_ms for e in log if isinstance(e, Text) and e.epoch == 1]
    # The pipe had its next token ready by the time that the tape was through.
    assert [round(after - before) for before, after in pairwise(again)] == [100] * 4 + [0] + [100] * 3


def test_going_back_twice_and_after_the_text_was_pulled_to_its_end() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        moves = 0
        text = ScriptTextPipe([f"w{i} " for i in range(6)], gap=0.1)
        async with MultiModalStream(text, images(), cues=[Cue(5, "a", "hold", 9.0)], preroll=0) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.text == "w4 " and moves < 3:
                    moves += 1
                    await asyncio.sleep(1.0)
                    stream.rewind(event.token_index - 1)
        return log

    log = virtual(main())
    assert [words(log, epoch) for epoch in range(1, 4)] == ["w3 w4 ", "w3 w4 ", "w3 w4 w5 "]


def test_pictures_at_every_interval_come_again_too() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        async with MultiModalStream(ScriptTextPipe([f"w{i} " for i in range(9)]), images()) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 4 and event.epoch == 0:
                    stream.rewind(0)
        return log

    log = virtual(main())
    assert reveals(log, 1) == [("a", 5, 5), ("b", 8, 8), ("c", 11, 11)]


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_viewer_skips_to_the_next_product(can_skip: bool) -> None:
    async def plain(pipe: ScriptTextPipe) -> AsyncIterator[str]:
        async for token in pipe:
            yield token.text

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        script = ScriptTextPipe([f"w{i} " for i in range(30)], gap=0.1)
        text: TextPipe = script if can_skip else plain(script)
        cues = [Cue(1, "a"), Cue(11, "b"), Cue(21, "c")]
        async with MultiModalStream(text, images(), cues=cues, chapters=[0, 10, 20]) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.text == "w4 ":
                    assert stream.skip(epoch=0) is not None
                    assert stream.skip(epoch=0) is None
                if isinstance(event, Text) and event.text == "w22 ":
                    with pytest.raises(UsageError, match="no chapter lies ahead of token 23"):
                        stream.skip()
        return log

    log = virtual(main())
    assert words(log, 1) == "".join(f"w{i} " for i in range(10, 30))
    assert reveals(log, 1) == [("b", 6, 8), ("c", 16, 17)]
    first = next(e.pts_ms for e in log if isinstance(e, Text) and e.epoch == 1)
    assert (first < 600) == can_skip, "a pipe that cannot skip is pulled at its own pace"


def test_there_is_no_way_back_into_an_earlier_turn() -> None:
    async def main() -> None:
        async with MultiModalStream(ScriptTextPipe(LONG), images()) as stream:
            async for event in stream:
                if isinstance(event, Text) and event.token_index == 4 and event.epoch == 0:
                    stream.say(ScriptTextPipe("a second turn that is told"))
                if isinstance(event, Text) and event.epoch == 1 and event.token_index == 7:
                    with pytest.raises(UsageError, match="earlier turn; this one began at 5"):
                        stream.rewind(3)

    virtual(main())


def test_a_tape_forgets_its_oldest() -> None:
    async def main() -> None:
        tape = Tape(ScriptTextPipe(LONG, gap=0), limit=10)
        for _ in range(20):
            await anext(tape)
        with pytest.raises(UsageError, match="the tape begins at 10"):
            tape.seek(9)
        tape.seek(10)
        assert await anext(tape) == Token("w10 ")
        assert tape.position == 11

    virtual(main())


def test_misuse_is_refused() -> None:
    async def main() -> None:
        stream = MultiModalStream(ScriptTextPipe("a"), images())
        with pytest.raises(UsageError, match="not running"):
            stream.interrupt()
        async with stream:
            with pytest.raises(UsageError, match="takes no questions"):
                stream.ask("what?")
            with pytest.raises(UsageError, match="text_pipe is str"):
                stream.say("just text")  # type: ignore[arg-type]
            async for _ in stream:
                pass
            with pytest.raises(UsageError, match="not running"):
                stream.say(ScriptTextPipe("too late"))

    virtual(main())
    with pytest.raises(UsageError, match="keeps nothing"):
        History(0)


def test_a_history_forgets_its_oldest_and_says_so() -> None:
    history = History(3)
    history.append([Text(1, "s", 0, i, 0.0, i + 1, i, 1, f"w{i} ") for i in range(5)])
    heard = history.heard(0)
    assert (heard.text, heard.complete, history.forgotten) == ("w2 w3 w4 ", False, 2)
    assert history.heard(0, 3).text == "w2 w3 "
    assert history.heard(7).seq == -1


class ToldOfMarks(ScriptTextPipe):
    """A text pipe that notes what it was told, and how much it had made by then."""

    def __init__(self, words: str) -> None:
        super().__init__(words, gap=0.01)
        self.told: list[tuple[int, int]] = []

    def sync_every(self, tokens: int) -> None:
        self.told.append((tokens, self._index))


def test_every_text_pipe_hears_of_the_marks_before_it_is_pulled() -> None:
    first, answer = ToldOfMarks("one two three four"), ToldOfMarks("five six")

    async def tell() -> None:
        stream = MultiModalStream(first, images(), sync_interval=4, cues=(), on_ask=lambda *_: answer)
        async with stream:
            async for event in stream:
                if isinstance(event, Text) and event.text == "two ":
                    assert stream.ask("and then?")
                elif isinstance(event, Text) and event.text == "six":
                    stream.finish()

    virtual(tell())
    assert first.told == [(4, 0)]
    assert answer.told == [(4, 0)]
