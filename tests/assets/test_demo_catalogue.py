"""The demo catalogue keeps its own promises: pictures, facts and narration agree to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from multimodal.pipes.catalog import load_catalog

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DEMO = ASSETS / "demo"
CATALOG: dict[str, Any] = json.loads((DEMO / "catalog.json").read_text(encoding="utf-8"))
TOUR: dict[str, Any] = json.loads((DEMO / "tour.json").read_text(encoding="utf-8"))
PRODUCTS: dict[str, dict[str, Any]] = {product["id"]: product for product in CATALOG["products"]}
SHOWN: list[dict[str, str]] = [image for product in PRODUCTS.values() for image in product["images"]]
IMAGES = [image for image in SHOWN if image["view"] != "turn"]
TURNS = [image for image in SHOWN if image["view"] == "turn"]
CLIPS = sorted((DEMO / "clips").glob("*"))
SEGMENTS: list[dict[str, Any]] = [segment for segment in TOUR["segments"] if segment["sku"] is not None]
SAMPLES = sorted((ASSETS / "samples" / "kettle").glob("*"))

# Numbers that a narrator may spell; "one" is left out, because it is more often a pronoun.
SPELLED = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred"


def names(product: dict[str, Any]) -> list[str]:
    return [name.casefold() for name in (product["title"], *product["aliases"])]


def test_sixteen_products_with_two_pictures_each_and_two_that_turn() -> None:
    assert len(PRODUCTS) == len(CATALOG["products"]) == 16
    for product in PRODUCTS.values():
        views = [image["view"] for image in product["images"]]
        assert views[0] == "hero"
        assert views.count("hero") == 1
        assert len([view for view in views if view != "turn"]) == 2
        assert views[2:] in ([], ["turn"])
    assert len(TURNS) == 2


def test_keys_are_unique_and_name_the_file() -> None:
    keys = [image["key"] for image in SHOWN]
    assert len(set(keys)) == len(keys)
    for image in SHOWN:
        assert image["file"] in (f"pictures/{image['key']}.jpg", f"clips/{image['key']}.webm")


def test_no_file_lies_about_unused() -> None:
    assert {path.name for path in (DEMO / "pictures").iterdir()} == {Path(image["file"]).name for image in IMAGES}
    assert {path.name for path in CLIPS} == {f"{turn['key']}{suffix}" for turn in TURNS for suffix in (".webm", ".mp4")}


@pytest.mark.parametrize("name", ["catalog.json", "catalog.zh.json"])
def test_the_catalogue_is_read_without_a_complaint(name: str) -> None:
    catalog = load_catalog(DEMO / name)
    assert (catalog.rejected, catalog.warnings, catalog.unpublished) == ((), (), ())
    assert [product.id for product in catalog.products] == list(PRODUCTS)
    assert all(picture.path is not None for picture in catalog.pictures)
    assert {picture.key for picture in catalog.pictures if picture.clip} == {turn["key"] for turn in TURNS}


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


@pytest.mark.parametrize("image", SHOWN, ids=lambda image: image["key"])
def test_alternative_text_describes(image: dict[str, str]) -> None:
    alt = image["alt"]
    assert 40 <= len(alt) <= 160
    assert alt.endswith(".")
    assert not re.search(r"\b(image|picture|photo|photograph|render|clip|video)\b", alt, re.IGNORECASE)


def test_alternative_texts_differ() -> None:
    assert len({image["alt"] for image in SHOWN}) == len(SHOWN)


def test_no_two_pictures_are_alike() -> None:
    small = {}
    for image in IMAGES:
        with Image.open(DEMO / image["file"]) as picture:
            small[image["key"]] = np.asarray(picture.convert("L").resize((16, 16)), dtype=float)
    keys = list(small)
    pairs = [(a, b) for number, a in enumerate(keys) for b in keys[:number]]
    # Levels of 0 to 255, root of the mean square; the two closest views of one product are some ten levels apart.
    assert not [pair for pair in pairs if np.sqrt(np.mean((small[pair[0]] - small[pair[1]]) ** 2)) < 5]


def test_one_paper_and_one_light_in_all_pictures() -> None:
    corners = []
    for image in IMAGES:
        with Image.open(DEMO / image["file"]) as picture:
            corners.append(np.asarray(picture.convert("L"), dtype=float)[8:72, 8:72].mean())
    # The paper's tint changes, how bright it stands behind the product does not.
    assert min(corners) > 120
    assert max(corners) < 245


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


def test_the_tour_visits_eight_products_once_between_two_frames() -> None:
    # Two minutes and a half is a walk; all sixteen products would be a lecture.
    assert [segment["sku"] is None for segment in TOUR["segments"]] == [True, *[False] * 8, True]
    assert "eight things on the table" in TOUR["segments"][0]["text"]
    visited = [segment["sku"] for segment in SEGMENTS]
    assert sorted(set(visited)) == sorted(visited)
    assert set(visited) < set(PRODUCTS)
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
    # What is installed; the scene is not, and the narrator's weights, if they are there, have a budget of their own.
    files = [path for folder in (DEMO, ASSETS / "samples") for path in data_files(folder)]
    assert sum(path.stat().st_size for path in files if DEMO / "scene" not in path.parents) < 3_900_000


def test_licences_name_every_folder_of_files() -> None:
    text = (ASSETS / "LICENSES.md").read_text(encoding="utf-8")
    # Files at the top of assets/ and demo/ are named one by one, whole folders by a pattern.
    folders = {path.parent.relative_to(ASSETS).as_posix() for path in data_files(ASSETS)} - {".", "demo"}
    assert not [folder for folder in folders if f"`{folder}/" not in text]
    assert "`demo/catalog.json`" in text
    assert "`demo/catalog.zh.json`" in text
    assert "`demo/tour.json`" in text
