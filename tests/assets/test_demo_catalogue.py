"""The demo catalogue keeps its own promises: pictures, facts and narration agree to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DEMO = ASSETS / "demo"
CATALOG: dict[str, Any] = json.loads((DEMO / "catalog.json").read_text(encoding="utf-8"))
TOUR: dict[str, Any] = json.loads((DEMO / "tour.json").read_text(encoding="utf-8"))
PRODUCTS: dict[str, dict[str, Any]] = {product["id"]: product for product in CATALOG["products"]}
IMAGES: list[dict[str, str]] = [image for product in PRODUCTS.values() for image in product["images"]]
SEGMENTS: list[dict[str, Any]] = [segment for segment in TOUR["segments"] if segment["sku"] is not None]
SAMPLES = sorted((ASSETS / "samples" / "kettle").glob("*"))

# Numbers that a narrator may spell; "one" is left out, because it is more often a pronoun.
SPELLED = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred"


def names(product: dict[str, Any]) -> list[str]:
    return [name.casefold() for name in (product["title"], *product["aliases"])]


def test_eight_products_with_two_pictures_each() -> None:
    assert len(PRODUCTS) == len(CATALOG["products"]) == 8
    for product in PRODUCTS.values():
        assert [image["view"] for image in product["images"]].count("hero") == 1
        assert len(product["images"]) == 2
        assert product["images"][0]["view"] == "hero"


def test_keys_are_unique_and_name_the_file() -> None:
    keys = [image["key"] for image in IMAGES]
    assert len(set(keys)) == len(keys)
    for image in IMAGES:
        assert image["file"] == f"pictures/{image['key']}.jpg"


def test_no_picture_lies_about_unused() -> None:
    on_disk = {path.name for path in (DEMO / "pictures").iterdir()}
    assert on_disk == {Path(image["file"]).name for image in IMAGES}


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image["key"])
def test_picture_is_a_plain_square_jpeg(image: dict[str, str]) -> None:
    with Image.open(DEMO / image["file"]) as picture:
        picture.load()
        assert picture.format == "JPEG"
        assert picture.mode == "RGB"
        assert picture.size == (960, 960)
        assert len(picture.getexif()) == 0
        assert not {"exif", "icc_profile", "comment", "xmp"} & set(picture.info)


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image["key"])
def test_picture_weighs_what_a_photograph_weighs(image: dict[str, str]) -> None:
    # A denoised render without grain would come out near 30 kB and flatter every transport figure.
    assert 80_000 < (DEMO / image["file"]).stat().st_size < 260_000


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image["key"])
def test_picture_is_exposed_without_clipping(image: dict[str, str]) -> None:
    with Image.open(DEMO / image["file"]) as picture:
        levels = picture.convert("L").histogram()
    total = sum(levels)
    assert sum(levels[254:]) / total < 0.005
    assert sum(levels[:2]) / total < 0.005


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image["key"])
def test_alternative_text_describes(image: dict[str, str]) -> None:
    alt = image["alt"]
    assert 40 <= len(alt) <= 160
    assert alt.endswith(".")
    assert not re.search(r"\b(image|picture|photo|photograph|render)\b", alt, re.IGNORECASE)


def test_alternative_texts_differ() -> None:
    assert len({image["alt"] for image in IMAGES}) == len(IMAGES)


def test_no_name_hides_in_the_name_of_another_product() -> None:
    for one in PRODUCTS.values():
        for other in PRODUCTS.values():
            if one is not other:
                assert not [(a, b) for a in names(one) for b in names(other) if a in b]


def test_products_are_complete() -> None:
    for product in PRODUCTS.values():
        assert re.fullmatch(r"\d+\.\d\d", product["price"])
        assert product["currency"] == CATALOG["shop"]["currency"] == "EUR"
        assert product["availability"] == "in_stock"
        assert product["brand"] == CATALOG["shop"]["name"]
        assert product["description"]
        assert product["facts"]["material"]


def test_the_tour_visits_every_product_once_between_two_frames() -> None:
    assert [segment["sku"] is None for segment in TOUR["segments"]] == [True, *[False] * len(PRODUCTS), True]
    assert sorted(segment["sku"] for segment in SEGMENTS) == sorted(PRODUCTS)
    assert TOUR["language"] == CATALOG["shop"]["language"]


def test_the_tour_is_as_long_as_a_visitor_listens() -> None:
    assert 300 <= sum(len(segment["text"].split()) for segment in TOUR["segments"]) <= 380
    for segment in TOUR["segments"]:
        assert segment["text"] == segment["text"].strip()


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment["sku"])
def test_segment_names_its_product_then_shows_the_second_picture(segment: dict[str, Any]) -> None:
    product, text = PRODUCTS[segment["sku"]], segment["text"]
    assert text.count(product["title"]) == 1
    assert not [name for name in names(product)[1:] if name in text.casefold()]
    assert [cue["key"] for cue in segment["cues"]] == [product["images"][1]["key"]]
    for cue in segment["cues"]:
        assert text.count(cue["at"]) == 1
        assert text.index(cue["at"]) > text.index(product["title"]) + len(product["title"])


@pytest.mark.parametrize("segment", TOUR["segments"], ids=lambda segment: str(segment["sku"]))
def test_segment_names_no_other_product(segment: dict[str, Any]) -> None:
    others = [product for key, product in PRODUCTS.items() if key != segment["sku"]]
    assert not [name for product in others for name in names(product) if name in segment["text"].casefold()]


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment["sku"])
def test_every_number_said_stands_in_the_catalogue(segment: dict[str, Any]) -> None:
    product, text = PRODUCTS[segment["sku"]], segment["text"]
    known = " ".join(product["facts"].values())
    prices = re.findall(r"(\d+) euros", text)
    assert prices == [product["price"].removesuffix(".00")]
    # Number and unit together: "1.6 litres" is a fact, "1.6" alone is not.
    for quantity in re.findall(r"\d+(?:\.\d+)? (?!euros)\w+", text):
        assert quantity in known
    for word in re.findall(rf"\b(?:{SPELLED})\b", text, re.IGNORECASE):
        assert word.casefold() in known.casefold().split()


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment["sku"])
def test_every_material_said_stands_in_the_catalogue(segment: dict[str, Any]) -> None:
    known = " ".join(PRODUCTS[segment["sku"]]["facts"].values()).casefold()
    materials = r"\b(ash|brass|oak|walnut|stoneware|terracotta|linen|ceramic|glass|steel|enamel|cobalt|clay)\b"
    for word in re.findall(materials, segment["text"].casefold()):
        assert word in known


def test_three_small_kettle_samples() -> None:
    assert len(SAMPLES) == 3
    for path in SAMPLES:
        assert path.stat().st_size < 40_000
        with Image.open(path) as picture:
            picture.load()
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (400, 400))
            assert len(picture.getexif()) == 0


def data_files(folder: Path) -> list[Path]:
    """What is data here: no byte code and no tool's cache."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return [
        path for path in found if not any(p.startswith((".", "__pycache__")) for p in path.relative_to(ASSETS).parts)
    ]


def test_demo_data_stays_small() -> None:
    # The narrator's weights, if they are there, have a budget of their own.
    files = [path for folder in (DEMO, ASSETS / "samples") for path in data_files(folder)]
    assert sum(path.stat().st_size for path in files) < 3_200_000


def test_licences_name_every_folder_of_files() -> None:
    text = (ASSETS / "LICENSES.md").read_text(encoding="utf-8")
    # Files at the top of assets/ and demo/ are named one by one, whole folders by a pattern.
    folders = {path.parent.relative_to(ASSETS).as_posix() for path in data_files(ASSETS)} - {".", "demo"}
    assert not [folder for folder in folders if f"`{folder}/" not in text]
    assert "`demo/catalog.json`" in text
    assert "`demo/tour.json`" in text
