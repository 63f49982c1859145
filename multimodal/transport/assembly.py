"""A picture put together from parts that come in any order, twice, spoilt, or not at all. Pure: time is an argument."""

from __future__ import annotations

__all__ = ["RESEND_AFTER", "RESEND_LIMIT", "Assembly"]

RESEND_AFTER = 3.0
"""Seconds without a part of it after which the holes of a picture are asked for again: on a bad road a retransmission
takes two, and a part that a middle box swallowed never comes."""
RESEND_LIMIT = 3
"""Times that parts are asked for before the whole picture is."""


class Assembly:
    """The bytes of one picture as far as they came.

    Args:
        total: its size in bytes.
        now: seconds, monotonic.
    """

    def __init__(self, total: int, now: float) -> None:
        self.data = bytearray(total)
        self.asked = 0
        """How often parts of it were asked for again."""
        self._since = now
        self._have: list[tuple[int, int]] = []

    def add(self, offset: int, payload: bytes, now: float) -> bool:
        """Put a part in its place; True = the picture is whole."""
        end = offset + len(payload)
        self.data[offset:end] = payload
        self._since = now
        # Nearly always the part behind the one before.
        if self._have and self._have[-1][1] == offset:
            self._have[-1] = (self._have[-1][0], end)
        else:
            self._have.append((offset, end))
            self._have.sort()
            merged = [self._have[0]]
            for begin, stop in self._have[1:]:
                if begin <= merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
                else:
                    merged.append((begin, stop))
            self._have = merged
        return self._have == [(0, len(self.data))]

    def holes(self, *, tail: bool = False) -> list[tuple[int, int]]:
        """What is missing before bytes that came, and with `tail` behind them, which may not have left yet."""
        holes, at = [], 0
        for begin, stop in self._have:
            if begin > at:
                holes.append((at, begin))
            at = stop
        if tail and at < len(self.data):
            holes.append((at, len(self.data)))
        return holes

    def due(self) -> float:
        """When to look whether something of it has to be asked for again."""
        return self._since + RESEND_AFTER

    def ask(self, now: float, *, tail: bool) -> list[tuple[int, int]]:
        """What has to be asked for again; [] = nothing, its other parts are waiting for their turn.

        Args:
            now: seconds, monotonic.
            tail: no part of any picture has come for `RESEND_AFTER`: the server has nothing more to send.
        """
        self._since = now
        holes = self.holes(tail=tail)
        self.asked += bool(holes)
        return holes
