"""JSON and YAML catalogues of our own form, which kind a JSON file is, and what is wrong with files."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes import feed_source
from multimodal.pipes.catalog import load_catalog
from multimodal.pipes.feed_write import write_catalog
from multimodal.values import ProductImage, ProductVariant
from tests.pipes.feeding import load, one, reasons, rejected

KETTLE: dict[str, Any] = {
    "id": "k",
    "title": "Kettle < b",
    "price": "89.00",
    "sale_price": "79.00",
    "currency": "EUR",
    "availability": "in stock",
    "facts": {"hob": "gas", "litres": 1.6, "none": None},
    "images": [{"key": "hero", "file": "a.jpg", "alt": "A", "width": 800, "height": "600"}, {"url": "https://x/b.jpg"}],
    "variants": [
        {
            "id": "red",
            "options": {"colour": "red"},
            "price": 99.5,
            "availability": "OutOfStock",
            "images": ["hero", "none"],
        },
        {"title": "Green", "images": ["https://x/b.jpg"]},
        "nonsense",
    ],
}


def test_our_own_form_with_all_its_fields(tmp_path: Path) -> None:
    product = one(tmp_path, {"products": [KETTLE]})
    assert (product.title, product.price, product.availability) == ("Kettle < b", Decimal("79.00"), "in_stock")
    assert product.facts == (("hob", "gas"), ("litres", "1.6"))
    assert product.images[0] == ProductImage("hero", "a.jpg", "A", 800, 600)
    assert product.variants == (
        ProductVariant("red", "red", (("colour", "red"),), Decimal("99.5"), "out_of_stock", ("hero",)),
        ProductVariant("k-2", "Green", (), None, "", ("k-2",)),
    )


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"products": [{"id": "k", "title": "K", "handle": "k", "variants": [{"price": "1.00"}]}]}, "shopify"),
        ({"products": [{"title": "K", "handle": "k", "body_html": ""}]}, "shopify"),
        ({"product": {"title": "K", "handle": "k", "variants": []}}, "shopify"),
        ({"shop": {}, "products": [{"title": "K", "handle": "k", "variants": []}]}, "json"),
        ({"products": [1, {"title": "K"}]}, "json"),
        ([{"id": 1, "name": "K", "prices": {"price": "100"}}], "woocommerce"),
        ({"id": 1, "name": "K", "permalink": "https://x/k", "images": []}, "woocommerce"),
        ([{"@context": "https://schema.org", "@type": "Product", "name": "K"}], "json-ld"),
    ],
)
def test_which_kind_it_is_is_told_by_its_content(tmp_path: Path, document: Any, kind: str) -> None:
    assert load(tmp_path, document).format == kind


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    document = {"products": [{"id": "k", "title": "K", "handle": "h", "variants": [], "images": ["a.jpg"]}]}
    assert load(tmp_path, document).products[0].id == "h"
    assert load(tmp_path, document, format="json").products[0].id == "k"
    with pytest.raises(UsageError, match="no format 'xlsx'; there are json, yaml"):
        load(tmp_path, document, format="xlsx")
    with pytest.raises(UsageError, match="not valid XML"):
        load(tmp_path, document, format="google")


def test_numbers_stay_exact_and_absurd_ones_are_no_prices(tmp_path: Path) -> None:
    prices = [
        "0.1",
        "1299.00",
        "1e2",
        "123456789012345.67",
        "1e999999999",
        "-5",
        "1e-30",
        "true",
        '"NaN"',
        "[]",
        "12345678901234567890123",
    ]
    rows = ", ".join(f'{{"title": "K{n}", "price": {price}}}' for n, price in enumerate(prices))
    catalog = load(tmp_path, f'{{"products": [{rows}]}}')
    found = [product.price for product in catalog.products]
    assert found == [Decimal("0.1"), Decimal("1299.00"), Decimal(100), Decimal("123456789012345.67"), *[None] * 7]


def test_what_exports_get_wrong_in_json_is_taken(tmp_path: Path) -> None:
    text = (
        '{"products": [{"title": "K", "description": "one\ntwo", "price": NaN, "w": -Infinity, "brand": "\\ud800B"}]}'
    )
    product = one(tmp_path, text)
    assert (product.description, product.price, product.brand) == ("one\ntwo", None, "B")


def test_letters_that_hurt_a_terminal_or_page_are_dropped(tmp_path: Path) -> None:
    product = one(tmp_path, {"products": [{"id": "\x1b[31mk", "title": "K\u202egnp.\x07"}]})
    assert (product.id, product.title) == ("[31mk", "Kgnp.")


HTML = """
    {"shop": {"name": "Lark &amp; Sons"}, "products": [
     {"id": "m", "title": "<b>Bold</b> Mug", "description": "<p>Of <i>clay</i>.</p><script>x()</script>",
      "brand": "R&amp;D", "aliases": ["<em>The</em> Mug"], "facts": {"<b>made</b> of": "clay &amp; tin"},
      "images": [{"file": "m.jpg?a=1&copy=2", "alt": "A <b>mug</b>"}],
      "variants": [{"id": "v", "title": "<u>Big</u>", "options": {"size": "> 5 cm &lt;b&gt;"}}]},
     {"id": "e", "title": "<br>"}, {"id": "l", "title": "Lid < 5 cm"}]}
