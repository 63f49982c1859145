"""The buffer's marks follow what it measures, and its factor moves what it names, against simulated consumers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.pipes.buffer import FLOOR, MEMORY, START, AdaptiveBuffer
from multimodal.pipes.buffer_sweep import CONSUMERS, PACE, Simulated, simulate

FACTORS = [1.0 + 0.1 * step for step in range(11)]


def cycle(buffer: AdaptiveBuffer, now: float, absence: float, pace: float = PACE) -> float:
    """A consumer that takes all there is and is away for `absence`, while tokens are made at that pace."""
    for _ in range(max(1, round(absence / pace))):
        now += pace
        if not buffer.full:
            buffer.put(1, now)
    buffer.ask(now)
    buffer.take(buffer.level, now)
    return now


def test_the_marks_are_the_product_of_pace_and_absence() -> None:
    buffer = AdaptiveBuffer(1.5)
    assert (buffer.high, buffer.low) == (START * 1.5, START * 1.5 // 2)
    now = 0.0
    for _ in range(20):
        now = cycle(buffer, now, 1.0)
    assert buffer.absence == pytest.approx(1.0)
    assert buffer.high == round(1.5 * 1.0 / PACE)
    buffer.configure(2.0)
    assert (buffer.high, buffer.low) == (100, 50)


def test_one_long_absence_among_many_short_is_what_counts() -> None:
    buffer, now = AdaptiveBuffer(1.0), 0.0
    for _ in range(20):
        for _ in range(100):
            now += 0.01
            buffer.put(1, now)
            buffer.ask(now)
            buffer.take(1, now)
        now += 1.0
        buffer.put(1, now)
        buffer.ask(now)
        buffer.take(1, now)
    assert buffer.absence == pytest.approx(1.0, abs=0.02)


def test_a_consumer_that_changes_is_followed() -> None:
    buffer, now = AdaptiveBuffer(1.0), 0.0
    for _ in range(20):
        now = cycle(buffer, now, 2.0)
    before = buffer.high
    for _ in range(round(6 * MEMORY / 0.2)):
        now = cycle(buffer, now, 0.2)
    assert before == 100
    assert buffer.high <= 16


def test_the_pace_leaves_out_what_the_producer_was_held_back_for() -> None:
    buffer, now = AdaptiveBuffer(1.0), 0.0
    for _ in range(50):
        while not buffer.full:
            now += PACE
            buffer.put(1, now)
        now += 5.0
        buffer.ask(now)
        buffer.take(buffer.level, now)
    assert buffer.stats().pace == pytest.approx(PACE)
    other = AdaptiveBuffer(1.0)
    for number in range(10):
        other.put(2, number * 1.0, held=number % 2 == 1)
    assert other.stats().pace == pytest.approx(0.5)


def test_it_is_full_from_high_to_low() -> None:
    buffer = AdaptiveBuffer(0.25)
    assert (buffer.high, buffer.low) == (8, 4)
    for number in range(8):
        assert not buffer.full
        buffer.put(1, number * PACE)
    assert buffer.full
    buffer.take(3, 1.0)
    assert buffer.full
    buffer.take(1, 1.5)
    assert not buffer.full
    assert buffer.stats().held_back == pytest.approx(1.5 - 7 * PACE)


def test_only_what_the_buffer_cost_is_an_underrun() -> None:
    buffer = AdaptiveBuffer(0.25)
    buffer.ask(0.0)
    assert buffer.underruns == 0  # the producer was never held back
    buffer.put(8, 0.1)
    buffer.take(8, 0.2)
    buffer.ask(0.3)
    assert buffer.underruns == 1
    buffer.ask(0.4)
    assert buffer.underruns == 1


def test_ages_are_those_of_the_tokens_taken() -> None:
    buffer = AdaptiveBuffer()
    buffer.put(3, 0.0)
    buffer.put(1, 1.0)
    buffer.take(2, 1.0)
    buffer.take(2, 2.0)
    stats = buffer.stats()
    assert stats.age_mean == pytest.approx((1 + 1 + 2 + 1) / 4)
    assert stats.age_p95 == pytest.approx(2.0, rel=0.01)
    assert (stats.level, stats.peak) == (0, 4)
    with pytest.raises(UsageError, match="more than the 0 tokens"):
        buffer.take(1, 3.0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30), st.floats(0, 3)), max_size=60), st.floats(0.1, 4))
def test_nothing_is_lost_and_the_marks_stay_within_bounds(steps: list[tuple[int, int, float]], factor: float) -> None:
    buffer = AdaptiveBuffer(factor, most=200)
    now, made, taken = 0.0, 0, 0
    for put, take, seconds in steps:
        now += seconds
        if put and not buffer.full:
            buffer.put(put, now)
            made += put
        buffer.ask(now)
        take = min(take, buffer.level)
        buffer.take(take, now)
        taken += take
        assert buffer.level == made - taken
        assert 2 <= buffer.high <= 200
        assert buffer.low == buffer.high // 2
        assert buffer.full or buffer.level < buffer.high or put == 0
        assert not buffer.full or buffer.level > buffer.low
        assert buffer.stats().peak <= buffer.most + 20


# ---- the sweep


@pytest.fixture(scope="module")
def sweep() -> dict[str, list[Simulated]]:
    return {consumer: [simulate(factor, consumer) for factor in FACTORS] for consumer in CONSUMERS}


def rising(values: Sequence[float]) -> bool:
    return all(after >= before for before, after in pairwise(values))


def test_a_larger_factor_has_fewer_underruns_and_ends_sooner(sweep: dict[str, list[Simulated]]) -> None:
    runs = sweep["bursty"]
    assert rising([run.underruns for run in runs][::-1])
    assert runs[0].underruns >= 3 * runs[5].underruns > 0
    assert rising([run.held_back for run in runs][::-1])
    assert rising([run.seconds for run in runs][::-1])


def test_a_larger_factor_holds_more_tokens_for_longer(sweep: dict[str, list[Simulated]]) -> None:
    for consumer in ("slow", "bursty"):
        runs = sweep[consumer]
        assert rising([run.tokens_held for run in runs])
        assert rising([run.age_mean for run in runs])
        assert rising([run.age_p95 for run in runs])
        assert rising([run.peak for run in runs])
        assert runs[10].age_mean > 1.2 * runs[0].age_mean


def test_a_slow_consumer_never_waits_and_holds_few(sweep: dict[str, list[Simulated]]) -> None:
    for factor, run in zip(FACTORS, sweep["slow"], strict=True):
        assert run.underruns == 0
        assert run.peak == run.high == round(factor * FLOOR)


def test_who_is_always_there_waits_for_nothing(sweep: dict[str, list[Simulated]]) -> None:
    for factor, run in zip(FACTORS, sweep["fast"], strict=True):
        assert (run.underruns, run.peak, run.age_mean) == (0, 1, 0)
        assert run.high == round(factor * FLOOR)


@pytest.mark.parametrize("factor", [0, -1, True, math.inf, "1.5"])
def test_wrong_settings_are_refused(factor: float) -> None:
    with pytest.raises(UsageError, match="buffer_factor="):
        AdaptiveBuffer(factor)
    with pytest.raises(UsageError, match="most=1"):
        AdaptiveBuffer(most=1)
