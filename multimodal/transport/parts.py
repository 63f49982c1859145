"""The pictures that wait to be sent, and the next piece of them. Pure, and no rule of when it may leave.

P1  The picture due soonest goes on; then those without a due place, in the order they were queued.
P2  Of one picture, what was asked for again goes before what was never sent.
P3  What is asked for again is sent once, however often it is named while it waits; what has not been sent yet is
    not sent twice for it.
P4  Bounded: `PICTURES_LIMIT` pictures, of which the one due last is shed, and `PIECES_LIMIT` pieces of one, beyond
    which all from the first to the last is one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from multimodal.wire import Part

__all__ = ["PICTURES_LIMIT", "PIECES_LIMIT", "PictureQueue"]

PICTURES_LIMIT = 1024
PIECES_LIMIT = 64
"""As many as one message may ask for."""

Ranges = list[tuple[int, int]]


@dataclass
class _Picture:
    key: str
    data: bytes
    due: int | None
    number: int
    offset: int = 0
    """All from here on was never sent."""
    again: Ranges = field(default_factory=list)

    def order(self) -> tuple[bool, int, int]:
        return (self.due is None, self.due or 0, self.number)

    def next(self) -> tuple[int, int, bool]:
        """What comes next: from, to, and whether it was asked for again (P2)."""
        if self.again:
            return (*self.again[0], True)
        return self.offset, len(self.data), False


class PictureQueue:
    """Pictures by key, in the order in which they are due (P1-P4 above)."""

    def __init__(self) -> None:
        self.shed = 0
        self._pictures: dict[str, _Picture] = {}
        self._number = 0
        self._first: _Picture | None = None

    def __len__(self) -> int:
        return len(self._pictures)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pictures)

    def add(self, key: str, data: bytes, due: int | None) -> None:
        """A whole picture; one that is being sent begins anew, in its place."""
        picture = self._waiting(key, data, due, 0)
        picture.offset, picture.again = 0, []
        self._bound()

    def add_again(self, key: str, data: bytes, ranges: Iterable[tuple[int, int]], due: int | None) -> None:
        """Ranges [from, to) of a picture's bytes (P3); what lies outside of it is left out."""
        picture = self._waiting(key, data, due, len(data))
        clipped = [(max(begin, 0), min(end, picture.offset)) for begin, end in ranges]
        picture.again = _joined([*picture.again, *((begin, end) for begin, end in clipped if begin < end)])
        if not picture.again and picture.offset == len(picture.data):
            self._remove(picture)
        self._bound()

    def set_due(self, key: str, due: int | None) -> None:
        """A picture that waits is needed at another place."""
        if key in self._pictures:
            self._pictures[key].due = due
            self._first = None

    @property
    def first(self) -> str | None:
        """The key of the picture that goes on; None = nothing waits."""
        picture = self._soonest()
        return None if picture is None else picture.key

    def next_size(self, most_bytes: int) -> int:
        """Payload of the next part, at most `most_bytes`; 0 = nothing waits."""
        picture = self._soonest()
        if picture is None:
            return 0
        begin, end, _ = picture.next()
        return min(end - begin, most_bytes)

    def take(self, most_bytes: int) -> tuple[Part, bool]:
        """The next part, and whether it was asked for again. Something must be waiting."""
        picture = self._soonest()
        assert picture is not None, "no picture waits"
        begin, end, again = picture.next()
        stop = min(end, begin + most_bytes)
        if not again:
            picture.offset = stop
        elif stop < end:
            picture.again[0] = (stop, end)
        else:
            del picture.again[0]
        if not picture.again and picture.offset >= len(picture.data):
            self._remove(picture)
        return Part(picture.key, begin, len(picture.data), picture.data[begin:stop]), again

    def _waiting(self, key: str, data: bytes, due: int | None, offset: int) -> _Picture:
        picture = self._pictures.get(key)
        if picture is None:
            self._number += 1
            picture = self._pictures[key] = _Picture(key, data, due, self._number, offset)
            self._first = None
        return picture

    def _soonest(self) -> _Picture | None:
        if self._first is None:
            self._first = min(self._pictures.values(), key=_Picture.order, default=None)
        return self._first

    def _bound(self) -> None:
        if len(self._pictures) > PICTURES_LIMIT:
            self._remove(max(self._pictures.values(), key=_Picture.order))
            self.shed += 1

    def _remove(self, picture: _Picture) -> None:
        del self._pictures[picture.key]
        self._first = None


def _joined(ranges: Ranges) -> Ranges:
    """In order, without overlaps, and not more than `PIECES_LIMIT` (P4)."""
    joined: Ranges = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined if len(joined) <= PIECES_LIMIT else [(joined[0][0], joined[-1][1])]
