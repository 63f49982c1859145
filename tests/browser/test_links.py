"""A real Chromium behind bad networks: short tours, with limits wide enough for a busy machine."""

from __future__ import annotations

import pytest

from multimodal.bench.links import NETWORKS, QUICK, Results, judge, play, skew_growth
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.sync.drift import drift_report
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, assert_right_product
from tests.support import run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def results() -> Results:
    """Everything once, as short as can be, in one Chromium."""
    return run(play(QUICK), limit=240)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_tour_stays_in_sync_behind_a_bad_network(results: Results, name: str) -> None:
    tour = results.tours[name]
    assert tour.log.text == "".join(demo_tour().plan.tokens)
    assert_every_cue_settled(tour.log)
    assert_right_product(tour.log)
    assert_in_sync(tour.log, preset="default", max_token_drift=2)
    report = drift_report(tour.log)
    assert report.reveals_shown == report.reveals_expected == 16
    assert (report.events_lost, report.events_duplicated, report.events_out_of_order) == (0, 0, 0)
    assert report.same_frame_share is not None
    assert report.same_frame_share >= 0.9
    assert not skew_growth(tour.log).grows


def test_the_networks_were_what_they_say(results: Results) -> None:
    tours = results.tours
    lossy = tours["lossy"].down
    assert 0.002 < lossy.lost / lossy.sent < 0.06
    for tour in tours.values():
        # The pictures came this way too.
        assert tour.down.delivered_bytes > 300_000
    assert tours["slow"].down.lost == tours["jittery"].down.lost == 0


def test_a_tab_that_was_hidden_shows_the_current_state_in_its_first_frame(results: Results) -> None:
    hidden = results.hidden
    assert hidden.missing == 0
    assert hidden.shown == hidden.expected
    report = drift_report(hidden.log)
    assert report.apart["hidden"] >= 1
    assert report.judged >= 1
    assert report.reveals_shown == 16
    assert (report.events_lost, report.events_duplicated) == (0, 0)


def test_lost_last_words_are_shown_long_before_the_timer_of_a_second(results: Results) -> None:
    assert 60 < results.ends[0] < 900


def test_the_bench_has_a_bar_for_everything(results: Results) -> None:
    found = judge(results)
    assert found["bench"] == "links"
    assert len(found["figures"]) == 6 * len(NETWORKS) + 7 + 2
    assert all(entry["limit"] is not None for entry in found["figures"])
    assert found["ours"]["60 ms, 2 % loss"]["down"]["lost"] > 0
