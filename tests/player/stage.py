"""A real server that a test can cut off, the player in a real Chromium, and the account of what it showed."""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from PIL import Image
from playwright.async_api import Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal import wire
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.limits import Quotas
from multimodal.serving.run import SmallBuffers
from multimodal.stream import MultiModalStream
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import RelayedApp, behind
from multimodal.transport.live import LiveSession
from multimodal.values import Cue, EncodedImage

EVENTS = 120
WORDS = [f"word{number} " for number in range(74)]
KEYS = [f"p{number}" for number in range(9)]
"""74 words, a mark before each third and one at the end, nine pictures reserved and revealed, start and end; and a swap
for each picture that comes late."""
__all__ = ["EVENTS", "KEYS", "READY", "WORDS", "Shop", "all_of_it", "open_shop"]

_SECRET = "a secret of the tests, and long enough for them"
_PAGE = """<!doctype html><html lang="en"><link rel="icon" href="data:,">
<script type="module" src="/tour/player/product-tour.js"></script>
<product-tour src="/tour/whep/any"{token}></product-tour></html>"""
READY = """customElements.whenDefined('product-tour').then(() => {
  window.tour = document.querySelector('product-tour');
  window.heard = [];
  for (const name of ['road', 'snapshot', 'end', 'error', 'start']) {
    tour.addEventListener(`tour-${name}`, ({detail}) => heard.push([name, detail, Date.now()]));
  }
  window.until = async (holds) => { while (!holds()) await new Promise((done) => setTimeout(done, 5)); };
  window.arrived = () => tour.log.filter((line) => line.vantage === 'arrived').map((line) => line.seq);
  window.words = () => tour.shadowRoot.querySelector('[part=text] div').textContent;
})"""


def _picture(number: int, key: str) -> EncodedImage:
    """Some 20 KB of noise, so that it comes in several parts."""
    pixels = random.Random(number).randbytes(96 * 72 * 3)
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 72), pixels).save(data, "PNG")
    return EncodedImage(key, data.getvalue(), "image/png", 96, 72)


