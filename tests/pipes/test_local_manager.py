"""What is added to transformers' continuous batching, and the names of it that this leans on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.batching import Admission
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_manager import ManagerEngine
from multimodal.pipes.local_manager_fit import manager_refuses, pool_blocks
from tests.pipes.test_engines import PROMPTS, ask, generated, ids, read, until
from tests.tiny_models import tiny_bart, tiny_gpt2, tiny_llama, tiny_t5

TOKEN_BYTES = 512
"""Of the tiny Llama: 2 layers * 2 * 2 heads * 16 * 4 bytes."""


@pytest.fixture
def model() -> Any:
    return tiny_llama()


@pytest.fixture
def engine(model: Any) -> Iterator[ManagerEngine]:
    made = ManagerEngine(LocalModel(model), pool_bytes=2**22)
    yield made
    made.close()


def test_the_names_of_transformers_that_this_leans_on_are_there() -> None:
    """When this fails after an update, read its changes of generation/continuous_batching before anything else."""
    from transformers.generation.continuous_batching import cache, cb_logits_processors, continuous_api, scheduler
    from transformers.generation.continuous_batching.requests import RequestState, RequestStatus

    def parameters(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    manager = continuous_api.ContinuousBatchingManager
    assert parameters(manager)[:3] == ["model", "generation_config", "continuous_batching_config"]
    assert {"request_id", "max_new_tokens", "streaming", "eos_token_id"} <= set(parameters(manager.add_request))
    assert {"block", "hard_stop"} <= set(parameters(manager.stop))
    source = inspect.getsource(manager)
    for used in ("self.output_router = ", "self.logit_processor = ", "SCHEDULER_MAPPING.get("):
        assert used in source
    assert callable(continuous_api.BackgroundThreadStatus.can_accept_new_requests)
    # The order in which a step asks: cancellations, then the schedule, then what the processors need.
    step = inspect.getsource(continuous_api.ContinuousBatchProcessor.prepare_next_batch)
    assert step.index("clear_cancelled_requests") < step.index("schedule_batch") < step.index("prepare_batch_tensors")
    assert {"deliver", "deliver_batch", "fail_and_deliver"} <= set(dir(continuous_api.OutputRouter))
    rows = scheduler.FIFOScheduler
    assert parameters(rows.schedule_batch) == ["self", "token_budget", "cache_budget"]
    assert "self._get_waiting_candidates()" in inspect.getsource(rows.schedule_batch)
    for used in ("active_requests", "waiting_requests", "waiting_requests_order", "block_new_requests"):
        assert f"self.{used}" in inspect.getsource(scheduler.Scheduler.reset)
    assert {"max_requests_per_batch", "safety_margin"} <= set(parameters(scheduler.Scheduler.__init__))
    assert callable(RequestState.create_equivalent_initial_request)
    assert {"FINISHED", "FAILED"} <= set(RequestStatus.__members__)
    assert "no_cache" in parameters(cache.PagedAttentionCache.free_blocks)
    assert "relative" in parameters(cache.PagedAttentionCache.compute_free_capacity)
    choice = cb_logits_processors.ContinuousBatchingLogitsProcessor
    assert choice.__abstractmethods__ == {"fill_defaults", "prepare_tensor_args", "__call__"}


def test_what_the_manager_cannot_run() -> None:
    assert manager_refuses(LocalModel(tiny_llama())) is None
    assert manager_refuses(LocalModel(tiny_gpt2())) is None
    for made in (tiny_t5, tiny_bart):
        with pytest.raises(UsageError, match=r"encoder-decoder model .*take engine='steps'"):
            ManagerEngine(LocalModel(made()))
    with pytest.raises(UsageError, match="8-bit"):
        ManagerEngine(LocalModel(tiny_llama(), quant_mode="int8"))
    llama = tiny_llama()
    llama.config._attn_implementation = "flex_attention"
    assert "flex_attention" in str(manager_refuses(LocalModel(llama)))
    llama = tiny_llama()
    llama.config.layer_types = ["full_attention", "linear_attention"]
    assert "linear_attention" in str(manager_refuses(LocalModel(llama)))
    with pytest.raises(UsageError, match="reclaim_policy"):
        ManagerEngine(LocalModel(tiny_llama()), reclaim_policy="lru")


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_rows": 0},
        {"max_rows": 2.5},
        {"max_rows": 300},
        {"keep_free": 1.0},
        {"keep_free": math.nan},
        {"page_tokens": 2},
        {"batch_tokens": 0},
        {"pool_bytes": 100},
        {"pool_bytes": True},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ManagerEngine(LocalModel(tiny_llama()), **wrong)


def test_the_pool_is_as_large_as_was_asked(model: Any) -> None:
    assert pool_blocks(LocalModel(model), 100 * 16 * TOKEN_BYTES, 16) == 100
    engine = ManagerEngine(LocalModel(model), pool_bytes=100 * 16 * TOKEN_BYTES)
    read(ask(engine, PROMPTS[0], 20))
    assert 0 < engine.stats().pool_high_bytes <= 100 * 16 * TOKEN_BYTES
    engine.close()


def test_a_model_with_eager_attention_is_left_as_it_was() -> None:
    eager = tiny_llama()
    eager.set_attn_implementation("eager")
    expected = generated(eager, PROMPTS[2])
    engine = ManagerEngine(LocalModel(eager), pool_bytes=2**20)
    assert ids(read(ask(engine, PROMPTS[2]))) == expected
    assert eager.config._attn_implementation == "eager"
    assert generated(eager, PROMPTS[2]) == expected
    engine.close()


def test_weights_that_nobody_else_holds_are_not_held_twice(model: Any) -> None:
    expected = generated(model, PROMPTS[4])
    engine = ManagerEngine(LocalModel(model), pool_bytes=2**20)
    owned = LocalModel(tiny_llama(), owned=True)
    second = ManagerEngine(owned, pool_bytes=2**20)
    assert engine.extra_bytes > 0
    assert second.extra_bytes == 0
    for each in (engine, second):
        assert ids(read(ask(each, PROMPTS[4]))) == expected
        each.close()


def test_a_shared_beginning_is_read_once(engine: ManagerEngine) -> None:
    shop = tuple(range(3, 67))
    first, second = ask(engine, (*shop, 70, 71)), Mailbox()
    read(first)
    ask(engine, (*shop, 80, 81, 82), mailbox=second)
    read(second)
    assert first.times.cached_tokens == 0
    assert second.times.cached_tokens == 64
    stats = engine.stats()
    assert stats.cached_tokens == 64
    assert stats.prefilled_tokens == 66 + 3


def test_long_prompts_are_read_in_parts_beside_running_rows(model: Any) -> None:
    engine = ManagerEngine(LocalModel(model), pool_bytes=2**22, batch_tokens=32)
    running = ask(engine, PROMPTS[0], 100)
    read(running, 5)
    prompt = tuple(place % 300 + 3 for place in range(200))
    late = ask(engine, prompt, 5)
    assert ids(read(late)) == generated(model, prompt, 5)
    # 31 tokens a step beside the one of the running row, which went on meanwhile.
    assert running.delivered >= 10
    running.close()
    engine.close()


def test_more_running_rows_than_a_step_takes_each_get_their_turn(engine: ManagerEngine) -> None:
    mailboxes = [ask(engine, prompt, 300) for prompt in PROMPTS]
    for each in mailboxes:
        read(each, 1)
    engine.configure(max_rows=2)
    counts = [each.delivered for each in mailboxes]
    until(lambda: all(each.delivered >= count + 5 for each, count in zip(mailboxes, counts, strict=True)))
    for each in mailboxes:
        each.close()


class Watched(Admission):
    """Says when it was asked, and by whom."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls: list[tuple[int, bool, int]] = []

    def take(self, now: float, running: int, free_rows: int, idle: bool) -> list[Any]:
        found = super().take(now, running, free_rows, idle)
        self.calls.append((running, idle, len(found)))
        return found


