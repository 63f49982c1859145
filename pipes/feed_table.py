"""Tables: CSV and TSV with a header row, as spreadsheets, Google Merchant Center and shop systems write them."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from multimodal.errors import UsageError
from multimodal.pipes.fact_words import COLOUR_NAMES, MATERIAL_NAMES
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer
from multimodal.pipes.feed_source import FeedSource
from multimodal.pipes.feed_words import clean, plain, sources, wordless

if TYPE_CHECKING:
    from multimodal.pipes.feed import Feed

__all__ = ["FIELDS", "table_rows"]

_NAMES = {
    "id": ("id", "handle", "slug", "productid", "itemid", "sku", "articlenumber"),
    "title": ("title", "name", "productname", "producttitle"),
    "image": (),  # any number of columns: see _PICTURES
    "price": ("price", "regularprice", "variantprice", "unitprice"),
    "currency": ("currency", "currencycode", "pricecurrency"),
    "description": ("description", "bodyhtml", "body", "shortdescription"),
    "brand": ("brand", "brands", "vendor", "manufacturer"),
    "availability": ("availability", "stockstatus", "instock"),
    "url": ("url", "link", "producturl", "permalink"),
    "alt": ("alt", "alttext", "imagealt", "imagealttext"),
    "aliases": ("aliases", "alias", "synonyms"),
    "sale_price": ("saleprice", "specialprice"),
    "sale_dates": ("salepriceeffectivedate",),
    "sale_begins": ("datesalepricestarts",),
    "sale_ends": ("datesalepriceends",),
    "group": ("itemgroupid",),
    "variant_id": ("variantid", "variantsku", "sku"),
    "variant_title": ("varianttitle", "variantname"),
    "variant_image": ("variantimage",),
    "published": ("published", "status"),
}
"""Fields and the headers they go by, the most telling first, in lower case without anything but letters and digits."""
_FIRST_FILLED = frozenset({"description", "brand", "url", "published"})
_PICTURES = re.compile(r"(additional)?(image|picture|photo|asset)s?(link|url|src|file|name)?s?\d*")
_KINDS = ("color", "colour", "size", "material", "pattern")
"""Columns by which variants of one product differ."""
_FACTS = frozenset(
    re.sub(r"[\W_]", "", name)
    for name in (
        *(MATERIAL_NAMES | COLOUR_NAMES),
        *("capacity", "volume", "weight", "height", "width", "length", "depth", "thickness", "diameter", "dimensions"),
        *("made in", "country of origin", "origin", "designer", "finish", "style", "care", "power", "warranty"),
        *(
            "容量",
            "重量",
            "净重",
            "高度",
            "宽度",
            "长度",
            "深度",
            "厚度",
            "直径",
            "尺寸",
            "产地",
            "原产地",
            "保养",
            "保修",
        ),
    )
)
"""Columns that say something of a product, in the same spelling as headers are compared in."""
_BARE = re.compile(r"[\d.,]+")
FIELDS = (*_NAMES, "facts")

_UNPUBLISHED = frozenset({"0", "-1", "false", "no", "draft", "archived"})
_WOOCOMMERCE = {"type", "name", "published", "regularprice"}
_ESCAPED = re.compile(r"^'(?=[=+\-@])")
"""WooCommerce's guard against spreadsheets that would take a cell for a formula."""

_END = "\x00end of the feed"


