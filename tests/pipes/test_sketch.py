"""Quantiles within their error and a spread that is exact, in bounded memory."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.pipes.sketch import ERROR, Quantiles, Spread

TIMES = st.lists(st.floats(2e-6, 1e5), min_size=1, max_size=300)
SHARES = (0.0, 0.01, 0.5, 0.95, 0.99, 1.0)


def true(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, math.floor(share * len(values)))]


@settings(deadline=None, max_examples=200)
@given(TIMES)
def test_every_quantile_is_within_its_error(values: list[float]) -> None:
    sketch = Quantiles()
    for value in values:
        sketch.add(value)
    for share, found in zip(SHARES, sketch.at(*SHARES), strict=True):
        assert found == pytest.approx(true(values, share), rel=ERROR * 1.0001)


@given(TIMES, TIMES)
def test_two_merged_are_one_that_saw_both(first: list[float], second: list[float]) -> None:
    one, other, both = Quantiles(), Quantiles(), Quantiles()
    for value in first:
        one.add(value)
        both.add(value)
    for value in second:
        other.add(value)
        both.add(value)
    one.merge(other)
    assert one.at(*SHARES) == both.at(*SHARES)
    assert one.count == both.count == len(first) + len(second)


def test_a_day_of_any_times_takes_bounded_memory() -> None:
    draw = random.Random(1)
    sketch = Quantiles()
    for _ in range(50_000):
        sketch.add(10 ** draw.uniform(-9, 9))
    assert len(sketch._buckets) <= 1_400


def test_nothing_and_next_to_nothing() -> None:
    sketch = Quantiles()
    assert math.isnan(sketch.at(0.5)[0])
    sketch.add(0.0, times=3)
    sketch.add(1e-9)
    assert sketch.at(0.5, 1.0) == [0.0, 0.0]
    assert sketch.count == 4
    assert math.isnan(Spread().stddev)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=100))
def test_the_spread_is_that_of_the_numbers(values: list[float]) -> None:
    spread = Spread()
    for value in values:
        spread.add(value)
    assert spread.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert spread.stddev == pytest.approx(statistics.pstdev(values), abs=1e-6)
    assert spread.most == max(values)


def test_small_spreads_on_large_numbers_keep_their_digits() -> None:
    spread = Spread()
    for number in range(1000):
        spread.add(1e9 + number % 2)
    assert spread.stddev == pytest.approx(0.5)
