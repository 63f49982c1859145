"""The sentence planner: nothing but the sheet's own facts, letter for letter; no form letter; the same by its seed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.fact_words import CODE_NAMES, COLOUR_WORDS, MATERIAL_WORDS, MONEY, NUMBER_WORDS
from multimodal.pipes.facts import LANGUAGES, Fact, FactSheet, kind_of
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.planner import Passage, families, plan_passages, said_in
from multimodal.pipes.planner_base import filled, stopped, words_of
from multimodal.pipes.planner_en_words import CLOSINGS, GREETINGS, PRICES, PRICES_FROM
from multimodal.pipes.planner_number import names_several
from multimodal.sync.cues import mention_end

DEMO = Path(__file__).parents[2] / "assets" / "demo"
CATALOGUES = {"en": "catalog.json", "zh": "catalog.zh.json"}

NAMES = {
    "en": words_of(
        "material colour capacity weight height width length depth thickness diameter care set legs carries hob lid "
        "origin filling finish power alarm tray Warranty dishwasher_safe size"
    ),
    "zh": words_of(
        "材质 颜色 容量 重量 高度 宽度 长度 直径 厚度 保养 套装 凳腿 承重 适用炉灶 磨芯 产地 填充 "
        "表面处理 电源 闹铃 托盘 质保"
    ),
}
VALUES = {
    "en": "oak, brass|stoneware|deep green|1.6 litres|45 centimetres|12,5 cm|3|three|none|yes|wipe with a dry cloth|"
    "dishwasher safe|E27, not included|lifts out|2 metres of braided cotton|gas, electric and induction|Sweden|"
    "carafe and tumbler|4.8 kilograms each|100% wool|1 AA battery|{it} {v}",
    "zh": "橡木、黄铜|炻器|深绿色|1.6 升|45 厘米|三条|无|用干布擦拭|可用洗碗机|E27，不含|可取出|燃气灶、电炉和电磁炉|"
    "水瓶和水杯各一只|瑞典|每只 4.8 千克|1 节 AA 电池|2 米棉编织线|透明|{v}",
}
TITLES = {
    "en": "Halo Kettle|Quarry Bookends|The Long Table|Canvas Bag - 40 cm|Jeans|12-Inch Pan|X200|Éclair Set|{The} Mug",
    "zh": "光环烧水壶|山石书挡|X200 台灯|绒线坐墩|Halo 水壶",
}
DESCRIPTIONS = {
    "en": "|A kettle in green. It pours well.|This thing works. You will see.|Two rounds of marble (max. 9 kg). Heavy.",
    "zh": "|炉灶用烧水壶。出水又慢又准。|这款很重，约 3 千克。",
}


def sheets(language: str) -> st.SearchStrategy[list[FactSheet]]:
    strange = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=12)
    value = st.one_of(st.sampled_from(VALUES[language].split("|")), st.integers(2, 99999).map(str), strange)
    name = st.one_of(st.sampled_from(sorted(NAMES[language])), strange.filter(lambda n: n.casefold() not in CODE_NAMES))
    fact = st.builds(lambda n, v: Fact(n, v, kind_of(n, v)), name, value)
    price = st.sampled_from(
        ["89 euros", "24.50 euros", "1299", ""] if language == "en" else ["89 欧元", "24.50 元", ""]
    )

    @st.composite
    def sheet(draw: st.DrawFn) -> FactSheet:
        facts = draw(st.lists(fact, max_size=9, unique_by=lambda each: each.name))
        if said := draw(price):
            facts.insert(0, Fact("price" if language == "en" else "价格", said, "price"))
        number = draw(st.integers(0, 99))
        title, description = (draw(st.sampled_from(lists[language].split("|"))) for lists in (TITLES, DESCRIPTIONS))
        return FactSheet(str(number), title, (), tuple(facts), description, language)

    return st.lists(sheet(), min_size=1, max_size=7)


def tour(language: str, seed: int = 0, most: int = 5, count: int = 8) -> tuple[list[FactSheet], tuple[Passage, ...]]:
    catalog = load_catalog(DEMO / CATALOGUES[language])
    told = [FactSheet.of(product, language) for product in catalog.products[:count]]
    return told, plan_passages(told, shop=catalog.shop.name, language=language, seed=seed, most=most)


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6), most=st.integers(1, 8))
def test_every_fact_is_the_catalogues_and_nothing_else_is_said(
    language: str, data: st.DataObject, seed: int, most: int
) -> None:
    told = data.draw(sheets(language))
    passages = plan_passages(told, language=language, seed=seed, most=most)
    assert passages == plan_passages(told, language=language, seed=seed, most=most)
    assert [passage.product_id for passage in passages] == [None, *(sheet.product_id for sheet in told), None]
    for sheet, passage in zip(told, passages[1:-1], strict=True):
        assert sheet.title in passage.text
        for fact in passage.facts:
            assert fact in sheet.facts
            assert said_in(fact, passage.text), (fact, passage.text)
        known = "\n".join([sheet.title, sheet.description, *(f"{f.name}\n{f.value}" for f in sheet.facts)])
        # A transition may name what both sheets say; that is on this sheet, too.
        assert set(re.findall(r"\d+", passage.text)) <= set(re.findall(r"\d+", known))
        words = set(re.findall(r"[a-z]+", passage.text.lower())) - set(re.findall(r"[a-z]+", known.lower()))
        assert not words & (MATERIAL_WORDS | COLOUR_WORDS | NUMBER_WORDS)
        assert not words & {word for one, several, _ in MONEY.values() for word in (one, several)}
        assert "  " not in passage.text.replace(known, "")
    for before, after in pairwise(passages):
        assert before.family != after.family


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_asked_for_all_facts_it_says_all(language: str, data: st.DataObject, seed: int) -> None:
    told = data.draw(sheets(language))
    for sheet, passage in zip(told, plan_passages(told, language=language, seed=seed, most=8)[1:-1], strict=True):
        if len(sheet.facts) <= 8:
            assert [fact for fact in sheet.facts if not said_in(fact, passage.text)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_tour_is_no_form_letter(language: str) -> None:
    openings, lengths = set(), []
    for seed in range(20):
        _, passages = tour(language, seed, count=16)
        used = [passage.family for passage in passages]
        assert all(before != after for before, after in pairwise(used))
        assert len(set(used)) >= 14
        openings |= set(used[1:-1])
        lengths += [len(passage.text) for passage in passages[1:-1]]
        said = [len(passage.facts) for passage in passages[1:-1]]
        assert min(said) >= 1
        assert max(said) <= 5
    assert len(openings) >= (30 if language == "en" else 20)
    assert max(lengths) > 2 * min(lengths)


def test_there_are_families_enough() -> None:
    assert len({family.text for family in families("en")}) >= 30
    assert len({family.text for family in families("zh")}) >= 20


def test_our_own_words_claim_nothing() -> None:
    ours = " ".join([*(family.text for family in families("en")), *GREETINGS, *CLOSINGS, *PRICES, *PRICES_FROM]).lower()
    words = set(re.findall(r"[a-z]+", re.sub(r"{\w+}", "", ours)))
    assert not words & (MATERIAL_WORDS | COLOUR_WORDS | NUMBER_WORDS)
    assert not words & words_of("best great perfect durable premium quality beautiful lovely finest unique popular")
    assert not re.search(r"\d", re.sub(r"{\w+}", "", " ".join(family.text for family in families("zh"))))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_product_is_named_before_anything_is_said_of_it(language: str) -> None:
    for seed in range(5):
        told, passages = tour(language, seed)
        for sheet, passage in zip(told, passages[1:-1], strict=True):
            named = mention_end(passage.text, (sheet.title,))
            assert named is not None
            assert not [other.title for other in told if other is not sheet and other.title in passage.text]


def test_transitions_say_what_both_sheets_say() -> None:
    def sheet(number: int, price: str, material: str) -> FactSheet:
        facts = (Fact("price", price, "price"), Fact("material", material, "material"))
        return FactSheet(str(number), f"Thing {'ABCDEFGH'[number]}", (), facts)

    told = [sheet(n, f"{10 + 90 * (n % 2)} euros", "stoneware" if n < 4 else "oak") for n in range(8)]
    found = {passage.family: passage for seed in range(40) for passage in plan_passages(told, seed=seed)}
    assert "Once more in {same_material}: {the}." in found
    assert found["For less than that, there {is} {the}."].product_id in {"2", "4", "6"}
    assert found["A step up in price: {the}."].product_id in {"1", "3", "5"}
    assert found["Once more in {same_material}: {the}."].product_id in {"1", "2", "3", "5", "6"}


@pytest.mark.parametrize(
    ("title", "fact", "says"),
    [
        ("Quarry Bookends", ("weight", "4.8 kilograms each"), "weigh 4.8 kilograms each"),
        ("Quarry Bookends", ("price", "78 euros"), "78 euros"),
        ("Otterby Stool", ("legs", "three"), "has three legs"),
        ("Otterby Stool", ("carries", "120 kilograms"), "carries 120 kilograms"),
        ("Squall Boots", ("carries", "120 kilograms"), "carry 120 kilograms"),
        ("Merrin Clock", ("power", "1 AA battery"), "runs on 1 AA battery"),
        ("Grindle Mill", ("care", "wipe with a dry cloth"), "To look after it, wipe with a dry cloth."),
        ("Squall Boots", ("care", "wipe with a dry cloth"), "To look after them, wipe with a dry cloth."),
        ("Squall Stand", ("tray", "lifts out"), "The tray lifts out."),
        ("Tidewater Vase", ("flutes", "cut by hand"), "The flutes are cut by hand."),
        ("Shirt", ("Seat_Height", "45 cm"), "The seat height is 45 cm."),
        ("Vesper Lamp", ("bulb", "E27, not included"), "The bulb is E27, not included."),
    ],
)
def test_verbs_and_numbers_agree(title: str, fact: tuple[str, str], says: str) -> None:
    passages = plan_passages([FactSheet("a", title, (), (Fact(*fact, kind_of(*fact)),))])
    assert says in passages[1].text


@pytest.mark.parametrize(
    ("title", "word"),
    [("光环烧水壶", "这把"), ("暮光台灯", "这盏"), ("石砾马克杯", "这只"), ("山石书挡", "这款"), ("X200", "这款")],
)
def test_measure_words_go_with_the_thing(title: str, word: str) -> None:
    texts = {plan_passages([FactSheet(str(n), title, (), (), "", "zh") for n in range(9)], language="zh", seed=1)}
    said = re.findall("这[把盏只款个件座张块条双]", "".join(passage.text for tour in texts for passage in tour))
    assert set(said) == {word}


def test_what_is_for_machines_is_not_read_out() -> None:
    facts = (Fact("gtin", "4006381333931", "number"), Fact("Google product category", "696", "number"))
    long = Fact("story", "word " * 40, "text")
    sheet = FactSheet("a", "Mug", (), (*facts, long), "See https://shop.example/mug. It is sold by Dr. Ash (max.")
    text = plan_passages([sheet], most=8)[1].text
    assert not re.search(r"\d|http|word|max", text)


def test_a_sheet_without_facts_is_told_all_the_same() -> None:
    passages = plan_passages([FactSheet("a", "Mug"), FactSheet("b", "Lamp")])
    assert all(title in passage.text for title, passage in zip(("Mug", "Lamp"), passages[1:-1], strict=True))
    assert all(passage.facts == () for passage in passages)
    assert len(plan_passages([])) == 2


@pytest.mark.parametrize(("arguments", "says"), [({"language": "de"}, "there are: en, zh"), ({"most": 9}, "1 to 8")])
def test_wrong_use_is_told(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_passages([], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_whole_tour_reads_as_it_was_reviewed(language: str) -> None:
    """Read it aloud before you write it anew: `tests/pipes/tours/` holds what a shop's visitor hears."""
    _, passages = tour(language)
    path = Path(__file__).parent / "tours" / f"{language}.txt"
    assert "\n\n".join(passage.text for passage in passages) + "\n" == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_fact_guard_finds_nothing_to_say_against_it(language: str) -> None:
    """Two readings of the same sheets, written apart: what one says, the other has to allow."""
    for seed in range(10):
        told, passages = tour(language, seed, most=8, count=16)
        assert FactGuard(told).violations("\n\n".join(passage.text for passage in passages)) == []