def table_rows(source: FeedSource, feed: Feed, mapping: Mapping[str, str], kind: str | None) -> Iterator[FeedRow]:
    """The rows of a table, read as they are taken.

    Args:
        source: the file.
        feed: told the format, where it is found out here.
        mapping: field -> column, for headers that are not known here; for ``facts`` several, as in ``care+power``.
        kind: ``woocommerce-csv``, ``csv``, or None = as the header tells.

    Raises:
        UsageError: no row of column names, or a column that is missing.
    """
    header = next((line for line in source.head.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)
    records = (record for record in _records(source.lines(), delimiter) if record[1] is None or any(record[1]))
    columns = next(records, (0, None))[1]
    if columns is None:
        raise UsageError(f"the catalogue {source.path} begins with no row of column names")
    table = _Table(source, columns, mapping, kind)
    feed.format = "woocommerce-csv" if table.woocommerce else "csv"
    feed.unread = table.unread
    return _rows(records, table, delimiter)


def _rows(records: Iterator[tuple[int, list[str] | None]], table: _Table, delimiter: str) -> Iterator[FeedRow]:
    width = len(table.columns)
    for line, cells in records:
        if cells is None:
            yield FeedRow(line, broken="a quotation mark is opened and never closed")
        elif len(cells) > width and any(cells[width:]):
            wide = f"{len(cells)} cells under {width} columns; put text that holds {delimiter!r} in quotes"
            yield FeedRow(line, broken=wide)
        else:
            yield table.row(line, cells + [""] * (width - len(cells)))


def _records(lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str] | None]]:
    """Line number and stripped cells of each record; None for a line whose quotation mark swallows all the rest.

    A marker after the last line tells: a reader that is still inside quotes takes it for text. Reading then starts
    anew behind the line, so that one missing mark costs one row; the lines to be read again are never more than the
    csv module takes for one field.
    """
    again: deque[str] = deque()
    taken: list[str] = []
    ended = False

    def supply() -> Iterator[str]:
        nonlocal ended
        while True:
            line = again.popleft() if again else next(lines, None)
            if line is None:
                ended = True
                yield _END
                return
            taken.append(line)
            yield line

    before = 0
    while True:
        ended = False
        try:
            for cells in csv.reader(supply(), delimiter=delimiter, skipinitialspace=True):
                if ended:
                    if cells == [_END]:
                        return
                    break
                yield before + 1, [cell.strip() for cell in cells]
                before += len(taken)
                taken.clear()
        except csv.Error:  # a field above the module's limit: the same missing mark in a long file
            pass
        yield before + 1, None
        before += 1
        again.extendleft(reversed(taken[1:]))
        taken.clear()


