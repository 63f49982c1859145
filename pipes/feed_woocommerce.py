"""WooCommerce's products in JSON: the Store API, whose prices count the smallest coin, and the REST API."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from multimodal.pipes.feed_json import pixels
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer
from multimodal.pipes.feed_words import items, plain, source, text, wordless

__all__ = ["woocommerce_row"]

_STOCK = {"instock": "in_stock", "outofstock": "out_of_stock", "onbackorder": "backorder"}
_MAX_MINOR = 6


def woocommerce_row(line: int, item: dict[str, Any]) -> FeedRow:
    """A product, or a variation that belongs to the product of its `parent`'s id."""
    get = item.get
    number, parent = text(get("id")), text(get("parent")) or text(get("parent_id"))
    variation = get("type") == "variation" or (parent not in {"", "0"} and "variation" in item)
    title = plain(text(get("name")))
    pictures = tuple(
        [picture for picture in map(_picture, items(get("images")) or items(get("image"))) if picture.source]
    )
    offer, stock = _offer(item), _availability(item)
    facts, options = _attributes(item)
    variant = None
    if variation:
        shown = tuple(picture.source for picture in pictures)
        choice = options or _written(text(get("variation")))
        variant = FeedVariant(text(get("sku")) or number, title, choice, offer, stock, shown)
    variants = [_listed(entry) for entry in items(get("variations"))]
    brands = [plain(text(entry.get("name"))) for entry in items(get("brands")) if isinstance(entry, dict)]
    return FeedRow(
        line,
        id=text(get("sku")) or text(get("slug")) or number,
        title=title,
        broken="" if variation else wordless(text(get("name")), title),
        pictures=pictures,
        offer=offer,
        description=plain(text(get("description"))) or plain(text(get("short_description"))),
        brand=next(filter(None, brands), ""),
        availability=stock,
        url=text(get("permalink")),
        facts=facts,
        variants=tuple(variants),
        variant=variant,
        parent=f"id:{parent}" if variation else "",
        names=(f"id:{number}",) if number else (),
        unpublished=_hidden(item),
    )


def _picture(entry: Any) -> FeedPicture:
    if not isinstance(entry, dict):
        return FeedPicture(source(text(entry)))
    size = pixels(entry.get("width")), pixels(entry.get("height"))
    return FeedPicture(source(text(entry.get("src"))), "", plain(text(entry.get("alt"))), *size)


def _offer(item: dict[str, Any]) -> Offer:
    prices = item.get("prices")
    if not isinstance(prices, dict):
        begins = text(item.get("date_on_sale_from_gmt")) or text(item.get("date_on_sale_from"))
        ends = text(item.get("date_on_sale_to_gmt")) or text(item.get("date_on_sale_to"))
        regular = text(item.get("regular_price")) or text(item.get("price"))
        return Offer(regular, text(item.get("currency")), text(item.get("sale_price")), begins, ends)
    minor = prices.get("currency_minor_unit")
    places = minor if isinstance(minor, int) and 0 <= minor <= _MAX_MINOR else 2
    written = text(prices.get("price")) or text(prices.get("regular_price"))
    # The price that the Store API calls `price` is what it costs at this moment: a sale is in it already.
    if written.isascii() and written.isdigit() and len(written) <= 18:
        written = format(Decimal(written).scaleb(-places), "f")
    return Offer(written, text(prices.get("currency_code")))


def _availability(item: dict[str, Any]) -> str:
    if item.get("is_on_backorder") is True:
        return "backorder"
    if isinstance(item.get("is_in_stock"), bool):
        return "in_stock" if item["is_in_stock"] else "out_of_stock"
    status = text(item.get("stock_status"))
    return _STOCK.get(status, status)


def _attributes(item: dict[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """What is said of the product, and what it is a choice of."""
    facts, options = [], []
    for entry in items(item.get("attributes")):
        if not isinstance(entry, dict):
            continue
        name = plain(text(entry.get("name")))
        chosen = plain(text(entry.get("value")) or text(entry.get("option")))
        terms = [text(term.get("name")) if isinstance(term, dict) else text(term) for term in items(entry.get("terms"))]
        terms = terms or list(map(text, items(entry.get("options"))))
        if name and chosen:
            options.append((name, chosen))
        elif name and any(terms):
            facts.append((name, plain(", ".join(filter(None, terms)))))
    return tuple(facts), tuple(options)


def _written(words: str) -> tuple[tuple[str, str], ...]:
    """The choices in a text such as ``Colour: Blue, Size: Large``."""
    parts = [part.partition(":") for part in plain(words).split(",")]
    return tuple([(name.strip(), value.strip()) for name, _, value in parts if name.strip() and value.strip()])


def _listed(entry: Any) -> FeedVariant:
    """A variation as its product lists it; its own row, where there is one, says the rest."""
    if not isinstance(entry, dict):
        return FeedVariant(text(entry))
    return FeedVariant(text(entry.get("id")), "", _attributes(entry)[1])


def _hidden(item: dict[str, Any]) -> str:
    status = text(item.get("status"))
    return f"its status is {status}" if status in {"draft", "pending", "private", "trash"} else ""
