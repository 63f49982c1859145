"""Words that come whole: what a viewer's page does not have to move once it is there.

A token of a model is often part of a word. Put on the page at once, it may stand at the end of a line and jump to the
next one when the word goes on. Here the text of a word waits, as empty tokens, until what follows shows that it is
complete; it then comes with that token, so every index stays what it was.
"""

from __future__ import annotations

import regex

from multimodal.pipes.base import Foretells, TextPipe
from multimodal.pipes.held_text import HeldText

__all__ = ["LONGEST", "WholeWords", "WordHold"]

LONGEST = 64
"""Characters that wait at most: what has no end by then is no word, but a link or a drawing of dashes."""

# A line may be broken before a space, and on either side of an ideograph unless a mark hangs on it there.
_BREAK = regex.compile(
    r"(?=\s)|(?<=[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Line_Break=SA}]|[。，、；：？！）」』”’])"
    r"(?=[\p{L}\p{N}])|(?<=[\p{L}\p{N}])(?=[\p{Han}\p{Hiragana}\p{Katakana}])"
)


class WordHold:
    """What of a text may be shown, piece by piece. Pure."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """The next piece; gives what is complete now."""
        held = self._held + text
        found = [match.start() for match in _BREAK.finditer(held)]
        cut = found[-1] if found else 0
        if len(held) - cut > LONGEST:
            cut = len(held)
        self._held = held[cut:]
        return held[:cut]

    def flush(self) -> str:
        """The text is complete; gives what waited."""
        held, self._held = self._held, ""
        return held


class WholeWords(HeldText):
    """Wraps a text pipe; each word leaves whole, one token later than it was complete (T1-T9).

    Args:
        pipe: the text pipe; closing closes it.
        narrator: who speaks; "" = as the pipe says.
    """

    def __init__(self, pipe: TextPipe, *, narrator: str = "") -> None:
        super().__init__(pipe, narrator=narrator)
        self._hold = WordHold()

    def upcoming(self, limit: int) -> str:
        """What waits here, and what the pipe foretells behind it (T9)."""
        more = self._pipe.upcoming(limit) if isinstance(self._pipe, Foretells) else ""
        return (self._hold._held + more)[:limit]

    def _push(self, text: str) -> str:
        return self._hold.push(text)

    def _flush(self) -> str:
        return self._hold.flush()
