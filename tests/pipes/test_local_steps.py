"""The step engine beyond what every engine promises: rows bit for bit, prefixes, prompts in pieces, memory."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.batching import Admission
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest, Sampling, Step
from multimodal.pipes.local_forward import Packed, Single, make_forward
from multimodal.pipes.local_kv import RowKV
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_pace import PrefillPace
from multimodal.pipes.local_prefixes import Prefixes
from multimodal.pipes.local_steps import StepEngine
from multimodal.pipes.pool import BytePool
from tests.tiny_models import VOCABULARY, tiny_bart, tiny_gpt2, tiny_llama, tiny_qwen, tiny_t5

CAUSAL = {"llama": tiny_llama, "gpt2": tiny_gpt2, "qwen": tiny_qwen}
MODELS = {**CAUSAL, "t5": tiny_t5, "bart": tiny_bart}
HANG = 60.0
TOKEN = 512
"""Bytes of keys and values of a tiny Llama's token: 2 layers, 2 heads of 16 numbers, keys and values, 4 bytes each."""


@pytest.fixture
def made() -> Iterator[Callable[..., StepEngine]]:
    engines: list[StepEngine] = []

    def make(model: Any = None, quant_mode: str | None = None, **settings: Any) -> StepEngine:
        local = model if isinstance(model, LocalModel) else LocalModel(model or tiny_llama(), quant_mode=quant_mode)
        engines.append(StepEngine(local, **{"pool_bytes": 2**22, **settings}))
        return engines[-1]

    yield make
    for each in engines:
        each.close()


def prompt(seed: int, length: int) -> tuple[int, ...]:
    dice = random.Random(seed)
    return tuple(dice.randrange(3, VOCABULARY) for _ in range(length))


PROMPTS = [prompt(seed, length) for seed, length in enumerate((1, 3, 4, 9, 30, 70, 17, 5, 50))]


def ask(engine: StepEngine, ids: Sequence[int], tokens: int = 24, capacity: int = 1000, **more: Any) -> Mailbox:
    mailbox = Mailbox(capacity)
    engine.submit(GenerationRequest(tuple(ids), max_new_tokens=tokens, **more), mailbox)
    return mailbox


def read(mailbox: Mailbox, count: int = 0) -> list[Step]:
    steps: list[Step] = []
    while not (steps and steps[-1].finish) and (not count or len(steps) < count):
        assert mailbox.wait_blocking(HANG), f"nothing came for {HANG} s after {len(steps)} steps"
        steps += mailbox.take()
    return steps


def ids(steps: Sequence[Step]) -> list[int]:
    return [each.token_id for each in steps]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def generated(model: Any, given: Sequence[int], tokens: int = 24, **how: Any) -> list[int]:
    tensor = torch.tensor([list(given)])
    out = model.generate(
        tensor, attention_mask=torch.ones_like(tensor), max_new_tokens=tokens, **{"do_sample": False, **how}
    )[0].tolist()
    found: list[int] = out[1:] if model.config.is_encoder_decoder else out[len(given) :]
    return found


# ---- the text


