"""Words that come whole: what a viewer's page does not have to move once it is there.

A token of a model is often part of a word. Put on the page at once, it may stand at the end of a line and jump to the
next one when the word goes on. Here the text of a word waits, as empty tokens, until what follows shows that it is
complete; it then comes with that token, so every index stays what it was.
"""

from __future__ import annotations

import regex

from multimodal.pipes.base import Foretells, TextPipe, played_already
from multimodal.values import Token

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


class WholeWords:
    """Wraps a text pipe; each word leaves whole, one token later than it was complete (T1-T9).

    Where the pipe does not know its end, what waits at the end comes as one more token.

    Args:
        pipe: the text pipe; closing closes it.
        narrator: who speaks; "" = as the pipe says.
    """

    def __init__(self, pipe: TextPipe, *, narrator: str = "") -> None:
        self._pipe = pipe
        self.token_unit: str = getattr(pipe, "token_unit", "token")
        self.narrator: str = narrator or getattr(pipe, "narrator", "")
        self._hold = WordHold()
        self._over = False

    def __aiter__(self) -> WholeWords:
        if self._over:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        if self._over:
            raise StopAsyncIteration
        try:
            item = await anext(self._pipe)
        except StopAsyncIteration:
            self._over = True
            if text := self._hold.flush():
                return Token(text, last=True)
            raise
        token = item if isinstance(item, Token) else Token(item)
        text = self._hold.push(token.text)
        if token.last:
            self._over = True
            text += self._hold.flush()
        return Token(text, token.last, token.lane)

    def sync_every(self, tokens: int) -> None:
        """Told to the pipe (T8). A mark lets no half word go: it would jump all the same."""
        follow = getattr(self._pipe, "sync_every", None)
        if follow is not None:
            follow(tokens)

    def upcoming(self, limit: int) -> str:
        """What waits here, and what the pipe foretells behind it (T9)."""
        more = self._pipe.upcoming(limit) if isinstance(self._pipe, Foretells) else ""
        return (self._hold._held + more)[:limit]

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._over = True
        close = getattr(self._pipe, "aclose", None)
        if close is not None:
            await close()