@dataclass
class Shop:
    """The server, and what it emitted."""

    url: str = ""
    live: list[LiveSession] = field(default_factory=list)
    emitted: list[dict[str, Any]] = field(default_factory=list)
    on_event: Callable[[int], None] = lambda seq: None
    tokens: bool = False
    cuts: list[asyncio.Future[None]] = field(default_factory=list)
    cut_at_ms: float = 0.0
    """When it was cut last, milliseconds since 1970."""
    restored_at_ms: float = 0.0
    """When its network came back last."""
    network: RelayedApp | None = None
    back: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there is a network."""

    def begin(self, at: int, *, silent: bool = False) -> None:
        """Forget the tour before, and cut the next one as the event `at` is emitted."""
        self.live.clear()
        self.emitted.clear()
        self.cuts.clear()
        self.on_event = lambda seq: self.cut(silent=silent) if seq == at else None

    def begin_outage(self, at: int, seconds: float) -> None:
        """As `begin`; from the event `at` on, itself included, there is no network for so long, and nobody is told."""
        self.begin(at)
        self.on_event = lambda seq: self._lose(seconds) if seq == at else None

    def _lose(self, seconds: float) -> None:
        assert self.network is not None, "open_shop(far=True)"
        self.cut_at_ms = time.time() * 1000
        self.network.unplug()
        self.back.clear()
        asyncio.get_running_loop().call_later(seconds, self._restore)

    def _restore(self) -> None:
        assert self.network is not None
        self.restored_at_ms = time.time() * 1000
        self.network.unplug(False)
        self.back.set()

    def record(self, stream: Any) -> Callable[[dict[str, Any]], None]:
        def line(entry: dict[str, Any]) -> None:
            if entry["vantage"] == "emitted":
                self.emitted.append(entry["event"])
                self.on_event(entry["event"]["seq"])

        return line

    def cut(self, *, silent: bool = False) -> None:
        """Every connection is lost: closed, and nobody is told why; or silent, which is all there is to notice."""
        self.cut_at_ms = time.time() * 1000
        for live in self.live:
            for connection in [each for each in live._connections if each.ready]:
                if silent:
                    connection.link.send_event = connection.link.send_image = _nothing  # type: ignore[method-assign,assignment]
                else:
                    self.cuts.append(asyncio.ensure_future(connection.link.aclose()))

    async def page(self, request: Request) -> HTMLResponse:
        # As a shop does it: a token for each time the page is loaded.
        token = Tokens(_SECRET).issue(tour="any", now=time.time()) if self.tokens else ""
        return HTMLResponse(_PAGE.format(token=f' token="{token}"' if token else ""))


def _nothing(data: str | bytes) -> None:
    """What a hole in the network does."""


class _Tcp:
    """What asks for something while there is no network gets through with the first of its packets that is sent again
    after that, 1, 3 and 7 s after the first one (RFC 6298), unless it has given up before."""

    def __init__(self, shop: Shop, app: Any) -> None:
        self._shop, self._app = shop, app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] == "lifespan" or self._shop.back.is_set():
            return await self._app(scope, receive, send)
        loop = asyncio.get_running_loop()
        heard: list[Any] = []
        coming, again, wait = asyncio.ensure_future(receive()), loop.time() + 1.0, 1.0
        while loop.time() < again or not self._shop.back.is_set():
            await asyncio.wait([coming], timeout=again - loop.time())
            if coming.done():
                if coming.result()["type"].endswith(".disconnect"):
                    return None  # it has given up
                heard.append(coming.result())
                coming = asyncio.ensure_future(receive())
            elif not self._shop.back.is_set():
                wait *= 2
                again += wait
        heard.append(coming)

        async def hear() -> Any:
            message = heard.pop(0) if heard else await receive()
            return await message if message is coming else message

        return await self._app(scope, hear, send)


@asynccontextmanager
async def open_shop(
    *, gap: float = 0.03, shared: bool = False, tokens: bool = False, far: bool = False
) -> AsyncIterator[Shop]:
    """A shop on loopback; `far`: 20 ms away, and its network can be taken away (`Shop.begin_outage`)."""
    shop = Shop(tokens=tokens)
    shop.back.set()

    def make(tour: str) -> MultiModalStream:
        text = ScriptTextPipe(list(WORDS), ttft=0.1, gap=gap)
        pictures = ScriptImagePipe([_picture(number, key) for number, key in enumerate(KEYS)])
        return MultiModalStream(text, pictures, 3, cues=[Cue(8 * n + 3, key) for n, key in enumerate(KEYS)])

    tours = asgi(
        make,
        recorder=shop.record,
        quotas=Quotas.unlimited(),
        shared=["any"] if shared else [],
        secret=_SECRET if tokens else None,
    )
    begin = tours.state.sessions.start

    def start(name: str, live: LiveSession, *rest: Any) -> Any:
        shop.live.append(live)
        return begin(name, live, *rest)

    tours.state.sessions.start = start
    shop.network = behind(tours, LinkProfile(delay=0.02)) if far else None
    served = _Tcp(shop, shop.network) if far else tours
    app = Starlette(routes=[Route("/", shop.page), Mount("/tour", served)])
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", ws=SmallBuffers, ws_max_size=wire.MESSAGE_LIMIT_BYTES
    )
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it; the test as a whole has a limit
        await asyncio.sleep(0.01)
    shop.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    try:
        yield shop
    finally:
        await tours.state.sessions.aclose()
        if shop.network is not None:
            await shop.network.aclose()
        server.should_exit = True
        await running


async def all_of_it(shop: Shop, page: Page) -> dict[str, Any]:
    """The tour's end: everything on screen once, in order, and every picture painted from its own bytes."""
    await page.evaluate("until(() => ['ended', 'error'].includes(tour.state))")
    found: dict[str, Any] = await page.evaluate(
        """() => ({state: tour.state, seqs: arrived(), words: words(), heard, road: tour.road,
                   thumbs: tour.shadowRoot.querySelectorAll('[part=thumb] canvas').length,
                   painted: tour.log.filter((line) => line.vantage === 'painted').map((line) => line.seq)})"""
    )
    assert found["state"] == "ended", found["heard"][-1]
    assert [event["seq"] for event in shop.emitted] == list(range(len(shop.emitted)))
    assert found["seqs"] == list(range(len(shop.emitted))), "nothing lost, nothing doubled, in order"
    assert found["words"].strip() == "".join(WORDS).strip()
    # Whoever is away for longer than the end waits has only the previews of what came then (R4b).
    given_up = {event["key"] for event in shop.emitted if event["kind"] == "swap" and not event["ok"]}
    assert len(KEYS) - len(given_up) <= found["thumbs"] <= len(KEYS)
    assert found["painted"] == sorted(found["painted"])
    assert found["painted"][-1] == len(shop.emitted) - 1
    return found
