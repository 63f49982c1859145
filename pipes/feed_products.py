"""Drafts of products judged and finished: keys of pictures, prices that hold now, words that are known. Pure."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Protocol

import msgspec

from multimodal.pipes.feed_rows import FeedPicture, FeedRow, FeedVariant, Offer
from multimodal.pipes.feed_words import availability, currency_code, within
from multimodal.pipes.price import parse_price, price_doubt
from multimodal.values import Product, ProductImage, ProductVariant

__all__ = ["Draft", "Judge", "RowProblem"]


class RowProblem(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a row.

    Args:
        line: its line in the file; its number in the list of a JSON catalogue.
        reason: malformed, no_title, duplicate_id, continues_left_out, no_parent; unpublished, of a row that the shop
            does not show; or, of a row that was taken: no_picture, not_found, refused_address, duplicate_key,
            bad_price, price_range, bad_currency, bad_availability, shared_name, encoding, no_rows.
        detail: one sentence for a person.
        product: id of the product ("" = none was made).
        file: the name of its file, where a catalogue has more than one.
        unit: what `line` counts in that file: line or product.
    """

    line: int
    reason: str
    detail: str
    product: str = ""
    file: str = ""
    unit: str = "line"


class Draft:
    """A product while rows are still added to it."""

    __slots__ = ("file", "implied", "line", "own", "pictures", "row", "unit", "variants")

    def __init__(self, row: FeedRow, unit: str, file: str) -> None:
        self.line, self.row, self.unit, self.file = row.line, row, unit, file
        self.pictures: dict[str, FeedPicture] = {}
        self.variants: dict[str, FeedVariant] = {}
        self.own: FeedVariant | None = None
        """The choice that the product's first row is, where rows below it may be others."""
        self.implied = False
        """Whether it was made of a choice, and no row of its own has been read yet."""


class _Rows(Protocol):
    """Who reads the rows: knows the moment and takes warnings."""

    now: datetime

    def warn(self, where: RowProblem, reason: str, detail: str) -> None: ...


class Judge:
    """Makes products of drafts.

    Args:
        rows: says the moment that sale prices are held against, and takes warnings.
        keys: ids of all products.
        currency: ISO 4217 code of prices that name none.
        decimal_comma: how to read a single mark before three digits.
    """

    def __init__(self, rows: _Rows, keys: set[str], currency: str, *, decimal_comma: bool) -> None:
        self._rows, self._currency, self._decimal_comma = rows, currency, decimal_comma
        # A first picture goes by its product's id, so an id that looks like a second picture's key is never taken.
        self._taken = keys
        self._used: set[str] = set()

    def product(self, key: str, draft: Draft, where: RowProblem) -> Product:
        """The product that a draft has become; what is wrong with it is warned of at `where`."""
        row = draft.row
        images, shown = self._images(key, draft, where)
        price, money = self._price(where, row.offer)
        variants, theirs = self._variants(key, draft, where, shown, (price, money))
        if price is None and variants:
            price = min((choice.price for choice in variants if choice.price is not None), default=None)
        stock = self._stock(where, row.availability)
        if not stock:
            said = [choice.availability for choice in variants if choice.availability]
            stock = "in_stock" if "in_stock" in said else next(iter(said), "")
        return Product(
            key,
            row.title,
            row.aliases,
            row.description,
            row.brand,
            price,
            money or theirs or self._currency,
            stock,
            row.url,
            tuple(images),
            tuple(variants),
            tuple(dict(row.facts).items()),
        )

    def _images(self, key: str, draft: Draft, where: RowProblem) -> tuple[list[ProductImage], dict[str, str]]:
        """The pictures, and the key of each by its source and by itself."""
        images: list[ProductImage] = []
        shown: dict[str, str] = {}
        for number, picture in enumerate(draft.pictures.values(), 1):
            name = picture.key or _free_key(key, number, self._taken)
            self._taken.add(name)
            if name in self._used:
                self._rows.warn(where, "duplicate_key", f"two pictures are called {name!r}; the first is kept")
                continue
            self._used.add(name)
            shown.setdefault(picture.source, name)
            alt = picture.alt or draft.row.title
            images.append(ProductImage(name, picture.source, alt, picture.width_px, picture.height_px))
        return images, {image.key: image.key for image in images} | shown

    def _variants(
        self, key: str, draft: Draft, where: RowProblem, shown: dict[str, str], own: tuple[Decimal | None, str]
    ) -> tuple[list[ProductVariant], str]:
        """The choices, and the currency that they name."""
        choices = list(draft.variants.values())
        if draft.own is not None and (choices or draft.own.options):
            choices.insert(0, draft.own)
        variants: list[ProductVariant] = []
        ids: set[str] = set()
        currency = ""
        for number, choice in enumerate(choices, 1):
            price, money = own if choice.offer == draft.row.offer else self._price(where, choice.offer)
            currency = currency or money
            code = choice.id or f"{key}-{number}"
            while code in ids:
                code += "-"
            ids.add(code)
            options = tuple(dict(choice.options).items())
            title = choice.title or ", ".join(value for _, value in options)
            pictures = tuple(dict.fromkeys([shown[name] for name in choice.pictures if name in shown]))
            stock = self._stock(where, choice.availability)
            variants.append(ProductVariant(code, title, options, price, stock, pictures))
        return variants, currency

    def _price(self, where: RowProblem, offer: Offer) -> tuple[Decimal | None, str]:
        """What is paid now, and its currency: a sale price that holds before the regular one."""
        price: Decimal | None = None
        money = ""
        code = currency_code(offer.currency)
        if code is None:
            self._rows.warn(where, "bad_currency", f"{offer.currency!r} is no currency of ISO 4217")
        for written in (offer.sale_price if self._on_sale(offer) else "", offer.price):
            if not written or price is not None:
                continue
            reason, detail = price_doubt(written)
            if reason:
                self._rows.warn(where, reason, detail)
            else:
                price, said = parse_price(written, decimal_comma=self._decimal_comma)
                money = money or said
                if price is None:
                    self._rows.warn(where, "bad_price", f"{written!r} is no price")
        if code is None and not money:
            return None, ""  # the same number in the shop's own currency would be another price
        return price, code or money

    def _on_sale(self, offer: Offer) -> bool:
        return bool(offer.sale_price) and within(offer.sale_begins, offer.sale_ends, self._rows.now)

    def _stock(self, where: RowProblem, words: str) -> str:
        found = availability(words)
        if found is None:
            self._rows.warn(where, "bad_availability", f"{words!r} is no word for whether it is there")
        return found or ""


def _free_key(product: str, number: int, taken: set[str]) -> str:
    if number == 1:
        return product
    key = f"{product}-{number}"
    while key in taken:
        number += 1
        key = f"{product}-{number}"
    return key
