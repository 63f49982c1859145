"""The contract's rules R1-R7 and R9, read off a log: each function yields a fault per breach.

They judge what was emitted; `sequence_faults` also judges what arrived. None of them knows how the aligner works.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from multimodal.events import AssetReserved, CueMissed, Interrupted, Reveal, StreamEnd, Swap, SyncMark, Text
from multimodal.sync.drift import orders
from multimodal.sync.faults import Cause, Fault, describe, tokens
from multimodal.sync.log import SyncLog

__all__ = ["Outcome", "cue_faults", "dwells", "mark_faults", "policy", "sequence_faults", "settled", "text_faults"]

Outcome = Reveal | CueMissed
AT_THE_END = frozenset({"beyond_end", "too_late", "interrupted"})
"""Reasons of cues that no mark settles."""


def policy(log: SyncLog, cue: int) -> str:
    """What a cue does when its picture is late: its own policy where the plan knows it, else the stream's."""
    own = log.plan[cue].late if log.plan and cue in log.plan else None
    return own or (log.start.late if log.start else "placeholder")


def dwells(log: SyncLog) -> bool:
    """Whether pictures may be kept back for the one before them (R10)."""
    return log.start is not None and log.start.min_dwell > 0


def settled(log: SyncLog) -> list[tuple[SyncMark, list[Outcome]]]:
    """Each mark with the outcomes that stand between it and the next one, but for those that no mark settles."""
    marks: list[tuple[SyncMark, list[Outcome]]] = []
    for event in log.events:
        if isinstance(event, SyncMark):
            marks.append((event, []))
        elif isinstance(event, Outcome) and marks and getattr(event, "reason", "") not in AT_THE_END:
            marks[-1][1].append(event)
    return marks


def sequence_faults(log: SyncLog) -> Iterator[Fault]:
    """R6 and R7: a start, an end, nothing after it; `seq` without gap, `pts_ms` never falling; every event arrived."""
    known = {event.seq: event for event in log.events}
    for vantage, order in orders(log).items():
        arrived = vantage == "arrived"
        cause: Cause = "network" if arrived else "queue"
        for what, seqs, why in (
            ("lost", order.lost, "it was emitted and never arrived" if arrived else "its seq was never emitted"),
            ("duplicated", order.duplicated, f"it {'arrived' if arrived else 'was emitted'} again under the same seq"),
            ("out of order", order.out_of_order, f"it {'arrived' if arrived else 'was emitted'} after a higher seq"),
        ):
            for seq in seqs:
                event = known.get(seq)
                near = event or next((known[low] for low in range(seq, -1, -1) if low in known), None)
                name = f" ({describe(event)})" if event else ""
                yield Fault(f"event {what}: seq {seq}{name}", cause, why, near.tok if near else 0, f"seq {seq}")
    for before, after in pairwise(log.events):
        if after.pts_ms < before.pts_ms:
            back = before.pts_ms - after.pts_ms
            verdict = f"time falls by {back:.1f} ms over 0 tokens from seq {before.seq} to {after.seq} (R7)"
            yield Fault(verdict, "queue", f"{describe(after)} bears an earlier time", after.tok, f"seq {after.seq}")
        if after.epoch != before.epoch + isinstance(after, Interrupted):
            verdict = f"{describe(after)} is of epoch {after.epoch}, behind one of epoch {before.epoch} (R9)"
            yield Fault(
                verdict, "queue", "only an interruption raises the epoch, by one", after.tok, f"seq {after.seq}"
            )
        if isinstance(before, StreamEnd):
            verdict = f"{describe(after)} follows the end (R6)"
            yield Fault(verdict, "queue", "something was emitted after the end event", after.tok, f"seq {after.seq}")
    if log.start is None or log.events[0] is not log.start:
        yield Fault("the log does not begin with `start`", "queue", "its first event is another", 0)
    if log.end is None:
        yield Fault("the tour has no end", "queue", "the log stops before the end event", log.tokens)


