"""The seam between whatever makes tokens and whoever reads them: an engine, and one mailbox for each answer.

An engine serves all sessions of a process from one thread of its own. Its rules, checked for every engine by the same
tests:

E1. `submit` returns at once, from any thread; the answer comes through its mailbox, one `Step` a token, in order.
E2. The last step has a finish; nothing follows it. An exception in the engine reaches the reader of every mailbox.
E3. A row whose mailbox is full is not stepped (backpressure), and goes on when there is room; others go on meanwhile.
E4. A row whose mailbox is closed is given up before the next step begins: at most one further token is made for it.
E5. Greedy text of a row does not depend on the other rows of its batch.
E6. `close` ends every answer with an error, frees what the engine holds and leaves no thread behind. Twice is once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.generation import GenerationRequest, RequestTimes, Step

__all__ = ["Engine", "EngineStats", "Mailbox"]


class EngineStats(msgspec.Struct):
    """What an engine did since it began, and what it holds now.

    Args:
        running: rows in the batch now.
        waiting: requests not admitted yet.
        finished, cancelled, failed: answers that ended so.
        steps: forward passes that made tokens.
        prefills: forward passes that read prompts.
        prefilled_tokens: tokens of prompts read; cached ones are not among them.
        cached_tokens: tokens of prompts that a kept prefix made unnecessary to read.
        tokens: tokens generated.
        row_steps: sum over the steps of the rows in them; row_steps / steps is the batch occupancy.
        busy: seconds in which a forward pass ran.
        cpu: CPU seconds of the engine's work.
        pool_bytes, pool_high_bytes, pool_low_bytes: KV bytes held now, the most and, after the first request, the
            least ever.
        pool_stalls: answers that found no room in it, so that kept prefixes had to go first.
    """

    running: int = 0
    waiting: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    steps: int = 0
    prefills: int = 0
    prefilled_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    row_steps: int = 0
    busy: float = 0.0
    cpu: float = 0.0
    pool_bytes: int = 0
    pool_high_bytes: int = 0
    pool_low_bytes: int = 0
    pool_stalls: int = 0


class Engine(Protocol):
    """E1-E6. What makes tokens for all sessions of a process."""

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None: ...

    def stats(self) -> EngineStats: ...

    def close(self) -> None: ...


class Mailbox:
    """Steps on their way from an engine's thread to one reader, bounded.

    The engine's side may be called from any thread; the reader's side from one thread or one event loop.

    Args:
        capacity: steps that may wait before the row is full and the engine stops stepping it.
        low: steps at or below which a row that was full has room again; None = half the capacity.

    Raises:
        UsageError: a capacity below 1, or a `low` that is not below the capacity.
    """

    def __init__(self, capacity: int = 64, low: int | None = None) -> None:
        self.times = RequestTimes()
        self.on_room: Callable[[], None] | None = None
        """Set by the engine: called, from the reader's thread, when a full row has room or was closed."""
        self.on_arrival: Callable[[], None] | None = None
        """Set by a reader of several mailboxes: called, from the engine's thread, when something can be taken. It must
        return at once and not touch the mailbox."""
        self.delivered = 0
        """Steps the engine has put."""
        self._steps: deque[Step] = deque()
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._failure: Exception | None = None
        self._ended = self._closed = self._full = False
        self.resize(capacity, low)

    def resize(self, capacity: int, low: int | None = None) -> None:
        """Another bound, from now on; steps that wait already stay."""
        if capacity < 1 or (low is not None and not 0 <= low < capacity):
            raise UsageError(
                f"a mailbox holds capacity={capacity}, low={low}; give capacity >= 1 and 0 <= low < capacity"
            )
        self.capacity, self.low = capacity, capacity // 2 if low is None else low
        self._look()

    # ---- the engine's side

    @property
    def full(self) -> bool:
        """E3: do not step this row."""
        return self._full

    @property
    def closed(self) -> bool:
        """E4: its reader is gone."""
        return self._closed

    @property
    def ended(self) -> bool:
        """The last step, or a failure, was put."""
        return self._ended

    def put(self, step: Step) -> None:
        """One more token; with a finish it is the last. Nothing is kept for a reader that is gone."""
        with self._lock:
            if self._ended:
                return
            self.delivered += 1
            self._ended = bool(step.finish)
            if self._closed:
                return
            self._steps.append(step)
            self._full = len(self._steps) >= self.capacity
            self._wake()

    def fail(self, error: Exception) -> None:
        """E2: the answer ends with this error, after the steps that were put before."""
        with self._lock:
            if not self._ended:
                self._failure, self._ended = error, True
                self._wake()

    # ---- the reader's side

    def take(self) -> list[Step]:
        """Every step that waits, without waiting; the failure, once they are taken, is raised.

        Raises:
            Exception: what the engine failed with.
        """
        with self._lock:
            steps = list(self._steps)
            self._steps.clear()
            failure = None if steps else self._failure
        if failure is not None:
            raise failure
        self._look()
        return steps

    async def wait(self, timeout: float | None = None) -> bool:
        """Until something can be taken or the mailbox is closed; False when `timeout` seconds passed.

        Cancelling loses nothing.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._steps or self._ended or self._closed:
                return True
            if self._waiter is not None:
                raise UsageError("a mailbox is read twice at once; it has one reader")
            future: asyncio.Future[None] = loop.create_future()
            self._waiter = loop, future
        handle = None if timeout is None else loop.call_later(max(0.0, timeout), _resolve, future)
        try:
            await future
        finally:
            with self._lock:
                self._waiter = None
            if handle is not None:
                handle.cancel()
        return bool(self._steps) or self._ended or self._closed

    def wait_blocking(self, timeout: float | None = None) -> bool:
        """The same from a thread without an event loop."""
        with self._arrived:
            return self._arrived.wait_for(lambda: bool(self._steps) or self._ended or self._closed, timeout)

    def close(self) -> None:
        """E4: nobody reads any more; what waits is dropped and the engine gives the row up. Twice is once."""
        with self._lock:
            if self._closed:
                return
            self._closed, self._full = True, False
            self._steps.clear()
            self._wake()
        if self.on_room is not None:
            self.on_room()

    def _look(self) -> None:
        with self._lock:
            waiting = len(self._steps)
            opens = self._full and waiting <= self.low
            self._full = waiting >= self.capacity or (self._full and not opens)
        if opens and self.on_room is not None:
            self.on_room()

    def _wake(self) -> None:
        self._arrived.notify_all()
        if self.on_arrival is not None:
            self.on_arrival()
        if self._waiter is not None:
            loop, future = self._waiter
            self._waiter = None
            try:
                loop.call_soon_threadsafe(_resolve, future)
            except RuntimeError:  # the reader's loop is closed; its mailbox will be, too
                return


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
