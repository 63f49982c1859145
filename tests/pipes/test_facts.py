"""Fact sheets: everything on them is the catalogue's own, sorted by name and form."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.facts import Fact, FactSheet, kind_of, money, parts_of
from multimodal.values import Product, ProductVariant

KETTLE = Product(
    "k",
    "Halo  Kettle",
    aliases=("Larkmoor kettle",),
    description="A stovetop kettle.\nIt pours.",
    brand="Larkmoor",
    price=Decimal("89.00"),
    currency="EUR",
    availability="in_stock",
    facts=(("material", "steel,  ash"), ("capacity", "1.6 litres"), ("note", "  ")),
)


def test_a_sheet_holds_what_the_catalogue_says_and_nothing_else() -> None:
    sheet = FactSheet.of(KETTLE)
    assert sheet.facts == (
        Fact("brand", "Larkmoor", "name"),
        Fact("price", "89 euros", "price"),
        Fact("availability", "in stock", "text"),
        Fact("material", "steel, ash", "material"),
        Fact("capacity", "1.6 litres", "number"),
    )
    assert (sheet.title, sheet.aliases, sheet.description) == (
        "Halo Kettle",
        ("Larkmoor kettle",),
        "A stovetop kettle. It pours.",
    )
    assert FactSheet.of(Product("m", "Mug")).facts == ()


def test_a_chinese_sheet_says_its_own_words_in_chinese() -> None:
    assert FactSheet.of(KETTLE, "zh").facts[:3] == (
        Fact("品牌", "Larkmoor", "name"),
        Fact("价格", "89 欧元", "price"),
        Fact("库存", "有现货", "text"),
    )
    with pytest.raises(UsageError, match="there are: en, zh"):
        FactSheet.of(KETTLE, "de")


def test_choices_are_facts_of_one_name() -> None:
    choices = [("S", "12"), ("M", "12"), ("L", "15")]
    variants = tuple(ProductVariant(size, size, (("Size", size),), Decimal(price)) for size, price in choices)
    sheet = FactSheet.of(Product("s", "Shirt", price=Decimal(12), currency="USD", variants=variants))
    assert sheet.values("Size") == ("S", "M", "L")
    assert sheet.values("price from") == ("12 dollars",)
    only = (ProductVariant("1", "Default Title", (("Title", "Default Title"),)),)
    assert FactSheet.of(Product("s", "Shirt", variants=only)).facts == ()


@pytest.mark.parametrize(
    ("price", "currency", "language", "said"),
    [
        ("89.00", "EUR", "en", "89 euros"),
        ("89.00", "EUR", "zh", "89 欧元"),
        ("1.00", "USD", "en", "1 dollar"),
        ("24.50", "GBP", "en", "24.50 pounds"),
        ("0.05", "EUR", "en", "0.05 euros"),
        ("1E+3", "JPY", "en", "1000 yen"),
        ("100", "CNY", "zh", "100 元"),
        ("7", "XPF", "en", "7 XPF"),
        ("7.90", "", "en", "7.90"),
    ],
)
def test_money_is_spelled(price: str, currency: str, language: str, said: str) -> None:
    assert money(Decimal(price), currency, language) == said


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("Material", "anything at all", "material"),
        ("grinder", "ceramic", "material"),
        ("top", "oiled oak", "material"),
        ("Outer_Material", "80 % cotton / 20 % wool", "material"),
        ("color", "Blush", "colour"),
        ("inside", "dark red and pale grey", "colour"),
        ("seat height", "45 centimetres", "number"),
        ("holds", "eight umbrellas", "number"),
        ("bulb", "E27, not included", "text"),
        ("shipping", "€ 4.90", "price"),
        ("designer", "Ada Ash", "name"),
        ("care", "dishwasher safe", "text"),
        ("磨芯", "陶瓷", "material"),
        ("内壁", "深绿色", "colour"),
        ("凳腿", "三条", "number"),
        ("保养", "可用洗碗机", "text"),
        ("产地", "景德镇", "name"),
        ("odd", "", "text"),
    ],
)
def test_kinds_go_by_name_and_by_form(name: str, value: str, kind: str) -> None:
    assert kind_of(name, value) == kind


def test_the_parts_of_a_list() -> None:
    assert parts_of("80 % cotton / 20 % wool") == ("cotton", "wool")
    assert parts_of("珐琅钢、白蜡木和黄铜") == ("珐琅钢", "白蜡木", "黄铜")
    assert parts_of("oak") == ("oak",)
