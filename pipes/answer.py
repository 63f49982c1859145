"""The text pipe of one answer (T1-T8, T10): an engine's tokens, pulled by whoever shows them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.base import played_already
from multimodal.pipes.generation import Finish
from multimodal.pipes.reader import AnswerReader, Logprob
from multimodal.values import Token

__all__ = ["AnswerPipe"]


class AnswerPipe:
    """One answer as a text pipe. The engine is asked at the first pull, and again only for what is pulled.

    Tokens that leave together are given by consecutive pulls that do not suspend, so that a stream feeds them at one
    instant. Cancelling a pull, `aclose`, and dropping the pipe give the engine's row up before its next step.

    Args:
        make: gives the reader of the answer, at the first pull: with the tokens between two sync marks (0 = none).
        prepare: awaited before that, for what takes longer than a loop may be held up.
    """

    token_unit = "token"

    def __init__(
        self, make: Callable[[int], AnswerReader], prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._make: Callable[[int], AnswerReader] | None = make
        self._prepare = prepare
        self._reader: AnswerReader | None = None
        self._ready: deque[Token] = deque()
        self._sync_interval = 0
        self._said: list[str] = []
        self._pulling = self._ended = False

    @property
    def reader(self) -> AnswerReader | None:
        """What reads the answer; None before the first pull."""
        return self._reader

    @property
    def pending(self) -> bool:
        """Nothing was pulled yet, and it is not closed."""
        return self._make is not None

    @property
    def over(self) -> bool:
        """Its last token was pulled, it failed, or it was closed."""
        return self._ended

    @property
    def metrics(self) -> Any:
        """Its `AnswerFigures` so far; None before the first pull."""
        return None if self._reader is None else self._reader.figures

    @property
    def logprobs(self) -> list[Logprob]:
        """How likely each token so far was.

        Raises:
            UsageError: it was not asked for.
        """
        return [] if self._reader is None else self._reader.logprobs

    @property
    def finish(self) -> Finish:
        """Why the answer ended; "" while it goes on."""
        if self._reader is None:
            return "cancelled" if self._ended else ""
        return self._reader.finish

    @property
    def cut(self) -> bool:
        """It ended at its limit of tokens (T10)."""
        return self._ended and self.finish == "length"

    @property
    def text(self) -> str:
        """What was pulled so far."""
        return "".join(self._said)

    def sync_every(self, tokens: int) -> None:
        """T8. Tokens that are held together are let go at each sync mark.

        Raises:
            UsageError: the answer has begun, or the number is below 1.
        """
        if self._reader is not None or tokens < 1:
            raise UsageError(f"sync_every({tokens}): call it once, before the first pull, with 1 or more tokens")
        self._sync_interval = tokens

    def __aiter__(self) -> AnswerPipe:
        if self._ended:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        if not self._ready:
            await self._fill()
        token = self._ready.popleft()
        self._said.append(token.text)
        self._ended = token.last
        return token

    @property
    def made(self) -> bool:
        """The engine is done with it, though not all of it may be pulled."""
        return self._ended or (self._reader is not None and self._reader.mailbox.ended)

    async def begin(self) -> None:
        """Ask the engine now, so that what it makes waits for the first pull; at once where it was asked before.

        Raises:
            UsageError: the engine cannot do what is asked.
        """
        if self._reader is None and not self._pulling:
            try:
                await self._begin()
            except BaseException:
                self._end()
                raise

    async def aclose(self) -> None:
        """End the pipe, also for a pull that waits. Twice is once."""
        self._end()

    def __del__(self) -> None:
        # A pipe that was left half-way and forgotten must not keep a row of the engine.
        if not getattr(self, "_ended", True):
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._ready.clear()
        self._make = None
        if self._reader is not None:
            self._reader.close()

    async def _begin(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        if self._make is not None:  # else it was closed meanwhile
            self._reader, self._make = self._make(self._sync_interval), None
            self._reader.start()

    async def _fill(self) -> None:
        if self._pulling:
            raise UsageError("AnswerPipe is pulled twice at once; a pipe has one reader")
        if self._ended:
            raise StopAsyncIteration
        clock = asyncio.get_running_loop().time
        self._pulling = True
        try:
            if self._reader is None:
                await self._begin()
            reader = self._reader
            if reader is None:
                raise StopAsyncIteration  # closed meanwhile
            while True:
                now = clock()
                self._ready.extend(reader.read(now))
                if self._ready:
                    return
                if reader.over or self._ended:
                    self._ended = True
                    raise StopAsyncIteration
                await reader.mailbox.wait(reader.timeout(now))
        except StopAsyncIteration:
            raise
        except BaseException:  # also a cancelled pull: it frees the row (T4)
            self._end()
            raise
        finally:
            self._pulling = False
