"""A narrator's pace over a text pipe: when tokens come, and what goes on behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.extractive import ExtractiveTextPipe
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.spoken import BREATH, CHARACTER, IDEOGRAPH, PacedTextPipe, breathes, spoken
from multimodal.sync.conformance import check_text_pipe
from multimodal.sync.cues import TourPlan
from multimodal.tape import Tape
from multimodal.values import Token
from tests.support import virtual

TOKENS = ["Here ", "is ", "", "the kettle. ", "It holds ", "1.6 litres.", "\n\n", "一个水壶。", "很好"]


async def times(pipe: AsyncIterator[Token]) -> list[tuple[str, float]]:
    clock = asyncio.get_running_loop().time
    began = clock()
    return [(token.text, round(clock() - began, 3)) async for token in pipe]


def test_tokens_come_when_what_is_before_them_was_said() -> None:
    async def scenario() -> None:
        told = await times(PacedTextPipe(ScriptTextPipe(TOKENS, gap=0.0)))
        said = CHARACTER * len("Here is ")
        assert told[:4] == [("Here ", 0.0), ("is ", 0.125), ("", 0.125), ("the kettle. ", round(said, 3))]
        assert told[4][1] == round(said + CHARACTER * len("the kettle. ") + BREATH, 3)
        assert told[-1][1] - told[-2][1] == pytest.approx(4 * IDEOGRAPH + CHARACTER + BREATH, abs=0.13)
        faster = await times(PacedTextPipe(ScriptTextPipe(TOKENS, gap=0.0), speed=4))
        assert faster[-1][1] == pytest.approx(told[-1][1] / 4, abs=0.01)

    virtual(scenario())


def test_it_is_the_pace_of_the_extractive_narrator() -> None:
    async def scenario() -> None:
        planned = await times(ExtractiveTextPipe(TourPlan(tuple(TOKENS), ())))
        live = await times(PacedTextPipe(ScriptTextPipe(TOKENS, gap=0.0)))
        assert [text for text, _ in planned] == [text for text, _ in live]
        for (text, a), (_, b) in zip(planned, live, strict=True):
            assert a == pytest.approx(b, abs=0.002) or not text

    virtual(scenario())


def test_a_slow_pipe_is_not_made_slower_and_is_not_caught_up_with() -> None:
    async def scenario() -> None:
        slow = ["one ", "two ", "three ", "four"]
        told = await times(PacedTextPipe(ScriptTextPipe(slow, gap=0.01, stalls={2: 3.0})))
        assert told[2][1] == pytest.approx(3.02, abs=0.02)
        assert told[3][1] - told[2][1] == pytest.approx(6 * CHARACTER, abs=0.002)

    virtual(scenario())


def test_what_was_told_already_is_hurried_through() -> None:
    async def scenario() -> None:
        tape = Tape(PacedTextPipe(ScriptTextPipe(["word "] * 400, gap=0.0)))
        tape.seek(300)
        tape.seek(0)
        clock = asyncio.get_running_loop().time
        began = clock()
        for _ in range(300):
            await anext(tape)
        assert clock() - began < 1
        await anext(tape)
        await anext(tape)
        assert clock() - began == pytest.approx(0.125, abs=0.05)

    virtual(scenario())


def test_closing_ends_a_pull_that_waits() -> None:
    async def scenario() -> None:
        script = ScriptTextPipe(["a very long word " * 20, "b"], gap=0.0)
        pipe = PacedTextPipe(script)
        await anext(pipe)
        waiting = asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(0.01)
        await pipe.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting
        assert script._ended
        with pytest.raises(UsageError, match="played already"):
            aiter(pipe)

    virtual(scenario())


def test_it_keeps_the_contract() -> None:
    text = "Here is the kettle. It holds 1.6 litres. 一个水壶。"
    check_text_pipe(lambda: PacedTextPipe(ScriptTextPipe(text, gap=0.0)), text=text, run=virtual)


def test_breath_and_speed() -> None:
    assert breathes("end.", " Begin")
    assert breathes("end. ", "Begin")
    assert breathes("好。", "再")
    assert not breathes("1.", "5")
    assert spoken("a水") == CHARACTER + IDEOGRAPH
    for wrong in (0, -1, float("inf"), True, "2"):
        with pytest.raises(UsageError, match="above 0"):
            PacedTextPipe(ScriptTextPipe("a"), speed=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "read"),
    [
        (lambda: ScriptTextPipe(["", "a", "b"], gap=1.0), 1),
        (lambda: ScriptTextPipe(["", "a"], gap=1.0, fail_at=(1, "lost")), 1),
        (lambda: ScriptTextPipe([""], gap=1.0), 0),
        (lambda: ScriptTextPipe(["", "a"], gap=9.0), None),
    ],
    ids=["words", "a failure", "no words", "closed before"],
)
def test_who_waits_for_the_first_words_is_told_once(script: Callable[[], ScriptTextPipe], read: int | None) -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        began, told = clock(), list[float]()
        pipe = PacedTextPipe(script(), on_begin=lambda: told.append(round(clock() - began, 2)))
        if read is not None:
            for _ in range(read):
                await anext(pipe)
            assert told == []
            with suppress(PipeError):
                async for _ in pipe:
                    pass
        await pipe.aclose()
        await pipe.aclose()
        assert told == [float(read or 0)]

    virtual(scenario())
