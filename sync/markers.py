"""Markers in a narration, ``[[show:sku]]`` and ``[[show:sku|hold]]``, taken out however the text is cut. Pure.

Text that may become a marker is held until it is one or cannot be; so no part of a marker is ever seen. What a marker
looks like, and what happens to one that is broken:

- It opens with ``[[show:`` (case ignored), names a product, may name a policy after ``|``, and closes with ``]]``.
  Spaces around the two count for nothing. Other text in brackets passes unchanged.
- A line break, another ``[``, a single ``]``, the length limit or the end of the text break an open marker. It loses
  its opening and the code that stands behind it, which is the run of ASCII characters up to a space; what follows is
  narration again. An opening that the end of the text cuts off behind ``[[s`` is broken too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Marker", "MarkerFilter"]

OPENING = "[[show:"
CERTAIN = len("[[s")
"""From so many characters on, an opening that the end of the text cuts off was to be a marker."""


class Marker(msgspec.Struct, frozen=True):
    """A marker that was taken out.

    Args:
        tag: of the piece in which it began.
        text: what was taken out.
        body: what stood between opening and closing.
        broken: why it is no marker after all ("" = it is one).
    """

    tag: int
    text: str
    body: str = ""
    broken: str = ""


class MarkerFilter:
    """Parts the text that is seen from the markers in it.

    Args:
        limit: characters of a marker at most, brackets and all.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[str] = []
        self._tags: list[int] = []
        self._out: list[tuple[int, str] | Marker] = []
        self._swallowing = self._closing = False

    @property
    def busy(self) -> bool:
        """The next piece needs a look even if no bracket is in it."""
        return bool(self._held) or self._swallowing

    @property
    def opened_in(self) -> int | None:
        """The tag of the piece in which the text that is held begins; None = none is held."""
        return self._tags[0] if self._tags else None

    def feed(self, text: str, tag: int) -> Sequence[tuple[int, str] | Marker]:
        """The next piece; gives, in order, text to be seen with the tag of its piece, and markers."""
        place = 0
        while place < len(text):
            if self._swallowing:
                place = self._swallow(text, place)
            elif not self._held:
                opening = text.find("[", place)
                if opening < 0:
                    self._out.append((tag, text[place:]))
                    break
                if opening > place:
                    self._out.append((tag, text[place:opening]))
                self._hold("[", tag)
                place = opening + 1
            elif self._take(text[place], tag):
                place += 1
        return self._drain()

    def finish(self) -> Sequence[tuple[int, str] | Marker]:
        """The text is complete."""
        if len(self._held) >= CERTAIN:
            self._break("the text ends before it closes")
        self._give_back(0)
        return self._drain()

    def _take(self, character: str, tag: int) -> bool:
        """One character behind an open bracket; False = it belongs to no marker, look at it again as text."""
        size = len(self._held)
        if size < len(OPENING):
            if character.lower() == OPENING[size]:
                self._hold(character, tag)
            elif character == "[" and size == 2:
                # Of three brackets the last two may open.
                self._out.append((self._tags.pop(0), self._held.pop(0)))
                self._hold(character, tag)
            else:
                self._give_back(0)
                return False
        elif self._held[-1] == "]":
            if character != "]":
                self._break("it closes with one bracket instead of two")
                return False
            self._hold(character, tag)
            text = "".join(self._held)
            self._out.append(Marker(self._tags[0], text, text[len(OPENING) : -2]))
            self._forget()
        elif character in "[\n\r":
            self._break(
                "it does not close before " + ("the line ends" if character != "[" else "the next bracket opens")
            )
            return False
        elif size >= self._limit - 1:
            self._break(f"it does not close within {self._limit} characters", too_long=True)
            return False
        else:
            self._hold(character, tag)
        return True

    def _swallow(self, text: str, place: int) -> int:
        """Behind a marker that grew too long: the rest of its code, with the brackets that close it."""
        while place < len(text) and _is_code(text[place]) and (text[place] == "]" or not self._closing):
            self._closing = text[place] == "]"
            place += 1
        self._swallowing = place == len(text)
        return place

    def _break(self, why: str, *, too_long: bool = False) -> None:
        end = min(len(OPENING), len(self._held))
        while end < len(self._held) and _is_code(self._held[end]):
            end += 1
        self._out.append(Marker(self._tags[0], "".join(self._held[:end]), broken=why))
        self._swallowing, self._closing = too_long and end == len(self._held), False
        self._give_back(end)

    def _give_back(self, start: int) -> None:
        for character, tag in zip(self._held[start:], self._tags[start:], strict=True):
            last = self._out[-1] if self._out else None
            if isinstance(last, tuple) and last[0] == tag:
                self._out[-1] = (tag, last[1] + character)
            else:
                self._out.append((tag, character))
        self._forget()

    def _hold(self, character: str, tag: int) -> None:
        self._held.append(character)
        self._tags.append(tag)

    def _forget(self) -> None:
        self._held, self._tags = [], []

    def _drain(self) -> Sequence[tuple[int, str] | Marker]:
        out, self._out = self._out, []
        return out


def _is_code(character: str) -> bool:
    return "!" <= character <= "~" and character != "["
