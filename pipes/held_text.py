"""A text pipe whose text is held back in parts, with its tokens where they were.

A token whose text waits is empty, and the text comes with the token that settled it, or at the end: every index stays
what it was. Where the pipe does not know its end, or fails, what waits then comes as one token more.
"""

from __future__ import annotations

from multimodal.pipes.around import AroundPipe
from multimodal.pipes.base import TextPipe
from multimodal.values import Token

__all__ = ["HeldText"]


class HeldText(AroundPipe):
    """What such pipes share (T1-T8); each says what it holds back, by `_push` and `_flush`.

    Args:
        pipe: the text pipe; closing closes it, and what waits is then not said.
        narrator: who speaks; "" = as the pipe says.
    """

    def __init__(self, pipe: TextPipe, *, narrator: str = "") -> None:
        super().__init__(pipe, narrator=narrator)
        self._error: Exception | None = None  # of the pipe: raised behind what waited
        self._closed = False
        self._about: str | None = None  # of the token before

    async def __anext__(self) -> Token:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._over:
            raise StopAsyncIteration
        try:
            token = await self._pulled()
        except StopAsyncIteration:
            self._over = True
            if not self._closed and (text := self._flush()):
                return Token(text, last=True, about=self._about)
            raise
        except Exception as error:
            if not self._closed and (text := self._flush()):
                self._error = error
                return Token(text, about=self._about)
            raise
        if self._closed:
            raise StopAsyncIteration
        text = self._push(token.text)
        if token.last and not self._stopped:
            text += self._flush()
        if self._stopped:
            await self.aclose()
            return Token(text, last=True, about=token.about)
        self._over, self._about = token.last, token.about
        return token if text == token.text else Token(text, token.last, token.lane, token.about)

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._error, self._closed = None, True
        await super().aclose()

    @property
    def _stopped(self) -> bool:
        """The text ends here, whatever the pipe would say."""
        return False

    def _push(self, text: str) -> str:
        """The next piece; gives what may leave now."""
        return text

    def _flush(self) -> str:
        """The text has ended, or failed; gives what waited and may be seen."""
        return ""
