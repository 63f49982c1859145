"""Each figure of the drift report, against numbers worked out by hand."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, StreamStart, Swap, SyncMark, Text
from multimodal.sync.drift import drift_report, order_of, pairs
from multimodal.sync.log import Arrived, Painted, SyncLog
from multimodal.sync.report import Spread
from tests.sync.tours import changed, emitted, index, tour, watched

TEXT = "one two three four five six "


def small(*, reveal_ms: float = 100.0, end_mark_ms: float = 250.0) -> SyncLog:
    """Interval 2, tokens 50 ms apart from 0, cue 0 at 0, cue 1 at 2, cue 2 at 5 (the end, off the interval)."""
    events: list[AnyEvent] = []

    def emit(kind: type[AnyEvent], pts_ms: float, tok: int, *fields: object) -> None:
        events.append(kind(1, "s", 0, len(events), pts_ms, tok, *fields))  # type: ignore[arg-type]

    emit(StreamStart, 0, 0, 2)
    emit(SyncMark, 0, 0, 0, 0, 1)
    emit(Reveal, 0, 0, 0, "a", "", 0, 0)
    emit(Text, 0, 1, 0, 1, "one ")
    emit(Text, 50, 2, 1, 1, "two ")
    emit(SyncMark, 50, 2, 2, 8, 1)
    emit(Reveal, reveal_ms, 2, 1, "b", "", 1, 2)
    emit(Text, 100, 3, 2, 1, "three ")
    emit(Text, 150, 4, 3, 1, "four ")
    emit(SyncMark, 150, 4, 4, 19, 0)
    emit(Text, 200, 5, 4, 1, "five ")
    emit(SyncMark, end_mark_ms, 5, 5, 24, 1)
    emit(Reveal, end_mark_ms, 5, 2, "c", "", 4, 5)
    emit(StreamEnd, end_mark_ms, 5)
    return SyncLog(tuple(events))


def test_token_drift_is_mark_minus_anchor() -> None:
    assert [pair.token_drift for pair in pairs(small())] == [0, 1, 1]
    assert drift_report(small()).token_drift_max == 1
    assert [pair.at for pair in pairs(small())] == [0, 2, 5]


def test_what_r2_does_not_bound_is_counted_apart() -> None:
    log = small()
    deferred = changed(log, index(log, Reveal, 1), deferred=True)
    assert (drift_report(deferred).token_drift_max, drift_report(deferred).deferred) == (1, 1)
    both = changed(deferred, index(log, Reveal, 2), declared_late=True)
    report = drift_report(both)
    assert (report.token_drift_max, report.deferred, report.declared_late) == (0, 1, 1)
    assert "deferred     1 pictures" in report.text()


def test_the_words_of_a_reveal_end_at_its_mark() -> None:
    assert [pair.words and pair.words.text for pair in pairs(small())] == [None, "two ", "five "]


def test_emitted_skew_is_the_difference_of_pts_and_0_within_a_bundle() -> None:
    on_time = drift_report(small(reveal_ms=50, end_mark_ms=200))
    assert on_time.skew_ms == {"emitted": Spread(2, 0, 0, 0, 0)}
    # The end came 50 ms behind the last token: the picture trails its words by as much.
    assert drift_report(small(reveal_ms=50)).skew_ms["emitted"] == Spread(2, 0, 0, 50, 50)


def test_what_a_hold_delayed_is_counted_apart() -> None:
    report = drift_report(small(reveal_ms=100, end_mark_ms=200))
    assert report.apart == {"held": 1, "mark_0": 1}
    assert report.held_ms == Spread(1, 50, 50, 50, 50)
    assert report.skew_ms["emitted"].count == 1


def test_an_end_mark_behind_its_words_is_counted_apart_only_in_the_share() -> None:
    log = watched(small(reveal_ms=50))
    report = drift_report(log)
    assert report.apart == {"mark_0": 1, "end_mark": 1}
    assert (report.judged, report.same_frame_share) == (1, 1.0)
    assert report.skew_ms["emitted"].count == 2
    # With the end known at the last token it is judged as any other.
    assert drift_report(watched(small(reveal_ms=50, end_mark_ms=200))).judged == 2


def test_arrived_skew_is_signed_and_takes_first_arrivals() -> None:
    log = small(reveal_ms=50, end_mark_ms=200)
    arrived = (Arrived(10, 4), Arrived(4, 6), Arrived(90, 6), Arrived(200, 10), Arrived(230, 12))
    assert drift_report(msgspec.structs.replace(log, arrived=arrived)).skew_ms["arrived"] == Spread(2, -6, -6, 30, 30)


def test_painted_skew_and_share_come_from_the_frames_that_first_applied_either() -> None:
    log = small(reveal_ms=50, end_mark_ms=200)
    painted = (Painted(0, 0, 3), Painted(16, 1, 5), Painted(33, 2, 8), Painted(50, 3, 13))
    report = drift_report(msgspec.structs.replace(log, painted=painted))
    # b: words (seq 4) in frame 1, reveal (seq 6) in frame 2; c: both in frame 3.
    assert report.skew_ms["painted"] == Spread(2, 0, 0, 17, 17)
    assert (report.judged, report.same_frame_share) == (2, 0.5)


def test_hidden_frames_are_not_judged() -> None:
    log = small(reveal_ms=50, end_mark_ms=200)
    painted = (Painted(16, 1, 8, visible=False), Painted(50, 3, 13))
    report = drift_report(msgspec.structs.replace(log, painted=painted))
    assert report.apart == {"mark_0": 1, "hidden": 1}
    assert report.skew_ms["painted"].count == 1
    assert (report.judged, report.same_frame_share) == (1, 1.0)


def test_a_reveal_that_no_receipt_covers_is_a_miss() -> None:
    log = msgspec.structs.replace(small(reveal_ms=50, end_mark_ms=200), painted=(Painted(16, 1, 8),))
    assert drift_report(log).same_frame_share == 0.5


def test_without_receipts_there_is_no_share() -> None:
    report = drift_report(small())
    assert (report.same_frame_share, report.judged) == (None, 0)


def test_a_preview_counts_as_shown_and_its_swap_is_measured_apart() -> None:
    report = drift_report(tour(ready={"mug-1": 2.0}, viewer=False))
    assert report.reveals_shown == 3
    assert report.previews == 1
    assert report.swaps_failed == 0
    assert report.skew_ms["emitted"].max == 0
    # The mark of anchor 17 is 18, emitted with token 17 at 0.85 s.
    assert report.swap_ms == Spread(1, 1150, 1150, 1150, 1150)


def test_a_swap_that_fails_or_never_comes_is_counted() -> None:
    log = tour(ready={"mug-1": 99.0}, viewer=False)
    assert drift_report(log).swaps_failed == 1
    cut = emitted(log, [event for event in log.events if not isinstance(event, Swap)])
    assert drift_report(cut).swaps_failed == 1
    assert drift_report(cut).swap_ms.count == 0


def test_the_trend_is_the_slope_of_skew_in_ms_per_minute() -> None:
    def drifting(event: AnyEvent) -> float:
        return event.pts_ms * 0.01 if isinstance(event, Reveal) else 0.0

    log = msgspec.structs.replace(watched(tour(viewer=False), drifting), painted=())
    assert drift_report(log).drift_ms_per_minute == pytest.approx(600, abs=0.01)
    assert drift_report(small(reveal_ms=100)).drift_ms_per_minute is None


def test_missed_cues_are_counted_by_reason() -> None:
    log = tour(late="skip", ready={"mug-1": 99.0, "lamp-1": 99.0})
    report = drift_report(log)
    assert report.missed == {"late": 2}
    assert (report.reveals_expected, report.reveals_shown) == (3, 1)
    assert len(log.of(CueMissed)) == 2


def test_order_of_seqs() -> None:
    order = order_of([0, 2, 1, 1, 4], range(5))
    assert (order.lost, order.duplicated, order.out_of_order) == ((3,), (1,), (1,))


@settings(deadline=None)
@given(st.lists(st.integers(0, 12)))
def test_order_accounts_for_every_seq(seqs: list[int]) -> None:
    order = order_of(seqs, range(13))
    assert len(seqs) == 13 - len(order.lost) + len(order.duplicated)
    assert bool(order.out_of_order or order.duplicated) == (seqs != sorted(set(seqs)))


def test_lost_duplicated_and_disordered_events_are_counted_at_both_vantage_points() -> None:
    log = tour()
    assert log.arrived
    events = list(log.events)
    place = index(log, Text, 3)
    events[place : place + 2] = [events[place + 1], events[place], events[place]]
    arrived = [item for item in log.arrived if item.seq != 5]
    report = drift_report(msgspec.structs.replace(log, events=tuple(events), arrived=tuple(arrived)))
    assert (report.events_lost, report.events_duplicated, report.events_out_of_order) == (1, 1, 1)


@settings(deadline=None)
@given(st.lists(st.floats(-1e4, 1e4).map(lambda value: round(value, 3)), min_size=1))
def test_a_spread_is_ranked_and_made_of_its_values(values: list[float]) -> None:
    spread = Spread.over(values)
    assert (spread.count, spread.min, spread.max) == (len(values), min(values), max(values))
    assert spread.p50 in values
    assert spread.p95 in values
    assert sum(value <= (spread.p95 or 0) for value in values) >= 0.95 * len(values)
    assert sum(value <= (spread.p50 or 0) for value in values) >= 0.5 * len(values)


def test_the_report_as_text_and_as_json() -> None:
    report = drift_report(tour(late="hold", ready={"mug-1": 0.9, "lamp-1": 9.0}))
    text = report.text()
    assert text.startswith("3 of 3 pictures shown\ntoken drift  at most 2 tokens\n")
    assert "not judged   held 2" in text
    assert "holds        p50 +50.0 ms, p95 +250.0 ms" in text
    data = json.loads(report.json())
    assert data["same_frame_share"] == 1.0
    assert data["skew_ms"]["painted"]["max"] == 0
    assert "missed: late 1" in drift_report(tour(late="skip", ready={"mug-1": 99.0})).text()


def test_an_empty_log_gives_a_report_without_figures() -> None:
    report = drift_report(SyncLog((), truncated="line 1 breaks off"))
    assert report.token_drift_max is None
    assert report.skew_ms == {}
    assert report.text() == (
        "0 of 0 pictures shown\nevents       0 lost, 0 duplicated, 0 out of order\nrecording    line 1 breaks off"
    )
