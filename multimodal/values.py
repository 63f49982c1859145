"""What pipes give and the core takes: tokens, pictures, products, cues. Pure data, no behaviour of its own."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Literal, get_args

import msgspec

from multimodal.errors import UsageError

__all__ = [
    "LATE_POLICIES",
    "Asset",
    "Cue",
    "EncodedImage",
    "ImageFailure",
    "Lane",
    "LatePolicy",
    "Place",
    "Product",
    "ProductImage",
    "ProductVariant",
    "Token",
    "Variant",
    "ViewerNeeds",
    "check_seconds",
]

LatePolicy = Literal["placeholder", "hold", "skip"]
LATE_POLICIES: tuple[str, ...] = get_args(LatePolicy)


Lane = Literal["main", "low"]
"""How much a token matters: "low" is a filler word, which may wait a moment for what follows it."""


class Token(msgspec.Struct, frozen=True):
    """One token of narration.

    Args:
        text: the characters the token adds; may be empty.
        last: True where the pipe knows that nothing follows, so that the end can share its instant.
        lane: ``low`` for a filler word. It tells viewers and logs; it never changes what is said, or its order.
        about: the one product that may get a picture at this token, where the pipe knows of which it speaks: a title
            may be a word that any passage says. "" = none may; None = whatever is named.
    """

    text: str
    last: bool = False
    lane: Lane = "main"
    about: str | None = None


class Variant(msgspec.Struct, frozen=True):
    """One encoding of a picture: the viewer picks among those of an asset.

    Args:
        media_type: such as ``image/webp``.
        width_px: its width.
        size_bytes: its size.
        sha256: hex digest of its bytes.
        url: where to fetch it; None = it comes over the pictures' channel.
    """

    media_type: str
    width_px: int
    size_bytes: int
    sha256: str
    url: str | None = None


class Asset(msgspec.Struct, frozen=True):
    """What is known of a picture before its bytes: enough to reserve its slot.

    Args:
        key: the picture's name, unique in a stream.
        product: id of the product it shows ("" = none).
        width_px: width after EXIF orientation; 0 = not known yet.
        height_px: height after EXIF orientation; 0 = not known yet.
        alt: alternative text.
        placeholder: data URI of a tiny preview ("" = none).
        variants: the encodings to choose from (empty until encoded).
        color: its dominant colour as ``#rrggbb``, which fills the slot until there is more ("" = not known).
    """

    key: str
    product: str = ""
    width_px: int = 0
    height_px: int = 0
    alt: str = ""
    placeholder: str = ""
    variants: tuple[Variant, ...] = ()
    color: str = ""


class EncodedImage(msgspec.Struct, frozen=True):
    """A picture ready to send.

    Args:
        key: the picture's name, unique in a stream.
        data: the encoded bytes.
        media_type: such as ``image/webp``.
        width_px: width in pixels.
        height_px: height in pixels.
        product: id of the product it shows ("" = none).
        alt: alternative text.
        placeholder: data URI of a tiny preview ("" = none).
        sha256: hex digest of `data`; computed when left empty.
        color: its dominant colour as ``#rrggbb`` ("" = not known).
    """

    key: str
    data: bytes
    media_type: str
    width_px: int
    height_px: int
    product: str = ""
    alt: str = ""
    placeholder: str = ""
    sha256: str = ""
    color: str = ""

    def __post_init__(self) -> None:
        if not self.key or not self.data:
            raise UsageError("an EncodedImage needs a key and data; report a failed picture as ImageFailure")
        if not self.sha256:
            msgspec.structs.force_setattr(self, "sha256", hashlib.sha256(self.data).hexdigest())

    def asset(self) -> Asset:
        """The same picture without its bytes."""
        variant = Variant(self.media_type, self.width_px, len(self.data), self.sha256)
        return Asset(
            self.key, self.product, self.width_px, self.height_px, self.alt, self.placeholder, (variant,), self.color
        )


class ViewerNeeds(msgspec.Struct, frozen=True):
    """What a viewer can show, as far as it said so: a pipe that has several encodings of a picture chooses by it.

    Args:
        formats: media types that it decodes, the one it likes best first; empty = not known.
        width_px: pixels of its screen that a picture may fill, device pixels; 0 = not known.
        save_data: its reader asked for as few bytes as will do.
    """

    formats: tuple[str, ...] = ()
    width_px: int = 0
    save_data: bool = False


class Place(msgspec.Struct, frozen=True):
    """Where a stream stood when its process ended, so that another stream can go on from there.

    Args:
        sid: the stream's id.
        seq: its last event.
        epoch: of that event.
        boundary: the token boundary after it.
        char: code points of text up to there.
        pts_ms: of that event.
        token: how many tokens of the text pipe had been told: the next one goes on.
        base: the boundary at which its epoch began.
        settled: (anchor, key) of the cues that had their outcome in that epoch.
        shown: (key, product) of the pictures on the stage; they are revealed again where the stream goes on.
    """

    sid: str
    seq: int
    epoch: int
    boundary: int
    char: int
    pts_ms: float
    token: int
    base: int = 0
    settled: tuple[tuple[int, str], ...] = ()
    shown: tuple[tuple[str, str], ...] = ()


class ImageFailure(msgspec.Struct, frozen=True):
    """A picture that will not come: an image pipe yields it in the picture's stead.

    Args:
        key: the picture's name.
        reason: a short word for logs and assertions, such as ``not_found``, ``truncated``, ``too_many_pixels``.
        detail: one sentence for a person: what, where, what to do.
    """

    key: str
    reason: str
    detail: str = ""


# gc=False: no product can hold itself, and a catalogue of them would slow down every collection of the process.
class ProductImage(msgspec.Struct, frozen=True, gc=False):
    """One picture of a product.

    Args:
        key: names it in a stream.
        source: its path or URL as the catalogue gave it.
        alt: alternative text.
        width_px: its width as the catalogue says it; 0 = not said.
        height_px: its height as the catalogue says it; 0 = not said.
    """

    key: str
    source: str
    alt: str = ""
    width_px: int = 0
    height_px: int = 0


class ProductVariant(msgspec.Struct, frozen=True, gc=False):
    """One size, colour or other choice of a product.

    Args:
        id: unique among the variants of its product.
        title: what tells it apart.
        options: (name, value) pairs, as in ``(("Colour", "green"),)``.
        price: exact, in the product's currency; None = the product's own.
        availability: as the product's; "" = the product's own.
        images: keys of those of the product's pictures that show it.
    """

    id: str
    title: str = ""
    options: tuple[tuple[str, str], ...] = ()
    price: Decimal | None = None
    availability: str = ""
    images: tuple[str, ...] = ()


class Product(msgspec.Struct, frozen=True, gc=False):
    """A product of a catalogue.

    Args:
        id: unique in the catalogue.
        title: what it is called.
        aliases: other names that it goes by.
        description: plain text.
        brand: who makes it.
        price: exact; the lowest of its variants where it has none of its own; None = not given.
        currency: ISO 4217 code ("" = not given).
        availability: schema.org's ItemAvailability in small letters, as ``in_stock`` ("" = not given).
        url: its page.
        images: its pictures, the most telling first.
        variants: its choices; empty where there is only one.
        facts: (name, value) pairs, as in ``(("material", "stoneware"),)``.
    """

    id: str
    title: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    brand: str = ""
    price: Decimal | None = None
    currency: str = ""
    availability: str = ""
    url: str = ""
    images: tuple[ProductImage, ...] = ()
    variants: tuple[ProductVariant, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


class Cue(msgspec.Struct, frozen=True):
    """A picture tied to a place in the narration.

    Args:
        anchor: the token boundary it belongs to: k lies after k tokens.
        key: the picture to show.
        late: what to do when the picture is not ready at its mark; None = the stream's own setting.
        max_hold: seconds that ``hold`` may wait; None = the stream's own setting.
        product: id of the product that the words are about; checked against the picture's own ("" = not checked).

    Raises:
        UsageError: a negative anchor, an empty key, an unknown policy, a negative hold.
    """

    anchor: int
    key: str
    late: LatePolicy | None = None
    max_hold: float | None = None
    product: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.anchor, int) or isinstance(self.anchor, bool):
            raise UsageError(f"Cue anchor {self.anchor!r} is no whole number; it counts tokens")
        if self.anchor < 0:
            raise UsageError(f"Cue anchor {self.anchor} is negative; boundaries count from 0")
        if not isinstance(self.key, str) or not self.key:
            raise UsageError(f"Cue key is {self.key!r}; it names the picture to show, and cannot be empty")
        if self.late is not None and self.late not in LATE_POLICIES:
            raise UsageError(f"Cue late={self.late!r} is unknown; use one of {', '.join(LATE_POLICIES)}")
        if self.max_hold is not None:
            check_seconds("Cue max_hold", self.max_hold)

    def at(self, anchor: int) -> Cue:
        """The same cue at another boundary."""
        return Cue(anchor, self.key, self.late, self.max_hold, self.product)


def check_seconds(name: str, value: object) -> None:
    """Refuse what is no span of time.

    Raises:
        UsageError: not a number, not a number of seconds that is 0 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{name}={value!r} must be 0 or more seconds")
