"""Product names and sentences are found where a reader would find them."""

from __future__ import annotations

import pytest

from multimodal.events import ProductBrief
from multimodal.sync.words import Names, sentence_around, sentence_end

NAMES = Names(
    [
        ProductBrief("kettle", "Halo Kettle", ("Halo",)),
        ProductBrief("mini", "Halo Kettle Mini"),
        ProductBrief("mug", "Moss Mug", ("the mug",)),
        ProductBrief("cup", "Moss Cup", ("the mug", " ")),
        ProductBrief("pot", "月光壶"),
        ProductBrief("set", "Set (3 bowls)"),
        ProductBrief("rack", "Oak Moss Mug Rack"),
    ]
)


def named(text: str) -> list[tuple[str, set[str]]]:
    return [(text[hit.start : hit.end], set(hit.ids)) for hit in NAMES.find(text).items]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the Halo Kettle boils", [("Halo Kettle", {"kettle"})]),
        ("the Halo Kettle Mini boils", [("Halo Kettle Mini", {"mini"})]),
        ("HALO  kettle, halo", [("HALO  kettle", {"kettle"}), ("halo", {"kettle"})]),
        ("Halogen and a Moss Mugful", []),
        ("fill the mug", [("the mug", {"mug", "cup"})]),
        ("这款月光壶很安静", [("月光壶", {"pot"})]),
        ("这款Halo很安静", [("Halo", {"kettle"})]),
        ("月光壶Halo Kettle", [("月光壶", {"pot"}), ("Halo Kettle", {"kettle"})]),
        ("กาHaloน้ำ 한Halo는", [("Halo", {"kettle"}), ("Halo", {"kettle"})]),
        ("Halo\u0301 and Halo2", []),
        ("our Set (3 bowls), glazed", [("Set (3 bowls)", {"set"})]),
        ("Ok Moss Mug Rack, Moss Mug rails", [("Moss Mug", {"mug"})]),
        ("", []),
    ],
)
def test_mentions(text: str, found: list[tuple[str, set[str]]]) -> None:
    assert named(text) == found


def test_the_name_that_ends_at_a_place() -> None:
    text = "Here is the Halo Kettle, quiet. It boils."
    assert NAMES.find(text).at(text.index(",")) == {"kettle"}
    assert NAMES.find(text).at(text.index("quiet")) == {"kettle"}
    assert NAMES.find(text).at(text.index(" quiet") + 4) == frozenset()
    assert NAMES.find(text).at(text.index("It")) == frozenset()
    done = "This is the Halo Kettle. It boils."
    # A sentence's end between name and place: the next words may be about something else.
    assert NAMES.find(done).at(done.index("It")) == frozenset()


def test_names_within_a_stretch() -> None:
    text = "The Moss Mug beside the Halo Kettle."
    assert NAMES.find(text).within(0, len(text)) == {"mug", "kettle"}
    assert NAMES.find(text).within(0, 20) == {"mug"}
    assert NAMES.find(text).within(6, 20) == frozenset()


def test_without_products_nothing_is_named() -> None:
    assert Names(()).find("the Halo Kettle").items == []


@pytest.mark.parametrize(
    ("text", "at", "sentence"),
    [
        ("One here. Two there. Three.", "Two t", "Two there."),
        ("One here. Two there. Three.", "Two", "One here. Two there."),
        ("One here. Two there. Three.", "One", "One here."),
        ("It weighs 1.5 kg. Light!", "kg", "It weighs 1.5 kg."),
        ("他说好。我也好。", "我", "他说好。我也好。"),
        ("“Nice.” She left", "left", "She left"),
        ("No end", "end", "No end"),
    ],
)
def test_the_sentence_around_a_place(text: str, at: str, sentence: str) -> None:
    place = text.index(at) + (len(at) if " " in at else 0)
    start, end = sentence_around(text, place)
    assert text[start:end].strip() == sentence


def test_where_a_sentence_ends() -> None:
    text = 'He said "stop!" and left. Then more.'
    assert text[: sentence_end(text, 0)] == 'He said "stop!"'
    assert text[: sentence_end(text, 16)].endswith("left.")
    assert sentence_end("no stop", 2) == 7
