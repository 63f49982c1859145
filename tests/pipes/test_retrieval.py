"""Which product a text is about: by words, by meaning, and by both; with a real model and with one that is scripted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from multimodal.errors import UsageError
from multimodal.pipes.catalog import Catalog, load_catalog
from multimodal.pipes.embedders import E5Embedder
from multimodal.pipes.retrieval import QUERIES_KEPT, Retriever
from multimodal.pipes.word_index import WordIndex
from multimodal.sync.meaning import Meaning
from multimodal.values import Product, ProductImage

KETTLE = Product(
    "kettle",
    "Halo Kettle",
    ("水壶",),
    "Boils water quickly.",
    images=(ProductImage("k1", "k1.jpg", "a green kettle"), ProductImage("k2", "k2.jpg", "the narrow spout")),
    facts=(("capacity", "1.6 litres"),),
)
MUG = Product("mug", "Moss Mug", (), "For coffee and tea.", images=(ProductImage("m", "m.jpg", "a mug"),))
LAMP = Product("lamp", "Vesper Lamp", ("台灯",), "Light to read by.")
SHOP = [KETTLE, MUG, LAMP]


class Scripted:
    """Knows three subjects: hot water, drinking, light."""

    spread = 0.2
    subjects = (("boil", "kettle", "spout", "steam"), ("coffee", "mug", "drink", "steam"), ("lamp", "light", "night"))

    def __init__(self) -> None:
        self.asked: list[str] = []

    def passages(self, texts: Sequence[str]) -> Any:
        return [self._vector(text) for text in texts]

    def query(self, text: str) -> Any:
        self.asked.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        return [0.1 + sum(word in text.casefold() for word in words) for words in self.subjects]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("the halo kettles", "kettle"),
        ("Moss Mug's price", "mug"),
        ("这个水壶多少钱", "kettle"),
        ("台灯", "lamp"),
        ("how many litres", "kettle"),
        ("something for tea", "mug"),
    ],
)
def test_by_words_alone(text: str, best: str) -> None:
    hits = Retriever(SHOP).search(text)
    assert hits[0].product == best
    assert 0 < hits[0].words <= 1
    assert hits[0].likeness == 0


def test_what_shares_no_word_is_not_found_by_words() -> None:
    assert Retriever(SHOP).search("bicycle") == []
    assert Retriever(SHOP).search("  ") == []
    assert Retriever([]).search("kettle") == []


@pytest.mark.parametrize(("text", "best"), [("boiling", "kettle"), ("a drink", "mug"), ("at night", "lamp")])
def test_by_meaning_where_no_word_is_shared(text: str, best: str) -> None:
    hits = Retriever(SHOP, Scripted()).search(text)
    assert hits[0].product == best
    assert len(hits) == 3
    assert hits[0].likeness > hits[1].likeness


def test_words_and_meaning_decide_together() -> None:
    # "steam" means both; the name that is said decides.
    assert Retriever(SHOP, Scripted()).search("steam from the Moss one")[0].product == "mug"
    assert Retriever(SHOP, Scripted()).search("steam from the Halo one")[0].product == "kettle"


def test_the_picture_that_fits_and_the_reason_are_told() -> None:
    drawn = msgspec.structs.replace(KETTLE, images=(KETTLE.images[0], ProductImage("k2", "k2.jpg", "boils, steam")))
    hit = Retriever([drawn, MUG], Scripted()).search("boil steam", 1)[0]
    assert (hit.product, hit.picture) == ("kettle", "k2")
    assert hit.because.startswith("Halo Kettle")
    assert Retriever(SHOP).search("narrow kettle spout", 1)[0].picture == "k2"
    assert Retriever(SHOP).search("Vesper", 1)[0].picture == ""


def test_a_model_of_pictures_chooses_the_picture() -> None:
    class Scorer:
        def scores(self, text: str, keys: Sequence[str]) -> Sequence[float]:
            return [float(key == "k1") for key in keys]

    assert Retriever(SHOP, Scripted(), Scorer()).search("its spout", 1)[0].picture == "k1"

    class Wrong:
        def scores(self, text: str, keys: Sequence[str]) -> Sequence[float]:
            return [1.0]

    with pytest.raises(UsageError, match="1 numbers for 2 pictures"):
        Retriever(SHOP, scorer=Wrong()).search("kettle")


def test_a_text_is_embedded_once_and_not_for_ever() -> None:
    embedder = Scripted()
    retriever = Retriever(SHOP, embedder)
    for _ in range(3):
        retriever.search("steam")
        retriever.embed("steam")
    assert embedder.asked == ["steam"]
    for number in range(QUERIES_KEPT):
        retriever.embed(f"text {number}")
    retriever.embed("steam")
    assert embedder.asked.count("steam") == 2


def test_it_feeds_the_cues_by_meaning() -> None:
    retriever = Retriever(SHOP, Scripted())
    meaning = Meaning(SHOP, retriever.embed, threshold=0.7)
    assert meaning.about("it will boil in a minute", None) == "kettle"
    assert meaning.about("a light at night", "kettle") == "lamp"
    with pytest.raises(UsageError, match="no embedder"):
        Retriever(SHOP).embed("x")


@pytest.mark.parametrize("vectors", [[[1.0, 2.0]], [[1.0], [2.0, 3.0]], [[float("nan")] * 3] * 9, "x"])
def test_an_embedder_that_gives_something_else_is_said(vectors: Any) -> None:
    class Broken(Scripted):
        def passages(self, texts: Sequence[str]) -> Any:
            return vectors

    with pytest.raises(UsageError, match="embedder"):
        Retriever(SHOP, Broken())


def test_a_query_of_another_length_is_said() -> None:
    class Broken(Scripted):
        def query(self, text: str) -> Any:
            return [1.0, 2.0]

    with pytest.raises(UsageError, match="2 numbers"):
        Retriever(SHOP, Broken()).search("kettle")
    with pytest.raises(UsageError, match="limit=0"):
        Retriever(SHOP).search("kettle", 0)


def test_shares_are_shares() -> None:
    index = WordIndex(["red kettle red kettle", "red mug", ""])
    assert index.shares("") == [0.0, 0.0, 0.0]
    kettle = index.shares("kettle")
    assert 0 < kettle[0] < 1
    assert kettle[1] == 0
    assert WordIndex([]).shares("a") == []
    # A word that all share says less than one that few have.
    both = index.shares("red mug")
    assert both[1] > both[0] > 0


QUESTIONS = {
    "something to boil water in": "halo-kettle",
    "a thing to drink coffee from": "pebbledash-mug",
    "fresh flowers on the table": "tidewater-vase",
    "grind pepper at dinner": "grindle-mill",
    "light to read by at night": "vesper-lamp",
    "know what time it is in the morning": "merrin-clock",
    "sit down for a moment": "otterby-stool",
    "pour wine or water at table": "brooklet-carafe",
    "烧水的壶": "halo-kettle",
    "喝咖啡的杯子": "pebbledash-mug",
    "插花": "tidewater-vase",
    "研磨胡椒": "grindle-mill",
    "晚上看书的灯": "vesper-lamp",
    "早上看时间": "merrin-clock",
    "坐的凳子": "otterby-stool",
    "倒水的玻璃瓶": "brooklet-carafe",
}


def test_a_real_model_finds_what_no_product_is_called() -> None:
    """Over the demo's first eight products, asked in English and in Chinese, of which they hold not a word."""
    products = load_catalog(Path(__file__).parents[2] / "assets" / "demo" / "catalog.json").products
    asked = [product for product in products if product.id in QUESTIONS.values()]
    retriever, words = Retriever(asked, E5Embedder()), Retriever(asked)
    found = {text: [hit.product for hit in retriever.search(text, 3)] for text in QUESTIONS}
    first = sum(found[text][0] == wanted for text, wanted in QUESTIONS.items())
    among = sum(wanted in found[text] for text, wanted in QUESTIONS.items())
    by_words = sum(wanted in [hit.product for hit in words.search(text, 3)] for text, wanted in QUESTIONS.items())
    assert first >= 10, found
    assert among >= 13, found
    assert by_words <= 6, "words alone would do: the test shows nothing of meaning"
    vector = retriever.embed("烧水的壶")
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("products", "says"),
    [
        (Catalog((), ()), "give catalog.products"),
        (3, "a list of Product"),
        ("kettle", "a list of Product"),
        (["kettle"], r"products\[0\] is 'kettle'"),
    ],
)
def test_what_is_no_list_of_products_is_said(products: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Retriever(products)


def test_what_is_no_text_to_search_for_is_said() -> None:
    retriever = Retriever([Product("kettle", "Halo Kettle")])
    for wrong in (None, 3, b"kettle"):
        with pytest.raises(UsageError, match="search: text="):
            retriever.search(wrong)  # type: ignore[arg-type]
    for limit in (0, 1.5, True, "3"):
        with pytest.raises(UsageError, match="limit="):
            retriever.search("kettle", limit)  # type: ignore[arg-type]
