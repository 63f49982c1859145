"""Whether holds were kept, read off a log: an order rule cannot see a deadline that is never cleared, times can."""

from __future__ import annotations

from collections.abc import Iterator

from multimodal.events import Interrupted, Reveal, SyncMark, Text
from multimodal.sync.faults import Fault, tokens
from multimodal.sync.log import SyncLog
from multimodal.sync.rules import Outcome, dwells, policy, settled

__all__ = ["hold_faults"]

ROUNDING_MS = 0.01
"""Times in a log are rounded to 0.001 ms, differences of two to twice that."""


def hold_faults(log: SyncLog, max_hold: float, tolerance_ms: float) -> Iterator[Fault]:
    """R4, R5, R10: no hold ends early or runs over, nothing waits where nobody holds, no picture loses its dwell.

    A cue may wait as long as the longest hold among itself, those that came out before it on its mark, and, as it may
    have been declared while its mark was held, those declared before it.

    Args:
        log: what was recorded.
        max_hold: seconds, for cues whose own is not in the plan.
        tolerance_ms: how far a hold may overrun its deadline: a timer may fire late.
    """
    marks = settled(log)
    for number, (mark, outcomes) in enumerate(marks):
        if dwells(log) and (number + 1 == len(marks) or marks[number + 1][0].epoch > mark.epoch):
            continue  # what R10 kept back comes out when the end is known, whatever the time
        holds_ms = [_hold_ms(log, event.cue, max_hold) for event in outcomes]
        for place, event in enumerate(outcomes):
            allowed_ms = max(
                hold_ms for other, hold_ms in enumerate(holds_ms) if other <= place or outcomes[other].cue < event.cue
            )
            fault = _wait_fault(mark, event, holds_ms[place], allowed_ms, tolerance_ms)
            if fault is not None:
                yield fault
    yield from _text_faults(log)
    yield from _dwell_faults(log)
    if marks and log.end is None and not dwells(log) and len(marks[-1][1]) < marks[-1][0].pending:
        mark, outcomes = marks[-1]
        missing = mark.pending - len(outcomes)
        verdict = f"the hold at mark {mark.mark} never ended: {missing} of {mark.pending} outcomes are missing (R4)"
        last = log.events[-1].pts_ms - mark.pts_ms
        why = f"the log stops {tokens(log.tokens - mark.mark)} and {last:.0f} ms behind the mark"
        yield Fault(verdict, "queue", why, mark.mark, f"seq {mark.seq}")


def _wait_fault(mark: SyncMark, event: Outcome, own_ms: float, allowed_ms: float, tolerance_ms: float) -> Fault | None:
    if isinstance(event, Reveal) and event.mark != mark.mark:
        return None  # it left its mark: a matter of its place, not of its time
    waited = event.pts_ms - mark.pts_ms
    where = f"mark {mark.mark}, cue {event.cue}, seq {event.seq}"
    if allowed_ms == 0 and waited > ROUNDING_MS:
        verdict = f"{event.key!r} came late: 0 tokens and {waited:.0f} ms behind its mark (R2)"
        return Fault(verdict, "queue", "no cue of its mark may hold, yet it waited", event.anchor, where)
    if allowed_ms and waited > allowed_ms + tolerance_ms:
        verdict = (
            f"the hold for {event.key!r} ran over: 0 tokens and {waited:.0f} ms, {allowed_ms:.0f} ms were allowed (R4)"
        )
        return Fault(verdict, "queue", "its deadline did not end the wait", event.anchor, where)
    if isinstance(event, Reveal) and event.preview and waited < own_ms - ROUNDING_MS:
        early = f"0 tokens and {own_ms - waited:.0f} ms early, after {waited:.0f} of {own_ms:.0f} ms"
        why = "its picture was neither ready nor failed: only a preview was shown"
        return Fault(f"the hold for {event.key!r} ended {early} (R5)", "queue", why, event.anchor, where)
    return None


def _text_faults(log: SyncLog) -> Iterator[Fault]:
    """Several tokens in one event had been waiting for a hold, so its last outcome bears the same time."""
    released_at = 0.0
    for event in log.events:
        if isinstance(event, Text):
            if event.token_count > 1 and event.pts_ms != released_at:
                late = event.pts_ms - released_at
                verdict = f"{tokens(event.token_count)} of text were held {late:.0f} ms beyond the last hold (R5)"
                why = "they were released together where no hold ended: a deadline was not cleared"
                yield Fault(verdict, "queue", why, event.token_index, f"seq {event.seq}")
        elif isinstance(event, Outcome):
            released_at = event.pts_ms


def _dwell_faults(log: SyncLog) -> Iterator[Fault]:
    """R10: no picture of another mark takes the place of one before its dwell is over, but at the end."""
    if log.start is None or not dwells(log):
        return
    interval, dwell_ms = log.start.sync_interval, 1000 * log.start.min_dwell
    last_text = {event.epoch: event.seq for event in log.texts}
    base, home, since, mark = 0, -1, 0.0, None
    for event in log.events:
        if isinstance(event, Interrupted):
            base, home, mark = event.tok, -1, None
        elif isinstance(event, SyncMark):
            mark = event
        elif isinstance(event, Reveal) and mark is not None:
            own = base - (base - event.anchor) // interval * interval
            short_ms = since + dwell_ms - mark.pts_ms
            if home not in (-1, own) and short_ms > ROUNDING_MS and event.seq < last_text.get(event.epoch, -1):
                verdict = (
                    f"{event.key!r} cuts the picture before it short: 0 tokens and {short_ms:.0f} ms too soon (R10)"
                )
                why = f"a picture stays {dwell_ms:.0f} ms"
                yield Fault(verdict, "queue", why, event.anchor, f"mark {mark.mark}, cue {event.cue}, seq {event.seq}")
            if own != home:
                home, since = own, event.pts_ms


def _hold_ms(log: SyncLog, cue: int, max_hold: float) -> float:
    if policy(log, cue) != "hold":
        return 0.0
    own = log.plan[cue].max_hold if log.plan and cue in log.plan else None
    return 1000 * (max_hold if own is None else own)
