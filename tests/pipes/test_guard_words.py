"""The fact guard's words: one form of each on both sides, what else is a claim, and the cost of a long sentence."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from types import FrameType
from typing import Any

import pytest

from multimodal.assets.narrator.training.data import Sheets
from multimodal.pipes.claim_base import folded
from multimodal.pipes.claim_words import COLOURS, MATERIALS
from multimodal.pipes.claims import KnownNames, claims
from multimodal.pipes.facts import Fact, FactKind, FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.planner import plan_passages
from multimodal.values import Product


def said_of(name: str, value: str, *sentences: str, kind: FactKind = "text") -> list[str]:
    guard = FactGuard([FactSheet("p", "Halo Kettle", facts=(Fact(name, value, kind),))])
    return [each.said for sentence in sentences for each in guard.violations(sentence, "p")]


@pytest.mark.parametrize(("kind", "words"), [("material", MATERIALS), ("colour", COLOURS)])
def test_every_material_and_colour_of_the_lists_may_be_said_where_the_sheet_says_it(
    kind: str, words: frozenset[str]
) -> None:
    for word in sorted(words):
        if word.isascii():
            sentences = [
                f"It is made of {word}.",
                f"The {kind} is {word}.",
                f"The {word} body is nice.",
                f"Its body is of {word.title()}.",
                f"{word.capitalize()}s, all of it.",
                f"A {word.replace(' ', '-')}-clad body.",
            ]
        else:
            sentences = [f"用{word}制成。", f"它的颜色是{word}。", f"{word}的外壳很好看。"]
        assert said_of(kind, word, *sentences) == [], word


def test_a_word_is_folded_once_and_for_all() -> None:
    for word in sorted(MATERIALS | COLOURS):
        assert folded(folded(word)) == folded(word)
        if word.isascii() and not word.endswith("s"):
            assert folded(f"{word}s") == folded(word)


def test_what_the_extractive_narrator_says_of_invented_sheets_is_never_blamed() -> None:
    for seed in range(50):
        sheets = Sheets(seed).tour(8)
        guards = {sheet.product_id: FactGuard([sheet]) for sheet in sheets}
        for passage in plan_passages(sheets, seed=seed):
            if passage.product_id:
                found = guards[passage.product_id].violations(passage.text, passage.product_id)
                assert [each.said for each in found] == [], passage.text


@pytest.mark.parametrize(
    ("name", "value", "sentence", "said"),
    [
        ("material", "canvas", "Two canvases.", "Two"),
        ("material", "feathers", "It is filled with feather.", ""),
        ("material", "carbon fiber", "It is carbon fibre.", ""),
        ("material", "steel", "It is of stainless steel.", "stainless steel"),
        ("material", "steel", "A cast-iron body.", "cast-iron"),
        ("material", "cast iron", "Cast-iron, and iron through and through.", ""),
        ("material", "steel", "It is lead-free and plastic-free.", ""),
        ("material", "atlas", "It is made of atlas.", ""),
        ("material", "women's tweed", "It is made of women's tweed.", ""),
        ("材质", "黄铜", "壶身是纯铜的。", "纯铜"),
        ("材质", "黄铜", "壶身是镀铜的。", "镀铜"),
        ("材质", "黄铜", "壶身是铜制的。", ""),
        ("材质", "紫铜", "壶身是纯铜的。", ""),
        ("材质", "铜", "壶身是纯铜的。", ""),
        ("material", "steel", "Mr. Brown bought one.", ""),
        ("price", "89 euros", "It costs 1.2k euros.", "1.2k euros"),
        ("price", "1200 euros", "It costs 1.2k euros.", ""),
        ("price", "1,200 euros", "It costs €1.2k.", ""),
        ("price", "89 euros", "It costs 79k euros.", "79k euros"),
        ("price", "89 euros", "It costs 89 thousand euros.", "89 thousand euros"),
        ("price", "89 euros", "It costs 90-odd euros.", "90-odd euros"),
        ("price", "89 euros", "It plays in 4k, and a 10k run is nothing.", ""),
        ("price", "89 euros", "It costs 89.", ""),
        ("price", "89 euros", "The price is eighty-nine.", ""),
        ("price", "89 euros", "It costs a hundred.", "hundred"),
        ("price", "89 euros", "It costs nothing to look.", ""),
        ("capacity", "1.6 litres", "It costs 1.6.", "1.6"),
        ("price", "89 euros", "It costs 89 euros a month.", "89 euros a month"),
        ("price", "89 euros a month", "It costs 89 euros a month.", ""),
        ("价格", "89 欧元", "每月只要89欧元。", "每月只要89欧元"),
        ("price", "89 euros", "You save 89 euros.", "89 euros"),
        ("price", "89 euros", "It is 89 euros off.", "89 euros"),
        ("price", "89 euros", "Half off this week.", "Half off"),
        ("price", "89 euros", "A third of the price.", "A third of the price"),
        ("price", "89 euros", "You pay dozens of euros.", "dozens of euros"),
        ("价格", "89 欧元", "只要几十欧元。", "几十欧元"),
        ("价格", "89 欧元", "今天买一送一。", "买一送一"),
        ("capacity", "1.6 litres", "It holds a gallon.", "a gallon"),
        ("capacity", "3.8 litres", "It holds a gallon.", ""),
        ("capacity", "4.5 litres", "It holds a gallon.", ""),
        ("capacity", "4 litres", "It holds a gallon.", "a gallon"),
        ("height", "20 cm", "It is a foot tall.", "a foot"),
        ("height", "30.5 cm", "It is a foot tall.", ""),
        ("height", "20 cm", "It has a bare foot.", ""),
        ("spouts", "one", "It has a pair of spouts.", "a pair of"),
        ("spouts", "two", "It has a pair of spouts.", ""),
        ("set", "a pair of bookends", "Two bookends stand there.", ""),
        ("spouts", "one", "Come with a couple of friends.", ""),
        ("origin", "Wales", "Handmade in Portugal.", "Portugal"),
        ("origin", "Wales", "Handmade in Wales.", ""),
        ("origin", "Wales", "Made in China.", "China"),
        ("origin", "Wales", "It is Danish.", "Danish"),
        ("origin", "Denmark", "It is of Danish design.", ""),
        ("产地", "中国", "丹麦设计。", "丹麦"),
        ("origin", "Wales", "By Jove, what a bag.", ""),
        ("availability", "in stock", "It is out of stock.", "out of stock"),
        ("availability", "sold out", "It is out of stock.", ""),
        ("availability", "sold out", "It is in stock.", "in stock"),
        ("availability", "in stock", "It is never sold out.", ""),
        ("availability", "in stock", "It is no longer available.", "no longer available"),
        ("库存", "有现货", "已经售罄。", "售罄"),
        ("库存", "有现货", "现货供应。", ""),
        ("model", "S-718", "Here is S-718.", ""),
        ("model", "S-718", "Here is S-719.", "S-719"),
        ("legs", "three", "Here comes the first of six products.", ""),
        ("legs", "three", "It takes two to tango.", ""),
        ("legs", "three", "We have six more to see.", ""),
        ("legs", "three", "Two of them make a gift.", ""),
        ("price", "49 euros", "It is under fifty euros.", ""),
        ("price", "49 euros", "It is under forty-nine euros.", ""),
        ("price", "49 euros", "It is under forty euros.", "forty euros"),
        ("price", "49 euros", "It is under 500 euros.", "500 euros"),
        ("price", "49 euros", "It is over 40 euros.", ""),
        ("price", "49 euros", "It costs not 49 euros.", "49 euros"),
        ("price", "49 euros", "It is 4900 cents.", ""),
        ("price", "49 euros", "It is -49 euros.", "-49 euros"),
        ("price", "49 euros", "From 40-49 euros.", "40"),
        ("price", "1299 euros", "It is 1.299 euros.", ""),
        ("price", "1.30 euros", "It is 1.299 euros.", "1.299 euros"),
        ("price", "5 euros", "It costs a fiver.", ""),
        ("price", "49 euros", "Three of them are 147 euros.", ""),
        ("price", "49 euros", "Three of them are 140 euros.", "140 euros"),
        ("load", "120 kg", "It carries up to 220 kg.", "220 kg"),
        ("weight", "850 g", "It weighs less than a kilo.", ""),
        ("weight", "1100 g", "It weighs less than a kilo.", "a kilo"),
        ("weight", "1.2 kg", "It weighs a kilo two hundred grams.", ""),
        ("weight", "1.2 kg", "它重一公斤两百克。", ""),
        ("height", "1.4 m", "It is one metre forty tall.", ""),
        ("height", "1.4 m", "它高一米四。", ""),
        ("height", "1.4 m", "它高一米五。", "一米五"),
        ("height", "14 cm", "It is 14 cm wide and 3 cm tall.", "3 cm"),
        ("width", "10cm×20cm", "It measures 10cm×20cm.", ""),
        ("material", "80 % wool, 20 % cotton", "It is 80 % wool.", ""),
        ("material", "wool 80 %, cotton 20 %", "It is 80 % wool and 20 % cotton.", ""),
        ("material", "wool 80 %, cotton 20 %", "It is 20 % wool.", "wool"),
        ("material", "80 % wool, 20 % cotton", "It is eighty percent cotton.", "cotton"),
        ("material", "80 % wool, 20 % cotton", "It is all wool.", "wool"),
        ("material", "wool", "It is pure wool.", ""),
        ("材质", "80% 羊毛 20% 尼龙", "八成是羊毛。", ""),
        ("材质", "80% 羊毛 20% 尼龙", "两成羊毛。", "羊毛"),
        ("material", "steel, free of plastic", "It is plastic.", "plastic"),
        ("material", "steel, free of plastic", "It is not made of plastic.", ""),
        ("material", "steel", "It is not steel.", "steel"),
        ("material", "steel", "It is not only steel.", ""),
        ("warranty", "lifetime", "It has a lifetime warranty.", ""),
        ("质保", "终身", "它终身质保。", ""),
        ("warranty", "2 years", "它终身质保。", "终身质保"),
        ("size", "S / M / L", "It comes in three sizes.", ""),
        ("price", "49 euros", "You are free to look.", ""),
    ],
)
def test_what_a_fact_allows(name: str, value: str, sentence: str, said: str) -> None:
    kind: FactKind = "price" if name in {"price", "价格"} else "name" if name in {"origin", "model", "产地"} else "text"
    assert said_of(name, value, sentence, kind=kind) == [said][: bool(said)]


@pytest.mark.parametrize(
    ("brand", "sentence", "said"),
    [
        ("Fernhill", "It is a Bodum.", "Bodum"),
        ("Fernhill", "A Bodum, if you ask me.", "Bodum"),
        ("Fernhill", "By Bodum, of course.", "Bodum"),
        ("Fernhill", "It is a Fernhill.", ""),
        ("Fernhill", "It is a Kettle.", ""),
        ("Fernhill", "It is a Victorian.", ""),
        ("Fernhill", "It is a Monday.", ""),
        ("", "It is a Bodum.", ""),
    ],
)
def test_another_maker_is_a_claim_where_the_sheet_has_one(brand: str, sentence: str, said: str) -> None:
    guard = FactGuard([FactSheet.of(Product("p", "Halo Kettle", price=Decimal(9), brand=brand))])
    assert [each.said for each in guard.violations(sentence, "p")] == [said][: bool(said)]


UNITS = (
    *(
        "1 ",
        "1-",
        "1,",
        "twenty-",
        "1.000.",
        "1 000",
        "oak-",
        "oak ",
        "made of a-a ",
        "and a half ",
        "by Aa ",
        "深",
        "红",
    ),
    *(
        "十",
        "一个",
        "between 1 and ",
        "costs 1 ",
        "a pair of ",
        "in a a ",
        "the Halo Kettle ",
        "dozens of ",
        "not in stock ",
    ),
)


@pytest.mark.parametrize("unit", UNITS)
def test_reading_claims_takes_time_in_proportion_to_the_text(unit: str) -> None:
    def seconds(characters: int) -> float:
        text = (unit * (characters // len(unit) + 1))[:characters]
        return min(_timed(partial(claims, text)) for _ in range(3))

    # Four times the text: a reader that looks at everything before each place would take sixteen times as long.
    assert seconds(12_000) / seconds(3_000) < 10


def _timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def test_a_sentence_costs_the_same_among_many_brands() -> None:
    """Nothing is compiled or walked for a brand that is not said."""
    few, many = (KnownNames([f"Brand{number} Works" for number in range(count)]) for count in (5, 5000))
    for names in (few, many):
        assert claims("It is by BRAND3  works, not by Brand 3.", names)[0].said == "BRAND3  works"
    steps = [_steps(partial(claims, "It is made of oak by hand, and Brand3 Works.", names)) for names in (few, many)]
    assert steps[0] == steps[1]


def _steps(call: Callable[[], object]) -> int:
    """Lines of Python that a call runs."""
    count = 0

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _shop(products: int) -> FactGuard:
    return FactGuard(
        FactSheet.of(
            Product(
                f"p{number}",
                f"Lamp {number}",
                price=Decimal(number + 5),
                currency="EUR",
                brand=f"Maker {number}",
                facts=(
                    ("origin", f"Wales {number}"),
                    ("model", f"E{number + 20}"),
                    ("材质", "黄铜"),
                    ("weight", "3 kg"),
                ),
            )
        )
        for number in range(products)
    )


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Handmade in Wales, every one of them.", ""),
        ("Handmade in Portugal, every one of them.", "Portugal"),
        ("All of them take an E22 bulb.", ""),
        ("All of them take an E14 bulb.", "E14"),
        ("They weigh three thousand grams.", ""),
        ("They weigh 5 kg.", "5 kg"),
        ("They cost 7 euros and up.", ""),
        ("They cost 2 euros and up.", "2 euros"),
        ("都是黄铜的，也有铜的。", ""),
        ("都是紫铜的。", "紫铜"),
        ("All of them are made by Maker 3.", ""),
        ("All of them are made by Smith.", "Smith"),
        ("Cast-iron things stand here.", "Cast-iron"),
        ("It is a Monday, and half of you are early.", ""),
    ],
)
def test_what_is_said_of_no_product_in_particular_has_to_be_on_some_sheet(sentence: str, said: str) -> None:
    assert [each.said for each in _shop(10).violations(sentence)] == [said][: bool(said)]
    if said:
        assert str(_shop(10).violations(sentence)[0]).endswith("was said, and no sheet says so")


@pytest.mark.parametrize(
    "sentence",
    [
        "Handmade in Wales, by Maker 3 and 7 kg, it is brass. ",
        "The Lamp 4 weighs 6.6 pounds and costs 9 euros, in red. ",
    ],
)
def test_a_sentence_takes_the_same_steps_in_any_catalogue(sentence: str) -> None:
    small, large = _shop(10), _shop(500)
    steps = [_steps(partial(guard.judge, sentence, "")) for guard in (small, large)]
    assert steps[1] <= steps[0] + 20
