"""StreamProcessor over a scripted engine on virtual time: chunks, updates, stages, callbacks, prompts, figures."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import threading
import weakref
from typing import Any

import msgspec
import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.events import Text
from multimodal.pipes.callbacks import StageChange, Update
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script import ScriptImagePipe
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.pipes.settings import TextSettings
from multimodal.pipes.stages import STAGES, Stage
from multimodal.stream import MultiModalStream
from multimodal.sync.conformance import check_text_pipe
from tests.pipes.words import Words
from tests.support import virtual

TEXT = "one two three four five six seven eight nine ten " * 20
SAID = "Hello and welcome! This kettle boils a litre of water in ninety seconds, and it keeps the water warm. "
WORDS = Words(TEXT)


def processor(text: str = TEXT, *, gap: float = 0.01, ttft: float = 0.0, **settings: Any) -> StreamProcessor:
    return StreamProcessor(ScriptEngine(WORDS.encode(text), gap=gap, ttft=ttft), WORDS, **settings)


async def deliveries(pipe: Any) -> list[tuple[float, list[str]]]:
    """What came at each instant."""
    loop, found = asyncio.get_running_loop(), list[tuple[float, list[str]]]()
    async for token in pipe:
        now = round(loop.time(), 6)
        if found and found[-1][0] == now:
            found[-1][1].append(token.text)
        else:
            found.append((now, [token.text]))
    return found


def sizes(came: list[tuple[float, list[str]]]) -> list[int]:
    return [len(texts) for _, texts in came]


# ---- chunks and their settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1, 8, 16, 32, 64])
def test_chunk_size_changes_the_deliveries_and_not_the_first_text(chunk_size: int) -> None:
    stream = processor(chunk_size=chunk_size, priority_threshold=0.0, max_wait=10.0, ttft=0.5)
    came = virtual(deliveries(stream.prompt("count", max_new_tokens=1000)))
    assert came[0][0] == 0.5
    assert "".join(text for _, texts in came for text in texts) == TEXT
    assert max(sizes(came)) <= chunk_size
    assert len(came) == pytest.approx(200 / chunk_size, rel=0.25, abs=2)


def test_max_wait_bounds_what_a_token_waits() -> None:
    came = virtual(deliveries(processor(chunk_size=64, max_wait=0.1, priority_threshold=0.0).prompt("count")))
    assert max(after - before for (before, _), (after, _) in itertools.pairwise(came)) <= 0.11
    came = virtual(deliveries(processor(chunk_size=64, max_chars=20, priority_threshold=0.0).prompt("count")))
    assert max(sum(map(len, texts)) for _, texts in came) <= 20


def test_priority_threshold_moves_filler_words_to_the_low_lane() -> None:
    async def lanes(threshold: float) -> tuple[str, int]:
        stream = processor("So um the kettle, uh, boils. " * 5, priority_threshold=threshold)
        tokens = [token async for token in stream.prompt("say")]
        assert stream.metrics.lanes["low"] == sum(token.lane == "low" for token in tokens)
        return "".join(token.text for token in tokens), stream.metrics.lanes["low"]

    off, usual, wide = (virtual(lanes(threshold)) for threshold in (0.0, 0.3, 1.0))
    assert off[0] == usual[0] == wide[0] == "So um the kettle, uh, boils. " * 5
    assert off[1] == 0 < usual[1] <= wide[1]


def test_buffer_factor_bounds_what_is_made_ahead() -> None:
    async def ahead(factor: float) -> int:
        stream = processor(buffer_factor=factor, chunk_size=1, priority_threshold=0.0)
        pipe = stream.prompt("count", max_new_tokens=1000)
        await anext(pipe)
        await asyncio.sleep(100.0)
        assert pipe.reader is not None
        return pipe.reader.mailbox.delivered

    made = [virtual(ahead(factor)) for factor in (1.0, 1.5, 2.0)]
    assert made == sorted(set(made))  # the more, the larger the factor


def test_an_update_holds_from_the_next_chunk_border_on_and_loses_nothing() -> None:
    async def scenario() -> None:
        stream = processor(chunk_size=4, priority_threshold=0.0, max_wait=10.0)
        pipe = stream.prompt("count", max_new_tokens=1000)
        texts: list[str] = []
        loop, instants = asyncio.get_running_loop(), list[float]()
        async for token in pipe:
            texts.append(token.text)
            instants.append(round(loop.time(), 6))
            if len(texts) == 9:  # the second chunk of four is whole
                await asyncio.sleep(0.021)  # two more were made; they are held, and belong to the third
                stream.update_params(chunk_size=16, buffer_factor=2.0)
        assert "".join(texts) == TEXT
        forced = pipe.metrics.in_force
        assert [(each.settings.chunk_size, each.settings.buffer_factor) for each in forced] == [(4, 1.5), (16, 2.0)]
        border = forced[1].token_index
        assert 9 <= border <= 9 + 4  # within one chunk
        assert len(set(instants[border : border + 12])) == 1  # more than three of the old chunks at once
        assert stream.settings.chunk_size == 16

    virtual(scenario())


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_size": 0},
        {"chunk_size": 2.5},
        {"buffer_factor": 0},
        {"priority_threshold": 1.5},
        {"max_wait": -1},
        {"max_wait": math.inf},
        {"chunk_sise": 3},
        {"chunk_size": 4, "buffer_factor": -1},
    ],
    ids=str,
)
def test_wrong_settings_change_nothing(changes: dict[str, Any]) -> None:
    stream = processor()
    with pytest.raises(UsageError):
        stream.update_params(**changes)
    assert stream.settings == TextSettings()
    if "chunk_sise" not in changes:
        with pytest.raises(UsageError):
            processor(**changes)


def test_edge_mode_changes_what_was_left_at_its_default() -> None:
    settings = processor(edge_mode=True, max_wait=0.3).settings
    assert (settings.chunk_size, settings.buffer_factor, settings.max_wait) == (16, 1.0, 0.3)
    assert processor(edge_mode=True, chunk_size=4).settings.chunk_size == 4


# ---- stages ----------------------------------------------------------------------------------------------------------

DIALOGUE = [
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hello! How can I help you?"},
    {"role": "user", "content": "Which kettle boils water fastest in a small kitchen?"},
]


def test_a_dialogue_sets_the_stage_and_the_stage_the_settings() -> None:
    async def scenario() -> None:
        stream = processor(SAID * 8, max_wait=10.0, priority_threshold=0.0)
        greeting, answer = stream.prompt(DIALOGUE[:1]), stream.prompt(DIALOGUE)
        told = {"role": "assistant", "content": "The steel one does."}
        closing = stream.prompt([*DIALOGUE, told, {"role": "user", "content": "Thank you, goodbye!"}])
        plain = stream.prompt("Hello!")
        for pipe in (greeting, answer, closing, plain):
            await deliveries(pipe)
        begun = [pipe.metrics.in_force[0] for pipe in (greeting, answer, closing, plain)]
        assert [each.stage for each in begun] == ["greeting", "answer", "closing", ""]
        assert [each.settings.chunk_size for each in begun] == [8, 64, 16, 32]
        assert [each.settings.buffer_factor for each in begun] == [1.2, 2.0, 1.0, 1.5]

    virtual(scenario())


def test_the_answer_itself_changes_the_stage_on_the_way() -> None:
    async def scenario() -> None:
        stream = processor(SAID + SAID[19:] * 10, max_wait=10.0, priority_threshold=0.0)
        pipe = stream.prompt(DIALOGUE)
        came = await deliveries(pipe)
        assert "".join(text for _, texts in came for text in texts) == SAID + SAID[19:] * 10
        in_force = pipe.metrics.in_force
        assert [each.stage for each in in_force] == ["answer", "greeting", "answer"]
        assert [each.settings.chunk_size for each in in_force] == [64, 8, 64]
        assert max(sizes(came)) > 16

    virtual(scenario())


def test_updates_from_another_thread_while_an_answer_streams() -> None:
    async def scenario() -> str:
        pipe, said = stream.prompt("count", max_new_tokens=1000), ""
        async for token in pipe:
            said += token.text
        assert len(pipe.metrics.in_force) > 1
        return said

    def change() -> None:
        size = 0
        while not done.is_set():
            size += 1
            stream.update_params(chunk_size=1 + size % 60, priority_threshold=(size % 10) / 10)

    stream, done = processor(), threading.Event()
    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert virtual(scenario()) == TEXT
    finally:
        done.set()
        thread.join()


def test_a_stage_that_the_application_sets_holds_for_all() -> None:
    async def scenario() -> None:
        stream = processor(max_wait=10.0, priority_threshold=0.0)
        running = stream.prompt("count", max_new_tokens=1000)
        for _ in range(9):
            await anext(running)
        stream.set_stage("greeting")
        await deliveries(running)
        assert [each.settings.chunk_size for each in running.metrics.in_force] == [32, 8]
        later = stream.prompt(DIALOGUE)
        await deliveries(later)
        assert [each.stage for each in later.metrics.in_force] == ["greeting"]
        stream.update_params(chunk_size=5)  # counts over the table until another stage is set
        pinned = stream.prompt("count")
        await deliveries(pinned)
        assert pinned.metrics.in_force[0].settings.chunk_size == 5
        stream.set_stage(None)
        free = stream.prompt(DIALOGUE)
        await deliveries(free)
        assert free.metrics.in_force[0].settings.chunk_size == 64
        with pytest.raises(UsageError, match="stage 'haggling' is unknown"):
            stream.set_stage("haggling")

    virtual(scenario())


def test_a_table_of_ones_own_and_none() -> None:
    own = {**STAGES, "answer": Stage("answer", 3, 1.1)}
    stream = processor(stages=own)
    pipe = stream.prompt(DIALOGUE)
    virtual(deliveries(pipe))
    assert pipe.metrics.in_force[0].settings.chunk_size == 3
    bare = processor(stages=None)
    pipe = bare.prompt(DIALOGUE)
    virtual(deliveries(pipe))
    assert [each.stage for each in pipe.metrics.in_force] == [""]
    with pytest.raises(UsageError, match="has no stages"):
        bare.set_stage("greeting")


# ---- callbacks -------------------------------------------------------------------------------------------------------


def test_callbacks_hear_stages_and_updates() -> None:
    stream = processor(max_wait=10.0, priority_threshold=0.0)
    stages: list[StageChange] = []
    updates: list[Update] = []
    handle = stream.register_callback("stage_change", stages.append)
    stream.register_callback("update", updates.append)
    virtual(deliveries(stream.prompt(DIALOGUE, max_new_tokens=1000)))
    virtual(deliveries(stream.prompt("count", max_new_tokens=1000)))
    stream.set_stage("closing")
    handle.remove()
    virtual(deliveries(stream.prompt("count", max_new_tokens=1000)))
    stream.close()
    assert stream._callbacks.drain()
    assert [(each.stage, each.previous, each.token_index) for each in stages] == [("answer", "greeting", 0)]
    told: list[list[Update]] = []
    for update in updates:
        if update.token_index == 0:
            told.append([])
        told[-1].append(update)
    assert ["".join(each.text for each in each_answer) for each_answer in told] == [TEXT] * 3
    assert [each_answer[0].stage for each_answer in told] == ["answer", "", "closing"]


def test_a_slow_or_raising_callback_delays_no_token() -> None:
    def slow(update: Update) -> None:
        gate.wait()

    def fails(update: Update) -> None:
        raise ValueError("not mine")

    gate = threading.Event()
    quiet = virtual(deliveries(processor().prompt("count")))
    stream = processor()
    stream.register_callback("update", slow)
    stream.register_callback("update", fails)
    assert virtual(deliveries(stream.prompt("count"))) == quiet  # to the microsecond of virtual time
    gate.set()
    stream.close()
    assert stream._callbacks.drain()
    assert stream._callbacks.stats().failures == len(quiet)


# ---- prompts ---------------------------------------------------------------------------------------------------------


def test_a_prompt_keeps_the_contract_of_a_text_pipe() -> None:
    check_text_pipe(
        lambda: processor("one two um three four five. ", chunk_size=4).prompt("count"),
        text="one two um three four five. ",
        failing=lambda: StreamProcessor(ScriptEngine(WORDS.ids, fail_at=(3, "it fell")), WORDS).prompt("count"),
        run=virtual,
    )


def test_a_processor_with_one_pending_prompt_is_a_text_pipe() -> None:
    def one() -> StreamProcessor:
        stream = processor("one two three four five. ")
        stream.prompt("count")
        return stream

    check_text_pipe(one, text="one two three four five. ", run=virtual)


def test_none_or_several_pending_prompts_are_refused() -> None:
    async def scenario() -> None:
        stream = processor("one two. ")
        with pytest.raises(UsageError, match=r"there are 0; call prompt"):
            await anext(stream)
        kept = [stream.prompt("a"), stream.prompt("b")]
        with pytest.raises(UsageError, match=r"there are 2; pass the pipe"):
            aiter(stream)
        await kept[0].aclose()
        assert "".join([token.text async for token in stream]) == "one two. "
        stream.prompt("c")
        assert "".join([(await anext(stream)).text for _ in range(2)]) == "one two. "
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        stream.prompt("d")  # a new turn
        assert (await anext(stream)).text == "one"
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        stream.prompt("e")
        assert (await anext(stream)).text == "one"

    virtual(scenario())


def test_pictures_come_with_their_words_while_the_answer_streams() -> None:
    async def scenario(pipe: Any) -> list[tuple[str, int]]:
        async with MultiModalStream(text_pipe=pipe, image_pipe=ScriptImagePipe([]), sync_interval=3) as multi:
            return [(event.kind, event.tok) async for event in multi]

    text = "one two three four five six seven. "
    stream = processor(text, chunk_size=32)
    by_pipe = virtual(scenario(stream.prompt("count")))
    assert [tok for kind, tok in by_pipe if kind == "sync"] == [0, 3, 6, 7]
    assert by_pipe[-1] == ("end", 7)
    stream.prompt("count")
    assert virtual(scenario(stream)) == by_pipe
    stream.prompt("count")  # the stream closed its pipe, not the processor
    assert virtual(scenario(stream)) == by_pipe


def test_a_chunk_is_one_instant_of_the_stream() -> None:
    async def scenario(chunk_size: int) -> list[int]:
        stream = processor(chunk_size=chunk_size, priority_threshold=0.0, max_wait=10.0)
        pipe = stream.prompt("count", max_new_tokens=1000)
        sizes = []
        async with MultiModalStream(text_pipe=pipe, image_pipe=ScriptImagePipe([]), sync_interval=50) as multi:
            async for bundle in multi.bundles():
                sizes.append(sum(event.token_count for event in bundle if isinstance(event, Text)))
        return sizes

    assert 12 <= max(virtual(scenario(16))) <= 16
    assert len(virtual(scenario(16))) * 3 < len(virtual(scenario(4)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"stop": "halt"}, "must be a list"),
        ({"stop": [""]}, "is empty"),
        ({"logprobs": -1}, "logprobs"),
    ],
)
def test_wrong_prompts_are_refused_at_once(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        processor().prompt("count", **settings)
    with pytest.raises(UsageError, match="no tokenizer"):
        StreamProcessor(ScriptEngine(WORDS.ids)).prompt("count")
    for messages in ([], [{"role": "user"}]):
        with pytest.raises(UsageError, match="'role' and a 'content'"):
            processor().prompt(messages)
    with pytest.raises(UsageError, match="no tokens"):
        processor().prompt("")


def test_ids_work_without_a_tokenizer() -> None:
    with StreamProcessor(ScriptEngine([5, 6, 7])) as stream:
        outputs = stream.generate([[1, 2]])
        assert [token.token_id for token in outputs] == [5, 6, 7]
        assert outputs.token_ids == [[5, 6, 7]]


# ---- the engine's settings -------------------------------------------------------------------------------------------


def test_what_is_set_reaches_the_engine() -> None:
    engine = ScriptEngine(WORDS.ids)
    stream = StreamProcessor(engine, WORDS)
    report = stream.mempool_config(warmup_samples=20, keep_free=0.4, reclaim_policy="lru", pool_bytes=1 << 20)
    assert (report.asked, report.run, engine.warmed) == (20, 20, 20)
    assert engine.settings["keep_free"] == 0.4
    assert (engine.settings["reclaim_policy"], engine.settings["pool_bytes"]) == ("lru", 1 << 20)
    stream.enable_hybrid_mode(window_size=30, semantic_cluster=False, dynamic_batch=False)
    admission = engine.settings["admission"]
    assert (admission.window_size, admission.semantic_cluster, admission.dynamic_batch) == (30, False, False)
    assert stream.metrics.warm_up == report
    for wrong in list[dict[str, Any]]([{"warmup_samples": -1}, {"warmup_samples": 1.5}]):
        with pytest.raises(UsageError, match="warmup_samples"):
            stream.mempool_config(**wrong)
    with pytest.raises(UsageError, match="window_size"):
        stream.enable_hybrid_mode(window_size=-1)
    with pytest.raises(UsageError, match="quant_mode, max_budget: ScriptEngine is an engine already"):
        StreamProcessor(engine, WORDS, quant_mode="int8", max_budget=15)


# ---- figures and the end ---------------------------------------------------------------------------------------------


def test_figures_of_one_answer_and_of_all() -> None:
    async def scenario() -> None:
        stream = processor("one two three four five. ", ttft=0.5, gap=0.1, chunk_size=1, priority_threshold=0.0)
        done, gone = stream.prompt("count"), stream.prompt("count")
        await deliveries(done)
        await anext(gone)
        assert stream.metrics.running == 1
        assert stream.prompt("count").metrics is None
        await gone.aclose()
        figures = done.metrics
        assert figures.stream.ttft == pytest.approx(0.5)
        assert sum(msgspec.structs.astuple(figures.stream.ttft_parts)) == pytest.approx(0.5)
        assert figures.stream.ttft_parts.prefill == pytest.approx(0.5)
        assert figures.stream.itl_p50 == pytest.approx(0.1, rel=0.02)
        assert (figures.stream.tokens, figures.finish) == (5, "stop")
        every = stream.metrics
        assert (every.answers, every.running, every.finished, every.cancelled, every.failed) == (2, 0, 1, 1, 0)
        assert every.ttft_p50 == pytest.approx(0.5, rel=0.02)
        assert every.itl_p99 == pytest.approx(0.1, rel=0.02)
        assert every.tokens == 6
        assert every.engine is not None
        assert every.engine.finished == 1

    virtual(scenario())


def test_a_failed_answer_is_counted_as_failed() -> None:
    async def scenario() -> None:
        stream = StreamProcessor(ScriptEngine(WORDS.ids, fail_at=(3, "it fell")), WORDS)
        with pytest.raises(PipeError, match="it fell"):
            await deliveries(stream.prompt("count"))
        assert (stream.metrics.failed, stream.metrics.finished, stream.metrics.running) == (1, 0, 0)

    virtual(scenario())


def test_closing_ends_what_runs_and_refuses_what_comes() -> None:
    async def scenario() -> None:
        async with processor(gap=1.0) as stream:
            pipe, later = stream.prompt("count"), stream.prompt("count")
            await anext(pipe)
            pull = asyncio.ensure_future(anext(pipe))
            await asyncio.sleep(0.1)
        with pytest.raises(StopAsyncIteration):
            await pull
        stream.close()
        for refused in (lambda: stream.prompt("x"), lambda: stream.generate([[1]]), lambda: stream.update_params()):
            with pytest.raises(UsageError, match="closed"):
                refused()
        with pytest.raises(UsageError, match="closed"):
            await anext(later)

    virtual(scenario())


def test_nothing_of_an_answer_stays_behind() -> None:
    async def scenario() -> list[weakref.ref[Any]]:
        made = list[weakref.ref[Any]]()
        for turn in range(300):
            pipe = stream.prompt("count", max_new_tokens=5)
            made.append(weakref.ref(pipe))
            if turn % 3 == 0:
                await anext(pipe)
            elif turn % 3 == 1:
                await deliveries(pipe)
            if pipe.reader is not None:
                made.append(weakref.ref(pipe.reader))
        await asyncio.sleep(1.0)
        return made

    stream = processor()
    made = virtual(scenario())
    gc.collect()
    assert sum(each() is not None for each in made) <= 1  # the one that is pending
    assert stream.metrics.running == 0
    assert stream.metrics.answers == 200


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"skip_special_tokens": "no"}, "skip_special_tokens='no'"),
        ({"edge_mode": "yes"}, "edge_mode='yes'"),
        ({"engine": "vllm"}, "engine='vllm' is none of auto, manager, steps"),
        ({"engine": None}, "engine=None is none of"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"max_rows": True}, "max_rows=True"),
        ({"pool_bytes": "64M"}, "^pool_bytes='64M'"),
        ({"pool_bytes": 0}, "^pool_bytes=0"),
        ({"tokenizer": 5}, "tokenizer=5 is no tokenizer"),
        ({"tokenizer": "name"}, "tokenizer='name' is no tokenizer"),
        ({"chunk_size": "8"}, "chunk_size='8'"),
        ({"buffer_factor": "1"}, "buffer_factor"),
        ({"max_wait": None}, "max_wait"),
        ({"stages": 5}, "stages"),
    ],
    ids=str,
)
def test_wrong_types_are_refused_when_it_is_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        StreamProcessor(ScriptEngine(WORDS.ids), **{"tokenizer": WORDS, **settings})


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        (5, "prompt is of type int; give a str"),
        (None, "prompt is None; give a str"),
        (b"x", "prompt is of type bytes"),
        ([], "messages is empty"),
        ({}, "prompt is of type dict"),
        ([5], r"messages\[0\] is 5"),
        (["x"], r"messages\[0\] is 'x'"),
    ],
    ids=str,
)
def test_what_is_no_prompt_is_refused(prompt: Any, says: str) -> None:
    with processor() as stream, pytest.raises(UsageError, match=says):
        stream.prompt(prompt)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"eos_ids": 5}, "eos_ids=5 is no list"),
        ({"eos_ids": "5"}, "eos_ids='5' is no list"),
        ({"eos_ids": [1.5]}, r"eos_ids=\[1.5\] is no list"),
        ({"stop": 5}, "stop=5"),
        ({"max_new_tokens": "5"}, "max_new_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"seed": "x"}, "seed"),
        ({"logprobs": "x"}, "logprobs"),
    ],
    ids=str,
)
def test_wrong_types_of_a_prompts_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with processor() as stream, pytest.raises(UsageError, match=says):
        stream.prompt("x", **settings)
