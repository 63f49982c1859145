"""What a fact sheet allows to be said, read with the same eyes as what is said. Pure.

G2  A number counts with its unit: 1.5 litres on the sheet does not allow 1.5 kilograms. A number without a unit is
    allowed where the sheet has that number at all, but as a price only where it has it as a price. How it is written
    does not count: digits, words, separators, the unit of another system.
    A side (height, width) that the sheet has is judged by that, and what is compared by G5 (`allowed_amounts`).
G3  A material, a colour, a name or a stock counts where the sheet has it anywhere: in a fact, the title, the
    description. What is pure has to be there by itself: 黄铜 does not allow 纯铜. Where it
    has a share, a share has to be that: 80 % wool is not pure.
G6  What is denied ("not made of plastic", "49 euros, not 59") is true where the sheet does not say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from multimodal.pipes.allowed_amounts import Amounts
from multimodal.pipes.claim_base import Claim, alternatives, folded, spoken_alike
from multimodal.pipes.claim_context import side_of
from multimodal.pipes.claim_deals import stock
from multimodal.pipes.claim_words import (
    COLOURS,
    GROUPS,
    HAN_COLOURS,
    HAN_MATERIALS,
    KINDS_OF,
    MATERIALS,
    MEASURES,
)
from multimodal.pipes.claims import claims, unit_of
from multimodal.pipes.facts import FactSheet, parts_of

__all__ = ["Allowed"]


SHORT = 64


class Allowed:
    """What one sheet, or several together, allow."""

    def __init__(self, sheet: FactSheet | None = None) -> None:
        self.numbers: set[tuple[Decimal, str]] = set()
        self.prices: set[Decimal] = set()
        self.loose: set[Decimal] = set()
        self.choices: set[Decimal] = set()
        """How many values the facts of one name have: the sizes that it comes in."""
        self.values: dict[str, list[str]] = {}
        self.words: set[str] = set()
        """Every word in the one form, and every claim that is none of a number."""
        self.pairs: set[str] = set()
        """Of several sheets: every two Chinese characters that stand side by side on one."""
        self.whole = ""
        """Of one sheet: all of its text."""
        self.denied: set[str] = set()
        """What the sheet says that it is not."""
        self.shares: dict[str, set[Decimal]] = {}
        """Of one sheet: how much of each material, where it says so."""
        self.sides: dict[str, set[tuple[Decimal, str]]] = {}
        """Of one sheet: its amounts of each side."""
        if sheet is not None:
            self._read(sheet)
        self._order()

    @classmethod
    def together(cls, several: Iterable[Allowed]) -> Allowed:
        """What the sheets allow together, of whatever product it is said. How long it takes to ask does not depend on
        how many there are: their texts are not searched, only their words and pairs of characters are known."""
        made = cls()
        for each in several:
            made.numbers |= each.numbers
            made.prices |= each.prices
            made.loose |= each.loose
            made.choices |= each.choices
            made.words |= each.words
            made.pairs.update(_pairs(each.whole))
            made.denied |= each.denied
        made._order()
        return made

    def _order(self) -> None:
        self._amounts = Amounts(self.numbers)
        self._priced = Amounts((price, "") for price in self.prices)
        self._by_side = {side: Amounts(numbers) for side, numbers in self.sides.items() if numbers}

    def allows(self, claim: Claim) -> bool:
        """Whether a claim is on the sheet (G2, G3), and one that is denied is not (G6)."""
        if not claim.denied:
            return self._says_so(claim)
        if claim.number is not None and not claim.unit and claim.kind != "price":
            return True
        return claim.word in self.denied or not self._says_so(claim)

    def _says_so(self, claim: Claim) -> bool:
        if claim.number is not None:
            return self._counts(claim, claim.number)
        if claim.kind == "number":
            return claim.word in self.words or self._says(claim.word)
        if claim.kind in {"stock", "price"}:
            return claim.word in self.words
        if claim.kind == "name":
            made = bool(self.values.get("name"))
            return (claim.counts == "maker" and not made) or self._says(claim.said) or self._says(claim.word)
        if claim.share is not None and not self._shared(claim, claim.share):
            return False
        if self._has(claim.word) or any(self._has(word) for word in KINDS_OF.get(claim.word, ())):
            return True
        if not _HAN.search(claim.word):
            if claim.word in MATERIALS or claim.word in COLOURS:
                return False
            # What it is made of, in several words: one of them has to be known.
            words = set(claim.word.split())
            # "Turned from a single block" names none.
            return len(words) > 1 and (words <= _EMPTY or any(word in self.words for word in words - _EMPTY))
        if claim.kind == "colour":
            return any(self._has(colour) for colour in claim.word if colour in HAN_COLOURS)
        return claim.word in _WOODEN and "木" in self.words

    def _has(self, word: str) -> bool:
        """A material or a colour, in the form of the lists."""
        if word in self.words or word in self.denied:
            return word in self.words
        return _HAN.search(word) is not None and not (len(word) == 1 and word in HAN_COLOURS) and self._says(word)

    def _says(self, text: str) -> bool:
        """A name, or Chinese words: letter for letter on one sheet, in its words or pairs on one of several."""
        if self.whole:
            return spoken_alike(text) in self.whole
        said = spoken_alike(text)
        if said in self.words or _DIGIT.search(said):
            return said in self.words
        pairs = list(_pairs(said))
        return all(pair in self.pairs for pair in pairs) and (
            bool(pairs) or all(folded(word) in self.words for word in said.split())
        )

    def _counts(self, claim: Claim, number: Decimal) -> bool:
        if claim.kind == "price" and not claim.unit:
            return number / claim.times in self.prices or self._priced.compares(number, "", claim.bound)
        if claim.unit == "person" and (number, "") in self.numbers:
            return True
        if claim.side in self._by_side:
            return self._measures(self._by_side[claim.side], claim, number)
        if claim.unit:
            return (number / claim.times, claim.unit) in self.numbers or self._measures(self._amounts, claim, number)
        if number > 1 and number in self.choices and claim.counts in _CHOICES:
            return True
        if (number, "") in self.numbers or not claim.counts:
            return number in self.loose
        return number in self.loose and claim.counts in self.words

    def _measures(self, amounts: Amounts, claim: Claim, number: Decimal) -> bool:
        """In another unit of the same measure, or as a comparison."""
        if claim.unit == "cent" and number / 100 in self.prices:
            return True
        if claim.unit == "GBP" and "pound" in claim.said.casefold() and (number, "lb") in self.numbers:
            return True
        return amounts.converted(number, claim.unit, claim.exact) or amounts.compares(number, claim.unit, claim.bound)

    def _shared(self, claim: Claim, share: Decimal) -> bool:
        """Whether a material has the share that is said, where the sheet has one (G3)."""
        known = {each for word in (claim.word, *KINDS_OF.get(claim.word, ())) for each in self.shares.get(word, ())}
        return not known or (any(each > share for each in known) if claim.bound == "over" else share in known)

    def _read(self, sheet: FactSheet) -> None:
        text: list[str] = []
        for fact in sheet.facts:
            self.values.setdefault(fact.kind, []).append(fact.value)
            text += [fact.name, fact.value]
            if fact.name.casefold() in _SETS:
                self.numbers.update((Decimal(len(parts_of(fact.value))), unit) for unit in ("", "piece"))
            if folded(fact.name) in _CHOICES:
                self.choices.add(Decimal(len(parts_of(fact.value))))
            if side := side_of(fact.name):
                found = ((each.number, each.unit) for each in claims(fact.value) if each.number is not None)
                self.sides.setdefault(side, set()).update(each for each in found if each[1] in MEASURES)
            # "pieces: 48" counts what it is called.
            if (counted := unit_of(fact.name)) and _PLAIN.fullmatch(fact.value):
                self.numbers.add((_decimal(fact.value), counted))
            if fact.kind == "price":
                self.prices.update(_plain(fact.value))
            if fact.kind == "name":
                self.words.add(spoken_alike(fact.value))
        self.values["stock"] = [fact.value for fact in sheet.facts if any(stock(fact.value))]
        for name in {fact.name for fact in sheet.facts}:
            self.choices.add(Decimal(len(set(sheet.values(name)))))
        text += [sheet.title, *sheet.aliases, sheet.description, sheet.product_id]
        for piece in dict.fromkeys(text):
            self._read_text(piece)
        self.loose.update(number for number, _ in self.numbers)
        self.whole = spoken_alike(" ".join(text))
        # The yellow of brass, 黄铜, is no colour, nor is it copper by itself.
        rest = _HAN_COMPOUND.sub(" ", self.whole)
        self.words.update(each for each in rest if each in HAN_COLOURS)
        self.words.update(f"纯{each}" for each in rest if each in HAN_MATERIALS)
        self.words.update(each for each in self.whole if each in HAN_MATERIALS)
        if "木" in self.words:
            self.words.add("纯木")

    def _read_text(self, piece: str) -> None:
        affirmed = set(self.words)
        for claim in _claims_of(piece) if len(piece) <= SHORT else claims(piece):
            if claim.number is None:
                (self.denied if claim.denied else affirmed).add(claim.word)
                if claim.share is not None and not claim.bound:
                    self.shares.setdefault(claim.word, set()).add(claim.share)
                continue
            if claim.side:
                self.sides.setdefault(claim.side, set()).add((claim.number, claim.unit))
            self.numbers.add((claim.number, claim.unit))
            if claim.kind == "price":
                self.prices.add(claim.number)
        for period in _PERIOD.findall(piece):
            self.numbers.add((Decimal(1), unit_of(period)))
        for group in _GROUP.findall(piece):
            self.numbers.add((Decimal(GROUPS[group.casefold()]), ""))
        # Whatever looks like a number, whether it claims anything or not: sizes, codes, "3 x 4".
        self.loose.update(_plain(piece))
        for word in _WORD.findall(piece):
            self.words.add(folded(word))
            if "-" in word:
                self.words.update(map(folded, word.split("-")))
        self.words.update(map(folded, _SEVERAL.findall(piece)))
        # "Free of plastic" is no plastic.
        self.words -= self.denied
        self.words |= affirmed


@lru_cache(2048)
def _claims_of(piece: str) -> tuple[Claim, ...]:
    """Of pieces that a catalogue says again and again: names of facts, materials, stocks."""
    return tuple(claims(piece))


def _pairs(text: str) -> Iterator[str]:
    return (text[at : at + 2] for at in range(len(text) - 1) if text[at] >= "\u2e80" or text[at + 1] >= "\u2e80")


def _plain(text: str) -> Iterator[Decimal]:
    return map(_decimal, _PLAIN.findall(text))


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits.replace(",", "."))
    except InvalidOperation:
        return Decimal(-1)


_EMPTY = frozenset(
    ["a", "an", "the", "of", "one", "single", "whole", "solid", "piece", "block", "real", "pure", "good", "same", "its"]
)
_HAN = re.compile("[\u2e80-\U0003ffff]")
_DIGIT = re.compile(r"\d")
_PLAIN = re.compile(r"\d+(?:[.,]\d+)?")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_CHOICES = frozenset(
    ["choice", "color", "colour", "edition", "finishe", "kind", "model", "option", "shade", "size", "style", "version"]
)
"""What comes in several; in the form that `folded` leaves."""
_SETS = frozenset({"set", "includes", "contents", "in the box", "套装", "包含", "配件"})
_WOODEN = frozenset({"木头", "实木", "原木"})
_PERIOD = re.compile(r"(?:\b(?:an?|one|per)\s+|一)(day|week|month|year|天|周|月|年)")
_GROUP = re.compile(rf"\b({'|'.join(GROUPS)})s?\b", re.IGNORECASE)
_HAN_COMPOUND = re.compile(alternatives(word for word in MATERIALS if not word.isascii() and len(word) > 1))
_SEVERAL = re.compile(
    rf"(?<!\w)(?:{alternatives({w for words in KINDS_OF.values() for w in words} | MATERIALS)})(?!\w)", re.IGNORECASE
)
