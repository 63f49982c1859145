"""The local narrator's training text: invented fact sheets, and the passages that the narrator's wording makes of them.

Most slots are filled with words drawn at random: a model that has seen every value only once learns to copy letters,
not to remember products. Pure; the same seed makes the same text on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec

from multimodal.assets.narrator.training import words
from multimodal.pipes.fact_words import AVAILABILITY, MONEY
from multimodal.pipes.facts import Fact, FactSheet, kind_of, money
from multimodal.pipes.guided_prompt import Message
from multimodal.pipes.narrator_openings import CLOSINGS, GREETINGS
from multimodal.pipes.narrator_plan import PassagePlanner
from multimodal.pipes.narrator_prompt import closing_messages, greeting_messages, passage_messages
from multimodal.pipes.narrator_wording import closed, greeted, spoken
from multimodal.pipes.planner import said_in
from multimodal.pipes.planner_base import Picker
from multimodal.pipes.planner_en_words import VERBS

__all__ = ["Sample", "Sheets", "samples"]

_T = TypeVar("_T")

RANDOM_SHARE = 0.65
"""Of the slots that are filled with words drawn at random; the others are what a shop would say."""
_MEASURED = ("capacity", "weight", "height", "width", "length", "depth", "thickness", "diameter")
_CONCEPTS = tuple(name for name in VERBS if name not in ("brand", "availability"))
_CURRENCIES = ("EUR", "EUR", "GBP", "USD", "", "")


class Sample(msgspec.Struct, frozen=True):
    """One thing that the model is asked in training, and what it is to answer."""

    messages: list[Message]
    answer: str


class Sheets:
    """Draws invented fact sheets.

    Args:
        seed: the same one draws the same sheets.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(f"sheets {seed}")
        self._count = 0

    def tour(self, products: int) -> list[FactSheet]:
        """The sheets of one shop: one money, and often something that two in a row share."""
        currency = self._pick(_CURRENCIES) if self._chance(0.7) else self._pick(tuple(MONEY))
        cents = self._chance(0.5)
        sheets: list[FactSheet] = []
        for _ in range(products):
            sheets.append(self._sheet(currency, cents, sheets[-1] if sheets else None))
        return sheets

    def shop(self) -> str:
        """A shop's name; "" = it has none."""
        if self._chance(0.1):
            return ""
        return self._brand() if self._chance(0.6) else f"{self._word()} {self._pick(words.NOUNS)}".title()

    def _sheet(self, currency: str, cents: bool, before: FactSheet | None) -> FactSheet:
        self._count += 1
        facts: list[Fact] = []
        if self._chance(0.4):
            facts.append(Fact("brand", self._brand(), "name"))
        several = self._chance(0.2)
        if self._chance(0.95):
            facts.append(Fact("price from" if several else "price", self._price(currency, cents), "price"))
        if self._chance(0.25):
            facts.append(Fact("availability", self._pick([both[0] for both in AVAILABILITY.values()]), "text"))
        for _ in range(self._pick((0, 0, 1, 2, 3, 3, 4, 4, 5, 6))):
            facts += self._fact(before)
        if several:
            for _ in range(self._pick((1, 1, 2))):
                facts += self._choice()
        fresh: dict[str, list[Fact]] = {}
        for fact in dict.fromkeys(facts):
            kept = fresh.setdefault(fact.name, [])
            if not kept or several:
                kept.append(fact)
        return FactSheet(f"p{self._count}", self._title(), facts=tuple(f for kept in fresh.values() for f in kept))

    def _fact(self, before: FactSheet | None) -> list[Fact]:
        chance = self._dice.random()
        if chance < 0.55:
            name = "material" if self._chance(0.3) else "colour" if self._chance(0.25) else self._pick(_CONCEPTS)
            shared = [f for f in before.facts if f.kind == name] if before is not None else []
            value = self._pick(shared).value if shared and self._chance(0.5) else self._known(name)
            spelled = {"colour": "color", "material": self._pick(("fabric", "materials"))}.get(name, name)
            name = spelled if self._chance(0.15) else name
        elif chance < 0.63:
            name = self._pick(words.DEEDS)
            value = self._free()
        elif chance < 0.88:
            name = self._pick(words.NAMES)
            value = self._free()
        else:
            name = self._pick((self._word(), f"{self._word()} {self._word()}", f"{self._word()}:{self._word()}"))
            value = self._free()
        return [Fact(name, value, kind_of(name, value))]

    def _choice(self) -> list[Fact]:
        """Several values of one name, as a shop's variants give them."""
        name = self._pick(("size", "storage", "RAM", "color", "length", "size:shoe-size", self._word()))
        drawn = tuple(dict.fromkeys(self._free() for _ in range(4)))
        values = drawn if self._chance(0.5) else self._pick(words.CHOICES)
        if name == "color":
            values = tuple(dict.fromkeys(self._colour() for _ in range(4)))
        return [Fact(name, value, kind_of(name, value)) for value in values[: self._dice.randint(2, 5)]]

    def _known(self, name: str) -> str:
        """What a fact of a kind may say."""
        if name in _MEASURED:
            return self._amount()
        if name == "material":
            parts = [self._material() for _ in range(self._pick((1, 1, 2, 2, 3)))]
            return ", ".join(dict.fromkeys(parts))
        if name == "colour":
            return f"{self._colour()}, {self._colour()} {self._word()}" if self._chance(0.2) else self._colour()
        if name == "size":
            return self._pick(("S", "XL", "42", "one size", self._amount(), self._sides()))
        return self._word().capitalize() if name == "origin" else self._free()

    def _material(self) -> str:
        if self._chance(RANDOM_SHARE):
            return self._pick((f"{self._pick(words.QUALITIES).lower()} {self._stuff()}", self._stuff(), self._stuff()))
        return self._pick(words.MATERIALS)

    def _stuff(self) -> str:
        return self._coined() if self._chance(0.5) else self._word()

    def _colour(self) -> str:
        if self._chance(RANDOM_SHARE):
            return self._pick((f"{self._word()} {self._pick(words.COLOURS)}", self._word(), self._coined()))
        return self._pick(words.COLOURS)

    def _free(self) -> str:
        """Any value."""
        if not self._chance(RANDOM_SHARE):
            return self._pick(words.VALUES) if self._chance(0.7) else self._amount()
        return self._pick(
            (
                self._word(),
                self._phrase(),
                self._phrase(),
                f"{self._word()}, {self._phrase()}",
                f"{self._phrase()} and {self._word()}",
                self._amount(),
                self._code(),
                self._sides(),
                f"{self._dice.randint(1, 100)} % {self._word()}",
                self._phrase().capitalize(),
                f"{self._number()} {self._word()}",
            )
        )

    def _phrase(self) -> str:
        return " ".join(self._word() for _ in range(self._dice.randint(2, 4)))

    def _amount(self) -> str:
        unit = self._pick(words.UNITS)
        return f"{self._number()}{'' if len(unit) <= 2 and self._chance(0.3) else ' '}{unit}"

    def _number(self) -> str:
        whole = self._dice.randint(1, self._pick((9, 99, 999, 9999)))
        if whole > 999 and self._chance(0.5):
            return f"{whole:,}"
        return str(whole) if self._chance(0.6) else f"{whole}.{self._dice.randint(1, 99 if self._chance(0.3) else 9)}"

    def _sides(self) -> str:
        count = self._dice.randint(2, 3)
        return f"{' x '.join(str(self._dice.randint(2, 240)) for _ in range(count))} {self._pick(('cm', 'mm', 'in'))}"

    def _price(self, currency: str, cents: bool) -> str:
        whole = self._dice.randint(1, self._pick((9, 99, 999, 9999, 99999)))
        return money(Decimal(f"{whole}.{self._dice.randint(0, 99) if cents else 0:02d}"), currency)

    def _title(self) -> str:
        noun = self._pick(words.NOUNS).title() if self._chance(0.6) else self._name()
        shapes = (
            f"{self._name()} {noun}",
            f"{self._name()} {noun}",
            f"{self._name()} {self._name()} {noun}",
            f"{self._pick(words.QUALITIES)} {self._name()} {noun}",
            f"{self._pick(words.QUALITIES)} {noun}",
            self._name(),
            f"{self._name()} {self._name()}",
            f"{self._dice.randint(2, 99)}-{self._pick(('Inch', 'Litre', 'Piece', 'Watt'))} {noun}",
            f"{self._name()} {self._code()} {noun}",
            f"{self._brand()} {noun}, {self._colour()}, {self._sides()}",
            f"{self._name()} {noun} with {self._phrase()}",
            f"{noun} - {self._pick(words.QUALITIES)} {self._name()} ({self._dice.randint(2, 12)} pieces)",
            f"{self._name()} {noun} | {self._brand()}",
            f"{self._name()} {noun} {self._code()} {self._pick(words.QUALITIES)} {self._amount()}",
            f"{self._name()} {noun}".upper(),
            f"{self._word()} {noun}".lower(),
            f"The {self._name()} {noun}",
        )
        return self._pick(shapes)

    def _name(self) -> str:
        name = self._coined() if self._chance(0.5) else self._word()
        name = name[:1].upper() + name[1:]
        if self._chance(0.06):
            return name.replace("e", self._pick("éèêë")).replace("o", self._pick("öøó"))
        return f"{name}-{self._word().capitalize()}" if self._chance(0.06) else name

    def _brand(self) -> str:
        name = self._name()
        return f"{name} {self._pick(words.BRANDS_END)}" if self._chance(0.25) else name

    def _word(self) -> str:
        return self._pick(words.WORDS) if self._chance(0.7) else self._coined()

    def _coined(self) -> str:
        return "".join(self._pick(words.SYLLABLES) for _ in range(self._dice.randint(2, 4)))

    def _code(self) -> str:
        letters = "".join(self._pick("ABCDEFGHKLMNPRSTVWXZ") for _ in range(self._dice.randint(1, 3)))
        sign = self._pick(("-", "", "", " "))
        return f"{letters}{sign}{self._dice.randint(1, self._pick((99, 999, 99999)))}{self._pick(('', '', 'B', 'X'))}"

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _pick(self, options: Sequence[_T]) -> _T:
        return self._dice.choice(options)


