"""Writes the demo catalogue in every import format: `python -m tests.pipes.feeds.make`. The files are CC0, as it is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from multimodal.bench.catalog_files import WRITERS
from multimodal.pipes.catalog import load_catalog
from multimodal.values import Product

__all__ = ["DEMO", "FOLDER", "demo_products", "written"]

FOLDER = Path(__file__).parent
DEMO = Path(__file__).parents[3] / "assets" / "demo"
SHOP = "https://larkmoor.example"


def demo_products() -> list[Product]:
    """The demo's products as a shop on the web has them: their pictures and pages are URLs."""
    found = []
    for product in load_catalog(DEMO / "catalog.json").products:
        images = [msgspec.structs.replace(image, source=f"{SHOP}/{image.source}") for image in product.images]
        found.append(msgspec.structs.replace(product, images=tuple(images), url=f"{SHOP}/{product.id}"))
    return found


def written(kind: str) -> bytes:
    """What the file of one format holds."""
    return WRITERS[kind][2](demo_products()).encode()


if __name__ == "__main__":
    for kind, (name, *_) in WRITERS.items():
        (FOLDER / name).write_bytes(written(kind))
        print(FOLDER / name)
