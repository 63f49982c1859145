"""What tests share: running coroutines in real time under a limit, and on a virtual clock that jumps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T], limit: float = 60.0) -> T:
    """Run to the end in real time; fail instead of hanging.

    Raises:
        TimeoutError: it took longer than `limit` seconds.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit):
            return await coroutine

    return asyncio.run(limited())


def virtual(coroutine: Coroutine[Any, Any, T], limit: float = 100_000.0) -> T:
    """Run on a clock that jumps to the next deadline: hours of sleeps in milliseconds.

    For scripted pipes only: while a thread or a socket is busy, timeouts would fire at once.

    Raises:
        TimeoutError: it took longer than `limit` virtual seconds.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit):
            return await coroutine

    loop = _VirtualLoop()
    try:
        return loop.run_until_complete(limited())
    finally:
        loop.close()


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: a wait of s seconds moves the loop's clock by s instead."""

    clock = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("every task waits for something that never comes")
            self.clock += max(timeout, 0.0)
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.clock
