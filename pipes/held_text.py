"""A text pipe whose text is held back in parts, with its tokens where they were.

A token whose text waits is empty, and the text comes with the token that settled it, or at the end: every index stays
what it was. Where the pipe does not know its end, what waits then comes as one token more.
"""

from __future__ import annotations

from multimodal.pipes.around import AroundPipe
from multimodal.values import Token

__all__ = ["HeldText"]


class HeldText(AroundPipe):
    """What such pipes share (T1-T8); each says what it holds back, by `_push` and `_flush`."""

    async def __anext__(self) -> Token:
        if self._over:
            raise StopAsyncIteration
        try:
            token = await self._pulled()
        except StopAsyncIteration:
            self._over = True
            if text := self._flush():
                return Token(text, last=True)
            raise
        text = self._push(token.text)
        if token.last and not self._stopped:
            text += self._flush()
        if self._stopped:
            await self.aclose()
            return Token(text, last=True)
        self._over = token.last
        return token if text == token.text else Token(text, token.last, token.lane)

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
