"""One thread for every callback of the process that is not a coroutine function, so that none delays a token."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Worker", "shared_worker"]

LINGER = 0.2
"""Seconds the thread waits for more before it ends: the next token of a stream comes sooner, the end of a process does
not wait longer."""


EXIT_LIMIT = 5.0
"""Seconds that a process which ends waits for callbacks; what has not begun by then is dropped, and said."""

log = logging.getLogger(__name__)


class Worker:
    """Runs what is posted, in order, in a thread that begins with the first job and ends when nothing is left.

    The thread is no daemon: what was posted is run before the process ends, as far as `EXIT_LIMIT` allows.

    Args:
        name: the thread's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waits = False
        self._exit_by: float | None = None

    def post(self, job: Callable[[], object]) -> None:
        """Run `job` soon; it must not raise. Returns at once, from any thread."""
        with self._changed:
            self._jobs.append(job)
            # A thread that a fork left behind counts as dead; its jobs are run all the same.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name)
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads: the job runs when one can be had
                    self._thread = None
            elif self._waits:
                self._changed.notify()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job()
            del job  # while it waits, it must not keep alive what it last called

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            if not self._jobs:
                self._waits = True
                self._changed.wait_for(lambda: bool(self._jobs), LINGER)
                self._waits = False
            if self._jobs and not self._too_late():
                return self._jobs.popleft()
            self._thread = None
            return None

    def _too_late(self) -> bool:
        """Whether the process has been ending for so long that what waits is dropped."""
        if threading.main_thread().is_alive():
            return False
        now = time.monotonic()
        if self._exit_by is None:
            self._exit_by = now + EXIT_LIMIT
        if now < self._exit_by:
            return False
        log.warning("%d callbacks were not run: the process ends", len(self._jobs))
        self._jobs.clear()
        return True


_SHARED = Worker("multimodal callbacks")


def shared_worker() -> Worker:
    """The process's own."""
    return _SHARED
