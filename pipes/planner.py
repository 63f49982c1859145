"""The words of a whole tour out of its fact sheets: greeting, products with transitions, closing. Pure.

N1. Nothing is said of a product but what its sheet holds, each value in the catalogue's own letters; a list may be said
    with "and" before its last part. What the sheet does not hold is left out.
N2. Each passage names its product by its whole title, and says nothing of it before the sentence that does.
N3. No two passages that follow each other are of the same family; the same seed gives the same words.
N4. Comparisons with the product before are drawn from both sheets: the same material, the same colour, a price that is
    lower or higher and was said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from string import Formatter

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes import planner_en_words, planner_zh
from multimodal.pipes.boundary_signs import SHORT
from multimodal.pipes.fact_words import CODE_NAMES
from multimodal.pipes.facts import LANGUAGES, Fact, FactSheet, parts_of
from multimodal.pipes.planner_base import Clause, Family, Links, Picker, filled, neat, stopped
from multimodal.pipes.planner_en import English
from multimodal.pipes.planner_zh import Chinese, spaced

__all__ = ["MOST", "Passage", "families", "plan_passages", "price_share", "said_in", "sayable"]

MOST = 5
"""Facts said of a product, its price among them, unless told otherwise: what a listener keeps."""
DESCRIPTION_WORDS = 32
"""Words of a description that are said at most, in whole sentences; of Chinese, twice as many characters."""
VALUE_WORDS = 16
"""A value of more words is a paragraph of a web page, and nothing to be said in a sentence of ours."""

_SIDES = frozenset(["length", "width", "depth", "thickness"])
_SENTENCE = re.compile(r"[^.!?。！？]*(?:\.(?=\S)[^.!?。！？]*)*[.!?。！？]+[\"'”’」』)]*\s*")
_PRICED = {"For less than that, there {is} {the}.": -1, "A step up in price: {the}.": 1}
_PRICED |= {"价格再低些的，有{the}。": -1, "价格再高些的，是{the}。": 1}


class Passage(msgspec.Struct, frozen=True):
    """One passage of a planned tour.

    Args:
        text: what is said.
        product_id: of the product it is about; None = greeting or closing.
        family: the form of its opening, which names it among the passages.
        facts: what it says of the product.
    """

    text: str
    product_id: str | None
    family: str
    facts: tuple[Fact, ...] = ()


def families(language: str) -> tuple[Family, ...]:
    """The ways to open a passage in a language."""
    return planner_zh.FAMILIES if language == "zh" else planner_en_words.FAMILIES


def plan_passages(
    sheets: Sequence[FactSheet], *, shop: str = "", language: str = "en", seed: int = 0, most: int = MOST
) -> tuple[Passage, ...]:
    """The words of a tour (N1-N4).

    Args:
        sheets: of its products, in the order of the tour.
        shop: the shop's name, for the greeting; "" = none.
        language: of the words, ``en`` or ``zh``.
        seed: another one gives other words for the same facts.
        most: facts said of a product at most, its price among them, 1 to 8. With 8 all of the first eight are said.

    Raises:
        UsageError: another language, or `most` out of range.
    """
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r} has no sentences; there are: {', '.join(LANGUAGES)}")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 8:
        raise UsageError(f"most={most!r} is out of range; give 1 to 8 facts")
    picker = Picker(seed)
    own = planner_zh if language == "zh" else planner_en_words
    to_shop = (f"来到{shop}" if language == "zh" else f" to {shop}") if shop else "光临" if language == "zh" else ""
    greeting, closing = picker.pick("greeting", own.GREETINGS), picker.pick("closing", own.CLOSINGS)
    shared = {sheet.values("品牌" if language == "zh" else "brand") for sheet in sheets}
    told = _Told(picker, language, shop, most, skip_brand=len(shared) == 1 and len(sheets) > 1)
    passages = [Passage(filled(greeting, {"to_shop": to_shop}), None, greeting)]
    for number, sheet in enumerate(sheets):
        place = "first" if number == 0 else "last" if number == len(sheets) - 1 else ""
        passages.append(told.passage(sheet, place))
    return (*passages, Passage(closing, None, closing))


def price_share(price: Fact | None, before: Fact | None) -> Decimal | None:
    """A price as a share of another in the same money; None = they cannot be compared: one is missing or a price
    "from", the money is another or has no name.
    """
    if price is None or before is None or {price.name, before.name} - {"price", "价格"}:
        return None
    number, _, money = price.value.partition(" ")
    other, _, theirs = before.value.partition(" ")
    plain = all(re.fullmatch(r"\d+(?:\.\d+)?", figure) for figure in (number, other))
    if not plain or not money or money.rstrip("s") != theirs.rstrip("s") or not Decimal(other):
        return None
    return Decimal(number) / Decimal(other)


def said_in(fact: Fact, text: str) -> bool:
    """Whether a text says a fact in the catalogue's own letters: the value as a whole, or each part of a list."""
    return _says(text, fact.value) or (
        fact.kind in ("material", "colour") and all(_says(text, part) for part in parts_of(fact.value))
    )


