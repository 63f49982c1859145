"""Whatever stands in a file: it is a catalogue with reasons for what was left out, or one sentence that refuses it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.bench.catalog_files import WRITERS
from multimodal.errors import UsageError
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.feed import FORMATS
from multimodal.pipes.feed_words import AVAILABILITIES
from multimodal.pipes.price import CURRENCIES
from tests.pipes.feeding import NOW
from tests.pipes.feeds.make import FOLDER

WORDS = (
    "@context @graph @id @type @value products product shop id sku slug handle title name body_html "
    "description price prices currency_minor_unit currency_code regular_price sale_price currency offers "
    "priceSpecification priceCurrency priceType lowPrice validThrough availability image images src file key "
    "url width height alt caption variants options variesBy hasVariant isVariantOf inProductGroupWithID "
    "productGroupID variations attributes terms value parent type variation permalink brand brands vendor "
    "aliases alternateName facts additionalProperty identifier option1 featured_image image_id variant_ids "
    "status published_at mainEntity itemListElement item color size "
)
KEYS = st.sampled_from(WORDS.split())
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(
        [
            "",
            "k",
            "Product",
            "ProductGroup",
            "15.00 EUR",
            "1.299,00 €",
            "https://schema.org/InStock",
            "//x/a.jpg",
            "variation",
            "\ud800",
            "<b>",
        ]
    )
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=8), max_leaves=25
)
NAMED = {
    "@type": "Product",
    "name": "Kettle",
    "title": "Kettle",
    "handle": "k",
    "permalink": "https://x/k",
    "images": [],
}
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=12)
PRODUCTS = st.lists(ENTRIES | ENTRIES.map(lambda entry: {**NAMED, **entry}), max_size=4)


def check(path: Path, **options: Any) -> None:
    """Load it, and hold what comes to what a catalogue promises."""
    try:
        catalog = load_catalog(path, now=NOW, **options)
    except UsageError:
        return
    assert catalog.products
    assert len({product.id for product in catalog.products}) == len(catalog.products)
    assert len({picture.key for picture in catalog.pictures}) == len(catalog.pictures)
    for product in catalog.products:
        assert product.id
        assert product.title
        assert product.currency in CURRENCIES | {""}
        assert product.availability in AVAILABILITIES | {""}
        assert product.price is None or (isinstance(product.price, Decimal) and product.price >= 0)
        keys = {image.key for image in product.images}
        assert len({variant.id for variant in product.variants}) == len(product.variants)
        assert all(keys.issuperset(variant.images) for variant in product.variants)
    assert all(problem.detail and problem.reason for problem in (*catalog.rejected, *catalog.warnings))
    assert catalog.report()


@settings(deadline=None, max_examples=100)
@given(products=PRODUCTS, kind=st.sampled_from(["json", "shopify", "woocommerce", "json-ld", None]))
def test_no_json_makes_it_fall_over(
    products: list[Any], kind: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    for document in (products, {"products": products}, {"@context": "x", "@graph": products}):
        path.write_text(json.dumps(document))
        check(path, format=kind)


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(sorted(WRITERS)),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=6)), min_size=1, max_size=4),
    end=st.floats(0, 1),
)
def test_no_damage_to_a_file_makes_it_fall_over(
    kind: str, cuts: list[tuple[float, int, bytes]], end: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = (FOLDER / WRITERS[kind][0]).read_bytes()
    for place, length, instead in cuts:
        start = int(place * len(data))
        data = data[:start] + instead + data[start + length :]
    path = tmp_path_factory.getbasetemp() / "damaged.bin"
    path.write_bytes(data if end > 0.5 else data[: int(2 * end * len(data))])
    check(path)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", sorted({name for name, _, _ in WRITERS.values()}))
def test_a_format_that_is_forced_on_another_file_is_refused_or_reads_it(kind: str, name: str) -> None:
    check(FOLDER / name, format=kind)


@settings(deadline=None, max_examples=40)
@given(data=st.binary(max_size=400))
def test_no_bytes_make_it_fall_over(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.bin"
    for head in (b"", b"{", b"<rss>", b"<html>", b"products:\n  - ", b"id,title,image\n", b"\xff\xfe"):
        path.write_bytes(head + data)
        check(path)
