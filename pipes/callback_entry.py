"""One registered callback: the events that wait for it, and where it runs (C1-C7 in `callbacks`)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque

from multimodal.errors import UsageError
from multimodal.pipes.callback_holding import HOLDS, Call, holding, inner, loop_for, nobody
from multimodal.pipes.callback_worker import shared_worker

__all__ = ["Entry", "Tally"]

log = logging.getLogger(__name__)


class Tally:
    """Counts that a registry and its callbacks share, without which neither would have to know the other."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pending = self.delivered = self.failures = self.dropped = self.expired = 0

    def wait_idle(self, timeout: float) -> bool:
        """Until no event waits or is being delivered; False = not in time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.pending == 0, timeout)

    def settle(self, events: int) -> None:
        """Called under the lock: so many are no longer pending."""
        self.pending -= events
        if events and not self.pending:
            self.changed.notify_all()


class Entry:
    """A callback and the queue before it.

    Args:
        event: the event's name.
        fn: the callback.
        owner: who holds it; None = C3 and C4 decide.
        capacity: events that may wait.
        tally: where its registry counts.

    Raises:
        UsageError: `fn` cannot be called, is a coroutine function without a running loop, or `owner` cannot hold it.
    """

    def __init__(self, event: str, fn: Call, owner: object, capacity: int, tally: Tally) -> None:
        if not callable(fn):
            raise UsageError(f"the callback for {event!r} is a {type(fn).__name__}; give something that can be called")
        self._name = f"{getattr(inner(fn), '__qualname__', type(fn).__name__)} for {event!r}"
        self._loop = loop_for(fn, self._name)
        self._find, self._release = holding(fn, owner)
        self._capacity, self._tally = capacity, tally
        self._queue: deque[object] = deque()
        self._task: asyncio.Task[None] | None = None
        self._alive, self._scheduled, self._logged = True, False, False

    @property
    def alive(self) -> bool:
        return self._alive and self._find() is not None

    def is_of(self, owner: object) -> bool:
        """Whether `owner` holds it, or it is a method of that object."""
        fn = self._find()
        held = getattr(owner, "__dict__", {}).get(HOLDS, ())
        return fn is not None and (getattr(inner(fn), "__self__", None) is owner or any(h.fn is fn for h in held))

    def put(self, event: object) -> bool:
        """Queue it, from any thread; False = nobody is there any more."""
        if self._find() is None or (self._loop is not None and self._loop.is_closed()):
            self._expire()
            return False
        with self._tally.changed:
            if not self._alive:
                return False
            if len(self._queue) >= self._capacity:
                self._queue.popleft()
                self._tally.dropped += 1
                self._tally.settle(1)
            self._queue.append(event)
            self._tally.pending += 1
            if self._scheduled:
                return True
            self._scheduled = True
        return self._schedule()

    def remove(self) -> None:
        """No more calls are begun (C7)."""
        with self._tally.changed:
            self._alive = False
            self._drop()
        self._let_go()

    def finish(self) -> None:
        """Nothing more is queued; what waits is delivered, and then it is let go (C7)."""
        with self._tally.changed:
            self._alive = False
            waits = self._scheduled
        if not waits:
            self._let_go()

    # ---- delivering

    def _schedule(self) -> bool:
        if self._loop is None:
            shared_worker().post(self._run)
            return True
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed, and nothing will ever run on it again
            self._expire()
            return False
        return True

    def _run(self) -> None:
        """In the worker: what waits now; what comes meanwhile has its turn after the others'."""
        for _ in range(len(self._queue)):
            if not self._call():
                return
        with self._tally.changed:
            more = self._scheduled = bool(self._queue)
        if more:
            shared_worker().post(self._run)
        else:
            self._ended()

    def _call(self) -> bool:
        fn = self._find()
        if fn is None:
            self._expire()
            return False
        event = self._next()
        if event is None:
            return True
        try:
            result = fn(event)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("it returned a coroutine that nobody awaits; register an `async def` itself")
        except BaseException:  # SystemExit, too: the thread is everybody's
            self._failed()
        else:
            self._done()
        return True

    def _start(self) -> None:
        # The entry holds the task and awaits nothing else on the loop: there is no group it could belong to, as
        # callbacks outlive the call that registered them.
        assert self._loop is not None
        self._task = self._loop.create_task(self._run_async(), name=f"multimodal callback {self._name}")

    async def _run_async(self) -> None:
        try:
            while await self._call_async():
                pass
        except asyncio.CancelledError:  # with its loop, which delivers nothing any more
            with self._tally.changed:
                self._scheduled = False
                self._drop()
            raise
        finally:
            self._task = None
            self._ended()

    async def _call_async(self) -> bool:
        fn = self._find()
        if fn is None:
            self._expire()
            return False
        event = self._next()
        if event is None:
            return False
        try:
            await fn(event)  # type: ignore[misc]
        except asyncio.CancelledError:
            self._settle()
            raise
        except Exception:
            self._failed()
        else:
            self._done()
        return True

    def _next(self) -> object | None:
        with self._tally.changed:
            if self._queue:
                return self._queue.popleft()
            # In the same breath as the look: what is put from now on schedules anew.
            self._scheduled = False
            return None

    def _done(self) -> None:
        with self._tally.changed:
            self._tally.delivered += 1
            self._tally.settle(1)

    def _settle(self) -> None:
        with self._tally.changed:
            self._tally.settle(1)

    def _failed(self) -> None:
        if not self._logged:
            self._logged = True
            log.warning("the callback %s failed; its further failures are only counted", self._name, exc_info=True)
        with self._tally.changed:
            self._tally.failures += 1
            self._tally.settle(1)

    # ---- letting go

    def _expire(self) -> None:
        with self._tally.changed:
            self._tally.expired += self._alive
            self._alive = False
            self._drop()

    def _drop(self) -> None:
        self._tally.dropped += len(self._queue)
        self._tally.settle(len(self._queue))
        self._queue.clear()

    def _ended(self) -> None:
        if not self._alive and not self._scheduled:
            self._let_go()

    def _let_go(self) -> None:
        self._find = nobody
        self._release()

    def __del__(self) -> None:
        # A registry that was dropped without `close` must not leave its callbacks with their owners.
        if hasattr(self, "_release"):
            self._release()
