"""Whether pictures came with their words, read off a log."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.events import Reveal
from multimodal.sync.drift import Pair, pairs, skew_uncertainty_ms
from multimodal.sync.faults import Cause, Fault, tokens
from multimodal.sync.log import SyncLog
from multimodal.sync.report import VANTAGES, Vantage
from multimodal.sync.words import sentence_end

__all__ = ["PRESETS", "Limits", "limits_of", "marked_limits", "pair_faults", "refuse_below_uncertainty"]


class Limits(msgspec.Struct, frozen=True):
    """How far a picture and its words may come apart.

    Args:
        place: ``mark`` = on the first mark at or behind the anchor; ``interval`` = at most `sync_interval - 1` tokens
            behind it; ``sentence`` = at most on the first mark at or behind the end of the anchor's sentence.
        early_ms: how much the picture may lead its words; None = not judged.
        late_ms: how much it may trail them.
        max_token_drift: a bound in tokens beside `place`; None = none.
        min_same_frame_share: of the judged reveals; None = not judged.
        max_swap_ms: from a preview to its picture; None = not judged.
    """

    place: Literal["mark", "interval", "sentence"]
    early_ms: float | None
    late_ms: float
    max_token_drift: int | None = None
    min_same_frame_share: float | None = None
    max_swap_ms: float | None = None


PRESETS: Mapping[str, Limits] = {
    "strict": Limits("mark", 100, 240),
    "default": Limits("interval", 250, 500),
    "relaxed": Limits("sentence", None, 1000),
}
"""What counts as in sync. strict: hardly to be seen; default: taken for one thing; relaxed: in one sentence.

Where the figures come from, and what they are not. There is no published threshold for a picture beside STREAMED TEXT
that we know of; those there are speak of sound and moving pictures:

ITU-R BT.1359-1  sound against lips: noticed from 45 ms early or 125 ms late on, acceptable to 90 ms early, 185 ms late
EBU R37          at any output that feeds a transmitter: sound at most 40 ms early, 60 ms late
R. Steinmetz, Human Perception of Jitter and Media Synchronization, IEEE JSAC 14 (1), 1996: lip sync 80 ms either way,
                 text or a picture laid over video 240 ms, a slide show beside speech 500 ms

From Steinmetz we took the two outer figures, +240 ms (strict) and +500 ms (default), as the nearest to our case. From
BT.1359 and R37 we took only their form: two signed limits, the tighter one on the side that nature does not know - for
us a picture before its words, which gives the sentence away - and two grades, noticed and accepted. -100, -250 and
+1000 ms are our own choice. Their millisecond limits for lips are NOT ours: a reader's eye needs some 200 ms for one
move from word to picture.
"""


def limits_of(preset: str, overrides: Mapping[str, Any]) -> Limits:
    """A preset with some of its limits replaced.

    Raises:
        UsageError: an unknown preset or limit.
    """
    if preset not in PRESETS:
        raise UsageError(f"preset={preset!r} is unknown; use one of {', '.join(PRESETS)}")
    known = [name for name in Limits.__struct_fields__ if name != "place"]
    if unknown := overrides.keys() - set(known):
        raise UsageError(f"assert_in_sync has no limit {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    return msgspec.structs.replace(PRESETS[preset], **overrides)


def marked_limits(max_tokens: int | None, max_ms: float | None) -> dict[str, Any]:
    """What a marker's `max_tokens` and `max_ms` replace: ms count in both directions."""
    limits: dict[str, Any] = {}
    if max_tokens is not None:
        limits["max_token_drift"] = max_tokens
    if max_ms is not None:
        limits |= {"early_ms": max_ms, "late_ms": max_ms}
    return limits


def refuse_below_uncertainty(log: SyncLog, limits: Limits) -> None:
    """A limit finer than the clocks of a log can tell proves nothing, whether it holds or not.

    Raises:
        UsageError: `early_ms` or `late_ms` is smaller than what a skew at the judged vantage point may be off.
    """
    found = [pair.skew_ms for pair in pairs(log) if pair.skew_ms]
    seen: Vantage | None = None
    for vantage in VANTAGES:
        if any(vantage in skews for skews in found):
            seen = vantage
    if seen is None:
        return
    for name in ("early_ms", "late_ms"):
        limit = getattr(limits, name)
        if limit is None:
            continue
        doubt = skew_uncertainty_ms(log, seen, limit)
        if limit < doubt:
            raise UsageError(
                f"{name}={limit:g} is smaller than the uncertainty of this log's clocks, {doubt:.1f} ms as {seen}:"
                f" it could neither pass nor fail with any meaning; give at least {name}={math.ceil(doubt)}"
            )


