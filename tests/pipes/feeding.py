"""What the tests of the catalogue's formats share: a text loaded as a catalogue, and how it went."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multimodal.pipes.catalog import Catalog, load_catalog
from multimodal.values import Product

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def load(folder: Path, content: Any, **options: Any) -> Catalog:
    """A catalogue of this content: bytes, text, or what is written as JSON. Its name says nothing of its format."""
    path = folder / "feed.bin"
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_catalog(path, now=options.pop("now", NOW), **options)


def one(folder: Path, content: Any, **options: Any) -> Product:
    """The only product of a catalogue with nothing wrong but its pictures."""
    catalog = load(folder, content, **options)
    assert reasons(catalog) - {"no_picture", "not_found"} == set()
    (product,) = catalog.products
    return product


def reasons(catalog: Catalog) -> set[str]:
    return {problem.reason for problem in (*catalog.rejected, *catalog.warnings, *catalog.unpublished)}


def rejected(catalog: Catalog) -> list[tuple[int, str]]:
    return [(problem.line, problem.reason) for problem in catalog.rejected]
