"""The figures of a drift report, as text and as JSON. How each is computed stands in `multimodal.sync.drift`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

__all__ = ["VANTAGES", "ClockFigures", "DriftReport", "Pace", "RevealFigures", "Spread", "Vantage"]

Vantage = Literal["emitted", "arrived", "painted"]
VANTAGES: tuple[Vantage, ...] = get_args(Vantage)
"""From the source to the glass."""


class Spread(msgspec.Struct, frozen=True):
    """How values are distributed: nearest-rank percentiles of signed values; None for each where there are none."""

    count: int
    min: float | None = None
    p50: float | None = None
    p95: float | None = None
    max: float | None = None

    @classmethod
    def over(cls, values: Iterable[float]) -> Spread:
        """The spread of some values."""
        ranked = sorted(values)
        if not ranked:
            return cls(0)
        rank = {q: ranked[math.ceil(q / 100 * len(ranked)) - 1] for q in (50, 95)}
        return cls(len(ranked), *(round(value, 3) for value in (ranked[0], rank[50], rank[95], ranked[-1])))

    def text(self) -> str:
        """For people: ``p50 +0.0 ms, p95 +16.7 ms, max +33.4 ms (24)``."""
        if self.count == 0 or self.min is None or self.p50 is None or self.p95 is None or self.max is None:
            return "none"
        low = f"min {self.min:+.1f} ms, " if self.min < 0 else ""
        return f"{low}p50 {self.p50:+.1f} ms, p95 {self.p95:+.1f} ms, max {self.max:+.1f} ms ({self.count})"


class Pace(msgspec.Struct, frozen=True):
    """How the words flowed at one vantage point; `multimodal.sync.pace` says how each figure is computed.

    Args:
        ttft_ms, initial_sync_ms: since the stream's beginning; the latter is None where no picture came.
        itl_ms: the gaps between words.
        gap_stddev_ms: their standard deviation; None without gaps.
        jitter_ms: of the transit times; None at `emitted` and for fewer than two words.
        uncertainty_ms: of `ttft_ms` and `initial_sync_ms`; None = the clocks were aligned without pings.
    """

    ttft_ms: float
    initial_sync_ms: float | None
    itl_ms: Spread
    gap_stddev_ms: float | None
    jitter_ms: float | None
    uncertainty_ms: float | None


class ClockFigures(msgspec.Struct, frozen=True):
    """The viewer's clock at the recording's last ping; `multimodal.sync.clocks` says how it is measured.

    Args:
        offset_ms: the viewer's clock minus the server's.
        uncertainty_ms: how far that may be off.
        rate_ppm: how much faster the viewer's clock runs, in millionths; None = not measured.
        round_trip_ms: of the pings.
    """

    offset_ms: float
    uncertainty_ms: float
    rate_ppm: float | None
    round_trip_ms: Spread


class RevealFigures(msgspec.Struct, frozen=True):
    """One reveal at up to three vantage points.

    Args:
        cue, key, product, anchor, mark: as in the event.
        token_drift: tokens from anchor to mark.
        at_ms: when it was there, on the stream's time base.
        at_uncertainty_ms: how far that may be off; left out where the clocks were aligned without pings.
        skew_ms: from the words to the reveal, + = picture late.
        skew_uncertainty_ms: how far that may be off.
        held_ms: how long its mark waited for a picture.
        swap_ms: from a preview to its picture; None = no preview, or nothing came.
        apart: why it is not judged for the same-frame share; "" = it is.
        same_frame: painted in the frame of its words; None = no receipt covers both.
    """

    cue: int
    key: str
    product: str
    anchor: int
    mark: int
    token_drift: int
    at_ms: dict[Vantage, float]
    at_uncertainty_ms: dict[Vantage, float]
    skew_ms: dict[Vantage, float]
    skew_uncertainty_ms: dict[Vantage, float]
    held_ms: float
    swap_ms: float | None
    apart: str
    same_frame: bool | None


class DriftReport(msgspec.Struct, frozen=True):
    """The figures of one log; the module's docstring says how each is computed.

    Args:
        reveals_expected: cues that the log knows of: planned ones, else those with an outcome.
        reveals_shown: cues with a reveal.
        missed: cues without a picture, by reason.
        previews, swaps_failed, declared_late, deferred: reveals, counted; a swap that never came counts as failed.
        token_drift_max: tokens; None without reveals that R2 bounds.
        skew_ms: by vantage point.
        skew_uncertainty_ms: how far the worst known of them may be off, by vantage point.
        drift_ms_per_minute: None with fewer than two reveals.
        drift_error_ms_per_minute: its standard error, the noise; None with fewer than three.
        latency_ms: from a reveal's emission to its arrival and its frame, across both clocks; only with pings.
        same_frame_share: None without a judged reveal or without receipts.
        judged, apart: how many reveals were judged for the share, and how many were not, by cause.
        held_ms, swap_ms: the holds' lengths, and the delay from a preview to its picture where it came.
        events_lost, events_duplicated, events_out_of_order: by `seq`, emitted and arrived together.
        truncated: what the recording lost in its last line; "" = nothing.
        pace: how the words flowed, by vantage point.
        clock: the viewer's clock; None without pings.
        reveals: each reveal by itself, in the order of emission.
    """

    reveals_expected: int
    reveals_shown: int
    missed: dict[str, int]
    previews: int
    swaps_failed: int
    declared_late: int
    token_drift_max: int | None
    skew_ms: dict[Vantage, Spread]
    drift_ms_per_minute: float | None
    same_frame_share: float | None
    judged: int
    apart: dict[str, int]
    held_ms: Spread
    swap_ms: Spread
    events_lost: int
    events_duplicated: int
    events_out_of_order: int
    truncated: str = ""
    skew_uncertainty_ms: dict[Vantage, float] = {}
    drift_error_ms_per_minute: float | None = None
    latency_ms: dict[Vantage, Spread] = {}
    pace: dict[Vantage, Pace] = {}
    clock: ClockFigures | None = None
    reveals: tuple[RevealFigures, ...] = ()
    deferred: int = 0

    def json(self) -> str:
        """One JSON object."""
        return msgspec.json.encode(self).decode()

    def text(self) -> str:
        """A few lines for people."""
        shown = f"{self.reveals_shown} of {self.reveals_expected} pictures shown"
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(self.missed.items()))
        lines = [f"{shown}; missed: {why}" if why else shown]
        if self.token_drift_max is not None:
            lines.append(f"token drift  at most {self.token_drift_max} tokens")
        for vantage, spread in self.skew_ms.items():
            doubt = self.skew_uncertainty_ms.get(vantage, 0.0)
            within = f", ±{doubt:.1f} ms" if doubt else ""
            lines.append(f"skew         {vantage}: {spread.text()}, + = picture late{within}")
        if self.drift_ms_per_minute is not None:
            error = self.drift_error_ms_per_minute
            noise = "" if error is None else f", standard error {error:.1f}"
            lines.append(f"drift        {self.drift_ms_per_minute:+.1f} ms per minute{noise}")
        if self.same_frame_share is not None:
            lines.append(f"same frame   {self.same_frame_share:.3f} of {self.judged} judged")
        if self.apart:
            apart = ", ".join(f"{cause} {count}" for cause, count in sorted(self.apart.items()))
            lines.append(f"not judged   {apart}")
        for vantage, pace in self.pace.items():
            lines.append(f"words        {vantage}: {_pace_text(pace)}")
        for vantage, spread in self.latency_ms.items():
            lines.append(f"latency      to {vantage}: {spread.text()}")
        if self.clock is not None:
            rate = "" if self.clock.rate_ppm is None else f", {self.clock.rate_ppm:+.1f} ppm"
            trip = self.clock.round_trip_ms
            offset = f"{self.clock.offset_ms:+.1f} ms from ours, ±{self.clock.uncertainty_ms:.1f} ms{rate}"
            pings = f"{trip.count} pings, round trip at least {trip.min or 0:.1f} ms"
            lines.append(f"clock        the viewer's is {offset}; {pings}")
        if self.held_ms.count:
            lines.append(f"holds        {self.held_ms.text()}")
        if self.previews:
            swaps = f"{self.previews}, {self.swaps_failed} without their picture in the end"
            lines.append(f"previews     {swaps}; from preview to picture: {self.swap_ms.text()}")
        if self.declared_late:
            lines.append(f"declared late  {self.declared_late} cues, after their own mark")
        if self.deferred:
            lines.append(f"deferred     {self.deferred} pictures, so that the one before could be seen")
        lines.append(
            f"events       {self.events_lost} lost, {self.events_duplicated} duplicated,"
            f" {self.events_out_of_order} out of order"
        )
        if self.truncated:
            lines.append(f"recording    {self.truncated}")
        return "\n".join(lines)


def _pace_text(pace: Pace) -> str:
    """``first after 12.0 ms, then every p50 150.0 ms, p95 151.0 ms, max 500.0 ms (stddev 61.2), jitter 0.9 ms``."""
    doubt = f" (±{pace.uncertainty_ms:.1f})" if pace.uncertainty_ms else ""
    parts = [f"first after {pace.ttft_ms:.1f} ms{doubt}"]
    if pace.initial_sync_ms is not None:
        parts.append(f"first picture with its words after {pace.initial_sync_ms:.1f} ms")
    gaps = pace.itl_ms
    if gaps.p50 is not None and gaps.p95 is not None and gaps.max is not None:
        every = f"gaps p50 {gaps.p50:.1f} ms, p95 {gaps.p95:.1f} ms, max {gaps.max:.1f} ms"
        parts.append(f"{every}, stddev {pace.gap_stddev_ms or 0:.1f} ms")
    if pace.jitter_ms is not None:
        parts.append(f"jitter {pace.jitter_ms:.1f} ms")
    return "; ".join(parts)
