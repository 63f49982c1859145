"""Google Merchant feeds in XML, RSS 2.0 and Atom, read as they stream in; entities of their own are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.parsers import expat

from multimodal.errors import UsageError
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer, Shop
from multimodal.pipes.feed_source import FeedSource
from multimodal.pipes.feed_words import plain, source, wordless

if TYPE_CHECKING:
    from multimodal.pipes.feed import Feed

__all__ = ["xml_rows"]

_GOOGLE = "http://base.google.com/ns/"
_ITEMS = frozenset({"item", "entry"})
_DEPTH = 100
_ROOM = 1 << 24
"""Letters that one item may have: more would fill memory before it ends."""
_COST = 64
"""How many letters an element or a piece of text counts for, as it takes about their memory."""
_DECLARED = re.compile(r"<\?xml[^>]*\bencoding\s*=\s*[\"']([\w.-]+)")
_KINDS = ("color", "size", "material", "pattern")

Fields = dict[str, list[str]]


def xml_rows(file: FeedSource, feed: Feed) -> Iterator[FeedRow]:
    """The items of a feed. Where the XML breaks off, what came before is kept and the fault is a row of its own.

    Raises:
        UsageError: no item before the fault, no feed at all, or a document that declares entities.
    """
    reader = _Reader()
    count = 0
    fault = None
    declared = _DECLARED.match(file.head.lstrip("\ufeff"))
    # Bytes where the file names an encoding of its own that is not UTF-8; else as it was found out by its content.
    by_itself = declared is not None and declared.group(1).lower() not in {"utf-8", "utf8", "utf-16"}
    for part in file.chunks() if by_itself else file.texts():
        try:
            reader.feed(part)
        except expat.ExpatError as error:
            fault = error
        for line, fields in reader.taken():
            count += 1
            yield _row(line, fields)
        if fault is not None:
            break
    if by_itself:
        file.note = ""
    if fault is None:
        try:
            reader.close()
        except expat.ExpatError as error:
            fault = error
    feed.shop = Shop(name=plain(reader.shop))
    if fault is not None:
        broken = f"not well-formed from here on: {expat.ErrorString(fault.code)}"
        if not count:
            raise UsageError(f"the catalogue {file.path} is not valid XML: line {fault.lineno}: {broken}")
        yield FeedRow(fault.lineno, broken=broken)
    elif not count:
        raise UsageError(f"the catalogue {file.path} has no <item> or <entry>; it needs a product feed in RSS or Atom")


class _Reader:
    """Gathers the fields of each item, as Google's namespace and RSS or Atom name them."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = self._entity
        self._google = {"g": True}
        """Prefix -> whether it is Google's; many a feed forgets to declare it."""
        self._begun = False
        self._room = _ROOM
        self._depth = 0
        self._item = 0  # the depth of the item that is open
        self._line = 0
        self._fields: Fields = {}
        self._open: list[str] = []
        self._text: list[str] = []
        self._done: list[tuple[int, Fields]] = []
        self.shop = ""

    def feed(self, part: bytes | str) -> None:
        if not self._begun:
            part = part.lstrip()  # blank lines before the declaration, which some shops' templates leave
            self._begun = bool(part)
        self._parser.Parse(part, False)

    def close(self) -> None:
        self._parser.Parse(b"", True)

    def taken(self) -> list[tuple[int, Fields]]:
        done, self._done = self._done, []
        return done

    def _entity(self, name: str, *_: object) -> None:
        raise UsageError(f"the XML declares the entity &{name};, which could be used to read files or fill memory")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._take(len(name))
        if self._depth > _DEPTH:
            raise UsageError(f"the XML is nested more than {_DEPTH} deep")
        for key, value in attributes.items():
            if key == "xmlns" or key.startswith("xmlns:"):
                self._google[key[6:]] = value.startswith(_GOOGLE)
        self._text = []
        prefix, _, local = name.rpartition(":")
        if not self._item:
            if local in _ITEMS:
                self._item, self._line = self._depth, self._parser.CurrentLineNumber
                self._fields, self._open, self._room = {}, [], _ROOM
            return
        # What stands inside a field (a price inside g:shipping) is told by its path.
        self._open.append(f"g:{local}" if self._google.get(prefix) else "?" if prefix else local)
        if local == "link" and "href" in attributes and attributes.get("rel", "alternate") == "alternate":
            self._fields.setdefault("link", []).append(attributes["href"])

    def _data(self, data: str) -> None:
        self._take(len(data))
        self._text.append(data)

    def _take(self, length: int) -> None:
        self._room -= length + _COST
        if self._room < 0:
            raise UsageError(f"the XML has an item, or text outside of any, of more than {_ROOM >> 20} MiB")

    def _end(self, name: str) -> None:
        words = "".join(self._text).strip()
        self._text = []
        if self._item == self._depth:
            self._done.append((self._line, self._fields))
            self._item = 0
        elif self._item:
            if words:
                self._fields.setdefault("/".join(self._open), []).append(words)
            self._open.pop()
        elif name == "title" and not self.shop:
            self.shop = words
        self._depth -= 1


def _row(line: int, fields: Fields) -> FeedRow:
    def first(name: str) -> str:
        found = fields.get(f"g:{name}") or fields.get(name)
        return found[0] if found else ""

    def words(name: str) -> str:
        found = first(name)
        return plain(found) if found else ""

    addresses = [*fields.get("g:image_link", ()), *fields.get("image_link", ())]
    addresses += [*fields.get("g:additional_image_link", ()), *fields.get("additional_image_link", ())]
    pictures = tuple([FeedPicture(source(address)) for address in dict.fromkeys(addresses)])
    begins, _, ends = first("sale_price_effective_date").partition("/")
    offer = Offer(words("price"), "", words("sale_price"), begins, ends)
    title, available, group, code = words("title"), words("availability"), first("item_group_id"), first("id")
    kinds = tuple([(name, words(name)) for name in _KINDS if words(name)])
    facts = [
        (plain(name), plain(value))
        for name, value in zip(
            fields.get("g:product_detail/g:attribute_name", ()),
            fields.get("g:product_detail/g:attribute_value", ()),
            strict=False,
        )
    ]
    shown = tuple(picture.source for picture in pictures)
    return FeedRow(
        line,
        id=code,
        title=title,
        broken=wordless(first("title"), title),
        pictures=pictures,
        offer=offer,
        description=words("description") or words("summary") or words("content"),
        brand=words("brand"),
        availability=available,
        url=first("link"),
        facts=(*(() if group else kinds), *facts),
        variant=FeedVariant(code, title, kinds, offer, available, shown) if group else None,
        group=group,
    )
