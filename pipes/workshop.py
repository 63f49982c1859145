"""Work shared by all who ask for it, in a few threads that are there only while there is work."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from multimodal.loops import loop_here

__all__ = ["Workshop"]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

NICENESS = 10
"""How nice its threads are to others, at least: on two busy cores, encoders delayed the first word by 35 ms."""
STUCK_AT_MOST = 4
"""Threads that others may stand in for: work that hangs must not take the workers away one by one, and a thread that
hangs cannot be ended. Behind this many, something is wrong with more than a piece of work."""


class _Job(Generic[K, R]):
    """One piece of work, shared by all who wait for it."""

    def __init__(self, key: K, do: Callable[[], R]) -> None:
        self.key, self.do = key, do
        self.waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[R]]] = []
        self.since = time.monotonic()
        self.running = self.abandoned = self.stuck = False


class Workshop(Generic[K, R]):
    """Runs blocking work in threads: once for all who ask, in order, each piece within a time.

    Args:
        workers: threads at most, beside those that are stuck in work that was given up (`STUCK_AT_MOST`).
        time_limit: seconds that one piece may take before those who wait give it up.
        given_up: makes the result of work that took too long, of its key and a sentence that says so.
        name: what its threads are called.
    """

    def __init__(self, workers: int, time_limit: float, given_up: Callable[[K, str], R], name: str) -> None:
        self.workers, self.time_limit = workers, time_limit
        self.shared = 0
        """Wishes that joined work which another had asked for."""
        self._given_up, self._name = given_up, name
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, _Job[K, R]]] = []
        self._order = itertools.count()
        self._jobs: dict[K, _Job[K, R]] = {}
        self._threads: set[threading.Thread] = set()
        self._starting: set[threading.Thread] = set()
        self._leaving: list[threading.Thread] = []
        self._stuck = 0
        self._progress = 0.0

    def submit(self, key: K, rank: int, do: Callable[[], R]) -> asyncio.Future[R]:
        """The result of `do`, or of the work of that key that is under way.

        Cancelling the future withdraws the wish; work that nobody else wants and that has not begun is dropped.

        Args:
            key: equal keys are the same work.
            rank: lower goes first.
            do: blocking; what it raises is lost, so it raises nothing.
        """
        loop = loop_here("a workshop")
        future: asyncio.Future[R] = loop.create_future()
        with self._lock:
            job = self._jobs.get(key)
            self.shared += job is not None
            if job is None:
                job = self._jobs[key] = _Job(key, do)
                heapq.heappush(self._heap, (rank, next(self._order), job))
            job.waiters.append((loop, future))
            job.abandoned = False
            self._start_worker()
        wanted = job
        future.add_done_callback(lambda done: self._withdraw(wanted, done))
        self._watch(loop, job, future)
        return future

    async def settle(self) -> None:
        """Wait for work that had begun when its last asker left, and for the threads that have nothing to do.

        Work cannot be interrupted; after `time_limit` seconds a stuck piece is left to itself.
        """
        loop = asyncio.get_running_loop()
        left = 0.0
        futures: list[asyncio.Future[R]] = []
        with self._lock:
            for job in self._jobs.values():
                job_left = job.since + self.time_limit - time.monotonic()
                if job.abandoned and job_left > 0:
                    left = max(left, job_left)
                    futures.append(loop.create_future())
                    job.waiters.append((loop, futures[-1]))
        if futures:
            await asyncio.wait(futures, timeout=left)
        with self._lock:
            leaving, self._leaving = self._leaving, []
            if all(job.running for job in self._jobs.values()):
                leaving += self._starting  # they will find nothing to do
        for thread in leaving:
            thread.join()  # it has no job: microseconds

    def _withdraw(self, job: _Job[K, R], future: asyncio.Future[R]) -> None:
        with self._lock:
            job.waiters = [waiter for waiter in job.waiters if waiter[1] is not future]
            if not job.waiters and self._jobs.get(job.key) is job:
                job.abandoned = job.running
                if not job.running:
                    del self._jobs[job.key]

    def _watch(self, loop: asyncio.AbstractEventLoop, job: _Job[K, R], future: asyncio.Future[R]) -> None:
        """Give work up when it takes too long, or when every thread is stuck before its turn came."""
        if future.done():
            return
        with self._lock:
            self._replace_stuck()
            since = job.since if job.running else max(job.since, self._progress)
        left = since + self.time_limit - time.monotonic()
        if left > 0:
            timer = loop.call_later(left + 0.001, self._watch, loop, job, future)
            future.add_done_callback(lambda _: timer.cancel())
            return
        what = "preparing it took" if job.running else "no worker was free for"
        future.set_result(self._given_up(job.key, f"{what} more than {self.time_limit:g} s"))

    def _replace_stuck(self) -> None:
        """Count work that took too long, and have others stand in for its threads."""
        now = time.monotonic()
        for job in self._jobs.values():
            if job.running and not job.stuck and now >= job.since + self.time_limit:
                job.stuck = True
                self._stuck += 1
                if self._stuck <= STUCK_AT_MOST:
                    # What waits has a worker again, and its time begins anew.
                    self._progress = now
                    self._start_worker()

    def _start_worker(self) -> None:
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        if self._heap and self._free_places() > 0:
            thread = threading.Thread(target=self._work, name=self._name)
            self._threads.add(thread)
            self._starting.add(thread)
            thread.start()

    def _free_places(self) -> int:
        return self.workers + min(self._stuck, STUCK_AT_MOST) - len(self._threads)

    def _next_job(self) -> _Job[K, R] | None:
        while self._heap:
            job = heapq.heappop(self._heap)[2]
            if self._jobs.get(job.key) is job:  # else withdrawn meanwhile
                job.running = True
                job.since = self._progress = time.monotonic()
                return job
        return None

    def _give_way(self) -> None:
        """Words go first on the processor, too: on Linux a thread has a priority of its own."""
        if sys.platform == "linux":
            with suppress(OSError):
                own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(own, NICENESS))

    def _work(self) -> None:
        self._give_way()
        with self._lock:
            self._starting.discard(threading.current_thread())
            job = self._next_job()
            if job is None:
                self._leave()
        while job is not None:
            result = job.do()
            with self._lock:
                del self._jobs[job.key]
                waiters, job.waiters = job.waiters, []
                self._progress = time.monotonic()
                self._stuck -= job.stuck
                # Another took the place of one that was stuck.
                following = self._next_job() if self._free_places() >= 0 else None
                if following is None:
                    self._leave()
            for loop, future in waiters:
                try:
                    loop.call_soon_threadsafe(_resolve, future, result)
                except RuntimeError:  # its loop was closed meanwhile: nobody waits there
                    continue
            job = following

    def _leave(self) -> None:
        thread = threading.current_thread()
        self._threads.discard(thread)
        self._leaving.append(thread)


def _resolve(future: asyncio.Future[R], result: R) -> None:
    if not future.done():
        future.set_result(result)
