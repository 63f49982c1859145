"""A tour told by a model, one product after the other: a chain of answers that keeps their order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe, played_already, was_cut
from multimodal.values import Token

__all__ = ["BeginsAhead", "GuidedTextPipe"]

log = logging.getLogger(__name__)

BREAK = "\n\n"
"""Stands between two products, as between the passages of any tour."""


@runtime_checkable
class BeginsAhead(Protocol):
    """A text pipe that can be made before it is pulled: `made` says that all of it is, `begin` asks for it."""

    @property
    def made(self) -> bool: ...

    async def begin(self) -> None: ...


class GuidedTextPipe:
    """Plays one answer after the other (T1-T7, T10); the next is asked for when the one before it ended.

    Where answers begin ahead (`BeginsAhead`) the next is asked for when the one before it is made, while it is still
    heard at a narrator's pace: one is made at a time, and nobody waits for it between two passages.

    An answer that fails ends the pipe with its error; one that was cut (T10) is logged, as half a sentence of it may
    have been said; closing closes the answer that runs.

    Args:
        answers: each makes the text pipe of one passage when it is called.
        narrator: who speaks, for the page and recordings.
        unit: what one token of these pipes is.
        prepare: awaited before the first answer is made, for what takes longer than a loop may be held up.
        about: the product that each answer speaks of, "" = none, for `Token.about`; empty = not known.
        ends_at_cut: an answer that was cut is the last one, and the pipe is cut with it; else the next one follows.

    Raises:
        UsageError: no answer to play, or `about` says it of fewer or more.
    """

    def __init__(
        self,
        answers: Sequence[Callable[[], TextPipe]],
        *,
        narrator: str,
        unit: str = "delta",
        prepare: Callable[[], Awaitable[None]] | None = None,
        about: Sequence[str] = (),
        ends_at_cut: bool = False,
    ) -> None:
        if not answers:
            raise UsageError("GuidedTextPipe has no answer to play; give at least one")
        if about and len(about) != len(answers):
            raise UsageError(f"about is of {len(about)} answers, and there are {len(answers)}; give one for each")
        self.narrator, self.token_unit = narrator, unit
        self._about = about
        self._answers, self._prepare = list(answers), prepare
        self._next, self._ends_at_cut = 0, ends_at_cut
        self.cut = False
        """It has ended, and its last answer was cut (T10)."""
        self._pipe: TextPipe | None = None
        self._ahead: TextPipe | None = None
        self._over = False

    def _of(self, token: Token) -> Token:
        """A token of the answer that runs, or that ended last."""
        return msgspec.structs.replace(token, about=self._about[self._next - 1]) if self._about else token

    def __aiter__(self) -> GuidedTextPipe:
        if self._over:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        while not self._over:
            if self._prepare is not None:
                prepare, self._prepare = self._prepare, None
                await prepare()
                continue  # it may have been closed meanwhile
            if self._pipe is None:
                self._pipe, self._ahead = self._ahead or self._answers[self._next](), None
                self._next += 1
            try:
                item = await anext(self._pipe)
                await self._look_ahead()
            except StopAsyncIteration:
                ended = Token("")
            except BaseException:
                await self.aclose()
                raise
            else:
                token = item if isinstance(item, Token) else Token(item)
                if not token.last:
                    return self._of(token)
                ended = token
            if self._over:
                break  # closed meanwhile
            cut = was_cut(self._pipe)
            await self._close()
            at_end = self._next == len(self._answers) or (cut and self._ends_at_cut)
            if cut:
                log.warning("answer %d of %d was cut before its end", self._next, len(self._answers))
            self.cut = cut and at_end
            self._over = at_end
            if ended.text or not at_end:
                return self._of(Token(ended.text + ("" if at_end else BREAK), last=at_end))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the tour, and the answers that run. Twice is once."""
        self._over = True
        await self._close()
        self._pipe, self._ahead = self._ahead, None
        await self._close()

    async def _look_ahead(self) -> None:
        """Ask for the next answer where this one is made."""
        pipe = self._pipe
        if self._ahead is None and self._next < len(self._answers) and isinstance(pipe, BeginsAhead) and pipe.made:
            ahead = self._ahead = self._answers[self._next]()
            if isinstance(ahead, BeginsAhead):
                await ahead.begin()

    async def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        close = getattr(pipe, "aclose", None)
        if close is not None:
            await close()
