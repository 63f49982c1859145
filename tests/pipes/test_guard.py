"""The fact guard: 400 sentences with and without a planted falsehood, numbers in every spelling, what is no claim."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.claims import claims
from multimodal.pipes.extractive import extractive_segments
from multimodal.pipes.facts import Fact, FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.values import Product
from tests.pipes.guard_sentences import FALSE, FALSE_LATER, INVENTED, TRUE, TRUE_LATER, Case

CATALOGUES = {"en": "catalog.json", "zh": "catalog.zh.json"}


@cache
def guard(language: str) -> FactGuard:
    if language == "invented":
        return FactGuard(INVENTED)
    folder = Path(str(files("multimodal.assets"))) / "demo"
    return FactGuard(FactSheet.of(each, language) for each in load_catalog(folder / CATALOGUES[language]).products)


def caught(case: Case) -> bool:
    """Some violation is about the planted words themselves."""
    planted = case.sentence[case.start : case.end]
    found = guard(case.language).violations(case.sentence, case.product)
    return any(each.said in planted or planted in each.said for each in found)


def missed(cases: Sequence[Case]) -> list[str]:
    return [case.sentence for case in cases if not caught(case)]


def alarms(cases: Sequence[Case]) -> list[str]:
    return [
        f"{case.sentence} ({each.said})"
        for case in cases
        for each in guard(case.language).violations(case.sentence, case.product)[:1]
    ]


def test_the_sentences_are_what_they_say_they_are() -> None:
    assert len(FALSE) == len(TRUE) == 200
    for cases in (FALSE, TRUE):
        assert sum(case.language == "zh" for case in cases) >= 50
        assert len({(case.product, case.sentence) for case in cases}) == len(cases)
    assert all(case.end > case.start for case in (*FALSE, *FALSE_LATER))
    assert not any(case.end for case in (*TRUE, *TRUE_LATER))
    products = {case.product for case in (*FALSE, *TRUE, *FALSE_LATER, *TRUE_LATER)} - {""}
    assert products <= {*guard("en").sheets, *guard("invented").sheets}


@pytest.mark.parametrize(("name", "false", "true"), [("first", FALSE, TRUE), ("later", FALSE_LATER, TRUE_LATER)])
def test_recall_and_false_alarms(
    name: str, false: Sequence[Case], true: Sequence[Case], capsys: pytest.CaptureFixture[str]
) -> None:
    silent, loud = missed(false), alarms(true)
    recall, share = 1 - len(silent) / len(false), len(loud) / len(true)
    with capsys.disabled():
        print(f" {name}: recall {recall:.3f} of {len(false)}, false alarms {share:.3f} of {len(true)} ", end="")
    assert recall >= 0.98, silent
    assert share <= 0.02, loud


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_the_extractive_narrator_says_is_on_the_sheets(language: str) -> None:
    folder = Path(str(files("multimodal.assets"))) / "demo"
    products = load_catalog(folder / CATALOGUES[language]).products
    for seed in range(5):
        for segment in extractive_segments(products, shop="Larkmoor", language=language, seed=seed):
            assert guard(language).violations(segment.text) == []


@pytest.mark.parametrize(
    ("sentence", "number", "unit"),
    [
        ("€1,299.50", "1299.50", "EUR"),
        ("1.299,50 euros", "1299.50", "EUR"),
        ("2,5 litres", "2.5", "l"),
        ("forty-nine euros", "49", "EUR"),
        ("one thousand two hundred and five dollars", "1205", "USD"),
        ("145 US dollars", "145", "USD"),
        ("39 Swiss francs", "39", "CHF"),
        ("24 euros and 50 cents", "24.50", "EUR"),
        ("24 euros 50", "24.50", "EUR"),
        ("one point three kilograms", "1.3", "kg"),
        ("two and a half litres", "2.5", "l"),
        ("half a litre", "0.5", "l"),
        ("a litre and a half", "1.5", "l"),
        ("a litre of water", "1", "l"),
        ("3/4 litre", "0.75", "l"),
        ("1½ litres", "1.5", "l"),
        ("a dozen umbrellas", "12", ""),
        ("a four-legged stool", "4", ""),
        ("a 45-centimetre seat", "45", "cm"),
        ("-10 %", "10", "%"),
        ("twenty percent", "20", "%"),
        ("twice a year", "2", "/year"),
        ("three times a week", "3", "/week"),
        ("eight gigabytes", "8", "gb"),
        ("8GB", "8", "gb"),
        ("a full kilo of salt", "1", "kg"),
        ("一百二十千克", "120", "kg"),
        ("一千克", "1", "kg"),
        ("0.6 千克", "0.6", "kg"),
        ("一点六升", "1.6", "l"),
        ("半升", "0.5", "l"),
        ("两升半", "2.5", "l"),
        ("八十九元", "89", "CNY"),
        ("1.2 万元", "12000", "CNY"),
        ("两个杯子", "2", ""),
        ("四条腿", "4", ""),
        ("八折", "8", "off"),
        ("每年上油两次", "2", "/year"),
    ],
)
def test_a_number_is_read_however_it_is_written(sentence: str, number: str, unit: str) -> None:
    assert [(each.number, each.unit) for each in claims(sentence)] == [(Decimal(number), unit)]


@pytest.mark.parametrize(
    ("sentence", "units"),
    [
        ("49 x 22 cm", ["cm", "cm"]),
        ("49 by 22 by 2.3 centimetres", ["cm", "cm", "cm"]),
        ("10-12 cm", ["cm", "cm"]),
        ("ten to twelve litres", ["l", "l"]),
        ("10 至 12 厘米", ["cm", "cm"]),
    ],
)
def test_numbers_of_a_list_have_one_unit(sentence: str, units: list[str]) -> None:
    assert [each.unit for each in claims(sentence)] == units


@pytest.mark.parametrize(
    "sentence",
    [
        "one of them",
        "the 2nd of March",
        "the twenty-first century",
        "no two are alike",
        "nine out of ten guests",
        "at three o'clock",
        "around the clock, 24/7",
        "a thousand thanks",
        "hundreds of years",
        "these two belong together",
        "Is it natural to feel so? It is clear that I felt lost.",
        "an orange, a lemon and red wine",
        "it does not rust",
        "a glass of water",
        "made in March, by Sunday",
        "一起看看",
        "千万别急",
        "万一坏了",
        "三心二意",
        "第三站",
        "我明白了",
        "一杯红茶，一点白糖",
    ],
)
def test_what_claims_nothing_is_left_alone(sentence: str) -> None:
    assert claims(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("It is 1600 ml.", ""),
        ("It is 1.6 kilograms.", "1.6 kilograms"),
        ("It is 19 inches long.", ""),
        ("It is 18 inches long.", "18 inches"),
        ("It weighs one pound.", ""),
        ("It has 1.6 litres and 1.6 handles.", "1.6"),
        ("It lasts two weeks.", ""),
        ("It lasts fourteen days.", ""),
        ("It lasts fifteen days.", "fifteen days"),
        ("It takes an E27 bulb.", ""),
        ("It takes an E14 bulb.", "E14"),
        ("It is wooden.", ""),
        ("It is metallic.", "metallic"),
        ("It is red.", ""),
        ("It is made of unobtainium.", "unobtainium"),
        ("It is made of polished oak burl.", ""),
        ("It was made by Acme Works.", "Acme Works"),
        ("It was made by Fernhill.", ""),
        ("It is half price today.", "half price"),
        ("It has eight gigabytes of memory.", ""),
        ("It has 8,000 megabytes of memory.", ""),
        ("It has sixteen gigabytes of memory.", "sixteen gigabytes"),
        ("It comes in three sizes.", ""),
        ("It comes in four sizes.", "four"),
        ("There are forty-eight pieces.", ""),
        ("There are forty-nine pieces.", "forty-nine pieces"),
        ("It is turned from a single block.", ""),
    ],
)
def test_what_a_sheet_allows(sentence: str, said: str) -> None:
    product = Product(
        "thing",
        "Thing",
        price=Decimal(10),
        currency="EUR",
        brand="Fernhill",
        facts=(
            ("capacity", "1.6 litres"),
            ("length", "49 cm"),
            ("weight", "1 lb"),
            ("lasts", "2 weeks"),
            ("bulb", "E27"),
            ("material", "oak"),
            ("colour", "oxblood"),
            ("memory", "8GB"),
            ("pieces", "48"),
            ("size", "S"),
            ("size", "M"),
            ("size", "L"),
        ),
    )
    assert [each.said for each in FactGuard([FactSheet.of(product)]).violations(sentence, "thing")] == [said][
        : bool(said)
    ]


def test_a_claim_is_of_the_product_that_was_named_last() -> None:
    found = guard("en").violations("The Halo Kettle is enamelled. It costs 24 euros. So does the Pebbledash Mug.")
    assert [(each.said, each.product) for each in found] == [("24 euros", "halo-kettle")]
    assert "89 euros" in str(found[0])
    assert guard("en").violations("It costs 24 euros.") == []


def test_a_longer_name_is_another_s() -> None:
    ball = FactSheet("ball", "Basketball", facts=(Fact("price", "20 euros", "price"),))
    shoe = FactSheet("shoe", "Hi-Top Basketball Shoe", facts=(Fact("price", "80 euros", "price"),))
    guard = FactGuard([ball, shoe])
    assert not guard.violations("The Hyperdunkz Basketball Shoe, as they say, costs 80 euros.", "shoe")
    assert not guard.violations("Here is the Basketball. It costs 20 euros.", "shoe")
    assert [each.product for each in guard.violations("The Basketball costs 80 euros.", "shoe")] == ["ball"]


def test_a_guard_needs_sheets() -> None:
    with pytest.raises(UsageError, match="without a fact sheet"):
        FactGuard([])
