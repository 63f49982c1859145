"""Pictures prepared in worker threads, once for all who ask: bounded in threads, in memory and in time.

Two stages, so that a slot can be reserved early: a look (size and preview, about 2 ms for a photograph)
goes before every encode (about 60 ms). Threads start when there is work and end when there is none, so
there is nothing to close. What was made is kept in memory and, where a folder is given, on disk.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.pipes.encode import Encoded, Look, encode_picture, look_at_picture
from multimodal.pipes.intake import ImageSettings, Moment, PictureRefused, Source, content_of
from multimodal.pipes.ladder import Ladder, Rung
from multimodal.pipes.picture_disk import DiskStats, PictureDisk
from multimodal.pipes.pool import BytePool, Policy, PoolStats
from multimodal.pipes.workshop import Workshop

__all__ = ["ImageSettings", "ImageStore", "PictureRefused", "StoreStats", "Warmed", "shared_store"]

Result = Look | Encoded | PictureRefused
_LOOK, _ENCODE = 0, 1  # the order in which waiting work is taken
_File = tuple[str, int, int, float, float]
_Key = tuple[int, _File, tuple[Rung, ...]]


class StoreStats(msgspec.Struct, frozen=True):
    """What a store did: pictures encoded, those that another had asked for already, and its two caches."""

    encoded: int
    shared: int
    refused: int
    encode_cpu: float
    memory: PoolStats
    disk: DiskStats | None


class Warmed(msgspec.Struct, frozen=True):
    """What a warm-up came to: encodings that are ready now, pictures that cannot be shown and why, and the seconds."""

    ready: int
    refused: tuple[PictureRefused, ...]
    seconds: float


class ImageStore:
    """Prepares pictures and keeps the results, for any number of pipes, streams and event loops.

    Args:
        settings: limits and sizes of the pictures.
        ladder: the encodings they come in; None = the usual sizes up to the settings' own.
        workers: threads at most; None = 2, or 1 on a single core. Each may hold one decoded picture: up to
            200 MB at 50 megapixels.
        cache_bytes: prepared pictures kept in memory.
        keep_free: share of that left free for pictures that are being made, so that none of those kept must go first.
        policy: which of them go first: lru, size or hybrid.
        disk: folder that keeps them across restarts, or a `PictureDisk`; None = memory alone.
        time_limit: seconds that one picture may take before it is given up as ``timeout``.

    Raises:
        UsageError: a number out of range.
    """

    def __init__(
        self,
        settings: ImageSettings | None = None,
        *,
        ladder: Ladder | None = None,
        workers: int | None = None,
        cache_bytes: int = 64 * 1024 * 1024,
        keep_free: float = 0.3,
        policy: Policy = "hybrid",
        disk: PictureDisk | str | os.PathLike[str] | None = None,
        time_limit: float = 20.0,
    ) -> None:
        self.settings = settings or ImageSettings()
        self.ladder = ladder or Ladder(self.settings.max_px)
        self.workers = min(2, os.cpu_count() or 1) if workers is None else workers
        self.time_limit = time_limit
        if self.workers < 1 or cache_bytes < 1 or not time_limit > 0:
            raise UsageError(
                f"ImageStore workers={workers}, cache_bytes={cache_bytes}, time_limit={time_limit}: "
                "give at least 1 worker, 1 byte and more than 0 seconds"
            )
        self._workshop: Workshop[_Key, Result] = Workshop(self.workers, time_limit, _given_up, "multimodal-pictures")
        self.pool: BytePool[_Key, Look | Encoded] = BytePool(cache_bytes, keep_free=keep_free, policy=policy)
        self.disk = disk if isinstance(disk, PictureDisk) or disk is None else PictureDisk(disk)
        self._lock = threading.Condition()
        self._making: set[_Key] = set()
        self._encoded = self._refused = 0
        self._encode_cpu = 0.0

    def look(self, source: Source, rungs: Sequence[Rung] = ()) -> asyncio.Future[Look | PictureRefused]:
        """Size, preview and colour of a picture, as its encoding will have them.

        Cancelling the future withdraws the wish; work that nobody else wants and that has not begun is
        dropped.

        Raises:
            UsageError: no event loop runs here.
        """
        return self._submit(_LOOK, source, (_shape(tuple(rungs or self._usual)[-1]),))  # type: ignore[return-value]

    def prepare(self, source: Source, rungs: Sequence[Rung] = ()) -> asyncio.Future[Encoded | PictureRefused]:
        """The picture, ready to send. Cancelling and errors as in `look`.

        Args:
            source: the picture file, or the moment of a video; one that begins a clip, where a rung is of a video.
            rungs: encodings that suit, best first (`Ladder.choose`): the last is made, those before it are taken where
                they were made beforehand; empty = WebP at the size of the settings.
        """
        return self._submit(_ENCODE, source, tuple(rungs or self._usual))  # type: ignore[return-value]

    async def warm(self, sources: Iterable[Source], rungs: Iterable[Rung] = ()) -> Warmed:
        """Make encodings before anybody asks: those of every picture, or as many as the caches hold.

        Args:
            sources: the pictures, most wanted first.
            rungs: the encodings; empty = WebP at the size of the settings.

        Cancelling it keeps what is ready.
        """
        began, ready, refused = time.monotonic(), 0, []
        wanted = [(source, rung) for source in sources for rung in (tuple(rungs) or self._usual)]
        # A few at a time: who asks meanwhile waits behind these and not behind the whole catalogue.
        for start in range(0, len(wanted), self.workers):
            batch = [self.prepare(source, (rung,)) for source, rung in wanted[start : start + self.workers]]
            try:
                results = await asyncio.gather(*batch)
            finally:
                for future in batch:
                    future.cancel()
            ready += sum(isinstance(result, Encoded) for result in results)
            refused += [result for result in results if isinstance(result, PictureRefused)]
        return Warmed(ready, tuple(refused), time.monotonic() - began)

    def configure(
        self, *, cache_bytes: int | None = None, keep_free: float | None = None, policy: Policy | None = None
    ) -> None:
        """Other bounds of the memory, from now on.

        Raises:
            UsageError: a value out of its range; nothing is changed then.
        """
        self.pool.configure(limit_bytes=cache_bytes, keep_free=keep_free, policy=policy)

    def stats(self) -> StoreStats:
        """Everything that was counted."""
        with self._lock:
            counts = (self._encoded, self._workshop.shared, self._refused, self._encode_cpu)
        return StoreStats(*counts, self.pool.stats(), self.disk.stats() if self.disk else None)

    @property
    def _usual(self) -> tuple[Rung, ...]:
        return self.ladder.choose(None)

    async def settle(self) -> None:
        """Wait for work that had begun when its last asker left, and for the threads that have nothing to do.

        A decoder cannot be interrupted; after `time_limit` seconds a stuck one is left to itself.
        """
        await self._workshop.settle()

    def _submit(self, stage: int, source: Source, rungs: tuple[Rung, ...]) -> asyncio.Future[Result]:
        loop, file = loop_here("preparing pictures"), _file(source)
        for rung in rungs:
            # Only the last that suits counts as missed: the others need not be there.
            if rung is rungs[-1] or self._has(stage, file, rung):
                known = self.pool.get((stage, file, (rung,)))
                if known is not None:
                    future: asyncio.Future[Result] = loop.create_future()
                    future.set_result(known)
                    return future
        key = (stage, file, rungs)
        return self._workshop.submit(key, stage, lambda: self._do(key, source))

    def _do(self, key: _Key, source: Source) -> Result:
        stage, file, rungs = key
        try:
            return self._look(key, source) if stage == _LOOK else self._encode(file, source, rungs)
        except PictureRefused as refused:
            result = refused
        except Exception as error:  # whatever a codec raises, one picture never ends a tour
            result = PictureRefused("unreadable", f"{_path(source)}: {type(error).__name__}: {error}")
        with self._lock:
            self._refused += 1
        return result

    def _look(self, key: _Key, source: Source) -> Look:
        looked = look_at_picture(source, self.settings, key[2][-1])
        self.pool.put(key, looked, _cost(looked))
        return looked

    def _encode(self, file: _File, source: Source, rungs: tuple[Rung, ...]) -> Encoded:
        content = "" if self.disk is None else content_of(source, self.settings)
        if self.disk is not None:
            for rung in rungs:
                found = self.disk.get(self.disk.name(content, self.settings, rung))
                if found is not None:
                    return self._keep(file, rung, found)
        rung = rungs[-1]
        key = (_ENCODE, file, (rung,))
        # Two wishes may suit different viewers and come down to the same encoding: it is made once.
        with self._lock:
            self._lock.wait_for(lambda: key not in self._making)
            made = self.pool.get(key) if key in self.pool else None
            if isinstance(made, Encoded):
                return made
            self._making.add(key)
        try:
            encoded = self._make(file, source, rung)
            if self.disk is not None:
                self.disk.put(self.disk.name(content, self.settings, rung), encoded)
            return self._keep(file, rung, encoded)
        finally:
            with self._lock:
                self._making.discard(key)
                self._lock.notify_all()

    def _make(self, file: _File, source: Source, rung: Rung) -> Encoded:
        # Always by the same way to the preview, so that what was described is what comes.
        shape = (_LOOK, file, (_shape(rung),))
        look = self.pool.get(shape) if shape in self.pool else self._look(shape, source)
        # Room for the picture while it is decoded at its size: what the pool keeps free is for this.
        working = 3 * rung.max_px**2
        reserved = self.pool.reserve(working)
        began = time.thread_time()
        try:
            encoded = encode_picture(source, self.settings, rung, look if isinstance(look, Look) else None)
        finally:
            if reserved:
                self.pool.release(working)
        with self._lock:
            self._encoded += 1
            self._encode_cpu += time.thread_time() - began
        return encoded

    def _keep(self, file: _File, rung: Rung, encoded: Encoded) -> Encoded:
        self.pool.put((_ENCODE, file, (rung,)), encoded, _cost(encoded))
        self.pool.put((_LOOK, file, (_shape(rung),)), encoded.look, _cost(encoded.look))
        return encoded

    def _has(self, stage: int, file: _File, rung: Rung) -> bool:
        return (stage, file, (rung,)) in self.pool


def _shape(rung: Rung) -> Rung:
    """What a look depends on: all encodings of one size look alike."""
    return Rung(max_px=rung.max_px)


def _cost(value: Look | Encoded) -> int:
    # 512: the entry itself, its key and its short strings.
    return 512 + len(value.placeholder) + (len(value.data) if isinstance(value, Encoded) else 0)


def _path(source: Source) -> Path:
    return source.path if isinstance(source, Moment) else source


def _file(source: Source) -> _File:
    """A file that was replaced is another picture."""
    path = _path(source)
    place = (source.at, source.window) if isinstance(source, Moment) else (-1.0, 0.0)
    try:
        status = path.stat()
    except OSError:
        return os.path.abspath(path), 0, 0, *place  # the worker finds out what is wrong
    return os.path.abspath(path), status.st_mtime_ns, status.st_size, *place


def _given_up(key: _Key, what: str) -> PictureRefused:
    return PictureRefused("timeout", f"{key[1][0]}: {what}; use a smaller picture or a higher time_limit")


_shared: ImageStore | None = None


def shared_store() -> ImageStore:
    """The store of all pipes that were given none: a hundred viewers of one shop encode each picture once."""
    global _shared
    if _shared is None:
        _shared = ImageStore()
    return _shared
