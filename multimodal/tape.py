"""A text pipe that remembers what it gave, so that a narration can be told again from an earlier token, or go ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.values import Token

__all__ = ["KeepsPace", "SkipsAhead", "Tape"]

TAPE_TOKENS = 20_000
"""Tokens kept: half an hour of narration at ten a second."""
LONGEST_GAP = 0.5
"""Seconds between two tokens that are told again, at most: the wait for a slow model is not repeated."""


@runtime_checkable
class SkipsAhead(Protocol):
    """A text pipe that can go ahead without making the tokens between: `skip_to(index)` gives those it passed over."""

    def skip_to(self, index: int) -> list[str]: ...


@runtime_checkable
class KeepsPace(Protocol):
    """A text pipe that keeps a pace of its own, and can leave it aside up to a token: `hurry_to(index)`."""

    def hurry_to(self, index: int) -> None: ...


class Tape:
    """Wraps a text pipe; told again, its tokens keep the pace at which they first came.

    Args:
        pipe: the text pipe.
        limit: tokens kept; older ones cannot be told again.
    """

    def __init__(self, pipe: TextPipe, limit: int = TAPE_TOKENS) -> None:
        self._pipe = pipe
        self._kept: deque[tuple[Token | str, float]] = deque(maxlen=limit)
        self._end = 0
        self._position = 0
        self._moves = 0
        self._exhausted = False
        self._clock: Callable[[], float] | None = None

    @property
    def pipe(self) -> TextPipe:
        """The text pipe that it wraps."""
        return self._pipe

    @property
    def position(self) -> int:
        """The index of the token that comes next."""
        return self._position

    def seek(self, index: int) -> None:
        """Go on with token `index`. Ahead of what came so far, the pipe skips if it can, else what lies between is
        pulled as fast as the pipe makes it and not given. A pull under way goes on from there.

        Raises:
            UsageError: the token is no longer kept.
        """
        first = self._end - len(self._kept)
        if index < first:
            raise UsageError(f"token {index} is too old to be told again; the tape begins at {first}")
        self._moves += 1
        self._position = index
        if index > self._end and isinstance(self._pipe, SkipsAhead):
            for text in self._pipe.skip_to(index):
                self._keep(text, 0.0)
        elif index > self._end and isinstance(self._pipe, KeepsPace):
            self._pipe.hurry_to(index)

    def __aiter__(self) -> Tape:
        return self

    async def __anext__(self) -> Token | str:
        clock = self._clock = self._clock or asyncio.get_running_loop().time
        while True:
            if self._position < self._end:
                item, gap = self._kept[self._position - self._end]
                moves = self._moves
                if gap:
                    await asyncio.sleep(min(gap, LONGEST_GAP))
                if moves == self._moves:
                    self._position += 1
                    return item
                continue
            if self._exhausted:
                raise StopAsyncIteration
            asked = clock()
            try:
                item = await anext(self._pipe)
            except StopAsyncIteration:
                self._exhausted = True
                continue
            self._exhausted = isinstance(item, Token) and item.last
            next_one = self._position == self._end
            self._keep(item, clock() - asked)
            if next_one:
                self._position += 1
                return item

    async def aclose(self) -> None:
        """Close the pipe. Twice is once."""
        self._exhausted = True
        close = getattr(self._pipe, "aclose", None)
        if close is not None:
            await close()

    def _keep(self, item: Token | str, gap: float) -> None:
        self._kept.append((item, gap))
        self._end += 1
