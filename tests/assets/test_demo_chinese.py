"""The demo catalogue in Chinese: the same products, numbers and pictures, in sentences of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from multimodal.pipes.catalog import Catalog, load_catalog
from multimodal.sync.cues import mention_end

DEMO = Path(__file__).resolve().parents[2] / "assets" / "demo"
CATALOG: dict[str, Any] = json.loads((DEMO / "catalog.json").read_text(encoding="utf-8"))
CHINESE: dict[str, Any] = json.loads((DEMO / "catalog.zh.json").read_text(encoding="utf-8"))


def _names(product: dict[str, Any]) -> list[str]:
    return [name.casefold() for name in (product["title"], *product["aliases"])]


def digits(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


@pytest.mark.parametrize(
    "pair", list(zip(CATALOG["products"], CHINESE["products"], strict=True)), ids=lambda pair: pair[0]["id"]
)
def test_the_chinese_catalogue_says_the_same(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    english, chinese = pair
    for name in ("id", "price", "currency", "availability"):
        assert chinese[name] == english[name]
    assert [digits(fact) for fact in chinese["facts"].values()] == [digits(fact) for fact in english["facts"].values()]
    assert digits(chinese["description"]) == digits(english["description"])
    for ours, theirs in zip(english["images"], chinese["images"], strict=True):
        assert {**ours, "alt": ""} == {**theirs, "alt": ""}
        assert 15 <= len(theirs["alt"]) <= 60
        assert theirs["alt"].endswith("。")
    assert len(chinese["aliases"]) >= 3
    assert english["title"] in chinese["aliases"]
    texts = [chinese["title"], chinese["description"], *chinese["facts"], *chinese["facts"].values()]
    for text in [*texts, *(image["alt"] for image in chinese["images"])]:
        assert re.search(r"[\u4e00-\u9fff]", text) or re.fullmatch(r"[\w ]+", text), text
        # Full-width punctuation; a full stop may stand in a number.
        assert not re.search(r"[,;:!?()]|\.(?!\d)", text), text


def test_no_chinese_name_hides_in_the_name_of_another_product() -> None:
    for one in CHINESE["products"]:
        for other in CHINESE["products"]:
            if one is not other:
                assert not [(a, b) for a in _names(one) for b in _names(other) if a in b]


def test_chinese_names_are_found_where_a_sentence_says_them() -> None:
    for product in CHINESE["products"]:
        for name in (product["title"], *product["aliases"]):
            before = f"请看这件{name}"
            assert mention_end(f"{before}，它只要几十欧元。", (product["title"], *product["aliases"])) == len(before)


def test_both_languages_share_their_pictures() -> None:
    def files(catalog: Catalog) -> list[tuple[str, Path | None]]:
        return [(picture.key, picture.path) for picture in catalog.pictures]

    assert files(load_catalog(DEMO / "catalog.json")) == files(load_catalog(DEMO / "catalog.zh.json"))
    assert CHINESE["shop"]["currency"] == CATALOG["shop"]["currency"]
    assert CHINESE["shop"]["language"] == "zh"
