"""Where cues come from: every N tokens, and the plan of a tour."""

from __future__ import annotations

import re

import pytest

from multimodal.errors import UsageError
from multimodal.sync.cues import EveryInterval, Segment, mention_end, plan_tour
from multimodal.values import Product, ProductImage


def words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def test_every_interval_declares_at_its_boundary() -> None:
    source = EveryInterval(3, ["a", "b"])
    assert [(c.anchor, c.key) for c in source.reach(0)] == [(0, "a")]
    assert source.reach(2) == []
    assert [(c.anchor, c.key) for c in source.reach(3)] == [(3, "b")]
    source.add("c")
    assert [(c.anchor, c.key) for c in source.reach(9)] == [(6, "c")], "known late: still its own anchor"
    assert source.anchor("c") == 6
    assert source.anchor("z") is None
    assert source.first(3) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "names", "ends_with"),
    [
        ("This is the Halo Kettle, at last", ["Halo Kettle"], "Halo Kettle"),
        ("this is the halo kettle", ["Halo Kettle"], "halo kettle"),
        ("Haloes, then Halo", ["Halo"], "then Halo"),
        ("Kettles? A kettle", ["kettle"], "A kettle"),
        ("the Halo Kettle", ["Halo", "Halo Kettle"], "Halo Kettle"),
        ("first Tide then Halo", ["Halo", "Tide"], "first Tide"),
        ("C++ and more", ["C++"], "C++"),
        ("这款光环水壶很好", ["光环水壶"], "光环水壶"),
        ("这款Halo很好", ["Halo"], "Halo"),
        ("the Ｈａｌｏ\nKettle", ["Halo Kettle"], "Kettle"),
        ("이 주전자는 좋다", ["주전자"], "주전자"),
        ("nothing here", ["Halo"], None),
        ("nothing here", [""], None),
    ],
)
def test_mentions_by_exact_name(text: str, names: list[str], ends_with: str | None) -> None:
    end = mention_end(text, names)
    assert (None if end is None else text[:end].endswith(ends_with or "?")) == (None if ends_with is None else True)


PRODUCTS = [
    Product(
        "kettle", "Halo Kettle", images=(ProductImage("kettle-hero", "a.jpg"), ProductImage("kettle-spout", "b.jpg"))
    ),
    Product("mug", "Tide Mug", aliases=("the Tide",), images=(ProductImage("mug-hero", "c.jpg"),)),
    Product("bare", "Bare Bowl"),
]


def test_a_tour_is_planned_by_its_mentions() -> None:
    plan = plan_tour(
        [
            Segment("Welcome in."),
            Segment("Meet the Halo Kettle, whose spout pours.", "kettle", (("kettle-spout", "spout"),)),
            Segment("It pairs with the Tide, of course.", "mug"),
            Segment("No name here.", "mug"),
            Segment("A Bare Bowl ends it.", "bare"),
        ],
        PRODUCTS,
        words,
    )
    text = "".join(plan.tokens)
    assert text.startswith("Welcome in.\n\nMeet the Halo Kettle,")
    assert not text.endswith("\n")
    placed = [(cue.key, "".join(plan.tokens[: cue.anchor]).split()[-1], cue.product) for cue in plan.cues]
    assert placed == [
        ("kettle-hero", "Kettle,", "kettle"),
        ("kettle-spout", "spout", "kettle"),
        ("mug-hero", "Tide,", "mug"),
        ("mug-hero", "course.", "mug"),
        ("bare", "Bowl", "bare"),
    ]
    assert [cue.anchor for cue in plan.cues] == sorted(cue.anchor for cue in plan.cues)


@pytest.mark.parametrize(
    ("segment", "says"),
    [
        (Segment("Hello.", "lamp"), "lamp.*kettle"),
        (Segment("The Halo Kettle.", "kettle", (("kettle-spout", "handle"),)), "handle"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(segment: Segment, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_tour([segment], PRODUCTS, words)
