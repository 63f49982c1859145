"""Pictures prepared in worker threads, once for all who ask: bounded in threads, in memory and in time.

Two stages, so that a slot can be reserved early: a look (size and preview, about 2 ms for a photograph)
goes before every encode (about 60 ms). Threads start when there is work and end when there is none, so
there is nothing to close.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TypeVar

from multimodal.errors import UsageError
from multimodal.pipes.encode import Encoded, Look, encode_picture, look_at_picture
from multimodal.pipes.intake import ImageSettings, PictureRefused

__all__ = ["ImageSettings", "ImageStore", "PictureRefused", "shared_store"]

Result = Look | Encoded | PictureRefused
R = TypeVar("R", Look, Encoded)
_LOOK, _ENCODE = 0, 1  # the order in which waiting work is taken
_Key = tuple[int, str, int, int]


class _Job:
    """One piece of work, shared by all who wait for it."""

    def __init__(self, key: _Key, path: Path) -> None:
        self.stage, self.key, self.path = key[0], key, path
        self.waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[Result]]] = []
        self.since = time.monotonic()
        self.running = self.abandoned = False


class ImageStore:
    """Prepares pictures and keeps the results, for any number of pipes, streams and event loops.

    Args:
        settings: limits and sizes of the pictures.
        workers: threads at most; None = 2, or 1 on a single core. Each may hold one decoded picture: up to
            200 MB at 50 megapixels.
        cache_bytes: prepared pictures kept, the least recently used dropped first.
        time_limit: seconds that one picture may take before it is given up as ``timeout``.

    Raises:
        UsageError: a number out of range.
    """

    def __init__(
        self,
        settings: ImageSettings | None = None,
        *,
        workers: int | None = None,
        cache_bytes: int = 64 * 1024 * 1024,
        time_limit: float = 20.0,
    ) -> None:
        self.settings = settings or ImageSettings()
        self.workers = min(2, os.cpu_count() or 1) if workers is None else workers
        self.time_limit = time_limit
        if self.workers < 1 or cache_bytes < 0 or not time_limit > 0:
            raise UsageError(
                f"ImageStore workers={workers}, cache_bytes={cache_bytes}, time_limit={time_limit}: "
                "give at least 1 worker, 0 or more bytes and more than 0 seconds"
            )
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, _Job]] = []
        self._order = itertools.count()
        self._jobs: dict[_Key, _Job] = {}
        self._threads: set[threading.Thread] = set()
        self._starting: set[threading.Thread] = set()
        self._leaving: list[threading.Thread] = []
        self._cache = _Cache(cache_bytes)
        self._progress = 0.0

    def look(self, path: Path) -> asyncio.Future[Look | PictureRefused]:
        """Size and preview of the picture in that file.

        Cancelling the future withdraws the wish; work that nobody else wants and that has not begun is
        dropped.
        """
        return self._submit(_LOOK, path)  # type: ignore[return-value]

    def prepare(self, path: Path) -> asyncio.Future[Encoded | PictureRefused]:
        """The picture in that file, ready to send. Cancelling as in `look`."""
        return self._submit(_ENCODE, path)  # type: ignore[return-value]

    async def settle(self) -> None:
        """Wait for work that had begun when its last asker left, and for the threads that have nothing to do.

        A decoder cannot be interrupted; after `time_limit` seconds a stuck one is left to itself.
        """
        loop = asyncio.get_running_loop()
        left = 0.0
        futures: list[asyncio.Future[Result]] = []
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

    def _submit(self, stage: int, path: Path) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        key = _key(stage, path)
        with self._lock:
            cached = self._cache.get(key)
            job = self._join(key, path, loop, future) if cached is None else None
        if cached is not None:
            future.set_result(cached)
        if job is not None:
            future.add_done_callback(lambda done: self._withdraw(job, done))
            self._watch(loop, job, future)
        return future

    def _join(self, key: _Key, path: Path, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result]) -> _Job:
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(key, path)
            heapq.heappush(self._heap, (job.stage, next(self._order), job))
        job.waiters.append((loop, future))
        job.abandoned = False
        self._start_worker()
        return job

    def _withdraw(self, job: _Job, future: asyncio.Future[Result]) -> None:
        with self._lock:
            job.waiters = [waiter for waiter in job.waiters if waiter[1] is not future]
            if not job.waiters and self._jobs.get(job.key) is job:
                job.abandoned = job.running
                if not job.running:
                    del self._jobs[job.key]

    def _watch(self, loop: asyncio.AbstractEventLoop, job: _Job, future: asyncio.Future[Result]) -> None:
        """Give a picture up when it takes too long, or when every thread is stuck before its turn came."""
        if future.done():
            return
        since = job.since if job.running else max(job.since, self._progress)
        left = since + self.time_limit - time.monotonic()
        if left > 0:
            timer = loop.call_later(left + 0.001, self._watch, loop, job, future)
            future.add_done_callback(lambda _: timer.cancel())
            return
        what = "preparing it took" if job.running else "no worker was free for"
        advice = "use a smaller picture or a higher time_limit"
        message = f"{job.path}: {what} more than {self.time_limit:g} s; {advice}"
        future.set_result(PictureRefused("timeout", message))

    def _start_worker(self) -> None:
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        if self._heap and len(self._threads) < self.workers:
            thread = threading.Thread(target=self._work, name="multimodal-pictures")
            self._threads.add(thread)
            self._starting.add(thread)
            thread.start()

    def _next_job(self) -> _Job | None:
        while self._heap:
            job = heapq.heappop(self._heap)[2]
            if self._jobs.get(job.key) is job:  # else withdrawn meanwhile
                job.running = True
                job.since = self._progress = time.monotonic()
                return job
        return None

    def _work(self) -> None:
        with self._lock:
            self._starting.discard(threading.current_thread())
            job = self._next_job()
            if job is None:
                self._leave()
        while job is not None:
            result = self._do(job)
            with self._lock:
                del self._jobs[job.key]
                waiters, job.waiters = job.waiters, []
                self._progress = time.monotonic()
                following = self._next_job()
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

    def _do(self, job: _Job) -> Result:
        look_key = (_LOOK, *job.key[1:])
        try:
            if job.stage == _LOOK:
                looked = look_at_picture(job.path, self.settings)
                self._keep(job.key, looked)
                return looked
            with self._lock:
                known = self._cache.get(look_key)
            placeholder = known.placeholder if isinstance(known, Look) else ""
            encoded = encode_picture(job.path, self.settings, placeholder)
        except PictureRefused as refused:
            return refused
        except Exception as error:  # whatever a codec raises, one picture never ends a tour
            return PictureRefused("unreadable", f"{job.path}: {type(error).__name__}: {error}")
        self._keep(job.key, encoded)
        self._keep(look_key, Look(encoded.width_px, encoded.height_px, encoded.placeholder))
        return encoded

    def _keep(self, key: _Key, value: Look | Encoded) -> None:
        with self._lock:
            self._cache.put(key, value)


class _Cache:
    """The most recently used results within a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._used = limit_bytes, 0
        self._entries: OrderedDict[_Key, Look | Encoded] = OrderedDict()

    def get(self, key: _Key) -> Look | Encoded | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: _Key, value: Look | Encoded) -> None:
        old = self._entries.pop(key, None)
        if old is not None:
            self._used -= _cost(old)
        self._entries[key] = value
        self._used += _cost(value)
        while self._used > self._limit:
            self._used -= _cost(self._entries.popitem(last=False)[1])


def _cost(value: Look | Encoded) -> int:
    # 512: the entry itself, its key and its short strings.
    return 512 + len(value.placeholder) + (len(value.data) if isinstance(value, Encoded) else 0)


def _key(stage: int, path: Path) -> _Key:
    """A file that was replaced is another picture."""
    try:
        status = path.stat()
    except OSError:
        return stage, os.path.abspath(path), 0, 0  # the worker finds out what is wrong
    return stage, os.path.abspath(path), status.st_mtime_ns, status.st_size


def _resolve(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


_shared: ImageStore | None = None


def shared_store() -> ImageStore:
    """The store of all pipes that were given none: a hundred viewers of one shop encode each picture once."""
    global _shared
    if _shared is None:
        _shared = ImageStore()
    return _shared
