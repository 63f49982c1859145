"""Products written as each shop system exports them: for the benchmark, the fixtures and the tests of the readers."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from multimodal.pipes.feed_write import product_document
from multimodal.values import Product, ProductVariant

__all__ = ["WRITERS"]

_STOCK = {"": "", "in_stock": "InStock", "out_of_stock": "OutOfStock", "preorder": "PreOrder", "backorder": "BackOrder"}
_WOO_STOCK = {"in_stock": "1", "out_of_stock": "0", "backorder": "backorder"}
_MINOR = 2

Row = dict[str, str]


def _own_json(products: Sequence[Product]) -> str:
    rows = ",\n".join(json.dumps(product_document(product), ensure_ascii=False) for product in products)
    return f'{{"shop": {{"name": "Larkmoor", "language": "en"}},\n"products": [\n{rows}\n]}}\n'


def _own_yaml(products: Sequence[Product]) -> str:
    lines = ["# our own catalogue", "shop:", "  name: Larkmoor", "  language: en", "products:"]
    for product in products:
        for place, (name, value) in enumerate(product_document(product).items()):
            lines += _yaml(name, value, "  - " if place == 0 else "    ")
    return "\n".join(lines) + "\n"


def _yaml(name: str, value: Any, indent: str) -> list[str]:
    if not isinstance(value, list | dict):
        return [f"{indent}{_quoted(name)}: {_quoted(value)}"]
    inner = " " * len(indent) + "  "
    lines = [f"{indent}{_quoted(name)}:"]
    if isinstance(value, dict):
        return lines + [line for key, entry in value.items() for line in _yaml(key, entry, inner)]
    for entry in value:
        if isinstance(entry, dict):
            for place, (key, part) in enumerate(entry.items()):
                lines += _yaml(key, part, f"{inner}- " if place == 0 else f"{inner}  ")
        else:
            lines.append(f"{inner}- {_quoted(entry)}")
    return lines


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(rows: Sequence[Row], delimiter: str = ",") -> str:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, delimiter=delimiter, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _rows(products: Sequence[Product]) -> list[Row]:
    rows = []
    for product in products:
        row = {
            "id": product.id,
            "title": product.title,
            "aliases": "|".join(product.aliases),
            "price": _digits(product.price),
            "currency": product.currency,
            "availability": product.availability,
            "brand": product.brand,
            "description": html.escape(product.description, quote=False),
            "url": product.url,
            "image": "|".join(image.source for image in product.images),
            "alt": product.images[0].alt if product.images else "",
        }
        shown = {image.key: image.source for image in product.images}
        for place, variant in enumerate(product.variants):
            row |= {"variant_id": variant.id, "variant_title": variant.title, "price": _digits(variant.price)}
            row["availability"] = variant.availability
            row["variant_image"] = "|".join(shown[key] for key in variant.images)
            for number in range(1, 4):
                name, value = variant.options[number - 1] if number <= len(variant.options) else ("", "")
                row |= {f"option{number}_name": name if place == 0 else "", f"option{number}_value": value}
            rows.append(row)
            row = {"id": product.id}
        if not product.variants:
            rows.append(row)
    return rows


def _comma(products: Sequence[Product]) -> str:
    rows = _rows(products)
    for row in rows:
        row["price"] = row.get("price", "").replace(".", ",")
    return "\ufeff" + _table(rows, ";")


def _google_rows(products: Sequence[Product]) -> list[Row]:
    rows = []
    for product in products:
        shown = {image.key: image.source for image in product.images}
        for variant in product.variants or (None,):
            pictures = [shown[key] for key in variant.images] if variant else list(shown.values())
            price = variant.price if variant and variant.price is not None else product.price
            stock = (variant.availability if variant else "") or product.availability
            rows.append(
                {
                    "id": variant.id if variant else product.id,
                    "title": product.title,
                    "description": html.escape(product.description, quote=False),
                    "link": product.url,
                    "image_link": pictures[0] if pictures else "",
                    "additional_image_link": ",".join(pictures[1:]),
                    "availability": stock,
                    "price": f"{_digits(price)} {product.currency}".strip() if price is not None else "",
                    "brand": product.brand,
                    "item_group_id": product.id if variant else "",
                    **({name.casefold(): value for name, value in variant.options} if variant else {}),
                }
            )
    return rows


def _google_tsv(products: Sequence[Product]) -> str:
    return _table(_google_rows(products), "\t")


def _google_items(products: Sequence[Product], item: str, plain: frozenset[str]) -> list[str]:
    parts = []
    for row in _google_rows(products):
        fields = []
        for name, value in row.items():
            for part in re.split(r",(?=https?://)", value) if name == "additional_image_link" else (value,):
                if part and name == "link" and item == "entry":
                    fields.append(f'  <link href="{escape(part, {chr(34): "&quot;"})}"/>')
                elif part:
                    tag = name if name in plain else f"g:{name}"
                    fields.append(f"  <{tag}>{escape(part)}</{tag}>")
        parts.append(f"<{item}>\n" + "\n".join(fields) + f"\n</{item}>\n")
    return parts


def _google_rss(products: Sequence[Product]) -> str:
    items = "".join(_google_items(products, "item", frozenset({"title", "link", "description"})))
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">\n<channel>\n'
    return f"{head}<title>Larkmoor</title>\n{items}</channel>\n</rss>\n"


def _google_atom(products: Sequence[Product]) -> str:
    items = "".join(_google_items(products, "entry", frozenset({"title"})))
    names = 'xmlns="http://www.w3.org/2005/Atom" xmlns:g="http://base.google.com/ns/1.0"'
    return f'<?xml version="1.0"?>\n<feed {names}>\n<title>Larkmoor</title>\n{items}</feed>\n'


def _shopify(products: Sequence[Product]) -> str:
    number = 0
    found = []
    for product in products:
        number += 1000
        variants = product.variants or (ProductVariant(product.id, "Default Title", (("Title", "Default Title"),)),)
        codes = {variant.id: number + place for place, variant in enumerate(variants, 1)}
        images = [
            {
                "id": number + place,
                "position": place,
                "src": image.source,
                "alt": image.alt,
                "width": image.width_px,
                "height": image.height_px,
                "variant_ids": [codes[variant.id] for variant in product.variants if image.key in variant.images],
            }
            for place, image in enumerate(product.images, 1)
        ]
        names = [name for name, _ in variants[0].options]
        found.append(
            {
                "id": number,
                "title": product.title,
                "handle": product.id,
                "vendor": product.brand,
                "body_html": f"<p>{html.escape(product.description)}</p><script>track()</script>",
                "published_at": "2026-01-01T00:00:00Z",
                "product_type": "",
                "tags": ["kitchen"],
                "variants": [_shopify_variant(variant, codes[variant.id], product) for variant in variants],
                "images": images,
                "options": [{"name": name, "position": place} for place, name in enumerate(names, 1)],
            }
        )
    return json.dumps({"products": found}, ensure_ascii=False)


def _shopify_variant(variant: ProductVariant, code: int, product: Product) -> dict[str, Any]:
    values = [value for _, value in variant.options]
    price = product.price if variant.price is None else variant.price
    entry: dict[str, Any] = {f"option{place + 1}": values[place] if place < len(values) else None for place in range(3)}
    entry |= {"id": code, "title": variant.title, "sku": variant.id, "price": _digits(price)}
    stock = variant.availability or product.availability
    return entry | ({"available": stock == "in_stock"} if stock else {})


def _linked(product: Product) -> dict[str, Any]:
    shown = {image.key: image for image in product.images}
    node: dict[str, Any] = {
        "@type": "ProductGroup" if product.variants else "Product",
        "productGroupID" if product.variants else "sku": product.id,
        "name": product.title,
        "description": html.escape(product.description),
        "url": product.url,
        "brand": {"@type": "Brand", "name": product.brand},
        "alternateName": list(product.aliases),
        "image": [
            {
                "@type": "ImageObject",
                "url": image.source,
                "caption": image.alt,
                "width": image.width_px,
                "height": {"@type": "QuantitativeValue", "value": image.height_px},
            }
            for image in product.images
        ],
        "additionalProperty": [
            {"@type": "PropertyValue", "name": name, "value": html.escape(value)} for name, value in product.facts
        ],
    }
    if not product.variants:
        return node | {"offers": _linked_offer(product.price, product.currency, product.availability)}
    node["variesBy"] = [f"https://schema.org/{name}" for name, _ in product.variants[0].options]
    node["hasVariant"] = [
        {
            "@type": "Product",
            "sku": variant.id,
            "name": variant.title,
            **dict(variant.options),
            "image": [shown[key].source for key in variant.images],
            "offers": _linked_offer(variant.price, product.currency, variant.availability),
        }
        for variant in product.variants
    ]
    return node


def _linked_offer(price: Decimal | None, currency: str, stock: str) -> dict[str, Any]:
    offer = {"@type": "Offer", "price": _digits(price), "priceCurrency": currency}
    return offer | ({"availability": f"https://schema.org/{_STOCK[stock]}"} if stock else {})


def _json_ld(products: Sequence[Product]) -> str:
    graph = [json.dumps(_linked(product), ensure_ascii=False) for product in products]
    return '{"@context": "https://schema.org", "@graph": [\n' + ",\n".join(graph) + "\n]}\n"


def _page(products: Sequence[Product]) -> str:
    nodes = [
        json.dumps(_linked(product) | {"@context": "https://schema.org"}, ensure_ascii=False) for product in products
    ]
    scripts = [
        f'<script type="application/ld+json">\n{node.replace("</", "<" + chr(92) + "/")}\n</script>' for node in nodes
    ]
    body = "\n".join(scripts)
    return f"<!DOCTYPE html>\n<html><head><title>Larkmoor</title>\n{body}\n</head><body><h1>Shop</h1></body></html>\n"


def _woocommerce(products: Sequence[Product]) -> str:
    found: list[dict[str, Any]] = []
    number = 0
    for product in products:
        number += 1000
        parent = _woocommerce_item(product, number, product.id, product.title, product.price, product.availability)
        parent |= {
            "slug": product.id,
            "type": "variable" if product.variants else "simple",
            "permalink": product.url,
            "description": f"<p>{html.escape(product.description)}</p>",
            "brands": [{"name": html.escape(product.brand)}],
            "attributes": [{"name": name, "terms": [{"name": html.escape(value)}]} for name, value in product.facts],
            "images": [
                {"id": place, "src": image.source, "alt": html.escape(image.alt)}
                for place, image in enumerate(product.images)
            ],
            "variations": [
                {
                    "id": number + place,
                    "attributes": [{"name": name, "value": value} for name, value in variant.options],
                }
                for place, variant in enumerate(product.variants, 1)
            ],
        }
        found.append(parent)
        shown = {image.key: image.source for image in product.images}
        for place, variant in enumerate(product.variants, 1):
            item = _woocommerce_item(
                product, number + place, variant.id, variant.title, variant.price, variant.availability
            )
            item |= {"type": "variation", "parent": number, "images": [{"src": shown[key]} for key in variant.images]}
            found.append(item)
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in found) + "\n]\n"


def _woocommerce_item(
    product: Product, number: int, code: str, title: str, price: Decimal | None, stock: str
) -> dict[str, Any]:
    minor = "" if price is None else str(int(price.scaleb(_MINOR)))
    prices = {"price": minor, "regular_price": minor, "currency_code": product.currency, "currency_minor_unit": _MINOR}
    item: dict[str, Any] = {"id": number, "sku": code, "name": html.escape(title), "parent": 0, "prices": prices}
    return item | ({"is_in_stock": stock == "in_stock", "is_on_backorder": stock == "backorder"} if stock else {})


def _woocommerce_csv(products: Sequence[Product]) -> str:
    rows = []
    number = 0
    for product in products:
        number += 1000
        shown = {image.key: image.source for image in product.images}
        row = {
            "ID": str(number),
            "Type": "variable" if product.variants else "simple",
            "SKU": product.id,
            "Name": product.title,
            "Published": "1",
            "Short description": "",
            "Description": f"<p>{html.escape(product.description)}</p>\\n",
            "In stock?": "" if product.variants else _WOO_STOCK.get(product.availability, ""),
            "Sale price": "",
            "Regular price": "" if product.variants else _digits(product.price),
            "Images": ", ".join(shown.values()),
            "Parent": "",
            "Brands": product.brand,
        }
        for place, (name, value) in enumerate(product.facts[:3], 1):
            row |= {f"Attribute {place} name": name, f"Attribute {place} value(s)": html.escape(value)}
        rows.append(row)
        for place, variant in enumerate(product.variants, 1):
            row = {
                "ID": str(number + place),
                "Type": "variation",
                "SKU": variant.id,
                "Name": variant.title,
                "Published": "1",
                "In stock?": _WOO_STOCK.get(variant.availability, ""),
                "Sale price": "",
                "Regular price": _digits(variant.price),
                "Parent": product.id,
                "Images": ", ".join(shown[key] for key in variant.images),
            }
            for at, (name, value) in enumerate(variant.options, 1):
                row |= {f"Attribute {at} name": name, f"Attribute {at} value(s)": value}
            rows.append(row)
    return _table(rows)


def _digits(price: Decimal | None) -> str:
    return "" if price is None else format(price, "f")


WRITERS: dict[str, tuple[str, str, Callable[[Sequence[Product]], str]]] = {
    "json": ("own.json", "json", _own_json),
    "yaml": ("own.yaml", "yaml", _own_yaml),
    "csv": ("table.csv", "csv", lambda products: _table(_rows(products))),
    "tsv": ("table.tsv", "csv", lambda products: _table(_rows(products), "\t")),
    "csv-decimal-comma": ("table-semicolon.csv", "csv", _comma),
    "google-tsv": ("google.tsv", "csv", _google_tsv),
    "google-rss": ("google-rss.xml", "google", _google_rss),
    "google-atom": ("google-atom.xml", "google", _google_atom),
    "shopify": ("shopify-products.json", "shopify", _shopify),
    "json-ld": ("schema-org.jsonld", "json-ld", _json_ld),
    "json-ld-page": ("schema-org.html", "json-ld", _page),
    "woocommerce": ("woocommerce-store.json", "woocommerce", _woocommerce),
    "woocommerce-csv": ("woocommerce.csv", "woocommerce-csv", _woocommerce_csv),
}
"""Each way of writing: the name of its file, the format it is recognised as, and the writer."""
