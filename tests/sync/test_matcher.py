"""Which names are found in a text, in five scripts, cut anywhere."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from multimodal.errors import UsageError
from multimodal.sync.folding import RUN, folded
from multimodal.sync.matcher import Matcher, ProductNames
from multimodal.values import Product, ProductImage

NAMES = ProductNames(
    [
        Product("air", "Air"),
        Product("airmax", "Air Max", aliases=("AM-90",)),
        Product("HK-100", "Halo Kettle"),
        Product("pro", "Kettle Pro"),
        Product("cpp", "C++"),
        Product("cafe", "Café"),
        Product("cup", "كوب"),
        Product("water", "光环水壶"),
        Product("ha", "ハ"),
        Product("band", "バンド"),
        Product("chair", "เก้าอี้"),
        Product("go", "เก"),
        Product("pot", "주전자"),
        Product("48210", "Plain Bowl"),
        Product("mug", "Tide Mug"),
        Product("retro", "Retro Air Pump"),
        Product("lamp", "Fern-Air Lamp"),
        Product("tea", "大ハ茶"),
    ]
)


def named(pieces: list[str]) -> list[tuple[str, str]]:
    matcher, text = Matcher(NAMES), "".join(pieces)
    found = [mention for piece in pieces for mention in matcher.feed(piece)] + matcher.finish()
    assert matcher.open_end is None
    return [(mention.product, text[mention.start : mention.end]) for mention in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the air", [("air", "air")]),
        # The end of a longer title is no shorter name.
        ("Retro Air Pump, Retrow Air Pump, the Air pump", [("retro", "Retro Air Pump")]),
        ("Air Pum, Air Pumps, Retro Air", [("air", "Air")] * 3),
        ("Fern-Air Lamp, Firn-Air Lamp", [("lamp", "Fern-Air Lamp")]),
        ("大ハ茶, ハ茶, ハ", [("tea", "大ハ茶"), ("ha", "ハ")]),
        ("AIR's, Air; (air) air-bag", [("air", "AIR"), ("air", "Air"), ("air", "air"), ("air", "air")]),
        ("airy, chair, Air2, air_x, 2air", []),
        ("Air Max", [("airmax", "Air Max")]),
        ("Air  \n max", [("airmax", "Air  \n max")]),
        ("Air Maxi", [("air", "Air")]),
        ("Air Ma", [("air", "Air")]),
        ("Halo Kettle Pro", [("HK-100", "Halo Kettle")]),
        ("Halo Air Kettle Pro", [("air", "Air"), ("pro", "Kettle Pro")]),
        ("hk-100 and AM-90", [("HK-100", "hk-100"), ("airmax", "AM-90")]),
        ("bowl 48210, 482101", [("48210", "48210")]),
        ("a mug, a water", []),
        ("C++ and c++x", [("cpp", "C++"), ("cpp", "c++")]),
        ("Ａｉｒ　ＭＡＸ", [("airmax", "Ａｉｒ　ＭＡＸ")]),
        ("caf\u00e9 CAFE\u0301 cafe", [("cafe", "caf\u00e9"), ("cafe", "CAFE\u0301")]),
        ("Air\u0301", []),
        ("A\u00adir", [("air", "A\u00adir")]),
        ("这款光环水壶很好", [("water", "光环水壶")]),
        ("这款Air很好", [("air", "Air")]),
        ("光环水", []),
        ("ハ ﾊ バンド ﾊﾞﾝﾄﾞ ハ\u3099", [("ha", "ハ"), ("ha", "ﾊ"), ("band", "バンド"), ("band", "ﾊﾞﾝﾄﾞ")]),
        ("เก้าอี้ตัวนี้", [("chair", "เก้าอี้")]),
        ("เกเก้", [("go", "เก")]),
        ("이 주전자는", [("pot", "주전자")]),
        ("كوب", [("cup", "كوب")]),
        ("هذا الكوب والكوب بالكوب للكوب وكوب", [("cup", "كوب")] * 5),
        ("الكُوبُ كـوب", [("cup", "كُوب"), ("cup", "كـوب")]),
        ("كوبك مكوب", []),
        ("الAir", [("air", "Air")]),
        ("", []),
    ],
)
def test_names_are_found(text: str, found: list[tuple[str, str]]) -> None:
    assert named([text]) == found
    assert named(list(text)) == found
    for cut in range(len(text)):
        assert named([text[:cut], text[cut:]]) == found


@pytest.mark.parametrize("text", ["an Air Max, Ａｉｒ max", "الكُوب Cafe\u0301 كوب", "光环光环水壶ﾊﾞﾝﾄﾞ", "เก้าอี้เก Air"])
def test_every_pair_of_cuts_gives_the_same(text: str) -> None:
    whole = named([text])
    for a, b in combinations(range(len(text) + 1), 2):
        assert named([text[:a], text[a:b], text[b:]]) == whole


def test_a_run_of_nothing_ends_a_name() -> None:
    assert named(["Air" + "\u200b" * (RUN - 2) + " Max"]) == [("airmax", "Air" + "\u200b" * (RUN - 2) + " Max")]
    assert named(["Air" + "\u200b" * (RUN + 1) + " Max"]) == [("air", "Air")]
    assert named(["Air" + " " * (RUN + 2) + "Max"]) == [("air", "Air")]


def test_what_is_open_is_where_a_name_may_end() -> None:
    matcher = Matcher(NAMES)
    assert matcher.feed("the Hal") == []
    assert matcher.open_end is None, "no name ends here yet"
    matcher.feed("o, Air")
    assert matcher.open_end == 13
    matcher.feed(" Ma")
    assert matcher.open_end == 13
    assert [mention.end for mention in matcher.feed("y")] == [13]
    assert matcher.open_end is None
    matcher.feed(" cafe")
    assert matcher.open_end is None
    matcher.feed("\u0301")
    assert matcher.open_end == 23


@pytest.mark.parametrize(
    ("products", "says"),
    [
        ([Product("a", "Air"), Product("b", "Bell", aliases=("ＡＩＲ",))], "'ＡＩＲ' names both 'a' and 'b'"),
        ([Product("a", "B-1"), Product("b-1", "Bell")], "'b-1' names both 'a' and 'b-1'"),
        ([Product("a", "Air"), Product("a", "Bell")], "two products have the id 'a'"),
    ],
)
def test_what_could_not_be_told_apart_is_refused(products: list[Product], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ProductNames(products)


def test_a_name_twice_for_one_product_is_fine() -> None:
    names = ProductNames([Product("air", "Air", aliases=("AIR", "air", "", " "))])
    assert [mention.product for mention in Matcher(names).feed("Air ")] == ["air"]


def test_what_a_marker_means() -> None:
    names = ProductNames(
        [Product("a", "Air", images=(ProductImage("a-1", "x"), ProductImage("a-2", "y"))), Product("b", "B")]
    )
    assert names.find("a") == ("a", "a-1")
    assert names.find("a-2") == ("a", "a-2")
    assert names.find("AIR") == ("a", "a-1")
    assert names.find("b") == ("b", "b"), "no picture: its id, so that the pipe says what is missing"
    assert names.find("nothing") is None
    assert [names.owner(key) for key in ("a-2", "b", "x")] == ["a", "b", ""]
    assert names.longest_code == 3


def test_folding_keeps_what_is_said() -> None:
    assert folded("  ＨＡＬＯ\u3000 Ke\u00adttle ") == "halo kettle"
    assert folded("Straße ﬁx") == "strasse fix"
    assert folded("\u200b\u00ad") == ""


def test_cost_does_not_grow_with_the_text() -> None:
    """A walk that never ended, or a history that was kept, would show as a multiple."""

    def cost(count: int) -> float:
        matcher, began = Matcher(NAMES), time.process_time()
        for _ in range(count):
            matcher.feed("a halo of air ")
        return (time.process_time() - began) / count

    assert min(cost(8000) for _ in range(3)) < 3 * min(cost(500) for _ in range(3))


@pytest.mark.parametrize("place", range(128))
def test_plain_letters_fold_alike_in_any_company(place: int) -> None:
    # A text of printable ASCII is folded by a shorter way; beside a letter that is none it is not.
    for name in (chr(place), f"A{chr(place)}B", f" {chr(place)}  X "):
        assert folded(name) == folded(f"水 {name} 水")[1:-1].strip()
