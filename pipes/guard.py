"""The fact guard: every price, number, material, colour and brand that is said of a product has to be on its sheet.

G1  A claim belongs to the product that was named last before it; where its sentence names one only later, to that.
    Before any product is named, and in sentences that sum up, the sheets of all products count.
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
from multimodal.pipes.claims import Claim, claims, folded
from multimodal.pipes.facts import FactSheet
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
        self.values: dict[str, list[str]] = {}
        text: list[str] = []
        for sheet in sheets:
            for fact in sheet.facts:
                self.values.setdefault(fact.kind, []).append(fact.value)
                text += [fact.name, fact.value]
            text += [sheet.title, *sheet.aliases, sheet.description, sheet.product_id]
        for piece in text:
            for claim in claims(piece):
                if claim.number is not None:
                    self.numbers.add((claim.number, claim.unit))
            # Whatever looks like a number, whether it claims anything or not: sizes, codes, "3 x 4".
            for digits in re.findall(r"\d+(?:[.,]\d+)?", piece):
                self.numbers.add((_decimal(digits), ""))
        whole = " ".join(text)
        self.words = {folded(word) for word in re.findall(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*", whole)}
        self.whole = whole.casefold()
        self.names = {folded(name) for name in names if name.casefold() in self.whole}

    def allows(self, claim: Claim) -> bool:
        """G2 and G3."""
        if claim.number is not None:
            if claim.unit:
                return (claim.number, claim.unit) in self.numbers or self._converted(claim)
            return any(number == claim.number for number, _ in self.numbers)
        if claim.kind == "name":
            return claim.word in self.names
        if claim.word in self.words or claim.said.casefold() in self.whole:
            return True
        return claim.word in self.whole if not claim.word.isascii() else " " in claim.word and claim.word in self.whole

    def _converted(self, claim: Claim) -> bool:
        """The same amount in another unit of the same measure: 1,500 ml is 1.5 l."""
        scale = _SCALES.get(claim.unit)
        if scale is None or claim.number is None:
            return False
        measure, factor = scale
        same = {(unit, other) for unit, (kind, other) in _SCALES.items() if kind == measure and unit != claim.unit}
        return any((claim.number * factor / other, unit) in self.numbers for unit, other in same)


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
        found: list[Violation] = []
        for claim in claims(sentence, self._brands):
            # A product's own name may hold anything: "Copper Kettle 1.5".
            if any(start <= claim.start and claim.end <= end for start, end in inside):
                continue
            about = self._about(claim, named, product)
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


_SCALES: dict[str, tuple[str, Decimal]] = {
    "mm": ("length", Decimal(1)),
    "cm": ("length", Decimal(10)),
    "m": ("length", Decimal(1000)),
    "ml": ("volume", Decimal(1)),
    "cl": ("volume", Decimal(10)),
    "l": ("volume", Decimal(1000)),
    "g": ("weight", Decimal(1)),
    "kg": ("weight", Decimal(1000)),
    "w": ("power", Decimal(1)),
    "kw": ("power", Decimal(1000)),
    "s": ("time", Decimal(1)),
    "min": ("time", Decimal(60)),
    "h": ("time", Decimal(3600)),
}


def _decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits.replace(",", "."))
    except InvalidOperation:
        return Decimal(-1)
