"""What the folder and the catalogue have in common: picture files, prepared in the order of the plan
(I1-I11)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.pipes.base import played_already
from multimodal.pipes.encode import Encoded
from multimodal.pipes.images import ImageStore, shared_store
from multimodal.pipes.intake import Moment, PictureRefused, Source
from multimodal.pipes.ladder import Rung
from multimodal.values import Asset, EncodedImage, ImageFailure, ViewerNeeds

if TYPE_CHECKING:
    from multimodal.pipes.remote_pictures import RemotePictures

__all__ = ["VIDEO_SUFFIXES", "PictureFile", "PreparedImagePipe", "as_text", "source_of"]

VIDEO_SUFFIXES = frozenset({".mp4", ".webm", ".mov", ".m4v", ".mkv"})
"""Names of videos; what is in them is looked at when they are opened."""


class PictureFile(msgspec.Struct, frozen=True):
    """A picture to prepare.

    Args:
        key: its name, unique in a stream.
        path: its file; None = there is none here: `url` says where it is, or `problem` why there is none.
        product: id of the product it shows.
        alt: alternative text.
        problem: (reason, detail) of an ImageFailure that is known beforehand.
        url: where it can be fetched, by a pipe that has `remote`.
        at: seconds from the beginning of a video at which the picture is taken; None = the file is a picture, or, by
            its name, a video that is shown as a short clip.
        window: seconds around `at` in which the sharpest frame is looked for.
    """

    key: str
    path: Path | None
    product: str = ""
    alt: str = ""
    problem: tuple[str, str] = ("", "")
    url: str = ""
    at: float | None = None
    window: float = 0.25

    @property
    def clip(self) -> bool:
        """Whether it is a video that is to be shown as one."""
        return self.at is None and Path(self.url or self.path or "").suffix.lower() in VIDEO_SUFFIXES


class PreparedImagePipe:
    """An image pipe over files. Driven by a plan it gives what is ready first; under a plain `async for`
    all, in order.

    At most `ahead` pictures are in work or wait to be pulled, so that a reader who stops stops the work too.

    Args:
        pictures: what it holds, in order; keys are unique.
        missing: (reason, detail) for keys that it does not hold but can say something about.
        store: who prepares them; None = the store that all pipes of the process share.
        ahead: how many pictures to prepare before they are pulled.
        remote: who fetches those that have no file and a URL; None = nothing is fetched.
        held: begin with none before `release` is called: where something that comes first needs the same processors.

    Raises:
        UsageError: `ahead` below 1.
    """

    def __init__(
        self,
        pictures: Iterable[PictureFile],
        *,
        missing: dict[str, tuple[str, str]] | None = None,
        store: ImageStore | None = None,
        ahead: int = 4,
        remote: RemotePictures | None = None,
        held: bool = False,
    ) -> None:
        if ahead < 1:
            raise UsageError(f"{type(self).__name__} ahead={ahead} must be 1 or more pictures")
        self._pictures = {picture.key: picture for picture in pictures}
        self._missing = missing or {}
        self._store = store or shared_store()
        self._ahead, self._remote = ahead, remote
        self._viewer: ViewerNeeds | None = None
        self._wanted: set[str] = set()
        self._queue: list[str] = []
        self._running: dict[str, asyncio.Future[Encoded | PictureRefused]] = {}
        self._changed, self._released = asyncio.Event(), asyncio.Event()
        if not held:
            self._released.set()
        self._driven = self._in_order = self._final = self._closed = False

    def __aiter__(self) -> PreparedImagePipe:
        if self._closed:
            raise played_already(self)
        return self

    def keys(self) -> list[str]:
        """Every picture, in order; known before any file is read."""
        return list(self._pictures)

    def want(self, keys: Sequence[str], *, final: bool = False) -> None:
        """Prepare these, soonest first; needs a running event loop, starts at once and returns at once.

        The newest plan is the most urgent: its keys go before those asked for earlier and not yet begun.

        Args:
            keys: what to prepare; keys asked for earlier stay asked for.
            final: nothing more will be asked for, so that the pipe may end.

        Raises:
            UsageError: no event loop runs here.
        """
        loop_here("want()")
        self._driven = True
        waiting = set(self._queue)
        ahead = [key for key in dict.fromkeys(keys) if key in waiting or key not in self._wanted]
        self._queue = ahead + [key for key in self._queue if key not in set(ahead)]
        self._wanted.update(keys)
        self._final = self._final or final
        self._fill()
        self._changed.set()

    def forget(self, keys: Sequence[str]) -> None:
        """Take wishes back; what has begun goes on and is kept for the next time (I11)."""
        gone = set(keys)
        self._queue = [key for key in self._queue if key not in gone]
        self._wanted -= gone
        for key in gone & self._running.keys():
            self._running.pop(key).cancel()
        self._fill()
        self._changed.set()

    def release(self) -> None:
        """Begin with what is wanted, where the pipe was made to wait; needs a running event loop. Twice is once."""
        loop_here("release()")
        self._released.set()
        self._fill()
        self._changed.set()

    def fit(self, viewer: ViewerNeeds) -> None:
        """Pictures that are not begun yet come as suits this viewer: `multimodal.pipes.ladder` says how."""
        self._viewer = viewer

    async def describe(self, keys: Sequence[str]) -> list[Asset]:
        """Size, alternative text and preview before the bytes; pictures that cannot be shown are left out.

        Cancelling it drops the work that nobody else waits for.
        """
        await self._released.wait()
        pictures = [self._pictures[key] for key in keys if key in self._pictures]
        places = [(picture, self._path(picture)) for picture in pictures]
        readable = [(picture, path) for picture, path in places if path is not None]
        looks = await asyncio.gather(
            *(self._store.look(source_of(picture, path), self._suits(picture)) for picture, path in readable)
        )
        return [
            Asset(
                picture.key,
                picture.product,
                look.width_px,
                look.height_px,
                _alt(picture, look.note),
                look.placeholder,
                color=look.color,
            )
            for (picture, _), look in zip(readable, looks, strict=True)
            if not isinstance(look, PictureRefused)
        ]

    async def __anext__(self) -> EncodedImage | ImageFailure:
        """The next picture; cancelling a pull loses none."""
        if not self._driven and not self._closed:
            self._in_order = True
            self.want(self.keys(), final=True)
        while not self._closed:
            self._fill()
            key = self._ready()
            if key is not None:
                return self._give(key)
            if self._final and not self._running:
                await self._settle()
                self._closed = True
                break
            self._changed.clear()
            await self._changed.wait()  # for the plan or a picture; the store gives every picture up in time
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Drop what has not begun and wait for what has, so that nothing runs on. Twice is once."""
        self._closed = True
        self._released.set()
        self._queue.clear()
        running, self._running = self._running, {}
        for future in running.values():
            future.cancel()
        self._changed.set()
        for _ in range(2):  # the store hears of a cancelled future in the loop's next turn, a fetch one later
            await asyncio.sleep(0)
        await self._settle()

    def _fill(self) -> None:
        if not self._released.is_set():
            return
        while self._queue and len(self._running) < self._ahead and not self._closed:
            key = self._queue.pop(0)
            picture = self._pictures.get(key)
            if picture is None:
                unknown = ("unknown_key", f"no picture {key!r} here; there are {len(self._pictures)}")
                future = _refused(self._missing.get(key, unknown))
            elif (path := self._path(picture)) is not None:
                future = self._store.prepare(source_of(picture, path), self._suits(picture))
            elif self._remote is not None and picture.url:
                future = self._fetched(picture, self._remote)
            else:
                future = _refused(picture.problem)
            self._running[key] = future
            future.add_done_callback(lambda _: self._changed.set())

    def _path(self, picture: PictureFile) -> Path | None:
        """Its file, here or fetched already."""
        if picture.path is not None or self._remote is None or not picture.url:
            return picture.path
        return self._remote.known(picture.url)

    def _suits(self, picture: PictureFile) -> tuple[Rung, ...]:
        ladder = self._store.ladder
        return ladder.choose_clip(self._viewer) if picture.clip else ladder.choose(self._viewer)

    def _fetched(self, picture: PictureFile, remote: RemotePictures) -> asyncio.Future[Encoded | PictureRefused]:
        """Fetch it, then prepare it; cancelling the future withdraws whichever it waits for."""
        done: asyncio.Future[Encoded | PictureRefused] = loop_here("preparing pictures").create_future()
        stage: asyncio.Future[Any] = remote.fetch(picture.url)

        def prepare(fetched: asyncio.Future[Path | PictureRefused]) -> None:
            nonlocal stage
            if done.done() or fetched.cancelled():
                return
            place = fetched.result()
            if isinstance(place, PictureRefused):
                done.set_result(place)
            else:
                stage = self._store.prepare(source_of(picture, place), self._suits(picture))
                stage.add_done_callback(finish)

        def finish(prepared: asyncio.Future[Encoded | PictureRefused]) -> None:
            if not done.done() and not prepared.cancelled():
                done.set_result(prepared.result())

        stage.add_done_callback(prepare)
        done.add_done_callback(lambda _: stage.cancel())
        return done

    async def _settle(self) -> None:
        await self._store.settle()
        if self._remote is not None:
            await self._remote.settle()

    def _ready(self) -> str | None:
        for key, future in self._running.items():
            if future.done():
                return key
            if self._in_order:
                break
        return None

    def _give(self, key: str) -> EncodedImage | ImageFailure:
        result = self._running.pop(key).result()
        if isinstance(result, PictureRefused):
            return ImageFailure(key, result.reason, as_text(str(result)))
        picture = self._pictures[key]
        return EncodedImage(
            key,
            result.data,
            result.media_type,
            result.width_px,
            result.height_px,
            product=picture.product,
            alt=_alt(picture, result.note),
            placeholder=result.placeholder,
            sha256=result.sha256,
            color=result.color,
        )


def as_text(name: str) -> str:
    """A file's name as text that can be sent: bytes in it that are none, as old systems left them, are spelt out."""
    return name.encode("utf-8", "backslashreplace").decode()


def _alt(picture: PictureFile, note: str) -> str:
    """Of several frames one is shown, and who cannot see it is told so too."""
    return f"{picture.alt} ({note})" if picture.alt and note else picture.alt


def source_of(picture: PictureFile, path: Path) -> Source:
    """What of its file is to be prepared."""
    if picture.clip:
        return Moment(path, 0.0, 0.0)
    return path if picture.at is None else Moment(path, picture.at, picture.window)


def _refused(problem: tuple[str, str]) -> asyncio.Future[Encoded | PictureRefused]:
    future: asyncio.Future[Encoded | PictureRefused] = loop_here("preparing pictures").create_future()
    future.set_result(PictureRefused(*problem))
    return future