@pytest.mark.parametrize(
    ("title", "several"),
    [
        ("Quarry Bookends", True),
        ("Scissors", True),
        ("C.A.T. Boots", True),
        ("Harbour Mugs", True),
        ("Oak Shelves", True),
        ("TIN CUPS", True),
        ("Wine Glasses, set of six", True),
        ("Slippers - Felt (2 pieces)", True),
        ("Two Widgets", True),
        ("12 Widgets", True),
        ("Ulysses", False),
        ("Les Miserables", False),
        ("Great Expectations", False),
        ("Harris", False),
        ("Glass", False),
        ("Looking Glass", False),
        ("Chess", False),
        ("Summer Dress", False),
        ("Canvas", False),
        ("Halo Atlas", False),
        ("Lens", False),
        ("Box of Matches", False),
        ("Lamp for Candles", False),
        ("1984", False),
        ("", False),
    ],
)
def test_only_a_plural_that_is_known_is_several_things(title: str, several: bool) -> None:
    assert names_several(FactSheet("a", title)) is several


def test_the_sheet_may_say_that_it_is_several_things_or_a_work() -> None:
    for description in ("These sit on any desk.", "Two widgets of brass.", "A pair of widgets.", "They last."):
        assert names_several(FactSheet("a", "Brass Widgets", description=description))
        assert not names_several(FactSheet("a", "Brass Widget", description=description))
    assert not names_several(FactSheet("a", "Brass Widgets", description="A widget."))
    assert not names_several(FactSheet("a", "Trainspotting Boots", facts=(Fact("Author", "I. W.", "text"),)))


