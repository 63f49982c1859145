"""The figures of a drift report, as text and as JSON. How each is computed stands in `multimodal.sync.drift`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

__all__ = ["VANTAGES", "DriftReport", "Spread", "Vantage"]

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


class DriftReport(msgspec.Struct, frozen=True):
    """The figures of one log; the module's docstring says how each is computed.

    Args:
        reveals_expected: cues that the log knows of: planned ones, else those with an outcome.
        reveals_shown: cues with a reveal.
        missed: cues without a picture, by reason.
        previews, swaps_failed, declared_late: reveals, counted; a swap that never came counts as failed.
        token_drift_max: tokens; None without reveals.
        skew_ms: by vantage point.
        drift_ms_per_minute: None with fewer than two reveals.
        same_frame_share: None without a judged reveal or without receipts.
        judged, apart: how many reveals were judged for the share, and how many were not, by cause.
        held_ms, swap_ms: the holds' lengths, and the delay from a preview to its picture where it came.
        events_lost, events_duplicated, events_out_of_order: by `seq`, emitted and arrived together.
        truncated: what the recording lost in its last line; "" = nothing.
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
            lines.append(f"skew         {vantage}: {spread.text()}, + = picture late")
        if self.drift_ms_per_minute is not None:
            lines.append(f"drift        {self.drift_ms_per_minute:+.1f} ms per minute")
        if self.same_frame_share is not None:
            lines.append(f"same frame   {self.same_frame_share:.3f} of {self.judged} judged")
        if self.apart:
            apart = ", ".join(f"{cause} {count}" for cause, count in sorted(self.apart.items()))
            lines.append(f"not judged   {apart}")
        if self.held_ms.count:
            lines.append(f"holds        {self.held_ms.text()}")
        if self.previews:
            swaps = f"{self.previews}, {self.swaps_failed} without their picture in the end"
            lines.append(f"previews     {swaps}; from preview to picture: {self.swap_ms.text()}")
        if self.declared_late:
            lines.append(f"declared late  {self.declared_late} cues, after their own mark")
        lines.append(
            f"events       {self.events_lost} lost, {self.events_duplicated} duplicated,"
            f" {self.events_out_of_order} out of order"
        )
        if self.truncated:
            lines.append(f"recording    {self.truncated}")
        return "\n".join(lines)
