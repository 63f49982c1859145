"""Shopify's products.json and CSV, WooCommerce's JSON and CSV, Google's TSV, and other tables of shops."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from multimodal.pipes.catalog import load_catalog
from tests.pipes.feeding import load, one, reasons, rejected


def shopify(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "handle": "coat", "title": "Coat &amp; Hat", "body_html": "<p>Warm</p>", "vendor": "L", **fields}


SIZES: dict[str, Any] = {
    "options": [{"name": "Size", "position": 1}, {"name": "Colour", "position": 2}],
    "images": [
        {"id": 11, "src": "https://cdn/a.jpg?v=1", "width": 800, "height": 600, "variant_ids": []},
        {"id": 12, "src": "//cdn/b.jpg", "alt": "B", "variant_ids": [102]},
    ],
    "variants": [
        {
            "id": 101,
            "title": "S / red",
            "option1": "S",
            "option2": "red",
            "sku": "c-s",
            "price": "20.00",
            "available": False,
        },
        {
            "id": 102,
            "title": "M / red",
            "option1": "M",
            "option2": "red",
            "sku": "",
            "price": "18.00",
            "available": True,
        },
        {
            "id": 103,
            "title": "L",
            "option1": "L",
            "sku": "c-s",
            "price": "21",
            "featured_image": {"src": "https://cdn/c.jpg"},
        },
        {
            "id": 104,
            "title": "XL",
            "option1": "XL",
            "price": "22",
            "image_id": 11,
            "inventory_management": "shopify",
            "inventory_quantity": 0,
            "inventory_policy": "continue",
        },
    ],
}


def test_shopifys_variants_and_their_pictures(tmp_path: Path) -> None:
    product = one(tmp_path, {"products": [shopify(**SIZES)]}, currency="EUR")
    assert (product.id, product.title, product.description, product.brand) == ("coat", "Coat & Hat", "Warm", "L")
    assert (product.price, product.currency, product.availability) == (Decimal("18.00"), "EUR", "in_stock")
    assert [(image.source, image.width_px, image.alt) for image in product.images] == [
        ("https://cdn/a.jpg?v=1", 800, "Coat & Hat"),
        ("https://cdn/b.jpg", 0, "B"),
        ("https://cdn/c.jpg", 0, "Coat & Hat"),
    ]
    assert [(v.id, v.options[0], v.price, v.availability, v.images) for v in product.variants] == [
        ("101", ("Size", "S"), Decimal("20.00"), "out_of_stock", ()),  # two variants share the SKU c-s
        ("102", ("Size", "M"), Decimal("18.00"), "in_stock", ("coat-2",)),
        ("103", ("Size", "L"), Decimal(21), "", ("coat-3",)),
        ("104", ("Size", "XL"), Decimal(22), "backorder", ("coat",)),
    ]


def test_shopifys_pages_drafts_and_broken_products(tmp_path: Path) -> None:
    only = {"id": 5, "title": "Default Title", "option1": "Default Title", "price": "9.00", "compare_at_price": "12.00"}
    pages = [
        [shopify(variants=[only]), shopify(handle="draft", status="draft")],
        [
            shopify(handle="hidden", published_at=None),
            "x",
            shopify(handle="bare", variants="x", images={}, options=None),
        ],
    ]
    for number, products in enumerate(pages, 1):
        (tmp_path / f"products-{number}.json").write_text(json.dumps({"products": products}))
    catalog = load_catalog(tmp_path)
    assert catalog.format == "shopify"
    assert [(product.id, product.price, product.variants) for product in catalog.products] == [
        ("coat", Decimal("9.00"), ()),
        ("bare", None, ()),
    ]
    assert rejected(catalog) == [(2, "malformed")]
    assert [(problem.file, problem.line) for problem in catalog.unpublished] == [
        ("products-1.json", 2),
        ("products-2.json", 1),
    ]
    assert "2 rows are not published" in catalog.report()


def test_shopifys_csv_lists_variants_and_pictures_side_by_side(tmp_path: Path) -> None:
    text = (
        "Handle,Title,Body (HTML),Vendor,Published,Option1 Name,Option1 Value,Variant SKU,Variant Price,Image Src,"
        "Variant Image\n"
        "coat,Coat,<p>Warm</p>,L,TRUE,Size,S,c-s,20.00,https://cdn/a.jpg,\n"
        "coat,,,,,,M,c-m,18.00,https://cdn/b.jpg,https://cdn/m.jpg\n"
        "coat,,,,,,,,,https://cdn/c.jpg,\n"
        "mug,Mug,,L,true,Title,Default Title,m-1,9.00,https://cdn/mug.jpg,\n"
        "old,Old,,L,false,Title,Default Title,,1.00,,\n"
        "old,,,,,,,o-2,1.00,,\n"
    )
    catalog = load(tmp_path, text)
    coat, mug = catalog.products
    assert [(v.id, v.options, v.price, v.images) for v in coat.variants] == [
        ("c-s", (("Size", "S"),), Decimal("20.00"), ()),
        ("c-m", (("Size", "M"),), Decimal("18.00"), ("coat-3",)),
    ]
    assert [image.source[-5:] for image in coat.images] == ["a.jpg", "b.jpg", "m.jpg", "c.jpg"]
    assert (coat.price, mug.variants, mug.price) == (Decimal("20.00"), (), Decimal("9.00"))
    assert (rejected(catalog), [problem.line for problem in catalog.unpublished]) == ([], [6, 7])


def woo(number: int = 1, **fields: Any) -> dict[str, Any]:
    prices = {
        "price": "1500",
        "regular_price": "1800",
        "sale_price": "1500",
        "currency_code": "USD",
        "currency_minor_unit": 2,
    }
    return {
        "id": number,
        "name": "Caf&eacute; Mug",
        "slug": f"mug-{number}",
        "sku": "",
        "parent": 0,
        "prices": prices,
        **fields,
    }


@pytest.mark.parametrize(
    ("minor", "price", "expected"),
    [
        (2, "1500", "15.00"),
        (0, "1500", "1500"),
        (3, "1500", "1.500"),
        (2, "5", "0.05"),
        (None, "1500", "15.00"),
        (99, "1500", "15.00"),
    ],
)
def test_the_store_api_counts_the_smallest_coin(tmp_path: Path, minor: Any, price: str, expected: str) -> None:
    prices = {"price": price, "currency_code": "USD", "currency_minor_unit": minor}
    product = one(tmp_path, [woo(prices=prices)])
    assert (str(product.price), product.currency, product.title) == (expected, "USD", "Café Mug")


def test_the_store_apis_variations_join_their_product_wherever_they_stand(tmp_path: Path) -> None:
    red = {"id": 12, "attributes": [{"name": "Colour", "value": "Red"}]}
    parent = woo(
        10,
        sku="mug",
        type="variable",
        variations=[red, {"id": 13, "attributes": [{"name": "Colour", "value": "Blue"}]}],
        images=[{"id": 1, "src": "https://x/m.jpg", "alt": "A &amp; B"}],
        attributes=[{"name": "Colour", "terms": [{"name": "Red"}, {"name": "Blue"}]}],
        brands=[{"name": "L"}],
        short_description="<p>Short</p>",
        is_in_stock=True,
    )
    child = woo(
        12, type="variation", parent=10, name="Mug - Red", images=[{"src": "https://x/r.jpg"}], is_in_stock=False
    )
    for items in ([parent, child], [child, parent]):
        product = one(tmp_path, items)
        assert (product.id, product.brand, product.description) == ("mug", "L", "Short")
        assert (product.availability, product.facts) == ("in_stock", (("Colour", "Red, Blue"),))
        assert (product.images[0].source, product.images[0].alt) == ("https://x/m.jpg", "A & B")
        assert {v.id: (v.title, v.options, v.price, v.availability) for v in product.variants} == {
            "12": ("Mug - Red", (("Colour", "Red"),), Decimal("15.00"), "out_of_stock"),
            "13": ("Blue", (("Colour", "Blue"),), None, ""),
        }
    orphan = load(tmp_path, [woo(1), child])
    assert rejected(orphan) == [(2, "no_parent")]


def test_woocommerces_rest_api_has_prices_in_units_and_sales_with_dates(tmp_path: Path) -> None:
    item = {
        "id": 7,
        "name": "Mug",
        "permalink": "https://x/mug",
        "images": [],
        "status": "publish",
        "stock_status": "onbackorder",
    }
    item |= {
        "price": "18.00",
        "regular_price": "18.00",
        "sale_price": "15.00",
        "date_on_sale_to": "2026-05-01T00:00:00",
    }
    product = one(tmp_path, [item])
    assert (product.price, product.availability, product.url) == (Decimal("18.00"), "backorder", "https://x/mug")
    assert one(tmp_path, [item | {"date_on_sale_to": "2026-07-01T00:00:00"}]).price == Decimal("15.00")
    assert reasons(load(tmp_path, [item, item | {"id": 8, "status": "draft"}])) == {"no_picture", "unpublished"}


WOO = (
    "ID,Type,SKU,Name,Published,Short description,Description,In stock?,Sale price,Regular price,Images,Parent,"
    "Attribute 1 name,Attribute 1 value(s)\n"
)


def test_woocommerces_csv(tmp_path: Path) -> None:
    text = WOO + (
        '1,"simple, virtual",mug,Mug,1,,<p>One</p>\\n<p>Two</p>,1,15,18,"https://x/a,b.jpg, https://x/c.jpg",,Hob,gas\n'
        "21,variation,,Coat - S,1,,,0,,20,https://x/s.jpg,id:20,Size,S\n"  # before its product
        '20,variable,coat,Coat,1,Short,,,,,https://x/coat.jpg,,Size,"S, M"\n'
        "22,variation,coat-m,Coat - M,1,,,backorder,,18,,coat,Size,M\n"
        "23,variation,coat-l,Coat - L,0,,,1,,18,,coat,Size,L\n"
        "24,variation,lost-1,Lost,1,,,1,,18,,lost,Size,L\n"
        "30,simple,'=cmd,Draft,-1,,,1,,5,,,,\n"
        "31,variation,draft-1,Draft - S,1,,,1,,5,,id:30,Size,S\n"
    )
    catalog = load(tmp_path, text)
    mug, coat = catalog.products
    assert catalog.format == "woocommerce-csv"
    assert (mug.price, mug.availability, mug.description, mug.facts) == (
        Decimal(15),
        "in_stock",
        "One Two",
        (("Hob", "gas"),),
    )
    assert [image.source for image in mug.images] == ["https://x/a,b.jpg", "https://x/c.jpg"]
    assert (coat.price, coat.description, coat.facts) == (Decimal(18), "Short", (("Size", "S, M"),))
    assert {(v.id, v.title, v.options, v.price, v.availability) for v in coat.variants} == {
        ("21", "Coat - S", (("Size", "S"),), Decimal(20), "out_of_stock"),
        ("coat-m", "Coat - M", (("Size", "M"),), Decimal(18), "backorder"),
    }
    assert rejected(catalog) == [(7, "no_parent")]
    assert [problem.line for problem in catalog.unpublished] == [6, 8, 9]


def test_googles_tsv(tmp_path: Path) -> None:
    text = (
        "id\ttitle\tlink\timage_link\tadditional_image_link\tavailability\tprice\tsale_price\t"
        "sale_price_effective_date\titem_group_id\tsize\n"
        'k1\tCoat "S"\thttps://x/k\thttps://x/1.jpg\thttps://x/2.jpg,https://x/3.jpg\tin stock\t20.00 USD\t'
        "15.00 USD\t2026-05-01/2026-07-01\tcoat\tS\n"
        "m\tMug\thttps://x/m\thttps://x/m.jpg\t\tpreorder\t9 USD\t5 USD\t2025-05-01/2025-07-01\t\t\n"
        "k2\tCoat M\thttps://x/k\thttps://x/4.jpg\t\tnowhere\t20.00 USD\t\t\tcoat\tM\n"
    )
    catalog = load(tmp_path, text)
    coat, mug = catalog.products
    assert [(v.id, v.price, v.availability) for v in coat.variants] == [
        ("k1", Decimal("15.00"), "in_stock"),
        ("k2", Decimal("20.00"), ""),
    ]
    assert (coat.id, len(coat.images), coat.price) == ("coat", 4, Decimal("15.00"))
    assert (mug.price, mug.availability) == (Decimal(9), "preorder")
    assert reasons(catalog) == {"bad_availability"}


def test_a_table_of_many_broken_quotes_is_read_in_one_pass(tmp_path: Path) -> None:
    rows = [f'k{n},"Kettle {n},k.jpg\n' if n % 2 else f"k{n},Kettle {n},k{n}.jpg\n" for n in range(3000)]
    catalog = load(tmp_path, "id,title,image\n" + "".join(rows) + f'long,Long,"{"x" * 200_000}\n' + "last,Last,l.jpg\n")
    assert catalog.products[-1].id == "last"
    assert {problem.reason for problem in catalog.rejected} == {"malformed"}


def test_a_column_of_other_names_and_further_fields_can_be_mapped(tmp_path: Path) -> None:
    text = "Nr;Bezeichnung;Bild;VK;Aktion\nk;Kettle;k.jpg;1.299,00;1.199,-\n"
    mapping = {"id": "nr", "title": "bezeichnung", "image": "bild", "price": "vk", "sale_price": "aktion"}
    assert one(tmp_path, text, mapping=mapping).price == Decimal(1199)
