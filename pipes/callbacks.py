"""Callbacks that the application registers: held weakly where that is possible, apart from each other and the tokens.

C1. `emit` only queues: it never calls, never waits, never raises because of a callback.
C2. Plain callbacks run in one thread of the process, coroutine functions on the loop on which they were registered;
    each gets its events in order, one at a time.
C3. A bound method, also inside `functools.partial`, is held by its object: it is gone when the object is. With
    `owner=` anything is held by that owner, even if it refers to the owner.
C4. Whatever else (lambdas, local functions, `list.append`, objects with `__call__`) often has nobody who holds it, and
    must not be gone at once: it is held here, until its handle's `remove`, `close`, or the end of this object.
C5. An exception is counted, and logged the first time; the callback's next event comes as ever.
C6. At most `capacity` events wait for each callback; the oldest make way and are counted.
C7. After `remove` nothing more is begun. After `close` what was emitted before is still delivered.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, get_args

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.callback_entry import Entry, Tally

__all__ = ["CallbackStats", "Callbacks", "EventName", "Handle", "StageChange", "Update"]

EventName = Literal["stage_change", "update"]


class StageChange(msgspec.Struct, frozen=True):
    """The answer came into another stage.

    Args:
        stage, previous: the stages' names; "" = none before.
        token_index: the first token of the new stage.
        at: seconds of `time.monotonic`.
    """

    stage: str
    previous: str = ""
    token_index: int = 0
    at: float = 0.0


class Update(msgspec.Struct, frozen=True):
    """Tokens left together.

    Args:
        token_index: the first of them.
        token_count: how many.
        text: theirs.
        stage: the answer's stage.
        at: seconds of `time.monotonic`.
    """

    token_index: int
    token_count: int
    text: str
    stage: str = ""
    at: float = 0.0


_NAMES: dict[type, EventName] = {StageChange: "stage_change", Update: "update"}


class CallbackStats(msgspec.Struct, frozen=True):
    """What became of callbacks and their events.

    Args:
        registered: callbacks that live now.
        delivered: calls that returned.
        failures: calls that raised.
        dropped: events that never reached their callback: too many waited, or it was removed.
        expired: callbacks whose object, owner or loop is gone.
    """

    registered: int
    delivered: int
    failures: int
    dropped: int
    expired: int


class Handle:
    """One registration. `remove` ends it, as does leaving it as a context manager; dropping the handle does not."""

    def __init__(self, callbacks: Callbacks, entry: Entry) -> None:
        self._callbacks = weakref.ref(callbacks)
        self._entry = entry

    @property
    def alive(self) -> bool:
        """It is registered, and its object, owner and loop are there."""
        return self._entry.alive

    def remove(self) -> None:
        """No more calls; one that runs goes on. Twice is once."""
        self._entry.remove()
        callbacks = self._callbacks()
        if callbacks is not None:
            callbacks._purge()

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Callbacks:
    """C1-C7. Any call may come from any thread.

    Args:
        capacity: events that may wait for one callback.

    Raises:
        UsageError: a capacity below 1.
    """

    def __init__(self, *, capacity: int = 256) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise UsageError(f"capacity={capacity!r} is no number of events; give 1 or more")
        self.capacity = capacity
        # Reentrant: a collection under the lock may run a finalizer that comes back here.
        self._lock = threading.RLock()
        self._tally = Tally()
        # Replaced, never changed: `emit` reads it without the lock.
        self._entries: dict[str, tuple[Entry, ...]] = dict.fromkeys(get_args(EventName), ())
        self._closed = False

    def register(self, event: EventName, fn: Callable[[Any], object], *, owner: object = None) -> Handle:
        """Call `fn` with every event of that name from now on.

        Args:
            event: stage_change (`StageChange`) or update (`Update`).
            fn: a plain callable, run in a thread of the process, or a coroutine function, run on this loop (C2).
            owner: an object with attributes of its own, which then holds `fn` (C3); None = C3 and C4 decide.

        Raises:
            UsageError: an unknown event, something not callable, a coroutine function without a running loop, an owner
                that cannot hold it, or this object is closed.
        """
        if event not in self._entries:
            raise UsageError(f"event {event!r} is unknown; register for one of {', '.join(self._entries)}")
        entry = Entry(event, fn, owner, self.capacity, self._tally)
        with self._lock:
            if self._closed:
                raise UsageError("these callbacks are closed, as their stream is; register before it ends")
            self._entries[event] = (*(each for each in self._entries[event] if each.alive), entry)
        return Handle(self, entry)

    def remove(self, owner: object) -> int:
        """End every registration of this owner, its bound methods included; gives how many there were."""
        found = [each for entries in self._entries.values() for each in entries if each.alive and each.is_of(owner)]
        for entry in found:
            entry.remove()
        self._purge()
        return len(found)

    def emit(self, event: StageChange | Update) -> None:
        """Queue it for whoever registered (C1)."""
        entries = self._entries[_NAMES[type(event)]]
        if not entries:
            return
        lost = False
        for entry in entries:
            lost |= not entry.put(event)
        if lost:
            self._purge()

    def drain(self, timeout: float = 10.0) -> bool:
        """Wait until all that was emitted is delivered; False = `timeout` seconds were not enough.

        On an event loop call it through `asyncio.to_thread`: callbacks of that loop could not run meanwhile.

        Raises:
            UsageError: it was called on an event loop.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._tally.wait_idle(timeout)
        raise UsageError("drain() would block the event loop; use `await asyncio.to_thread(callbacks.drain)`")

    def close(self) -> None:
        """No more registrations; what was emitted is still delivered, then nothing is held (C7). Twice is once."""
        with self._lock:
            self._closed = True
            entries = [each for name in self._entries for each in self._entries[name]]
            self._entries = dict.fromkeys(self._entries, ())
        for entry in entries:
            entry.finish()

    def stats(self) -> CallbackStats:
        """Everything that was counted, at one instant."""
        self._purge()
        counts = self._tally
        return CallbackStats(
            registered=sum(len(entries) for entries in self._entries.values()),
            delivered=counts.delivered,
            failures=counts.failures,
            dropped=counts.dropped,
            expired=counts.expired,
        )

    def _purge(self) -> None:
        with self._lock:
            for name, entries in self._entries.items():
                if not all(each.alive for each in entries):
                    self._entries[name] = tuple(each for each in entries if each.alive)
