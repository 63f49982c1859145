"""A shop's product file, read into rows: our own JSON, or the CSV or TSV that a shop system exports.

Nothing is judged here but the shape: what a row means for the catalogue is decided in `multimodal.pipes.catalog`.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from multimodal.errors import UsageError

__all__ = ["FIELDS", "Feed", "FeedPicture", "FeedRow", "Shop", "read_feed"]

_NAMES = {
    "id": ("id", "handle", "slug", "productid", "itemid", "sku", "articlenumber"),
    "title": ("title", "name", "productname", "producttitle"),
    "image": (),  # any number of columns: see _PICTURES
    "price": ("price", "regularprice", "variantprice", "unitprice"),
    "currency": ("currency", "currencycode"),
    "description": ("description", "bodyhtml", "body", "shortdescription"),
    "brand": ("brand", "vendor", "manufacturer"),
    "availability": ("availability", "stockstatus"),
    "url": ("url", "link", "producturl"),
    "alt": ("alt", "alttext", "imagealt", "imagealttext"),
    "aliases": ("aliases", "alias", "synonyms"),
}
"""Fields and the headers they go by, the most telling first, in lower case without anything but letters and digits."""
_PICTURES = re.compile(r"(additional)?(image|picture|photo|asset)s?(link|url|src|file|name)?s?\d*")
FIELDS = tuple(_NAMES)

_TAG = re.compile(r"<!--.*?-->|</?[a-z!][^<>]*>", re.IGNORECASE | re.DOTALL)
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|del|em|font|i|ins|mark|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?>", re.IGNORECASE
)

_END = "\x00end of the feed"


class Shop(msgspec.Struct, frozen=True):
    """What a catalogue says of the shop itself; `language` is a BCP 47 tag."""

    name: str = ""
    tagline: str = ""
    language: str = ""
    currency: str = ""


class FeedPicture(msgspec.Struct, frozen=True):
    """A picture as the feed names it."""

    source: str
    key: str = ""
    alt: str = ""


class FeedRow(msgspec.Struct, frozen=True):
    """One row, every value as text; `line` is its line in the file, or its number in a JSON list.

    `broken` says why a row could not be read at all.
    """

    line: int
    id: str = ""
    title: str = ""
    pictures: tuple[FeedPicture, ...] = ()
    price: str = ""
    currency: str = ""
    description: str = ""
    brand: str = ""
    availability: str = ""
    url: str = ""
    aliases: tuple[str, ...] = ()
    broken: str = ""


class Feed(msgspec.Struct, frozen=True):
    """All rows of a file, in order; `unit` says what `FeedRow.line` counts, `note` what was odd about the file."""

    rows: tuple[FeedRow, ...]
    shop: Shop = Shop()
    unit: str = "line"
    note: str = ""


def read_feed(path: Path, mapping: Mapping[str, str] | None = None) -> Feed:
    """Read a product file.

    Args:
        path: JSON in our own format, or CSV or TSV with a header row.
        mapping: field -> column, for headers that are not known here.

    Raises:
        UsageError: no such file, not text, neither of the formats, a mapping that names no column, or no column for
            the title or the pictures.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the catalogue {path}: {error.strerror or error}") from error
    text, note = _decode(path, data)
    if not text.strip():
        raise UsageError(f"the catalogue {path} is empty")
    if text.lstrip().startswith(("{", "[")):
        if mapping:
            raise UsageError(f"{path} is JSON, whose fields have fixed names; a mapping is for CSV columns")
        return _json_feed(path, text)
    return Feed(tuple(_table_rows(path, text, mapping or {})), note=note)


def _decode(path: Path, data: bytes) -> tuple[str, str]:
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    # Windows-1252 is what spreadsheets save where they are not told otherwise.
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return text, "" if encoding != "cp1252" else "not UTF-8; read as Windows-1252"
    raise UsageError(f"the catalogue {path} is not text in UTF-8; save it as UTF-8")


def _json_feed(path: Path, text: str) -> Feed:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the catalogue {path} is not valid JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("products"), list):
        raise UsageError(f'the catalogue {path} needs the form {{"shop": {{...}}, "products": [...]}}')
    raw_shop = document.get("shop")
    about = raw_shop if isinstance(raw_shop, dict) else {}
    shop = Shop(*(_text(about.get(name)) for name in Shop.__struct_fields__))
    return Feed(tuple(_json_row(*item) for item in enumerate(document["products"], 1)), shop, unit="product")


