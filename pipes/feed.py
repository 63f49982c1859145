"""A shop's product file, read into rows: which of the formats it has is told by its content, never by its name.

Nothing is judged here but the shape: what a row means for the catalogue is decided in `multimodal.pipes.feed_fold`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from multimodal.errors import UsageError
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer, Shop
from multimodal.pipes.feed_source import FeedSource
from multimodal.pipes.feed_table import FIELDS

__all__ = [
    "FIELDS",
    "FORMATS",
    "Feed",
    "FeedPicture",
    "FeedRow",
    "FeedVariant",
    "Offer",
    "Shop",
    "feed_files",
    "read_feed",
]

FORMATS = {
    "json": "our own JSON",
    "yaml": "our own YAML",
    "csv": "CSV or TSV with a header row, as spreadsheets, Google Merchant Center and Shopify export it",
    "google": "Google Merchant feed in XML: RSS 2.0 or Atom",
    "shopify": "Shopify's products.json",
    "json-ld": "schema.org's Product in JSON-LD, in a file or in the scripts of a page",
    "woocommerce": "WooCommerce's products in JSON: Store API or REST API",
    "woocommerce-csv": "WooCommerce's export of products in CSV",
}

_PAGE = re.compile(r"<(?:!doctype\s+html|html|head|body|script|meta|div)\b", re.IGNORECASE)
_FEED = re.compile(r"<(?:\w+:)?(?:rss|feed|channel|rdf)\b", re.IGNORECASE)
_YAML = re.compile(r"(?:#[^\n]*\n\s*)*(?:%YAML|---(?:\s|$)|(?:- +)?[A-Za-z_]+:(?:\s|$))")


class Feed:
    """The rows of a file, read while they are taken.

    `shop` and `note` (what was odd about the file) are complete behind the last row; `unread` names the columns of a
    table of which nothing is read; `unit` says what `FeedRow.line`
    counts, and `share` how much of the file was read, from 0 to 1.
    """

    def __init__(self, source: FeedSource, kind: str, unit: str) -> None:
        self.path, self.format, self.unit = source.path, kind, unit
        self.shop = Shop()
        self.rows: Iterator[FeedRow] = iter(())
        self.unread: tuple[str, ...] = ()
        self._source = source

    @property
    def note(self) -> str:
        """What was odd about the file; "" = nothing."""
        return self._source.note

    @property
    def share(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return min(1.0, self._source.done / max(1, self._source.size))


def read_feed(
    path: Path,
    mapping: Mapping[str, str] | None = None,
    *,
    kind: str | None = None,
    encoding: str | None = None,
    now: datetime,
) -> Feed:
    """Open a product file.

    Args:
        path: the file.
        mapping: field -> column, for headers of a CSV that are not known here.
        kind: one of `FORMATS`; None = as its content tells.
        encoding: of its text; None = as its content tells.
        now: for prices that hold between two dates.

    Raises:
        UsageError: no such file, not text, none of the formats, a mapping that names no column, or no column for the
            title or the pictures; from the rows too, where the file breaks off.
    """
    if kind is not None and kind not in FORMATS:
        raise UsageError(f"no format {kind!r}; there are {', '.join(FORMATS)}")
    source = FeedSource(path, encoding)
    shape = _SHAPES.get(kind or "") or _shape(source.head)
    if kind == "json-ld" and shape != "json":
        shape = "page"
    if mapping and shape != "table":
        raise UsageError(f"{path} is {shape.upper()}, whose fields have fixed names; a mapping is for CSV columns")
    if shape == "json":
        from multimodal.pipes.feed_json import json_rows

        feed = Feed(source, kind or "json", "product")
        feed.rows = json_rows(source, feed, kind, now)
    elif shape == "page":
        from multimodal.pipes.feed_page import page_rows

        feed = Feed(source, "json-ld", "line")
        feed.rows = page_rows(source, now)
    elif shape == "xml":
        from multimodal.pipes.feed_xml import xml_rows

        feed = Feed(source, "google", "line")
        feed.rows = xml_rows(source, feed)
    elif shape == "yaml":
        from multimodal.pipes.feed_yaml import yaml_rows

        feed = Feed(source, "yaml", "line")
        feed.rows = yaml_rows(source, feed)
    else:
        from multimodal.pipes.feed_table import table_rows

        feed = Feed(source, kind or "csv", "line")
        feed.rows = table_rows(source, feed, mapping or {}, kind)
    return feed


_SHAPES = {
    **dict.fromkeys(("json", "shopify", "woocommerce"), "json"),
    "yaml": "yaml",
    "csv": "table",
    "woocommerce-csv": "table",
    "google": "xml",
}


def _shape(head: str) -> str:
    begin = head.lstrip("\ufeff \t\r\n")
    if begin.startswith(("{", "[")):
        return "json"
    if begin.startswith("<"):
        return "page" if not _FEED.search(head) and _PAGE.search(head) else "xml"
    return "yaml" if _YAML.match(begin) else "table"


_SUFFIXES = frozenset(
    {".json", ".jsonld", ".yaml", ".yml", ".csv", ".tsv", ".txt", ".xml", ".rss", ".atom", ".html", ".htm"}
)


def feed_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files of a catalogue: itself, those of a list, or those of a folder, page 10 behind page 9.

    Raises:
        UsageError: an empty list, or a folder without a file that may be a catalogue.
    """
    if not isinstance(path, str | os.PathLike):
        if not path:
            raise UsageError("no file of a catalogue is named")
        return [file for entry in path for file in feed_files(entry)]
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    files = [file for file in folder.iterdir() if file.suffix.lower() in _SUFFIXES and not file.name.startswith(".")]
    if not files:
        raise UsageError(f"no catalogue in the folder {folder}; it needs {', '.join(sorted(_SUFFIXES))}")
    return sorted(files, key=lambda file: [part.zfill(12) for part in re.split(r"(\d+)", file.name)])
