"""The budget is kept over ten seconds without long silences, against a machine whose steps are arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.governor import CREDIT, LONGEST, REPAY, SPAN, Governor


def work(
    governor: Governor,
    seconds: float,
    step: Callable[[float], float],
    *,
    oversleep: Callable[[], float] = lambda: 0.0,
    threads: int = 1,
    start: float = 0.0,
) -> Iterator[tuple[float, float, float]]:
    """(now, CPU so far, rest) at the end of each step of work that never runs out."""
    now, cpu = start, 0.0
    governor.pace(cpu, now)
    while now < start + seconds:
        took = step(now)
        now += took
        cpu += took * threads
        wait = governor.pace(cpu, now)
        yield now, cpu, wait
        now += wait + (oversleep() if wait else 0.0)


def shares(run: list[tuple[float, float, float]], budget: float) -> list[float]:
    """CPU time over each `SPAN` after the first second, as a share of the budget."""

    def until(when: float) -> float:
        return max((cpu for now, cpu, _ in run if now <= when), default=0.0)

    allowed = budget / 60 * SPAN
    return [(until(first + SPAN) - until(first)) / allowed for first in range(1, int(run[-1][0] - SPAN))]


@pytest.mark.parametrize("budget", [5, 15, 30, 50])
@pytest.mark.parametrize("step", [0.005, 0.04, 0.12])
def test_the_budget_is_kept_over_every_ten_seconds(budget: float, step: float) -> None:
    run = list(work(Governor(budget), 60, lambda now: step))
    near = max(0.1, step / (budget / 60 * SPAN))
    assert all(abs(share - 1) <= near + 1e-9 for share in shares(run, budget)), shares(run, budget)


def test_sleeping_too_long_is_made_good() -> None:
    draw = random.Random(2)
    run = list(work(Governor(15), 60, lambda now: 0.04, oversleep=lambda: draw.uniform(0, 0.03)))
    assert all(0.9 <= share <= 1.1 for share in shares(run, 15))


def test_uneven_steps_and_prefills_are_paid_for_without_silence() -> None:
    draw = random.Random(3)
    governor = Governor(15)
    run = list(work(governor, 120, lambda now: 0.6 if draw.random() < 0.005 else draw.uniform(0.02, 0.06)))
    whole = run[-1][1] / (15 / 60 * run[-1][0])
    assert 0.95 <= whole <= 1.05
    assert sum(cpu - before > 0.5 for (_, before, _), (_, cpu, _) in pairwise(run)) >= 3
    assert governor.stats().longest_wait <= LONGEST


def test_steps_that_are_all_long_call_for_long_rests_and_keep_the_budget() -> None:
    governor = Governor(15)
    run = list(work(governor, 120, lambda now: 0.5))
    assert 0.9 <= run[-1][1] / (15 / 60 * run[-1][0]) <= 1.1
    assert governor.stats().longest_wait <= REPAY * 0.5 / 0.25


def test_threads_count_by_their_cpu_time() -> None:
    run = list(work(Governor(30), 60, lambda now: 0.04, threads=2))
    assert all(0.9 <= share <= 1.1 for share in shares(run, 30))


def test_a_budget_that_the_work_does_not_reach_costs_nothing() -> None:
    governor = Governor(60)
    run = list(work(governor, 10, lambda now: 0.04))
    assert [wait for _, _, wait in run if wait > 1e-9] == []
    assert governor.stats().longest_wait < 1e-9


def test_idleness_is_not_saved_up() -> None:
    governor = Governor(15)
    governor.pace(0.0, 0.0)
    assert governor.pace(0.0, 3600.0) == 0.0
    after = list(work(governor, 10, lambda now: 0.04, start=3600.0))
    assert after[-1][1] <= 15 / 60 * (10 + CREDIT) + 0.05
    assert after[2][2] > 0


def test_what_was_used_is_reported() -> None:
    governor = Governor(15)
    assert math.isnan(governor.stats().used)
    run = list(work(governor, 30, lambda now: 0.04))
    stats = governor.stats()
    assert stats.used == pytest.approx(15, rel=0.1)
    assert stats.waits == sum(wait > 0 for _, _, wait in run)
    assert stats.waited == pytest.approx(sum(wait for _, _, wait in run))
    assert stats.watts is None
    governor.watts = 12.5
    assert governor.stats().watts == 12.5
    assert len(governor._past) <= SPAN / 0.1 + 2


def test_another_budget_and_another_clock_begin_anew() -> None:
    governor = Governor(1)
    governor.pace(0.0, 0.0)
    assert governor.pace(1.0, 1.0) == LONGEST
    assert governor.stats().debt > 0.9
    governor.configure(30)
    assert governor.stats().debt == 0
    assert governor.pace(0.2, 2.0) == 0.0  # a clock that fell back
    assert governor.pace(0.7, 2.5) == pytest.approx(0.5)


@pytest.mark.parametrize("budget", [0, -1, True, math.inf, math.nan, "15"])
def test_wrong_budgets_are_refused(budget: float) -> None:
    with pytest.raises(UsageError, match="max_budget="):
        Governor(budget)