@pytest.mark.parametrize("seed", range(6))
def test_one_thing_costs_and_several_cost(seed: int) -> None:
    price, pages = Fact("price", "14 euros", "price"), Fact("pages", "736", "number")
    told = [FactSheet("u", "Ulysses", facts=(price, pages)), FactSheet("q", "Quarry Bookends", facts=(price,))]
    one, several = (passage.text for passage in plan_passages(told, seed=seed)[1:-1])
    assert not re.search(r"\b(?:they|them|have|cost|are|come|sell)\b", one, re.IGNORECASE), one
    assert not re.search(r"\b(?:it|has|costs|is yours|comes|sells)\b", several, re.IGNORECASE), several


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("ends", ["N. N.", "Jam!", "Who?", "And so on…", 'the "End."', "好吃！", "结束。"])
def test_a_value_with_a_stop_of_its_own_gets_no_second(language: str, ends: str) -> None:
    name = "author" if language == "en" else "作者"
    facts = (
        Fact(name, ends, "text"),
        Fact("maker", ends, "text"),
        Fact("price" if language == "en" else "价格", "5", "price"),
    )
    twice = re.compile(re.escape(ends) + (r"\." if language == "en" else "。"))
    if (ends[-1] in "。！") is (language == "zh"):
        for seed in range(12):
            told = [
                FactSheet("a", ends, facts=facts, language=language),
                FactSheet("b", f"Tin {ends}", language=language),
            ]
            for passage in plan_passages(told, shop=ends, language=language, seed=seed, most=8):
                assert not twice.search(passage.text), passage.text


def test_a_sentence_has_one_stop() -> None:
    assert [stopped(text) for text in ("A", "A.", "A!", 'A."', "A (approx.)", "")] == [
        "A.",
        "A.",
        "A!",
        'A."',
        "A (approx.).",
        ".",
    ]
    assert [stopped(text, "。") for text in ("A", "A.", "好。", "好！”")] == ["A。", "A.。", "好。", "好！”"]
    assert filled("To {a}. By {b}, {a}.", {"a": "B. & Co.", "b": "{a}."}) == "To B. & Co. By {a}., B. & Co."