def _json_row(number: int, item: Any) -> FeedRow:
    if not isinstance(item, dict):
        return FeedRow(number, broken=f"a {type(item).__name__} where a product should be")
    pictures = []
    for entry in _list(item.get("images")):
        picture = entry if isinstance(entry, dict) else {"file": entry}
        pictures.append(FeedPicture(*(_text(picture.get(name)) for name in ("file", "key", "alt"))))
    plain = ("id", "title", "price", "currency", "description", "brand", "availability", "url")
    return FeedRow(
        number,
        pictures=tuple(picture for picture in pictures if picture.source),
        aliases=tuple(filter(None, map(_text, _list(item.get("aliases"))))),
        **{name: _text(item.get(name)) for name in plain},
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value).strip() if number or isinstance(value, str) else ""


def _table_rows(path: Path, text: str, mapping: Mapping[str, str]) -> Iterator[FeedRow]:
    lines = list(io.StringIO(text, newline=""))
    header = next(line for line in lines if line.strip())
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)
    records = (record for record in _records(lines, delimiter) if record[1] is None or any(record[1]))
    columns = next(records, (0, None))[1]
    if columns is None:
        raise UsageError(f"the catalogue {path} begins with no row of column names")
    places = _places(path, columns, mapping)
    for line, cells in records:
        if cells is None:
            yield FeedRow(line, broken="a quotation mark is opened and never closed")
        elif any(cells[len(columns) :]):
            wide = f"{len(cells)} cells under {len(columns)} columns; put text that holds {delimiter!r} in quotes"
            yield FeedRow(line, broken=wide)
        else:
            yield _table_row(line, cells, places)


def _records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """Line number and stripped cells of each record; None for a line whose quotation mark swallows all the rest.

    A marker after the last line tells: a reader that is still inside quotes takes it for text. Reading then starts
    anew behind the line, so that one missing mark costs one row.
    """
    first = 0
    while first < len(lines):
        reader = csv.reader([*lines[first:], _END], delimiter=delimiter, skipinitialspace=True)
        begins = first
        try:
            for cells in reader:
                if cells == [_END]:
                    return
                if any(_END in cell for cell in cells):
                    break
                yield begins + 1, [cell.strip() for cell in cells]
                begins = first + reader.line_num
        except csv.Error:  # a field above the module's limit: the same missing mark in a long file
            pass
        yield begins + 1, None
        first = begins + 1


def _places(path: Path, columns: Sequence[str], mapping: Mapping[str, str]) -> dict[str, list[int]]:
    """Where each field is found: the column numbers."""
    folded = [column.casefold() for column in columns]
    bare = [re.sub(r"[\W_]", "", column) for column in folded]
    there = f"{path} has the columns {', '.join(columns)}"
    places: dict[str, list[int]] = {}
    for field, names in _NAMES.items():
        wanted = mapping.get(field)
        if wanted is not None:
            if wanted.strip().casefold() not in folded:
                raise UsageError(f"no column {wanted!r} for {field}; {there}")
            places[field] = [folded.index(wanted.strip().casefold())]
        elif field == "image":
            places[field] = [place for place, name in enumerate(bare) if _PICTURES.fullmatch(name)]
        else:
            places[field] = [bare.index(name) for name in names if name in bare][:1]
    unknown = sorted(set(mapping) - set(_NAMES))
    if unknown:
        raise UsageError(f"the mapping names {', '.join(unknown)}; the fields are {', '.join(FIELDS)}")
    for field in ("title", "image"):
        if not places[field]:
            raise UsageError(f"no column for the {field}; {there}; name it with --map {field}=COLUMN")
    return places


def _table_row(line: int, cells: Sequence[str], places: Mapping[str, Sequence[int]]) -> FeedRow:
    def cell(field: str) -> str:
        return next((cells[place] for place in places[field] if place < len(cells)), "")

    def words(field: str) -> str:
        return _plain(cell(field))

    sources = [source for place in places["image"] if place < len(cells) for source in _split(cells[place])]
    return FeedRow(
        line,
        id=cell("id"),
        title=words("title"),
        pictures=tuple(FeedPicture(source, alt=words("alt")) for source in dict.fromkeys(sources)),
        price=words("price"),
        currency=words("currency"),
        description=words("description"),
        brand=words("brand"),
        availability=words("availability"),
        url=cell("url"),
        aliases=tuple(filter(None, map(_plain, _split(cell("aliases"))))),
    )


def _split(cell: str) -> list[str]:
    mark = "|" if "|" in cell else ","
    return [part.strip() for part in cell.split(mark) if part.strip()]


def _plain(text: str) -> str:
    """Shop systems export whatever a person reads as HTML. Inline tags part no words; a lone `<` is no tag."""
    if "<" not in text and "&" not in text:
        return text
    return " ".join(html.unescape(_TAG.sub(" ", _INLINE_TAG.sub("", text))).split())
