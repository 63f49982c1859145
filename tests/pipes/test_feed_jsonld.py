"""schema.org's products in JSON-LD: every shape of offer, references, groups, and pages with broken scripts."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from tests.pipes.feeding import load, one, reasons, rejected

CONTEXT = {"@context": "https://schema.org"}


def node(**fields: Any) -> dict[str, Any]:
    return {"@type": "Product", "sku": "k", "name": "Kettle", "image": "k.jpg", **fields}


def offer(price: Any = "15.00", **fields: Any) -> dict[str, Any]:
    return {"@type": "Offer", "price": price, "priceCurrency": "EUR", **fields}


@pytest.mark.parametrize(
    ("offers", "price", "stock"),
    [
        (offer(availability="https://schema.org/InStock"), "15.00", "in_stock"),
        (offer(availability="http://schema.org/OutOfStock"), "15.00", "out_of_stock"),
        (offer(15.5, availability="schema:PreOrder"), "15.5", "preorder"),
        (offer("1299.00", availability="BackOrder"), "1299.00", "backorder"),
        (offer("1.299", availability=["https://schema.org/LimitedAvailability"]), "1.299", "limited"),
        ([offer("18"), offer("15", availability="InStock")], "15", "in_stock"),
        ({"@type": "AggregateOffer", "lowPrice": 12, "highPrice": 20, "priceCurrency": "EUR"}, "12", ""),
        ({"@type": "AggregateOffer", "priceCurrency": "EUR", "offers": [offer("20"), offer("14")]}, "14", ""),
        ({"@type": "Offer", "priceSpecification": {"price": "9.90", "priceCurrency": "EUR"}}, "9.90", ""),
        (
            {
                "@type": "Offer",
                "priceCurrency": "EUR",
                "priceSpecification": [
                    {"price": 7, "priceType": "https://schema.org/StrikethroughPrice"},
                    {"price": 10, "priceType": "https://schema.org/ListPrice"},
                    {"price": 8},
                ],
            },
            "8",
            "",
        ),
        (
            offer(
                "8",
                priceSpecification={
                    "price": 9,
                    "priceType": "https://schema.org/SalePrice",
                    "validThrough": "2026-06-02",
                },
            ),
            "9",
            "",
        ),
        (offer("8", priceSpecification={"price": 5, "priceType": "SalePrice", "validThrough": "2026-05-02"}), "8", ""),
        ([offer("5", priceValidUntil="2025-01-01"), offer("6", priceValidUntil="2027-01-01")], "6", ""),
        ([offer("5", priceValidUntil="2025-01-01")], "5", ""),
        ([offer("5", validFrom="2026-09-01"), offer("6")], "6", ""),
        ({"@id": "#offer"}, "3.50", "in_stock"),
        ("12.00 EUR", "12.00", ""),
    ],
)
def test_an_offer_in_every_shape(tmp_path: Path, offers: Any, price: str, stock: str) -> None:
    elsewhere = {"@id": "#offer", **offer(3.5, availability="InStock")}
    elsewhere["price"] = "3.50"
    product = one(tmp_path, {**CONTEXT, "@graph": [node(offers=offers), elsewhere]})
    assert (product.price, product.currency, product.availability) == (Decimal(price), "EUR", stock)


@pytest.mark.parametrize("offers", [None, [], {}, "soon", {"price": ""}, {"price": {}}, [[]], {"@id": "#none"}, True])
def test_an_offer_that_says_no_price_costs_only_the_price(tmp_path: Path, offers: Any) -> None:
    catalog = load(tmp_path, {**CONTEXT, **node(offers=offers)})
    assert catalog.products[0].price is None
    assert reasons(catalog) <= {"not_found", "bad_price"}


def test_an_offer_that_refers_to_itself_ends(tmp_path: Path) -> None:
    loop = {"@id": "#o", "@type": "AggregateOffer", "lowPrice": "4", "priceCurrency": "EUR", "offers": {"@id": "#o"}}
    assert one(tmp_path, {**CONTEXT, "@graph": [node(offers=loop)]}).price == Decimal(4)


@pytest.mark.parametrize(
    "document",
    [
        {**CONTEXT, **node()},
        [{**CONTEXT, **node()}],
        [[{**CONTEXT, **node()}]],
        {**CONTEXT, "@graph": [{"@type": "WebPage", "name": "x"}, node()]},
        {**CONTEXT, "@graph": node()},
        {**CONTEXT, "@type": "WebPage", "mainEntity": node()},
        {**CONTEXT, "@type": "ItemList", "itemListElement": [{"@type": "ListItem", "position": 1, "item": node()}]},
        {**CONTEXT, **node(**{"@type": ["Thing", "http://schema.org/Product"]})},
        {**CONTEXT, **node(), "isRelatedTo": node(sku="other"), "review": {"itemReviewed": node(sku="third")}},
    ],
)
def test_a_product_is_found_wherever_it_stands_and_its_relations_are_not(tmp_path: Path, document: Any) -> None:
    assert one(tmp_path, document).id == "k"


def test_fields_in_their_many_forms(tmp_path: Path) -> None:
    product = one(
        tmp_path,
        {
            **CONTEXT,
            "@graph": [
                node(
                    name={"@value": "Kettle", "@language": "en"},
                    description="&lt;b&gt; is not &amp; <b>this</b><script>no()</script>",
                    brand={"@id": "#brand"},
                    alternateName=["Pot", "Can"],
                    image=[
                        "a.jpg",
                        {
                            "@type": "ImageObject",
                            "contentUrl": "b.jpg",
                            "width": "800px",
                            "height": {"value": 600},
                            "caption": "B",
                        },
                        {"@id": "#image"},
                        "a.jpg",
                        {"@type": "ImageObject"},
                    ],
                    additionalProperty=[{"name": "Hob", "value": "gas"}, {"name": "Litres", "value": 1.6}, "x"],
                ),
                {"@id": "#brand", "name": "Larkmoor"},
                {"@id": "#image", "url": "//cdn/c.jpg"},
            ],
        },
    )
    assert (product.title, product.brand, product.aliases) == ("Kettle", "Larkmoor", ("Pot", "Can"))
    assert product.description == "<b> is not & this"
    assert [(i.source, i.width_px, i.height_px, i.alt) for i in product.images] == [
        ("a.jpg", 0, 0, "Kettle"),
        ("b.jpg", 800, 600, "B"),
        ("https://cdn/c.jpg", 0, 0, "Kettle"),
    ]
    assert product.facts == (("Hob", "gas"), ("Litres", "1.6"))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sku": None, "productID": 123}, "123"),
        ({"sku": "", "gtin13": "4006381333931"}, "4006381333931"),
        ({"sku": None, "identifier": {"@type": "PropertyValue", "value": "A1"}}, "A1"),
        ({"sku": None, "url": "https://x/products/halo-kettle/?a=1"}, "halo-kettle"),
        ({"sku": None, "@id": "#product"}, "product"),
        ({"sku": None}, "kettle"),
    ],
)
def test_what_a_product_is_called(tmp_path: Path, fields: dict[str, Any], code: str) -> None:
    assert one(tmp_path, {**CONTEXT, **node(**fields)}).id == code


def group(**fields: Any) -> dict[str, Any]:
    return {
        "@type": "ProductGroup",
        "productGroupID": "coat",
        "name": "Coat",
        "variesBy": ["https://schema.org/size"],
        **fields,
    }


RED = {
    "@id": "#red",
    "@type": "Product",
    "sku": "c-s",
    "name": "Coat S",
    "size": "S",
    "image": "s.jpg",
    "offers": offer("20"),
}
BLUE = {
    "@id": "#blue",
    "@type": "Product",
    "sku": "c-m",
    "name": "Coat M",
    "size": {"name": "M"},
    "image": "m.jpg",
    "offers": offer("18"),
}


@pytest.mark.parametrize(
    "graph",
    [
        [group(hasVariant=[RED, BLUE])],
        [RED, BLUE, group(hasVariant=[{"@id": "#red"}, {"@id": "#blue"}])],
        [group(hasVariant=[{"@id": "#red"}, {"@id": "#blue"}]), RED, BLUE],
        [group(**{"@id": "#g"}), {**RED, "isVariantOf": {"@id": "#g"}}, {**BLUE, "isVariantOf": {"@id": "#g"}}],
        [{**RED, "isVariantOf": {"@id": "#g"}}, {**BLUE, "isVariantOf": {"@id": "#g"}}, group(**{"@id": "#g"})],
        [group(), {**RED, "isVariantOf": group()}, {**BLUE, "isVariantOf": group()}],
        [group(), {**RED, "inProductGroupWithID": "coat"}, {**BLUE, "inProductGroupWithID": "coat"}],
    ],
)
def test_a_group_and_its_variants_are_one_product(tmp_path: Path, graph: list[Any]) -> None:
    product = one(tmp_path, {**CONTEXT, "@graph": graph})
    assert (product.id, product.title, product.price, product.currency) == ("coat", "Coat", Decimal(18), "EUR")
    assert [image.source for image in product.images] == ["s.jpg", "m.jpg"]
    assert [(v.id, v.options, v.price, v.images) for v in product.variants] == [
        ("c-s", (("size", "S"),), Decimal(20), ("coat",)),
        ("c-m", (("size", "M"),), Decimal(18), ("coat-2",)),
    ]


def page(*scripts: str) -> str:
    tags = "\n".join(f'<script type="application/ld+json">{script}</script>' for script in scripts)
    return f"<!DOCTYPE html>\n<html><head><script>var a = {{}};</script>\n{tags}\n</head><body><p>x</p></body></html>"


def test_a_broken_script_of_a_page_fails_alone(tmp_path: Path) -> None:
    good = json.dumps({**CONTEXT, **node()})
    other = json.dumps({**CONTEXT, "@graph": [node(sku="m", name="Mug </b>")]})
    catalog = load(tmp_path, page(good, '{"@type": "Product", "name": ', other, "", '["' + "[" * 100_000))
    assert catalog.format == "json-ld"
    assert [product.id for product in catalog.products] == ["k", "m"]
    assert rejected(catalog) == [(4, "malformed"), (7, "malformed")]
    assert "no valid JSON" in catalog.rejected[0].detail


@pytest.mark.parametrize(
    "script",
    [
        "<!-- {} -->",
        "//<![CDATA[\n{}\n//]]>",
        "/*<![CDATA[*/ {} /*]]>*/",
        "{};",
        "\n{}\n",
    ],
)
def test_what_templates_put_around_the_json_is_taken_off(tmp_path: Path, script: str) -> None:
    written = json.dumps({**CONTEXT, **node(description="one\ntwo")}).replace("\\n", "\n")
    assert one(tmp_path, page(script.replace("{}", written))).description.split() == ["one", "two"]


def test_other_scripts_and_pages_without_any_are_not_read(tmp_path: Path) -> None:
    hidden = page().replace("var a = {};", json.dumps({**CONTEXT, **node()}))
    with pytest.raises(UsageError, match="no JSON-LD in the page"):
        load(tmp_path, hidden)
    with pytest.raises(UsageError, match="no product in the catalogue"):
        load(tmp_path, page('{"@context": "https://schema.org", "@type": "Organization"}'))


def test_several_pages_are_one_catalogue_and_a_bad_one_fails_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in (10, 2, 1):
        text = page(json.dumps({**CONTEXT, **node(sku=f"k{number}", name=f"Kettle {number}")}))
        (folder / f"page-{number}.html").write_text(text)
    (folder / "page-3.html").write_text("<html><body>gone</body></html>")
    (folder / "notes.md").write_text("no page")
    from multimodal.pipes.catalog import load_catalog

    catalog = load_catalog(folder)
    assert [product.id for product in catalog.products] == ["k1", "k2", "k10"]
    assert [(problem.file, problem.reason) for problem in catalog.rejected] == [("page-3.html", "malformed")]
    assert "page-3.html, line 1: left out, malformed" in catalog.report()


@pytest.mark.parametrize("mark", ["[", '{"a":', '{"@graph":['])
def test_nesting_bombs_are_refused(tmp_path: Path, mark: str) -> None:
    with pytest.raises(UsageError, match=r"nested too deeply|no product"):
        load(tmp_path, mark * 200_000)
    deep = (
        '{"@context": "x", "@graph": ['
        + json.dumps(node())
        + ', {"@type": "Product", "offers": '
        + "[" * 5000
        + "]" * 5000
        + "}]}"
    )
    with pytest.raises(UsageError, match="nested too deeply"):
        load(tmp_path, deep)
