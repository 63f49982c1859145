"""A tour before it is told: where every picture will come, and what an author may not have meant. Pure.

A rehearsal feeds the aligner the tour's words at their times, with every picture ready: what it emits is the timeline
that a viewer gets when nothing is late. The lint reads that timeline.

not_mentioned    a picture comes for a product that the words never name
not_shown        a picture that no cue names
no_picture       a product is named, and no picture of it comes
crowded          two products share the stage, or one follows another, within `min_dwell` seconds
too_large        a picture cannot have come over the stated link by its reveal: all pictures go one after the other, in
                 the order of their reveals, from `preroll` seconds before the first word; the words' own bytes are not
                 counted, so a tour without this finding may still be late on a link that is just wide enough
beyond_end       a cue stands behind the last word
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, ProductBrief, Reveal
from multimodal.sync.aligner import Aligner
from multimodal.sync.log import SyncLog
from multimodal.sync.showing import mention_faults
from multimodal.sync.words import Names
from multimodal.values import Cue, EncodedImage, Token

__all__ = ["MIN_DWELL", "Finding", "Planned", "lint", "planned", "rehearse"]

MIN_DWELL = 1.0
"""Seconds that a picture needs to be seen: scene viewing takes in the gist in one glance, details in a few (a rule of
thumb for authors, not a limit of the player)."""

Code = Literal["not_mentioned", "not_shown", "no_picture", "crowded", "too_large", "beyond_end"]


class Finding(msgspec.Struct, frozen=True):
    """Something that an author may not have meant.

    Args:
        code: which of the module's kinds.
        message: what, where, and by how much.
        token: the boundary it is about; None = the tour as a whole.
        key: the picture, or the product, it is about.
    """

    code: Code
    message: str
    token: int | None
    key: str


class Planned(msgspec.Struct, frozen=True):
    """A picture's place in the tour.

    Args:
        at: seconds since the first word.
        cue, key, product, anchor, mark: as in the reveal.
        words: those around its anchor.
        size_bytes: of the picture as it is sent; None = not known.
    """

    at: float
    cue: int
    key: str
    product: str
    anchor: int
    mark: int
    words: str
    size_bytes: int | None = None


def rehearse(
    tokens: Sequence[tuple[float, str]],
    cues: Sequence[Cue],
    *,
    sync_interval: int = 3,
    products: Sequence[ProductBrief] = (),
    missing: Collection[str] = (),
) -> SyncLog:
    """Tell a tour with every picture ready; gives what would be emitted.

    Args:
        tokens: (seconds, text), in order.
        cues: the plan.
        sync_interval: tokens between two sync marks.
        products: those that may be named.
        missing: keys of cues behind which there is no picture.

    Raises:
        UsageError: `sync_interval` below 1, or times that go back.
    """
    aligner = Aligner(sync_interval, sid="plan", products=products)
    events: list[AnyEvent] = []
    begin = tokens[0][0] if tokens else 0.0
    for cue in cues:
        aligner.feed_cue(cue, begin)
    for cue in {cue.key: cue for cue in cues}.values():
        if cue.key in missing:
            aligner.feed_image_failed(cue.key, "no_picture", begin)
            continue
        aligner.feed_image(EncodedImage(cue.key, b"-", "image/webp", 1, 1, cue.product, sha256="-"), begin)
    end = begin
    for end, text in tokens:
        aligner.feed_token(Token(text), end)
    aligner.feed_eof(end)
    events.extend(aligner.events())
    return SyncLog(tuple(events), plan=aligner.plan)


def planned(log: SyncLog, sizes: Mapping[str, int] | None = None) -> list[Planned]:
    """The pictures of a rehearsed tour, in order.

    Args:
        log: of `rehearse`.
        sizes: bytes by key.
    """
    sizes = sizes or {}
    return [
        Planned(
            round(reveal.pts_ms / 1000, 3),
            *(reveal.cue, reveal.key, reveal.product, reveal.anchor, reveal.mark),
            log.words_around(reveal.anchor),
            sizes.get(reveal.key),
        )
        for reveal in log.of(Reveal)
    ]


def lint(
    log: SyncLog,
    *,
    pictures: Collection[str] = (),
    sizes: Mapping[str, int] | None = None,
    min_dwell: float = MIN_DWELL,
    link_kbps: float | None = None,
    preroll: float = 1.0,
) -> list[Finding]:
    """What an author may not have meant, in the order of the tour.

    Args:
        log: of `rehearse`.
        pictures: every key that could be shown; those without a cue are told.
        sizes: bytes by key, for `link_kbps`.
        min_dwell: seconds.
        link_kbps: the viewer's link in kilobits per second; None = not judged.
        preroll: seconds before the first word in which pictures already come.

    Raises:
        UsageError: a negative dwell time, or a link that is not above 0.
    """
    if not min_dwell >= 0:
        raise UsageError(f"min_dwell={min_dwell} must be 0 or more seconds")
    if link_kbps is not None and not link_kbps > 0:
        raise UsageError(f"link_kbps={link_kbps} must be above 0")
    shown = planned(log, sizes)
    found = [*_unnamed(log, shown), *_unshown(log), *_crowded(shown, min_dwell), *_beyond(log)]
    if link_kbps is not None:
        found += _too_large(shown, link_kbps, preroll)
    found.sort(key=lambda finding: finding.token if finding.token is not None else log.tokens + 1)
    named = {cue.key for cue in (log.plan or {}).values()}
    for key in pictures:
        if key not in named:
            found.append(Finding("not_shown", f"picture {key!r} is never shown: no cue names it", None, key))
    return found


def _unnamed(log: SyncLog, shown: Sequence[Planned]) -> Iterator[Finding]:
    names = Names(log.start.products if log.start else ())
    said = frozenset().union(*(mention.ids for mention in names.find(log.text).items))
    for place in shown:
        if place.product in names.titles and place.product not in said:
            title = names.titles[place.product]
            message = f"picture {place.key!r} comes at {place.words!r}, but the words never name {title!r}"
            yield Finding("not_mentioned", message, place.anchor, place.key)


def _unshown(log: SyncLog) -> Iterator[Finding]:
    for fault in mention_faults(log, None):
        message = f"{log.words_around(fault.boundary)!r} names it, but no picture of it comes"
        yield Finding("no_picture", message, fault.boundary, fault.where)


def _crowded(shown: Sequence[Planned], min_dwell: float) -> Iterator[Finding]:
    for before, after in pairwise(shown):
        if before.product == after.product and before.product:
            continue
        if after.mark == before.mark:
            message = f"{before.key!r} and {after.key!r} share mark {after.mark}: they stand side by side"
        elif after.at - before.at < min_dwell:
            seconds = after.at - before.at
            message = f"{after.key!r} replaces {before.key!r} after {seconds:.2f} s, less than {min_dwell:g} s"
        else:
            continue
        yield Finding("crowded", message, after.anchor, after.key)


def _beyond(log: SyncLog) -> Iterator[Finding]:
    for missed in log.of(CueMissed):
        if missed.reason != "beyond_end":
            continue  # what has no picture is told where it is named
        message = f"picture {missed.key!r} stands at token {missed.anchor}, behind the last of {log.tokens}"
        yield Finding("beyond_end", message, missed.anchor, missed.key)


def _too_large(shown: Sequence[Planned], link_kbps: float, preroll: float) -> Iterator[Finding]:
    sent: set[str] = set()
    bits = 0.0
    for place in shown:
        if place.size_bytes is None or place.key in sent:
            continue
        sent.add(place.key)
        bits += place.size_bytes * 8
        late = bits / (link_kbps * 1000) - preroll - place.at
        if late > 0:
            alone = place.size_bytes * 8 / (link_kbps * 1000)
            message = (
                f"{place.key!r} ({place.size_bytes / 1024:.0f} KiB) takes {alone:.1f} s at {link_kbps:g} kbit/s"
                f" behind those before it: {late:.1f} s after its words"
            )
            yield Finding("too_large", message, place.anchor, place.key)