def pair_faults(log: SyncLog, limits: Limits, label: str) -> Iterator[Fault]:
    """One fault at most for each reveal: its place first, then its time. A hold's length is not lateness here."""
    found = pairs(log)
    marks = sorted(log.marks)
    for pair in found:
        fault = _place_fault(log, pair, limits, label, marks) or _time_fault(log, pair, limits, label)
        if fault is None and limits.max_swap_ms is not None and pair.reveal.preview:
            fault = _swap_fault(log, pair, limits.max_swap_ms)
        if fault is not None:
            yield fault
    judged = [pair for pair in found if not pair.apart] if log.painted else []
    apart = [pair for pair in judged if not pair.same_frame]
    if judged and limits.min_same_frame_share is not None:
        share = 1 - len(apart) / len(judged)
        if share < limits.min_same_frame_share:
            pair = apart[0]
            late = pair.skew_ms.get("painted", 0.0)
            verdict = (
                f"same-frame share {share:.3f} is below {limits.min_same_frame_share}:"
                f" {pair.reveal.key!r}, first of {len(apart)}, came 0 tokens and {late:.0f} ms behind its words"
            )
            yield _fault(pair, verdict, "client", "words and picture were painted in different frames")


def _place_fault(log: SyncLog, pair: Pair, limits: Limits, label: str, marks: Sequence[int]) -> Fault | None:
    reveal, key = pair.reveal, repr(pair.reveal.key)
    planned = log.plan.get(reveal.cue) if log.plan else None
    if planned is not None and planned.anchor != reveal.anchor:
        off = reveal.anchor - planned.anchor
        verdict = f"{key} came for the wrong words: {_off(log, pair, off, planned.anchor)}"
        why = f"the cue was planned at boundary {planned.anchor} and revealed for {reveal.anchor}"
        return _fault(pair, verdict, "anchor", why, planned.anchor)
    for place, cause, why in (
        (reveal.mark, "anchor", f"it names mark {reveal.mark}, which lies before its anchor"),
        (pair.at, "queue", f"it stands after token {pair.at}, not on its mark"),
    ):
        if place < reveal.anchor:
            verdict = f"{key} came too soon: {_off(log, pair, place - reveal.anchor, reveal.anchor)}"
            return _fault(pair, verdict, "anchor" if cause == "anchor" else "queue", why)
    if pair.at != reveal.mark:
        verdict = f"{key} left its mark: {_off(log, pair, pair.at - reveal.anchor, reveal.anchor)}"
        return _fault(pair, verdict, "queue", f"it stands after token {pair.at}, its mark is {reveal.mark}")
    if pair.mark is None:
        verdict = f"{key} came without its mark: {_off(log, pair, pair.token_drift, reveal.anchor)}"
        return _fault(pair, verdict, "queue", f"the log has no mark {reveal.mark}")
    if reveal.declared_late or reveal.deferred:
        return None  # outside R2's bound: tied to words that were already out, or kept back for a dwell (R10)
    bound = _bound(log, reveal, limits, marks)
    if reveal.mark > bound:
        verdict = f"{key} came late: {_off(log, pair, pair.token_drift, reveal.anchor)}"
        limit = f"limit: {tokens(bound - reveal.anchor)}, preset {label}"
        return _fault(pair, f"{verdict} ({limit})", "anchor", f"it went to mark {reveal.mark}, {bound} was its last")
    return None


def _bound(log: SyncLog, reveal: Reveal, limits: Limits, marks: Sequence[int]) -> int:
    """The last boundary that the limits allow."""
    interval = log.start.sync_interval if log.start else 1

    def mark_from(boundary: int) -> int:
        place = bisect_left(marks, boundary)
        return marks[place] if place < len(marks) else boundary

    bound = mark_from(reveal.anchor)
    if limits.place == "interval":
        bound = max(bound, reveal.anchor + interval - 1)
    elif limits.place == "sentence":
        end = sentence_end(log.text, log.char_at(reveal.anchor))
        sentence = next((at for at in range(reveal.anchor, log.tokens + 1) if log.char_at(at) >= end), log.tokens)
        bound = max(bound, mark_from(sentence))
    if limits.max_token_drift is not None:
        bound = min(bound, reveal.anchor + limits.max_token_drift)
    return bound


