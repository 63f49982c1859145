"""Nothing may be left: what tasks, threads and sockets there are after, there were before."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

WORKERS = 4


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that no event tells of.

    Raises:
        TimeoutError: it did not come true in time.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for belongs to others, who set no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No task, thread or socket is there, soon after, that was not there before; what others left may end meanwhile."""
    await _start_workers()
    before = _remains()
    yield
    try:
        await until(lambda: _remains() <= before)
    except TimeoutError:
        left = _remains() - before
        assert not left, left


async def _start_workers() -> None:
    # The loop's own worker threads are started at need and live as long as it does: start all before counting.
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(WORKERS)
    loop.set_default_executor(pool)
    barrier = threading.Barrier(WORKERS)
    await asyncio.gather(*(loop.run_in_executor(pool, barrier.wait) for _ in range(WORKERS)))


def _remains() -> set[object]:
    gc.collect()
    sockets = set[object]()
    for name in os.listdir("/proc/self/fd"):
        try:
            file = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if file.startswith("socket:"):  # and its number, which the kernel gives no other while it is open
            sockets.add(file)
    return sockets.union(asyncio.all_tasks(), threading.enumerate())
