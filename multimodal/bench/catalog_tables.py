"""Products written as tables and as the feeds that are made of tables: CSV, TSV, Google Merchant."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from decimal import Decimal
from xml.sax.saxutils import escape

from multimodal.values import Product

__all__ = ["digits", "google_atom", "google_rss", "google_tsv", "product_rows", "table", "with_commas"]

Row = dict[str, str]


def table(rows: Sequence[Row], delimiter: str = ",") -> str:
    """Rows as CSV, under the names of all their fields."""
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, delimiter=delimiter, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def product_rows(products: Sequence[Product]) -> list[Row]:
    """A row for each product, or for each of its choices."""
    rows = []
    for product in products:
        row = {
            "id": product.id,
            "title": product.title,
            "aliases": "|".join(product.aliases),
            "price": digits(product.price),
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
            row |= {"variant_id": variant.id, "variant_title": variant.title, "price": digits(variant.price)}
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


def with_commas(products: Sequence[Product]) -> str:
    """CSV as spreadsheets of many lands save it: a byte order mark, semicolons, decimal commas."""
    rows = product_rows(products)
    for row in rows:
        row["price"] = row.get("price", "").replace(".", ",")
    return "\ufeff" + table(rows, ";")


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
                    "price": f"{digits(price)} {product.currency}".strip() if price is not None else "",
                    "brand": product.brand,
                    "item_group_id": product.id if variant else "",
                    **({name.casefold(): value for name, value in variant.options} if variant else {}),
                }
            )
    return rows


def google_tsv(products: Sequence[Product]) -> str:
    """Google's feed as TSV."""
    return table(_google_rows(products), "\t")


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


def google_rss(products: Sequence[Product]) -> str:
    """Google's feed as RSS 2.0."""
    items = "".join(_google_items(products, "item", frozenset({"title", "link", "description"})))
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">\n<channel>\n'
    return f"{head}<title>Larkmoor</title>\n{items}</channel>\n</rss>\n"


def google_atom(products: Sequence[Product]) -> str:
    """Google's feed as Atom."""
    items = "".join(_google_items(products, "entry", frozenset({"title"})))
    names = 'xmlns="http://www.w3.org/2005/Atom" xmlns:g="http://base.google.com/ns/1.0"'
    return f'<?xml version="1.0"?>\n<feed {names}>\n<title>Larkmoor</title>\n{items}</feed>\n'


def digits(price: Decimal | None) -> str:
    """A price as plain digits; "" for none."""
    return "" if price is None else format(price, "f")
