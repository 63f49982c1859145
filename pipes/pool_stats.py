"""The figures of a pool (`pool`)."""

from __future__ import annotations

import msgspec

__all__ = ["COUNTED", "PoolStats"]

COUNTED = (
    *("hits", "misses", "hit_bytes", "miss_bytes"),
    *("evictions", "evicted_bytes", "rejected", "stalls", "refused"),
)
"""The fields that only ever rise."""


class PoolStats(msgspec.Struct, frozen=True):
    """What a pool holds, and what it did.

    Args:
        limit_bytes: the bound.
        bytes: held now: entries and reservations.
        pinned_bytes, reserved_bytes: the parts of it that cannot be given up.
        entries: how many entries.
        high_bytes, low_bytes: most and least held since the first entry or reservation, or since `reset_marks`.
        hits, misses: calls of `get`.
        hit_bytes, miss_bytes: the same in bytes; a miss counts what its caller said.
        evictions, evicted_bytes: entries given up to make room.
        rejected: entries that could not be kept at all.
        stalls: reservations, and pinned entries, that found no room and had to evict first.
        refused: reservations for which there was no room even so.
    """

    limit_bytes: int
    bytes: int
    pinned_bytes: int
    reserved_bytes: int
    entries: int
    high_bytes: int
    low_bytes: int
    hits: int
    misses: int
    hit_bytes: int
    miss_bytes: int
    evictions: int
    evicted_bytes: int
    rejected: int
    stalls: int
    refused: int
