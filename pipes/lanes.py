"""Which of the tokens that are held are filler words: scores of words, brought to tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from multimodal.pipes.fillers import Filler, FillerScorer
from multimodal.values import Token

__all__ = ["LOW", "MAIN", "OPEN", "Lanes"]

MAIN, LOW, OPEN = range(3)
"""What is known of a token: it has content, it is a filler, or its word is not complete yet."""

_WORD = re.compile(r"\w")
_BEFORE = re.compile(r"[\s\"'“‘(（「『]*")


class Lanes:
    """Judges tokens as the words in them are complete (C6, C7).

    A token is low if all its letters belong to fillers. Marks and spaces behind a filler are low with it, but for a
    line break. A token without text is what the next one with text is.

    Args:
        scorer: scores the words; what it reads begins at `start`.
        threshold: scores above 1 - threshold are low.
        start: characters of the narration before what the scorer reads.
    """

    def __init__(self, scorer: FillerScorer, threshold: float, start: int) -> None:
        self.threshold = threshold
        self._scorer, self._start = scorer, start
        self._fillers: list[Filler] = []
        self._judged = 0  # held tokens that are judged
        self._before = MAIN  # the lane of the token before the held ones
        self._out = start  # characters that have left

    @property
    def certain(self) -> bool:
        """The word that is not judged yet is a hesitation, unless it goes on."""
        return self._scorer.certain and self.threshold > 0.1

    def skip(self, count: int) -> None:
        """So many held tokens were read before there were lanes."""
        self._judged = count

    def left(self, count: int, chars: int) -> None:
        """So many of the held tokens have left, up to a place in the narration."""
        if count:
            self._before = self._last if count == self._judged else MAIN
        self._judged = max(0, self._judged - count)
        self._out = chars

    _last = MAIN

    def feed(self, text: str, chars: int, tokens: Sequence[Token], ends: Sequence[int], marks: list[int]) -> bool:
        """The next token, the last of `tokens`; marks those that are judged with it. Gives whether any was."""
        if not text:
            return False
        found = self._scorer.feed(text)
        if found:
            self._keep(found)
        return self._judge(self._start + self._scorer.open, tokens, ends, marks)

    def flush(self, tokens: Sequence[Token], ends: Sequence[int], marks: list[int]) -> bool:
        """The text is complete."""
        self._keep(self._scorer.flush())
        return self._judge(ends[-1] + 1 if ends else 0, tokens, ends, marks)

    def _keep(self, found: Sequence[Filler]) -> None:
        least = 1 - self.threshold
        self._fillers += [filler for filler in found if filler.score > least]

    def _judge(self, known: int, tokens: Sequence[Token], ends: Sequence[int], marks: list[int]) -> bool:
        first = place = self._judged
        count = len(tokens)
        while place < count:
            here = place
            while here < count and not tokens[here].text:
                here += 1
            if here == count or ends[here] > known:
                break
            lane = self._lane(tokens[here].text, ends[here], marks[place - 1] if place else self._before)
            for each in range(place, here + 1):
                marks[each] = lane
            place = here + 1
            self._last = lane
        self._judged = place
        return place > first

    def _lane(self, text: str, end: int, before: int) -> int:
        fillers = self._fillers
        word = _WORD.search(text)
        if word is None:
            return LOW if before == LOW and "\n" not in text else MAIN
        if not fillers:
            return MAIN
        start = end - len(text)
        first, last = start + word.start(), end
        while not _WORD.match(text, last - start - 1):
            last -= 1
        while fillers and self._start + fillers[0].end <= start:
            fillers.pop(0)
        place = first
        for filler in fillers:
            begin, stop = self._start + filler.start, self._start + filler.end
            # A filler of which a part has left as content is none any more.
            if begin < self._out or begin > place or (begin > start and not _BEFORE.fullmatch(text, 0, word.start())):
                return MAIN
            if stop >= last:
                return LOW
            following = _WORD.search(text, stop - start)
            place = last if following is None else start + following.start()
        return MAIN
