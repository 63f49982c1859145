"""The fact guard: every price, number, material, colour, name and stock said of a product has to be on its sheet.

G1  A claim belongs to the product that was named last before it; where its sentence names one only later, to that.
    Before any product is named, and in sentences that sum up, the sheets of all products count; times and counts
    are no claims there. A name that goes on with a capital letter is another's: "the Basketball Shoe" does not speak
    of the Basketball.
G2, G3  What a sheet allows: `multimodal.pipes.allowed`.
G4  A sentence is judged when it has ended. `flag` lets the text pass and tells; `hold` lets a sentence out once it is
    judged, and leaves a false one out; `stop` ends the text before it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.allowed import Allowed
from multimodal.pipes.claim_base import Spans, folded
from multimodal.pipes.claim_words import TIMES
from multimodal.pipes.claims import KnownNames, claims
from multimodal.pipes.facts import FactSheet
from multimodal.sync.matcher import Matcher, Mention, ProductNames
from multimodal.values import Product

__all__ = ["FactGuard", "Violation"]


class Violation(msgspec.Struct, frozen=True):
    """A claim that no sheet supports.

    Args:
        sentence: in which it was made.
        said: its words.
        kind: price, number, material, colour, name or stock.
        product: the product it was made of; "" = of none in particular.
        known: what the sheet says of that sort.
    """

    sentence: str
    said: str
    kind: str
    product: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.product:
            return f"{self.kind} {self.said!r} was said, and no sheet says so"
        known = f"; its sheet says: {', '.join(self.known)}" if self.known else "; its sheet says nothing of the sort"
        return f"{self.kind} {self.said!r} was said of {self.product}{known}"


class FactGuard:
    """Judges sentences against the sheets of a catalogue (G1-G3 above).

    The sheets are read once, here; a sentence then costs the same in a catalogue of any size.

    Args:
        sheets: of all products that may be spoken of.

    Raises:
        UsageError: none, what is no sheet, or two that go by one name.
    """

    def __init__(self, sheets: Iterable[FactSheet]) -> None:
        given = list(sheets) if isinstance(sheets, Iterable) else [sheets]
        for sheet in given:
            if not isinstance(sheet, FactSheet):
                raise UsageError(
                    f"a fact guard reads fact sheets, and {sheet!r:.80} is none; give FactSheet.of(product) for each"
                )
        self.sheets = {sheet.product_id: sheet for sheet in given}
        if not self.sheets:
            raise UsageError("a fact guard without a fact sheet would refuse everything; give FactSheet.of(product)")
        products = [Product(sheet.product_id, sheet.title, aliases=sheet.aliases) for sheet in self.sheets.values()]
        self._names = ProductNames(products)
        self._brands = KnownNames(
            fact.value for sheet in self.sheets.values() for fact in sheet.facts if fact.kind == "name"
        )
        self._allowed = {key: Allowed(sheet) for key, sheet in self.sheets.items()}
        self._all = Allowed.together(self._allowed.values())

    def begin(self, product: str = "", *, alone: bool = False) -> Judging:
        """Judge one narration.

        Args:
            product: the product that it begins with; "" = none in particular.
            alone: it speaks of no other, whatever words it holds that another goes by.
        """
        return Judging(self, product, alone=alone)

    def violations(self, text: str, product: str = "") -> list[Violation]:
        """What a whole text claims that no sheet supports."""
        judging = self.begin(product)
        return [violation for sentence in sentences(text) for violation in judging.judge(sentence)]

    def mentions(self, sentence: str) -> list[Mention]:
        """The products that a sentence names."""
        matcher = Matcher(self._names)
        return [*matcher.feed(sentence), *matcher.finish()]

    def strange(self, sentence: str) -> bool:
        """Whether a word in the middle of a sentence is written as a name, and stands on no sheet."""
        return any(folded(name) not in self._all.words for name in _WITHIN.findall(sentence))

    def judge(self, sentence: str, product: str, *, alone: bool = False) -> tuple[list[Violation], str]:
        """The violations of a sentence, and the product that is spoken of behind it."""
        named = [each for each in self.mentions(sentence) if not alone or each.product == product]
        inside = Spans((mention.start, mention.end) for mention in named)
        named = [mention for mention in named if not _NAME_GOES_ON.match(sentence, mention.end)]
        ends = [mention.end for mention in named]
        found: list[Violation] = []
        for claim in claims(sentence, self._brands):
            # A product's own name may hold anything: "Copper Kettle 1.5".
            if inside.hold(claim.start, claim.end):
                continue
            about = named[max(0, bisect_right(ends, claim.start) - 1)].product if named else product
            if not about and claim.kind == "number" and (claim.unit in TIMES or claim.unit in {"", "person", "piece"}):
                continue  # "give me two minutes": of no product
            allowed = self._allowed.get(about, self._all)
            if not allowed.allows(claim):
                known = tuple(allowed.values.get(claim.kind, ()))
                found.append(Violation(sentence.strip(), claim.said, claim.kind, about, known))
        return found, named[-1].product if named else product


class Judging:
    """One narration on its way through a `FactGuard`, which makes it."""

    def __init__(self, guard: FactGuard, product: str, *, alone: bool = False) -> None:
        self._guard, self.product, self._alone = guard, product, alone
        self.violations: list[Violation] = []

    def judge(self, sentence: str) -> list[Violation]:
        """The next sentence; gives its violations."""
        found, self.product = self._guard.judge(sentence, self.product, alone=self._alone)
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


_WITHIN = re.compile(r"(?<=[\w,;:] )[A-Z][^\W\d_]+")
_NAME_GOES_ON = re.compile(r"\s[A-ZÀ-ÖØ-Þ][a-zß-öø-ɏ]")
