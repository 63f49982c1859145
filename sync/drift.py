"""How far pictures and their words came apart, read off a recording. Pure; how each figure is computed is said here.

The words of a reveal are the last text event that ends at or before its mark. Its two distances to them:

token drift   `mark - anchor`, in tokens. The place where the reveal really stands in the log is kept beside it (`at`).
              The largest is taken over the reveals that R2 bounds; those declared late or deferred are counted apart.
skew          ms from the words to the reveal, + = the picture came late, at up to three vantage points:
                emitted  difference of `pts_ms`; words and reveal of one bundle have the same, so 0 unless text waited
                arrived  difference of the first arrival of either `seq`
                painted  difference of `t_ms` of the frames that first applied either `seq`
              A preview counts as shown: what comes later is its swap, reported apart (from the reveal to the swap, at
              the painted vantage where both frames are known, else by `pts_ms`).

Some reveals are no measure of synchronization and are counted apart, each under the first of these that fits:
held          its mark waited for a picture: the reveal's `pts_ms` lies after its mark's. In neither skew nor share.
mark_0        no words stand before it, at the beginning or behind an interruption. In neither skew nor share.
end_mark      an end mark off the interval, emitted after its words because the end was not known with the last token.
              In the skew, not in the share.
hidden        painted while the page was hidden. Not in the painted skew, not in the share.
overtaken     the frame that applied it and its words applied a later mark's picture too (a bad road delivers a
              passage at once), so that it never was on the glass. In the skew, not in the share.
Same-frame share = judged reveals painted in the frame of their words / judged reveals. Judged are all reveals that are
not counted apart; one that no receipt covers is a miss. Without receipts there is no share.

Each reveal's own time, at each vantage point, stands on one time base, `pts_ms` (`multimodal.sync.clocks`), with how
far it may be off: 0 at `emitted`, what the pings leave open at `arrived` and `painted`, `ACK_MS` for arrivals that only
acknowledgements tell of. Latency is the way from `emitted` to there, given only where the pings measured the clock.
A skew is a difference on one clock, so its uncertainty is smaller: 0 at `emitted`; on the viewer's clock the grain of
its timer, `GRAIN_MS`, and `RATE_LIMIT` of the skew; `ACK_MS` for arrivals by acknowledgement.

Percentiles are nearest-rank over signed values. Drift is the least-squares slope of skew over the time of the words, in
ms per minute, at the last vantage point that the log has; its standard error is sqrt(SSR / (n - 2) / Sxx), and a slope
within twice that is noise. The flow of the words (TTFT, ITL, jitter, ...) is defined in `multimodal.sync.pace`. An
event is lost when its `seq` is missing from the emitted ones (counted from 0) or, where arrivals are recorded, from
those; duplicated for each time it comes again; out of order when its first coming follows a higher `seq`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, linear_regression
from typing import Literal

import msgspec

from multimodal.events import CueMissed, Reveal, Swap, SyncMark, Text
from multimodal.sync.clocks import RATE_LIMIT, Instant
from multimodal.sync.log import ACK_MS, Painted, SyncLog
from multimodal.sync.order import Order, order_of, orders
from multimodal.sync.pace import moment, pace_of
from multimodal.sync.report import VANTAGES, ClockFigures, DriftReport, RevealFigures, Spread, Vantage

__all__ = [
    "DriftReport",
    "Order",
    "Pair",
    "Slope",
    "Spread",
    "Vantage",
    "drift_report",
    "order_of",
    "orders",
    "pairs",
    "skew_uncertainty_ms",
    "trend",
    "words_at",
]

GRAIN_MS = 0.1
"""A page that is not isolated from other origins reads its clock in steps of 100 us (High Resolution Time, W3C)."""

Apart = Literal["", "held", "mark_0", "end_mark", "hidden", "overtaken"]


class Pair(msgspec.Struct, frozen=True):
    """One reveal and its words.

    Args:
        reveal: the reveal.
        words: the last text event that ends at or before its mark; None = none does.
        mark: the sync mark that the reveal names; None where the log lacks it.
        at: how many tokens the log emits before the reveal: its mark, in a log without fault.
        held_ms: how long its mark waited for a picture before the reveal; 0 = not at all.
        skew_ms: by vantage point, + = picture late; a vantage is left out where the log lacks one of the two.
        frames: the frames that applied words and reveal; None = no receipt covers it.
        swap: the swap of a preview; None = none came, or the picture was there.
        swap_ms: from the reveal to its swap.
        apart: why it is not judged for the same-frame share; "" = it is.
    """

    reveal: Reveal
    words: Text | None
    mark: SyncMark | None
    at: int
    held_ms: float
    skew_ms: dict[Vantage, float]
    frames: tuple[Painted | None, Painted | None]
    swap: Swap | None
    swap_ms: float | None
    apart: Apart

    @property
    def token_drift(self) -> int:
        """Tokens from the anchor to the mark."""
        return self.reveal.mark - self.reveal.anchor

    @property
    def bounded(self) -> bool:
        """R2 bounds its token drift: it was neither declared behind its mark nor kept back for a dwell (R10)."""
        return not (self.reveal.declared_late or self.reveal.deferred)

    @property
    def same_frame(self) -> bool:
        """Both were painted, in one frame."""
        words, reveal = self.frames
        return words is not None and reveal is not None and words.frame == reveal.frame


def pairs(log: SyncLog) -> list[Pair]:
    """Every reveal of a log with its words, in the order of emission; a cue revealed twice stands twice."""
    at = base = 0
    found = []
    for event in log.events:
        if isinstance(event, Text):
            at += event.token_count
        elif event.kind == "interrupt":
            base = event.tok  # from here on marks are counted anew (R9)
        elif isinstance(event, Reveal):
            found.append(_pair(log, event, at, base))
    last_mark: dict[int, int] = {}
    for place in range(len(found) - 1, -1, -1):
        pair, frame = found[place], found[place].frames[1]
        later = frame is not None and last_mark.setdefault(frame.frame, pair.reveal.mark) != pair.reveal.mark
        if later and pair.same_frame:
            found[place] = msgspec.structs.replace(pair, apart=pair.apart or "overtaken")
    return found


def _pair(log: SyncLog, reveal: Reveal, at: int, base: int) -> Pair:
    # Behind an interruption the words before its boundary are those of another turn.
    words, mark = None if reveal.mark == base else log.words_before(reveal.mark), log.mark_of(reveal)
    held_ms = max(0.0, round(reveal.pts_ms - mark.pts_ms, 3)) if mark else 0.0
    shown = log.frame_of(reveal.seq)
    frames = (log.frame_of(words.seq) if words else None, shown)
    hidden = any(frame is not None and not frame.visible for frame in frames)
    skew: dict[Vantage, float] = {}
    if words is not None:
        skew["emitted"] = round(reveal.pts_ms - words.pts_ms, 3)
        if reveal.seq in log.arrival and words.seq in log.arrival:
            skew["arrived"] = round(log.arrival[reveal.seq] - log.arrival[words.seq], 3)
        if frames[0] is not None and shown is not None and not hidden:
            skew["painted"] = round(shown.t_ms - frames[0].t_ms, 3)
    swap = next(iter(log.swaps.get(reveal.cue, ())), None) if reveal.preview else None
    apart: Apart = ""
    if held_ms:
        apart = "held"
    elif words is None:
        apart = "mark_0"
    elif mark and log.start and (mark.mark - base) % log.start.sync_interval and mark.pts_ms > words.pts_ms:
        apart = "end_mark"
    elif hidden:
        apart = "hidden"
    return Pair(reveal, words, mark, at, held_ms, skew, frames, swap, _swap_ms(log, reveal, swap), apart)


def _swap_ms(log: SyncLog, reveal: Reveal, swap: Swap | None) -> float | None:
    if swap is None:
        return None
    before, after = log.frame_of(reveal.seq), log.frame_of(swap.seq)
    if before and after and before.visible and after.visible:
        return round(after.t_ms - before.t_ms, 3)
    return round(swap.pts_ms - reveal.pts_ms, 3)


class Slope(msgspec.Struct, frozen=True):
    """A trend, and its noise: the slope and its standard error, both in ms per minute; None = too few reveals."""

    ms_per_minute: float | None = None
    error_ms_per_minute: float | None = None

    @classmethod
    def over(cls, at_ms: Sequence[float], values_ms: Sequence[float]) -> Slope:
        """The least-squares slope of values over time; it needs two different times, its error three values."""
        if len(set(at_ms)) < 2:
            return cls()
        slope, start = linear_regression(at_ms, values_ms)
        error = None
        if len(at_ms) > 2:
            middle = fmean(at_ms)
            rest = sum((y - start - slope * x) ** 2 for x, y in zip(at_ms, values_ms, strict=True))
            spread = sum((x - middle) ** 2 for x in at_ms)
            error = round(math.sqrt(rest / (len(at_ms) - 2) / spread) * 60_000, 3)
        return cls(round(slope * 60_000, 3), error)


def trend(log: SyncLog) -> Slope:
    """The drift of a log and its noise, as `drift_report` gives them."""
    return _trend(log, _skews(pairs(log)))


def skew_uncertainty_ms(log: SyncLog, vantage: Vantage, skew_ms: float = 0.0) -> float:
    """How far a skew may be off: a limit below it cannot be judged."""
    if vantage == "emitted":
        return 0.0
    if vantage == "arrived" and log.acked:
        return ACK_MS
    return round(GRAIN_MS + RATE_LIMIT * abs(skew_ms), 3)


def drift_report(log: SyncLog) -> DriftReport:
    """Measure a recording. A log without reveals or receipts gives a report with fewer figures, never an error."""
    found = pairs(log)
    cues = {*(log.plan or ()), *log.outcomes}
    skews = _skews(found)
    judged = [pair for pair in found if not pair.apart] if log.painted else []
    previews = [pair for pair in found if pair.reveal.preview]
    seqs = orders(log).values()
    slope = _trend(log, skews)
    reveals = tuple(_figures(log, pair) for pair in found)
    return DriftReport(
        reveals_expected=len(cues),
        reveals_shown=len({pair.reveal.cue for pair in found}),
        missed=dict(Counter(missed.reason for missed in log.of(CueMissed))),
        previews=len(previews),
        swaps_failed=sum(pair.swap is None or not pair.swap.ok for pair in previews),
        declared_late=sum(pair.reveal.declared_late for pair in found),
        deferred=sum(pair.reveal.deferred for pair in found),
        token_drift_max=max((pair.token_drift for pair in found if pair.bounded), default=None),
        skew_ms={name: Spread.over(pair.skew_ms[name] for pair in those) for name, those in skews.items()},
        drift_ms_per_minute=slope.ms_per_minute,
        same_frame_share=sum(pair.same_frame for pair in judged) / len(judged) if judged else None,
        judged=len(judged),
        apart=dict(Counter(pair.apart for pair in found if pair.apart)),
        held_ms=Spread.over(pair.held_ms for pair in found if pair.held_ms),
        swap_ms=Spread.over(
            pair.swap_ms for pair in previews if pair.swap_ms is not None and pair.swap and pair.swap.ok
        ),
        events_lost=sum(len(order.lost) for order in seqs),
        events_duplicated=sum(len(order.duplicated) for order in seqs),
        events_out_of_order=sum(len(order.out_of_order) for order in seqs),
        truncated=log.truncated,
        skew_uncertainty_ms={
            name: max(skew_uncertainty_ms(log, name, pair.skew_ms[name]) for pair in those)
            for name, those in skews.items()
        },
        drift_error_ms_per_minute=slope.error_ms_per_minute,
        latency_ms=_latency(log, reveals),
        pace=pace_of(log),
        clock=_clock(log),
        reveals=reveals,
    )


def _skews(found: Sequence[Pair]) -> dict[Vantage, list[Pair]]:
    """The reveals with a skew, by vantage point; those that a hold delayed measure the hold, not the skew."""
    skews: dict[Vantage, list[Pair]] = {}
    for vantage in VANTAGES:
        if those := [pair for pair in found if pair.apart != "held" and vantage in pair.skew_ms]:
            skews[vantage] = those
    return skews


def _figures(log: SyncLog, pair: Pair) -> RevealFigures:
    reveal = pair.reveal
    at: dict[Vantage, Instant] = {name: found for name in VANTAGES if (found := moment(log, reveal, name)) is not None}
    return RevealFigures(
        cue=reveal.cue,
        key=reveal.key,
        product=reveal.product,
        anchor=reveal.anchor,
        mark=reveal.mark,
        token_drift=pair.token_drift,
        at_ms={name: instant.ms for name, instant in at.items()},
        at_uncertainty_ms={
            name: instant.uncertainty_ms for name, instant in at.items() if instant.uncertainty_ms is not None
        },
        skew_ms=pair.skew_ms,
        skew_uncertainty_ms={name: skew_uncertainty_ms(log, name, skew) for name, skew in pair.skew_ms.items()},
        held_ms=pair.held_ms,
        swap_ms=pair.swap_ms,
        apart=pair.apart,
        same_frame=pair.same_frame if None not in pair.frames else None,
    )


def _latency(log: SyncLog, reveals: Iterable[RevealFigures]) -> dict[Vantage, Spread]:
    found: dict[Vantage, Spread] = {}
    for vantage in VANTAGES[1:]:
        ways = [figures.at_ms[vantage] - figures.at_ms["emitted"] for figures in reveals if vantage in figures.at_ms]
        if ways and log.base.measured:
            found[vantage] = Spread.over(ways)
    return found


def _clock(log: SyncLog) -> ClockFigures | None:
    offset = log.base.offset(log.pings[-1].viewer_ms) if log.pings else None
    if offset is None:
        return None
    trips = Spread.over(ping.heard_ms - ping.sent_ms for ping in log.pings)
    return ClockFigures(offset.offset_ms, offset.uncertainty_ms, offset.rate_ppm, trips)


def _trend(log: SyncLog, skews: dict[Vantage, list[Pair]]) -> Slope:
    """The slope of skew at the last vantage point."""
    if not skews:
        return Slope()
    vantage, those = list(skews.items())[-1]
    at_ms = [words_at(log, pair, vantage) for pair in those]
    return Slope.over(at_ms, [pair.skew_ms[vantage] for pair in those])


def words_at(log: SyncLog, pair: Pair, vantage: Vantage) -> float:
    """When the words of a pair were seen from a vantage point at which the pair has a skew, in milliseconds."""
    assert pair.words is not None  # a pair without words has no skew
    if vantage == "painted":
        frame = pair.frames[0]
        assert frame is not None
        return frame.t_ms
    return log.arrival[pair.words.seq] if vantage == "arrived" else pair.words.pts_ms