@pytest.mark.parametrize("quant_mode", [None, "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_the_text_of_each_row_is_that_of_generate(name: str, quant_mode: str | None, made: Any) -> None:
    local = LocalModel(MODELS[name](), quant_mode=quant_mode)
    engine = made(local)
    assert engine.packed
    prompts = PROMPTS[:: 1 if quant_mode is None else 2]
    boxes = [ask(engine, each, 16) for each in prompts]
    assert [ids(read(box)) for box in boxes] == [generated(local.model, each, 16) for each in prompts]


@pytest.mark.parametrize("quant_mode", [None, "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_e5_a_row_has_the_same_bits_alone_and_among_others(name: str, quant_mode: str | None, made: Any) -> None:
    # Probabilities to the last bit, not only the text; nothing is kept that could change how a prompt is read.
    settings = {"pool_bytes": 2**22, "keep_free": 0.999}
    crowd, alone = (made(MODELS[name](), quant_mode, **settings) for _ in range(2))
    boxes = []
    for index, each in enumerate(PROMPTS):  # they join late and leave early
        boxes.append(ask(crowd, each, 4 + 2 * index, logprobs=3))
        if index % 3 == 0:
            read_some = Mailbox(1000)
            crowd.submit(GenerationRequest(each, max_new_tokens=2), read_some)
            read(read_some)
    for index, (each, box) in enumerate(zip(PROMPTS, boxes, strict=True)):
        mine = [(step.token_id, step.logprob, step.top) for step in read(box)]
        own = read(ask(alone, each, 4 + 2 * index, logprobs=3))
        assert mine == [(step.token_id, step.logprob, step.top) for step in own]
    assert crowd.stats().row_steps / crowd.stats().steps > 1.5


def test_a_seeded_group_is_that_of_one_generate_call(made: Any) -> None:
    model = tiny_gpt2()
    engine = made(model)
    torch.manual_seed(5)
    given = torch.tensor([PROMPTS[4]])
    expected = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        do_sample=True,
        top_k=0,
        temperature=1.1,
        max_new_tokens=16,
        num_return_sequences=3,
    )[:, given.shape[1] :].tolist()
    boxes = [
        ask(engine, PROMPTS[4], 16, sampling=Sampling(temperature=1.1, seed=5, row=row, rows=3)) for row in range(3)
    ]
    assert [ids(read(box)) for box in boxes] == expected


def test_a_row_alone_on_a_model_that_cannot_be_packed(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.pipes.local_forward._may_pack", lambda local: False)
    for make in (tiny_qwen, tiny_t5, tiny_bart):
        model = make()
        engine = made(model)
        assert not engine.packed
        boxes = [ask(engine, each, 12) for each in PROMPTS[:5]]
        assert [ids(read(box)) for box in boxes] == [generated(model, each, 12) for each in PROMPTS[:5]]


def test_a_model_whose_packed_logits_differ_is_run_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalModel(tiny_llama())
    assert isinstance(make_forward(local), Packed)
    right = Packed._forward

    def wrong(self: Packed, *args: Any) -> Any:
        return right(self, *args).flip(-1)

    monkeypatch.setattr(Packed, "_forward", wrong)
    assert isinstance(make_forward(local), Single)


def test_a_model_given_as_an_object_is_not_changed_and_may_be_used_meanwhile(made: Any) -> None:
    model = tiny_llama()
    expected = generated(model, PROMPTS[4], 60)
    engine = made(model)
    box = ask(engine, PROMPTS[4], 60)
    assert generated(model, PROMPTS[4], 60) == expected == ids(read(box))
    assert model.config._attn_implementation != "multimodal_rows"
    assert engine.extra_bytes > 0
    owned = LocalModel(tiny_llama(), owned=True)
    second = made(owned)
    assert second.extra_bytes == 0
    assert generated(owned.model, PROMPTS[4], 60) == expected == ids(read(ask(second, PROMPTS[4], 60)))


# ---- prefixes


@pytest.mark.parametrize("name", CAUSAL)
def test_a_second_turn_reads_only_what_is_new_and_says_the_same(name: str, made: Any) -> None:
    warm, cold = made(CAUSAL[name]()), made(CAUSAL[name]())
    first = prompt(1, 50)
    answer = ids(read(ask(warm, first, 30)))
    second = (*first, *answer, *prompt(2, 12))
    before = warm.stats()
    box = ask(warm, second, 30)
    assert ids(read(box)) == ids(read(ask(cold, second, 30)))
    new = warm.stats().prefilled_tokens - before.prefilled_tokens
    # The last token of an answer was never read, and whole pieces of four are taken over.
    assert 13 <= new <= 13 + 3
    assert box.times.cached_tokens == len(second) - new
    assert cold.stats().cached_tokens == 0


def test_rows_of_one_prompt_read_it_once(made: Any) -> None:
    engine = made()
    boxes = [ask(engine, PROMPTS[5], 8) for _ in range(4)]
    texts = [ids(read(box)) for box in boxes]
    assert all(each == texts[0] for each in texts)
    assert engine.stats().prefilled_tokens < 2 * len(PROMPTS[5])


def test_what_is_kept_is_found_by_its_ids_alone() -> None:
    pool: BytePool[tuple[int, ...], RowKV] = BytePool(10_000, keep_free=0.0)
    kept = Prefixes(pool)

    def row(length: int) -> RowKV:
        kv = RowKV()
        kv.write(0, torch.zeros(1, 1, length, 4), torch.zeros(1, 1, length, 4))
        kv.length = length
        return kv

    ours = prompt(1, 40)
    kept.keep(ours, row(40))
    found = kept.find((*ours[:30], 1, 1, 1, 1, 1, 1, 1, 1))
    assert found is not None
    assert found[1] == 28  # whole quanta of the 30 that are shared
    same = kept.find(ours)
    assert same is not None
    assert same[1] == 36  # the last token is read in any case
    assert kept.find((ours[1], *ours)) is None
    assert kept.find(ours[:12]) is None
    kept.keep((*ours, *prompt(2, 10)), row(50))
    assert pool.keys() == [(*ours, *prompt(2, 10))]  # the shorter one is superfluous
    kept.keep(ours[:20], row(20))
    assert len(pool) == 1
    for seed in range(20, 60):
        kept.keep(prompt(seed, 40), row(40))
    assert pool.bytes <= 10_000
    assert set(kept._ids) == set(pool.keys())
    kept.clear()
    assert pool.bytes == 0


# ---- prompts in pieces


def test_a_long_prompt_is_read_in_pieces_beside_rows_that_speak(made: Any) -> None:
    engine = made(prefill_chunk=16)
    running = ask(engine, PROMPTS[3], 300)
    read(running, 40)
    before = engine.stats().steps
    late = ask(engine, prompt(9, 200), 10)
    text = ids(read(late))
    assert engine.stats().steps - before >= 200 // 16  # rows went on speaking meanwhile
    assert text == ids(read(ask(made(prefill_chunk=512), prompt(9, 200), 10)))
    assert late.times.submitted <= late.times.admitted <= late.times.prefilled


def test_pace_gives_way_to_rows_that_speak_and_takes_its_room_back() -> None:
    pace = PrefillPace(chunk=64, slowdown=2.0)
    assert pace.room(0) == 64
    start = pace.room(3)
    pace.measured(3, 0, 0.010)
    pace.measured(3, start, 0.050)
    assert pace.room(3) < start
    for _ in range(50):
        pace.measured(3, pace.room(3), 0.011)
    assert pace.room(3) == 64
    for _ in range(50):
        pace.measured(3, pace.room(3), 0.5)
    assert pace.room(3) == 4
    pace.measured(5, 4, 0.011)  # five rows never spoke alone: three did, and are near
    assert pace.room(5) == 8
    pace.measured(50, 8, 0.011)  # nothing is known that tells of fifty
    assert pace.room(50) == 8
    assert PrefillPace(chunk=64, slowdown=0).room(3) == 64
    with pytest.raises(UsageError, match="prefill_chunk=3"):
        PrefillPace(3)
    with pytest.raises(UsageError, match=r"prefill_slowdown=0\.5"):
        PrefillPace(slowdown=0.5)


# ---- readers and memory


def test_cancelled_at_any_step_a_row_gives_everything_back(made: Any) -> None:
    engine, dice = made(pool_bytes=2000 * TOKEN), random.Random(3)
    gone: list[tuple[Mailbox, int]] = []
    for number in range(60):
        box = ask(engine, PROMPTS[number % len(PROMPTS)], 100, capacity=200)
        if dice.random() < 0.8:
            read(box, dice.randrange(1, 12))
        box.close()
        gone.append((box, box.delivered))
    until(lambda: engine.stats().running + engine.stats().waiting == 0)
    stats = engine.stats()
    assert stats.cancelled == 60
    assert max(box.delivered - count for box, count in gone) <= 1
    assert stats.pool_bytes <= 0.7 * 2000 * TOKEN  # only kept prefixes, and those below keep_free
    engine.configure(pool_bytes=100 * TOKEN)
    assert engine.stats().pool_bytes <= 70 * TOKEN
    assert stats.pool_high_bytes <= 2000 * TOKEN


def test_a_slow_reader_keeps_neither_place_nor_memory_from_others(made: Any) -> None:
    model = tiny_llama()
    engine = made(model, max_rows=2, pool_bytes=200 * TOKEN, keep_free=0.0)
    slow = [ask(engine, PROMPTS[index], 30, capacity=2) for index in (4, 8)]
    until(lambda: all(each.full for each in slow))
    for _ in range(3):
        assert ids(read(ask(engine, PROMPTS[5], 60))) == generated(model, PROMPTS[5], 60)
    assert [each.delivered for each in slow] == [2, 2]
    for box, index in zip(slow, (4, 8), strict=True):
        assert ids(read(box)) == generated(model, PROMPTS[index], 30)


@pytest.mark.parametrize("make", [tiny_t5, tiny_bart])
def test_a_seq2seq_row_put_aside_goes_on_where_it_was(make: Any, made: Any) -> None:
    model = make()
    engine = made(model)
    need = engine._core._need(GenerationRequest(PROMPTS[5], max_new_tokens=30))
    engine.configure(pool_bytes=need)
    slow = ask(engine, PROMPTS[5], 30, capacity=3)
    until(lambda: slow.full)
    assert ids(read(ask(engine, PROMPTS[4], 30))) == generated(model, PROMPTS[4], 30)
    assert ids(read(slow)) == generated(model, PROMPTS[5], 30)


def test_more_rows_than_memory_wait_and_none_is_lost(made: Any) -> None:
    model = tiny_llama()
    engine = made(model, max_rows=16, pool_bytes=250 * TOKEN)
    boxes = [ask(engine, PROMPTS[5], 30, sampling=Sampling(temperature=1.0, seed=seed)) for seed in range(16)]
    lengths = [len(read(box)) for box in boxes]
    assert lengths == [30] * 16
    assert engine.stats().pool_high_bytes <= 250 * TOKEN


def test_max_rows_bounds_every_pass_and_is_live(made: Any) -> None:
    engine = made(max_rows=2)
    for box in [ask(engine, each, 12) for each in PROMPTS[:6]]:
        read(box)
    assert engine.stats().row_steps <= 2 * engine.stats().steps
    engine.configure(max_rows=6)
    before = engine.stats()
    boxes = [ask(engine, each, 40) for each in PROMPTS[:6]]
    for box in boxes:
        read(box)
    after = engine.stats()
    assert (after.row_steps - before.row_steps) / (after.steps - before.steps) > 2
    with pytest.raises(UsageError, match="max_rows=0"):
        engine.configure(max_rows=0)
    with pytest.raises(UsageError, match="keep_free"):
        engine.configure(keep_free=1.5)


def test_admission_decides_who_joins(made: Any) -> None:
    admission = Admission(window_size=0, semantic_cluster=False, dynamic_batch=False, max_rows=1)
    engine = made(max_rows=8, admission=admission)
    for box in [ask(engine, each, 10) for each in PROMPTS[:4]]:
        read(box)
    assert admission.taken == 4
    assert engine.stats().row_steps == engine.stats().steps
    gathering = Admission(window_size=200, semantic_cluster=False, dynamic_batch=False, max_rows=8)
    engine.configure(admission=gathering)
    long = ask(engine, PROMPTS[0], 400)
    read(long, 3)
    late = [ask(engine, each, 5) for each in PROMPTS[1:4]]
    for box in late:
        read(box)
    assert gathering.takes == 2
    assert len({box.times.admitted for box in late}) <= 3
    assert max(box.times.admitted for box in late) - min(box.times.admitted for box in late) < 0.1
    long.close()


def test_a_governor_is_asked_after_each_step_and_its_rest_ends_with_the_engine(made: Any) -> None:
    class Strict:
        asked: list[float] = []  # noqa: RUF012

        def pace(self, cpu_seconds_used: float, now: float) -> float:
            self.asked.append(cpu_seconds_used)
            return 0.0 if len(self.asked) < 20 else 1000.0

    governor = Strict()
    engine = made(governor=governor)
    read(ask(engine, PROMPTS[3], 5))
    until(lambda: len(governor.asked) >= 5)
    assert governor.asked == sorted(governor.asked)
    ask(engine, PROMPTS[3], 100)
    until(lambda: len(governor.asked) == 20)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < HANG


# ---- what is refused, and what fails


@pytest.mark.parametrize(
    ("given", "tokens", "what"),
    [
        ((5, VOCABULARY), 5, r"token 320; .* 0 to 319"),
        ((-1,), 5, r"prompt_ids\[0\] is -1"),
        ((5,), 512, "513 positions"),
    ],
)
def test_what_the_model_does_not_have_is_refused_at_once(given: Any, tokens: int, what: str, made: Any) -> None:
    with pytest.raises(UsageError, match=what):
        ask(made(), given, tokens)


def test_what_can_never_fit_is_refused_and_says_what_would_help(made: Any) -> None:
    with pytest.raises(UsageError, match="raise pool_bytes"):
        ask(made(pool_bytes=100 * TOKEN), PROMPTS[5], 100)
    for wrong in (
        {"max_rows": 0},
        {"prefill_chunk": 1},
        {"prefill_slowdown": 1.0},
        {"keep_free": 2},
        {"pool_bytes": 0},
    ):
        with pytest.raises(UsageError):
            made(**wrong)
    with pytest.raises(UsageError, match="warm_up"):
        made().warm_up(-1)


def test_a_row_that_fails_fails_alone(made: Any) -> None:
    engine = made()
    expected = ids(read(ask(engine, PROMPTS[4], 30)))
    forward = engine._core.forward
    run = forward.run

    def poisoned(work: Any) -> Any:
        if any(7 in each.ids for each in work):
            raise RuntimeError("seven")
        return run(work)

    forward.run = poisoned
    boxes = [ask(engine, PROMPTS[4], 30), ask(engine, (5, 6, 7, 8), 30)]
    with pytest.raises(Exception, match=r"RuntimeError: seven"):
        read(boxes[1])
    assert ids(read(boxes[0])) == expected
    assert engine.stats().failed == 1


def test_after_a_fault_of_the_engine_itself_the_next_is_served(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made(max_rows=2)
    expected = ids(read(ask(engine, PROMPTS[0])))
    stepper = engine._core.stepper
    with monkeypatch.context() as patch:
        step = stepper.step

        def short_of_memory() -> bool:
            if stepper.everyone():
                raise MemoryError("no room")
            return bool(step())

        patch.setattr(stepper, "step", short_of_memory)
        with pytest.raises(PipeError, match="MemoryError: no room"):
            read(ask(engine, PROMPTS[0]))
    assert ids(read(ask(engine, PROMPTS[0]))) == expected
    engine.close()


def test_a_fault_of_the_engine_itself_reaches_everyone_and_is_told_to_those_who_come(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = made(max_rows=2)
    boxes = [ask(engine, each, 400) for each in PROMPTS[:4]]
    read(boxes[0], 2)
    monkeypatch.setattr(engine._core.stepper, "_drop_closed", lambda: 1 / 0)
    for box in boxes:
        with pytest.raises(Exception, match="ZeroDivisionError"):
            read(box)
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        ask(engine, PROMPTS[0])
    assert engine.stats().pool_bytes == 0
    engine.close()


def test_warm_up_runs_prompts_and_leaves_a_thread_only_until_close(made: Any) -> None:
    before = threading.active_count()
    engine = made()
    assert engine.warm_up(11) == 11
    assert engine.stats().finished == 11
    assert threading.active_count() == before + 1
    engine.close()
    engine.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "sizes", [[(2, 4, 4)] * 3, [(2, 4, 4), (1, 4, 4), (2, 8, 8)], [(2, 4, 6)] * 3, [(2, 4, 4)] * 4]
)
def test_keys_and_values_are_what_was_written_whatever_the_layers_look_like(sizes: list[tuple[int, int, int]]) -> None:
    torch.manual_seed(0)
    whole = [(torch.randn(1, heads, 40, k), torch.randn(1, heads, 40, v)) for heads, k, v in sizes]
    kv = RowKV(4, 64, 3)

    def passes(into: RowKV, counts: list[int]) -> None:
        for count in counts:
            into.open(count)
            at = into.length
            for layer, (keys, values) in enumerate(whole):
                into.write(layer, keys[:, :, at : at + count], values[:, :, at : at + count])
                for first in (0, at // 2):
                    found = into.read(layer, first, at + count)
                    assert torch.equal(found[0], keys[:, :, first : at + count])
                    assert torch.equal(found[1], values[:, :, first : at + count])
            into.close()
            into.length += count

    passes(kv, [3, 1, 1, 9, 1])
    other = RowKV(4, 64, 3)
    other.copy_from(kv, 7)
    passes(other, [2, 1, 20])
    passes(kv, [1, 1])
