"""The sessions of one application: who is there, how many may be, and an end for each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from multimodal.loops import loop_here

__all__ = ["CLOSE_LIMIT", "Session", "Sessions"]

log = logging.getLogger(__name__)

_SERVER_STOPS = "the server is stopping"
CLOSE_LIMIT = 10.0
"""Seconds that ending all sessions may take; each frees its stream and its connection in that time."""


class Session(Protocol):
    """What is owned here; `multimodal.transport.session.ViewerSession` is one."""

    async def run(self) -> object:
        """To the end; cancelling frees everything."""

    @property
    def viewers(self) -> int:
        """How many are in it, or about to be."""
        ...

    def farewell(self, reason: str) -> None:
        """Tell the viewer at once that `run` is about to be cancelled. Never raises, and may come after the end."""


class Sessions:
    """Owns one task per session. A TaskGroup cannot: a mounted application has no scope of its own that spans requests.

    Nobody tells a mounted application that its server stops: the loop is closed, and every task is cancelled, in any
    order, those that could still send included. So one task waits for that while there are sessions, and the viewers
    are told in the very call that cancels it, before any other task has noticed.

    Args:
        limit: viewers at one time, of all sessions together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sessions: dict[str, Session] = {}
        self._tasks: dict[str, asyncio.Task[object]] = {}
        self._guard: _Guard | None = None
        self._reserved = 0

    def __len__(self) -> int:
        return sum(session.viewers for session in self._sessions.values()) + self._reserved

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def reserve(self) -> bool:
        """Hold a place while a viewer is being let in; False = full. `release` gives it back."""
        if len(self) >= self.limit:
            return False
        self._reserved += 1
        return True

    def release(self) -> None:
        """Give back a reserved place."""
        self._reserved -= 1

    def start(self, name: str, session: Session, ended: Callable[[], object] | None = None) -> None:
        """Run a session until it ends by itself, or `end`, `aclose` or the loop's end ends it.

        Args:
            name: of the session.
            session: what is run.
            ended: called once it has ended.
        """
        loop = loop_here("a session")
        task: asyncio.Task[object] = loop.create_task(session.run(), name=f"multimodal session {name}")
        self._tasks[name], self._sessions[name] = task, session
        if self._guard is None:
            self._guard = _Guard(self._loop_ends)
        task.add_done_callback(lambda done: self._ended(name, done, ended))

    async def end(self, name: str) -> bool:
        """End one session and wait until everything of it is freed; False = there is none of that name."""
        task = self._tasks.get(name)
        if task is None:
            return False
        await self._cancel({name: task}, "the session was ended")
        return True

    async def aclose(self) -> None:
        """End every session. Those started later are not refused."""
        await self._cancel(dict(self._tasks), _SERVER_STOPS)

    async def _cancel(self, tasks: dict[str, asyncio.Task[object]], reason: str) -> None:
        for name, task in tasks.items():
            self._sessions[name].farewell(reason)
            task.cancel()
        if tasks:
            _, pending = await asyncio.wait(tasks.values(), timeout=CLOSE_LIMIT)
            if pending:
                names = ", ".join(task.get_name() for task in pending)
                log.error("not ended within %g s: %s; a pipe ignores its cancellation", CLOSE_LIMIT, names)

    def _loop_ends(self) -> None:
        for session in self._sessions.values():
            session.farewell(_SERVER_STOPS)

    def _ended(self, name: str, task: asyncio.Task[object], ended: Callable[[], object] | None) -> None:
        del self._tasks[name], self._sessions[name]
        if ended is not None:
            ended()
        if not self._tasks and self._guard is not None:
            self._guard.release()
            self._guard = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("session %s failed", name, exc_info=error)


class _Guard(asyncio.Future[None]):
    """A future, and a task that waits for it, so that cancelling the task calls back at once: before the task, and any
    other that was cancelled with it, runs again."""

    def __init__(self, cancelled: Callable[[], None]) -> None:
        super().__init__()
        self._cancelled = cancelled
        self._task = loop_here("a session").create_task(self._wait(), name="multimodal sessions")

    async def _wait(self) -> None:
        with suppress(asyncio.CancelledError):
            await self

    def release(self) -> None:
        """Nothing is left to guard."""
        if not self.done():
            self.set_result(None)

    def cancel(self, msg: object = None) -> bool:
        """Called by the task's own `cancel`."""
        if not self.done():
            self._cancelled()
        return super().cancel(msg)