def _time_fault(log: SyncLog, pair: Pair, limits: Limits, label: str) -> Fault | None:
    reveal, key = pair.reveal, repr(pair.reveal.key)
    drift = f"{tokens(pair.token_drift)} behind its anchor"
    if log.arrived and reveal.seq not in log.arrival:
        return _fault(pair, f"{key} never arrived, {drift}", "network", "it was emitted and did not arrive")
    if log.painted and pair.frames[1] is None:
        return _fault(pair, f"{key} was never painted, {drift}", "client", "no receipt reaches its seq")
    # What a hold took was asked for, and is judged in `multimodal.sync.holds`; it never makes a picture early.
    skews = {vantage: max(skew - pair.held_ms, min(skew, 0.0)) for vantage, skew in pair.skew_ms.items()}
    if not skews:
        return None
    vantage, skew = list(skews.items())[-1]
    if skew > limits.late_ms:
        side, limit = "late", f"+{limits.late_ms:g}"
    elif limits.early_ms is not None and skew < -limits.early_ms:
        side, limit = "early", f"-{limits.early_ms:g}"
    else:
        return None

    def off(value: float | None) -> bool:
        early = -limits.early_ms if limits.early_ms is not None else float("-inf")
        return value is not None and not early <= value <= limits.late_ms

    cause: Cause
    if off(skews.get("emitted")):
        late_mark = pair.mark and pair.words and pair.mark.pts_ms - pair.words.pts_ms
        cause, why = "queue", "it was emitted away from its words"
        if off(late_mark or None):
            cause, why = "generator", f"its mark came {late_mark:.0f} ms behind its words: the text had not gone on"
    elif off(skews.get("arrived")):
        cause, why = "network", f"emitted {skews['emitted']:+.0f} ms from its words, arrived {skews['arrived']:+.0f} ms"
    else:
        seen = "arrived in time" if "arrived" in skews else "emitted in time; arrivals are not recorded"
        cause, why = "client", f"{seen}, painted {skew:+.0f} ms from its words"
    words = "behind" if skew > 0 else "ahead of"
    verdict = f"{key} came {side}: {tokens(pair.token_drift)} and {abs(skew):.0f} ms {words} its words, as {vantage}"
    return _fault(pair, f"{verdict} (limit: {limit} ms, preset {label})", cause, why)


def _swap_fault(log: SyncLog, pair: Pair, limit_ms: float) -> Fault | None:
    reveal, swap = pair.reveal, pair.swap
    if swap is not None and swap.ok and (pair.swap_ms is None or pair.swap_ms <= limit_ms):
        return None
    if swap is None or pair.swap_ms is None:
        verdict = f"the picture behind the preview of {reveal.key!r} never came"
        return _fault(pair, verdict, "fetch", "the log has no swap")
    came = f"after {tokens(swap.tok - reveal.tok)} and {pair.swap_ms:.0f} ms"
    what = f"came {came}" if swap.ok else f"was given up {came}: {swap.reason}"
    bytes_at = next((asset.pts_ms for asset in log.assets.get(reveal.key, ()) if asset.variants), None)
    cause: Cause = "fetch"
    why = "its bytes came no sooner"
    if bytes_at is not None and swap.pts_ms - bytes_at > limit_ms / 2:
        cause, why = "decode", f"its bytes were there {swap.pts_ms - bytes_at:.0f} ms before"
    verdict = f"the picture behind the preview of {reveal.key!r} {what} (limit: {limit_ms:g} ms)"
    return _fault(pair, verdict, cause, why)


def _off(log: SyncLog, pair: Pair, off: int, anchor: int) -> str:
    """``3 tokens and 150 ms behind its words``: how far a reveal stands from a boundary, at its emission."""
    words = log.words_before(anchor)
    if words is None:
        return f"{tokens(abs(off))} {'behind' if off > 0 else 'ahead of'} its words"
    late = pair.reveal.pts_ms - words.pts_ms
    side = "behind" if off > 0 or (off == 0 and late >= 0) else "ahead of"
    return f"{tokens(abs(off))} and {abs(late):.0f} ms {side} its words"


def _fault(pair: Pair, verdict: str, cause: Cause, why: str, boundary: int | None = None) -> Fault:
    reveal = pair.reveal
    where = f"mark {reveal.mark}, cue {reveal.cue}, seq {reveal.seq}"
    return Fault(verdict, cause, why, reveal.anchor if boundary is None else boundary, where)
