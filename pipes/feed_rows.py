"""What every reader of a catalogue's format gives: rows, in which all values are text. Pure data.

`gc=False`: no row can hold itself, and tens of thousands of them would be walked through again and again.
"""

from __future__ import annotations

import msgspec

__all__ = ["FeedPicture", "FeedRow", "FeedVariant", "Offer", "Shop"]


class Shop(msgspec.Struct, frozen=True):
    """What a catalogue says of the shop itself; `language` is a BCP 47 tag."""

    name: str = ""
    tagline: str = ""
    language: str = ""
    currency: str = ""


class FeedPicture(msgspec.Struct, frozen=True, gc=False):
    """A picture as the feed names it; 0 pixels = not said."""

    source: str
    key: str = ""
    alt: str = ""
    width_px: int = 0
    height_px: int = 0


class Offer(msgspec.Struct, frozen=True, gc=False):
    """What something costs, as written; the sale price holds between its two moments, where they are given."""

    price: str = ""
    currency: str = ""
    sale_price: str = ""
    sale_begins: str = ""
    sale_ends: str = ""


NO_OFFER = Offer()


class FeedVariant(msgspec.Struct, frozen=True, gc=False):
    """One choice of a product; `pictures` are the keys or the sources of those that show it."""

    id: str = ""
    title: str = ""
    options: tuple[tuple[str, str], ...] = ()
    offer: Offer = NO_OFFER
    availability: str = ""
    pictures: tuple[str, ...] = ()


class FeedRow(msgspec.Struct, frozen=True, gc=False):
    """One row of a feed.

    Args:
        line: its line in the file, or its number in a list.
        id: unique in the catalogue; "" = by its title.
        title: "" = it continues the row above.
        pictures: in order, the most telling first.
        offer: what it costs.
        variants: its choices, where the row lists them.
        variant: the choice that the row itself is, where each row is one.
        group: the product that a row which is one choice belongs to; made of its first row where none is called so.
        parent: the row that this one is a choice of, by one of its `names`; it has to be there.
        names: what other rows may call this one in `parent`.
        broken: why it could not be read at all.
        unpublished: why the shop does not show it.
    """

    line: int
    id: str = ""
    title: str = ""
    pictures: tuple[FeedPicture, ...] = ()
    offer: Offer = NO_OFFER
    description: str = ""
    brand: str = ""
    availability: str = ""
    url: str = ""
    aliases: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    variants: tuple[FeedVariant, ...] = ()
    variant: FeedVariant | None = None
    group: str = ""
    parent: str = ""
    names: tuple[str, ...] = ()
    broken: str = ""
    unpublished: str = ""
