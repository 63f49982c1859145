"""Faults that text streaming is known for in public reports, planted here: each must not show.

The number in a name is the project and report that told of it; what is asserted is what its users missed.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest, Step
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.sync.conformance import check_text_pipe
from tests.pipes.words import Words
from tests.support import run, virtual
from tests.tiny_models import EOS, tiny_llama, tiny_tokenizer

SAMPLES = [
    "这把水壶九十秒烧开一升水。",
    "안녕하세요, 이 주전자는 빠릅니다.",
    "ราคาถูกมาก",
    "👩‍👩‍👧 🇩🇪 é e\u0301 39.90 €",
    "مرحبا بالعالم",
]


def streamed(ids: list[int], tokenizer: Any, **settings: Any) -> list[str]:
    """What a consumer was shown, delivery by delivery."""

    async def scenario() -> list[str]:
        how = {name: settings.pop(name) for name in list(settings) if name in ("stop", "max_new_tokens", "eos_ids")}
        stream = StreamProcessor(ScriptEngine(ids, gap=0.01), tokenizer, **settings)
        return [token.text async for token in stream.prompt("say", **{"max_new_tokens": 10_000, **how})]

    return virtual(scenario())


@pytest.mark.parametrize("text", SAMPLES)
@pytest.mark.parametrize("chunk_size", [1, 8])
def test_vllm_931_8627_dynamo_12630_tgi_333_nothing_is_garbled_or_missing(text: str, chunk_size: int) -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode(text)
    pieces = streamed(ids, tokenizer, chunk_size=chunk_size)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(pieces) == len(ids)  # one token each, so that positions count tokens


def test_vllm_17448_a_bad_token_of_one_answer_hurts_no_other() -> None:
    async def scenario() -> None:
        tokenizer = tiny_tokenizer()
        good = tokenizer.encode("The handle stays cool.")
        bad = [10_000_000, *good]
        answers = {1: good, 2: bad}
        stream = StreamProcessor(ScriptEngine(lambda asked: answers[asked.prompt_ids[0]], gap=0.01), tokenizer)
        outputs = stream.generate([[1], [2]], max_new_tokens=100, eos_token_id=None)
        await outputs
        assert outputs.texts == ["The handle stays cool."] * 2  # an id beyond the vocabulary has no text

    virtual(scenario())


def test_sglang_34740_580_endless_bad_bytes_still_come_out() -> None:
    tokenizer = tiny_tokenizer()
    lone = tokenizer.encode("这")[0]  # the first byte of a character, over and over
    pieces = streamed([lone] * 200, tokenizer, chunk_size=1, priority_threshold=0.0)
    assert "".join(pieces) == tokenizer.decode([lone] * 200)
    longest, silent = 0, 0
    for piece in pieces:
        silent = 0 if piece else silent + 1
        longest = max(longest, silent)
    assert longest <= 4


@pytest.mark.parametrize("stop", ["ninety", "ater in n", "seconds.", "e"])
@pytest.mark.parametrize("chunk_size", [1, 32])
def test_tgi_1254_1039_vllm_3574_no_part_of_a_stop_is_shown(stop: str, chunk_size: int) -> None:
    text = "This kettle boils water in ninety seconds."
    tokenizer = tiny_tokenizer()
    pieces = streamed(tokenizer.encode(text), tokenizer, stop=[stop], chunk_size=chunk_size)
    assert "".join(pieces) == text[: text.index(stop)]


@pytest.mark.parametrize("tail", ["\n", "\n\nHum", " ", "ninet"])
def test_llama_cpp_9867_fastchat_3891_a_tail_that_looked_like_a_stop_is_not_lost(tail: str) -> None:
    tokenizer = tiny_tokenizer()
    text = "It boils." + tail
    pieces = streamed(tokenizer.encode(text), tokenizer, stop=["\n\nHuman:", "ninety"])
    assert "".join(pieces) == text


def test_a_cut_by_the_limit_inside_a_character_ends_as_batch_decoding_does() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("水壶九十秒")
    for limit in range(1, len(ids) + 1):
        pieces = streamed(ids, tokenizer, max_new_tokens=limit)
        assert "".join(pieces) == tokenizer.decode(ids[:limit])


def test_vllm_54947_9428_who_leaves_stops_the_engine() -> None:
    async def scenario() -> None:
        engine = ScriptEngine([5] * 1000, gap=0.05)
        stream = StreamProcessor(engine, Words("a b c d e f g"))
        for leave in ("close", "cancel"):
            pipe = stream.prompt("a", max_new_tokens=1000)
            task = asyncio.ensure_future(_pull(pipe))
            await asyncio.sleep(1.02)
            assert pipe.reader is not None
            mailbox = pipe.reader.mailbox
            made = mailbox.delivered
            if leave == "close":
                await pipe.aclose()
            task.cancel()
            await asyncio.wait([task])
            del pipe, task
            gc.collect()
            await asyncio.sleep(5.0)
            assert mailbox.delivered - made <= 1
            assert engine.stats().running == 0

    virtual(scenario())


async def _pull(pipe: Any) -> int:
    return len([token async for token in pipe])


@pytest.mark.parametrize("after", [0, 1, 7])
def test_litellm_40578_open_webui_29628_an_error_in_mid_stream_is_no_quiet_end(after: int) -> None:
    async def scenario() -> None:
        words = Words("one two three four five six seven eight nine")
        stream = StreamProcessor(ScriptEngine(words.ids, fail_at=(after, "the engine fell")), words)
        heard: list[str] = []

        async def listen() -> None:
            async for token in stream.prompt("count"):
                heard.append(token.text)
                assert not token.last

        with pytest.raises(PipeError, match="the engine fell"):
            await listen()
        assert "".join(heard) == "".join(words.decode([each]) for each in words.ids[:after])
        outputs = stream.generate([[1]])
        with pytest.raises(PipeError, match="the engine fell"):
            await outputs
        with pytest.raises(PipeError, match="the engine fell"):
            outputs.sequences  # noqa: B018

    virtual(scenario())


def test_an_engine_that_dies_ends_every_stream_with_an_error() -> None:
    async def scenario() -> None:
        engine = ScriptEngine([5] * 1000, gap=0.1)
        stream = StreamProcessor(engine, Words("a b c d e f g"))
        pulls = [asyncio.ensure_future(_pull(stream.prompt("a", max_new_tokens=1000))) for _ in range(3)]
        await asyncio.sleep(1.0)
        engine.close()
        results = await asyncio.gather(*pulls, return_exceptions=True)
        assert [type(each) for each in results] == [PipeError] * 3

    virtual(scenario())


def test_livekit_agents_7299_one_cancelled_waiter_leaves_the_others() -> None:
    async def scenario() -> None:
        words = Words("one two three four five six seven eight nine")
        stream = StreamProcessor(ScriptEngine(words.ids, gap=0.1), words)
        pulls = [asyncio.ensure_future(_pull(stream.prompt("a"))) for _ in range(3)]
        await asyncio.sleep(0.25)
        pulls[1].cancel()
        results = await asyncio.gather(*pulls, return_exceptions=True)
        assert [results[0], results[2]] == [9, 9]
        assert isinstance(results[1], asyncio.CancelledError)

    virtual(scenario())


def test_a_timeout_of_a_reader_is_no_normal_end() -> None:
    async def scenario() -> None:
        words = Words("one two three")
        stream = StreamProcessor(ScriptEngine(words.ids, ttft=10.0), words)
        pipe = stream.prompt("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(pipe), 1.0)
        assert pipe.finish == "cancelled"  # and not "stop"
        with pytest.raises(UsageError, match="played already"):
            aiter(pipe)

    virtual(scenario())


def test_transformers_27927_several_rows_stream_and_each_can_be_stopped() -> None:
    model, tokenizer = tiny_llama(), tiny_tokenizer()
    with StreamProcessor(model, tokenizer, engine="steps") as stream:
        outputs = stream.generate([[5, 6], [7, 8]], max_new_tokens=200)
        rows = set()
        for token in outputs:
            rows.add(token.row)
            if len(rows) == 2:
                break
        outputs.cancel()
        assert max(map(len, outputs.token_ids)) < 200


def test_transformers_32396_mlx_knife_73_a_token_costs_the_same_late_as_early() -> None:
    """Counted, not timed: how many characters a delivery joins or decodes does not grow with the answer."""
    tokenizer = _Counting(tiny_tokenizer())
    ids = tiny_tokenizer().encode("The handle stays cool. ") * 300
    streamed(ids, tokenizer)
    assert tokenizer.decoded <= 40 * len(ids)


class _Counting:
    def __init__(self, inner: Any) -> None:
        self._inner, self.decoded = inner, 0

    def encode(self, text: str) -> Any:
        return self._inner.encode(text)

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> Any:
        self.decoded += len(ids)
        return self._inner.decode(ids, skip_special_tokens=skip_special_tokens)


def test_openai_1181_litellm_8620_nothing_grows_with_the_number_of_streams() -> None:
    async def scenario() -> int:
        for _ in range(50):
            await _pull(stream.prompt("a"))
        gc.collect()
        return sum(str(type(each).__module__).startswith("multimodal.pipes") for each in gc.get_objects())

    words = Words("one two three four five")
    stream = StreamProcessor(ScriptEngine(words.ids), words)
    first = virtual(scenario())
    assert virtual(scenario()) <= first + 60  # the requests that a script notes


def test_vllm_5543_7845_a_kept_prefix_changes_no_text() -> None:
    with StreamProcessor(tiny_llama(), tiny_tokenizer(), engine="steps") as stream:
        prompt = [list(range(5, 60))]
        cold = stream.generate(prompt, max_new_tokens=30)
        texts = [cold.text, *(stream.generate(prompt, max_new_tokens=30).text for _ in range(2))]
        assert len(set(texts)) == 1
        assert stream.metrics.engine is not None
        assert stream.metrics.engine.cached_tokens > 0


def test_transformers_40479_many_at_once_lose_no_token_and_closing_does_not_hang() -> None:
    async def scenario() -> None:
        tokenizer = tiny_tokenizer()
        with StreamProcessor(tiny_llama(eos=EOS), tokenizer) as stream:
            prompts = [[5 + k, 6 + k, 7 + k] for k in range(12)]
            alone = [(await stream.generate([each], max_new_tokens=20)).token_ids[0] for each in prompts]
            together = [stream.generate([each], max_new_tokens=20) for each in prompts]
            await asyncio.gather(*(_ended(each) for each in together))
            assert [each.token_ids[0] for each in together] == alone

    run(scenario())


async def _ended(outputs: Any) -> None:
    await outputs


@pytest.fixture
def threads() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() <= before


def test_evener_178_a_late_stop_does_not_reach_the_next_answer(threads: None) -> None:
    async def scenario() -> None:
        words = Words("one two three four five")
        stream = StreamProcessor(ScriptEngine(words.ids, gap=0.1), words)
        first = stream.prompt("a")
        await anext(first)
        await first.aclose()
        second = stream.prompt("b")
        await anext(second)
        await first.aclose()  # the stop of the first comes again, late
        assert await _pull(second) == 4

    virtual(scenario())


def test_an_engine_that_puts_more_than_it_may_does_no_harm() -> None:
    class Talkative:
        def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
            for token in words.ids:
                mailbox.put(Step(token))
            mailbox.put(Step(words.ids[0], finish="stop"))
            mailbox.put(Step(words.ids[1]))

        def stats(self) -> Any:
            from multimodal.pipes.engine import EngineStats

            return EngineStats()

        def close(self) -> None: ...

    words = Words("one two three four five ")
    stream = StreamProcessor(Talkative(), words)
    check_text_pipe(lambda: stream.prompt("a"), text="one two three four five one ", run=virtual)
