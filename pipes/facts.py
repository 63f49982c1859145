"""What may be said of a product: its facts, each with the catalogue's own letters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.fact_words import (
    AVAILABILITY,
    COLOUR_NAMES,
    COLOUR_WORDS,
    MATERIAL_NAMES,
    MATERIAL_WORDS,
    MONEY,
    NAME_NAMES,
    NUMBER_WORDS,
    PRICE_NAMES,
)
from multimodal.values import Product

__all__ = ["LANGUAGES", "Fact", "FactKind", "FactSheet", "kind_of", "money", "parts_of"]

FactKind = Literal["price", "number", "material", "colour", "name", "text"]

LANGUAGES = ("en", "zh")

_NAMES = {
    "en": {"brand": "brand", "price": "price", "from": "price from", "stock": "availability", "choice": "choice"},
    "zh": {"brand": "品牌", "price": "价格", "from": "起价", "stock": "库存", "choice": "款式"},
}
_SIGNED = re.compile(r"[$€£¥₹₩₽₺₫₪₴฿₦₱]\s?\d|\d\s?[$€£¥₹₩₽₺₫₪₴฿₦₱元]")
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"[A-Za-z]+-?\d")
_PARTS = re.compile(r"\s*[,;/+&、，；]\s*|\s+and\s+|\s+with\s+|[和与及]")
_SHARE = re.compile(r"^\d+(?:[.,]\d+)?\s?%\s*|\s*\d+(?:[.,]\d+)?\s?%$")
_HAN_COUNT = re.compile(r"^[每共约]?[一二两三四五六七八九十百千]+[条把只个件支节块张双对套根颗片本枚]")


class Fact(msgspec.Struct, frozen=True):
    """One fact of a product.

    Args:
        name: what the fact is called, as the catalogue calls it.
        value: what it says, in the catalogue's own letters; a price is its number and the money's name.
        kind: what sort of value it is.
    """

    name: str
    value: str
    kind: FactKind


class FactSheet(msgspec.Struct, frozen=True):
    """All that may be said of one product.

    Args:
        product_id: its id.
        title: what it is called.
        aliases: other names that it goes by.
        facts: what is known of it, in the catalogue's order after brand, price and availability. Several facts of one
            name are its choices, such as its sizes.
        description: the catalogue's own sentences of it, as plain text on one line ("" = none).
        language: of the words that the sheet itself adds: the names of brand and price, the money's name.
    """

    product_id: str
    title: str
    aliases: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    description: str = ""
    language: str = "en"

    @staticmethod
    def of(product: Product, language: str = "en") -> FactSheet:
        """The sheet of a product; what the catalogue does not say is not on it.

        Args:
            product: of a catalogue.
            language: ``en`` or ``zh``.

        Raises:
            UsageError: another language.
        """
        if language not in LANGUAGES:
            raise UsageError(f"language {language!r} has no fact sheets; there are: {', '.join(LANGUAGES)}")
        facts = tuple(dict.fromkeys(_facts(product, language)))
        description = " ".join(product.description.split())
        return FactSheet(product.id, _line(product.title), product.aliases, facts, description, language)

    def values(self, name: str) -> tuple[str, ...]:
        """What the facts of one name say, in order; empty = there is none."""
        return tuple(fact.value for fact in self.facts if fact.name == name)


def kind_of(name: str, value: str) -> FactKind:
    """The kind of a fact: by its name where that tells, else by the form of its value.

    Args:
        name: as the catalogue calls it; case, ``_`` and ``-`` count for nothing.
        value: as the catalogue says it.
    """
    called = re.sub(r"[\s_-]+", " ", name).strip().casefold()
    if called in PRICE_NAMES or _SIGNED.search(value):
        return "price"
    if called in MATERIAL_NAMES:
        return "material"
    if called in COLOUR_NAMES:
        return "colour"
    if called in NAME_NAMES:
        return "name"
    first = value.split(maxsplit=1)[0].casefold() if value.split() else ""
    if (_DIGIT.search(value) and not _CODE.match(value)) or first in NUMBER_WORDS or _HAN_COUNT.match(value):
        return "number"
    parts = parts_of(value)
    if parts and all(_ends_in(part, MATERIAL_WORDS) for part in parts):
        return "material"
    if parts and all(_ends_in(part, COLOUR_WORDS) for part in parts):
        return "colour"
    return "text"


def parts_of(value: str) -> tuple[str, ...]:
    """The things that a value lists, as in ``oak, brass`` and ``80 % cotton / 20 % wool``: each without its share."""
    parts = (_SHARE.sub("", part).strip() for part in _PARTS.split(value))
    return tuple(part for part in parts if part)


def money(price: Decimal, currency: str, language: str = "en") -> str:
    """A price as it is said: ``89 euros``, ``24.50 pounds``, ``89 欧元``; the code where money has no name here.

    Args:
        price: exact.
        currency: ISO 4217 code; "" = not known, and then the number stands alone.
        language: ``en`` or ``zh``.
    """
    number = f"{price:f}"
    if "." in number and not number.rpartition(".")[2].strip("0"):
        number = number.partition(".")[0]
    if not currency:
        return number
    one, several, chinese = MONEY.get(currency, (currency, currency, currency))
    if language == "zh":
        return f"{number} {chinese}"
    return f"{number} {one if number == '1' else several}"


def _facts(product: Product, language: str) -> Iterator[Fact]:
    names = _NAMES[language]
    if product.brand.strip():
        yield Fact(names["brand"], _line(product.brand), "name")
    if product.price is not None:
        prices = {choice.price for choice in product.variants if choice.price is not None}
        name = names["from" if len(prices | {product.price}) > 1 else "price"]
        yield Fact(name, money(min(prices | {product.price}), product.currency, language), "price")
    stock = AVAILABILITY.get(product.availability)
    if stock:
        yield Fact(names["stock"], stock[language == "zh"], "text")
    for name, value in product.facts:
        if name.strip() and value.strip():
            yield Fact(_line(name), _line(value), kind_of(name, value))
    for choice in product.variants:
        options = choice.options or (((names["choice"], choice.title),) if choice.title else ())
        for name, value in options:
            # Shopify's name for the choice of a product that has none.
            if name.strip() and value.strip() and value.strip() != "Default Title":
                yield Fact(_line(name), _line(value), kind_of(name, value))


def _line(text: str) -> str:
    return " ".join(text.split())


def _ends_in(part: str, words: frozenset[str]) -> bool:
    """Whether a thing is one of the words, or one of them said more closely: ``oiled oak``, ``上油橡木``."""
    said = part.casefold()
    if said in words:
        return True
    if said.isascii():
        spoken = said.split()
        return len(spoken) <= 4 and any(" ".join(spoken[-count:]) in words for count in (1, 2))
    return len(said) <= 8 and any(said.endswith(word) for word in words)
