"""A Generation: the tensor that blocks, the tokens that come, and what leaving it half-way frees."""

from __future__ import annotations

import asyncio
import copy
import gc
import io
import operator
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.drop_in import GeneratePlan, ModelFacts, read_generate
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.result import Generation
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.values import Token
from tests.pipes.words import EOS, PlainFlow, Words
from tests.support import virtual

TEXT = "This kettle boils a litre of water."
WORDS = Words(TEXT)
LONG, SHORT = [*WORDS.ids, EOS], [*WORDS.ids[:3], EOS]


def started(engine: ScriptEngine, rows: int = 1, *, capacity: int = 64, hold: float = 0.0, **kwargs: Any) -> Generation:
    plan: GeneratePlan = read_generate(
        [[1, 2]] * rows,
        {"max_new_tokens": 200, "eos_token_id": EOS, "pad_token_id": 9, **kwargs},
        ModelFacts(),
        lambda: None,
    )
    readers = [AnswerReader(engine, each, PlainFlow(WORDS, hold), capacity=capacity) for each in plan.requests]
    return Generation(readers, plan, loop_bound=engine.needs_loop)


@pytest.fixture
def engine() -> Iterator[ScriptEngine]:
    """Plays on a thread, as the tests that use it run without a loop."""
    engine = ScriptEngine([LONG, SHORT], gap=0.001)
    yield engine
    engine.close()


def test_it_is_the_tensor_of_generate(engine: ScriptEngine) -> None:
    import torch

    outputs = started(engine, 2)
    expected = torch.tensor([[1, 2, *LONG], [1, 2, *SHORT, *[9] * (len(LONG) - len(SHORT))]])
    assert outputs[0].tolist() == expected[0].tolist()
    assert outputs[1, 2:].tolist() == expected[1, 2:].tolist()
    assert outputs.shape == expected.shape == outputs.size()
    assert len(outputs) == 2
    assert torch.equal(outputs.sequences, expected)
    assert torch.equal(outputs, expected)  # type: ignore[arg-type]
    assert torch.all(torch.as_tensor(outputs == expected))
    assert torch.equal(torch.cat([outputs, outputs]), torch.cat([expected] * 2))  # type: ignore[list-item]
    assert not isinstance(outputs, torch.Tensor)
    assert isinstance(outputs, Generation)
    assert outputs.tolist() == expected.tolist()
    assert outputs.cpu().numpy().sum() == expected.sum()
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        outputs.no_such_thing  # noqa: B018


def test_a_tokenizer_decodes_its_sequences(engine: ScriptEngine) -> None:
    from tests.tiny_models import tiny_tokenizer

    tokenizer, outputs = tiny_tokenizer(), started(engine, 2)
    assert len(tokenizer.batch_decode(outputs.sequences)) == 2
    assert tokenizer.decode(outputs[0]) == tokenizer.decode(outputs.sequences[0])


OPERATORS = (
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
)


def test_operators_are_those_of_the_tensor(engine: ScriptEngine) -> None:
    import torch

    outputs = started(engine, 2, eos_token_id=None, max_new_tokens=3)
    plain = outputs.sequences
    for operate in OPERATORS:
        for other in (2, plain % 3 + 1):
            for mine, theirs in (
                (operate(outputs, other), operate(plain, other)),
                (operate(other, outputs), operate(other, plain)),
            ):
                assert torch.equal(mine, theirs), operate
        assert torch.equal(operate(outputs, outputs), operate(plain, plain)), operate
    for single in (operator.neg, operator.pos, operator.abs, operator.invert):
        assert torch.equal(single(outputs), single(plain))
    assert torch.equal(outputs.float() @ plain.T.float(), plain.float() @ plain.T.float())
    assert LONG[0] in outputs
    assert plain[0] in outputs
    assert 10**6 not in outputs
    assert {outputs: 1}[outputs] == 1
    with pytest.raises(TypeError):
        _ = outputs < "text"


def test_what_is_no_number_and_no_tensor_is_compared_without_a_wait() -> None:
    outputs = started(ScriptEngine([LONG], ttft=1000.0))
    assert (outputs == "text", outputs == None, outputs != "text") == (False, False, True)  # noqa: E711
    outputs.cancel()


def test_numpy_reads_it_and_gets_its_own(engine: ScriptEngine) -> None:
    import numpy as np

    outputs = started(engine, 2)
    ids = np.array(outputs)
    assert ids.dtype == np.int64
    assert ids.tolist() == outputs.tolist()
    assert np.asarray(outputs, dtype=np.float32).tolist() == outputs.tolist()
    ids[:] = 0
    assert outputs.tolist() != ids.tolist()
    assert (np.array(outputs) == outputs).all()


