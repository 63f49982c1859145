"""A short tour for a throttled browser, and that its judge would tell a player that falls behind."""

from __future__ import annotations

import msgspec
import pytest

from multimodal.bench.slow_client import INTERVAL, QUICK, WORDS_PER_PRODUCT, judge, make_catalogue, play
from multimodal.demos.product_tour.tour import shop_tour
from multimodal.events import Reveal
from multimodal.sync.drift import drift_report
from multimodal.sync.log import Painted, SyncLog
from tests.support import run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def log() -> SyncLog:
    """The tour once, as short as can be."""
    return run(play(QUICK), limit=120)


def test_a_throttled_browser_paints_everything_in_step(log: SyncLog) -> None:
    drift = drift_report(log)
    assert drift.reveals_shown == drift.reveals_expected == QUICK.products
    assert (drift.events_lost, drift.events_duplicated) == (0, 0)
    assert drift.token_drift_max is not None
    assert drift.token_drift_max < INTERVAL
    assert drift.same_frame_share is not None
    assert drift.same_frame_share >= 0.9
    judged = {entry["what"]: entry for entry in judge(log, QUICK)["figures"]}
    assert judged["words painted"]["value"] == QUICK.products * WORDS_PER_PRODUCT
    assert all(entry["limit"] is not None for entry in judged.values())


def test_a_player_that_falls_behind_is_told(log: SyncLog) -> None:
    """Planted: everything has a frame of its own, and with every picture the rest is painted later, more each time."""
    reveals = [event.seq for event in log.of(Reveal)]
    painted: list[Painted] = []
    for event in log.events:
        frame = log.frame_of(event.seq)
        if frame is not None:
            late = 10.0 * sum(seq <= event.seq for seq in reveals) ** 2
            painted.append(Painted(frame.t_ms + late, len(painted), event.seq, True))
    failed, busy = (
        {entry["what"] for entry in judge(each, QUICK)["figures"] if not entry["ok"]}
        for each in (msgspec.structs.replace(log, painted=tuple(painted)), log)
    )
    # What this machine is too busy for is no fault that was planted.
    assert failed - busy == {
        "same-frame share",
        "growth of painted skew (limit: what its noise explains)",
        "way of words, last quarter against first, medians",
    }


def test_the_tour_has_the_words_it_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    tour = shop_tour(make_catalogue(tmp_path_factory.mktemp("shop"), 5))
    assert len(tour.plan.tokens) == 5 * WORDS_PER_PRODUCT
    assert len({cue.key for cue in tour.plan.cues}) == 5
