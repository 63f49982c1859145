"""The fact guard: every price, number, material, colour and brand that is said of a product has to be on its sheet.

G1  A claim belongs to the product that was named last before it; where its sentence names one only later, to that.
    Before any product is named, and in sentences that sum up, the sheets of all products count; times and counts
    are no claims there. A name that goes on with a capital letter is another's: "the Basketball Shoe" does not speak
    of the Basketball.
G2  A number counts with its unit: 1.5 litres on the sheet does not allow 1.5 kilograms. A number without a unit is
    allowed where the sheet has that number at all. How it is written does not count: digits, words, separators.
G3  A material, a colour or a brand counts where the sheet has the word anywhere: in a fact, the title, the
    description.
G4  A sentence is judged when it has ended. `flag` lets the text pass and tells; `hold` lets a sentence out once it is
    judged, and leaves a false one out; `stop` ends the text before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.claim_words import HAN_COLOURS, KINDS_OF, MATERIALS, MEASURES, TIMES
from multimodal.pipes.claims import Claim, claims, folded, unit_of
from multimodal.pipes.facts import FactSheet, parts_of
from multimodal.sync.matcher import Matcher, Mention, ProductNames
from multimodal.values import Product

__all__ = ["FactGuard", "Violation"]


class Violation(msgspec.Struct, frozen=True):
    """A claim that no sheet supports.

    Args:
        sentence: in which it was made.
        said: its words.
        kind: price, number, material, colour or name.
        product: the product it was made of; "" = of none in particular.
        known: what the sheet says of that sort.
    """

    sentence: str
    said: str
    kind: str
    product: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" of {self.product}" if self.product else ""
        known = f"; its sheet says: {', '.join(self.known)}" if self.known else "; its sheet says nothing of the sort"
        return f"{self.kind} {self.said!r} was said{of}{known}"


class _Known:
    """What one sheet, or several, allow."""

    def __init__(self, sheets: Sequence[FactSheet], names: Iterable[str]) -> None:
        self.numbers: set[tuple[Decimal, str]] = set()
        self.loose: set[Decimal] = set()
        self.choices: set[Decimal] = set()
        """How many values the facts of one name have: the sizes that it comes in."""
        self.values: dict[str, list[str]] = {}
        text: list[str] = []
        for sheet in sheets:
            for fact in sheet.facts:
                self.values.setdefault(fact.kind, []).append(fact.value)
                text += [fact.name, fact.value]
                if fact.name.casefold() in _SETS:
                    self.numbers.add((Decimal(len(parts_of(fact.value))), ""))
                # "pieces: 48" counts what it is called.
                if (counted := unit_of(fact.name)) and _PLAIN.fullmatch(fact.value):
                    self.numbers.add((_decimal(fact.value), counted))
            for name in {fact.name for fact in sheet.facts}:
                self.choices.add(Decimal(len(set(sheet.values(name)))))
            text += [sheet.title, *sheet.aliases, sheet.description, sheet.product_id]
        for piece in text:
            for claim in claims(piece):
                if claim.number is not None:
                    self.numbers.add((claim.number, claim.unit))
            for period in _PERIOD.findall(piece):
                self.numbers.add((Decimal(1), unit_of(period)))
            # Whatever looks like a number, whether it claims anything or not: sizes, codes, "3 x 4".
            self.loose.update(_decimal(digits) for digits in re.findall(r"\d+(?:[.,]\d+)?", piece))
        self.loose.update(number for number, _ in self.numbers)
        self.whole = " ".join(text).casefold()
        self.words = {folded(word) for word in re.findall(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*", " ".join(text))}
        self.words |= {part for word in self.words if "-" in word for part in word.split("-")}
        # What is left when materials are gone: the yellow of brass, 黄铜, is no colour.
        self.rest = _HAN_MATERIAL.sub(" ", self.whole)
        self.names = {folded(name) for name in names if name.casefold() in self.whole}

    def allows(self, claim: Claim) -> bool:
        """G2 and G3."""
        if claim.number is not None:
            return self._counts(claim, claim.number)
        if claim.kind == "name":
            return claim.word in self.names or claim.said.casefold() in self.whole
        if claim.kind == "price":
            return claim.word in self.whole
        if self._has(claim.word) or any(self._has(word) for word in KINDS_OF.get(claim.word, ())):
            return True
        if claim.word.isascii():
            # What it is made of, in several words: one of them has to be known.
            words = {folded(word) for word in claim.word.split()}
            # "Turned from a single block" names none.
            return len(words) > 1 and (words <= _EMPTY or not words.isdisjoint(self.words - _EMPTY))
        if claim.kind == "colour":
            return any(colour in self.rest for colour in claim.word if colour in HAN_COLOURS)
        return claim.word in _WOODEN and "木" in self.whole

    def _has(self, word: str) -> bool:
        if word.isascii() and " " not in word:
            return word in self.words
        return word in (self.whole if word in MATERIALS or word.isascii() else self.rest)

    def _counts(self, claim: Claim, number: Decimal) -> bool:
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
        measure, factor = MEASURES.get(claim.unit, ("", Decimal(1)))
        for known, unit in self.numbers:
            kind, other = MEASURES.get(unit, (None, Decimal(1)))
            if kind != measure or unit == claim.unit:
                continue
            # Between metres and inches, what is said is rounded.
            rounded = Decimal(0)
            if (claim.unit in _IMPERIAL) != (unit in _IMPERIAL):
                rounded = min(claim.exact / 2, number * _ROUNDED) * factor
            if abs(number * factor - known * other) <= rounded:
                return True
        return False


class FactGuard:
    """Judges sentences against the sheets of a catalogue (G1-G3 above).

    Args:
        sheets: of all products that may be spoken of.

    Raises:
        UsageError: none, or two that go by one name.
    """

    def __init__(self, sheets: Iterable[FactSheet]) -> None:
        self.sheets = {sheet.product_id: sheet for sheet in sheets}
        if not self.sheets:
            raise UsageError("a fact guard without a fact sheet would refuse everything; give FactSheet.of(product)")
        products = [Product(sheet.product_id, sheet.title, aliases=sheet.aliases) for sheet in self.sheets.values()]
        self._names = ProductNames(products)
        self._brands = sorted(
            {fact.value for sheet in self.sheets.values() for fact in sheet.facts if fact.kind == "name"}
        )
        self._known = {key: _Known([sheet], self._brands) for key, sheet in self.sheets.items()}
        self._all = _Known(list(self.sheets.values()), self._brands)

    def begin(self, product: str = "") -> Judging:
        """Judge one narration.

        Args:
            product: the product that it begins with; "" = none in particular.
        """
        return Judging(self, product)

    def violations(self, text: str, product: str = "") -> list[Violation]:
        """What a whole text claims that no sheet supports."""
        judging = self.begin(product)
        return [violation for sentence in sentences(text) for violation in judging.judge(sentence)]

    def mentions(self, sentence: str) -> list[Mention]:
        """The products that a sentence names."""
        matcher = Matcher(self._names)
        return [*matcher.feed(sentence), *matcher.finish()]

    def judge(self, sentence: str, product: str) -> tuple[list[Violation], str]:
        """The violations of a sentence, and the product that is spoken of behind it."""
        named = self.mentions(sentence)
        inside = [(mention.start, mention.end) for mention in named]
        named = [mention for mention in named if not _NAME_GOES_ON.match(sentence, mention.end)]
        found: list[Violation] = []
        for claim in claims(sentence, self._brands):
            # A product's own name may hold anything: "Copper Kettle 1.5".
            if any(start <= claim.start and claim.end <= end for start, end in inside):
                continue
            about = self._about(claim, named, product)
            if not about and claim.kind == "number" and (claim.unit in TIMES or claim.unit in {"", "person", "piece"}):
                continue  # "give me two minutes": of no product
            known = self._known.get(about, self._all)
            if not known.allows(claim):
                found.append(
                    Violation(sentence.strip(), claim.said, claim.kind, about, tuple(known.values.get(claim.kind, ())))
                )
        return found, named[-1].product if named else product

    @staticmethod
    def _about(claim: Claim, named: Sequence[Mention], product: str) -> str:
        before = [mention.product for mention in named if mention.end <= claim.start]
        if before:
            return before[-1]
        return named[0].product if named else product


class Judging:
    """One narration on its way through a `FactGuard`, which makes it."""

    def __init__(self, guard: FactGuard, product: str) -> None:
        self._guard, self.product = guard, product
        self.violations: list[Violation] = []

    def judge(self, sentence: str) -> list[Violation]:
        """The next sentence; gives its violations."""
        found, self.product = self._guard.judge(sentence, self.product)
        self.violations += found
        return found


def sentences(text: str) -> list[str]:
    """A text in its sentences, with the spaces behind each."""
    from multimodal.pipes.boundaries import SENTENCE, Boundaries

    borders, found, current = Boundaries(), list[str](), ""
    for piece in re.findall(r"\s+|[^\W_]+|.", text, re.DOTALL):
        if borders.feed(piece) >= SENTENCE and current.strip():
            found.append(current)
            current = ""
        current += piece
    return [*found, current] if current.strip() else found


_IMPERIAL = frozenset({"in", "ft", "oz", "lb"})
_ROUNDED = Decimal("0.03")
"""How far a rounded conversion may be off: two feet are not half a metre."""
_EMPTY = frozenset(
    ["a", "an", "the", "of", "one", "single", "whole", "solid", "piece", "block", "real", "pure", "good", "same", "its"]
)
_PLAIN = re.compile(r"\d+(?:[.,]\d+)?")
_CHOICES = frozenset(
    ["choice", "color", "colour", "edition", "finishe", "kind", "model", "option", "shade", "size", "style", "version"]
)
"""What comes in several; in the form that `folded` leaves."""
_SETS = frozenset({"set", "includes", "contents", "in the box", "套装", "包含", "配件"})
_WOODEN = frozenset({"木头", "实木", "原木"})
_PERIOD = re.compile(r"(?:\b(?:an?|one|per)\s+|一)(day|week|month|year|天|周|年)")
_HAN_MATERIAL = re.compile(
    "|".join(sorted((word for word in MATERIALS if not word.isascii() and len(word) > 1), key=len, reverse=True))
)


_NAME_GOES_ON = re.compile(r"\s[A-Z][a-z]")


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits.replace(",", "."))
    except InvalidOperation:
        return Decimal(-1)
