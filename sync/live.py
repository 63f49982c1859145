"""Drift while a stream runs: each reveal told as it is emitted, and again as it is painted. Pure, bounded in memory.

Feed it what is emitted, in order, and what one viewer's receipts say. The figures are those of `multimodal.sync.drift`,
computed as they come: the same tour gives the same skews, verdicts and share as its recording.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Literal, Protocol

import msgspec

from multimodal.events import AnyEvent, Reveal, StreamStart, SyncMark, Text

__all__ = ["PENDING_LIMIT", "DriftSample", "LiveDrift", "LiveSummary"]

PENDING_LIMIT = 256
"""Reveals that wait for their frame; more means that no receipts come, and the oldest is given up."""


class Receipt(Protocol):
    """What a viewer says of a frame: `wire.Painted` and `sync.log.Painted` are some."""

    @property
    def seq(self) -> int:
        """The last event applied in the frame."""
        ...

    @property
    def t_ms(self) -> float:
        """The frame's time on the viewer's clock."""
        ...

    @property
    def frame(self) -> int:
        """Its number."""
        ...

    @property
    def visible(self) -> bool:
        """False = the page was hidden."""
        ...


class DriftSample(msgspec.Struct, frozen=True):
    """One reveal at one vantage point.

    Args:
        vantage: ``emitted`` or ``painted``.
        cue, key, product, anchor, mark: as in the event.
        token_drift: tokens from anchor to mark.
        skew_ms: from the words to the reveal, + = picture late; None where one of the two is not known.
        same_frame: painted in the frame of its words; None = not judged, `apart` says why.
        apart: ``held``, ``mark_0``, ``end_mark`` or ``hidden``, as in `multimodal.sync.drift`; "" = it is judged.
        held_ms: how long its mark waited for a picture.
    """

    vantage: Literal["emitted", "painted"]
    cue: int
    key: str
    product: str
    anchor: int
    mark: int
    token_drift: int
    skew_ms: float | None
    same_frame: bool | None
    apart: Literal["", "held", "mark_0", "end_mark", "hidden", "overtaken"]
    held_ms: float


class LiveSummary(msgspec.Struct, frozen=True):
    """Where the figures stand.

    Args:
        reveals: emitted.
        painted: of them, with a receipt.
        unpainted: given up waiting for one.
        token_drift_max: tokens; None without reveals that R2 bounds.
        skew_ms_max: the skew furthest from 0, at the last vantage point; None without skew.
        same_frame_share: of the judged reveals that were painted; None without one.
        judged: how many those are.
        drift_ms_per_minute: least-squares slope of skew over the time of the words, as painted, or as emitted where
            there is no receipt; None with fewer than two.
        drift_error_ms_per_minute: its standard error; None with fewer than three.
    """

    reveals: int
    painted: int
    unpainted: int
    token_drift_max: int | None
    skew_ms_max: float | None
    same_frame_share: float | None
    judged: int
    drift_ms_per_minute: float | None
    drift_error_ms_per_minute: float | None


class _Words(msgspec.Struct):
    seq: int
    pts_ms: float
    frame: int | None = None
    t_ms: float = 0.0
    visible: bool = True


class _Pending(msgspec.Struct):
    seq: int
    words: _Words | None
    sample: DriftSample


class _Line(msgspec.Struct):
    """A least-squares line, point by point (Welford's update, so that large times cost no digits)."""

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    sxx: float = 0.0
    sxy: float = 0.0
    syy: float = 0.0

    def add(self, x: float, y: float) -> None:
        self.count += 1
        dx, dy = x - self.x, y - self.y
        self.x += dx / self.count
        self.y += dy / self.count
        self.sxx += dx * (x - self.x)
        self.sxy += dx * (y - self.y)
        self.syy += dy * (y - self.y)

    def slope(self) -> tuple[float | None, float | None]:
        if self.count < 2 or self.sxx <= 0:
            return None, None
        slope = self.sxy / self.sxx
        error = None
        if self.count > 2:
            rest = max(0.0, self.syy - slope * self.sxy)
            error = round(math.sqrt(rest / (self.count - 2) / self.sxx) * 60_000, 3)
        return round(slope * 60_000, 3), error


class LiveDrift:
    """The drift of one stream and, if there is one, one viewer."""

    def __init__(self) -> None:
        self._interval, self._base = 1, 0
        self._words: _Words | None = None
        self._mark: SyncMark | None = None
        self._pending: deque[_Pending] = deque()
        self._reached = -1
        self._reveals = self._painted = self._unpainted = self._judged = self._same = 0
        self._token_drift: int | None = None
        self._furthest: dict[str, float] = {}
        self._lines = {"emitted": _Line(), "painted": _Line()}

    def emitted(self, event: AnyEvent) -> DriftSample | None:
        """An event was emitted; gives the sample of a reveal."""
        match event:
            case StreamStart():
                self._interval = event.sync_interval
            case Text():
                self._words = _Words(event.seq, event.pts_ms)
            case SyncMark():
                self._mark = event
            case Reveal():
                return self._reveal(event)
            case _ if event.kind == "interrupt":
                self._base = event.tok  # from here on marks are counted anew (R9)
        return None

    def _reveal(self, reveal: Reveal) -> DriftSample:
        words = self._words
        mark = self._mark if self._mark is not None and self._mark.mark == reveal.mark else None
        if reveal.mark == self._base:
            words = None  # behind an interruption the words before its boundary are those of another turn
        held = max(0.0, round(reveal.pts_ms - mark.pts_ms, 3)) if mark else 0.0
        apart: Literal["", "held", "mark_0", "end_mark"] = ""
        if held:
            apart = "held"
        elif words is None:
            apart = "mark_0"
        elif (reveal.mark - self._base) % self._interval and mark is not None and mark.pts_ms > words.pts_ms:
            apart = "end_mark"
        drift = reveal.mark - reveal.anchor
        skew = None if words is None else round(reveal.pts_ms - words.pts_ms, 3)
        sample = DriftSample(
            *("emitted", reveal.cue, reveal.key, reveal.product, reveal.anchor, reveal.mark),
            *(drift, skew, None, apart, held),
        )
        self._reveals += 1
        if not (reveal.declared_late or reveal.deferred):
            self._token_drift = drift if self._token_drift is None else max(self._token_drift, drift)
        self._count("emitted", sample, None if words is None else words.pts_ms)
        self._pending.append(_Pending(reveal.seq, words, sample))
        if len(self._pending) > PENDING_LIMIT:
            self._pending.popleft()
            self._unpainted += 1
        return sample

    def painted(self, receipt: Receipt) -> list[DriftSample]:
        """A frame was painted; gives the samples of the reveals in it, in order."""
        if receipt.seq <= self._reached:
            return []
        self._reached = receipt.seq
        for words in (self._words, *(pending.words for pending in self._pending)):
            if words is not None and words.frame is None and words.seq <= receipt.seq:
                words.frame, words.t_ms, words.visible = receipt.frame, receipt.t_ms, receipt.visible
        found = []
        applied = []
        while self._pending and self._pending[0].seq <= receipt.seq:
            applied.append(self._pending.popleft())
        for pending in applied:
            # A later mark's picture in the same frame: this one never was on the glass.
            found.append(self._seen(pending, receipt, overtaken=pending.sample.mark != applied[-1].sample.mark))
        return found

    def _seen(self, pending: _Pending, receipt: Receipt, *, overtaken: bool) -> DriftSample:
        words, sample = pending.words, pending.sample
        hidden = not receipt.visible or (words is not None and not words.visible)
        skew = same = None
        if words is not None and words.frame is not None:
            skew = None if hidden else round(receipt.t_ms - words.t_ms, 3)
            same = words.frame == receipt.frame
        apart = sample.apart or ("hidden" if hidden else "overtaken" if overtaken and same else "")
        sample = msgspec.structs.replace(
            sample, vantage="painted", skew_ms=skew, same_frame=None if apart else same, apart=apart
        )
        self._painted += 1
        self._judged += sample.same_frame is not None
        self._same += bool(sample.same_frame)
        self._count("painted", sample, None if words is None else words.t_ms)
        return sample

    def _count(self, vantage: str, sample: DriftSample, at_ms: float | None) -> None:
        if sample.skew_ms is None or at_ms is None or sample.apart == "held":
            return
        self._lines[vantage].add(at_ms, sample.skew_ms)
        self._furthest[vantage] = max(self._furthest.get(vantage, 0.0), sample.skew_ms, key=abs)

    def summary(self) -> LiveSummary:
        """Where the figures stand now."""
        slope, error = self._lines["painted" if self._lines["painted"].count else "emitted"].slope()
        return LiveSummary(
            reveals=self._reveals,
            painted=self._painted,
            unpainted=self._unpainted,
            token_drift_max=self._token_drift,
            skew_ms_max=self._furthest.get("painted", self._furthest.get("emitted")),
            same_frame_share=self._same / self._judged if self._judged else None,
            judged=self._judged,
            drift_ms_per_minute=slope,
            drift_error_ms_per_minute=error,
        )
