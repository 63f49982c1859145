"""Where cues come from: every N tokens, or the places of a planned tour. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.matcher import Matcher, ProductNames
from multimodal.values import Cue, Product

__all__ = ["EveryInterval", "Segment", "TourPlan", "mention_end", "plan_tour"]


class EveryInterval:
    """Picture i, in order, at boundary i * interval from 0.

    A cue is declared only when the text reaches its boundary, so that pictures beyond the end of a short text are
    unused, not missed.

    Args:
        interval: tokens between two pictures.
        keys: the pictures known from the start; more come through `add`.
    """

    def __init__(self, interval: int, keys: Iterable[str] = ()) -> None:
        self._interval = interval
        self.keys = list(keys)
        self._declared = 0

    def add(self, key: str) -> None:
        """One more picture, in the order the pipe yields them."""
        self.keys.append(key)

    def reach(self, boundary: int) -> list[Cue]:
        """The text is about to reach `boundary`: the cues that belong there or, known only now, before it."""
        cues = []
        while self._declared < len(self.keys) and self._declared * self._interval <= boundary:
            cues.append(Cue(self._declared * self._interval, self.keys[self._declared]))
            self._declared += 1
        return cues

    def cues(self) -> list[Cue]:
        """All that are known, declared or not."""
        return [Cue(place * self._interval, key) for place, key in enumerate(self.keys)]

    def anchor(self, key: str) -> int | None:
        """Where a picture will stand; None for one that is not known."""
        return self.keys.index(key) * self._interval if key in self.keys else None

    def first(self, boundary: int) -> list[str]:
        """The pictures that stand at boundaries up to `boundary`."""
        return self.keys[: boundary // self._interval + 1]


class Segment(msgspec.Struct, frozen=True):
    """One passage of a tour.

    Args:
        text: what is said.
        sku: id of the product it is about; None = of no product (a greeting).
        places: further pictures, each with the phrase of `text` at whose end it belongs.
    """

    text: str
    sku: str | None = None
    places: tuple[tuple[str, str], ...] = ()


class TourPlan(msgspec.Struct, frozen=True):
    """A tour ready to stream: its tokens, its cues by anchor, and the boundary at which each segment begins."""

    tokens: tuple[str, ...]
    cues: tuple[Cue, ...]
    starts: tuple[int, ...] = ()


def plan_tour(segments: Sequence[Segment], products: Iterable[Product], split: Callable[[str], list[str]]) -> TourPlan:
    """Tie each product's first picture to the end of its first mention, and further pictures to their phrases.

    A product that its segment never names gets its picture at the segment's start. A product without a picture gets
    a cue all the same, under its own id: the image pipe then says why nothing comes, and the mention is not lost.

    Args:
        segments: the passages in order; a blank line is put between two.
        products: the catalogue; names are the title and the aliases.
        split: text -> tokens whose concatenation is the text, as the text pipe will split it.

    Raises:
        UsageError: a segment of an unknown product, or a phrase that its segment does not contain.
    """
    catalogue = {product.id: product for product in products}
    tokens: list[str] = []
    cues: list[Cue] = []
    starts: list[int] = []
    for number, segment in enumerate(segments):
        text = segment.text if number == len(segments) - 1 else segment.text.rstrip() + "\n\n"
        start = len(tokens)
        starts.append(start)
        tokens.extend(split(text))
        ends = _ends(tokens[start:])
        if segment.sku is not None:
            product = catalogue.get(segment.sku)
            if product is None:
                raise UsageError(
                    f"segment {number + 1} is about {segment.sku!r}, which the catalogue does not hold; "
                    f"it holds {', '.join(sorted(catalogue)) or 'nothing'}"
                )
            end = mention_end(text, (product.title, *product.aliases))
            key = product.images[0].key if product.images else product.id
            anchor = start if end is None else start + _boundary(ends, end)
            cues.append(Cue(anchor, key, product=product.id))
        for key, phrase in segment.places:
            end = mention_end(text, (phrase,))
            if end is None:
                raise UsageError(
                    f"segment {number + 1} places picture {key!r} at {phrase!r}, but does not say that; "
                    "a place is a phrase of the segment's own text"
                )
            cues.append(Cue(start + _boundary(ends, end), key, product=segment.sku or ""))
    cues.sort(key=lambda cue: cue.anchor)
    return TourPlan(tuple(tokens), tuple(cues), tuple(starts))


def mention_end(text: str, names: Iterable[str]) -> int | None:
    """Where the earliest mention of any of `names` ends, in code points; None where there is none.

    What a mention is, `multimodal.sync.matcher` says.
    """
    matcher = Matcher(ProductNames([Product("", "", tuple(names))]))
    found = [*matcher.feed(text), *matcher.finish()]
    return found[0].end if found else None


def _ends(tokens: Sequence[str]) -> list[int]:
    ends, total = [], 0
    for token in tokens:
        total += len(token)
        ends.append(total)
    return ends


def _boundary(ends: Sequence[int], character: int) -> int:
    """The boundary after the token in which the character before offset `character` lies."""
    return next(index for index, end in enumerate(ends, start=1) if end >= character)