"""


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_html_in_our_own_form_is_read_as_in_any_other(tmp_path: Path, kind: str) -> None:
    catalog = load(tmp_path, HTML, format=kind)
    assert catalog.format == kind
    mug, lid = catalog.products
    assert (catalog.shop.name, mug.title, mug.description) == ("Lark & Sons", "Bold Mug", "Of clay.")
    assert (mug.brand, mug.aliases, mug.facts) == ("R&D", ("The Mug",), (("made of", "clay & tin"),))
    assert (mug.images[0].source, mug.images[0].alt) == ("m.jpg?a=1&copy=2", "A mug")
    assert (mug.variants[0].title, mug.variants[0].options) == ("Big", (("size", "> 5 cm <b>"),))
    assert lid.title == "Lid < 5 cm"
    assert [problem.reason for problem in catalog.rejected] == ["malformed"]
    # What is left of it is no HTML any more, and is written so that it stays that.
    write_catalog(catalog, tmp_path / "again.json")
    assert load_catalog(tmp_path / "again.json").products == catalog.products


def test_a_product_that_cannot_be_decoded_fails_alone(tmp_path: Path) -> None:
    text = b'{"products": [{"title": "K"}, {"title": "L"}, 7, null, {"id": "x"}, {"id": ""}]}'
    catalog = load(tmp_path, text)
    assert [product.title for product in catalog.products] == ["K", "L"]
    assert rejected(catalog) == [(3, "malformed"), (4, "malformed"), (5, "no_title"), (6, "no_title")]


def test_bytes_that_are_not_utf8_are_named_and_other_letters_stay_right(tmp_path: Path) -> None:
    good = json.dumps({"products": [{"title": "水壶水壶", "brand": "@"}]}, ensure_ascii=False).encode()
    catalog = load(tmp_path, good.replace(b"@", b"\xff"))
    assert (catalog.products[0].title, catalog.products[0].brand) == ("水壶水壶", "\ufffd")
    assert "damaged UTF-8" in catalog.warnings[0].detail
    damaged = load(tmp_path, good.replace("水壶水壶".encode(), "水壶水".encode() + b"\xff"))
    assert [problem.detail for problem in damaged.warnings if problem.reason == "encoding"] == [
        "'水壶水\ufffd' holds the mark of letters that were lost",
        "damaged UTF-8; what is lost reads as \ufffd, 1 times",
    ]


def test_an_encoding_can_be_named(tmp_path: Path) -> None:
    text = "id,title,image\nk,水壶,k.jpg\n".encode("gb18030")
    assert load(tmp_path, text, encoding="gb18030").products[0].title == "水壶"
    with pytest.raises(UsageError, match="no encoding is called 'klingon'"):
        load(tmp_path, text, encoding="klingon")
    with pytest.raises(UsageError, match="is not text in ascii"):
        load(tmp_path, text, encoding="ascii")


def test_a_file_too_large_to_read_whole_is_refused_before_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_source, "MAX_WHOLE_BYTES", 10)
    page = "<html><script type='application/ld+json'>{}</script></html>"
    for content in ({"products": [KETTLE]}, page):
        with pytest.raises(UsageError, match="larger than 0 MiB"):
            load(tmp_path, content)


def test_a_line_without_an_end_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="longer than 16 MiB; it is no table"):
        load(tmp_path, "id,title,image\nk,K,k.jpg\n" + "x" * (17 << 20))


def test_several_files_share_ids_and_name_theirs(tmp_path: Path) -> None:
    for name, codes in (("page-1.json", "ab"), ("page-2.json", "bc")):
        document = {"products": [{"id": code, "title": code.upper()} for code in codes]}
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "page-3.json").write_text("{")
    catalog = load_catalog([tmp_path / "page-1.json", tmp_path / "page-2.json", tmp_path / "page-3.json"])
    assert [product.id for product in catalog.products] == ["a", "b", "c"]
    first, second = catalog.rejected
    assert (first.file, first.line, first.reason) == ("page-2.json", 1, "duplicate_id")
    assert "product 2 of page-1.json already" in first.detail
    assert (second.file, second.reason) == ("page-3.json", "malformed")
    assert load_catalog(tmp_path).products == catalog.products
    with pytest.raises(UsageError, match="no file of a catalogue is named"):
        load_catalog([])
    (tmp_path / "bare").mkdir()
    with pytest.raises(UsageError, match="no catalogue in the folder"):
        load_catalog(tmp_path / "bare")


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a file"):
        load_catalog("/dev/zero")


def test_the_default_currency_and_words_that_are_none(tmp_path: Path) -> None:
    rows = [
        {"title": "A", "price": 1},
        {"title": "B", "price": 1, "currency": "usd"},
        {"title": "C", "price": "1 EUR", "currency": "BUCKS"},
    ]
    catalog = load(tmp_path, {"products": rows}, currency="CHF")
    assert [product.currency for product in catalog.products] == ["CHF", "USD", "EUR"]
    assert [(problem.line, problem.reason) for problem in catalog.warnings if problem.reason == "bad_currency"] == [
        (3, "bad_currency")
    ]
    with pytest.raises(UsageError, match="currency 'euro' is no code"):
        load(tmp_path, {"products": rows}, currency="euro")


def test_progress_is_told_and_ends_at_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []
    rows = [{"id": f"k{n}", "title": "K"} for n in range(1000)]
    load(tmp_path, {"products": rows}, progress=lambda count, share: seen.append((count, share)))
    assert [count for count, _ in seen] == [256, 512, 768, 1000]
    assert [round(share, 1) for _, share in seen] == [0.3, 0.5, 0.8, 1.0]


YAML = """# the shop
shop:
  name: Larkmoor
  currency: EUR
