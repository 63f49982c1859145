"""schema.org's Product and ProductGroup in JSON-LD: what search engines read in a shop's pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from multimodal.pipes.feed_json import pixels
from multimodal.pipes.feed_offers import offer_of, stock_of
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant
from multimodal.pipes.feed_words import items, plain, source, text, wordless

__all__ = ["LinkedDocument", "linked_rows"]

_DOORS = ("@graph", "mainEntity", "itemListElement", "item", "hasPart")
"""Where products of the page's own stand; what is only related to them, or reviewed, stands elsewhere."""
_PRODUCTS = frozenset({"product", "individualproduct", "productmodel", "vehicle", "book", "someproducts"})
_CODES = ("sku", "productID", "productGroupID", "gtin13", "gtin", "gtin14", "gtin12", "gtin8", "mpn")
_KINDS = ("color", "size", "material", "pattern")
_DEEP = 12


class LinkedDocument(msgspec.Struct, frozen=True):
    """One JSON-LD document and its place in the file; `content` is decoded, or undecoded, or why it cannot be."""

    line: int
    content: Any

    def decoded(self) -> Any:
        """The document, or the exception that says why there is none."""
        from multimodal.pipes.feed_json import decoded

        return decoded(self.content)

    def mentions(self, word: bytes) -> bool:
        """Whether a word may stand in it."""
        return not isinstance(self.content, msgspec.Raw) or word in bytes(self.content)


def linked_rows(documents: Iterable[LinkedDocument], now: datetime) -> Iterator[FeedRow]:
    """A row for every product of some documents, which may refer to one another by ``@id``.

    Args:
        documents: in the order of the file.
        now: for prices that hold between two dates.
    """
    graph = _Graph(list(documents))
    for document in graph.documents:
        content = document.decoded()
        if isinstance(content, Exception):
            yield FeedRow(document.line, broken=str(content))
            continue
        for node in _nodes(content):
            kinds = _kinds(node)
            if "productgroup" in kinds or (kinds & _PRODUCTS and str(node.get("@id")) not in graph.variants):
                yield _row(document.line, node, graph, now)


class _Graph:
    """Nodes by their ``@id``, looked up only where some document refers to one."""

    def __init__(self, documents: list[LinkedDocument]) -> None:
        self.documents = documents
        self._nodes: dict[str, dict[str, Any]] | None = None
        self.variants: set[str] = set()
        """``@id`` of the nodes that a group lists as its variants: they are no products of their own."""
        for document in documents:
            if document.mentions(b'"hasVariant"'):
                for node in _every(document.decoded()):
                    self.variants.update(
                        str(entry["@id"])
                        for entry in items(node.get("hasVariant"))
                        if isinstance(entry, dict) and "@id" in entry
                    )

    def node(self, value: Any) -> Any:
        """What a reference refers to; anything else as it is."""
        if not isinstance(value, dict) or "@id" not in value or set(value) - {"@id", "@type"}:
            return value
        if self._nodes is None:
            self._nodes = {}
            for document in self.documents:
                for node in _every(document.decoded()):
                    if "@id" in node and set(node) - {"@id", "@type"}:
                        self._nodes.setdefault(str(node["@id"]), node)
        return self._nodes.get(str(value["@id"]), value)


