"""A clock that jumps: an hour of sleeps in milliseconds, the same every time. And a stream that is driven by steps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from multimodal.errors import SyncError, UsageError
from multimodal.events import AnyEvent
from multimodal.sync.log import SyncLog

if TYPE_CHECKING:
    from multimodal.stream import MultiModalStream

__all__ = ["SteppedStream", "VirtualClock", "VirtualLoop"]

T = TypeVar("T")
E = TypeVar("E", bound=AnyEvent)
LIMIT = 100_000.0
"""Virtual seconds that a coroutine may take: more than a day, so that only what never ends reaches it."""
TURNS = 16
"""Turns of the loop in which what is due at one instant comes out: timer, pump, consumer, driver, and some to spare."""
BUSY_TURNS = 1_000_000
"""Turns at one instant that are no progress any more: some ten seconds of CPU, where a real clock would go on."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: a wait of s seconds moves the loop's clock by s instead."""

    clock = 0.0
    _turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise SyncError("every task waits for something that never comes: no timer is set and nothing is ready")
            self._turns = 0 if timeout > 0 else self._turns + 1
            self.clock += max(timeout, 0.0)
            if self._turns > BUSY_TURNS:
                self._turns = 0
                raise SyncError(
                    f"a busy loop: {BUSY_TURNS} turns at {self.clock:.6f} s of virtual time, and none of them waited;"
                    " look for a task that polls with sleep(0), or sets a timer that is already over"
                )
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and jumps to the next deadline.

    For scripted pipes only: while a worker thread or a socket is busy, timeouts fire at once.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._jumping.clock


class VirtualClock:
    """Runs coroutines on virtual time, one after the other on one clock; `close` it, or use it in a `with` block.

    Scripted pipes and memory links only: while a worker thread or a socket is busy, timeouts fire at once.
    """

    def __init__(self) -> None:
        self._loop = VirtualLoop()

    def __enter__(self) -> VirtualClock:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def now(self) -> float:
        """Seconds of virtual time since the clock was made; it moves only inside `run`."""
        return self._loop.time()

    def run(self, coroutine: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
        """Run to the end, and give back what the coroutine returns.

        Args:
            coroutine: what to run.
            limit: virtual seconds that it may take.

        Raises:
            TimeoutError: it took longer than `limit`, so something in it never comes.
            UsageError: an event loop is already running here, or the clock is closed.
        """
        if self._loop.is_closed() or _running():
            coroutine.close()
            raise UsageError(
                "the clock is closed; make a new one"
                if self._loop.is_closed()
                else "a virtual clock runs an event loop of its own and cannot be used inside one; use a plain test"
            )

        async def limited() -> T:
            async with asyncio.timeout(limit):
                return await coroutine

        return self._loop.run_until_complete(limited())

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass for whatever runs on this clock."""
        self.run(asyncio.sleep(seconds))

    def close(self) -> None:
        """Cancel what still runs on the clock, and close its loop. Twice is once."""
        if self._loop.is_closed():
            return
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=LIMIT))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


class SteppedStream:
    """A stream on a virtual clock, driven step by step: between two steps no time passes and nothing is pulled.

    Args:
        stream: not yet entered; the first step enters it.
        clock: the clock that it runs on.

    After the end every step gives nothing. A pipe that failed raises its PipeError from the step behind the end event.
    """

    def __init__(self, stream: MultiModalStream, clock: VirtualClock) -> None:
        self.stream = stream
        self._clock = clock
        self._events: list[AnyEvent] = []
        self._fresh: list[tuple[AnyEvent, ...]] = []
        self._may_pull, self._pulled = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None

    @property
    def now(self) -> float:
        """The clock's time, in seconds."""
        return self._clock.now

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self._task is not None and self._task.done()

    @property
    def log(self) -> SyncLog:
        """What was emitted so far, and the plan."""
        return SyncLog(tuple(self._events), plan=self.stream.plan)

    def step(self) -> tuple[AnyEvent, ...]:
        """The next bundle, at whatever time it comes; empty after the end.

        Raises:
            PipeError: a pipe failed.
            TimeoutError: nothing comes any more, and no end.
        """
        return self._clock.run(self._next(None))

    def advance(self, seconds: float) -> tuple[AnyEvent, ...]:
        """Let `seconds` pass, and give every event of that time, what comes at its very end included.

        Raises:
            PipeError: a pipe failed.
        """
        until, events = self.now + seconds, list[AnyEvent]()
        while bundle := self._clock.run(self._next(until)):
            events.extend(bundle)
        if self.now < until:
            self._clock.sleep(until - self.now)
        return tuple(events)

    def until(self, kind: type[E], when: Callable[[E], bool] = lambda event: True) -> E:
        """Step to the first new event of a kind for which `when` holds, and give it; its whole bundle has come then.

        Raises:
            SyncError: the stream ended without one.
            PipeError: a pipe failed.
        """
        while bundle := self.step():
            for event in bundle:
                if isinstance(event, kind) and when(event):
                    return event
        last = self._events[-1] if self._events else "nothing"
        raise SyncError(f"the stream ended without the {kind.__name__} that was waited for; its last event was: {last}")

    def rest(self) -> SyncLog:
        """Run to the end, and give the whole log.

        Raises:
            PipeError: a pipe failed.
        """
        while self.step():
            pass
        return self.log

    def close(self) -> None:
        """Stop the stream and close its pipes. Twice is once."""
        self._clock.run(self._stop())

    # ---- inside the clock ----------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        """Holds the stream open in ONE task: a task group is left by the task that entered it."""
        async with self.stream:
            async for bundle in self.stream.bundles():
                self._events.extend(bundle)
                self._fresh.append(bundle)
                self._pulled.set()
                self._may_pull.clear()
                await self._may_pull.wait()

    async def _next(self, until: float | None) -> tuple[AnyEvent, ...]:
        loop = asyncio.get_running_loop()
        if self._task is None:
            # Outlives this step, so no TaskGroup can span it; `close` awaits it.
            self._task = loop.create_task(self._drive())
            self._task.add_done_callback(lambda task: self._pulled.set())
        self._may_pull.set()
        timer = None if until is None else loop.call_at(until, self._pulled.set)
        while not self._fresh and not self._task.done() and (until is None or loop.time() < until):
            self._pulled.clear()
            await self._pulled.wait()
        if timer is not None:
            timer.cancel()
        for _ in range(TURNS):
            if self._fresh or self._task.done():
                break
            await asyncio.sleep(0)
        if self._fresh:
            return self._fresh.pop(0)
        if self._task.done() and not self._task.cancelled() and self._error is None:
            self._error = self._task.exception()
            if self._error is not None:
                raise self._error
        return ()

    async def _stop(self) -> None:
        if self._task is None:
            await self.stream.aclose()
            return
        self._task.cancel()
        await asyncio.wait([self._task])


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
