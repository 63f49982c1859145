"""What is said in the place of a model's false sentence: the product by its name, its facts, and nothing twice."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multimodal.demos.product_tour.narrators import Narrator
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.planner import said_in
from multimodal.pipes.stand_in import passage_instead, stand_in
from multimodal.sync.cues import mention_end
from multimodal.values import Product

KETTLE = FactSheet.of(
    Product(
        "kettle",
        "Halo Kettle",
        price=Decimal(89),
        currency="EUR",
        facts=(("material", "enamelled steel, brass"), ("capacity", "1.6 litres"), ("colour", "deep green")),
    )
)


def test_before_its_name_the_product_is_named_and_all_is_said() -> None:
    text = passage_instead(KETTLE, "")
    assert mention_end(text, ("Halo Kettle",)) is not None
    assert text.count("Halo Kettle") == 1
    assert all(said_in(fact, text) for fact in KETTLE.facts)
    assert not FactGuard([KETTLE]).violations(text, "kettle")


def test_behind_its_name_the_facts_that_are_left_are_said() -> None:
    said = "Have you met the Halo Kettle? It holds 1.6 litres."
    text = passage_instead(KETTLE, said)
    assert "Halo Kettle" not in text
    assert "1.6" not in text
    assert all(said_in(fact, said + " " + text) for fact in KETTLE.facts)
    asked = [fact for fact in KETTLE.facts if fact.name == "price"]
    assert passage_instead(KETTLE, said, asked).count(".") == 1
    assert passage_instead(KETTLE, f"{said} It costs 89 euros.", asked) == ""


def test_the_tokens_go_on_where_the_text_stands() -> None:
    instead = stand_in(KETTLE, seed=3)
    assert instead("")[0][:1].isalpha()
    assert "".join(instead("Look at the Halo Kettle.")).startswith(" ")
    assert not "".join(instead("Look at the Halo Kettle. ")).startswith(" ")
    assert "".join(instead("")) == passage_instead(KETTLE, "", seed=3)
    assert len({passage_instead(KETTLE, "", seed=seed) for seed in range(9)}) > 3


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whatever_is_said_of_the_demo_catalogue_passes_the_guard(language: str) -> None:
    sheets = [FactSheet.of(product, language) for product in demo_tour(Narrator(), language).catalog.products]
    guard = FactGuard(sheets)
    for seed, sheet in enumerate(sheets):
        for said in ("", f"{sheet.title}{'。' if language == 'zh' else '.'}"):
            text = passage_instead(sheet, said, seed=seed)
            assert (mention_end(text, (sheet.title, *sheet.aliases)) is not None) == (not said)
            assert not guard.violations(text, sheet.product_id), text
