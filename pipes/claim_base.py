"""What the readers of claims share: the claim, the one form of a word, and places in a sentence. Pure.

Every reader takes time that grows with its text and no faster: it looks a fixed way back from a place (`before`), and
asks for what is there already by `Spans`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import msgspec

from multimodal.pipes.claim_words import COLOURS, MATERIALS, SPELLINGS

__all__ = ["Bound", "Claim", "ClaimKind", "Spans", "alternatives", "before", "folded", "spoken_alike"]

ClaimKind = Literal["price", "number", "material", "colour", "name", "stock"]
Bound = Literal["", "under", "over", "near"]

BEFORE = 40
"""Characters before a place that may say what is meant there: the longest such words have fewer than thirty."""


class Claim(msgspec.Struct, frozen=True):
    """One claim.

    Args:
        kind: what sort.
        said: the words.
        start, end: where they stand, in code points of the sentence.
        number: of a price or a number.
        unit: its unit in one spelling, or the currency's code, with its period ("EUR/month"); "" = none was said.
        word: of any other kind, and of a price that is not said in numbers: one of it in small letters.
        exact: of a number, one unit of its last digit.
        counts: of a number without a unit, what it counts; ``maker`` of a name that is one if the sheet has a maker.
        bound, denied, share, side, times: how it is meant (`claim_context`).
    """

    kind: ClaimKind
    said: str
    start: int
    end: int
    number: Decimal | None = None
    unit: str = ""
    word: str = ""
    exact: Decimal = Decimal(1)
    counts: str = ""
    bound: Bound = ""
    denied: bool = False
    share: Decimal | None = None
    """Of a material, in percent."""
    side: str = ""
    times: Decimal = Decimal(1)
    """Of a price, for how many it is."""


class Spans:
    """Places in a text, asked for by search."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def touch(self, start: int, end: int) -> bool:
        """Whether one of them shares a character with this one."""
        at = bisect_left(self._starts, end) - 1
        return at >= 0 and self._ends[at] > start

    def hold(self, start: int, end: int) -> bool:
        """Whether one of them holds all of this one."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at]


def before(sentence: str, at: int) -> str:
    """The words before a place."""
    return sentence[max(0, at - BEFORE) : at]


def alternatives(words: Iterable[str]) -> str:
    """A pattern of words, the longest first; between its words a hyphen is a space."""
    longest = sorted(words, key=len, reverse=True)
    return "|".join(r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", word))) for word in longest)


def spoken_alike(text: str) -> str:
    """A text in small letters, compatibility forms undone, with single spaces for spaces and hyphens."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("-", " ").split())


def folded(word: str) -> str:
    """One of a word in small letters, compatibility forms undone; a word of the lists in the spelling that they have.

    The one form of a word: of what is said and of what is on the sheet.
    """
    small = unicodedata.normalize("NFKC", word).casefold()
    alike = spoken_alike(small)
    for form in (alike, alike[:-1] if alike.endswith("s") else "", alike[:-2] if alike.endswith("es") else ""):
        if form in _ONE_OF:
            return _ONE_OF[form]
    if small.isascii() and len(small) > 3 and small.endswith("s") and not small.endswith(("ss", "us", "is")):
        return small[:-1]
    return small


def _ones() -> dict[str, str]:
    """The words of the lists by how they are spoken, several with one: ceramics are ceramic, a canvas is no canva."""
    words = MATERIALS | COLOURS
    ones = {spoken_alike(word): word[:-1] if word.endswith("s") and word[:-1] in words else word for word in words}
    return ones | SPELLINGS


_ONE_OF = _ones()
