"""How the words flowed: first word, gaps, jitter; and when each event was where, on one time base. Pure.

Per vantage point, over the text events that hold a character. The time base is `pts_ms` (`SyncLog.base`), so the
stream's beginning is 0 at every vantage point.

TTFT                  when the first of them was emitted / arrived / was painted
initial sync delay    when the first picture was there together with its words: the later of the two
ITL                   the gap between one of them and the next, in ms of that vantage point's own clock; a run of tokens
                      released together counts as one. Two frames of which one was hidden have no gap.
gap_stddev            the standard deviation of these gaps (of all of them, not an estimate)
jitter                interarrival jitter as in RFC 3550, 6.4.1: D = change of the transit time from one event to the
                      next, J += (|D| - J) / 16; the last J. Not at `emitted`, where nothing has travelled.

Arrivals that only acknowledgements tell of come in steps of `ACK_MS`: they give no pace.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import pstdev

from multimodal.events import Reveal, Text
from multimodal.sync.clocks import Instant
from multimodal.sync.log import ACK_MS, SyncLog
from multimodal.sync.report import VANTAGES, Pace, Spread, Vantage

__all__ = ["moment", "pace_of"]

SMOOTHING = 16
"""RFC 3550's gain of the jitter estimate is 1/16."""


def moment(log: SyncLog, event: Text | Reveal, vantage: Vantage) -> Instant | None:
    """When an event was emitted, arrived or was painted, on the stream's time base; None = not known."""
    if vantage == "emitted":
        return Instant(event.pts_ms, 0.0)
    if vantage == "arrived" and log.acked:
        return Instant(log.arrival[event.seq], ACK_MS) if event.seq in log.arrival else None
    at = _own_time(log, event, vantage)
    return None if at is None else log.base.at(at)


def pace_of(log: SyncLog) -> dict[Vantage, Pace]:
    """The flow of the words at every vantage point that the log has."""
    found: dict[Vantage, Pace] = {}
    texts = [text for text in log.texts if text.text]
    for vantage in VANTAGES:
        if vantage == "arrived" and log.acked:
            continue
        times = [_own_time(log, text, vantage) for text in texts]
        gaps = [after - before for before, after in pairwise(times) if before is not None and after is not None]
        first = next(
            (moment(log, text, vantage) for text, at in zip(texts, times, strict=True) if at is not None), None
        )
        if first is None:
            continue
        found[vantage] = Pace(
            ttft_ms=first.ms,
            initial_sync_ms=_initial_sync(log, vantage),
            itl_ms=Spread.over(gaps),
            gap_stddev_ms=round(pstdev(gaps), 3) if gaps else None,
            jitter_ms=None if vantage == "emitted" else _jitter(texts, times),
            uncertainty_ms=first.uncertainty_ms,
        )
    return found


def _own_time(log: SyncLog, event: Text | Reveal, vantage: Vantage) -> float | None:
    if vantage == "emitted":
        return event.pts_ms
    if vantage == "arrived":
        return log.arrival.get(event.seq)
    frame = log.frame_of(event.seq)
    return frame.t_ms if frame is not None and frame.visible else None


def _initial_sync(log: SyncLog, vantage: Vantage) -> float | None:
    for reveal in log.of(Reveal):
        words = log.words_before(reveal.mark)
        both = [moment(log, event, vantage) for event in (words, reveal) if event is not None]
        times = [at.ms for at in both if at is not None]
        if len(times) == 2:
            return max(times)
    return None


def _jitter(texts: list[Text], times: list[float | None]) -> float | None:
    transits = [at - text.pts_ms for text, at in zip(texts, times, strict=True) if at is not None]
    if len(transits) < 2:
        return None
    jitter = 0.0
    for before, after in pairwise(transits):
        jitter += (abs(after - before) - jitter) / SMOOTHING
    return round(jitter, 3)
