"""What a fact sheet allows to be said, read with the same eyes as what is said. Pure.

G2  A number counts with its unit: 1.5 litres on the sheet does not allow 1.5 kilograms. A number without a unit is
    allowed where the sheet has that number at all, but as a price only where it has it as a price. How it is written
    does not count: digits, words, separators, the unit of another system.
G3  A material, a colour, a name or a stock counts where the sheet has it anywhere: in a fact, the title, the
    description. What is pure has to be there by itself: 黄铜 does not allow 纯铜.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from multimodal.pipes.claim_base import Claim, alternatives, folded, spoken_alike
from multimodal.pipes.claim_deals import stock
from multimodal.pipes.claim_words import (
    BRITISH,
    COLOURS,
    FOREIGN,
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
        self._measured: dict[tuple[str, bool], list[Decimal]] = {}
        if sheet is not None:
            self._read(sheet)
            self._measured = _by_measure(self.numbers)

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
        made._measured = _by_measure(made.numbers)
        return made

    def allows(self, claim: Claim) -> bool:
        """Whether a claim is on the sheet (G2, G3)."""
        if claim.number is not None:
            return self._counts(claim, claim.number)
        if claim.kind in {"stock", "price"}:
            return claim.word in self.words
        if claim.kind == "name":
            made = bool(self.values.get("name"))
            return (claim.counts == "maker" and not made) or self._says(claim.said) or self._says(claim.word)
        if self._has(claim.word) or any(self._has(word) for word in KINDS_OF.get(claim.word, ())):
            return True
        if claim.word.isascii():
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
        if word in self.words:
            return True
        return not word.isascii() and not (len(word) == 1 and word in HAN_COLOURS) and self._says(word)

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
            return number in self.prices
        if claim.unit == "person" and (number, "") in self.numbers:
            return True
        if claim.unit:
            return (number, claim.unit) in self.numbers or self._converted(claim, number)
        if number > 1 and number in self.choices and claim.counts in _CHOICES:
            return True
        if (number, "") in self.numbers or not claim.counts:
            return number in self.loose
        return number in self.loose and claim.counts in self.words

    def _converted(self, claim: Claim, number: Decimal) -> bool:
        """The same amount in another unit of the same measure: 1,500 ml is 1.5 l, and 49 cm are 19 inches."""
        if claim.unit == "GBP" and "pound" in claim.said.casefold() and (number, "lb") in self.numbers:
            return True
        if claim.unit not in MEASURES:
            return False
        measure, factor = MEASURES[claim.unit]
        foreign = claim.unit in FOREIGN
        for each in dict.fromkeys((factor, BRITISH.get(claim.unit, factor))):
            # Between metres and inches, what is said is rounded.
            rounded = min(claim.exact / 2, number * _ROUNDED) * each
            if _near(self._measured.get((measure, foreign), ()), number * each, Decimal(0)) or _near(
                self._measured.get((measure, not foreign), ()), number * each, rounded
            ):
                return True
        return False

    def _read(self, sheet: FactSheet) -> None:
        text: list[str] = []
        for fact in sheet.facts:
            self.values.setdefault(fact.kind, []).append(fact.value)
            text += [fact.name, fact.value]
            if fact.name.casefold() in _SETS:
                self.numbers.add((Decimal(len(parts_of(fact.value))), ""))
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
        for claim in _claims_of(piece) if len(piece) <= SHORT else claims(piece):
            if claim.number is None:
                self.words.add(claim.word)
                continue
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


@lru_cache(2048)
def _claims_of(piece: str) -> tuple[Claim, ...]:
    """Of pieces that a catalogue says again and again: names of facts, materials, stocks."""
    return tuple(claims(piece))


def _by_measure(numbers: Iterable[tuple[Decimal, str]]) -> dict[tuple[str, bool], list[Decimal]]:
    """What is measured, by measure and system, in the smallest unit and in order."""
    found: dict[tuple[str, bool], set[Decimal]] = {}
    for number, unit in numbers:
        if unit in MEASURES:
            measure, factor = MEASURES[unit]
            amounts = found.setdefault((measure, unit in FOREIGN), set())
            amounts.update((number * factor, number * BRITISH.get(unit, factor)))
    return {key: sorted(amounts) for key, amounts in found.items()}


def _near(amounts: list[Decimal] | tuple[()], amount: Decimal, rounded: Decimal) -> bool:
    at = bisect_left(amounts, amount - rounded)
    return at < len(amounts) and amounts[at] <= amount + rounded


def _pairs(text: str) -> Iterator[str]:
    return (text[at : at + 2] for at in range(len(text) - 1) if text[at] >= "\u2e80" or text[at + 1] >= "\u2e80")


def _plain(text: str) -> Iterator[Decimal]:
    return map(_decimal, _PLAIN.findall(text))


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits.replace(",", "."))
    except InvalidOperation:
        return Decimal(-1)


_ROUNDED = Decimal("0.03")
"""How far a rounded conversion may be off: two feet are not half a metre."""
_EMPTY = frozenset(
    ["a", "an", "the", "of", "one", "single", "whole", "solid", "piece", "block", "real", "pure", "good", "same", "its"]
)
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
