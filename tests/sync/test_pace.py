"""The flow of the words, times on one base and the noise of a trend, against numbers worked out by hand."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.events import AnyEvent, Reveal, StreamStart, SyncMark, Text
from multimodal.sync.clocks import ClockSample
from multimodal.sync.drift import Slope, drift_report, skew_uncertainty_ms, trend
from multimodal.sync.log import ACK_MS, Arrived, Painted, SyncLog
from multimodal.sync.pace import moment, pace_of
from multimodal.sync.report import Spread
from tests.sync.tours import tour, watched


def flow(*pts_ms: float) -> SyncLog:
    """One word at each time, the first token empty and earlier; a reveal with the third word."""
    events: list[AnyEvent] = [StreamStart(1, "s", 0, 0, 0.0, 0, 3), Text(1, "s", 0, 1, 0.0, 1, 0, 1, "")]
    for number, at in enumerate(pts_ms, start=1):
        events.append(Text(1, "s", 0, len(events), at, number + 1, number, 1, f"w{number} "))
        if number == 2:
            events.append(SyncMark(1, "s", 0, len(events), at, 3, 3, 6, 1))
            events.append(Reveal(1, "s", 0, len(events), at, 3, 0, "a", "", 3, 3))
    return SyncLog(tuple(events))


def test_ttft_itl_and_stddev_at_emission() -> None:
    pace = pace_of(flow(120, 170, 320))["emitted"]
    assert (pace.ttft_ms, pace.initial_sync_ms) == (120, 170)
    assert pace.itl_ms == Spread(2, 50, 50, 150, 150)
    assert (pace.gap_stddev_ms, pace.jitter_ms, pace.uncertainty_ms) == (50, None, 0)


def test_jitter_is_that_of_rfc_3550() -> None:
    log = flow(0, 100, 200)
    # The viewer's clock is 5 s ahead; transits of the three words are 20, 36 and 4 ms: |D| = 16, 32.
    seqs = [text.seq for text in log.texts if text.text]
    times = zip(seqs, (5020.0, 5136.0, 5204.0), strict=True)
    arrived = (Arrived(5020.0, 0), *(Arrived(at, seq) for seq, at in times), Arrived(5137.0, 5))
    pace = pace_of(msgspec.structs.replace(log, arrived=arrived))["arrived"]
    assert pace.jitter_ms == pytest.approx(1 + (32 - 1) / 16, abs=0.001)
    assert pace.itl_ms == Spread(2, 68, 68, 116, 116)
    # Without pings the fastest event, 5,004 ms from clock to clock, is taken to have needed nothing.
    assert (pace.ttft_ms, pace.initial_sync_ms, pace.uncertainty_ms) == (16, 133, None)


def test_with_pings_times_of_the_viewer_stand_on_the_streams_base() -> None:
    log = flow(0, 100, 200)
    frames = tuple(Painted(5000 + event.pts_ms + 30, number, event.seq) for number, event in enumerate(log.events))
    log = msgspec.structs.replace(log, painted=frames, pings=(ClockSample(90, 5100, 110),))
    reveal = log.of(Reveal)[0]
    at = moment(log, reveal, "painted")
    assert at is not None
    assert at.ms == 130
    assert at.uncertainty_ms == pytest.approx(10.015)
    report = drift_report(log)
    assert report.latency_ms["painted"] == Spread(1, 30, 30, 30, 30)
    assert report.clock is not None
    assert (report.clock.offset_ms, report.clock.uncertainty_ms, report.clock.rate_ppm) == (5000, 10, None)
    figures = report.reveals[0]
    assert figures.at_ms == {"emitted": 100, "painted": 130}
    assert figures.at_uncertainty_ms == {"emitted": 0, "painted": at.uncertainty_ms}
    assert figures.skew_ms == {"emitted": 0, "painted": 0}
    assert figures.skew_uncertainty_ms == {"emitted": 0, "painted": 0.1}
    assert "clock        the viewer's is +5000.0 ms from ours, ±10.0 ms; 1 pings" in report.text()
    assert "latency      to painted: p50 +30.0 ms" in report.text()


def test_hidden_frames_have_no_gap() -> None:
    log = flow(0, 100, 200, 300)
    frames = tuple(Painted(e.pts_ms + 10, n, e.seq, e.seq != 3) for n, e in enumerate(log.events))
    pace = pace_of(msgspec.structs.replace(log, painted=frames))
    assert "painted" not in pace  # neither pings nor arrivals: the frames stand on no base
    aligned = msgspec.structs.replace(log, painted=frames, pings=(ClockSample(0, 0, 0),))
    assert pace_of(aligned)["painted"].itl_ms.count == 1


def test_arrivals_by_acknowledgement_are_coarse_and_give_no_pace() -> None:
    log = flow(0, 100, 200)
    log = msgspec.structs.replace(log, arrived=tuple(Arrived(e.pts_ms + 60, e.seq, "server") for e in log.events))
    assert "arrived" not in pace_of(log)
    figures = drift_report(log).reveals[0]
    assert figures.at_ms["arrived"] == 160
    assert figures.at_uncertainty_ms["arrived"] == figures.skew_uncertainty_ms["arrived"] == ACK_MS
    assert skew_uncertainty_ms(log, "arrived") == ACK_MS
    assert skew_uncertainty_ms(tour(), "arrived") == 0.1
    assert skew_uncertainty_ms(tour(), "painted", -1000) == 0.6


def test_the_standard_error_is_that_of_the_least_squares_slope() -> None:
    # y = x but for residuals of +1, -2, +1 around it: SSR = 6, Sxx = 2, n - 2 = 1.
    slope = Slope.over([0, 1, 2], [1, -1, 3])
    assert slope.ms_per_minute == 60_000
    assert slope.error_ms_per_minute == pytest.approx(math.sqrt(3) * 60_000, abs=0.001)
    assert Slope.over([0, 1], [0, 1]) == Slope(60_000, None)
    assert Slope.over([1, 1, 1], [0, 1, 2]) == Slope()
    assert trend(tour()) == Slope(0, 0)
    assert trend(SyncLog(())) == Slope()


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=60))
def test_a_steady_road_has_no_jitter_and_an_unsteady_one_at_most_its_range(delays: list[float]) -> None:
    log = flow(*(100.0 * i for i in range(len(delays))))
    lookup = dict(zip((text.seq for text in log.texts if text.text), delays, strict=True))
    seen = watched(log, lambda event: lookup.get(event.seq, 0.0))
    jitter = pace_of(seen)["arrived"].jitter_ms
    if len(delays) == 1:
        assert jitter is None
    else:
        assert jitter is not None
        assert 0 <= jitter <= max(delays) - min(delays) + 0.001
    steady = pace_of(watched(log, lambda event: 40.0))["arrived"]
    assert steady.jitter_ms in (None, 0)


def test_the_report_tells_the_pace() -> None:
    text = drift_report(tour()).text()
    assert (
        "words        emitted: first after 0.0 ms; first picture with its words after 250.0 ms; gaps p50 50.0" in text
    )
    assert "words        painted: first after" in text
    assert "clock" not in text
