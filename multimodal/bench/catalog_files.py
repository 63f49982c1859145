"""Products written as each shop system exports them: for the benchmark, the fixtures and the tests of the readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from multimodal.bench import catalog_shops as shops
from multimodal.bench import catalog_tables as tables
from multimodal.pipes.feed_write import product_document
from multimodal.values import Product

__all__ = ["WRITERS"]


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


WRITERS: dict[str, tuple[str, str, Callable[[Sequence[Product]], str]]] = {
    "json": ("own.json", "json", _own_json),
    "yaml": ("own.yaml", "yaml", _own_yaml),
    "csv": ("table.csv", "csv", lambda products: tables.table(tables.product_rows(products))),
    "tsv": ("table.tsv", "csv", lambda products: tables.table(tables.product_rows(products), "\t")),
    "csv-decimal-comma": ("table-semicolon.csv", "csv", tables.with_commas),
    "google-tsv": ("google.tsv", "csv", tables.google_tsv),
    "google-rss": ("google-rss.xml", "google", tables.google_rss),
    "google-atom": ("google-atom.xml", "google", tables.google_atom),
    "shopify": ("shopify-products.json", "shopify", shops.shopify),
    "json-ld": ("schema-org.jsonld", "json-ld", shops.linked_file),
    "json-ld-page": ("schema-org.html", "json-ld", shops.linked_page),
    "woocommerce": ("woocommerce-store.json", "woocommerce", shops.woocommerce),
    "woocommerce-csv": ("woocommerce.csv", "woocommerce-csv", shops.woocommerce_csv),
}
"""Each way of writing: the name of its file, the format it is recognised as, and the writer."""
