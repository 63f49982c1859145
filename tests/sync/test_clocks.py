"""The viewer's clock: the offset is never further off than it says, whatever the road and the rates do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.sync.clocks import RATE_LIMIT, ClockSample, TimeBase, ViewerClock


def ping(at_ms: float, there_ms: float, back_ms: float, offset_ms: float = 0.0, rate: float = 0.0) -> ClockSample:
    """A ping sent at `at_ms`, to a viewer whose clock is ahead by `offset_ms` at 0 and gains `rate` ms per ms."""
    answered = at_ms + there_ms
    return ClockSample(at_ms, answered * (1 + rate) + offset_ms, answered + back_ms)


def test_one_ping_gives_the_offset_and_half_the_round_trip() -> None:
    offset = ViewerClock([ping(1000, 10, 10, 5000)]).at(6010)
    assert (offset.offset_ms, offset.uncertainty_ms, offset.rate_ppm) == (5000, 10, None)


def test_an_uneven_road_is_covered_by_the_uncertainty() -> None:
    offset = ViewerClock([ping(1000, 90, 10, 5000)]).at(6090)
    assert offset.offset_ms == 5040
    assert offset.uncertainty_ms == 50


def test_the_fastest_ping_counts_until_its_age_outweighs_it() -> None:
    clock = ViewerClock([ping(0, 1, 1), ping(10_000, 40, 40), ping(20_000, 3, 3)])
    assert clock.at(0).uncertainty_ms == pytest.approx(1, abs=0.01)
    # Pings that slow measure no rate, so age is charged at the limit: 1 + 10 ms there, 3 + 5 ms here.
    assert ViewerClock([ping(0, 1, 1), ping(20_000, 3, 3)]).at(19_000).uncertainty_ms < 8
    assert clock.at(15_000).uncertainty_ms < 40


def test_beyond_the_window_the_nearest_ping_still_speaks_with_its_age() -> None:
    far = ViewerClock([ping(0, 1, 1)]).at(100_001)
    assert far.uncertainty_ms == pytest.approx(1 + 100_000 * RATE_LIMIT)


def test_a_steady_rate_is_measured() -> None:
    clock = ViewerClock(ping(second * 1000.0, 1, 1, 700, 80e-6) for second in range(60))
    offset = clock.at(30_700)
    assert offset.rate_ppm == pytest.approx(80, abs=1)
    assert abs(offset.offset_ms - (700 + 30_000 * 80e-6)) <= offset.uncertainty_ms


def test_a_clock_that_was_set_is_followed_from_there() -> None:
    before = [ping(second * 1000.0, 2, 2) for second in range(10)]
    after = [ping(second * 1000.0, 20, 20, 3_600_000) for second in range(10, 20)]
    clock = ViewerClock([*before, *after])
    assert clock.at(3_000).offset_ms == pytest.approx(0, abs=2)
    assert clock.at(3_615_000).offset_ms == pytest.approx(3_600_000, abs=20)


def test_impossible_answers_are_ignored_and_old_ones_forgotten() -> None:
    clock = ViewerClock([ClockSample(10, 5, 9), ping(100, 1, 1), ClockSample(0, 50, 90)], keep=2)
    assert len(clock) == 1
    clock.add(ping(200, 1, 1))
    clock.add(ping(300, 1, 1))
    assert len(clock) == 2
    with pytest.raises(ValueError, match="no ping was answered"):
        ViewerClock().at(0)


delays = st.floats(0.05, 400)


@settings(deadline=None, max_examples=200)
@given(
    roads=st.lists(st.tuples(delays, delays), min_size=1, max_size=90),
    offset_ms=st.floats(-1e7, 1e7),
    rate=st.floats(-RATE_LIMIT, RATE_LIMIT),
    when=st.floats(0, 1),
)
def test_the_offset_is_never_further_off_than_it_says(
    roads: list[tuple[float, float]], offset_ms: float, rate: float, when: float
) -> None:
    clock = ViewerClock(ping(1000.0 * i, there, back, offset_ms, rate) for i, (there, back) in enumerate(roads))
    server_ms = when * 1000.0 * len(roads)
    viewer_ms = server_ms * (1 + rate) + offset_ms
    told = clock.at(viewer_ms)
    # Rounded to microseconds; and the allowance takes the ms of both clocks as equal, which they are not quite.
    assert abs(told.offset_ms - (viewer_ms - server_ms)) <= told.uncertainty_ms * 1.001 + 0.03


def test_a_time_base_maps_with_pings_else_by_the_fastest_event_else_not_at_all() -> None:
    measured = TimeBase([ping(0, 5, 5, 1000)], [(0, 5000)])
    instant = measured.at(1205)
    assert measured.measured
    assert instant is not None
    assert instant.ms == 205
    assert instant.uncertainty_ms == pytest.approx(5 + 200 * RATE_LIMIT)
    assumed = TimeBase((), [(0, 530), (100, 620)])
    guess = assumed.at(620)
    assert guess is not None
    assert (guess.ms, guess.uncertainty_ms, assumed.offset(620)) == (100, None, None)
    assert TimeBase().at(1) is None
