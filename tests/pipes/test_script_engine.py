"""The engine that plays a script: E1-E6, its pace, its limits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest, Step
from multimodal.pipes.script_engine import ScriptEngine
from tests.support import virtual

IDS = [5, 6, 7, 8]


def request(**settings: Any) -> GenerationRequest:
    return GenerationRequest((1, 2), **settings)


async def played(engine: ScriptEngine, mailbox: Mailbox, asked: GenerationRequest) -> list[Step]:
    engine.submit(asked, mailbox)
    steps: list[Step] = []
    while not steps or not steps[-1].finish:
        await mailbox.wait()
        steps += mailbox.take()
    return steps


def test_tokens_come_at_the_pace_that_was_given() -> None:
    steps = virtual(played(ScriptEngine(IDS, ttft=1.0, gap=[0.1, 0.3]), Mailbox(), request()))
    assert [(step.token_id, round(step.at, 6)) for step in steps] == [(5, 1.0), (6, 1.1), (7, 1.4), (8, 1.5)]
    assert [step.finish for step in steps] == ["", "", "", "stop"]


@pytest.mark.parametrize(
    ("settings", "ids", "finish"),
    [
        ({"eos_ids": (6,)}, [5, 6], "stop"),
        ({"max_new_tokens": 3}, [5, 6, 7], "length"),
        ({"max_new_tokens": 4}, IDS, "stop"),
        ({"eos_ids": (6,), "min_new_tokens": 2}, [5, 7, 8], "stop"),
    ],
)
def test_where_an_answer_ends(settings: dict[str, Any], ids: list[int], finish: str) -> None:
    steps = virtual(played(ScriptEngine(IDS), Mailbox(), request(**settings)))
    assert [step.token_id for step in steps] == ids
    assert steps[-1].finish == finish


def test_an_empty_script_ends_at_once() -> None:
    assert virtual(played(ScriptEngine([]), Mailbox(), request())) == [Step(-1, 0.0, "stop")]


def test_one_answer_after_the_other_and_answers_that_follow_from_the_request() -> None:
    async def scenario(engine: ScriptEngine) -> list[list[int]]:
        return [[s.token_id for s in await played(engine, Mailbox(), request())] for _ in range(3)]

    assert virtual(scenario(ScriptEngine([[5], [6, 7]]))) == [[5], [6, 7], [5]]
    assert virtual(scenario(ScriptEngine(lambda asked: asked.prompt_ids))) == [[1, 2]] * 3


def test_a_full_mailbox_stops_its_row_and_no_other() -> None:
    async def scenario() -> None:
        engine, full, free = ScriptEngine(range(10, 30), gap=0.1), Mailbox(4), Mailbox(64)
        engine.submit(request(), full)
        engine.submit(request(), free)
        await asyncio.sleep(10.0)
        assert (full.delivered, free.delivered) == (4, 20)
        assert len(full.take()) == 4
        await asyncio.sleep(10.0)
        assert full.delivered == 8

    virtual(scenario())


def test_a_closed_mailbox_gives_its_row_up() -> None:
    async def scenario() -> None:
        engine, mailbox = ScriptEngine(IDS * 100, gap=0.1, max_rows=1), Mailbox()
        engine.submit(request(), mailbox)
        await asyncio.sleep(0.35)
        mailbox.close()
        await asyncio.sleep(10.0)
        assert mailbox.delivered == 4
        assert (engine.stats().running, engine.stats().cancelled) == (0, 1)
        assert [s.token_id for s in await played(engine, Mailbox(), request(max_new_tokens=2))] == [5, 6]

    virtual(scenario())


def test_more_than_its_rows_wait() -> None:
    async def scenario() -> None:
        engine = ScriptEngine(IDS, ttft=1.0, max_rows=2)
        mailboxes = [Mailbox() for _ in range(3)]
        for mailbox in mailboxes:
            engine.submit(request(), mailbox)
        assert (engine.stats().running, engine.stats().waiting) == (2, 1)
        await asyncio.sleep(10.0)
        assert [mailbox.times.admitted for mailbox in mailboxes] == [0.0, 0.0, 1.0]
        assert [mailbox.times.prefilled for mailbox in mailboxes] == [1.0, 1.0, 2.0]

    virtual(scenario())


@pytest.mark.parametrize("what", ["it broke", ValueError("it broke")])
def test_it_fails_where_the_script_says(what: str | Exception) -> None:
    async def scenario() -> None:
        engine, mailbox = ScriptEngine(IDS, fail_at=(2, what)), Mailbox()
        engine.submit(request(), mailbox)
        await asyncio.sleep(1.0)
        assert [step.token_id for step in mailbox.take()] == [5, 6]
        with pytest.raises(PipeError if isinstance(what, str) else ValueError, match="it broke"):
            mailbox.take()
        assert engine.stats().failed == 1

    virtual(scenario())


def test_closing_fails_what_is_played_and_twice_is_once() -> None:
    async def scenario() -> None:
        engine, mailbox = ScriptEngine(IDS, gap=1.0), Mailbox()
        engine.submit(request(), mailbox)
        await asyncio.sleep(0.5)
        engine.close()
        engine.close()
        await asyncio.sleep(5.0)
        assert [step.token_id for step in mailbox.take()] == [5]
        with pytest.raises(PipeError, match="closed before the answer ended"):
            mailbox.take()
        with pytest.raises(UsageError, match="is closed"):
            engine.submit(request(), Mailbox())

    virtual(scenario())


def test_without_a_loop_a_thread_plays_and_ends_with_the_engine() -> None:
    engine, mailbox = ScriptEngine(IDS, gap=0.001), Mailbox(2)
    engine.submit(request(), mailbox)
    ids: list[int] = []
    while len(ids) < 4:
        assert mailbox.wait_blocking(30)
        ids += [step.token_id for step in mailbox.take()]
    assert ids == IDS
    engine.close()
    assert [thread for thread in threading.enumerate() if "script-engine" in thread.name] == []


@pytest.mark.parametrize("settings", [{"gap": -1}, {"gap": []}, {"ttft": float("nan")}, {"max_rows": 0}])
def test_wrong_arguments(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="ScriptEngine"):
        ScriptEngine(IDS, **settings)
