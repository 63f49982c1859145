"""schema.org's offers in every shape: what a product costs at a moment, and whether it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from multimodal.pipes.feed_rows import Offer
from multimodal.pipes.feed_words import availability, items, text, within
from multimodal.pipes.price import parse_price

__all__ = ["offer_of", "stock_of"]

_NOT_PAID = ("listprice", "strikethroughprice", "srp", "msrp", "regularprice", "minimumadvertisedprice", "invoiceprice")
"""Price types that nobody pays (https://schema.org/PriceTypeEnumeration)."""
_SALE = "saleprice"
_DEEP = 6

Resolve = Callable[[Any], Any]


def offer_of(value: Any, resolve: Resolve, now: datetime) -> Offer:
    """What is paid now: a sale price that holds, else the lowest price that holds, else the lowest of all.

    Args:
        value: Offer, AggregateOffer, a list of them, a price of its own; with priceSpecification or without.
        resolve: gives the node that a reference refers to.
        now: for prices that hold between two dates.
    """
    found = [_ranked(*price, now) for offer in _offers(value, resolve) for price in _prices(offer, resolve)]
    if not found:
        return Offer()
    _, _, price, currency = min(found, key=lambda entry: entry[:2])
    return Offer(price, currency)


def stock_of(value: Any, resolve: Resolve) -> str:
    """In stock where any offer is, else what the first says; as it is written where that is no word of schema.org."""
    written = [text(offer.get("availability")) for offer in _offers(value, resolve)]
    known = [availability(words) or "" for words in written]
    if "in_stock" in known:
        return "in_stock"
    return next(filter(None, known), "") or next(filter(None, written), "")


def _offers(value: Any, resolve: Resolve, depth: int = 0) -> Iterator[dict[str, Any]]:
    for entry in map(resolve, items(value)):
        if isinstance(entry, dict) and depth < _DEEP:
            yield entry
            yield from _offers(entry.get("offers"), resolve, depth + 1)
        elif price := text(entry):
            yield {"price": price}


_Price = tuple[str, str, str, str, str]


def _prices(offer: dict[str, Any], resolve: Resolve) -> Iterator[_Price]:
    """Price, currency, type, begin and end of each price of an offer."""
    currency = text(offer.get("priceCurrency"))
    begins, ends = text(offer.get("validFrom")), text(offer.get("priceValidUntil")) or text(offer.get("validThrough"))
    price = text(offer.get("price")) or text(offer.get("lowPrice"))
    if price:
        yield price, currency, "", begins, ends
    for entry in map(resolve, items(offer.get("priceSpecification"))):
        if not isinstance(entry, dict):
            continue
        price = text(entry.get("price")) or text(entry.get("minPrice"))
        kind = text(entry.get("priceType")).rpartition("/")[2].casefold()
        if price and kind not in _NOT_PAID:
            own = text(entry.get("priceCurrency")) or currency
            yield price, own, kind, text(entry.get("validFrom")) or begins, text(entry.get("validThrough")) or ends


def _ranked(
    price: str, currency: str, kind: str, begins: str, ends: str, now: datetime
) -> tuple[tuple[bool, bool, bool], Decimal, str, str]:
    number = parse_price(price)[0]
    holds = within(begins, ends, now)
    return (number is None, not holds, not (holds and kind == _SALE)), number or Decimal(0), price, currency
