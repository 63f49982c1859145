"""A stream's figures: parts that add up, gaps as the consumer sees them, and memory that does not grow."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.pipes.generation import RequestTimes
from multimodal.pipes.metrics import PAUSE, StreamMetrics, TtftParts

GATE = st.none() | st.floats(0, 100)


def told(times: RequestTimes | None = None) -> StreamMetrics:
    return StreamMetrics(RequestTimes(submitted=10.0, admitted=10.1, prefilled=10.4) if times is None else times)


def test_each_part_is_the_time_between_two_gates() -> None:
    metrics = told()
    metrics.step(10.5)
    metrics.shown(10.5, text=False)
    metrics.sent(10.51, text=False)
    metrics.step(10.6)
    metrics.shown(10.65)
    metrics.sent(10.7)
    snapshot = metrics.snapshot()
    assert snapshot.ttft == pytest.approx(0.7)
    assert snapshot.as_dict()["ttft_parts"] == {
        "queue": 0.1,
        "prefill": 0.3,
        "first_step": 0.1,
        "hold_back": 0.15,
        "send": 0.05,
    }


@given(st.floats(0, 100), GATE, GATE, GATE, GATE, st.floats(0, 100))
def test_the_parts_add_up_whatever_was_told_and_in_whatever_order(
    submitted: float,
    admitted: float | None,
    prefilled: float | None,
    step: float | None,
    shown: float | None,
    took: float,
) -> None:
    times = RequestTimes(submitted)
    times.admitted = math.nan if admitted is None else admitted
    times.prefilled = math.nan if prefilled is None else prefilled
    metrics = told(times)
    if step is not None:
        metrics.step(step)
    if shown is not None:
        metrics.shown(shown)
    metrics.sent(submitted + took)
    parts = list(metrics.snapshot().as_dict()["ttft_parts"].values())
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(metrics.snapshot().ttft, abs=1e-5)


def test_before_the_first_text_there_is_no_time_to_it() -> None:
    metrics = told()
    metrics.step(10.5)
    metrics.sent(10.6, text=False)
    plain = metrics.snapshot().as_dict()
    assert plain["ttft"] is None
    assert set(plain["ttft_parts"].values()) == {None}
    assert plain["itl_p50"] is plain["gap_stddev"] is plain["tokens_per_s"] is plain["busy_mean"] is None
    assert json.loads(json.dumps(plain)) == plain
    metrics.sent(10.7)
    assert metrics.snapshot().ttft == pytest.approx(0.7)


def test_the_request_is_as_old_as_the_earliest_that_told() -> None:
    metrics = told(RequestTimes())
    metrics.submitted(5.0)
    assert metrics.times.submitted == 5.0
    metrics.submitted(6.0)
    assert metrics.times.submitted == 5.0


def test_gaps_lie_between_deliveries_of_text() -> None:
    metrics = told()
    now = 20.0
    metrics.sent(now, 4)
    for gap in (0.1, 0.1, 0.3, 0.1):
        metrics.sent(now + gap / 2, text=False)  # a token whose text is held back arrives unseen
        now += gap
        metrics.sent(now, 2)
    snapshot = metrics.snapshot()
    assert (snapshot.tokens, snapshot.deliveries) == (16, 5)
    assert snapshot.itl_p50 == pytest.approx(0.1, rel=0.01)
    assert snapshot.itl_p99 == pytest.approx(0.3, rel=0.01)
    assert snapshot.gap_max == pytest.approx(0.3)
    assert snapshot.gap_stddev == pytest.approx(0.0866, abs=1e-4)
    assert snapshot.tokens_per_s == pytest.approx(12 / 0.6)


def test_rows_lanes_and_pool() -> None:
    metrics = told()
    for rows in (1, 2, 6):
        metrics.step(11.0, rows)
    metrics.shown(11.0, 3)
    metrics.shown(11.0, 2, "low")
    for held in (500, 900, 200):
        metrics.pool(held)
    snapshot = metrics.snapshot()
    assert (snapshot.steps, snapshot.batch_mean, snapshot.batch_max) == (3, 3.0, 6)
    assert snapshot.lanes == {"main": 3, "low": 2}
    assert (snapshot.pool_high_bytes, snapshot.pool_low_bytes) == (900, 200)


def test_busy_share_is_even_under_even_load_and_not_under_bursts() -> None:
    even, bursts = told(), told()
    for number in range(200):
        even.step(10.05 + 0.05 * number, seconds=0.025)
        bursts.step(10.05 + 0.025 * (number % 20) + 1.0 * (number // 20), seconds=0.025)
    one, other = even.snapshot(), bursts.snapshot()
    assert one.busy_mean == pytest.approx(0.5, abs=0.02)
    assert other.busy_mean == pytest.approx(0.5, abs=0.05)
    assert one.busy_stddev < 0.05
    assert other.busy_stddev > 0.4


def test_a_step_longer_than_a_slot_fills_the_slots_it_ran_in() -> None:
    metrics = told()
    metrics.step(1.0, seconds=1.0)
    metrics.step(1.95, seconds=0.05)
    metrics.step(2.55, seconds=0.05)
    assert metrics.snapshot().busy_mean == pytest.approx(1.05 / 2.5, abs=0.01)


def test_a_long_pause_is_no_load_and_costs_nothing() -> None:
    metrics = told()
    metrics.step(1.0, seconds=1.0)
    metrics.step(1.0 + 3600 * 1000, seconds=1.0)
    assert metrics.snapshot().busy_mean == pytest.approx(1.0)
    metrics.step(1.0 + 3600 * 1000 + PAUSE / 2, seconds=1.0)
    assert metrics.snapshot().busy_mean < 1.0


def test_a_day_takes_no_more_memory_than_a_minute() -> None:
    metrics = told()
    for number in range(20_000):
        metrics.step(11 + number * 0.05, 4, 0.04)
        metrics.shown(11 + number * 0.05)
        metrics.sent(11 + number * 0.05 + (number % 97) * 0.0003)
    held = [value for value in vars(metrics).values() if isinstance(value, (list, dict, set))]
    assert sum(map(len, held)) == 2  # the two lanes
    assert len(metrics.gaps._buckets) < 1_400
    assert metrics.snapshot().ttft_parts != TtftParts()
