"""A recording played again: what was emitted, at its own times, over the real transport, in the real player.

A recording holds no picture bytes. Pictures come from a catalogue that knows their keys, by default the demo shop's;
for every other key a plain sheet of the right size is drawn, with the key on it. What the viewer says changes nothing:
reveals, previews and misses are those of the recording.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal, InvalidOperation
from html import escape
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, AssetReserved, ProductBrief, Reveal, StreamEnd
from multimodal.loops import loop_here
from multimodal.pipes.catalog import Catalog, CatalogImagePipe
from multimodal.sync.log import SyncLog
from multimodal.values import EncodedImage, Product
from multimodal.wire import ClientMessage

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["Replay", "drawn_picture", "pictures_of", "replay_app"]

SIDE_LIMIT_PX = 4096
"""A drawn sheet is never larger, whatever size a recording claims."""
SIDE_PX = 800
"""Its sides where the recording does not know them."""


class Replay:
    """The events of a recording as a stream: what a viewer's session needs (`multimodal.transport.base.Source`).

    Args:
        log: with at least one event.
        pictures: by key; described events whose key is not among them are sent without bytes.
        speed: plays that many times as fast.

    Raises:
        UsageError: nothing was emitted in it, or `speed` is not above 0.
    """

    def __init__(self, log: SyncLog, pictures: Mapping[str, EncodedImage], speed: float = 1.0) -> None:
        if not log.events:
            raise UsageError(f"{log.source or 'the recording'} holds no emitted events; there is nothing to replay")
        if not speed > 0:
            raise UsageError(f"speed={speed} must be above 0")
        self.plan = dict(log.plan or {})
        self._pictures = pictures
        self._speed = speed
        self._events = [self._with_bytes(event) for event in log.events]
        last = self._events[-1]
        if not isinstance(last, StreamEnd):
            # A recording that breaks off: the viewer must not wait for what never comes.
            self._events.append(StreamEnd(last.v, last.sid, last.epoch, last.seq + 1, last.pts_ms, last.tok, "error"))
        self._due: dict[str, int] = {}
        for event in log.events:
            if isinstance(event, Reveal):
                self._due[event.key] = min(event.anchor, self._due.get(event.key, event.anchor))
        self._going = asyncio.Event()
        self._going.set()
        self._paused_at = self._shift = 0.0
        self._closed = False

    def _with_bytes(self, event: AnyEvent) -> AnyEvent:
        """The event with the variants of the bytes that are really sent: the viewer checks size and hash."""
        if not isinstance(event, AssetReserved) or not event.variants:
            return event
        picture = self._pictures.get(event.key)
        return msgspec.structs.replace(event, variants=picture.asset().variants if picture else ())

    async def __aenter__(self) -> Replay:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def bundles(self) -> AsyncIterator[tuple[AnyEvent, ...]]:
        """What was emitted at one instant, at its time; a pause moves all that follows."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        for pts_ms, together in groupby(self._events, key=lambda event: event.pts_ms):
            due = begun + pts_ms / 1000 / self._speed
            while not self._closed:
                await self._going.wait()
                wait = due + self._shift - clock()
                if wait <= 0:
                    break
                await asyncio.sleep(wait)
            if self._closed:
                return
            yield tuple(together)

    def picture(self, key: str) -> EncodedImage | None:
        """The bytes behind a described picture."""
        return self._pictures.get(key)

    def due(self, key: str) -> int | None:
        """The boundary at which it was first revealed."""
        return self._due.get(key)

    def ack(self, message: ClientMessage) -> None:
        """What the viewer says is of no consequence here."""

    def pause(self) -> None:
        """Stop the tape."""
        if self._going.is_set():
            self._paused_at = loop_here("pausing a replay").time()
            self._going.clear()

    def resume(self) -> None:
        """Go on where it stopped."""
        if not self._going.is_set():
            self._shift += loop_here("resuming a replay").time() - self._paused_at
            self._going.set()

    async def aclose(self) -> None:
        """End it; twice is once."""
        self._closed = True
        self._going.set()


async def pictures_of(log: SyncLog, catalog: Catalog) -> tuple[dict[str, EncodedImage], list[str]]:
    """A picture for every key of a recording whose bytes were there: the catalogue's, else a drawn sheet.

    Returns:
        The pictures, and the keys of those that are drawn.
    """
    assets = {key: known[-1] for key, known in log.assets.items() if any(asset.variants for asset in known)}
    pipe = CatalogImagePipe(catalog)
    wanted = [key for key in assets if key in set(pipe.keys())]
    found: dict[str, EncodedImage] = {}
    if wanted:
        pipe.want(tuple(wanted), final=True)
        try:
            async for picture in pipe:
                if isinstance(picture, EncodedImage):
                    found[picture.key] = picture
        finally:
            await pipe.aclose()
    drawn = [key for key in assets if key not in found]
    return found | {key: drawn_picture(assets[key]) for key in drawn}, drawn


def drawn_picture(asset: AssetReserved) -> EncodedImage:
    """A plain sheet of a picture's size, with its key on it, as SVG."""
    width, height = (min(side or SIDE_PX, SIDE_LIMIT_PX) for side in (asset.width_px, asset.height_px))
    size = max(10, min(width / 12, 1.6 * width / max(1, len(asset.key))))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="100%" height="100%" fill="#d9d4cb"/><path d="M0 0L{width} {height}M{width} 0L0 {height}"'
        f' stroke="#c4bdb1" stroke-width="2"/><text x="50%" y="50%" fill="#5b554c" font-family="sans-serif"'
        f' font-size="{size:.0f}" text-anchor="middle" dominant-baseline="middle">{escape(asset.key)}</text></svg>'
    )
    return EncodedImage(
        asset.key, svg.encode(), "image/svg+xml", width, height, asset.product, asset.alt, asset.placeholder
    )


def replay_app(log: SyncLog, pictures: Mapping[str, EncodedImage], speed: float = 1.0) -> Starlette:
    """The player's page and the signalling of one recording, as one application.

    Args:
        log: what is played.
        pictures: by key (`pictures_of`).
        speed: plays that many times as fast.

    Raises:
        UsageError: as `Replay`.
    """
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from multimodal.demos.product_tour import build_routes
    from multimodal.serving.app import asgi
    from multimodal.serving.limits import Quotas

    def make_stream(name: str) -> Replay:
        if name != "demo":
            raise UsageError(f"there is no tour {name!r}; there is: demo")
        return Replay(log, pictures, speed)

    make_stream("demo")  # so that a wrong recording is told here and not to the first viewer
    # Served on loopback to the person who started it.
    tours = asgi(make_stream, quotas=Quotas.unlimited())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await tours.state.sessions.aclose()

    name = log.source.rsplit("/", 1)[-1] or "a recording"
    products = _products(log.start.products if log.start else ())
    page = build_routes(name, "A recorded tour, with its original timing", products=products)
    return Starlette(routes=[Mount("/tour", tours), *page], lifespan=lifespan)


def _products(briefs: Iterable[ProductBrief]) -> Sequence[Product]:
    return [
        Product(brief.id, brief.title, brief.aliases, price=_price(brief.price), currency=brief.currency, url=brief.url)
        for brief in briefs
    ]


def _price(text: str) -> Decimal | None:
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        return None
