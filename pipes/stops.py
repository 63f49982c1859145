"""Stop sequences in a text that comes in pieces: what may be shown, and when to stop. Pure.

The stop whose end comes first counts; of several that end at the same character, the one that begins first. It is not
shown, nor is anything after it. Held back is only the longest end of the text with which some stop begins, so that
ordinary text leaves at once and the end of an answer that looked like a stop is not lost.

One automaton with failure links reads every character once, however many stops there are and however they overlap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multimodal.errors import UsageError

__all__ = ["StopSequences"]


class StopSequences:
    """Finds the first of several stop sequences in one answer, wherever its pieces are split.

    Args:
        stops: the sequences, compared code point by code point; none = all text passes.

    Raises:
        UsageError: one string instead of a list of them, a stop that is no string, or an empty one, with which every
            answer would end before it began.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.hit: str | None = None
        """The stop that was met; None = none so far."""
        self._next: list[dict[str, int]] = [{}]
        self._met: list[str | None] = [None]  # the longest stop that ends in a state
        self._depth = [0]
        for stop in _checked(stops):
            self._add(stop)
        self._fail = self._links()
        begins = "".join(sorted(self._next[0]))
        self._begins = re.compile(f"[{re.escape(begins)}]") if begins else None
        self._state = 0
        self._held = ""

    @property
    def held(self) -> int:
        """Characters that are held back because a stop may begin with them."""
        return len(self._held)

    def push(self, text: str) -> str:
        """The next piece; gives what may be shown now, nothing once a stop was met."""
        if self.hit is not None:
            return ""
        if self._begins is None:
            return text
        state, place, end = self._state, 0, len(text)
        following, fail, met = self._next, self._fail, self._met
        while place < end:
            if not state:
                # Most text has nothing to do with any stop: it is passed over by the regular expression engine.
                begin = self._begins.search(text, place)
                if begin is None:
                    break
                place = begin.start()
            character = text[place]
            place += 1
            while state and character not in following[state]:
                state = fail[state]
            state = following[state].get(character, 0)
            stop = met[state]
            if stop is not None:
                self.hit = stop
                shown = (self._held + text[:place])[: -len(stop)]
                self._held = ""
                return shown
        self._state = state
        whole = self._held + text
        shown_to = len(whole) - self._depth[state]
        self._held = whole[shown_to:]
        return whole[:shown_to]

    def flush(self) -> str:
        """The text is complete; gives what was held back, which was no stop after all."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _add(self, stop: str) -> None:
        state = 0
        for character in stop:
            onward = self._next[state].get(character)
            if onward is None:
                onward = self._next[state][character] = len(self._next)
                self._next.append({})
                self._met.append(None)
                self._depth.append(self._depth[state] + 1)
            state = onward
        self._met[state] = stop

    def _links(self) -> list[int]:
        """For each state the one of the longest proper end of what was read that some stop begins with."""
        fail = [0] * len(self._next)
        queue = list(self._next[0].values())
        for state in queue:  # grows while it is read: breadth first, so that shorter states are ready
            for character, onward in self._next[state].items():
                back = fail[state]
                while back and character not in self._next[back]:
                    back = fail[back]
                fail[onward] = self._next[back].get(character, 0)
                self._met[onward] = self._met[onward] or self._met[fail[onward]]
                queue.append(onward)
        return fail


def _checked(stops: Sequence[str]) -> Sequence[str]:
    if isinstance(stops, str) or not isinstance(stops, Sequence):
        raise UsageError(f"stop={stops!r} must be a list of strings; for a single one give [{stops!r}]")
    for number, stop in enumerate(stops):
        if not isinstance(stop, str):
            raise UsageError(f"stop[{number}] is a {type(stop).__name__}; a stop sequence is a string")
        if not stop:
            raise UsageError(f"stop[{number}] is empty: every answer would end before it began; leave it out")
    return stops
