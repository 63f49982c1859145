"""A text pipe around another: what all that hold back, judge or pace its tokens share."""

from __future__ import annotations

from typing import Any, Self

from multimodal.pipes.base import TextPipe, played_already, was_cut
from multimodal.values import Token

__all__ = ["AroundPipe"]


class AroundPipe:
    """Plays once, speaks for the pipe within, and closes it (T1-T8, T10); what is given is said by `__anext__`.

    After an error of the pipe it is over: what was held back by then is let out before, as far as it may be seen, or
    never.

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

    def __aiter__(self) -> Self:
        if self._over:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        raise NotImplementedError

    async def _pulled(self) -> Token:
        """The next token of the pipe.

        Raises:
            StopAsyncIteration: it has ended.
            Exception: that of the pipe, which is over with it.
        """
        if self._items is None:
            self._items = aiter(self._pipe)
        try:
            item = await anext(self._items)
        except StopAsyncIteration:
            raise
        except Exception:
            self._over = True
            raise
        return item if isinstance(item, Token) else Token(item)

    @property
    def cut(self) -> bool:
        """The pipe says that it was cut (T10)."""
        return self._over and was_cut(self._pipe)

    def sync_every(self, tokens: int) -> None:
        """Told to the pipe (T8). A mark lets nothing go of what is held here: it waits for a reason of its own."""
        follow = getattr(self._pipe, "sync_every", None)
        if follow is not None:
            follow(tokens)

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._over = True
        await self._close()

    async def _close(self) -> None:
        close = getattr(self._pipe, "aclose", None)
        if close is not None:
            await close()