def test_it_cannot_be_copied_or_saved_and_says_what_can(engine: ScriptEngine) -> None:
    import torch

    outputs = started(engine)
    for save in (copy.copy, copy.deepcopy, pickle.dumps, lambda it: torch.save(it, io.BytesIO())):
        with pytest.raises(UsageError, match=r"take its \.sequences"):
            save(outputs)
    assert copy.deepcopy(outputs.sequences).tolist() == outputs.tolist()


_IN_A_PROCESS = """
import sys, torch
from multimodal.pipes.script_engine import ScriptEngine
from tests.pipes.test_result import LONG, SHORT, started

engine = ScriptEngine([LONG, SHORT])
outputs = started(engine, 2)
plain = outputs.sequences
try:
    made = eval(sys.argv[1])
    wanted = eval(sys.argv[1].replace("outputs", "plain"))
    print("equal" if torch.equal(made, wanted) and made.dtype == wanted.dtype else "other")
except Exception as error:
    print(type(error).__name__, error)
engine.close()
"""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("torch.tensor(outputs)", "equal"),
        ("torch.as_tensor(outputs)", "equal"),
        ("torch.asarray(outputs)", "equal"),
        ("plain.new_tensor(outputs)", "equal"),
        ("torch.Tensor(outputs)", "RuntimeError not a storage"),
        ("torch.LongTensor(outputs)", "RuntimeError not a storage"),
        ("torch.tensor([outputs])", "ValueError"),
    ],
)
def test_making_a_tensor_of_it_never_ends_the_interpreter(call: str, says: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _IN_A_PROCESS, call], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split("\n")[0][: len(says)]) == (0, says), done.stderr


def test_what_it_tells_beside_the_tensor(engine: ScriptEngine) -> None:
    outputs = started(engine, 3, max_new_tokens=4, logprobs=1)
    assert outputs.texts == ["This kettle boils a ", "This kettle boils ", "This kettle boils a "]
    assert outputs.token_ids == [LONG[:4], SHORT, LONG[:4]]
    assert outputs.finish_reasons == ["length", "stop", "length"]
    assert [each.token_id for each in outputs.logprobs[0]] == LONG[:4]
    assert outputs.logprobs[0][0].top == ((LONG[0], 0.0),)
    assert repr(outputs) == "<Generation of 3 rows, 12 tokens read, done>"
    with pytest.raises(UsageError, match=r"3 rows; read \.texts"):
        outputs.text  # noqa: B018
    with pytest.raises(UsageError, match="logprobs were not asked for"):
        started(engine).logprobs  # noqa: B018


def test_as_the_output_object_of_transformers(engine: ScriptEngine) -> None:
    outputs = started(engine, return_dict_in_generate=True)
    assert outputs[0].tolist() == outputs["sequences"].tolist() == outputs.sequences.tolist() == [[1, 2, *LONG]]
    with pytest.raises(IndexError):
        outputs[1]


def test_a_loop_gives_tokens_as_they_come_and_each_loop_begins_with_the_first(engine: ScriptEngine) -> None:
    outputs = started(engine)
    first = next(iter(outputs))
    assert isinstance(first, Token)
    assert (first.text, first.row, first.token_id) == ("This ", 0, LONG[0])
    assert [token.token_id for token in outputs] == LONG
    assert "".join(token.text for token in outputs) == outputs.text == TEXT


def test_tokens_of_several_rows_say_which(engine: ScriptEngine) -> None:
    rows: list[list[int]] = [[], []]
    for token in started(engine, 2):
        rows[token.row].append(token.token_id)
    assert rows == [LONG, SHORT]


def test_without_a_reader_the_engine_stops_after_a_bounded_number(engine: ScriptEngine) -> None:
    outputs = started(ScriptEngine([LONG * 10], gap=0.0), capacity=4, eos_token_id=None)
    mailbox = outputs._readers[0].mailbox
    while mailbox.delivered < 4:
        mailbox.wait_blocking(30)
    assert mailbox.full
    assert next(iter(outputs)).text == "This "
    assert mailbox.delivered <= 8
    assert outputs.token_ids == [LONG * 10]


