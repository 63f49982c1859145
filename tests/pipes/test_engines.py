"""E1-E6, by one suite for every engine: transformers' manager and the step loop over models, and the scripted one."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest, Sampling, Step
from multimodal.pipes.local_engines import EngineKind, make_engine
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_sampling import Sampler
from multimodal.pipes.script_engine import ScriptEngine
from tests.support import run
from tests.tiny_models import tiny_bart, tiny_gpt2, tiny_llama, tiny_qwen, tiny_t5

LOCAL = ("manager", "steps")
PROMPTS = [tuple((7 * row + 3 * place) % 317 + 3 for place in range(5 + 4 * row)) for row in range(8)]
HANG = 60.0


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    # transformers collects garbage whenever a manager ends; what is there before these tests need not be looked at.
    tiny_llama()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()
    left = [each for each in threading.enumerate() if each not in before]
    for each in left:
        each.join(5)
    assert not [each for each in left if each.is_alive()]


@pytest.fixture(params=[*LOCAL, "script"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = an_engine(request.param)
    yield made
    made.close()


@pytest.fixture(params=LOCAL)
def kind(request: pytest.FixtureRequest) -> EngineKind:
    name: EngineKind = request.param
    return name


def an_engine(kind: str, model: Any = None, **settings: Any) -> Any:
    if kind == "script":
        return ScriptEngine(lambda request: [request.prompt_ids[0]] * 500, gap=0.0005, **settings)
    return make_engine(LocalModel(model or tiny_llama()), kind, **{"pool_bytes": 2**22, **settings})  # type: ignore[arg-type]


def ask(engine: Any, ids: Sequence[int], tokens: int = 12, mailbox: Mailbox | None = None, **more: Any) -> Mailbox:
    mailbox = mailbox or Mailbox(1000)
    engine.submit(GenerationRequest(tuple(ids), max_new_tokens=tokens, **more), mailbox)
    return mailbox


def read(mailbox: Mailbox, tokens: int = 0) -> list[Step]:
    """To the end, or until so many tokens are there; raises what the engine failed with."""
    steps: list[Step] = []
    while not (steps and steps[-1].finish) and (not tokens or len(steps) < tokens):
        assert mailbox.wait_blocking(HANG), f"nothing came for {HANG} s after {len(steps)} steps"
        steps += mailbox.take()
    return steps


def ids(steps: Sequence[Step]) -> list[int]:
    return [step.token_id for step in steps]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def generated(model: Any, prompt: Sequence[int], tokens: int = 12) -> list[int]:
    import torch

    given = torch.tensor([list(prompt)])
    out = model.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False, eos_token_id=None
    )
    found: list[int] = out[0].tolist()
    # An encoder-decoder model's answer begins with the decoder's start.
    return found[1:] if model.config.is_encoder_decoder else found[len(prompt) :]


def test_e1_steps_come_in_order_to_whoever_asked_from_any_thread(engine: Any) -> None:
    mailboxes: list[Mailbox] = []
    threads = [
        threading.Thread(target=lambda prompt=prompt: mailboxes.append(ask(engine, prompt))) for prompt in PROMPTS
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(HANG)
    assert len(mailboxes) == len(PROMPTS)
    for mailbox in mailboxes:
        steps = read(mailbox)
        assert len(steps) == 12
        assert [step.finish for step in steps] == [""] * 11 + ["length"]
        assert all(one.at <= other.at for one, other in itertools.pairwise(steps))
        times = mailbox.times
        assert times.submitted <= times.admitted <= times.prefilled <= steps[0].at


def test_e1_submit_does_not_wait_for_the_engine(engine: Any) -> None:
    first = ask(engine, PROMPTS[0], 100)
    read(first, 1)
    later = [ask(engine, prompt, 100) for prompt in PROMPTS]
    assert not any(each.ended for each in later)
    for each in (first, *later):
        each.close()


def test_e1_two_event_loops_read_from_one_engine(kind: EngineKind) -> None:
    engine = an_engine(kind)

    async def read_here(prompt: tuple[int, ...]) -> list[int]:
        mailbox = ask(engine, prompt)
        steps: list[Step] = []
        while not (steps and steps[-1].finish):
            await mailbox.wait()
            steps += mailbox.take()
        return ids(steps)

    async def several() -> list[list[int]]:
        return await asyncio.gather(*(read_here(prompt) for prompt in PROMPTS))

    found: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(run(several()))) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(HANG)
    engine.close()
    assert len(found) == 2
    assert found[0] == found[1]


def test_e2_nothing_follows_the_last_step(engine: Any) -> None:
    mailbox = ask(engine, PROMPTS[0], 3)
    read(mailbox)
    read(ask(engine, PROMPTS[1], 20))
    assert mailbox.take() == []
    assert mailbox.delivered == 3
    until(lambda: engine.stats().finished == 2)
    assert engine.stats().running == 0


def test_e2_an_exception_in_a_step_reaches_everyone_and_the_next_is_served(
    kind: EngineKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_llama()
    engine = an_engine(kind, model, max_rows=4)
    expected = generated(model, PROMPTS[0])
    running = [ask(engine, prompt, 200) for prompt in PROMPTS]  # four of them wait
    read(running[0], 3)

    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("boom")

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "forward", fails)
        for mailbox in running:
            with pytest.raises(Exception, match="boom"):
                read(mailbox)
    assert ids(read(ask(engine, PROMPTS[0]))) == expected
    assert engine.stats().failed == len(running)
    engine.close()


@pytest.mark.parametrize("kind_of", [SystemExit, KeyboardInterrupt])
def test_e2_whatever_fails_reaches_everyone_and_the_next_is_served(
    kind: EngineKind, kind_of: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_llama()
    engine = an_engine(kind, model, max_rows=4)
    running = [ask(engine, prompt, 200) for prompt in PROMPTS]  # four of them wait
    read(running[0], 3)

    def ends(*_: Any, **__: Any) -> Any:
        raise kind_of("over")

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "forward", ends)
        for mailbox in running:
            with pytest.raises(Exception, match=f"{kind_of.__name__}: over"):
                read(mailbox)
    assert ids(read(ask(engine, PROMPTS[0]))) == generated(model, PROMPTS[0])
    engine.close()


@pytest.mark.parametrize("where", ["scores", "_pick", "_noise", "_own", "_step"])
@pytest.mark.parametrize("after", [0, 3])
def test_e2_a_sampler_that_fails_ends_its_row_alone(
    kind: EngineKind, where: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = an_engine(kind, max_rows=4)
    how = [Sampling(temperature=1.0, seed=seed) for seed in range(3)]
    expected = [ids(read(ask(engine, PROMPTS[row], 20, sampling=how[row]))) for row in range(3)]
    real = getattr(Sampler, where)

    def fails(self: Sampler, *given: Any) -> Any:
        if self.request.sampling.seed == 1 and self.count >= after:
            raise RuntimeError("boom")
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Sampler, where, fails)
        rows = [ask(engine, PROMPTS[row], 20, sampling=how[row]) for row in range(3)]
        assert ids(read(rows[0])) == expected[0]
        assert ids(read(rows[2])) == expected[2]
        with pytest.raises(PipeError, match="choosing the next token failed: RuntimeError: boom"):
            read(rows[1])
        assert rows[1].delivered == after
    assert ids(read(ask(engine, PROMPTS[1], 20, sampling=how[1]))) == expected[1]
    until(lambda: engine.stats().running == 0)
    assert (engine.stats().failed, engine.stats().finished) == (1, 6)
    engine.close()


def test_a_sampler_that_cannot_be_made_is_told_to_who_asked(kind: EngineKind, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = an_engine(kind, max_rows=4)
    expected = [ids(read(ask(engine, PROMPTS[row], 20))) for row in range(3)]
    real = Sampler.__init__

    def fails(self: Sampler, request: GenerationRequest, *given: Any) -> None:
        if request.context == "bad":
            raise RuntimeError("boom")
        real(self, request, *given)

    monkeypatch.setattr(Sampler, "__init__", fails)
    first = ask(engine, PROMPTS[0], 20)
    with pytest.raises(RuntimeError, match="boom"):
        ask(engine, PROMPTS[1], 20, context="bad")
    last = ask(engine, PROMPTS[2], 20)
    assert (ids(read(first)), ids(read(last))) == (expected[0], expected[2])
    assert ids(read(ask(engine, PROMPTS[1], 20))) == expected[1]
    until(lambda: engine.stats().running + engine.stats().waiting == 0)
    engine.close()


def test_e2_numbers_that_are_not_finite_are_an_error_and_leave_nothing_behind(kind: EngineKind) -> None:
    import torch

    model = tiny_llama()
    engine = an_engine(kind, model)
    expected = generated(model, PROMPTS[7], 40)
    weights = model.model.embed_tokens.weight
    poison = 319
    kept = weights[poison].clone()
    with torch.no_grad():
        weights[poison] = float("nan")
    try:
        good = ask(engine, PROMPTS[7], 40)
        read(good, 1)
        bad = ask(engine, (5, poison, 6))
        with pytest.raises(Exception, match="not finite"):
            read(bad)
        if kind == "steps":
            read(good)
            assert good.delivered == 40
        else:  # one packed batch: the manager's attention spreads them to every row
            with pytest.raises(Exception, match="not finite"):
                read(good)
        assert ids(read(ask(engine, PROMPTS[7], 40))) == expected
    finally:
        engine.close()
        with torch.no_grad():
            weights[poison] = kept


def test_e3_a_full_mailbox_stops_its_row_only(engine: Any) -> None:
    slow = ask(engine, PROMPTS[0], 40, Mailbox(4))
    until(lambda: slow.full)
    others = [ask(engine, prompt, 40) for prompt in PROMPTS[1:]]
    assert all(len(read(each)) == 40 for each in others)
    assert slow.delivered == 4
    steps = read(slow)
    alone = read(ask(engine, PROMPTS[0], 40))
    assert ids(steps) == ids(alone)


def test_e3_rows_of_slow_readers_do_not_keep_others_from_memory(kind: EngineKind) -> None:
    model = tiny_llama()
    # Room for some 190 tokens: 2 layers * 2 * 2 heads * 16 * 4 bytes = 512 a token.
    engine = an_engine(kind, model, pool_bytes=192 * 512, keep_free=0.0)
    prompts = [tuple(range(3 + row, 43 + row)) for row in range(4)]
    slow = [ask(engine, prompt, 20, Mailbox(2)) for prompt in prompts[:3]]
    until(lambda: all(each.full for each in slow))
    other = tuple(range(60, 160))
    assert ids(read(ask(engine, other, 40))) == generated(model, other, 40)
    for prompt, mailbox in zip(prompts, slow, strict=False):
        assert ids(read(mailbox)) == generated(model, prompt, 20)
    engine.close()


@pytest.mark.parametrize("kind", [*LOCAL, "script"])
def test_e4_two_hundred_cancels_at_random_steps(kind: str) -> None:
    # Room for 600 tokens: 2 layers * 2 * 2 heads * 16 * 4 bytes = 512 a token.
    engine = an_engine(kind, **({} if kind == "script" else {"pool_bytes": 600 * 512}))
    dice = random.Random(4)
    held: list[Mailbox] = []
    seen: list[tuple[Mailbox, int]] = []

    def cancel(mailbox: Mailbox) -> None:
        mailbox.close()
        # Counted after the close, so that a step between the two is not charged to the engine.
        seen.append((mailbox, mailbox.delivered))

    for number in range(200):
        # Of whom nobody reads stops after four steps, so that none ends before it is cancelled.
        held.append(ask(engine, PROMPTS[number % 8], 60, Mailbox(4)))
        if len(held) >= 6:
            mailbox = held.pop(dice.randrange(len(held)))
            for _ in range(dice.randrange(4)):
                assert mailbox.wait_blocking(HANG)
                mailbox.take()
            cancel(mailbox)
    for mailbox in held:
        cancel(mailbox)
    until(lambda: engine.stats().running + engine.stats().waiting == 0)
    assert max(mailbox.delivered - count for mailbox, count in seen) <= 1
    stats = engine.stats()
    assert (stats.cancelled, stats.failed) == (200, 0)
    # Nothing of them is left: an answer that needs most of the pool has it.
    assert len(read(ask(engine, range(3, 203), 300))) == 300
    engine.close()


def test_e4_a_reader_that_left_before_its_turn_costs_nothing(kind: EngineKind) -> None:
    engine = an_engine(kind, max_rows=1)
    first = ask(engine, PROMPTS[0], 200)
    read(first, 2)
    waiting = ask(engine, PROMPTS[1])
    waiting.close()
    gone = Mailbox()
    gone.close()
    ask(engine, PROMPTS[2], mailbox=gone)
    first.close()
    until(lambda: engine.stats().running + engine.stats().waiting == 0)
    assert waiting.delivered == gone.delivered == 0
    assert engine.stats().cancelled == 3
    engine.close()


MODELS = {"llama": tiny_llama, "gpt2": tiny_gpt2, "qwen": tiny_qwen, "t5": tiny_t5, "bart": tiny_bart}


@pytest.mark.parametrize("name", MODELS)
def test_e5_rows_of_a_batch_say_what_they_say_alone(name: str, kind: EngineKind) -> None:
    model = MODELS[name]()
    if kind == "manager" and model.config.is_encoder_decoder:
        pytest.skip("the manager has no encoder-decoder models, which test_what_the_manager_cannot_run says")
    engine = an_engine(kind, model)
    mailboxes = []
    for prompt in PROMPTS:  # each joins where the ones before it already are
        mailboxes.append(ask(engine, prompt, 20))
        read(ask(engine, prompt[:4], 2))
    for prompt, mailbox in zip(PROMPTS, mailboxes, strict=True):
        assert ids(read(mailbox)) == generated(model, prompt, 20)
    engine.close()


def test_e5_holds_with_weights_in_8_bits() -> None:
    engine = make_engine(LocalModel(tiny_llama(), quant_mode="int8"), pool_bytes=2**22)
    assert "8-bit" in engine.why
    alone = [ids(read(ask(engine, prompt, 20))) for prompt in PROMPTS]
    together = [ask(engine, prompt, 20) for prompt in PROMPTS]
    assert [ids(read(each)) for each in together] == alone
    engine.close()


def test_e5_sampled_rows_draw_from_their_own_seed(kind: EngineKind) -> None:
    engine = an_engine(kind)

    def sampled(seed: int) -> Mailbox:
        return ask(engine, PROMPTS[3], 20, sampling=Sampling(temperature=1.5, top_k=50, seed=seed), logprobs=2)

    alone = [read(sampled(seed)) for seed in range(3)]
    together = [ask(engine, prompt, 20) for prompt in PROMPTS] and [sampled(seed) for seed in range(3)]
    for steps, mailbox in zip(alone, together, strict=True):
        again = read(mailbox)
        assert ids(again) == ids(steps)
        assert all(step.logprob is not None and step.logprob <= 0 and len(step.top) == 2 for step in again)
    assert len({tuple(ids(steps)) for steps in alone}) == 3
    engine.close()


def test_end_tokens_and_the_repetition_penalty_are_each_rows_own(kind: EngineKind) -> None:
    model = tiny_llama()
    engine = an_engine(kind, model)
    plain = generated(model, PROMPTS[2])
    eos = plain[4]
    first = plain.index(eos)
    both = ask(engine, PROMPTS[2]), ask(engine, PROMPTS[2], eos_ids=(eos, 1))
    more = ask(engine, PROMPTS[2], eos_ids=(eos,), min_new_tokens=first + 3)
    varied = ask(engine, PROMPTS[2], 40, sampling=Sampling(repetition_penalty=5.0))
    assert ids(read(both[0])) == plain
    stopped = read(both[1])
    assert ids(stopped) == plain[: first + 1]
    assert stopped[-1].finish == "stop"
    assert len(read(more)) >= first + 3
    assert len(set(ids(read(varied)))) > len(set(generated(model, PROMPTS[2], 40)))
    engine.close()


def test_a_late_request_speaks_before_an_early_one_ends(engine: Any) -> None:
    early = ask(engine, PROMPTS[0], 200)
    read(early, 5)
    late = read(ask(engine, PROMPTS[5], 3))
    rest = read(early)
    assert late[0].at < rest[-1].at
    assert late[-1].at < rest[-1].at


def test_more_answers_than_rows_all_come(kind: EngineKind) -> None:
    model = tiny_llama()
    engine = an_engine(kind, model, max_rows=3)
    mailboxes = [ask(engine, PROMPTS[number % 8], 8) for number in range(24)]
    for number, mailbox in enumerate(mailboxes):
        assert ids(read(mailbox)) == generated(model, PROMPTS[number % 8], 8)
    stats = engine.stats()
    assert stats.finished == 24
    assert stats.tokens == 24 * 8
    assert stats.row_steps / stats.steps <= 3
    assert stats.busy > 0
    assert stats.cpu > 0
    engine.close()


def test_e6_close_ends_every_answer_and_twice_is_once(engine: Any) -> None:
    full = ask(engine, PROMPTS[0], 200, Mailbox(2))
    running = [ask(engine, prompt, 400) for prompt in PROMPTS]
    read(running[0], 1)
    until(lambda: full.full)
    closers = [threading.Thread(target=engine.close) for _ in range(3)]
    for each in closers:
        each.start()
    for each in closers:
        each.join(HANG)
        assert not each.is_alive()
    engine.close()
    for mailbox in (full, *running):
        with pytest.raises(Exception, match="closed"):
            read(mailbox)
    with pytest.raises(UsageError, match="closed"):
        ask(engine, PROMPTS[0])


def test_e6_an_engine_that_is_dropped_closes_itself(kind: EngineKind) -> None:
    before = threading.active_count()
    engine = an_engine(kind)
    mailbox = ask(engine, PROMPTS[0], 400)
    read(mailbox, 1)
    assert threading.active_count() > before
    del engine
    gc.collect()
    with pytest.raises(Exception, match="closed"):
        read(mailbox)
    until(lambda: threading.active_count() == before)


def test_a_request_that_never_fits_is_refused(kind: EngineKind) -> None:
    engine = an_engine(kind, pool_bytes=64 * 512)
    with pytest.raises(UsageError, match="pool"):
        ask(engine, range(3, 63), 200)
    roomy = an_engine(kind)
    with pytest.raises(UsageError, match="positions"):
        ask(roomy, PROMPTS[0], 600)
    with pytest.raises(UsageError, match="the token 320; LlamaForCausalLM has 0 to 319"):
        ask(roomy, (3, 320))
    assert len(read(ask(engine, PROMPTS[0], 8))) == 8
    engine.close()
    roomy.close()


def test_warm_up_runs_prompts_and_settings_change_while_it_runs(engine: Any) -> None:
    assert engine.warm_up(3) == 3
    engine.configure(max_rows=2)
    mailboxes = [ask(engine, prompt, 6) for prompt in PROMPTS]
    assert all(len(read(each)) == 6 for each in mailboxes)


def test_the_model_may_be_used_by_others_while_an_engine_runs_it(kind: EngineKind) -> None:
    model = tiny_llama()
    before = generated(model, PROMPTS[3])
    engine = an_engine(kind, model)
    mailbox = ask(engine, PROMPTS[0], 400)
    assert all(generated(model, PROMPTS[3]) == before for _ in range(5))
    assert not mailbox.ended
    engine.close()
    assert generated(model, PROMPTS[3]) == before
