"""Products written as Shopify, schema.org's JSON-LD and WooCommerce have them."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from multimodal.bench.catalog_tables import digits, table
from multimodal.values import Product, ProductVariant

__all__ = ["linked_file", "linked_page", "shopify", "woocommerce", "woocommerce_csv"]

_STOCK = {"": "", "in_stock": "InStock", "out_of_stock": "OutOfStock", "preorder": "PreOrder", "backorder": "BackOrder"}
_WOO_STOCK = {"in_stock": "1", "out_of_stock": "0", "backorder": "backorder"}
_MINOR = 2


def shopify(products: Sequence[Product]) -> str:
    """Shopify's products.json."""
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
    entry |= {"id": code, "title": variant.title, "sku": variant.id, "price": digits(price)}
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
    offer = {"@type": "Offer", "price": digits(price), "priceCurrency": currency}
    return offer | ({"availability": f"https://schema.org/{_STOCK[stock]}"} if stock else {})


def linked_file(products: Sequence[Product]) -> str:
    """schema.org's JSON-LD in a file of its own."""
    graph = [json.dumps(_linked(product), ensure_ascii=False) for product in products]
    return '{"@context": "https://schema.org", "@graph": [\n' + ",\n".join(graph) + "\n]}\n"


def linked_page(products: Sequence[Product]) -> str:
    """schema.org's JSON-LD in the scripts of a page."""
    nodes = [
        json.dumps(_linked(product) | {"@context": "https://schema.org"}, ensure_ascii=False) for product in products
    ]
    scripts = [
        f'<script type="application/ld+json">\n{node.replace("</", "<" + chr(92) + "/")}\n</script>' for node in nodes
    ]
    body = "\n".join(scripts)
    return f"<!DOCTYPE html>\n<html><head><title>Larkmoor</title>\n{body}\n</head><body><h1>Shop</h1></body></html>\n"


def woocommerce(products: Sequence[Product]) -> str:
    """WooCommerce's Store API."""
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


def woocommerce_csv(products: Sequence[Product]) -> str:
    """WooCommerce's export in CSV."""
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
            "Regular price": "" if product.variants else digits(product.price),
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
                "Regular price": digits(variant.price),
                "Parent": product.id,
                "Images": ", ".join(shown[key] for key in variant.images),
            }
            for at, (name, value) in enumerate(variant.options, 1):
                row |= {f"Attribute {at} name": name, f"Attribute {at} value(s)": value}
            rows.append(row)
    return table(rows)
