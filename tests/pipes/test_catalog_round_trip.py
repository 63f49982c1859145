"""Random products, written as each shop system exports them, come back as what that format can say of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.bench.catalog_files import WRITERS
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.feed_write import write_catalog
from multimodal.values import Product, ProductImage, ProductVariant

TABLES = {"csv", "tsv", "csv-decimal-comma"}
GOOGLE = {"google-tsv", "google-rss", "google-atom"}
LINKED = {"json-ld", "json-ld-page"}
OWN = {"json", "yaml"}

LETTERS = "aäßéğ水壶ポت🫖ABz09.,;:\"'()!?/#%*~^_{}[]\\"
NAMES = st.text(LETTERS, min_size=1, max_size=8)
WORDS = st.lists(NAMES, min_size=1, max_size=4).map(" ".join)
TITLES = st.builds("{} {}".format, st.sampled_from(["Kettle", "水壶", "Éclair"]), WORDS)
TEXTS = st.lists(st.text(LETTERS + "&<>=", min_size=1, max_size=8), max_size=6).map(" ".join)
ALIASES = st.text("abc水é 9", min_size=1, max_size=9).map(str.strip).filter(bool)
PRICES = st.integers(0, 10**9).map(lambda cents: Decimal(cents).scaleb(-2))


@st.composite
def products(draw: st.DrawFn) -> list[Product]:
    return [_product(draw, number) for number in range(draw(st.integers(1, 4)))]


def _product(draw: st.DrawFn, number: int) -> Product:
    code = f"p{number}{draw(st.sampled_from(['', 'é', '水', '_x']))}"
    sources = [
        f"https://shop.example/w_300,h_200/{number}-{place}.jpg?v=1&w=2" for place in range(draw(st.integers(0, 4)))
    ]
    size = st.integers(1, 9999)
    images = tuple(
        ProductImage(code if place == 0 else f"{code}-{place + 1}", source, draw(TITLES), draw(size), draw(size))
        for place, source in enumerate(sources)
    )
    stock = draw(st.sampled_from(["in_stock", "out_of_stock", ""]))
    prices = sorted(draw(st.lists(PRICES, max_size=3)))
    cuts = [0, *sorted(draw(st.integers(0, len(images))) for _ in prices[1:]), len(images)]
    names = draw(st.sampled_from([("color",), ("color", "size")]))
    variants = tuple(
        ProductVariant(
            f"{code}v{place}",
            draw(TITLES),
            tuple((name, f"{name} {place}") for name in names),
            price,
            stock,
            tuple(image.key for image in images[cuts[place] : cuts[place + 1]]),
        )
        for place, price in enumerate(prices)
    )
    price = prices[0] if prices else draw(st.none() | PRICES)
    facts = draw(st.dictionaries(ALIASES, TEXTS.filter(bool), max_size=3))
    return Product(
        code,
        draw(TITLES),
        tuple(draw(st.lists(ALIASES, max_size=2))),
        draw(TEXTS),
        draw(st.just("") | TITLES),
        price,
        "" if price is None else draw(st.sampled_from(["EUR", "JPY", "INR"])),
        stock,
        f"https://shop.example/{number}?a=1&b=2",
        images,
        variants,
        tuple(facts.items()),
    )


def said(product: Product, kind: str) -> Product:
    """What is left of a product that was written in a format."""
    if kind in OWN:
        return product
    change = msgspec.structs.replace
    images, variants = product.images, product.variants
    if kind not in LINKED | {"shopify"}:
        images = tuple(change(image, width_px=0, height_px=0) for image in images)
    if kind in TABLES:
        images = tuple(change(image, alt=images[0].alt) for image in images)
    elif kind in GOOGLE | {"woocommerce-csv"}:
        images = tuple(change(image, alt=product.title) for image in images)
    if kind in GOOGLE:
        variants = tuple(change(variant, title=product.title) for variant in variants)
    return change(
        product,
        aliases=product.aliases if kind in TABLES | LINKED else (),
        facts=product.facts if kind in LINKED | {"woocommerce", "woocommerce-csv"} else (),
        currency="" if kind in {"shopify", "woocommerce-csv"} else product.currency,
        url="" if kind in {"shopify", "woocommerce-csv"} else product.url,
        images=images,
        variants=variants,
    )


@pytest.mark.parametrize("kind", WRITERS)
@settings(deadline=None, max_examples=20)
@given(written=products())
def test_what_is_written_comes_back(
    kind: str, written: list[Product], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, recognised, writer = WRITERS[kind]
    path = tmp_path_factory.getbasetemp() / f"{kind}.bin"
    path.write_bytes(writer(written).encode())
    catalog = load_catalog(path)
    assert catalog.format == recognised
    assert catalog.rejected == ()
    assert {problem.reason for problem in catalog.warnings} <= {"no_picture", "shared_name"}
    assert list(catalog.products) == [said(product, kind) for product in written]


@settings(deadline=None, max_examples=20)
@given(written=products())
def test_an_import_is_read_back_as_it_was(written: list[Product], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "again.html").write_text(WRITERS["json-ld-page"][2](written), encoding="utf-8")
    first = load_catalog(folder / "again.html")
    write_catalog(first, Path(folder, "again.json"), replace=True)
    again = load_catalog(folder / "again.json")
    assert (again.products, again.format) == (first.products, "json")
