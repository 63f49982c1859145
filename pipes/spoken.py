"""How fast a narration is told, and a text pipe that keeps to it. The times are those of a brisk reader."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable

from multimodal.errors import UsageError
from multimodal.pipes.around import AroundPipe
from multimodal.pipes.base import Foretells, TextPipe
from multimodal.values import Token

__all__ = ["BREATH", "CHARACTER", "IDEOGRAPH", "PacedTextPipe", "breathes", "spoken"]

CHARACTER, IDEOGRAPH = 0.025, 0.15
"""Seconds that a letter and an ideograph take: 400 words, or 400 ideographs, a minute; a brisk reader's pace."""
BREATH = 0.35
"""Seconds added after the end of a sentence."""

_STOP = re.compile(r"[.!?]['\"”’)]*$")
_HAN_STOP = re.compile(r"[。！？][”’」』）]*$")


def spoken(text: str) -> float:
    """Seconds that a text takes to say."""
    return sum(IDEOGRAPH if "\u3040" <= letter <= "\u9fff" else CHARACTER for letter in text)


def breathes(before: str, text: str) -> bool:
    """Whether the narrator breathes between two pieces, neither empty: the second begins a sentence."""
    ended, spaced = before.rstrip(), before[-1:].isspace() or text[:1].isspace()
    return bool(_HAN_STOP.search(ended) or (spaced and _STOP.search(ended)))


class PacedTextPipe(AroundPipe):
    """A text pipe at a narrator's pace: each token comes when what came before it has been said (T1-T9).

    A token that its pipe gives later than that comes at once, and the pace goes on from there. Closing and cancelling a
    pull close the pipe.

    Args:
        pipe: the text pipe.
        speed: divides every time: 2 is twice as fast.
        on_begin: called once, right before the first text is given, or when it is known that none comes.

    Raises:
        UsageError: a speed that is not above 0.
    """

    def __init__(self, pipe: TextPipe, *, speed: float = 1.0, on_begin: Callable[[], object] | None = None) -> None:
        if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 < speed < math.inf:
            raise UsageError(f"PacedTextPipe speed={speed!r} must be a finite number above 0")
        super().__init__(pipe)
        self._speed, self._on_begin = speed, on_begin
        self._before = ""
        self._due = 0.0
        self._given = self._hurried = 0

    async def __anext__(self) -> Token:
        if self._over:
            raise StopAsyncIteration
        try:
            token = await self._pulled()
        except BaseException:
            self._begin()
            raise
        await self._wait(token.text)
        if self._over:
            raise StopAsyncIteration
        self._given += 1
        self._over = token.last
        if token.text or token.last:
            self._begin()
        return token

    def _begin(self) -> None:
        begin, self._on_begin = self._on_begin, None
        if begin is not None:
            begin()

    async def _wait(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if not text or self._given < self._hurried:
            return
        due = self._due + (BREATH / self._speed if breathes(self._before, text) else 0.0)
        if due > now:
            try:
                await asyncio.sleep(due - now)
            except asyncio.CancelledError:
                await self.aclose()
                raise
        self._due = max(due, now) + spoken(text) / self._speed
        self._before = text

    def hurry_to(self, index: int) -> None:
        """Keep no pace before token `index`: it was told already."""
        self._hurried = index

    def upcoming(self, limit: int) -> str:
        """What the pipe foretells (T9)."""
        return self._pipe.upcoming(limit) if isinstance(self._pipe, Foretells) else ""

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._over = True
        self._begin()
        await self._close()
