"""The local narrator's training text: our own words, no product of a catalogue, each fact letter for letter."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

from multimodal.assets.narrator.training import words
from multimodal.assets.narrator.training.data import Sheets, samples
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.narrator_openings import CLOSINGS, GREETINGS, OPENINGS
from multimodal.pipes.narrator_plan import PassagePlanner, Plan
from multimodal.pipes.narrator_wording import opening_of, spoken
from multimodal.pipes.planner import said_in
from multimodal.pipes.planner_base import Picker

DEMO = Path(__file__).parents[2] / "assets" / "demo" / "catalog.json"
COUNT = 1500


def plans(count: int, seed: int = 0) -> list[Plan]:
    sheets, planner = Sheets(seed), PassagePlanner(Picker(seed))
    found: list[Plan] = []
    while len(found) < count:
        tour = sheets.tour(8)
        places = ("first", *[""] * 6, "last")
        found += [planner.plan(each, place) for each, place in zip(tour, places, strict=True)]
    return found


def test_every_target_says_its_facts_and_claims_nothing_else() -> None:
    unsaid = 0
    for plan in plans(600):
        text, sheet = spoken(plan), plan.sheet
        assert sheet.title in text
        assert opening_of(text, sheet.title) == plan.opening.name
        unsaid += not all(said_in(fact, text) for fact in plan.facts)
        # Of values drawn at random the guard misreads one in some hundreds ("four or 20 x 229 mm").
        held = "\n".join(fact.value for fact in plan.facts)
        false = [one for one in FactGuard([sheet]).violations(text, sheet.product_id) if one.said not in held]
        assert false == [], text
    # These are left out of the training text.
    assert unsaid <= 6


def test_every_form_is_trained_on() -> None:
    drawn = samples(COUNT)
    heads = Counter(sample.messages[-1]["content"].partition("\n")[0].rpartition(", ")[0] for sample in drawn)
    assert {one.name for one in OPENINGS} <= heads.keys()
    asked = {sample.messages[-1]["content"].partition("\n")[0] for sample in drawn}
    assert {f"greeting, {name}" for name in GREETINGS} | {f"closing, {name}" for name in CLOSINGS} <= asked


def test_the_same_seed_makes_the_same_text() -> None:
    assert samples(50, 3) == samples(50, 3)
    assert samples(50, 3) != samples(50, 4)


def test_the_facts_are_many_and_few_and_passages_short() -> None:
    counts = Counter(len(plan.facts) for plan in plans(600))
    assert all(counts[number] for number in range(1, 9))
    lengths = sorted(len(sample.answer.split()) for sample in islice(samples(300), 300))
    assert 20 <= lengths[150] <= 45
    assert lengths[-1] <= 110


def test_no_product_of_the_demo_is_trained_on() -> None:
    titles = [product.title for product in load_catalog(DEMO).products]
    text = "\n".join(f"{sample.messages[-1]['content']}\n{sample.answer}" for sample in samples(COUNT))
    assert [title for title in titles if title in text] == []


def test_the_words_are_plain_and_each_there_once() -> None:
    for several in (words.WORDS, words.SYLLABLES, words.NOUNS, words.MATERIALS, words.COLOURS, words.NAMES):
        assert len(set(several)) == len(several)
    assert len(words.WORDS) >= 500
    assert [word for word in words.WORDS if not re.fullmatch(r"[A-Z]?[a-z]+", word)] == []
