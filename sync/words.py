"""Sentences and product names in a narration, found by means of their own: not by the code that places the cues."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec

from multimodal.events import ProductBrief

__all__ = ["Mention", "Mentions", "Names", "sentence_around", "sentence_end"]

_SENTENCE_END = re.compile(r"[.!?…]+[\"')\]”’»]*(?=\s|$)|[。！？]+[”’」』]*")
_GAP = re.compile(r"[^\w.!?…。！？]*")
"""What may stand between a name and the boundary behind it: spaces, commas, quotes; no sentence end."""

_NO_SPACES = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff"
    "\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
"""Scripts whose words are not set apart by spaces, from Thai to ideographs, and Korean, which joins its particles."""
_LETTER = rf"[^\W{_NO_SPACES}]"
_ACCENTS = "\u0300-\u036f"

SENTENCE_CHARS = 1000
"""A sentence is looked for no further back, so that a long narration costs no more than a short one."""


class Mention(msgspec.Struct, frozen=True):
    """A product's name in a text, from `start` to `end` in characters; `ids` = every product that bears it."""

    start: int
    end: int
    ids: frozenset[str]


class Names:
    """Finds products by title and alias, case ignored, whole words only, the longest name where several begin.

    The end of a longer title that begins with another product's name is the name of none.

    Args:
        products: the products that may be named.
    """

    def __init__(self, products: Iterable[ProductBrief]) -> None:
        self._ids: dict[str, set[str]] = {}
        self.titles: dict[str, str] = {}
        for product in products:
            self.titles[product.id] = product.title
            for name in (product.title, *product.aliases):
                if name.strip():
                    self._ids.setdefault(_folded(name), set()).add(product.id)
        for name in list(self._ids):
            words = name.split()
            for first in range(1, len(words)):
                inner = (self._ids.get(" ".join(words[first:last]), set()) for last in range(first + 1, len(words)))
                if any(not ids <= self._ids[name] for ids in inner):
                    self._ids.setdefault(" ".join(words[first:]), set())
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_whole, longest_first)), re.IGNORECASE) if longest_first else None

    def find(self, text: str) -> Mentions:
        """Every mention in a text, in order, none overlapping another."""
        found = self._pattern.finditer(text) if self._pattern else ()
        named = [Mention(hit.start(), hit.end(), frozenset(self._ids.get(_folded(hit[0]), ()))) for hit in found]
        return Mentions(text, [mention for mention in named if mention.ids])


class Mentions:
    """The product names of one text.

    Args:
        text: the text.
        items: its mentions, in order.
    """

    def __init__(self, text: str, items: list[Mention]) -> None:
        self.items = items
        self._text = text
        self._starts, self._ends = [mention.start for mention in items], [mention.end for mention in items]

    def at(self, char: int) -> frozenset[str]:
        """The products whose name ends at a place, but for spaces and commas; empty = no name ends there."""
        place = bisect_right(self._ends, char)
        if place and _GAP.fullmatch(self._text, self._ends[place - 1], char):
            return self.items[place - 1].ids
        return frozenset()

    def within(self, start: int, end: int) -> frozenset[str]:
        """The products named between two places."""
        inside = self.items[bisect_left(self._starts, start) : bisect_right(self._ends, end)]
        return frozenset().union(*(mention.ids for mention in inside))


def sentence_end(text: str, char: int) -> int:
    """Where the sentence ends in which, or before which, a place lies."""
    hit = _SENTENCE_END.search(text, char)
    return hit.end() if hit else len(text)


def sentence_around(text: str, char: int) -> tuple[int, int]:
    """The sentence that holds a place; between two sentences, or at the end of one, both of them."""
    first = max(0, char - SENTENCE_CHARS)
    before = [first, *(hit.end() for hit in _SENTENCE_END.finditer(text, first, char))]
    start = before[-1]
    if len(before) > 1 and not text[start:char].strip():
        start = before[-2]
    return start, sentence_end(text, char)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()


def _whole(name: str) -> str:
    """The name as a pattern: any spacing, and no letter may touch it that could belong to the same word.

    Words end where the script changes: "Air" is named between two ideographs, and a name in Thai or Chinese anywhere.
    """
    body = r"\s+".join(map(re.escape, name.split()))
    before = f"(?<!{_LETTER})" if re.match(_LETTER, name) else ""
    after = f"(?!{_LETTER})" if re.search(f"{_LETTER}[{_ACCENTS}]*$", name) else ""
    return f"{before}{body}{after}(?![{_ACCENTS}])"
