"""One wake-up for a reader of several mailboxes, in a thread or on an event loop."""

from __future__ import annotations

import asyncio
import threading

from multimodal.errors import UsageError

__all__ = ["Bell"]


class Bell:
    """Rung from any thread; waited for by one reader, blocking or not. A ring that nobody waits for is kept."""

    def __init__(self) -> None:
        self._rung = False
        self._condition = threading.Condition()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def ring(self) -> None:
        """Something came."""
        with self._condition:
            self._rung = True
            self._condition.notify_all()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                waiter[0].call_soon_threadsafe(_resolve, waiter[1])
            except RuntimeError:  # the reader's loop is closed
                return

    def wait_blocking(self, timeout: float | None) -> None:
        """Until it rings, or `timeout` seconds passed."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung, timeout)
            self._rung = False

    async def wait(self, timeout: float | None) -> None:
        """The same on the running loop. Cancelling loses no ring.

        Raises:
            UsageError: another task waits already.
        """
        loop = asyncio.get_running_loop()
        with self._condition:
            if self._rung:
                self._rung = False
                return
            if self._waiter is not None:
                raise UsageError("a Generation is read by two tasks at once; let one task read it")
            future: asyncio.Future[None] = loop.create_future()
            self._waiter = loop, future
        timer = None if timeout is None else loop.call_later(timeout, _resolve, future)
        try:
            await future
            self._rung = False
        finally:
            with self._condition:
                self._waiter = None
            if timer is not None:
                timer.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
