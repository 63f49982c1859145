"""What chunks of tokens may be, and what came of them: plain data, checked. Pure."""

from __future__ import annotations

import math

import msgspec

from multimodal.errors import UsageError

__all__ = ["ChunkSettings", "ChunkStats"]


class ChunkSettings(msgspec.Struct, frozen=True):
    """What a chunk may be.

    Args:
        size: tokens of a chunk at most; 1 = no chunks.
        priority_threshold: 0 = no low lane, 1 = every word that can be a filler is on it (C6 of the chunker).
        max_wait: seconds that a token waits at most (C4).
        filler_wait: seconds that a filler waits at most; None = twice `max_wait`.
        sync_interval: tokens between two sync marks (C8); None = there are none.
        max_chars: characters of a chunk at most; None = any. Tokens per character differ between tokenizers.

    Raises:
        UsageError: a value out of its range.
    """

    size: int = 32
    priority_threshold: float = 0.3
    max_wait: float = 0.4
    filler_wait: float | None = None
    sync_interval: int | None = None
    max_chars: int | None = None

    def __post_init__(self) -> None:
        _count("size", self.size)
        for name in ("sync_interval", "max_chars"):
            if getattr(self, name) is not None:
                _count(name, getattr(self, name))
        threshold = self.priority_threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise UsageError(f"priority_threshold={threshold!r} is out of range; give 0 (off) to 1")
        for name in ("max_wait", "filler_wait"):
            wait = getattr(self, name)
            if name == "filler_wait" and wait is None:
                continue
            if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf:
                raise UsageError(f"{name}={wait!r} is out of range; give 0 or more seconds")


class ChunkStats(msgspec.Struct):
    """What a chunker did so far.

    Args:
        chunks: groups of tokens that left together.
        on_meaning: those that ended with a clause, a sentence, a paragraph or a list item.
        low: tokens that left on the low lane.
        held_high: the most tokens that were held at once.
    """

    chunks: int = 0
    on_meaning: int = 0
    low: int = 0
    held_high: int = 0


def _count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is out of range; give a whole number, at least 1")
