"""Local models behind the pipes: one contract for causal and seq2seq, one engine for all, settings that reach it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.local import LocalTextPipe, release_models
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script import ScriptImagePipe
from multimodal.stream import MultiModalStream
from multimodal.sync.conformance import check_text_pipe
from tests.support import run
from tests.tiny_models import tiny_gpt2, tiny_llama, tiny_t5, tiny_tokenizer

MODELS = {"llama": tiny_llama, "gpt2": tiny_gpt2, "t5": tiny_t5}
LONG = 400


@pytest.fixture(scope="module")
def llama() -> LocalModel:
    return LocalModel.load(tiny_llama(), tokenizer=tiny_tokenizer())


@pytest.fixture(autouse=True, scope="module")
def _let_go() -> Iterator[None]:
    yield
    release_models()


async def said(pipe: Any) -> str:
    return "".join([token.text async for token in pipe])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("engine", ["auto", "steps"])
def test_causal_and_seq2seq_pipes_keep_the_contract(kind: str, engine: str) -> None:
    model, tokenizer = MODELS[kind](), tiny_tokenizer()

    def pipe() -> LocalTextPipe:
        return LocalTextPipe(model, "The kettle", tokenizer=tokenizer, max_new_tokens=12, engine=engine)

    text = run(said(pipe()))
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "The kettle"}], add_generation_prompt=True)
    import torch

    whole = model.generate(torch.tensor([ids["input_ids"]]), max_new_tokens=12)[0]
    answer = whole[1:] if kind == "t5" else whole[len(ids["input_ids"]) :]
    assert text == tokenizer.decode(answer, skip_special_tokens=True)
    check_text_pipe(pipe, text=text, limit=60.0)


def test_the_chat_template_plain_ids_and_a_dialogue(llama: LocalModel) -> None:
    ids = llama.chat([{"role": "user", "content": "Hi"}])
    by_prompt = run(said(LocalTextPipe(llama, "Hi", max_new_tokens=8)))
    assert by_prompt == run(said(LocalTextPipe(llama, input_ids=list(ids), max_new_tokens=8)))
    messages = [{"role": "user", "content": "Hi"}]
    assert by_prompt == run(said(LocalTextPipe(llama, messages=messages, max_new_tokens=8)))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "got none"),
        ({"prompt": "Hi", "input_ids": [1]}, "prompt and input_ids"),
        ({"input_ids": [[1], [2]]}, "2 rows"),
        ({"prompt": "Hi", "max_new_tokens": 0}, "max_new_tokens"),
        ({"prompt": "Hi", "stop": "x"}, "list of strings"),
        ({"prompt": "Hi", "engine": "warp"}, "engine='warp'"),
        ({"messages": []}, "messages is empty"),
        ({"messages": "Hi"}, "messages is of type str"),
        ({"prompt": 3}, "prompt is of type int"),
        ({"prompt": "Hi", "engine": "vllm"}, "engine='vllm'"),
        ({"prompt": "Hi", "tokenizer": 5}, "tokenizer=5"),
        ({"prompt": "Hi", "eos_ids": 5}, "eos_ids=5"),
        ({"prompt": "Hi", "skip_special_tokens": "no"}, "skip_special_tokens='no'"),
        ({"messages": [{"role": "user"}]}, "messages"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments(llama: LocalModel, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        LocalTextPipe(llama, **settings)  # at once, not at the first pull


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"pool_bytes": "64M"}, "^pool_bytes='64M'"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"tokenizer": 5}, "tokenizer=5"),
        ({"engine": "vllm"}, "engine='vllm'"),
        ({"max_budget": "x"}, "max_budget"),
        ({"quant_mode": 8}, "quant_mode=8"),
    ],
    ids=str,
)
def test_a_processor_refuses_wrong_types_when_it_is_made(
    llama: LocalModel, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        StreamProcessor(llama, **settings)


def test_without_a_tokenizer_there_is_no_text() -> None:
    with pytest.raises(UsageError, match="no tokenizer"):
        LocalTextPipe(tiny_llama(), input_ids=[1, 2])


def test_a_seed_a_stop_and_logprobs(llama: LocalModel) -> None:
    def pipe(**settings: Any) -> LocalTextPipe:
        return LocalTextPipe(llama, "Hi", max_new_tokens=30, **settings)

    hot = {"temperature": 1.2, "top_k": 40}
    assert run(said(pipe(seed=3, **hot))) == run(said(pipe(seed=3, **hot)))
    assert run(said(pipe(seed=3, **hot))) != run(said(pipe(seed=4, **hot)))
    text = run(said(pipe()))
    stopped = pipe(stop=[text[6:9]])
    assert run(said(stopped)) == text[: text.index(text[6:9])]
    assert stopped.finish == "stop"
    likely = pipe(logprobs=2)
    run(said(likely))
    assert all(each.token_id == each.top[0][0] for each in likely.logprobs)
    with pytest.raises(UsageError, match="were not asked for"):
        stopped.logprobs  # noqa: B018


def test_pipes_and_processors_of_one_model_share_one_engine(llama: LocalModel) -> None:
    async def scenario() -> None:
        with StreamProcessor(llama) as one, StreamProcessor(llama) as other:
            pipes = [one.prompt("Hi", max_new_tokens=20), other.prompt("Ho", max_new_tokens=20)]
            pipes.append(LocalTextPipe(llama, "Ha", max_new_tokens=20))
            alone = [await said(one.prompt(each, max_new_tokens=20)) for each in ("Hi", "Ho", "Ha")]
            before = one.metrics.engine
            assert await asyncio.gather(*map(said, pipes)) == alone  # a row's text is its own (E5)
            after = one.metrics.engine
            assert before is not None
            assert after is not None
            assert after.row_steps - before.row_steps > after.steps - before.steps  # they ran in one batch
            assert other.metrics.engine == after

    run(scenario())


def test_an_interruption_stops_the_model_within_one_step(llama: LocalModel) -> None:
    async def scenario() -> None:
        pipe = LocalTextPipe(llama, "Hi", max_new_tokens=LONG)
        async with MultiModalStream(text_pipe=pipe, image_pipe=ScriptImagePipe([]), sync_interval=3) as stream:
            async for event in stream:
                if event.kind == "sync" and event.tok >= 6:
                    break
            stream.interrupt()
            await asyncio.sleep(0)
            assert pipe.reader is not None
            mailbox = pipe.reader.mailbox
            await until(lambda: mailbox.closed)
            made = pipe.reader.mailbox.delivered
            await until_idle(pipe)
            assert pipe.reader.mailbox.delivered - made <= 1

    run(scenario())


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to hold")


async def until_idle(pipe: AnswerPipe) -> None:
    reader = pipe.reader
    assert reader is not None
    await until(lambda: reader.engine.stats().running == 0)


def test_one_cancelled_reader_leaves_the_others_alone(llama: LocalModel) -> None:
    async def scenario() -> None:
        alone = await said(LocalTextPipe(llama, "Ho", max_new_tokens=40))
        gone, stays = LocalTextPipe(llama, "Hi", max_new_tokens=LONG), LocalTextPipe(llama, "Ho", max_new_tokens=40)
        await anext(gone)
        first = await anext(stays)
        task = asyncio.ensure_future(said(gone))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert first.text + await said(stays) == alone
        await until_idle(stays)

    run(scenario())


def test_a_slow_reader_holds_its_own_row_back(llama: LocalModel) -> None:
    async def scenario() -> None:
        with StreamProcessor(llama, buffer_factor=1.0) as stream:
            slow = stream.prompt("Hi", max_new_tokens=LONG)
            await anext(slow)
            other = await said(stream.prompt("Ho", max_new_tokens=150))
            assert other
            assert slow.reader is not None
            assert slow.reader.mailbox.full
            assert slow.reader.mailbox.delivered < 150
            await slow.aclose()

    run(scenario())


# ---- the processor's settings on a real engine -----------------------------------------------------------------------


def test_memory_warming_up_and_batching_reach_the_engine(llama: LocalModel) -> None:
    with StreamProcessor(llama, engine="steps") as stream:
        report = stream.mempool_config(warmup_samples=10, keep_free=0.5, reclaim_policy="lru", pool_bytes=8 << 20)
        assert (report.run, report.asked) == (10, 10)
        assert report.first > 0
        assert report.last > 0
        short = stream.mempool_config(warmup_samples=10_000, warmup_limit=0.05)
        assert short.run < short.asked
        stream.enable_hybrid_mode(window_size=20)
        stream.enable_hybrid_mode(window_size=30, semantic_cluster=False)
        assert len(stream.generate([[5, 6], [7, 8]], max_new_tokens=4).token_ids[1]) == 4
        assert stream._source._admission is not None
        assert (stream._source._admission.taken, stream._source._admission.window_size) == (2, 30)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"pool_bytes": 5}, "pool_bytes=5 holds no answer; give [0-9]+ or more"),
        ({"pool_bytes": "64M"}, "pool_bytes='64M'"),
        ({"pool_bytes": 8 << 20, "warmup_limit": -1}, "warmup_limit=-1"),
        ({"pool_bytes": 8 << 20, "reclaim_policy": "fifo"}, "^reclaim_policy='fifo'"),
        ({"pool_bytes": 8 << 20, "keep_free": 2}, "keep_free=2"),
        ({"pool_bytes": 8 << 20, "reclaim_policy": None}, "^reclaim_policy=None"),
    ],
    ids=str,
)
def test_memory_settings_that_are_refused_change_nothing(llama: LocalModel, wrong: dict[str, Any], says: str) -> None:
    with StreamProcessor(llama, engine="steps") as stream:
        stream.mempool_config(warmup_samples=0, keep_free=0.5, reclaim_policy="lru", pool_bytes=4 << 20)
        with pytest.raises(UsageError, match=says):
            stream.mempool_config(**{"warmup_samples": 1, **wrong})
        kept = {"pool_bytes": 4 << 20, "keep_free": 0.5, "reclaim_policy": "lru"}
        assert stream._source.memory() == kept
        assert len(stream.generate([[5, 6]], max_new_tokens=2).token_ids[0]) == 2
    with StreamProcessor(llama) as fresh:
        with pytest.raises(UsageError, match=says):
            fresh.mempool_config(**{"warmup_samples": 1, **wrong})
        assert len(fresh.generate([[5, 6]], max_new_tokens=2).token_ids[0]) == 2


def test_memory_is_as_it_was_when_warming_up_fails(llama: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamProcessor(llama, engine="steps") as stream:
        stream.mempool_config(warmup_samples=0, pool_bytes=4 << 20)
        before = stream._source.memory()

        def fail(*_: object) -> None:
            raise PipeError("broken on purpose")

        monkeypatch.setattr(stream._source, "warm_up", fail)
        with pytest.raises(PipeError, match="on purpose"):
            stream.mempool_config(keep_free=0.7, reclaim_policy="size", pool_bytes=8 << 20)
        assert stream._source.memory() == before


def test_sharers_may_each_set_what_is_live(llama: LocalModel) -> None:
    with StreamProcessor(llama, engine="steps") as one, StreamProcessor(llama, engine="steps") as other:
        one.enable_hybrid_mode(window_size=20)
        other.enable_hybrid_mode(window_size=40)
        other.mempool_config(warmup_samples=1, reclaim_policy="size")
        assert len(one.generate([[5]], max_new_tokens=2).token_ids[0]) == 2
        assert one.metrics.engine == other.metrics.engine
        with StreamProcessor(llama, engine="steps", max_rows=3) as third, pytest.raises(UsageError, match="max_rows"):
            third.generate([[5]])


def test_a_manager_that_runs_has_no_reclaim_policy(llama: LocalModel) -> None:
    with StreamProcessor(llama, engine="manager") as stream, pytest.raises(UsageError, match="engine='steps'"):
        stream.mempool_config(warmup_samples=0)
    with StreamProcessor(llama) as stream:
        stream.generate([[5]], max_new_tokens=1).sequences  # noqa: B018
        with pytest.raises(UsageError, match="before the first answer"):
            stream.mempool_config(warmup_samples=0)


def test_a_budget_makes_generation_rest() -> None:
    with StreamProcessor(tiny_llama(), tiny_tokenizer(), max_budget=6) as stream:
        outputs = stream.generate([[5, 6, 7]], max_new_tokens=60)
        assert len(outputs.token_ids[0]) == 60
        governor = stream.metrics.governor
        assert governor is not None
        assert governor.max_budget == 6
        assert governor.waits > 0


def test_int8_and_the_edge_profile() -> None:
    import torch

    threads = torch.get_num_threads()
    try:
        model = tiny_llama()
        with StreamProcessor(model, tiny_tokenizer(), quant_mode="int8", edge_mode=True, max_budget=600) as stream:
            local = stream._source.local  # type: ignore[union-attr]
            assert local.quant_mode == "int8"
            assert local.weight_bytes < 0.75 * local.full_bytes
            assert torch.get_num_threads() == 1
            assert stream.settings.chunk_size == 16
            assert len(stream.generate([[5, 6]], max_new_tokens=5).token_ids[0]) == 5
            assert stream._source._settings["pool_bytes"] == 64 << 20  # type: ignore[union-attr]
    finally:
        torch.set_num_threads(threads)


def test_making_the_engine_does_not_hold_up_the_loop() -> None:
    async def scenario() -> None:
        with StreamProcessor(tiny_gpt2(), tiny_tokenizer(), engine="steps") as stream:
            made = []
            source: Any = stream._source
            real = type(source).engine.fget

            class Slow(type(source)):  # type: ignore[misc]
                @property
                def engine(self) -> Any:
                    made.append(threading.current_thread())
                    return real(self)

            source.__class__ = Slow
            text = await said(stream.prompt("Hi", max_new_tokens=4))
            assert text
            assert made[0] is not threading.main_thread()

            early = StreamProcessor(tiny_gpt2(), tiny_tokenizer(), engine="steps").prompt("Hi")
            pull = asyncio.ensure_future(anext(early))
            await asyncio.sleep(0)
            await early.aclose()
            with pytest.raises(StopAsyncIteration):
                await pull

    run(scenario())


def test_an_engine_lives_as_long_as_somebody_holds_it() -> None:
    model = LocalModel.load(tiny_llama(), tokenizer=tiny_tokenizer())
    release_models()
    gc.collect()
    before = threading.active_count()
    stream = StreamProcessor(model, engine="steps")
    run(said(stream.prompt("Hi", max_new_tokens=4)))
    pipe = LocalTextPipe(model, "Hi", max_new_tokens=4, engine="steps")
    run(said(pipe))
    stream.close()
    assert threading.active_count() == before + 1  # kept for the next pipe
    del pipe
    release_models()
    gc.collect()
    assert threading.active_count() == before


def test_using_the_names_loads_nothing_heavy() -> None:
    script = (
        "import sys, multimodal; multimodal.StreamProcessor, multimodal.LocalTextPipe; "
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