products:
  - id: k
    title: Kettle
    price: 1.10
    aliases: [no, 2026-01-01, 0x10, ~]
    availability: yes
    images:
      - {key: hero, file: a.jpg}
      - b.jpg
    facts: {country: NO, "{}": x}
  - plain text
  - id: m
    title: |
      Mug
"""


def test_yaml_is_read_as_it_is_written(tmp_path: Path) -> None:
    catalog = load(tmp_path, YAML)
    kettle, mug = catalog.products
    assert (catalog.format, catalog.shop.name, kettle.currency) == ("yaml", "Larkmoor", "EUR")
    assert (str(kettle.price), kettle.aliases) == ("1.10", ("no", "2026-01-01", "0x10"))
    assert kettle.facts == (("country", "NO"), ("{}", "x"))
    assert [image.key for image in kettle.images] == ["hero", "k-2"]
    assert (mug.title, rejected(catalog)) == ("Mug", [(15, "malformed")])
    for other in ("- id: k\n  title: Kettle\n", "---\n" + YAML, "\ufeff" + YAML, YAML.replace("\n", "\r\n")):
        assert load(tmp_path, other).products[0].title == "Kettle"


def test_yaml_makes_no_objects_and_takes_no_bombs(tmp_path: Path) -> None:
    text = (
        "products:\n"
        "  - &a {id: a, title: A, description: !!python/object/apply:os.system [touch x]}\n"
        "  - {id: b, title: B, images: *a}\n"
        "  - {<<: [*a, *a], id: c, title: C}\n"
        f"  - {{id: d, title: D, images: {'[' * 100}{']' * 100}}}\n"
        "  - {id: e, title: E, ? [x, {y: z}] : w}\n"
    )
    catalog = load(tmp_path, text)
    assert [product.id for product in catalog.products] == ["a", "e"]
    assert rejected(catalog) == [(3, "malformed"), (4, "malformed"), (5, "malformed")]
    assert "alias *a" in catalog.rejected[0].detail
    assert "more than 16 deep" in catalog.rejected[2].detail


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("products: [\n", "not valid YAML"),
        ("products:\n  - {id: a, title: A}\n bad: [", "(?s)not valid YAML: .*line 3"),
        ("products: " + "[" * 50_000, "not valid YAML|no product|too deeply"),
        ("products: 5\n", "needs the form: shop"),
        ("shop:\n  name: x\n", "needs the form: shop"),
        ("---\njust text\n", "needs the form: shop"),
        ("title: [x]\nproducts: []\n", "no product"),
    ],
)
def test_yaml_that_is_no_catalogue(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(tmp_path, text)


def test_without_pyyaml_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match=r"pip install 'multimodal-stream\[catalog\]'"):
        load(tmp_path, YAML)
    assert reasons(load(tmp_path, {"products": [KETTLE]})) == {"not_found"}
