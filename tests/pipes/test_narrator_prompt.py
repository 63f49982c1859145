"""What the local narrator is asked, and how it is worded: nothing but facts, letter for letter, and no form twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from multimodal.pipes import narrator_openings as forms
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.facts import Fact, FactSheet, kind_of
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.narrator_plan import MANNERS, PassagePlanner, grammar
from multimodal.pipes.narrator_prompt import SYSTEM, Asked, plan_tour_prompts
from multimodal.pipes.narrator_wording import closed, greeted, opening_of, spoken
from multimodal.pipes.planner import said_in
from multimodal.pipes.planner_base import Picker

DEMO = Path(__file__).parents[2] / "assets" / "demo"
SHOP = "Larkmoor"


def demo(language: str = "en") -> list[FactSheet]:
    name = "catalog.zh.json" if language == "zh" else "catalog.json"
    return [FactSheet.of(product, language) for product in load_catalog(DEMO / name).products]


def sheet(title: str = "Halo Kettle", key: str = "p", **facts: str) -> FactSheet:
    named = ((name.replace("_", " "), value) for name, value in facts.items())
    return FactSheet(key, title, facts=tuple(Fact(name, value, kind_of(name, value)) for name, value in named))


def told(asked: tuple[Asked, ...]) -> list[Asked]:
    return [one for one in asked if one.plan is not None]


def test_there_are_more_than_sixty_openings_each_with_a_word_and_a_text_of_its_own() -> None:
    assert len(forms.OPENINGS) >= 60
    for field in ("name", "text"):
        assert max(Counter(getattr(one, field) for one in forms.OPENINGS).values()) == 1
    for place in ("first", "last", ""):
        assert sum(one.place == place and not one.needs for one in forms.OPENINGS) >= 3


def test_names_of_price_forms_say_one_form() -> None:
    assert not forms.PRICE_FORMS.keys() & forms.FROM_FORMS.keys()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_every_passage_of_a_tour_says_its_facts_and_nothing_else(seed: int, most: int) -> None:
    sheets = demo()
    asked = plan_tour_prompts(sheets, shop=SHOP, seed=seed, most=most)
    guard = FactGuard(sheets)
    assert [one.product_id for one in asked] == [None, *(each.product_id for each in sheets), None]
    for one, each in zip(told(asked), sheets, strict=True):
        assert one.plan is not None
        text = spoken(one.plan)
        assert 0 < len(one.facts) <= most
        assert all(fact in each.facts for fact in one.facts)
        assert each.title in text
        assert [fact for fact in one.facts if not said_in(fact, text)] == []
        assert guard.violations(text, each.product_id) == []
        assert text.count("{") == text.count("}") == 0
        assert not any(other.title in text for other in sheets if other is not each)


@pytest.mark.parametrize("seed", range(6))
def test_no_two_neighbours_begin_alike_and_the_text_tells_its_opening(seed: int) -> None:
    asked = told(plan_tour_prompts(demo(), shop=SHOP, seed=seed))
    assert all(a.opening != b.opening for a, b in pairwise(asked))
    for one in asked:
        assert one.plan is not None
        assert opening_of(spoken(one.plan), one.plan.sheet.title) == one.opening


def test_the_prompt_holds_each_fact_and_little_else() -> None:
    for one in told(plan_tour_prompts(demo(), shop=SHOP, most=8)):
        assert one.plan is not None
        system, user = (message["content"] for message in one.messages)
        assert system == SYSTEM
        assert one.plan.sheet.title in user
        assert all(said_in(fact, user) for fact in one.facts)
        assert user.splitlines()[0] == f"{one.opening}, {one.plan.manner}"
        assert len(user.split()) <= 2 * len(spoken(one.plan).split())


def test_the_same_seed_asks_the_same_and_another_seed_something_else() -> None:
    first, again, other = (plan_tour_prompts(demo(), shop=SHOP, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert [one.opening for one in first] != [one.opening for one in other]


def test_prices_are_compared_only_where_both_sheets_say_them() -> None:
    cheap, dear, bare, foreign = (
        sheet(price=price, key=price) for price in ("20 euros", "90.50 euros", "15", "7 dollars")
    )
    for before, now, needs in [
        (dear, cheap, "less"),
        (cheap, dear, "more"),
        (cheap, cheap, ""),
        (dear, bare, ""),
        (dear, foreign, ""),
    ]:
        found = set()
        for seed in range(60):
            planner = PassagePlanner(Picker(seed))
            planner.plan(before, "first")
            found.add(planner.plan(now).opening.needs)
        assert found & {"less", "more"} == ({needs} if needs else set())


def test_what_two_products_share_is_said_only_where_both_hold_it() -> None:
    oak, brass, also_oak = (
        sheet(key="a", material="oak"),
        sheet(key="b", material="brass"),
        sheet(key="c", material="oak"),
    )
    for before, now, shared in [(oak, also_oak, True), (brass, oak, False)]:
        found = set()
        for seed in range(80):
            planner = PassagePlanner(Picker(seed))
            planner.plan(before, "first")
            found.add(planner.plan(now).opening.needs)
        assert ("same material" in found) is shared


def test_a_price_without_the_moneys_name_is_called_a_price() -> None:
    words = {spoken(PassagePlanner(Picker(seed)).plan(sheet(price="18.99"), "first")) for seed in range(40)}
    assert all("price" in text or "costs" in text for text in words)


@pytest.mark.parametrize("manner", MANNERS)
def test_a_manner_makes_the_same_choices_each_time(manner: str) -> None:
    one = sheet(material="oak, brass", colour="deep green", hob="gas, electric and induction")
    for fact in one.facts:
        assert len({grammar(one, manner).clause(fact, (fact.value,)).text for _ in range(5)}) == 1


def test_several_things_are_they_and_a_thing_without_facts_is_still_shown() -> None:
    asked = told(plan_tour_prompts([sheet("Quarry Bookends"), sheet("Brass 4-40 x (b) | Ünïque, 42 x 28 cm", "q")]))
    assert "\nthey, bookends: the Quarry Bookends" in asked[0].messages[-1]["content"]
    assert "\nit: Brass 4-40 x (b) | Ünïque, 42 x 28 cm" in asked[1].messages[-1]["content"]
    for one in asked:
        assert one.plan is not None
        assert one.plan.sheet.title in spoken(one.plan)
        assert one.facts == ()


def test_greetings_begin_with_a_short_sentence_and_name_the_shop_where_there_is_one() -> None:
    for name in forms.GREETINGS:
        assert SHOP in greeted(SHOP, name)
        assert "  " not in greeted("", name)
        assert " to" not in greeted("", name).partition(".")[0].partition("Welcome")[2]
        assert len(greeted(SHOP, name).partition(".")[0].split()) <= 4
    assert all(closed(name).endswith(".") for name in forms.CLOSINGS)


def test_wrong_use_is_refused() -> None:
    for most in (0, 9, True, 2.5):
        with pytest.raises(UsageError, match="out of range"):
            plan_tour_prompts(demo(), most=most)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="speaks English"):
        plan_tour_prompts(demo("zh"))