def _says(text: str, words: str) -> bool:
    before = (
        r"(?<![0-9A-Za-z.,])"
        if words[:1].isdigit()
        else r"(?<![A-Za-z])"
        if words[:1].isascii() and words[:1].isalpha()
        else ""
    )
    after = r"(?![0-9A-Za-z])(?![.,]\d)" if words[-1:].isascii() and words[-1:].isalnum() else ""
    return bool(words) and re.search(f"{before}{re.escape(words)}{after}", text) is not None


def sayable(
    sheet: FactSheet, words: English | Chinese, *, shop: str = "", skip_brand: bool = False
) -> list[tuple[Fact, tuple[str, ...]]]:
    """Facts to choose from but for the price, those of one name together; codes and paragraphs are left out.

    Args:
        sheet: the product's facts.
        words: the grammar of its language.
        shop: the shop's name; a brand of the same name is not said.
        skip_brand: leave the brand out: all products of the tour share it.
    """
    groups: list[tuple[Fact, tuple[str, ...]]] = []
    for fact in sheet.facts:
        name = re.sub(r"[\s_-]+", " ", fact.name).casefold()
        if fact.name in words.price_names or name in CODE_NAMES or any(fact.name == known.name for known, _ in groups):
            continue
        values = sheet.values(fact.name)[:6]
        if any(len(value.split()) > VALUE_WORDS or len(value) > 120 or "\n" in value for value in values):
            continue
        brand = fact.name == words.brand_name
        if brand and (skip_brand or fact.value == shop or fact.value.casefold() in sheet.title.casefold()):
            continue
        groups.append((fact, values))
    rest = [(fact, values) for fact, values in groups if fact.name != words.stock_name]
    usual = ("in stock", "有现货")
    return groups if len(rest) < 2 else [entry for entry in groups if entry in rest or entry[0].value not in usual]


