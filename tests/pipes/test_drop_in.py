"""`StreamProcessor.generate` stands in for `model.generate`: equal tensors, the same arguments, honest refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from multimodal.errors import UsageError
from multimodal.pipes.drop_in import ModelFacts, read_generate
from multimodal.pipes.generation import GenerationRequest, Sampling
from multimodal.pipes.local import LocalTextPipe
from multimodal.pipes.processor import StreamProcessor
from tests.support import run
from tests.tiny_models import tiny_bart, tiny_llama, tiny_t5, tiny_tokenizer

MANY_ENDS = list(range(100, 140))
"""Ends enough that rows end at different lengths."""
_CONFIG = {"repetition_penalty": 1.2, "pad_token_id": 3}
IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]])
LEFT = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])


@pytest.fixture(scope="module", params=["llama manager", "llama steps", "t5 steps"])
def stream(request: pytest.FixtureRequest) -> Iterator[StreamProcessor]:
    kind, engine = request.param.split()
    model = tiny_llama() if kind == "llama" else tiny_t5()
    with StreamProcessor(model, tiny_tokenizer(), engine=engine) as stream:
        yield stream


def model_of(stream: StreamProcessor) -> Any:
    return stream._source.local.model  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"max_new_tokens": 12},
        {"max_length": 14},
        {"max_new_tokens": 16, "eos_token_id": MANY_ENDS, "pad_token_id": 3},
        {"max_new_tokens": 16, "eos_token_id": MANY_ENDS, "min_new_tokens": 6},
        {"max_new_tokens": 16, "eos_token_id": 100, "min_length": 9},
        {"max_new_tokens": 12, "repetition_penalty": 1.3},
        {"max_new_tokens": 8, "attention_mask": LEFT},
        {"max_new_tokens": 8, "attention_mask": torch.ones_like(IDS)},
        {"generation_config": "config", "max_new_tokens": 9},
    ],
    ids=lambda kwargs: " ".join(kwargs),
)
def test_greedy_tensors_are_equal(stream: StreamProcessor, kwargs: dict[str, Any]) -> None:
    if "generation_config" in kwargs:
        from transformers import GenerationConfig

        kwargs = {**kwargs, "generation_config": GenerationConfig(**_CONFIG)}  # type: ignore[no-untyped-call]
    expected = model_of(stream).generate(IDS, **kwargs)
    outputs = stream.generate(IDS, **kwargs)
    assert torch.equal(outputs.sequences, expected)
    assert outputs.shape == expected.shape
    assert all(torch.equal(outputs[row], expected[row]) for row in range(len(outputs)))


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"temperature": 0.7, "top_k": 12, "top_p": 0.9},
        {"top_k": None, "repetition_penalty": 1.2},
        {"num_return_sequences": 2, "eos_token_id": MANY_ENDS},
    ],
    ids=str,
)
def test_seeded_sampling_gives_equal_tensors(stream: StreamProcessor, kwargs: dict[str, Any]) -> None:
    kwargs = {"do_sample": True, "max_new_tokens": 12, **kwargs}
    torch.manual_seed(11)
    expected = model_of(stream).generate(IDS, **kwargs)
    assert torch.equal(stream.generate(IDS, seed=11, **kwargs).sequences, expected)
    torch.manual_seed(11)
    first = stream.generate(IDS, **kwargs).sequences
    assert torch.equal(first, expected)
    second = stream.generate(IDS, **kwargs).sequences
    assert not torch.equal(first, second)
    torch.manual_seed(11)
    stream.generate(IDS, **kwargs)
    assert torch.equal(stream.generate(IDS, **kwargs).sequences, second)


def test_lists_ragged_rows_and_one_dimension(stream: StreamProcessor) -> None:
    model = model_of(stream)
    solo = [model.generate(torch.tensor([row]), max_new_tokens=6) for row in ([5, 6, 7], [8, 9])]
    outputs = stream.generate([[5, 6, 7], [8, 9]], max_new_tokens=6)
    assert outputs.token_ids == [each[0, -6:].tolist() for each in solo]
    assert torch.equal(stream.generate([5, 6, 7], max_new_tokens=6).sequences, solo[0])
    assert torch.equal(stream.generate(inputs=torch.tensor([5, 6, 7]), max_new_tokens=6).sequences, solo[0])


def test_padding_on_the_right_is_left_out(stream: StreamProcessor) -> None:
    right = stream.generate([[5, 6, 7, 3, 3]], attention_mask=[[1, 1, 1, 0, 0]], max_new_tokens=6)
    assert right.token_ids == stream.generate([[5, 6, 7]], max_new_tokens=6).token_ids


def test_stop_strings_end_a_row_as_there(stream: StreamProcessor) -> None:
    tokenizer, model = tiny_tokenizer(), model_of(stream)
    free = stream.generate(IDS[:1], max_new_tokens=40)
    words = [tokenizer.decode([token]) for token in free.token_ids[0][2:]]
    stop = next((word for word in words if word.isascii() and word.isprintable()), "no such word")
    expected = model.generate(IDS[:1], max_new_tokens=40, stop_strings=[stop], tokenizer=tokenizer)
    outputs = stream.generate(IDS[:1], max_new_tokens=40, stop_strings=[stop], tokenizer=tokenizer)
    assert torch.equal(outputs.sequences, expected)
    assert outputs.finish_reasons == ["stop" if stop in words else "length"]
    assert stop not in outputs.text
    assert outputs.text == tokenizer.decode(outputs.token_ids[0], skip_special_tokens=True).split(stop)[0]


def test_tokens_come_one_by_one_while_the_tensor_is_the_same(stream: StreamProcessor) -> None:
    outputs = stream.generate(IDS, max_new_tokens=10)
    rows: list[list[int]] = [[], []]
    for token in outputs:
        rows[token.row].append(token.token_id)
    assert rows == outputs.sequences[:, -10:].tolist()

    async def inside_a_loop() -> list[list[int]]:
        again: list[list[int]] = [[], []]
        async for token in stream.generate(IDS, max_new_tokens=10):
            again[token.row].append(token.token_id)
        assert stream.generate(IDS[:1], max_new_tokens=3).shape[0] == 1  # blocking is allowed, as in a notebook
        return again

    assert run(inside_a_loop()) == rows


def test_awaiting_leaves_the_loop_free(stream: StreamProcessor) -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(other())
            outputs = await stream.generate(IDS, max_new_tokens=20)
            assert outputs.done
            task.cancel()
        return turns

    assert run(scenario()) > 5


def test_logprobs_are_those_of_the_model(stream: StreamProcessor) -> None:
    model = model_of(stream)
    outputs = stream.generate(IDS[:1], max_new_tokens=4, logprobs=2)
    reference = model.generate(IDS[:1], max_new_tokens=4, output_logits=True, return_dict_in_generate=True)
    for step, logits in zip(outputs.logprobs[0], reference.logits, strict=True):
        logs = logits[0].float().log_softmax(-1)
        assert step.logprob == pytest.approx(float(logs[step.token_id]), abs=1e-3)
        assert [token for token, _ in step.top] == logs.topk(2).indices.tolist()


def read(ids: object = (1, 2), defaults: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    facts = ModelFacts(defaults or {}, max_positions=32, vocabulary=50)
    return read_generate(list(ids) if isinstance(ids, tuple) else ids, kwargs, facts, lambda: None)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"num_beams": 4}, "beam search rewrites.*pass num_beams=1"),
        ({"num_beam_groups": 2}, "beam search"),
        ({"constraints": [1]}, "no such rule"),
        ({"assistant_model": object()}, "assisted decoding"),
        ({"prompt_lookup_num_tokens": 3}, "assisted decoding"),
        ({"streamer": object()}, "the result itself is the stream"),
        ({"stopping_criteria": [1]}, "stop_strings"),
        ({"logits_processor": [1]}, "no such rule"),
        ({"no_repeat_ngram_size": 2}, "no such rule"),
        ({"min_p": 0.1, "do_sample": True}, "temperature, top_k, top_p"),
        ({"use_cache": False}, "without a cache"),
        ({"cache_implementation": "static"}, "one cache for all rows"),
        ({"output_scores": True}, "logprobs=k"),
        ({"max_time": 1.0}, r"\.cancel\(\)"),
        ({"token_type_ids": [[0, 0]]}, "input_ids and attention_mask alone"),
        ({"max_new_token": 3}, "did you mean max_new_tokens"),
        ({"wholly_unknown": 3}, "nothing is passed on unread"),
        ({"num_return_sequences": 2}, "would give equal rows"),
        ({"do_sample": True, "temperature": 0.0}, "contradict"),
        ({"do_sample": True, "top_p": 0.0}, "top_p=0.0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"max_length": 2}, "leaves none"),
        ({"attention_mask": [[1, 1, 1]]}, "another shape"),
        ({"attention_mask": [[0, 0]]}, "all padding"),
        ({"stop_strings": [""]}, "not empty"),
        ({"eos_token_id": "x"}, "whole numbers"),
        ({"logprobs": 100}, "logprobs=100"),
        ({"generation_config": 3}, "give a GenerationConfig"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_done_is_refused_with_the_reason(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(**kwargs)


@pytest.mark.parametrize("ids", [[], [[]], [[1], []], "text", 5, [1.5], [[1, -1]], [True], [[1, 99]], [[[1]]]])
def test_what_is_no_prompt_is_refused(ids: object) -> None:
    with pytest.raises(UsageError, match="input_ids"):
        read(ids)


def test_holes_in_a_mask_are_no_padding() -> None:
    with pytest.raises(UsageError, match="leaves out tokens in the middle"):
        read([[1, 2, 3]], attention_mask=[[1, 0, 1]])


def test_arguments_that_ask_for_nothing_pass() -> None:
    nothing: dict[str, Any] = {
        "num_beams": 1,
        "streamer": None,
        "use_cache": True,
        "output_scores": False,
        "min_p": None,
    }
    assert read(**nothing) == read()


def test_the_models_own_config_is_read_as_model_generate_reads_it() -> None:
    own = {"max_new_tokens": 7, "do_sample": True, "top_k": 9, "eos_token_id": [4, 5], "pad_token_id": 3}
    request = read(defaults=own).requests[0]
    assert (request.max_new_tokens, request.sampling.top_k, request.eos_ids) == (7, 9, (4, 5))
    assert read(defaults=own, do_sample=False, eos_token_id=None).requests[0].eos_ids == ()
    assert read(defaults={"early_stopping": True, "length_penalty": 2.0, "cache_implementation": "hybrid"}).requests
    with pytest.raises(UsageError, match=r"own generation config asks for it.*beam search"):
        read(defaults={"num_beams": 4})
    assert read(defaults={"num_beams": 4}, num_beams=1).requests
    with pytest.raises(UsageError, match="own generation config asks for it"):
        read(defaults={"no_repeat_ngram_size": 3})
    assert read(defaults={"min_p": 0.1}).requests
    with pytest.raises(UsageError, match="own generation config"):
        read(defaults={"min_p": 0.1}, do_sample=True)
    assert read([1] * 30).requests[0].max_new_tokens == 2  # 20, or what the positions leave


def test_a_model_whose_config_asks_for_what_cannot_be_streamed_says_so() -> None:
    model = tiny_bart()
    model.generation_config.forced_bos_token_id = 0
    with StreamProcessor(model, tiny_tokenizer()) as stream, pytest.raises(UsageError, match="forced_bos_token_id"):
        stream.generate([[5, 6]])


WRONG_SAMPLING = [
    *[("seed", value) for value in ("x", 1.5, True, 2**64, 2**70, -(2**63) - 1)],
    *[("top_k", value) for value in (5.5, "5", True, -1, 2**40)],
    *[("temperature", value) for value in ("1", -0.1, True, float("nan"), float("inf"), 10**400, [1])],
    *[("top_p", value) for value in ("x", 0, 1.1, True)],
    *[("repetition_penalty", value) for value in ("x", 0, True, 1j)],
]
WRONG_REQUEST = [
    *[("logprobs", value) for value in (2.5, "2", True, 21, -1)],
    *[("min_new_tokens", value) for value in (2.5, "2", True, -1)],
    *[("max_new_tokens", value) for value in (2.5, "2", True, 0)],
]
WRONG_IDS = [("eos_ids", value) for value in (3, "12", b"12", ("1",), (1.5,), (True,), (-1,), {2})]


@pytest.mark.parametrize(("name", "value"), WRONG_SAMPLING)
def test_a_wrong_setting_of_sampling_is_refused_where_it_is_made(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{name}=.*(whole number|a number) (from|above)"):
        Sampling(**{name: value})


@pytest.mark.parametrize(("name", "value"), [*WRONG_REQUEST, *WRONG_IDS, ("context", 3), ("sampling", 3)])
def test_a_wrong_setting_of_a_request_is_refused_where_it_is_made(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{name}.*(give a|token ids are)"):
        GenerationRequest((1, 2), **{name: value})


@pytest.mark.parametrize("ids", [3, "12", (1.5,), (-1,), (True,)])
def test_a_prompt_is_token_ids(ids: Any) -> None:
    with pytest.raises(UsageError, match=r"^prompt_ids"):
        GenerationRequest(ids)


@pytest.mark.parametrize(("name", "value"), [*WRONG_SAMPLING, *WRONG_REQUEST, *WRONG_IDS[:-1]])
def test_every_way_in_refuses_a_wrong_setting(stream: StreamProcessor, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        stream.prompt("a kettle", **{name: value})
    with pytest.raises(UsageError, match=name):
        LocalTextPipe(stream._source.engine, "a kettle", tokenizer=tiny_tokenizer(), **{name: value})
    if name != "eos_ids":
        for sample in (True, False):
            with pytest.raises(UsageError, match=name):
                stream.generate([[1, 2]], do_sample=sample, **{name: value})


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**64 - 1])
def test_every_seed_that_torch_takes_is_taken(stream: StreamProcessor, seed: int) -> None:
    ids = stream.generate([[1, 2]], do_sample=True, seed=seed, max_new_tokens=4).tolist()
    assert ids == stream.generate([[1, 2]], do_sample=True, seed=seed, max_new_tokens=4).tolist()


def test_other_numbers_become_pythons_own() -> None:
    how = Sampling(np.float32(0.5), np.int64(5), Fraction(1, 2), 10**20, np.int64(3))  # type: ignore[arg-type]
    assert how == Sampling(0.5, 5, 0.5, 1e20, 3)
    assert [type(each) for each in (how.temperature, how.top_k, how.top_p, how.repetition_penalty, how.seed)] == [
        *(float, int, float, float, int)
    ]


def test_a_negative_end_token_ends_nothing() -> None:
    assert read(eos_token_id=-1).requests[0].eos_ids == ()
    assert read(eos_token_id=[-1, 3]).requests[0].eos_ids == (3,)
    with pytest.raises(UsageError, match="stop_strings=3"):
        read(stop_strings=3)
