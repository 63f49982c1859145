"""Shopify's products.json, as the storefront and the Admin API give it."""

from __future__ import annotations

from typing import Any

from multimodal.pipes.feed_json import pixels
from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer
from multimodal.pipes.feed_words import items, plain, source, text, wordless

__all__ = ["shopify_row"]


def shopify_row(line: int, item: dict[str, Any]) -> FeedRow:
    """A product with its variants and their pictures; prices are in the shop's currency, which the file never says.

    Its tags are no aliases: they put many products under one word.
    """
    get = item.get
    pictures: dict[str, FeedPicture] = {}  # by id
    shown: dict[str, list[str]] = {}  # variant's id -> sources
    for entry in items(get("images")) or items(get("image")):
        picture, number = _picture(entry), text(entry.get("id")) if isinstance(entry, dict) else ""
        if picture.source:
            pictures[number or picture.source] = picture
            for variant in map(text, items(entry.get("variant_ids")) if isinstance(entry, dict) else ()):
                shown.setdefault(variant, []).append(picture.source)
    names = [text(option.get("name")) for option in items(get("options")) if isinstance(option, dict)]
    raw = [entry for entry in items(get("variants")) if isinstance(entry, dict)]
    codes = [text(entry.get("sku")) for entry in raw]
    variants = []
    for entry, code in zip(raw, codes, strict=True):
        number = text(entry.get("id"))
        own = _picture(entry.get("featured_image"))
        if own.source and own.source not in {picture.source for picture in pictures.values()}:
            pictures[own.source] = own
        first = [own.source] if own.source else []
        by_id = pictures.get(text(entry.get("image_id")))
        first += [by_id.source] if by_id else []
        variants.append(
            FeedVariant(
                code if codes.count(code) == 1 and code else number,
                plain(text(entry.get("title"))),
                _options(entry, names),
                Offer(text(entry.get("price"))),
                _stock(entry),
                tuple(dict.fromkeys([*first, *shown.get(number, ())])),
            )
        )
    only = variants[0] if len(variants) == 1 and variants[0].title in {"", "Default Title"} else None
    title = plain(text(get("title")))
    return FeedRow(
        line,
        id=text(get("handle")) or text(get("id")),
        title=title,
        broken=wordless(text(get("title")), title),
        pictures=tuple(pictures.values()),
        offer=only.offer if only else Offer(),
        description=plain(text(get("body_html"))),
        brand=plain(text(get("vendor"))),
        availability=only.availability if only else "",
        variants=() if only else tuple(variants),
        unpublished=_hidden(item),
    )


def _picture(entry: Any) -> FeedPicture:
    if not isinstance(entry, dict):
        return FeedPicture(source(text(entry)))
    size = pixels(entry.get("width")), pixels(entry.get("height"))
    return FeedPicture(
        source(text(entry.get("src"))), alt=plain(text(entry.get("alt"))), width_px=size[0], height_px=size[1]
    )


def _options(entry: dict[str, Any], names: list[str]) -> tuple[tuple[str, str], ...]:
    named = zip([*names, "", "", ""], ("option1", "option2", "option3"), strict=False)
    return tuple([(name or place, text(entry.get(place))) for name, place in named if text(entry.get(place))])


def _stock(entry: dict[str, Any]) -> str:
    available = entry.get("available")
    if isinstance(available, bool):
        return "in_stock" if available else "out_of_stock"
    stock = entry.get("inventory_quantity")
    if not isinstance(stock, int) or entry.get("inventory_management") is None:
        return ""
    if stock > 0:
        return "in_stock"
    return "backorder" if entry.get("inventory_policy") == "continue" else "out_of_stock"


def _hidden(item: dict[str, Any]) -> str:
    status = text(item.get("status"))
    if status in {"draft", "archived"}:
        return f"its status is {status}"
    return "it was never published" if "published_at" in item and item["published_at"] is None else ""