def test_admission_decides_who_joins(model: Any) -> None:
    admission = Watched(window_size=60_000, semantic_cluster=True, dynamic_batch=False, max_rows=3)
    engine = ManagerEngine(LocalModel(model), pool_bytes=2**22, max_rows=16, admission=admission)
    first = ask(engine, PROMPTS[0], 400)  # longer than all that is asked beside it
    read(first, 1)  # A1: nothing ran, so it did not wait for the window
    assert (0, True, 1) in admission.calls
    # A2: behind running work the window gathers, until the room for two more is filled.
    second = ask(engine, PROMPTS[1], 60)
    read(first, 10)
    assert second.delivered == 0
    third = ask(engine, PROMPTS[2], 60)
    for mailbox, prompt in ((second, PROMPTS[1]), (third, PROMPTS[2])):
        assert ids(read(mailbox)) == generated(model, prompt, 60)
    assert any(took == 2 for _, _, took in admission.calls)
    assert max(running for running, _, _ in admission.calls) <= 3
    read(first)
    # A request that is withdrawn while it waits is forgotten.
    fourth, fifth = ask(engine, PROMPTS[3], 200), Mailbox()
    read(fourth, 1)
    ask(engine, PROMPTS[4], mailbox=fifth)
    until(lambda: admission.waiting == 1)
    fifth.close()
    until(lambda: admission.waiting == 0)
    assert admission.withdrawn == 1
    fourth.close()
    engine.close()


def test_without_a_limit_of_its_own_dynamic_batch_learns_from_steps(model: Any) -> None:
    admission = Admission(window_size=0, dynamic_batch=True, max_rows=8, target_itl=1e-6)
    engine = ManagerEngine(LocalModel(model), pool_bytes=2**22, admission=admission)
    before = admission.limit
    for mailbox in [ask(engine, prompt, 30) for prompt in PROMPTS]:
        assert len(read(mailbox)) == 30
    assert admission.limit < before
    engine.close()


def test_settings_change_while_it_runs(engine: ManagerEngine) -> None:
    with pytest.raises(UsageError, match="max_rows"):
        engine.configure(max_rows=0)
    mailboxes = [ask(engine, prompt, 100) for prompt in PROMPTS]
    engine.configure(max_rows=4, keep_free=0.5, admission=Admission(window_size=0, dynamic_batch=False))
    for mailbox in mailboxes:
        assert len(read(mailbox)) == 100


def test_a_request_that_comes_while_the_loop_is_dying_is_told(engine: ManagerEngine) -> None:
    manager = engine._core._manager
    assert manager is not None
    accept = manager.add_request

    def dies(*given: Any, **named: Any) -> Any:
        found = accept(*given, **named)
        manager.background_thread_status.request_stop(2, 0)
        return found

    manager.add_request = dies  # type: ignore[method-assign]
    mailbox = Mailbox()
    engine.submit(GenerationRequest(PROMPTS[0]), mailbox)
    with pytest.raises(Exception, match="engine"):
        read(mailbox)
    assert len(read(ask(engine, PROMPTS[0]))) == 12
