"""What each passage of the local narrator says, and how: opening, manner, order and grouping of the facts. Pure.

L1. Facts are those that the extractive planner would say; the price is always among them.
L2. Forms that need something are chosen only where the sheet holds it, and none is used twice running.
L3. What is joined in one sentence reads as one: no two verbs alike, nothing behind a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from multimodal.pipes.facts import Fact, FactSheet, parts_of
from multimodal.pipes.narrator_openings import FROM_FORMS, OPENINGS, PRICE_FORMS, TAILS, Opening
from multimodal.pipes.planner import price_share, sayable
from multimodal.pipes.planner_base import Picker
from multimodal.pipes.planner_en import English
from multimodal.pipes.planner_en_words import SIDES, VERBS

__all__ = ["MANNERS", "PassagePlanner", "Plan", "Said", "grammar"]

_T = TypeVar("_T")

MANNERS = ("calm", "warm", "brisk")
"""Ways of putting the same facts; the model was trained on each."""

_BARE = ("costs", "price", "label")
"""Forms of a price that say that it is one, for money without a name."""
_LATE = ("comes", "all", "asked")
"""Forms of a price that sum up, at the end of a passage that has said something else."""
_JOINED = ("costs", "yours", "sells", "from")
"""Forms of a price that can end a sentence of other facts."""
_LIKE = (frozenset({"material", "availability", *SIDES}), frozenset({"colour", "brand", "origin", "size"}))
"""Kinds of facts whose verbs may be alike."""


class Said(msgspec.Struct, frozen=True):
    """One fact as a passage says it.

    Args:
        facts: of the sheet that it says; several of one name are its choices.
        form: of its clause in the planner's grammar; a price is none of them.
        value: its words: the catalogue's own, or the whole clause where there is no key.
        key: the kind of fact, with the form's word behind a price's; "" = the clause itself is asked for.
    """

    facts: tuple[Fact, ...]
    form: Literal["verb", "side", "own", "alone", "price"]
    value: str
    key: str = ""

    @property
    def asked(self) -> str:
        """Its line in the prompt, without the sign before it."""
        return f"{self.key}: {self.value}" if self.key else self.value


class Plan(msgspec.Struct, frozen=True):
    """All that decides what a passage says.

    Args:
        sheet: of the product.
        opening: how it begins.
        manner: one of `MANNERS`.
        lines: the facts, a tuple for each sentence. The opening says the first line itself where it needs a fact.
        tail: word of `TAILS`, "" = none.
    """

    sheet: FactSheet
    opening: Opening
    manner: str
    lines: tuple[tuple[Said, ...], ...]
    tail: str = ""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the passage says of the product."""
        return tuple(dict.fromkeys(fact for line in self.lines for said in line for fact in said.facts))


class _Steady(Picker):
    """Chooses the same wherever it is asked."""

    def __init__(self, index: int) -> None:
        super().__init__(0)
        self._index = index

    def pick(self, slot: str, options: Sequence[_T]) -> _T:
        """That of its index."""
        return options[self._index % len(options)]


def grammar(sheet: FactSheet, manner: str) -> English:
    """The planner's grammar for a product, which makes the same choices whenever it is asked in one manner."""
    return English(sheet, _Steady(MANNERS.index(manner)))


