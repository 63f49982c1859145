"""Samplers against transformers' own processors and against `model.generate` under a seed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as theirs

from multimodal.errors import UsageError
from multimodal.pipes.generation import GenerationRequest, Sampling
from multimodal.pipes.local_sampling import BadLogitsError, Sampler, choose_rows
from tests.tiny_models import tiny_gpt2, tiny_llama

PROMPT = (300, 285, 266, 86, 277, 223)


def request(prompt: tuple[int, ...] = PROMPT, **given: Any) -> GenerationRequest:
    names = set(Sampling.__struct_fields__)
    how = Sampling(**{k: v for k, v in given.items() if k in names})
    return GenerationRequest(prompt, sampling=how, **{k: v for k, v in given.items() if k not in names})


def generate(model: Any, how: GenerationRequest, rows: int | None = None) -> list[list[int]]:
    """What our samplers make of a model, run over the whole text at each step: no cache, no engine."""
    made: list[list[int]] = []
    count = how.sampling.rows if rows is None else rows
    for row in range(count):
        s = how.sampling
        sampling = Sampling(s.temperature, s.top_k, s.top_p, s.repetition_penalty, s.seed, row, s.rows)
        sampler, ids = Sampler(request_like(how, sampling), how.prompt_ids), list(how.prompt_ids)
        while True:
            step = sampler.choose(model(torch.tensor([ids])).logits[0, -1])
            ids.append(step.token_id)
            if step.finish:
                break
        made.append(ids)
    return made


def request_like(how: GenerationRequest, sampling: Sampling) -> GenerationRequest:
    return GenerationRequest(
        how.prompt_ids, how.max_new_tokens, sampling, how.eos_ids, how.logprobs, how.min_new_tokens
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([0, 1, 5, 50, 1000]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 0.999, 1.0]),
    penalty=st.sampled_from([0.8, 1.0, 1.3]),
    least=st.sampled_from([0, 2]),
)
def test_scores_are_those_of_transformers(
    seed: int, temperature: float, top_k: int, top_p: float, penalty: float, least: int
) -> None:
    logits = torch.randn(1, 200, generator=torch.Generator().manual_seed(seed)) * 4
    logits[0, 7:9] = logits[0, 3]  # ties
    ids, eos = torch.tensor([[5, 9, 9, 3]]), (2, 9)
    chain: list[Any] = []
    if penalty != 1:
        chain.append(theirs.RepetitionPenaltyLogitsProcessor(penalty))
    if least:
        chain.append(theirs.MinNewTokensLengthLogitsProcessor(4, least, list(eos)))
    if temperature != 1:
        chain.append(theirs.TemperatureLogitsWarper(temperature))
    if top_k:
        chain.append(theirs.TopKLogitsWarper(top_k))
    if top_p < 1:
        chain.append(theirs.TopPLogitsWarper(top_p))
    expected = logits
    for each in chain:
        expected = each(ids, expected)
    sampler = Sampler(
        request(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=penalty,
            eos_ids=eos,
            min_new_tokens=least,
        ),
        (5, 9, 9, 3),
    )
    before = logits.clone()
    assert torch.equal(sampler.scores(logits), expected)
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9},
        {"temperature": 1.3, "repetition_penalty": 1.4},
        {"temperature": 0.9, "min_new_tokens": 8},
    ],
)
def test_a_seed_gives_the_text_of_a_seeded_generate(how: dict[str, Any]) -> None:
    model = tiny_gpt2(eos=[2, 74, 260])
    for seed in range(4):
        asked = request(seed=seed, max_new_tokens=24, eos_ids=(2, 74, 260), **how)
        torch.manual_seed(seed)
        kwargs = {"top_k": 0, **how}
        expected = model.generate(torch.tensor([PROMPT]), do_sample=True, max_new_tokens=24, **kwargs)
        assert generate(model, asked) == expected.tolist()


def test_rows_of_a_group_draw_as_the_rows_of_one_generate_call() -> None:
    model = tiny_gpt2(eos=[2, 74, 260])
    torch.manual_seed(11)
    expected = model.generate(
        torch.tensor([PROMPT]), do_sample=True, top_k=0, max_new_tokens=24, num_return_sequences=4
    ).tolist()
    made = generate(model, request(temperature=1.0, seed=11, rows=4, max_new_tokens=24, eos_ids=(2, 74, 260)))
    assert [ids + [0] * (len(expected[0]) - len(ids)) for ids in made] == expected
    assert len({tuple(ids) for ids in made}) == 4


def test_a_group_chosen_at_once_and_one_that_lags_draw_the_same() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    asked = [request(temperature=1.0, seed=5, rows=3, row=row) for row in range(3)]
    together = [Sampler(each) for each in asked]
    at_once = [[s.token_id for s in choose_rows(together, logits)] for _ in range(6)]
    lagging = [Sampler(each) for each in asked]
    apart = [[sampler.choose(logits[row]).token_id for _ in range(6)] for row, sampler in enumerate(lagging)]
    assert [list(each) for each in zip(*at_once, strict=True)] == apart


def test_neither_neighbours_nor_the_global_generator_matter() -> None:
    logits = torch.randn(4, 90, generator=torch.Generator().manual_seed(2))
    alone = Sampler(request(temperature=1.0, seed=3))
    expected = [alone.choose(logits[0]).token_id for _ in range(10)]
    beside = [Sampler(request(temperature=1.0, seed=3)), *(Sampler(request(temperature=1.0)) for _ in range(3))]
    made = []
    for _ in range(10):
        torch.rand(1)
        made.append(choose_rows(beside, logits)[0].token_id)
    assert made == expected
    state = torch.random.get_rng_state()
    choose_rows(beside, logits)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_no_seed_is_random() -> None:
    logits = torch.zeros(1, 1000)
    assert len({Sampler(request(temperature=1.0)).choose(logits[0]).token_id for _ in range(8)}) > 1


def test_greedy_is_argmax_also_where_two_are_equal() -> None:
    logits = torch.zeros(3, 40)
    logits[0, [7, 9]] = logits[1, [3, 39]] = 1.0
    samplers = [Sampler(request()) for _ in range(3)]
    assert [each.token_id for each in choose_rows(samplers, logits)] == logits.argmax(-1).tolist()


def test_greedy_with_a_penalty_is_generate() -> None:
    model = tiny_llama()
    expected = model.generate(
        torch.tensor([PROMPT]), do_sample=False, max_new_tokens=40, repetition_penalty=1.5
    ).tolist()
    assert generate(model, request(max_new_tokens=40, repetition_penalty=1.5)) == expected


def test_logprobs_are_those_after_the_processors() -> None:
    logits = torch.randn(60, generator=torch.Generator().manual_seed(4))
    step = Sampler(request(temperature=0.5, top_k=3, seed=0, logprobs=5)).choose(logits)
    kept = torch.topk(logits, 3)
    expected = torch.log_softmax(kept.values / 0.5, -1)
    assert [token for token, _ in step.top] == kept.indices.tolist()
    assert [value for _, value in step.top] == pytest.approx(expected.tolist(), abs=1e-5)
    assert step.logprob == pytest.approx(dict(step.top)[step.token_id])
    assert math.fsum(math.exp(value) for _, value in step.top) == pytest.approx(1, abs=1e-5)
    assert Sampler(request(logprobs=0)).choose(logits).top == ()
    assert Sampler(request()).choose(logits).logprob is None


def test_it_ends_at_an_end_token_or_at_the_limit() -> None:
    logits = torch.zeros(10)
    logits[4] = 1
    assert Sampler(request(eos_ids=(1, 4))).choose(logits, 2.5).finish == "stop"
    sampler = Sampler(request(max_new_tokens=2))
    assert [sampler.choose(logits).finish for _ in range(2)] == ["", "length"]
    forced = Sampler(request(eos_ids=(4, 99), min_new_tokens=2))
    tokens = [forced.choose(logits) for _ in range(3)]
    assert [each.token_id == 4 for each in tokens] == [False, False, True]
    assert tokens[2].finish == "stop"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_numbers_fail_before_anything_is_drawn(value: float) -> None:
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(0))
    samplers = [Sampler(request(temperature=1.0, seed=1)) for _ in range(3)]
    logits[1, 5] = value
    with pytest.raises(BadLogitsError, match="row 1") as failed:
        choose_rows(samplers, logits)
    assert failed.value.rows == (1,)
    fresh = Sampler(request(temperature=1.0, seed=1)).choose(logits[0])
    assert samplers[0].choose(logits[0]).token_id == fresh.token_id
    with pytest.raises(BadLogitsError):
        Sampler(request()).choose(torch.full((20,), -math.inf))


def test_a_row_beyond_its_group_is_refused() -> None:
    with pytest.raises(UsageError, match="row=2"):
        Sampling(row=2, rows=2)
    with pytest.raises(UsageError, match="rows=0"):
        Sampling(rows=0)