@pytest.mark.parametrize("how", ["leave and drop", "with", "cancel", "drop"])
def test_what_is_left_half_way_frees_its_rows(how: str) -> None:
    engine = ScriptEngine([WORDS.ids * 20], gap=0.001)
    outputs = started(engine, 2)
    if how == "with":
        with outputs:
            for _ in outputs:
                break
    else:
        for _ in outputs:
            break
    if how == "cancel":
        outputs.cancel()
        outputs.cancel()
    if how in ("leave and drop", "drop"):
        del outputs
        gc.collect()
    else:
        assert len(outputs.token_ids[0]) < len(WORDS.ids) * 20
        assert outputs.finish_reasons == ["cancelled", "cancelled"]
        assert outputs.shape[1] == 2 + max(map(len, outputs.token_ids))
    deadline = threading.Event()
    for _ in range(3000):
        if engine.stats().running == 0:
            break
        deadline.wait(0.01)
    assert (engine.stats().running, engine.stats().cancelled) == (0, 2)
    engine.close()


def test_cancelling_from_another_thread_ends_a_wait() -> None:
    engine = ScriptEngine([LONG], ttft=1000.0)
    outputs = started(engine)
    timer = threading.Timer(0.05, outputs.cancel)
    timer.start()
    assert outputs.token_ids == [[]]
    timer.join()
    engine.close()


@pytest.mark.parametrize("rows", [1, 2])
def test_what_was_said_comes_before_the_error(rows: int) -> None:
    engine = ScriptEngine([LONG], fail_at=(2, "the engine stumbled"))
    outputs, said = started(engine, rows, hold=1000.0), list[str]()

    def listen() -> None:
        said.extend(token.text for token in outputs)

    with pytest.raises(PipeError, match="the engine stumbled"):
        listen()
    assert said[:2] == ["This ", "kettle "]
    with pytest.raises(PipeError, match="the engine stumbled"):
        outputs.sequences  # noqa: B018
    assert not outputs.done
    engine.close()


def test_inside_a_loop_it_never_blocks() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        outputs = started(ScriptEngine([LONG], gap=1.0))
        times = [round(loop.time(), 6) async for _ in outputs]
        assert times == [float(second) for second in range(len(LONG))]
        assert outputs.done
        assert outputs.text == TEXT  # everything is there: nothing to wait for
        again = await started(ScriptEngine([LONG], gap=1.0))
        assert again[0].tolist() == [1, 2, *LONG]

    virtual(scenario())


def test_blocking_where_it_would_wait_for_ever_is_refused() -> None:
    async def scenario() -> None:
        outputs = started(ScriptEngine([LONG], gap=1.0))
        with pytest.raises(UsageError, match="await outputs"):
            outputs.shape  # noqa: B018
        assert (await anext(aiter(outputs))).text == "This "

    virtual(scenario())


async def all_of(outputs: Generation) -> None:
    async for _ in outputs:
        pass


async def finished(outputs: Generation) -> None:
    await outputs


def test_cancelling_the_task_that_waits_frees_the_rows() -> None:
    async def scenario() -> None:
        for wait in ("loop", "await"):
            engine = ScriptEngine([LONG], gap=1.0)
            outputs = started(engine, 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(all_of(outputs) if wait == "loop" else finished(outputs), 1.5)
            await asyncio.sleep(5.0)
            assert engine.stats().running == 0
            assert outputs.token_ids == [LONG[:2]] * 2
        engine = ScriptEngine([LONG], gap=1.0)
        async with started(engine) as outputs:
            assert (await anext(aiter(outputs))).text == "This "
        assert outputs.finish_reasons == ["cancelled"]
        await asyncio.sleep(5.0)
        assert engine.stats().running == 0

    virtual(scenario())


def test_a_timer_of_the_flow_lets_tokens_go() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        return [round(loop.time(), 6) async for _ in started(ScriptEngine([SHORT], gap=1.0), hold=0.5)]

    assert virtual(scenario()) == [0.5, 1.5, 2.5, 3.0]


def test_a_loop_in_a_thread_waits_for_the_timer_of_the_flow(engine: ScriptEngine) -> None:
    assert [token.text for token in started(engine, hold=0.01)] == [*(WORDS.decode([each]) for each in LONG)]


def test_two_tasks_may_not_read_at_once() -> None:
    async def scenario() -> None:
        outputs = started(ScriptEngine([LONG], gap=1.0))
        first = asyncio.ensure_future(anext(aiter(outputs)))
        await asyncio.sleep(0)
        assert await first
        other = asyncio.ensure_future(_second(outputs))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="two tasks at once"):
            await _second(outputs)
        assert await other

    async def _second(outputs: Generation) -> bool:
        tokens = aiter(outputs)
        await anext(tokens)
        return bool(await anext(tokens))

    virtual(scenario())


def test_an_engine_that_refuses_leaves_nothing_behind() -> None:
    engine = ScriptEngine([LONG])
    engine.close()
    with pytest.raises(UsageError, match="closed"):
        started(engine, 3)
