"""Whether each picture is the one its words are about, read off a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from multimodal.events import CueMissed, Reveal
from multimodal.sync.faults import Fault
from multimodal.sync.log import SyncLog
from multimodal.sync.words import Mentions, Names, sentence_around

__all__ = ["product_faults"]


def product_faults(
    log: SyncLog, expected: Mapping[int, str], anchors: Mapping[int, str], words: bool
) -> Iterator[Fault]:
    """A fault for each reveal of a wrong picture, and for each expected picture that was not shown.

    Args:
        log: what was recorded.
        expected: picture keys by cue number.
        anchors: picture keys by anchor; where several pictures share it, one of them.
        words: compare with the product names in the text.
    """
    names = Names(log.start.products if log.start else ())
    mentions = names.find(log.text)
    reveals = log.of(Reveal)
    for reveal in reveals:
        wrong = _unlike_the_plan(log, reveal) or _unlike_its_picture(log, reveal)
        if not wrong and words:
            wrong = _unlike_the_words(log, reveal, names.titles, mentions)
        if wrong:
            yield _fault(reveal, *wrong)
    for number, key in expected.items():
        shown = [reveal for reveal in reveals if reveal.cue == number]
        yield from _unexpected(log, f"cue {number}", key, shown, log.outcomes.get(number, ())[:1])
    for anchor, key in anchors.items():
        shown = [reveal for reveal in reveals if reveal.anchor == anchor]
        missed = [event for event in log.of(CueMissed) if event.anchor == anchor]
        yield from _unexpected(log, f"boundary {anchor}", key, shown, missed[:1], anchor)


def _unlike_the_plan(log: SyncLog, reveal: Reveal) -> tuple[str, str] | None:
    planned = log.plan.get(reveal.cue) if log.plan else None
    if planned is None:
        return None
    if planned.key != reveal.key:
        return f"wrong picture: {reveal.key!r} in place of {planned.key!r}", f"cue {reveal.cue} was planned with it"
    if planned.product and planned.product != reveal.product:
        verdict = f"wrong product: {reveal.key!r} was shown as {reveal.product!r} in place of {planned.product!r}"
        return verdict, f"cue {reveal.cue} was planned for it"
    return None


def _unlike_its_picture(log: SyncLog, reveal: Reveal) -> tuple[str, str] | None:
    for asset in log.assets.get(reveal.key, ()):
        if asset.product and reveal.product and asset.product != reveal.product:
            verdict = (
                f"wrong product: {reveal.key!r} was shown as {reveal.product!r}, it is a picture of {asset.product!r}"
            )
            return verdict, f"so its asset event says (seq {asset.seq})"
    return None


def _unlike_the_words(
    log: SyncLog, reveal: Reveal, titles: Mapping[str, str], mentions: Mentions
) -> tuple[str, str] | None:
    """The name right before the anchor decides; else, for a product that no plan names, those of the sentence."""
    if reveal.product not in titles:
        return None
    char = log.char_at(reveal.anchor)
    named = mentions.at(char)
    planned = log.plan.get(reveal.cue) if log.plan else None
    if not named and not (planned and planned.product == reveal.product):
        named = mentions.within(*sentence_around(log.text, char))
    if not named or reveal.product in named:
        return None
    about = " or ".join(sorted(titles[product] for product in named))
    verdict = f"wrong product: {reveal.key!r} ({titles[reveal.product]}) was shown with words about {about}"
    return verdict, "the words name another product"


def _unexpected(
    log: SyncLog,
    place: str,
    key: str,
    shown: list[Reveal],
    outcomes: tuple[Reveal | CueMissed, ...] | list[CueMissed],
    boundary: int = 0,
) -> Iterator[Fault]:
    if any(reveal.key == key for reveal in shown):
        return
    if shown:
        yield _fault(
            shown[0], f"wrong picture: {shown[0].key!r} in place of {key!r}", f"{place} was expected to show it"
        )
        return
    missed = next((event for event in outcomes if isinstance(event, CueMissed)), None)
    why = f"it was missed: {missed.reason}" if missed else "no reveal was emitted"
    at = missed.anchor if missed else boundary
    yield Fault(f"{key!r} was expected at {place} and never shown", "fetch", why, min(at, log.tokens), place)


def _fault(reveal: Reveal, verdict: str, why: str) -> Fault:
    where = f"mark {reveal.mark}, cue {reveal.cue}, seq {reveal.seq}"
    return Fault(verdict, "anchor", why, reveal.anchor, where)
