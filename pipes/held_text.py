"""A text pipe whose text is held back in parts, with its tokens where they were.

A token whose text waits is empty, and the text comes with the token that settled it, or at the end: every index stays
what it was. Where the pipe does not know its end, what waits then comes as one token more.
"""

from __future__ import annotations

from typing import Any

from multimodal.pipes.base import TextPipe, played_already
from multimodal.values import Token

__all__ = ["HeldText"]


class HeldText:
    """What such pipes share (T1-T8); each says what it holds back, by `_push` and `_flush`.

    Args:
        pipe: the text pipe; closing closes it.
        narrator: who speaks; "" = as the pipe says.
    """

    def __init__(self, pipe: TextPipe, *, narrator: str = "") -> None:
        self._pipe: Any = pipe
        self.token_unit: str = getattr(pipe, "token_unit", "token")
        self.narrator: str = narrator or getattr(pipe, "narrator", "")
        self._items: Any = None
        self._over = False

    def __aiter__(self) -> Any:
        if self._over:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        if self._over:
            raise StopAsyncIteration
        if self._items is None:
            self._items = aiter(self._pipe)
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            self._over = True
            if text := self._flush():
                return Token(text, last=True)
            raise
        token = item if isinstance(item, Token) else Token(item)
        text = self._push(token.text)
        if token.last and not self._stopped:
            text += self._flush()
        if self._stopped:
            await self.aclose()
            return Token(text, last=True)
        self._over = token.last
        return token if text == token.text else Token(text, token.last, token.lane)

    def sync_every(self, tokens: int) -> None:
        """Told to the pipe (T8). A mark lets nothing go of what is held here: it waits for a reason of its own."""
        follow = getattr(self._pipe, "sync_every", None)
        if follow is not None:
            follow(tokens)

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._over = True
        close = getattr(self._pipe, "aclose", None)
        if close is not None:
            await close()

    @property
    def _stopped(self) -> bool:
        """The text ends here, whatever the pipe would say."""
        return False

    def _push(self, text: str) -> str:
        """The next piece; gives what may leave now."""
        return text

    def _flush(self) -> str:
        """The text has ended; gives what waited."""
        return ""
