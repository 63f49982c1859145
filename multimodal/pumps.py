"""The pumps of a stream: they pull the pipes and fill the inbox that the stream empties at its next instant."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from multimodal.errors import MultiModalError, PipeError
from multimodal.pipes.base import Describes, ImagePipe, TextPipe
from multimodal.turn import Turn
from multimodal.values import Asset, Cue, EncodedImage, ImageFailure, Token

__all__ = ["Inbox", "close_pipe", "describe", "pump_images", "pump_text"]

log = logging.getLogger(__name__)

TOKENS_AHEAD = 64
"""Tokens that may wait for the consumer before the text pipe is no longer pulled."""
OTHERS_AHEAD = 16
"""Pictures and other items that may wait before the image pipe is no longer pulled."""
TOKEN_LIMIT = 8192
"""Characters of one token: escaped as JSON it still fits one message of 60 KiB."""
DESCRIBE_BATCH = 4
"""Pictures described in one call: few enough that the first slots are reserved at once."""
BLOCKED = 0.001
"""Seconds for one token after which the pump gives way to the consumer, whether or not the pipe did."""
CLOSE_LIMIT = 5.0
"""Seconds a pipe may take to close before the stream goes on without it."""


class Inbox:
    """What waits to be fed, in the order of one instant: turns, cues, then tokens, then pictures and acks (R2, R9).

    One consumer sleeps on it; `wake` may be called from anywhere on the loop.
    """

    def __init__(self, turn: Turn) -> None:
        self.turns: deque[Callable[[float], object]] = deque()
        self.cues: deque[Cue] = deque()
        self.turn = turn
        self.others: deque[Callable[[float], object]] = deque()
        self.paused = False
        self.failure: PipeError | None = None
        self.dirty = True
        self._room = asyncio.Event()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, feed: Callable[[float], object]) -> None:
        """Feed this at the next instant, after the tokens."""
        self.others.append(feed)
        self.wake()

    def put_first(self, feed: Callable[[float], object]) -> None:
        """The end of a turn or the beginning of one: fed before anything of the new turn."""
        self.turns.append(feed)
        self.wake()

    def wake(self) -> None:
        """Something came in."""
        self.dirty = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def sleep(self, until: float | None) -> None:
        """Until something comes in or the loop's clock shows `until`. A bare future: `wait_for` costs a task."""
        if self.dirty:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        handle = None if until is None else loop.call_at(until, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if handle is not None:
                handle.cancel()

    def emptied(self) -> None:
        """The consumer took what it could: pumps that wait for room look again."""
        self._room.set()

    async def room(self, full: Callable[[], bool]) -> None:
        """Wait while `full()`."""
        while full():
            self._room.clear()
            await self._room.wait()

    def fail(self, what: str, error: Exception) -> str:
        """Keep the first failure for the consumer to raise; gives the sentence for the viewer.

        That sentence leaves out what the error says: an exception's text may hold what no viewer should read.
        """
        detail = str(error) if isinstance(error, MultiModalError) else f"{type(error).__name__}: {error}"
        failure = PipeError(f"{what}: {detail}", retryable=getattr(error, "retryable", False))
        failure.__cause__ = error
        self.failure = self.failure or failure
        return what


async def pump_text(pipe: TextPipe, inbox: Inbox, turn: Turn) -> None:
    """Pull tokens until the end, a failure or a cancellation; closes the pipe in each case."""
    tokens, count = turn.tokens, 0
    clock = asyncio.get_running_loop().time
    asked = clock()
    try:
        async for item in pipe:
            token = item if isinstance(item, Token) else Token(item)
            _check_text(token.text, type(item).__name__)
            count += 1
            tokens.append(token)
            if token.last:
                break  # the end shares the instant of the last token where the pipe knows it (T6)
            inbox.wake()
            if inbox.paused or len(tokens) >= TOKENS_AHEAD:
                await inbox.room(lambda: inbox.paused or len(tokens) >= TOKENS_AHEAD)
            elif clock() - asked > BLOCKED:
                # A pipe that computes without ever giving way would hold back every word until its end.
                await asyncio.sleep(0)
            asked = clock()
    except Exception as error:
        turn.error = inbox.fail(f"the text pipe failed after {count} tokens", error)
    finally:
        turn.done = True
        inbox.wake()
        await close_pipe(pipe)


def _check_text(text: object, kind: str) -> None:
    if not isinstance(text, str):
        raise PipeError(f"it gave {kind}; give Token or str")
    if len(text) > TOKEN_LIMIT:
        raise PipeError(f"it gave {kind} of {len(text)} characters; give at most {TOKEN_LIMIT}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise PipeError(f"it gave text that UTF-8 cannot hold: a lone surrogate at {error.start}") from error


async def pump_images(
    pipe: ImagePipe,
    inbox: Inbox,
    take: Callable[[EncodedImage], None],
    fail: Callable[[str, str], None],
    done: Callable[[str, str], None],
) -> None:
    """Pull pictures until the end, a failure or a cancellation; closes the pipe in each case.

    Args:
        pipe: the image pipe.
        inbox: not filled here, but its room is waited for.
        take: called with every picture.
        fail: called with (key, reason) of every picture that will not come.
        done: called once unless cancelled, with the reason for pictures that never came and, when the pipe failed,
            the sentence for the viewer.
    """
    count, reason, message = 0, "not_found", ""
    try:
        async for item in pipe:
            if isinstance(item, EncodedImage):
                count += 1
                take(item)
            elif isinstance(item, ImageFailure):
                log.info("picture %r: %s (%s)", item.key, item.reason, item.detail)
                fail(item.key, item.reason)
            else:
                raise PipeError(
                    f"it gave {type(item).__name__}; give EncodedImage, or ImageFailure for one that failed"
                )
            await inbox.room(lambda: len(inbox.others) >= OTHERS_AHEAD)
    except Exception as error:
        reason = "image_pipe_failed"
        message = inbox.fail(f"the image pipe failed after {count} pictures", error)
    finally:
        await close_pipe(pipe)
    done(reason, message)


async def describe(pipe: Describes, keys: list[str], inbox: Inbox, feed: Callable[[Asset, float], object]) -> None:
    """Ask for size, alternative text and preview in the order of the plan, so that slots are reserved early."""
    try:
        for start in range(0, len(keys), DESCRIBE_BATCH):
            for asset in await pipe.describe(keys[start : start + DESCRIBE_BATCH]):
                inbox.put(partial(feed, asset))
    except Exception:
        # Only the head start is lost: the same failure comes out of the iteration, with the pictures it costs.
        log.debug("describing pictures failed", exc_info=True)


async def close_pipe(pipe: object) -> None:
    """Close a pipe that can be closed; the stream is over, so one that fails to close is only logged."""
    close = getattr(pipe, "aclose", None)
    if close is None:
        return
    try:
        async with asyncio.timeout(CLOSE_LIMIT):
            await close()
    except Exception as error:
        log.warning("closing %s failed: %r", type(pipe).__name__, error)
