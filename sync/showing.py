"""Whether what was named was shown, and nothing before its words, read off a log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest

from multimodal.events import CueMissed, ProductBrief, Reveal, Text
from multimodal.sync.drift import Pair, pairs
from multimodal.sync.faults import Cause, Fault, tokens
from multimodal.sync.log import SyncLog
from multimodal.sync.words import Names

__all__ = ["mention_faults", "order_faults", "spoiler_faults"]


def mention_faults(log: SyncLog, names: Mapping[str, str | Sequence[str]] | None) -> Iterator[Fault]:
    """One fault per product that the text names and no reveal shows, at its first mention.

    Args:
        log: what was recorded.
        names: by id of the product, or key of its picture: its name or names; None = the products that the log knows.
    """
    if names is None:
        briefs = log.start.products if log.start else ()
    else:
        lists = {key: (given,) if isinstance(given, str) else tuple(given) for key, given in names.items()}
        briefs = tuple(ProductBrief(key, given[0], given[1:]) for key, given in lists.items() if given)
    shown: set[str] = set()
    for reveal in log.of(Reveal):
        swaps = log.swaps.get(reveal.cue, ())
        if not reveal.preview or any(swap.ok for swap in swaps):
            shown |= {reveal.product, reveal.key}
    told: set[str] = set()
    for mention in Names(briefs).find(log.text).items:
        if mention.ids & (shown | told):
            continue
        told |= mention.ids
        boundary = _boundary(log, mention.end)
        yield _unshown(log, mention.ids, log.text[mention.start : mention.end], boundary)


def _unshown(log: SyncLog, ids: frozenset[str], name: str, boundary: int) -> Fault:
    numbers = [number for number, cue in (log.plan or {}).items() if ids & {cue.product, cue.key}]
    missed = [event for event in log.of(CueMissed) if event.cue in numbers or event.key in ids]
    previews = [event for event in log.of(Reveal) if ids & {event.product, event.key}]
    cause: Cause = "fetch"
    if previews:
        swap = next(iter(log.swaps.get(previews[0].cue, ())), None)
        why = f"only its preview was shown: {swap.reason if swap else 'its swap never came'}"
    elif missed:
        why = f"its cue was missed: {missed[0].reason}"
        if missed[0].reason in ("beyond_end", "too_late", "wrong_product"):
            cause = "anchor"
    elif numbers:
        cause, why = "queue", f"cue {numbers[0]} was planned for it and has no outcome"
    else:
        cause, why = "anchor", "no cue was declared for it"
    words = log.words_before(boundary)
    since = f" and {log.events[-1].pts_ms - words.pts_ms:.0f} ms" if words else ""
    verdict = f"{name!r} was named and never shown, {tokens(log.tokens - boundary)}{since} before the end of the tour"
    return Fault(verdict, cause, why, boundary, ", ".join(sorted(ids)))


def spoiler_faults(log: SyncLog) -> Iterator[Fault]:
    """One fault per reveal that was emitted, or arrived, before the last of its words.

    Its words are all up to its anchor: the planned one where the plan knows it, else the reveal's own. A receipt says
    up to which `seq` a frame applied everything, so what was emitted in order is painted in order as far as receipts
    can tell; a player that paints against its receipts is a matter for the pixel check.
    """
    ends = list(accumulate(text.token_count for text in log.texts))
    for pair in pairs(log):
        planned = log.plan.get(pair.reveal.cue) if log.plan else None
        anchor = planned.anchor if planned else pair.reveal.anchor
        place = bisect_left(ends, anchor)
        words = log.texts[place] if anchor and place < len(ends) else None
        fault = _spoiler(log, pair, anchor, words)
        if fault is not None:
            yield fault


def _spoiler(log: SyncLog, pair: Pair, anchor: int, words: Text | None) -> Fault | None:
    reveal = pair.reveal
    ahead = max(0, anchor - pair.at)
    where = f"mark {reveal.mark}, cue {reveal.cue}, seq {reveal.seq}"
    if ahead or (words is not None and reveal.seq < words.seq):
        early = words.pts_ms - reveal.pts_ms if words else 0.0
        verdict = f"{reveal.key!r} spoils its words, as emitted: {tokens(ahead)} and {early:.0f} ms ahead of them"
        return Fault(
            verdict, "queue", f"it was emitted after token {pair.at}, its words end at {anchor}", anchor, where
        )
    of_reveal = log.arrival.get(reveal.seq)
    if words is None or of_reveal is None:
        return None
    of_words = log.arrival.get(words.seq)
    if of_words is None:
        verdict = f"{reveal.key!r} arrived without its words: {tokens(words.token_count)} missing, whatever the ms"
        return Fault(verdict, "network", f"no arrival of seq {words.seq}, {words.text!r}", anchor, where)
    if of_reveal < of_words:
        early = of_words - of_reveal
        verdict = f"{reveal.key!r} spoils its words, as arrived: {tokens(words.token_count)} and {early:.0f} ms ahead"
        return Fault(verdict, "network", "they were emitted in order and arrived out of it", anchor, where)
    return None


def order_faults(log: SyncLog, keys: Sequence[str]) -> Iterator[Fault]:
    """The first place at which the pictures shown are not these, in this order."""
    reveals = log.of(Reveal)
    for place, (reveal, key) in enumerate(zip_longest(reveals, keys)):
        if reveal is not None and reveal.key == key:
            continue
        boundary = reveal.mark if reveal is not None else log.tokens
        at_ms = reveal.pts_ms if reveal is not None else log.events[-1].pts_ms if log.events else 0.0
        got = "nothing" if reveal is None else repr(reveal.key)
        due = "nothing" if key is None else repr(key)
        verdict = f"picture {place + 1} is {got} in place of {due}, after {tokens(boundary)} and {at_ms:.0f} ms"
        shown = ", ".join(event.key for event in reveals) or "none"
        where = f"cue {reveal.cue}, seq {reveal.seq}" if reveal is not None else ""
        yield Fault(verdict, "anchor" if reveal is not None else "fetch", f"shown were: {shown}", boundary, where)
        return


def _boundary(log: SyncLog, char: int) -> int:
    """The first token boundary at or behind a character."""
    for text in log.texts:
        if log.char_at(text.token_index + text.token_count) >= char:
            inside = range(text.token_index + 1, text.token_index + text.token_count + 1)
            return next(at for at in inside if log.char_at(at) >= char)
    return log.tokens
