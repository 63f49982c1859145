"""What may wait in a session's outbox (O1-O6 in `overflow`)."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ITEM_BYTES", "Fixed", "Gap", "Item", "Sheddable", "TextItem", "joined"]

ITEM_BYTES = 64
"""What a message takes beside its content: its envelope here and on the wire."""
JOINED_BYTES = 16 * 1024
"""Joined text stays well below the largest message (60 KiB), escaped as JSON, too."""


class TextItem(msgspec.Struct):
    """Text of `token_count` tokens from `token_index` on; `at` = when it was put."""

    text: str
    token_index: int
    token_count: int = 1
    lane: str = "main"
    at: float = 0.0
    size_bytes: int = 0

    def __post_init__(self) -> None:
        # Kept, not computed: joining a thousand tokens would encode the whole text a thousand times.
        self.size_bytes = ITEM_BYTES + len(self.text.encode())


class Fixed(msgspec.Struct):
    """Something that must arrive, in its place."""

    payload: Any
    content_bytes: int = 0
    at: float = 0.0

    @property
    def size_bytes(self) -> int:
        return ITEM_BYTES + self.content_bytes


class Sheddable(msgspec.Struct):
    """Something that helps now and is worth little later: a preview, a notice."""

    payload: Any
    content_bytes: int = 0
    at: float = 0.0

    @property
    def size_bytes(self) -> int:
        return ITEM_BYTES + self.content_bytes


class Gap(msgspec.Struct):
    """Here so many items were shed, put from `oldest` to `newest`, seconds."""

    count: int
    content_bytes: int
    oldest: float
    newest: float

    @property
    def size_bytes(self) -> int:
        return ITEM_BYTES


Item = TextItem | Fixed | Sheddable | Gap


def joined(last: TextItem, item: TextItem) -> bool:
    """Append `item` to `last`, if it may be (O5)."""
    size = last.size_bytes + item.size_bytes - ITEM_BYTES
    if item.lane != last.lane or item.token_index != last.token_index + last.token_count or size > JOINED_BYTES:
        return False
    last.text += item.text
    last.token_count += item.token_count
    last.size_bytes = size
    return True