def text_faults(log: SyncLog, expected: str | None = None) -> Iterator[Fault]:
    """R1: tokens in order, none over a mark, each event's `tok` true, and the expected text where one is given."""
    count = base = 0
    interval = log.start.sync_interval if log.start else 1
    for event in log.events:
        at = f"seq {event.seq}"
        if isinstance(event, Interrupted):
            base = count
        if isinstance(event, Text):
            if event.token_index != count:
                verdict = (
                    f"text out of order: token {event.token_index} {event.text!r} stands where {count} belongs (R1)"
                )
                yield Fault(verdict, "queue", "text events changed places or were lost", count, at)
            last = event.token_index + event.token_count - 1
            if (event.token_index - base) // interval != (last - base) // interval:
                verdict = f"the text of tokens {event.token_index} to {last} reaches over a mark (R1)"
                yield Fault(verdict, "queue", f"a mark is due every {tokens(interval)}", count, at)
            count += event.token_count
        if event.tok != count:
            verdict = f"{describe(event)} says boundary {event.tok}, but stands after {tokens(count)}"
            yield Fault(verdict, "queue", "it does not stand where it was emitted", count, at)
    if expected is not None and log.text != expected:
        same = next(
            (place for place, (a, b) in enumerate(zip(log.text, expected, strict=False)) if a != b),
            min(len(log.text), len(expected)),
        )
        got, due = log.text[same : same + 20], expected[same : same + 20]
        verdict = f"the text is not the expected one from character {same} on: {got!r} in place of {due!r} (R1)"
        yield Fault(verdict, "generator", "the emitted text differs from the given one", _boundary(log, same))


def mark_faults(log: SyncLog) -> Iterator[Fault]:
    """Marks stand at 0, at every interval and at the end, each once, each right behind its token (R2)."""
    interval = log.start.sync_interval if log.start else 1
    count = chars = base = 0
    turns = [event.tok for event in log.of(Interrupted)]
    seen: set[int] = set()
    for event in log.events:
        if isinstance(event, Interrupted):
            base, seen = event.tok, set()  # marks then count from there (R9)
        elif isinstance(event, Text):
            if (count - base) % interval == 0 and count not in seen:
                yield Fault(f"mark {count} is missing (R2)", "queue", "text goes on without it", count)
            count += event.token_count
            chars += len(event.text)
        elif isinstance(event, SyncMark):
            mark, at = event.mark, f"seq {event.seq}"
            if mark in seen:
                yield Fault(f"mark {mark} stands twice (R2)", "queue", "a mark stands once", mark, at)
            if mark != count:
                verdict = f"mark {mark} stands after {tokens(count)} (R2)"
                yield Fault(verdict, "queue", "it is not right behind its token", mark, at)
            elif event.char != chars:
                verdict = f"mark {mark} says {event.char} characters, but {chars} stand before it"
                yield Fault(verdict, "queue", "text before it was changed", mark, at)
            elif (mark - base) % interval and mark != log.tokens and mark not in turns:
                verdict = f"mark {mark} is neither on the interval of {interval} nor at the end"
                yield Fault(verdict, "queue", "marks stand every interval and at the end", mark, at)
            seen.add(mark)
    if log.end is not None and count not in seen:
        yield Fault(f"the end mark {count} is missing (R2)", "queue", "the end stands without it", count)


def cue_faults(log: SyncLog) -> Iterator[Fault]:
    """R3 and R4b: one outcome for each cue, in order on its mark; one swap for each preview, none otherwise."""
    declared = dict(log.plan) if log.plan is not None else {}
    numbers = declared or range(max(log.outcomes, default=-1) + 1)
    for number in numbers:
        if number not in log.outcomes:
            cue = declared.get(number)
            name = f"cue {number}" + (f" ({cue.key!r} at boundary {cue.anchor})" if cue else "")
            yield Fault(
                f"{name} has no outcome (R3)",
                "queue",
                "neither a reveal nor a missed event names it",
                cue.anchor if cue else log.tokens,
                f"cue {number}",
            )
    for number, outcomes in log.outcomes.items():
        first, *others = outcomes
        if declared and number not in declared:
            verdict = f"{describe(first)} is the outcome of cue {number}, which was never declared (R3)"
            yield Fault(verdict, "anchor", "the plan does not know that cue", first.anchor, _where(first))
        for other in others:
            verdict = f"cue {number} has a second outcome: {describe(first)}, then {describe(other)} (R3)"
            yield Fault(verdict, "queue", "each cue has exactly one", other.tok, _where(other))
        if isinstance(first, CueMissed):
            yield from _missed_faults(log, first)
    yield from _swap_faults(log)
    yield from _bytes_faults(log)
    yield from _place_faults(log)


def _missed_faults(log: SyncLog, missed: CueMissed) -> Iterator[Fault]:
    late = policy(log, missed.cue)
    if missed.reason == "late" and late != "skip":
        verdict = f"{missed.key!r} was missed as late, but its policy is {late} (R4)"
        yield Fault(verdict, "fetch", "a preview was due in its stead", missed.anchor, _where(missed))
    # Of its own turn: another may go on behind the end of one that was interrupted (R9).
    if missed.reason == "beyond_end" and missed.anchor <= missed.tok:
        verdict = f"{missed.key!r} was missed as beyond the end, but the text had {tokens(missed.tok)} (R3)"
        yield Fault(verdict, "anchor", f"its anchor is {missed.anchor}", missed.anchor, _where(missed))


