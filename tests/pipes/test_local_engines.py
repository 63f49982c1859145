"""Which engine is taken and why, and one engine for all who use a model."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.governor import Governor
from multimodal.pipes.local_engines import SharedEngine, make_engine, shared_engine
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_manager import ManagerEngine
from multimodal.pipes.local_steps import StepEngine
from tests.pipes.test_engines import PROMPTS, ask, ids, read, until
from tests.tiny_models import tiny_llama, tiny_t5

POOL = 2**20


def test_auto_takes_the_manager_where_it_fits_and_says_why() -> None:
    llama = LocalModel(tiny_llama())
    cases: list[tuple[LocalModel, Any, dict[str, Any], type, str]] = [
        (llama, "auto", {}, ManagerEngine, "can run this model"),
        (llama, "auto", {"reclaim_policy": "lru"}, StepEngine, "reclaim policy"),
        (llama, "auto", {"governor": Governor(60)}, StepEngine, "governor"),
        (LocalModel(tiny_t5()), "auto", {}, StepEngine, "encoder-decoder"),
        (llama, "manager", {}, ManagerEngine, "asked for"),
        (llama, "steps", {}, StepEngine, "asked for"),
    ]
    for local, kind, settings, expected, why in cases:
        engine = make_engine(local, kind, pool_bytes=POOL, **settings)
        assert isinstance(engine, expected)
        assert why in engine.why
        engine.close()


def test_what_cannot_be_made_is_refused_with_the_reason() -> None:
    llama = LocalModel(tiny_llama())
    with pytest.raises(UsageError, match="'fast' is none of auto, manager, steps"):
        make_engine(llama, "fast")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="engine='manager' has no such setting: 'rows'"):
        make_engine(llama, "manager", rows=3)
    with pytest.raises(UsageError, match="engine='steps' has no such setting: 'rows'"):
        make_engine(llama, "steps", rows=3)
    with pytest.raises(UsageError, match="engine='manager' has no such setting: 'governor'"):
        make_engine(llama, "manager", governor=Governor(60))
    with pytest.raises(UsageError, match="encoder-decoder"):
        make_engine(LocalModel(tiny_t5()), "manager")


def test_all_who_use_a_model_share_one_engine_until_the_last_lets_go() -> None:
    local = LocalModel(tiny_llama())
    holds: list[SharedEngine] = []
    barrier = threading.Barrier(12)

    def take() -> None:
        barrier.wait()
        holds.append(shared_engine(local, pool_bytes=POOL))

    threads = [threading.Thread(target=take) for _ in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({id(hold.engine) for hold in holds}) == 1
    # Another LocalModel over the same model object is the same model.
    holds.append(shared_engine(LocalModel(local.model)))
    assert holds[-1].engine is holds[0].engine
    assert "can run" in holds[-1].why
    for hold in holds[:-1]:
        hold.close()
        hold.close()
        with pytest.raises(UsageError, match="hold on the engine is closed"):
            ask(hold, PROMPTS[0])
    assert len(read(ask(holds[-1], PROMPTS[0]))) == 12
    assert holds[-1].stats().finished == 1
    engine = holds[-1].engine
    mailbox = ask(holds[-1], PROMPTS[0], 400)
    holds[-1].close()
    with pytest.raises(Exception, match="closed"):
        read(mailbox)
    with pytest.raises(UsageError, match="closed"):
        ask(engine, PROMPTS[0])
    again = shared_engine(local, pool_bytes=POOL)
    assert again.engine is not engine
    again.close()


def test_other_models_and_kinds_have_engines_of_their_own() -> None:
    one, two = LocalModel(tiny_llama()), LocalModel(tiny_llama(seed=1))
    holds = [shared_engine(one, pool_bytes=POOL), shared_engine(two, pool_bytes=POOL)]
    holds.append(shared_engine(one, "steps", pool_bytes=POOL))
    assert len({id(hold.engine) for hold in holds}) == 3
    for hold in holds:
        hold.close()


def test_settings_that_differ_from_the_engine_that_runs_are_refused() -> None:
    local = LocalModel(tiny_llama())
    first = shared_engine(local, pool_bytes=POOL, max_rows=4)
    shared_engine(local, max_rows=4).close()
    with pytest.raises(UsageError, match=r"other max_rows, pool_bytes; .*configure"):
        shared_engine(local, max_rows=5, pool_bytes=2 * POOL)
    first.configure(max_rows=5)
    assert first.warm_up(2) == 2
    first.close()


def test_a_hold_that_is_dropped_lets_go() -> None:
    before = threading.active_count()
    local = LocalModel(tiny_llama())
    hold = shared_engine(local, pool_bytes=POOL)
    assert threading.active_count() > before
    del hold
    gc.collect()
    until(lambda: threading.active_count() == before)


def test_a_second_engine_on_an_owned_model_packs_rows_as_the_first_does() -> None:
    local = LocalModel(tiny_llama(), owned=True)
    said = []
    for _ in range(2):
        engine: Any = make_engine(local, "steps", pool_bytes=POOL)
        # E5: one row alone is run beside a spare one, as packed layers want it.
        assert engine._core.forward._pads
        said.append([ids(read(ask(engine, prompt, 20))) for prompt in PROMPTS[:3]])
        engine.close()
    assert said[0] == said[1]


def test_a_governor_holds_cpu_time_to_its_budget() -> None:
    # 15 CPU-seconds a minute: a quarter of one core, on a machine that is as busy as it likes.
    governor = Governor(15.0)
    shared = shared_engine(LocalModel(tiny_llama(max_position_embeddings=8192)), governor=governor, pool_bytes=2**23)
    mailbox = ask(shared, PROMPTS[0], 8000, Mailbox(8001))
    read(mailbox, 5)
    began, cpu = time.monotonic(), shared.stats().cpu
    time.sleep(3.0)
    used, passed = shared.stats().cpu - cpu, time.monotonic() - began
    mailbox.close()
    shared.close()
    assert used / passed <= 0.25 * 1.1
    assert governor.stats().waits > 0
