"""A recorded tour once more, through today's aligner: the same words, plan and pictures, at the same times. Pure.

What a recording does not say is taken as it must have been: a picture was there from its bytes on, and where a hold
waited for it, from the reveal on; a word was fed when it was emitted. Interruptions are not fed again, and where a
dwell met the end of the text, that end may have come later than is known here: such tours may come out otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from multimodal.events import AnyEvent, CueMissed, Reveal, Swap, SyncMark, Text
from multimodal.sync.aligner import Aligner
from multimodal.sync.log import SyncLog
from multimodal.values import Asset, Cue, EncodedImage, Lane, LatePolicy, Token

__all__ = ["Outcome", "outcomes", "rerun"]

SWAP_WAIT = 3600.0
"""Seconds that the end may wait for pictures here: as long as it takes, for the recording says when they came."""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of a cue: ``reveal``, ``preview`` or the reason why it was missed; `mark` = -1 for the latter."""

    what: str
    key: str
    anchor: int
    mark: int


def outcomes(log: SyncLog) -> list[Outcome]:
    """What became of every cue, in the order of emission."""
    found = []
    for event in log.events:
        if isinstance(event, Reveal):
            found.append(Outcome("preview" if event.preview else "reveal", event.key, event.anchor, event.mark))
        elif isinstance(event, CueMissed):
            found.append(Outcome(event.reason, event.key, event.anchor, -1))
    return found


def rerun(log: SyncLog) -> SyncLog:
    """Feed the aligner what the recording holds, and give back what it makes of it; there is no viewer.

    Args:
        log: with its start event, else the aligner's own defaults hold.
    """
    start = log.start
    settings: dict[str, Any] = {}
    if start is not None:
        settings = {"sid": start.sid, "products": start.products, "token_unit": start.token_unit}
        settings |= {"min_dwell": start.min_dwell, "narrator": start.narrator}
    aligner = Aligner(start.sync_interval if start else 3, swap_wait=SWAP_WAIT, **settings)
    events: list[AnyEvent] = []

    def until(now: float) -> None:
        while (timer := aligner.next_timer()) is not None and timer < now:
            aligner.handle_timer(timer)
            events.extend(aligner.events())

    for at, feed in sorted(_items(log), key=lambda item: item[0][:2]):
        until(at[0])
        _feed(aligner, feed, at[0])
        events.extend(aligner.events())
    until(math.inf)
    return SyncLog(tuple(events), plan=aligner.plan)


_FIRST, _TEXT, _PICTURES = range(3)
Item = Cue | Token | Asset | EncodedImage | tuple[str, str] | None


def _items(log: SyncLog) -> Iterator[tuple[tuple[float, int], Item]]:
    """Everything to feed as ((seconds, order at one time), item); None = the end of the text."""
    late = {event.cue for event in log.of(Reveal) if event.declared_late}
    cues = log.plan or _cues(log)
    for number, cue in sorted(cues.items()):
        if number not in late:
            yield (0.0, _FIRST), cue
    last_text = mark_ms = held_until_ms = 0.0
    for event in log.events:
        if isinstance(event, SyncMark):
            mark_ms = event.pts_ms
        elif isinstance(event, Reveal | CueMissed) and event.pts_ms > mark_ms:
            held_until_ms = event.pts_ms
        if isinstance(event, Text):
            # Words that a hold released were fed while it lasted; mark 0 even waits for the first of them.
            last_text = (mark_ms if event.pts_ms == held_until_ms else event.pts_ms) / 1000
            lane: Lane = "low" if event.lane == "low" else "main"
            for number in range(event.token_count):
                yield (last_text, _TEXT), Token("" if number else event.text, lane=lane)
        elif isinstance(event, Reveal) and event.cue in late and event.cue in cues:
            yield (last_text, _FIRST), cues[event.cue]
    yield from _pictures(log)
    end = max(log.marks, default=0)
    yield (max(last_text, log.marks[end].pts_ms / 1000 if end in log.marks else 0.0), _TEXT), None


def _cues(log: SyncLog) -> dict[int, Cue]:
    """The plan of a recording that has none, as far as its outcomes tell it."""
    late: LatePolicy = "hold" if log.start and log.start.late == "hold" else "placeholder"
    policy: LatePolicy = "skip" if log.start and log.start.late == "skip" else late
    return {number: Cue(event[0].anchor, event[0].key, policy) for number, event in log.outcomes.items()}


def _pictures(log: SyncLog) -> Iterator[tuple[tuple[float, int], Item]]:
    for key, assets in log.assets.items():
        known = assets[0]
        yield (known.pts_ms / 1000, _FIRST), Asset(key, known.product, known.width_px, known.height_px, known.alt)
    for key in dict.fromkeys([*log.assets, *(event[0].key for event in log.outcomes.values())]):
        at, rank, reason = _fate(log, key)
        if reason:
            yield (at, rank), (key, reason)
        elif at < math.inf:
            product = log.assets[key][0].product if key in log.assets else ""
            yield (at, rank), EncodedImage(key, b"-", "image/webp", 1, 1, product, sha256="-")


def _fate(log: SyncLog, key: str) -> tuple[float, int, str]:
    """When a picture was ready, or when and why it failed, and its place among what came then; never = infinity."""
    bytes_at = next((asset.pts_ms / 1000 for asset in log.assets.get(key, ()) if asset.variants), math.inf)
    not_before = -1.0
    before: AnyEvent | None = None
    for event in log.events:
        last, before = before, event
        at = event.pts_ms / 1000
        if isinstance(event, Swap) and event.key == key and event.reason != "swap_wait":
            return at, _PICTURES, "" if event.ok else event.reason
        if isinstance(event, Reveal) and event.key == key:
            if event.preview:
                not_before = at
                continue
            mark = log.marks.get(event.mark)
            if mark is None or at <= mark.pts_ms / 1000:
                return (bytes_at if not_before < bytes_at <= at else at), _FIRST, ""
            if isinstance(last, Reveal | CueMissed) and last.pts_ms == event.pts_ms:
                # Its mark waited for another picture; this one was there by then.
                return (bytes_at if not_before < bytes_at < at else (mark.pts_ms / 1000 + at) / 2), _FIRST, ""
            return at, _PICTURES, ""
        if isinstance(event, CueMissed) and event.key == key:
            if event.reason not in _NOT_OF_THE_PICTURE:
                return (0.0, _FIRST, event.reason) if not_before < 0 else (at, _FIRST, event.reason)
            if event.reason == "late":
                not_before = at
    return (bytes_at if bytes_at > not_before else math.inf), _PICTURES, ""


_NOT_OF_THE_PICTURE = frozenset({"late", "beyond_end", "too_late", "wrong_product", "interrupted"})


def _feed(aligner: Aligner, item: Item, now: float) -> None:
    match item:
        case Cue():
            aligner.feed_cue(item, now)
        case Token():
            aligner.feed_token(item, now)
        case Asset():
            aligner.feed_asset(item, now)
        case EncodedImage():
            aligner.feed_image(item, now)
        case (key, reason):
            aligner.feed_image_failed(key, reason, now)
        case None:
            aligner.feed_eof(now)
