"""Which of the tokens that are held are filler words: scores of words, brought to tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from multimodal.pipes.fillers import Filler, FillerScorer
from multimodal.values import Token

__all__ = ["LOW", "MAIN", "OPEN", "Lanes"]

MAIN, LOW, OPEN = range(3)
"""What is known of a token: it has content, it is a filler, or its word is not complete yet."""

_SURE = 0.1
"""The threshold from which on every hesitation is on the low lane, wherever it stands."""
_WORD = re.compile(r"\w")
_BEHIND = re.compile(r"[ \t,，、…—–~～;；.。!！?？:：\"'”’)）」』-]*")
"""What may follow a filler on its lane; a "$" or a bracket belongs to what comes then."""
_BEFORE = re.compile(r"[\s\"'“‘(（「『]*")


class Lanes:
    """Judges tokens as the words in them are complete (C6, C7).

    A token is low if all its letters belong to fillers. Marks and spaces behind a filler are low with it. A token
    without text is what the next one with text is.

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
        self._before = self._last = MAIN  # the lanes of the token before the held ones, and of the last one judged
        self.left_early = 0
        """Where a filler ends of which a part had left before it was known for one; 0 = the last call found none."""
        self._out = start  # characters that have left

    def hesitates(self, tokens: Sequence[Token], ends: Sequence[int]) -> bool:
        """All that is not judged yet is a hesitation, unless the word goes on."""
        return self.threshold > _SURE and self._scorer.certain and self.alone(tokens, ends)

    def alone(self, tokens: Sequence[Token], ends: Sequence[int]) -> bool:
        """The tokens that are not judged hold nothing but the word that is not complete."""
        first = next((place for place in range(self._judged, len(tokens)) if tokens[place].text), -1)
        if first < 0:
            return False
        text = tokens[first].text
        before = self._start + self._scorer.open - ends[first] + len(text)
        return before <= 0 or not _WORD.search(text, 0, before)

    @property
    def within(self) -> bool:
        """What is held belongs to a word, or phrase, that has left in part."""
        return self._start + self._scorer.open < self._out

    def skip(self, count: int) -> None:
        """So many held tokens were read before there were lanes."""
        self._judged = count

    def left(self, count: int, chars: int) -> None:
        """So many of the held tokens have left, up to a place in the narration."""
        if count:
            self._before = self._last if count == self._judged else MAIN
        self._judged = max(0, self._judged - count)
        self._out = chars

    def feed(self, text: str, tokens: Sequence[Token], ends: Sequence[int], marks: list[int]) -> bool:
        """The next token, the last of `tokens`; marks those that are judged with it. Gives whether any was."""
        self.left_early = 0
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
        for filler in found:
            if filler.score > least:
                self._fillers.append(filler)
                if self._start + filler.start < self._out:
                    self.left_early = self._start + filler.end

    def _judge(self, known: int, tokens: Sequence[Token], ends: Sequence[int], marks: list[int]) -> bool:
        if known < self._out and ends:
            # The word that is not complete has left in part, so it is content, whatever it will be.
            known = ends[-1]
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
        word = _WORD.search(text)
        if word is None:
            return LOW if before == LOW and _BEHIND.fullmatch(text) else MAIN
        fillers = self._fillers
        if not fillers:
            return MAIN
        start = end - len(text)
        while fillers and self._start + fillers[0].end <= start:
            fillers.pop(0)
        lane = self._of_words(text, start, word.start())
        if lane == MAIN:
            # A filler of which a part is content is none.
            self._fillers = [filler for filler in fillers if self._start + filler.start >= end]
        return lane

    def _of_words(self, text: str, start: int, word: int) -> int:
        """The lane of a text with words, the first of which begins at `word`."""
        place = start + word
        for filler in self._fillers:
            begin, stop = self._start + filler.start, self._start + filler.end
            if begin < self._out or begin > place or (begin > start and not _BEFORE.fullmatch(text, 0, word)):
                return MAIN
            following = _WORD.search(text, max(0, stop - start))
            if following is None or stop >= start + len(text):
                return LOW if _BEHIND.fullmatch(text, max(0, stop - start)) else MAIN
            place = start + following.start()
        return MAIN
