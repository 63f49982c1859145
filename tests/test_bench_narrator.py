"""What the narrator's benchmark calls a fault: planted ones are found, and what the narrator was taught has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multimodal.bench.narrator import judge
from multimodal.pipes.facts import Fact, FactSheet
from multimodal.pipes.narrator_prompt import Asked, plan_tour_prompts
from multimodal.pipes.narrator_wording import spoken

SHEET = FactSheet(
    "stool",
    "Otterby Stool",
    facts=(
        Fact("price", "119 euros", "price"),
        Fact("material", "oak", "material"),
        Fact("seat height", "45 centimetres", "number"),
    ),
)


def asked(seed: int = 0) -> Asked:
    return plan_tour_prompts([SHEET], seed=seed, most=8)[1]


def text() -> str:
    plan = asked().plan
    assert plan is not None
    return spoken(plan)


def test_what_was_taught_is_exact() -> None:
    judged = judge("t", asked(), text(), True)
    assert judged.faults == ()
    assert judged.opening == judged.asked == asked().opening
    assert judged.text == judged.planned


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda said: said.replace("119", "109"), "price '119 euros' is missing"),
        (lambda said: said.replace("119", "109"), "'109' is neither"),
        (lambda said: said.replace("oak", "Oak"), "material 'oak' is missing"),
        (lambda said: said.replace("Otterby", "Otterbey"), "title 'Otterby Stool' is missing"),
        (lambda said: f"{said} It weighs 3 kilograms.", "3 kilograms"),
        (lambda said: f"{said} It is a beautiful thing.", "'beautiful' is neither"),
        (lambda said: said.replace("centimetres", "millimetres"), "seat height '45 centimetres' is missing"),
    ],
)
def test_planted_faults_are_found(change: Callable[[str], str], fault: str) -> None:
    changed = change(text())
    assert changed != text()
    assert any(fault in each for each in judge("t", asked(), changed, True).faults)


def test_another_opening_and_no_end_are_seen() -> None:
    assert judge("t", asked(), f"Well now. {text()}", True).opening == ""
    assert judge("t", asked(), text(), False).faults == ("it found no end",)
