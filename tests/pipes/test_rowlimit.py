"""The limit of rows against a server whose step time is arithmetic: it finds it, follows the load and settles."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.rowlimit import ALARM, EVERY, FIRST_PAUSE, START_ROWS, RowLimit

TARGET = 0.1
Steps = list[tuple[float, int, float]]


def serve(
    step: Callable[[int], float],
    seconds: float = 120,
    *,
    load: Callable[[float], float] = lambda now: 1.0,
    noise: float = 0.02,
    max_rows: int = 64,
) -> tuple[RowLimit, Steps]:
    """A batch that is always wanted, its rows leaving after 20 to 60 tokens: (when, limit, step time) of each step."""
    draw = random.Random(5)
    limit = RowLimit(max_rows, TARGET)
    now, rows, steps = 0.0, list[int](), Steps()
    while now < seconds:
        rows = [left - 1 for left in rows if left > 1]
        rows += [draw.randint(20, 60) for _ in range(limit.limit - len(rows))]
        took = step(len(rows)) * load(now) * (1 + abs(draw.gauss(0, noise)))
        now += took
        limit.measured(took, len(rows), now)
        steps.append((now, limit.limit, took))
    return limit, steps


def limits(steps: Steps, since: float, until: float = 1e9) -> set[int]:
    return {limit for now, limit, _ in steps if since < now <= until}


def late(steps: Steps, since: float, until: float = 1e9) -> float:
    """Share of the steps above the target."""
    times = [took for now, _, took in steps if since < now <= until]
    return sum(took > TARGET for took in times) / len(times)


def test_it_grows_to_what_the_target_allows_and_stays() -> None:
    _, steps = serve(lambda rows: 0.038 + 0.0043 * rows)
    assert limits(steps, 20) == {12}  # 12 rows take 89.6 ms and 13 take 93.9
    assert late(steps, 20) == 0


def test_where_one_row_more_is_too_many_it_tries_ever_more_seldom() -> None:
    _, steps = serve(lambda rows: 0.056 if rows <= 8 else 0.138)
    assert limits(steps, 20) == {8, 9}
    tries = [
        now for (now, limit, _), (_, before, _) in zip(steps[1:], steps, strict=False) if (before, limit) == (8, 9)
    ]
    pauses = [after - before for before, after in pairwise(tries)]
    assert len(tries) <= 6
    assert all(after > 1.5 * before for before, after in pairwise(pauses))
    assert late(steps, 20) < 0.05


def test_it_follows_the_load_down_and_up_again() -> None:
    _, steps = serve(lambda rows: 0.038 + 0.0043 * rows, load=lambda now: 1.6 if 40 < now < 80 else 1.0)
    assert limits(steps, 20, 40) == {12}
    assert limits(steps, 60, 80) <= {4, 5}
    assert late(steps, 60, 80) < 0.05
    assert limits(steps, 95) == {12}


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_noise_does_not_make_it_swing(noise: float) -> None:
    _, steps = serve(lambda rows: 0.038 + 0.0043 * rows, noise=noise)
    settled = limits(steps, 20)
    assert max(settled) - min(settled) <= 3
    assert late(steps, 20) < 0.05


@pytest.mark.parametrize("each", [0.0, 0.002, 0.008])
def test_a_machine_that_misses_the_target_with_one_row_serves_as_many_as_before(each: float) -> None:
    """L5: fewer rows would not make its steps short enough, and would leave the others waiting."""
    limit, steps = serve(lambda rows: 0.15 + each * rows, seconds=300)
    settled = [limit for now, limit, _ in steps if now > 30]
    assert sum(rows == START_ROWS for rows in settled) / len(settled) > 0.8
    assert min(settled) >= START_ROWS // 2
    assert limit.lowered <= 8


def test_a_target_that_some_rows_meet_is_met_although_the_first_step_down_gains_little() -> None:
    _, steps = serve(lambda rows: 0.07 + 0.008 * rows, seconds=120)
    assert limits(steps, 30) <= {2, 3}
    assert late(steps, 30) < 0.05


def test_it_looks_again_when_the_machine_has_become_faster() -> None:
    _, steps = serve(lambda rows: 0.04 + 0.004 * rows, load=lambda now: 4.0 if now < 60 else 1.0, seconds=150)
    assert START_ROWS in limits(steps, 30, 60)
    assert max(limits(steps, 130)) >= 12


def test_one_judgement_takes_the_excess_and_a_quarter_at_most() -> None:
    for took, left in ((0.104, 7), (0.12, 6), (0.3, 6)):
        limit = RowLimit(64, TARGET)
        for number in range(ALARM):
            limit.measured(took, START_ROWS, number * took)
        assert limit.limit == left


def test_rows_that_are_still_leaving_say_nothing() -> None:
    limit = RowLimit(64, TARGET)
    for number in range(40):
        limit.measured(0.3, START_ROWS, number * 0.3)
    assert limit.limit == 6
    assert limit.lowered == 1


def test_a_batch_that_nobody_fills_is_not_widened() -> None:
    limit = RowLimit(64, TARGET)
    for number in range(10 * EVERY):
        limit.measured(0.01, START_ROWS - 1, number * 0.01)
    assert limit.limit == START_ROWS


def test_a_few_late_steps_are_not_yet_too_many() -> None:
    limit = RowLimit(64, TARGET)
    for number in range(10 * EVERY):
        limit.measured(0.2 if number % EVERY == 0 else 0.095, START_ROWS, number * 0.1)
    assert (limit.limit, limit.raised, limit.lowered) == (START_ROWS, 0, 0)


def test_what_was_too_many_is_tried_again_after_the_pause_and_not_before() -> None:
    limit = RowLimit(64, TARGET)
    now = 0.0
    for _ in range(ALARM):
        now += 0.104
        limit.measured(0.104, START_ROWS, now)
    lowered_at = now
    while limit.limit < START_ROWS:
        now += 0.085
        limit.measured(0.085, limit.limit, now)
        assert now < lowered_at + FIRST_PAUSE + (EVERY + 1) * 0.085
    assert now >= lowered_at + FIRST_PAUSE


def test_it_keeps_to_the_most_and_to_a_new_target() -> None:
    _, steps = serve(lambda rows: 0.01, max_rows=10)
    assert limits(steps, 20) == {10}
    limit = RowLimit(3, TARGET)
    assert limit.limit == 3
    limit.configure(max_rows=64, target=0.02)
    for number in range(ALARM):
        limit.measured(0.05, 3, number * 0.05)
    assert limit.limit == 2


@pytest.mark.parametrize(
    ("setting", "name"),
    [({"max_rows": 0}, "max_rows"), ({"max_rows": True}, "max_rows"), ({"target": 0.0}, "target_itl")],
)
def test_wrong_settings_are_refused(setting: dict[str, float], name: str) -> None:
    with pytest.raises(UsageError, match=name):
        RowLimit(**{"max_rows": 8, "target": 0.1, **setting})  # type: ignore[arg-type]
