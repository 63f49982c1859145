"""A loaded catalogue written in our own JSON: what `load_catalog` reads back as the same products."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.catalog import Catalog
from multimodal.pipes.feed_words import plain
from multimodal.values import Product, ProductImage, ProductVariant

__all__ = ["product_document", "write_catalog"]


def write_catalog(catalog: Catalog, out: Path, *, replace: bool = False) -> None:
    """Write a catalogue, one product a line; the file is there as a whole or not at all.

    A picture that was found below the folder of `out` is named by its path from there; others as the catalogue did.

    Args:
        catalog: what `load_catalog` gave.
        out: the file.
        replace: write over a file that is there.

    Raises:
        UsageError: `out` is there already, or cannot be written.
    """
    if out.exists() and not replace:
        raise UsageError(f"{out} is there already; name another file, or replace it with --force")
    fresh = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.writelines(_lines(catalog, out.parent))
        fresh.replace(out)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def _lines(catalog: Catalog, folder: Path) -> Iterator[str]:
    shop = {name: value for name in catalog.shop.__struct_fields__ if (value := getattr(catalog.shop, name))}
    yield f'{{\n"shop": {_dumped(shop)},\n"products": [\n'
    home = folder.resolve()
    found = {picture.key: picture.path for picture in catalog.pictures if picture.path is not None}
    last = len(catalog.products) - 1
    for number, product in enumerate(catalog.products):
        document = product_document(product)
        for image in document.get("images", ()):
            path = found.get(image["key"])
            if path is not None and path.resolve().is_relative_to(home):
                image["file"] = path.resolve().relative_to(home).as_posix()
        yield _dumped(document) + (",\n" if number < last else "\n")
    yield "]\n}\n"


def _kept(words: str) -> str:
    """Words that a reader would take for HTML, written as HTML: so they are read back as they are."""
    return words if plain(words) == words else html.escape(words, quote=False)


def _kept_pairs(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {_kept(name): _kept(value) for name, value in pairs}


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def product_document(product: Product) -> dict[str, Any]:
    """A product in our own form, without what is empty; prices are texts, so that no reader makes floats of them."""
    document: dict[str, Any] = {"id": product.id, "title": _kept(product.title)}
    document["aliases"] = [_kept(alias) for alias in product.aliases]
    document["price"] = None if product.price is None else format(product.price, "f")
    document |= {"currency": product.currency, "availability": product.availability, "brand": _kept(product.brand)}
    document |= {"description": _kept(product.description), "url": product.url}
    document["facts"] = _kept_pairs(product.facts)
    document["images"] = [_image(image, product) for image in product.images]
    document["variants"] = [_variant(variant) for variant in product.variants]
    return {name: value for name, value in document.items() if value not in (None, "", [], {})}


def _image(image: ProductImage, product: Product) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": image.key, "file": image.source}
    if image.alt != product.title:
        entry["alt"] = _kept(image.alt)
    if image.width_px and image.height_px:
        entry |= {"width": image.width_px, "height": image.height_px}
    return entry


def _variant(variant: ProductVariant) -> dict[str, Any]:
    entry = {
        "id": variant.id,
        "title": _kept(variant.title),
        "options": _kept_pairs(variant.options),
        "price": None if variant.price is None else format(variant.price, "f"),
        "availability": variant.availability,
        "images": list(variant.images),
    }
    return {name: value for name, value in entry.items() if value not in (None, "", [], {})}
