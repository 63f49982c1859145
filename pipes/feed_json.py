"""JSON catalogues: which kind it is, our own kind, and products decoded one at a time so that a file fits in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer, Shop
from multimodal.pipes.feed_source import FeedSource
from multimodal.pipes.feed_words import items, plain, source, text, wordless

if TYPE_CHECKING:
    from multimodal.pipes.feed import Feed

__all__ = ["decoded", "json_rows", "lenient", "own_row", "own_shop", "pixels"]

_ANY = msgspec.json.Decoder(float_hook=Decimal)
_MAPPING = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_NAN: Callable[[str], None] = lambda _: None  # noqa: E731  # what Python writes for no number
_FORM = (
    'needs the form {"shop": {...}, "products": [...]}, or one of Shopify, WooCommerce or schema.org; '
    "where it has one, --format F says so (format= in code)"
)


def json_rows(file: FeedSource, feed: Feed, kind: str | None, now: datetime) -> Iterator[FeedRow]:
    """The products of a JSON file of any of the kinds that are known.

    Args:
        file: the source.
        feed: told the format and the shop.
        kind: json, shopify, woocommerce, json-ld; None = as the content tells.
        now: for prices that hold between two dates.

    Raises:
        UsageError: no valid JSON, or none of the forms.
    """
    data = file.whole()
    file.done = 1  # the file is parsed; from here on its products count
    try:
        document = _opened(data)
    except (ValueError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"the catalogue {file.path} is not valid JSON: {what}") from error
    entries, about = _entries(document)
    begin = [entry for item in map(decoded, entries[:20]) for entry in items(item)]
    first: dict[str, Any] = next((entry for entry in begin if isinstance(entry, dict)), {})
    kind = kind or _kind(document, about, first)
    if kind is None or entries is _NONE:
        raise UsageError(f"the catalogue {file.path} {_FORM}")
    feed.format = kind
    feed.shop = own_shop(about.get("shop"))
    return _counted(file, len(entries), _rows(kind, entries, now))


def _counted(file: FeedSource, total: int, rows: Iterator[FeedRow]) -> Iterator[FeedRow]:
    for row in rows:
        file.done = file.size * row.line // max(1, total)
        yield row


def _rows(kind: str, entries: list[Any], now: datetime) -> Iterator[FeedRow]:
    if kind == "json-ld":
        from multimodal.pipes.feed_jsonld import LinkedDocument, linked_rows

        yield from linked_rows((LinkedDocument(number, raw) for number, raw in enumerate(entries, 1)), now)
        return
    if kind == "shopify":
        from multimodal.pipes.feed_shopify import shopify_row as to_row
    elif kind == "woocommerce":
        from multimodal.pipes.feed_woocommerce import woocommerce_row as to_row
    else:
        to_row = own_row
    for number, raw in enumerate(entries, 1):
        item = decoded(raw)
        if isinstance(item, Exception):
            yield FeedRow(number, broken=str(item))
        elif not isinstance(item, dict):
            yield FeedRow(number, broken=f"a {type(item).__name__} where a product should be")
        else:
            yield to_row(number, item)


def _opened(data: bytes) -> Any:
    """The outermost list or object, with what is in it still undecoded where that is possible."""
    try:
        return (_LIST if data.lstrip()[:1] == b"[" else _MAPPING).decode(data)
    except msgspec.DecodeError:
        return lenient(data.decode("utf-8", "replace"))


def lenient(written: str) -> Any:
    """A JSON document as Python's reader takes it: with what exports get wrong, such as NaN and line ends in a text.

    Raises:
        ValueError: it is no JSON; the message names the line.
        RecursionError: it is nested too deeply.
    """
    return json.loads(written, strict=False, parse_float=Decimal, parse_constant=_NAN)


def decoded(raw: Any) -> Any:
    """A product; the exception itself where it cannot be decoded, as one bad product fails alone."""
    if not isinstance(raw, msgspec.Raw):
        return raw
    try:
        return _ANY.decode(raw)
    except RecursionError:
        return ValueError("it is nested too deeply")
    except msgspec.DecodeError as error:
        return error


_NONE: list[Any] = []


def _entries(document: Any) -> tuple[list[Any], dict[str, Any]]:
    """The products of a document, and what else it says; `_NONE` where it has no list of them."""
    if isinstance(document, list):
        return document, {}
    if not isinstance(document, dict):
        return _NONE, {}
    for name in ("products", "@graph", "product"):
        if name in document:
            inner = document[name]
            try:
                found = _LIST.decode(inner) if isinstance(inner, msgspec.Raw) else inner
            except msgspec.DecodeError:
                found = [inner] if name != "products" else None
            about = {key: decoded(value) for key, value in document.items() if key != name}
            return (found if isinstance(found, list) else _NONE), about
    about = {key: decoded(value) for key, value in document.items()}
    return [about], about


def _kind(document: Any, about: dict[str, Any], first: dict[str, Any]) -> str | None:
    if any(name in found for found in (about, first) for name in ("@context", "@type", "@graph", "@id")):
        return "json-ld"
    if "prices" in first or ("permalink" in first and "images" in first):
        return "woocommerce"
    listed = isinstance(document, dict) and ("products" in document or "product" in document)
    if listed and "shop" not in about and ("body_html" in first or ("handle" in first and "variants" in first)):
        return "shopify"
    return "json" if isinstance(document, dict) and "products" in document else None


def own_shop(about: Any) -> Shop:
    """The shop as our own form describes it."""
    known = about if isinstance(about, dict) else {}
    return Shop(*(_words(known.get(name)) for name in Shop.__struct_fields__))


def own_row(line: int, item: Any) -> FeedRow:
    """A product of our own form, in JSON or YAML."""
    if not isinstance(item, dict):
        return FeedRow(line, broken=f"a {_called(item)} where a product should be")
    get = item.get
    title = _words(get("title"))
    return FeedRow(
        line,
        id=text(get("id")),
        title=title,
        broken=wordless(text(get("title")), title),
        pictures=tuple([picture for picture in map(_picture, _list(get("images"))) if picture.source]),
        offer=Offer(_price(get("price")), text(get("currency")), _price(get("sale_price"))),
        description=_words(get("description")),
        brand=_words(get("brand")),
        availability=text(get("availability")),
        url=text(get("url")),
        aliases=tuple(filter(None, map(_words, _list(get("aliases"))))),
        facts=_pairs(get("facts")),
        variants=tuple([_variant(entry) for entry in _list(get("variants")) if isinstance(entry, dict)]),
    )


def _words(value: Any) -> str:
    """What is read out or shown: people paste HTML into our own form as they do into any other."""
    return plain(text(value))


def _price(value: Any) -> str:
    """A price as text; what can be none is spelt out, so that it is warned of and not passed over."""
    return text(value) or ("" if value in (None, "", [], {}) else repr(value)[:60])


def _called(item: Any) -> str:
    return "text" if isinstance(item, str) else type(item).__name__


def _picture(entry: Any) -> FeedPicture:
    if not isinstance(entry, dict):
        return FeedPicture(source(text(entry)))
    get = entry.get
    address = text(get("file")) or text(get("url")) or text(get("src"))
    size = pixels(get("width")), pixels(get("height"))
    return FeedPicture(source(address), text(get("key")), _words(get("alt")), *size)


def _variant(entry: dict[str, Any]) -> FeedVariant:
    get = entry.get
    return FeedVariant(
        text(get("id")),
        _words(get("title")),
        _pairs(get("options")),
        Offer(_price(get("price")), text(get("currency")), _price(get("sale_price"))),
        text(get("availability")),
        tuple(filter(None, map(text, _list(get("images"))))),
    )


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = (
        [(plain(str(name).strip()), _words(words)) for name, words in value.items()] if isinstance(value, dict) else []
    )
    return tuple([pair for pair in pairs if all(pair)])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def pixels(value: Any) -> int:
    """A width or height: a number, a text such as ``800px``, or schema.org's QuantitativeValue; 0 = none of them."""
    if type(value) is int:  # and not a bool
        return value if 0 < value < 10**6 else 0
    if isinstance(value, dict):
        value = value.get("value")
    digits = text(value).removesuffix("px").strip().partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else 0