class _Table:
    """Where each field of a table stands, and how a row of it is read."""

    def __init__(
        self, source: FeedSource, columns: Sequence[str], mapping: Mapping[str, str], kind: str | None
    ) -> None:
        self.columns = columns
        bare = [re.sub(r"[\W_]", "", column.casefold()) for column in columns]
        self.woocommerce = kind == "woocommerce-csv" or (kind is None and set(bare) >= _WOOCOMMERCE)
        self._places = _places(source, columns, bare, mapping)
        taken = set(self._places["id"])
        self._places["variant_id"] = [place for place in self._places["variant_id"] if place not in taken]
        if self.woocommerce:
            self._places["id"] = [bare.index(name) for name in ("sku", "id") if name in bare]
        where = {name: place for place, name in enumerate(bare)}
        self._id, self._type, self._parent = (where.get(name) for name in ("id", "type", "parent"))
        numbers = range(1, 1 + sum(name.startswith(("option", "attribute")) for name in bare))
        pairs = [(where.get(f"option{n}name"), where.get(f"option{n}value")) for n in numbers]
        pairs += [(where.get(f"attribute{n}name"), where.get(f"attribute{n}values")) for n in numbers]
        self._named = [(name, value) for name, value in pairs if name is not None and value is not None]
        self._kinds = [(columns[where[name]], where[name]) for name in _KINDS if name in where]
        self._lists = (where.get("optiongroups"), where.get("optionvalues"))
        self._asked = _columns(source, columns, mapping.get("facts", ""))
        used = {place for places in self._places.values() for place in places}
        used |= {place for pair in (*self._named, self._lists) for place in pair if place is not None}
        used |= {place for place in (self._id, self._type, self._parent) if place is not None}
        used |= {place for _, place in self._kinds}
        self._known = [(columns[at], at) for at, name in enumerate(bare) if name in _FACTS and at not in used]
        used |= {*self._asked, *(place for _, place in self._known)}
        self.unread = tuple(column for at, column in enumerate(columns) if column.strip() and at not in used)
        """Columns of which nothing is read."""
        self._has_variants = bool(self._named or self._places["variant_id"] or self._places["group"])
        self._options: dict[int, str] = {}  # Shopify names them in a product's first row only
        self._groups: list[str] = []

    def row(self, line: int, cells: list[str]) -> FeedRow:
        """One record as a row; `cells` has one for each column."""
        if self.woocommerce:
            cells = [_ESCAPED.sub("", cell).replace("\\n", "\n") for cell in cells]
        places = self._places

        def cell(field: str) -> str:
            for place in places[field]:
                if cells[place]:
                    return cells[place]
            return ""

        def words(field: str) -> str:
            found = cell(field)
            return plain(found) if found else ""

        found = [address for place in places["image"] if cells[place] for address in sources(cells[place])]
        alt = words("alt")
        begins, _, ends = cell("sale_dates").partition("/")
        title = words("title")
        offer = Offer(
            words("price"),
            words("currency"),
            words("sale_price"),
            cell("sale_begins") or begins,
            cell("sale_ends") or ends,
        )
        available, group = words("availability"), cell("group")
        variation = self._type is not None and self.woocommerce and cells[self._type].startswith("variation")
        options = self._choices(cells, first=bool(title), kinds=bool(group))
        pictures = tuple([FeedPicture(address, alt=alt) for address in dict.fromkeys(found)])
        variant = None
        if self._has_variants or variation:
            own, image = cell("variant_id"), cell("variant_image")
            if own or options or image or group or (not title and offer.price):
                shown = tuple(sources(image)) if image else ()
                if not places["variant_image"] and (group or variation or not title):
                    shown = tuple(picture.source for picture in pictures)
                name = title if group or variation else words("variant_title")
                code = cell("id") if group or variation else own
                variant = FeedVariant(code, name, options, offer, available, shown)
                pictures += tuple([FeedPicture(address) for address in shown if address not in found])
        facts = () if group or variation else tuple((name, plain(cells[at])) for name, at in self._kinds if cells[at])
        if self.woocommerce and not variation:
            facts, options, variant = options, (), None
        if not variation:
            facts += self._facts(cells)
        return FeedRow(
            line,
            id=clean(cell("id")),
            title=title,
            broken=wordless(cell("title"), title),
            pictures=pictures,
            offer=offer,
            description=words("description"),
            brand=words("brand"),
            availability=available,
            url=clean(cell("url")),
            aliases=tuple(filter(None, map(plain, sources(cell("aliases"))))) if places["aliases"] else (),
            facts=facts,
            variant=variant,
            group=group,
            parent=cells[self._parent] if variation and self._parent is not None else "",
            names=(f"id:{cells[self._id]}",) if self.woocommerce and self._id is not None else (),
            unpublished=self._unpublished(cell("published")),
        )

    def _choices(self, cells: Sequence[str], *, first: bool, kinds: bool) -> tuple[tuple[str, str], ...]:
        found = []
        for name, value in self._named:
            if first or cells[name]:
                self._options[name] = plain(cells[name])
            if cells[value] and self._options.get(name) and (self._options[name], cells[value]) != _NO_CHOICE:
                found.append((self._options[name], plain(cells[value])))
        if kinds:
            found += [(name, plain(cells[at])) for name, at in self._kinds if cells[at]]
        groups, values = self._lists
        if groups is not None and values is not None:
            if first:
                self._groups = [plain(part) for part in cells[groups].split("|")]
            found += [
                (name, plain(part)) for name, part in zip(self._groups, cells[values].split("|"), strict=False) if part
            ]
        return tuple(found)

    def _facts(self, cells: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """What further columns say: those that were asked for, and those of a known name, but for numbers alone."""
        # "weight: 2.4" is no fact without its unit; who asks for the column knows what it holds.
        known = [(name, at) for name, at in self._known if at not in self._asked and not _BARE.fullmatch(cells[at])]
        asked = [(self.columns[at], at) for at in self._asked]
        return tuple((name, plain(cells[at])) for name, at in (*asked, *known) if cells[at])

    def _unpublished(self, words: str) -> str:
        return f"the shop does not show it: {words}" if words and words.casefold() in _UNPUBLISHED else ""


_NO_CHOICE = ("Title", "Default Title")
"""What Shopify writes for a product without choices."""


def _columns(source: FeedSource, columns: Sequence[str], names: str) -> list[int]:
    """The places of the columns that hold facts, as ``--map facts=care+power`` names them."""
    folded = [column.casefold() for column in columns]
    wanted = [name.strip().casefold() for name in names.split("+")] if names else []
    if missing := next((name for name in wanted if name not in folded), None):
        raise UsageError(f"no column {missing!r} for facts; {source.path} has the columns {', '.join(columns)}")
    return [folded.index(name) for name in dict.fromkeys(wanted)]


def _places(
    source: FeedSource, columns: Sequence[str], bare: Sequence[str], mapping: Mapping[str, str]
) -> dict[str, list[int]]:
    """Where each field is found: the column numbers."""
    folded = [column.casefold() for column in columns]
    there = f"{source.path} has the columns {', '.join(columns)}"
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
            found = [bare.index(name) for name in names if name in bare]
            places[field] = found if field in _FIRST_FILLED else found[:1]
    unknown = sorted(set(mapping) - set(FIELDS))
    if unknown:
        raise UsageError(f"the mapping names {', '.join(unknown)}; the fields are {', '.join(FIELDS)}")
    for field in ("title", "image"):
        if not places[field]:
            raise UsageError(f"no column for the {field}; {there}; name it with --map {field}=COLUMN")
    return places