class _Told:
    """What was said so far, as far as the next passage depends on it."""

    def __init__(self, picker: Picker, language: str, shop: str, most: int, *, skip_brand: bool) -> None:
        self._picker, self._language, self._shop, self._most = picker, language, shop, most
        self._skip_brand = skip_brand
        self._before: FactSheet | None = None
        self._price_said: Fact | None = None
        self._began = ""

    def passage(self, sheet: FactSheet, place: str) -> Passage:
        """The next product's."""
        picker = self._picker
        words = Chinese(sheet, picker) if self._language == "zh" else English(sheet, picker)
        price = next((fact for fact in sheet.facts if fact.name in words.price_names), None)
        groups = sayable(sheet, words, shop=self._shop, skip_brand=self._skip_brand)
        sentences = self._description(sheet)
        noun = words.noun_phrase(sentences[0], sheet.title) if sentences else ""
        described = bool(sentences) and (len(groups) < 2 or picker.chance(0.6))
        family, said = self._opening(sheet, place, words, price, noun if described else "", groups)
        slots = {key: text for key, (text, _) in said.items()}
        slots |= {"desc": noun, "Desc": sentences[0] if sentences else ""}
        parts = [spaced(family.text, {**words.words, **slots})] if self._language == "zh" else []
        parts = parts or [filled(family.text, {**words.words, **slots})]
        if described:
            begun = "esc}" in family.text
            parts += sentences[1:] if begun else [words.introduced(sentences[0], noun), *sentences[1:]]
            # A description of some length leaves less to be said in other words.
        spoken = "\n".join(parts)[len(words.the) :] if described else ""
        used = _slots(family)
        facts = [fact for slot, (_, fact) in said.items() if slot in used]
        facts += [fact for fact in sheet.facts if fact not in facts and _longish(fact) and said_in(fact, spoken)]
        left = [(fact, values) for fact, values in groups if fact not in facts and not self._covered(fact, spoken)]
        chosen = self._chosen(left, words, len(facts), bool(price and price not in facts))
        clauses = [words.clause(fact, values) for fact, values in chosen]
        price_left = price if price and price not in facts else None
        if price_left is not None and _may_end_in_a_price(clauses) and picker.chance(0.4):
            body = words.sentences([*clauses, Clause("verb", words.price_verb(price_left), price_left)])
        else:
            body = words.sentences(clauses)
            if price_left is not None:
                body.append(stopped(neat(words.price(price_left)), words.stop))
        facts += [each for fact, values in chosen for each in sheet.facts if each.name == fact.name]
        facts += [price_left] if price_left else []
        self._before, self._price_said = sheet, price
        text = ("" if self._language == "zh" else " ").join(part.strip() for part in (*parts, *body))
        return Passage(text, sheet.product_id, family.text, tuple(dict.fromkeys(facts)))

    def _description(self, sheet: FactSheet) -> list[str]:
        """Whole sentences of the description, not longer than may be said."""
        found = [match.group().strip() for match in _SENTENCE.finditer(sheet.description)]
        said: list[str] = []
        room = float(DESCRIPTION_WORDS)
        for sentence in found[:2]:
            room -= len(sentence) / 2 if self._language == "zh" else len(sentence.split())
            if room < 0 or not _whole(sentence):
                break
            said.append(sentence)
        return said[: self._picker.number(1, 2)]

    def _opening(
        self,
        sheet: FactSheet,
        place: str,
        words: English | Chinese,
        price: Fact | None,
        noun: str,
        groups: list[tuple[Fact, tuple[str, ...]]],
    ) -> tuple[Family, Links]:
        """A family that this sheet can fill, and what its slots say."""
        said: Links = dict(words.links(self._before, sheet))
        for fact, values in groups:
            kind = words.concept(fact)
            plain = len(values) == 1 and len(parts_of(values[0])) <= 2 and "%" not in values[0]
            plain = plain and kind == fact.kind and (kind == "material" or not re.search("[,，]", values[0]))
            if plain and kind in ("material", "colour"):
                said.setdefault(kind, (words.values(fact, values), fact))
            if fact.name == words.brand_name:
                said["brand"] = (fact.value, fact)
        if price is not None and price.name in ("price", "价格") and " " in price.value:
            said["price"] = (price.value, price)
        step = self._step(price)
        have = {*said, *words.words, *(("desc", "Desc") if noun else ())}
        fits = [
            family
            for family in families(self._language)
            if family.place == place and _slots(family) <= have and _PRICED.get(family.text, step) == step
        ]
        told = [family for family in fits if "esc}" in family.text]
        # A sheet that is described says so in its opening, more often than not.
        if told and self._picker.chance(0.75):
            fits = told
        special = [family for family in fits if _slots(family) & {"material", "colour", "price", "brand"}]
        if special and len(special) < len(fits) and not self._picker.chance(0.25):
            fits = [family for family in fits if family not in special]
        # Two families may begin alike; heard one after the other they would be one.
        other = [family for family in fits if _beginning(family) != self._began]
        family = self._picker.pick("family", other or fits)
        self._began = _beginning(family)
        return family, said

    def _step(self, price: Fact | None) -> int:
        """Whether the price is clearly lower (-1) or higher (1) than that of the product before; 0 = neither."""
        share = price_share(price, self._price_said)
        if share is None:
            return 0
        return -1 if share < Decimal("0.8") else 1 if share > Decimal("1.3") else 0

    def _chosen(
        self, left: list[tuple[Fact, tuple[str, ...]]], words: English | Chinese, said: int, priced: bool
    ) -> list[tuple[Fact, tuple[str, ...]]]:
        """Which of the facts that are left are said, in the catalogue's order."""
        room = self._most - said - priced
        if self._most < 8:
            room = min(room, self._picker.number(2, max(2, self._most - 1)) - min(said, 1))
            room = max(room, 1 if said + priced < self._most else 0)
        if room <= 0:
            return []
        first = [entry for entry in left if words.concept(entry[0]) == "material"]
        rest = [entry for entry in left if entry not in first]
        picked = [*first[:room]]
        while rest and len(picked) < room:
            entry = rest.pop(self._picker.number(0, len(rest) - 1) if self._most < 8 else 0)
            picked.append(entry)
            # A length without its width tells nothing: sides go together as far as there is room.
            if words.concept(entry[0]) in _SIDES:
                sides = [other for other in rest if words.concept(other[0]) in _SIDES][: room - len(picked)]
                rest = [other for other in rest if other not in sides]
                picked += sides
        return [entry for entry in left if entry in picked]

    def _covered(self, fact: Fact, spoken: str) -> bool:
        """Whether a description says a fact in other words already, so that it is not said twice."""
        if self._most >= 8 or not spoken or fact.kind in ("number", "price"):
            return False
        if self._language == "zh":
            pairs = [pair for pair in map("".join, zip(fact.value, fact.value[1:], strict=False)) if pair.isalpha()]
            return sum(pair in spoken for pair in pairs) * 2 >= len(pairs) > 0
        parts = parts_of(fact.value)
        if fact.kind == "material" and sum(_says(spoken, part) for part in parts) * 2 >= len(parts):
            return True
        known = {word.casefold() for word in re.findall(r"\w+", spoken)}
        own = [word.casefold() for word in re.findall(r"\w{4,}", fact.value)]
        return sum(word in known for word in own) * 2 >= len(own) > 0


def _may_end_in_a_price(clauses: list[Clause]) -> bool:
    """Whether the price can be said in one breath with what is said before it."""
    verbs = [clause for clause in clauses if clause.form in ("verb", "side")]
    return len(clauses) == len(verbs) == 1 and verbs[0].fact.kind == "number"


def _whole(sentence: str) -> bool:
    """Whether it is one: not cut off at an abbreviation, with its brackets closed, and nothing for machines."""
    last = re.sub(r"[.!?。！？\"'”’」』)]+$", "", sentence).split()[-1:] or [""]
    closed = all(sentence.count(begin) == sentence.count(end) for begin, end in ("()", "[]", "（）", "“”", "「」"))
    return closed and last[0].lower() not in SHORT and "://" not in sentence and re.search(r"\w", sentence) is not None


def _beginning(family: Family) -> str:
    return family.text[:2] if family.text[:1] > "\x7f" else family.text.split()[0].rstrip(",")


def _slots(family: Family) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(family.text) if name}


def _longish(fact: Fact) -> bool:
    """Whether a value is not found in a sentence by accident."""
    return len(fact.value) >= 4 or not fact.value.isascii()
