"""Live figures are those of the recording, as far as they are known by then."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.events import AnyEvent, Reveal
from multimodal.sync.aligner import Aligner
from multimodal.sync.drift import drift_report, pairs
from multimodal.sync.live import PENDING_LIMIT, DriftSample, LiveDrift
from multimodal.sync.log import Painted, SyncLog
from multimodal.values import Cue, Token
from tests.sync.driving import Scenario, drive, image, scenarios
from tests.sync.tours import tour, watched


def play(log: SyncLog, delay_ms: float = 40.0) -> tuple[LiveDrift, list[DriftSample]]:
    """Feed events and receipts in the order in which a server would have them: a receipt after what it covers."""
    live, found = LiveDrift(), []
    items: list[tuple[float, int, AnyEvent | Painted]] = [(e.pts_ms, e.seq, e) for e in log.events]
    items += [(max(0.0, receipt.t_ms + delay_ms), receipt.seq, receipt) for receipt in log.painted]
    for _, _, item in sorted(items, key=lambda entry: entry[:2]):
        if isinstance(item, Painted):
            found += live.painted(item)
        elif (sample := live.emitted(item)) is not None:
            found.append(sample)
    return live, found


def test_each_reveal_is_told_as_emitted_and_again_as_painted() -> None:
    live, found = play(tour())
    assert [(sample.vantage, sample.key) for sample in found] == [
        ("emitted", "kettle-1"),
        ("painted", "kettle-1"),
        ("emitted", "mug-1"),
        ("painted", "mug-1"),
        ("emitted", "lamp-1"),
        ("painted", "lamp-1"),
    ]
    assert {sample.skew_ms for sample in found} == {0.0}
    assert [sample.same_frame for sample in found] == [None, True] * 3
    summary = live.summary()
    assert (summary.reveals, summary.painted, summary.unpainted, summary.judged) == (3, 3, 0, 3)
    assert (summary.same_frame_share, summary.token_drift_max, summary.skew_ms_max) == (1.0, 2, 0.0)
    assert (summary.drift_ms_per_minute, summary.drift_error_ms_per_minute) == (0, 0)


def test_a_split_frame_is_told_at_once() -> None:
    log = tour()
    reveal = log.of(Reveal)[1]
    late = watched(log, lambda event: 100.0 if event.seq >= reveal.seq else 20.0)
    _, found = play(late)
    split = next(sample for sample in found if sample.vantage == "painted" and sample.key == "mug-1")
    assert split.same_frame is False
    # It came 80 ms after its words, which is four or five frames of 60 a second.
    assert split.skew_ms in (pytest.approx(66.67, abs=0.01), pytest.approx(83.33, abs=0.01))


@settings(deadline=None)
@given(
    scenario=scenarios(),
    delays=st.lists(st.floats(0, 300), min_size=1, max_size=8),
    hidden=st.sets(st.integers(0, 60)),
)
def test_live_figures_are_those_of_the_recording(scenario: Scenario, delays: list[float], hidden: set[int]) -> None:
    aligner = scenario.aligner()
    log = watched(
        SyncLog(tuple(drive(aligner, scenario.schedule())), plan=aligner.plan),
        lambda event: delays[event.seq % len(delays)],
    )
    frames = tuple(msgspec.structs.replace(f, visible=n not in hidden) for n, f in enumerate(log.painted))
    log = msgspec.structs.replace(log, painted=frames)
    live, found = play(log)
    told = {(sample.cue, sample.vantage): sample for sample in found}
    for pair in pairs(log):
        emitted, painted = told[pair.reveal.cue, "emitted"], told[pair.reveal.cue, "painted"]
        assert emitted.skew_ms == pair.skew_ms.get("emitted")
        assert emitted.held_ms == pair.held_ms
        assert emitted.token_drift == pair.token_drift
        assert painted.apart == pair.apart
        assert painted.skew_ms == pair.skew_ms.get("painted")
        assert painted.same_frame == (None if pair.apart else pair.same_frame)
    summary, report = live.summary(), drift_report(log)
    assert summary.same_frame_share == report.same_frame_share
    assert summary.token_drift_max == report.token_drift_max
    assert summary.judged == report.judged
    if "painted" in report.skew_ms and report.drift_ms_per_minute is not None:
        assert summary.drift_ms_per_minute == pytest.approx(report.drift_ms_per_minute, abs=0.01, rel=1e-6)
        if report.drift_error_ms_per_minute is not None:
            noise = pytest.approx(report.drift_error_ms_per_minute, abs=0.05, rel=1e-4)
            assert summary.drift_error_ms_per_minute == noise


def test_without_receipts_memory_stays_bounded_and_emission_is_told() -> None:
    live = LiveDrift()
    for number in range(PENDING_LIMIT * 3):
        reveal = Reveal(1, "s", 0, number, float(number), 0, number, "a", "", 0, 0)
        sample = live.emitted(reveal)
        assert sample is not None
        assert sample.apart == "mark_0"
    summary = live.summary()
    assert summary.unpainted == PENDING_LIMIT * 2
    assert len(live._pending) == PENDING_LIMIT
    assert (summary.skew_ms_max, summary.same_frame_share, summary.drift_ms_per_minute) == (None, None, None)


def test_a_receipt_that_comes_twice_or_out_of_order_changes_nothing() -> None:
    log = tour()
    live, found = play(log)
    assert [sample for receipt in log.painted for sample in live.painted(receipt)] == []
    assert live.summary() == play(log)[0].summary()
    assert len(found) == 6


def test_behind_an_interruption_marks_and_figures_begin_anew() -> None:
    aligner = Aligner(3, sid="turns")
    events: list[AnyEvent] = []
    for key in ("a", "b", "c"):
        aligner.feed_image(image(key), 0.0)
    aligner.feed_cue(Cue(3, "a"), 0.0)
    for number in range(3):
        aligner.feed_token(Token(f"t{number} "), number * 0.1)
    aligner.interrupt(1.0)
    # The next turn begins at boundary 3: its first picture has no words before it, its second comes with token 6.
    aligner.feed_cue(Cue(3, "b"), 2.0)
    aligner.feed_cue(Cue(6, "c"), 2.0)
    for number in range(3, 7):
        aligner.feed_token(Token(f"t{number} "), 2.0 + number * 0.1)
    aligner.feed_eof(3.0)
    events.extend(aligner.events())
    log = watched(SyncLog(tuple(events), plan=aligner.plan))
    found = {pair.reveal.key: pair for pair in pairs(log)}
    assert {key: pair.apart for key, pair in found.items()} == {"a": "", "b": "mark_0", "c": ""}
    assert found["b"].held_ms == 0
    assert found["c"].skew_ms["emitted"] == 0
    live, samples = play(log)
    assert {sample.key: sample.apart for sample in samples} == {"a": "", "b": "mark_0", "c": ""}
    assert live.summary().same_frame_share == drift_report(log).same_frame_share == 1.0