def samples(count: int, seed: int = 0) -> list[Sample]:
    """Training text: passages of invented tours, every form about as often as it fits, and greetings and closings.

    Args:
        count: of samples.
        seed: another one gives other products.
    """
    made: list[Sample] = []
    for sample in _endless(seed):
        if len(made) == count:
            break
        made.append(sample)
    return made


def _endless(seed: int) -> Iterator[Sample]:
    sheets, picker, dice = Sheets(seed), Picker(seed), random.Random(f"tours {seed}")
    while True:
        tour = sheets.tour(dice.randint(6, 14))
        planner = PassagePlanner(picker, most=dice.choice((3, 4, 5, 5, 6, 8, 8)))
        for number, sheet in enumerate(tour):
            plan = planner.plan(sheet, "first" if number == 0 else "last" if number == len(tour) - 1 else "")
            answer = spoken(plan)
            # What cannot be said in the catalogue's letters is nothing to learn from.
            if sheet.title in answer and all(said_in(fact, answer) for fact in plan.facts):
                yield Sample(passage_messages(plan), answer)
        if dice.random() < 0.5:
            shop, greeting, closing = sheets.shop(), dice.choice(tuple(GREETINGS)), dice.choice(tuple(CLOSINGS))
            yield Sample(greeting_messages(shop, greeting), greeted(shop, greeting))
            if dice.random() < 0.5:
                yield Sample(closing_messages(closing), closed(closing))