def _swap_faults(log: SyncLog) -> Iterator[Fault]:
    previews = {event.cue: event for event in log.of(Reveal) if event.preview}
    for number, reveal in previews.items():
        swaps = log.swaps.get(number, ())
        if not swaps:
            verdict = f"the preview of {reveal.key!r} has no swap (R4b)"
            yield Fault(verdict, "fetch", "no event tells what became of its picture", reveal.tok, _where(reveal))
        for swap in swaps[1:]:
            verdict = f"the preview of {reveal.key!r} has a second swap (R4b)"
            yield Fault(verdict, "queue", "each preview has exactly one", swap.tok, f"cue {number}, seq {swap.seq}")
        for swap in swaps:
            at = f"cue {number}, seq {swap.seq}"
            if swap.key != reveal.key:
                verdict = f"the preview of {reveal.key!r} was swapped for another picture, {swap.key!r} (R4b)"
                yield Fault(verdict, "anchor", "a swap never changes which picture it is", swap.tok, at)
            if swap.seq < reveal.seq:
                verdict = f"the swap of {reveal.key!r} comes before its preview (R4b)"
                yield Fault(verdict, "queue", "a swap follows its preview", swap.tok, at)
    for number, swaps in log.swaps.items():
        if number not in previews:
            verdict = f"{swaps[0].key!r} was swapped without a preview (R4b)"
            yield Fault(
                verdict, "queue", f"cue {number} showed none", swaps[0].tok, f"cue {number}, seq {swaps[0].seq}"
            )


def _bytes_faults(log: SyncLog) -> Iterator[Fault]:
    """R4: a picture is shown whole, or swapped in, only when the stream has it: its asset lists variants by then."""
    there: set[str] = set()
    for event in log.events:
        if isinstance(event, AssetReserved) and event.variants:
            there.add(event.key)
        elif isinstance(event, Reveal | Swap) and event.key not in there and _is_whole(event):
            verdict = f"{describe(event)} as a whole picture, which was not there yet (R4)"
            yield Fault(verdict, "fetch", "no asset event with variants came before it", event.tok, f"seq {event.seq}")


def _is_whole(event: Reveal | Swap) -> bool:
    return event.ok if isinstance(event, Swap) else not event.preview


def _place_faults(log: SyncLog) -> Iterator[Fault]:
    """Each mark is followed by as many outcomes as it announced, by (anchor, declared), but for R9 and R10."""
    marks, kept_back = settled(log), dwells(log)
    cut: list[Outcome] = [event for event in log.of(CueMissed) if event.reason == "interrupted"]
    for place, (mark, outcomes) in enumerate(marks):
        # An interruption settles what was due (R9); R10 moves a cue from mark to mark, each of which announces it.
        moved = [*cut, *(late for _, later in marks[place + 1 :] for late in later)] if kept_back else cut
        came = len(outcomes) + sum(event.seq > mark.seq and event.anchor <= mark.mark for event in moved)
        if came < mark.pending:
            verdict = f"mark {mark.mark} announced {mark.pending} outcomes, {len(outcomes)} came (R2)"
            yield Fault(verdict, "queue", "an outcome was lost or moved", mark.mark, f"seq {mark.seq}")
        holds = any(policy(log, outcome.cue) == "hold" for outcome in outcomes)
        # A picture that failed is missed at once, past reveals that R10 moved to here.
        turns: list[Outcome] = [event for event in outcomes if isinstance(event, Reveal) or not kept_back]
        for before, after in pairwise(turns):
            # A cue declared while a hold keeps its mark open joins it behind what is already out.
            joined = holds and after.cue > before.cue
            if (after.anchor, after.cue) < (before.anchor, before.cue) and not joined:
                verdict = f"{describe(after)} comes behind {describe(before)}, whose turn is later (R2)"
                yield Fault(verdict, "queue", "cues of one mark go by their anchors", after.anchor, _where(after))


def _where(event: Outcome) -> str:
    mark = f"mark {event.mark}, " if isinstance(event, Reveal) else ""
    return f"{mark}cue {event.cue}, seq {event.seq}"


def _boundary(log: SyncLog, char: int) -> int:
    """The last token boundary at or before a character."""
    return max((boundary for boundary in range(log.tokens + 1) if log.char_at(boundary) <= char), default=0)