class PassagePlanner:
    """Plans one passage after the other.

    Args:
        picker: chooses among the forms.
        shop: the shop's name; a brand of the same name is not said.
        most: facts said of a product at most, its price among them.
        skip_brand: leave the brand out: all products of the tour share it.
    """

    def __init__(self, picker: Picker, *, shop: str = "", most: int = 8, skip_brand: bool = False) -> None:
        self._picker, self._shop, self._most, self._skip_brand = picker, shop, most, skip_brand
        self._before: FactSheet | None = None
        self._began = ""

    def plan(self, sheet: FactSheet, place: str = "") -> Plan:
        """The next product's.

        Args:
            sheet: its facts.
            place: ``first``, ``last`` or "" = between them.
        """
        picker = self._picker
        manner = picker.pick("manner", MANNERS)
        words = grammar(sheet, manner)
        price = _price(sheet)
        said = self._chosen(sheet, words, price is not None)
        opening, first = self._opening(sheet, place, said, price)
        rest = [one for one in said if one is not first]
        lines = self._lines(rest)
        if opening.needs == "verb":
            number = next(number for number, line in enumerate(lines) if line[0].form in ("verb", "side"))
            lines.insert(0, lines.pop(number))
        elif first is not None:
            lines.insert(0, [first])
        if price is not None and not (first and price in first.facts):
            self._priced(lines, price, opening.needs == "verb" or first is not None)
        few = sum(map(len, lines)) <= 2
        tail = picker.pick("tail", tuple(TAILS)) if few or picker.chance(0.15) else ""
        self._before = sheet
        return Plan(sheet, opening, manner, tuple(map(tuple, lines)), tail)

    def _chosen(self, sheet: FactSheet, words: English, priced: bool) -> list[Said]:
        """The facts that are said besides the price (L1)."""
        groups = sayable(sheet, words, shop=self._shop, skip_brand=self._skip_brand)
        room = self._most - priced
        if self._most < 8:
            room = self._picker.number(max(1, room - 2), max(1, room)) if room > 0 else 0
        while len(groups) > room:
            # What a thing is made of is asked first; the rest takes turns.
            able = [entry for entry in groups if words.concept(entry[0]) != "material"] or groups
            groups.remove(able[self._picker.number(0, len(able) - 1) if self._most < 8 else -1])
        return [_said(sheet, words, fact, values) for fact, values in groups]

    def _opening(
        self, sheet: FactSheet, place: str, said: Sequence[Said], price: Fact | None
    ) -> tuple[Opening, Said | None]:
        """One that this sheet can fill (L2), and the fact that it says."""
        have: dict[str, Said | None] = {"": None}
        if any(one.form in ("verb", "side") for one in said):
            have["verb"] = None
        before = self._before
        for one in said:
            fact = one.facts[0]
            plain = one.key in ("material", "colour", "brand") and len(one.facts) == 1 and one.form == "verb"
            plain = plain and (one.key == "brand" or fact.kind == one.key) and not re.search("[,%，]", one.value)
            if plain and len(parts_of(one.value)) <= 2:
                have.setdefault(one.key, one)
                if before is not None and any(fact.value == f.value and fact.kind == f.kind for f in before.facts):
                    have.setdefault(f"same {one.key}", one)
        if price is not None and price.name == "price" and " " in price.value:
            have["price"] = Said((price,), "price", price.value, "price")
            step = _step(price, _price(before) if before is not None else None)
            have |= {step: None} if step else {}
        fits = [one for one in OPENINGS if one.place == place and one.needs in have]
        # Two forms may begin alike; heard one after the other they would be one.
        other = [one for one in fits if _beginning(one) != self._began]
        opening = self._picker.pick("opening", other or fits)
        self._began = _beginning(opening)
        return opening, have[opening.needs]

    def _lines(self, said: Sequence[Said]) -> list[list[Said]]:
        """The facts in sentences (L3)."""
        picker = self._picker
        sides = [one for one in said if one.form == "side"]
        verbs = [[one] for one in said if one.form == "verb"]
        if sides:
            verbs.insert(picker.number(min(1, len(verbs)), len(verbs)), sides)
        lines: list[list[Said]] = []
        for group in verbs:
            if lines and picker.chance(0.75) and _joins(lines[-1], group):
                lines[-1] = [*lines[-1], *group]
            else:
                lines.append(list(group))
        owns = [one for one in said if one.form == "own"]
        if owns and lines and not _listing(lines[-1][-1]) and picker.chance(0.5):
            lines[-1].append(owns.pop(0))
        while owns:
            take = 2 if len(owns) > 1 and picker.chance(0.6) else 1
            lines.append([owns.pop(0) for _ in range(take)])
        return lines + [[one] for one in said if one.form == "alone"]

    def _priced(self, lines: list[list[Said]], price: Fact, led: bool) -> None:
        """Put the price in: at the end, behind another fact, or between sentences."""
        picker = self._picker
        forms = [*(FROM_FORMS if price.name == "price from" else PRICE_FORMS)]
        if price.name == "price" and " " not in price.value:
            forms = [*_BARE]
        if lines and picker.chance(0.35):
            last = lines[-1]
            if not (led and len(lines) == 1) and all(one.form in ("verb", "side") for one in last) and len(last) <= 2:
                joined = [form for form in forms if form in _JOINED]
                if not _listing(last[-1]):
                    last.append(Said((price,), "price", price.value, f"price, {picker.pick('joined', joined)}"))
                    return
        if len(lines) < 2:
            forms = [form for form in forms if form not in _LATE]
        form = picker.pick("price", forms)
        one = Said((price,), "price", price.value, f"price, {form}")
        between = len(lines) > 2 and picker.chance(0.25) and form not in _LATE
        lines.insert(picker.number(1, len(lines) - 1) if between else len(lines), [one])


def _said(sheet: FactSheet, words: English, fact: Fact, values: tuple[str, ...]) -> Said:
    clause = words.clause(fact, values)
    facts = tuple(one for one in sheet.facts if one.name == fact.name and one.value in values)
    concept = words.concept(fact)
    if clause.form in ("verb", "side") and concept in VERBS:
        return Said(facts, clause.form, words.values(fact, values), concept)
    return Said(facts, clause.form, clause.text)


def _price(sheet: FactSheet) -> Fact | None:
    return next((fact for fact in sheet.facts if fact.name in English.price_names), None)


def _step(price: Fact, before: Fact | None) -> str:
    """Whether a price is ``less`` or ``more`` than the one before, in the same money; "" = neither is sure."""
    share = price_share(price, before)
    return "" if share is None or share == 1 else "less" if share < 1 else "more"


def _joins(line: Sequence[Said], group: Sequence[Said]) -> bool:
    """Whether the group may stand behind the line in one sentence."""
    alike = any(a.key in like and b.key in like for like in _LIKE for a in line for b in group)
    keyed = all(one.key for one in (*line, *group)) and sum(one.form == "side" for one in line) < 2
    return not alike and keyed and len(line) < 3 and not any(map(_listing, line))


def _listing(said: Said) -> bool:
    return "," in said.value or " and " in said.value


def _beginning(opening: Opening) -> str:
    return " ".join(opening.text.split()[:2]).rstrip(",")
