"""The sessions of one application: who is there, how many may be, and an end for each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["CLOSE_LIMIT", "Sessions"]

log = logging.getLogger(__name__)

CLOSE_LIMIT = 10.0
"""Seconds that ending all sessions may take; each frees its stream and its connection in that time."""


class Sessions:
    """Owns one task per session. A TaskGroup cannot: a mounted application has no scope of its own that spans requests.

    Args:
        limit: sessions at one time.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._reserved = 0

    def __len__(self) -> int:
        return len(self._tasks) + self._reserved

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def reserve(self) -> bool:
        """Hold a place while a session is being made; False = full. `start` or `release` gives it back."""
        if len(self) >= self.limit:
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Give back a reserved place."""
        self._reserved -= 1

    def start(self, name: str, session: Coroutine[Any, Any, Any]) -> None:
        """Run a session in its reserved place until it ends by itself, or `end` or `aclose` ends it."""
        task = asyncio.get_running_loop().create_task(session, name=f"multimodal session {name}")
        self._tasks[name] = task
        self.release()
        task.add_done_callback(lambda done: self._ended(name, done))

    async def end(self, name: str) -> bool:
        """End one session and wait until everything of it is freed; False = there is none of that name."""
        task = self._tasks.get(name)
        if task is None:
            return False
        await self._cancel([task])
        return True

    async def aclose(self) -> None:
        """End every session. Those started later are not refused."""
        await self._cancel(list(self._tasks.values()))

    async def _cancel(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=CLOSE_LIMIT)
            if pending:
                names = ", ".join(task.get_name() for task in pending)
                log.error("not ended within %g s: %s; a pipe ignores its cancellation", CLOSE_LIMIT, names)

    def _ended(self, name: str, task: asyncio.Task[Any]) -> None:
        del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("session %s failed", name, exc_info=error)
