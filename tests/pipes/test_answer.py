"""The text pipe of one answer: T1-T8, and what it asks of its engine."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.script import ScriptImagePipe
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.stream import MultiModalStream
from multimodal.sync.conformance import check_text_pipe
from multimodal.values import Token
from tests.pipes.words import PlainFlow, Words
from tests.support import virtual

TEXT = "This kettle boils a litre of water in ninety seconds."
WORDS = Words(TEXT)


def answer(engine: ScriptEngine, *, capacity: int = 64, hold: float = 0.0) -> AnswerPipe:
    request = GenerationRequest((1,))
    return AnswerPipe(lambda sync_interval: AnswerReader(engine, request, PlainFlow(WORDS, hold), capacity=capacity))


def engine(**settings: Any) -> ScriptEngine:
    return ScriptEngine(WORDS.ids, **settings)


@pytest.mark.parametrize("gap", [0.0, 0.05])
@pytest.mark.parametrize("hold", [0.0, 0.12])
def test_it_keeps_the_contract_of_a_text_pipe(gap: float, hold: float) -> None:
    check_text_pipe(
        lambda: answer(engine(ttft=0.2, gap=gap), hold=hold),
        text=TEXT,
        failing=lambda: answer(engine(fail_at=(3, "the engine stumbled")), hold=hold),
        run=virtual,
    )


def test_it_makes_little_that_is_not_pulled() -> None:
    def made(pipe: AnswerPipe) -> int:
        assert pipe.reader is not None
        return pipe.reader.mailbox.delivered

    check_text_pipe(lambda: answer(engine(gap=0.01), capacity=1), text=TEXT, made=made, run=virtual)


def test_the_engine_is_asked_at_the_first_pull() -> None:
    async def scenario() -> None:
        script = engine()
        pipe = answer(script)
        await asyncio.sleep(1.0)
        assert not script.requests
        assert (await anext(pipe)).text == "This "
        assert len(script.requests) == 1

    virtual(scenario())


def test_tokens_that_leave_together_are_given_without_suspending() -> None:
    async def scenario() -> None:
        pipe = answer(engine(gap=0.1), hold=0.35)
        times, loop = [], asyncio.get_running_loop()
        async for token in pipe:
            times.append((round(loop.time(), 6), token.text))
        # Held for 0.35 s each; the end lets go of everything.
        assert [at for at, _ in times] == [0.35, 0.45, 0.55, 0.65, 0.75, 0.85, *[0.9] * 4]

        pipe = answer(engine(gap=0.1), hold=0.35)
        await anext(pipe)
        await asyncio.sleep(0.4)
        for _ in range(4):
            pull = pipe.__anext__()
            with pytest.raises(StopIteration):  # it returned a token; had it suspended, send would have
                pull.send(None)
        await pipe.aclose()

    virtual(scenario())


def test_cancelling_a_pull_closing_and_dropping_free_the_row() -> None:
    async def scenario() -> None:
        for how in ("cancel", "close", "drop", "drop unstarted"):
            script = engine(gap=1.0)
            pipe = answer(script)
            if how == "drop unstarted":
                del pipe
                gc.collect()
                assert not script.requests
                continue
            await anext(pipe)
            mailbox = pipe.reader.mailbox if pipe.reader else None
            assert mailbox is not None
            if how == "cancel":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await anext(pipe)
                assert [token async for token in _rest(pipe)] == []
                assert pipe.finish == "cancelled"
            elif how == "close":
                await pipe.aclose()
                await pipe.aclose()
                with pytest.raises(UsageError, match="played already"):
                    aiter(pipe)
            else:
                del pipe
                gc.collect()
            await asyncio.sleep(10.0)
            assert mailbox.delivered <= 2, how
            assert script.stats().running == 0, how

    virtual(scenario())


async def _rest(pipe: AnswerPipe) -> Any:
    while True:
        try:
            yield await anext(pipe)
        except StopAsyncIteration:
            return


def test_closing_ends_a_pull_that_waits() -> None:
    async def scenario() -> None:
        pipe = answer(engine(ttft=100.0))
        pull = asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(1.0)
        await pipe.aclose()
        with pytest.raises(StopAsyncIteration):
            await pull
        assert asyncio.get_running_loop().time() == 1.0

    virtual(scenario())


def test_one_reader_at_a_time() -> None:
    async def scenario() -> None:
        pipe = answer(engine(gap=0.1))
        pull = asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="pulled twice at once"):
            await anext(pipe)
        assert (await pull).text == "This "
        assert [token.text async for token in pipe][-1] == "seconds."

    virtual(scenario())


@pytest.mark.parametrize(
    ("raised", "seen", "says"),
    [
        ("the engine stumbled", PipeError, "the engine stumbled"),
        (ZeroDivisionError("by zero"), PipeError, "the engine failed: ZeroDivisionError: by zero"),
        (PipeError("try again", retryable=True), PipeError, "try again"),
    ],
)
def test_what_was_said_comes_before_the_error(raised: str | Exception, seen: type[Exception], says: str) -> None:
    async def scenario() -> None:
        pipe = answer(engine(fail_at=(3, raised), gap=0.01), hold=10.0)
        said = [await anext(pipe) for _ in range(3)]
        assert "".join(token.text for token in said) == "This kettle boils "
        assert not any(token.last for token in said)
        with pytest.raises(seen, match=says) as caught:
            await anext(pipe)
        assert caught.value.retryable == getattr(raised, "retryable", False)  # type: ignore[attr-defined]
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_a_slow_reader_stops_the_engine_and_loses_nothing() -> None:
    async def scenario() -> None:
        script = ScriptEngine(WORDS.ids * 20, gap=0.01)
        pipe = answer(script, capacity=8)
        await anext(pipe)
        await asyncio.sleep(100.0)
        assert pipe.reader is not None
        assert pipe.reader.mailbox.delivered == 9
        said = "This " + "".join([token.text async for token in pipe])
        assert said == TEXT * 20 == pipe.text
        assert pipe.finish == "stop"

    virtual(scenario())


def test_sync_every_is_for_the_time_before_the_first_pull() -> None:
    async def scenario() -> None:
        heard: list[int] = []

        def make(sync_interval: int) -> AnswerReader:
            heard.append(sync_interval)
            return AnswerReader(engine(), GenerationRequest((1,)), PlainFlow(WORDS))

        pipe = AnswerPipe(make)
        pipe.sync_every(3)
        await anext(pipe)
        assert heard == [3]
        with pytest.raises(UsageError, match="before the first pull"):
            pipe.sync_every(4)
        with pytest.raises(UsageError, match="1 or more"):
            answer(engine()).sync_every(0)

    virtual(scenario())


def test_interrupting_a_stream_stops_the_engine_within_one_step() -> None:
    async def scenario() -> None:
        script = ScriptEngine(WORDS.ids * 20, gap=0.1)
        pipe = answer(script)
        async with MultiModalStream(text_pipe=pipe, image_pipe=ScriptImagePipe([]), sync_interval=3) as stream:
            async for event in stream:
                if event.kind == "text" and event.tok == 7:
                    break
            assert pipe.reader is not None
            made = pipe.reader.mailbox.delivered
            stream.interrupt()
            await asyncio.sleep(10.0)
            assert script.stats().running == 0
            assert pipe.reader.mailbox.delivered - made <= 1

    virtual(scenario())


def test_the_last_token_says_so() -> None:
    async def scenario() -> list[Token]:
        return [token async for token in answer(engine())]

    assert [token.last for token in virtual(scenario())] == [False] * (len(WORDS.ids) - 1) + [True]