def _every(content: Any) -> Iterator[dict[str, Any]]:
    """All objects of a document, at any depth; without recursion, as a page may be written to exhaust it."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _nodes(content: Any) -> Iterator[dict[str, Any]]:
    """The objects behind the doors, in order."""
    waiting = [(content, 0)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, list):
            waiting.extend((entry, depth) for entry in reversed(value))
        elif isinstance(value, dict) and depth < _DEEP:
            yield value
            waiting.extend((value[door], depth + 1) for door in reversed(_DOORS) if door in value)


def _kinds(node: dict[str, Any]) -> set[str]:
    return {text(kind).rpartition("/")[2].rpartition(":")[2].casefold() for kind in items(node.get("@type"))}


def _row(line: int, node: dict[str, Any], graph: _Graph, now: datetime) -> FeedRow:
    group = graph.node(next(iter(items(node.get("isVariantOf"))), None))
    code = _code(node)
    pictures = _pictures(node, graph)
    offer, stock = offer_of(node.get("offers"), graph.node, now), stock_of(node.get("offers"), graph.node)
    variants = []
    for entry in items(node.get("hasVariant")):
        child = graph.node(entry)
        if isinstance(child, dict):
            variant, own = _variant(child, node, graph, now)
            variants.append(variant)
            known = {picture.source for picture in pictures}
            pictures += tuple([picture for picture in own if picture.source not in known])
    key = ""
    choice: FeedVariant | None = None
    if isinstance(group, dict):
        key = text(node.get("inProductGroupWithID")) or _code(group)
    elif text(group) or text(node.get("inProductGroupWithID")):
        key = text(node.get("inProductGroupWithID")) or _last(text(group))
    if key:
        choice, _ = _variant(node, group if isinstance(group, dict) else {}, graph, now)
    title = plain(text(node.get("name")))
    return FeedRow(
        line,
        id=code,
        title=title,
        broken=wordless(text(node.get("name")), title),
        pictures=pictures,
        offer=offer,
        description=plain(text(node.get("description"))),
        brand=_name(graph.node(next(iter(items(node.get("brand")) or items(node.get("manufacturer"))), None))),
        availability=stock,
        url=text(node.get("url")),
        aliases=tuple(filter(None, (plain(text(alias)) for alias in items(node.get("alternateName"))))),
        facts=_facts(node, graph),
        variants=tuple(variants),
        variant=choice,
        group=key,
    )


def _variant(
    node: dict[str, Any], group: dict[str, Any], graph: _Graph, now: datetime
) -> tuple[FeedVariant, tuple[FeedPicture, ...]]:
    varies = [text(name).rpartition("/")[2] for name in items(group.get("variesBy"))]
    options = [(name, plain(_name(graph.node(node[name])))) for name in varies or _KINDS if node.get(name)]
    if not varies:
        options += _facts(node, graph)
    pictures = _pictures(node, graph)
    offers = node.get("offers")
    found = FeedVariant(
        _code(node),
        plain(text(node.get("name"))),
        tuple([option for option in options if option[1]]),
        offer_of(offers, graph.node, now),
        stock_of(offers, graph.node),
        tuple(picture.source for picture in pictures),
    )
    return found, pictures


def _code(node: dict[str, Any]) -> str:
    for name in _CODES:
        if code := text(node.get(name)):
            return code
    for entry in items(node.get("identifier")):
        if code := text(entry.get("value")) if isinstance(entry, dict) else text(entry):
            return code
    return _last(text(node.get("url")) or text(node.get("@id")))


def _last(address: str) -> str:
    """The last part of an address that tells something."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.fragment or address


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return plain(text(value.get("name")) or text(value.get("value")) or text(value))
    return plain(text(value))


def _facts(node: dict[str, Any], graph: _Graph) -> tuple[tuple[str, str], ...]:
    found = []
    for entry in map(graph.node, items(node.get("additionalProperty"))):
        if isinstance(entry, dict):
            found.append((plain(text(entry.get("name"))), plain(text(entry.get("value")))))
    return tuple([fact for fact in found if all(fact)])


def _pictures(node: dict[str, Any], graph: _Graph) -> tuple[FeedPicture, ...]:
    found: dict[str, FeedPicture] = {}
    for entry in map(graph.node, items(node.get("image"))):
        if isinstance(entry, dict):
            address = text(entry.get("contentUrl")) or text(entry.get("url")) or text(entry.get("@id"))
            alt = plain(text(entry.get("caption")) or text(entry.get("name")) or text(entry.get("description")))
            picture = FeedPicture(source(address), "", alt, pixels(entry.get("width")), pixels(entry.get("height")))
        else:
            picture = FeedPicture(source(text(entry)))
        if picture.source:
            found.setdefault(picture.source, picture)
    return tuple(found.values())
