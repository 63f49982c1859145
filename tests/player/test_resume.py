"""The player and the real server, and the road between them cut: what is on screen at the end is what was emitted."""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from PIL import Image
from playwright.async_api import Browser, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal import wire
from multimodal.browser import launch, open_page
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.limits import Quotas
from multimodal.serving.run import SmallBuffers
from multimodal.stream import MultiModalStream
from multimodal.transport.live import LiveSession
from multimodal.values import Cue, EncodedImage
from tests.support import run

pytestmark = pytest.mark.browser

_WORDS = [f"word{number} " for number in range(60)]
_KEYS = [f"p{number}" for number in range(5)]
_SECRET = "a secret of the tests, and long enough for them"
_PAGE = """<!doctype html><html lang="en"><link rel="icon" href="data:,">
<script type="module" src="/tour/player/product-tour.js"></script>
<product-tour src="/tour/whep/any"{token}></product-tour></html>"""
_READY = """customElements.whenDefined('product-tour').then(() => {
  window.tour = document.querySelector('product-tour');
  window.heard = [];
  for (const name of ['road', 'snapshot', 'end', 'error', 'start']) {
    tour.addEventListener(`tour-${name}`, ({detail}) => heard.push([name, detail]));
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

    def record(self, stream: Any) -> Callable[[dict[str, Any]], None]:
        def line(entry: dict[str, Any]) -> None:
            if entry["vantage"] == "emitted":
                self.emitted.append(entry["event"])
                self.on_event(entry["event"]["seq"])

        return line

    def cut(self) -> None:
        """Every connection is closed as by a network: nobody is told why."""
        for live in self.live:
            for connection in [each for each in live._connections if each.ready]:
                self.cuts.append(asyncio.ensure_future(connection.link.aclose()))

    async def page(self, request: Request) -> HTMLResponse:
        # As a shop does it: a token for each time the page is loaded.
        token = Tokens(_SECRET).issue(tour="any", now=time.time()) if self.tokens else ""
        return HTMLResponse(_PAGE.format(token=f' token="{token}"' if token else ""))


@asynccontextmanager
async def _open(*, gap: float = 0.03, shared: bool = False, tokens: bool = False) -> AsyncIterator[Shop]:
    shop = Shop(tokens=tokens)

    def make(tour: str) -> MultiModalStream:
        text = ScriptTextPipe(list(_WORDS), ttft=0.1, gap=gap)
        pictures = ScriptImagePipe([_picture(number, key) for number, key in enumerate(_KEYS)])
        return MultiModalStream(text, pictures, 3, cues=[Cue(9 * n + 6, key) for n, key in enumerate(_KEYS)])

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
    app = Starlette(routes=[Route("/", shop.page), Mount("/tour", tours)])
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
        server.should_exit = True
        await running


Watched = Callable[[Shop, Page], Awaitable[None]]


def _watch(
    body: Watched,
    *,
    before: str = "",
    listen: Callable[[Page], None] | None = None,
    tokens: bool = False,
    **options: Any,
) -> Shop:
    """One tour in a browser: `before` runs in the page ahead of anything else, `body` once it plays."""

    async def scenario() -> Shop:
        async with _open(tokens=tokens, **options) as shop, launch() as browser, open_page(browser) as page:
            refused: list[str] = []
            page.on("response", lambda reply: refused.append(reply.url) if reply.status >= 400 else None)
            if listen is not None:
                listen(page)
            if before:
                await page.add_init_script(before)
            await page.goto(shop.url)
            await page.evaluate(_READY)
            await page.evaluate("tour.play()")
            await body(shop, page)
            assert refused == []
            return shop

    return run(scenario(), limit=60)


async def _all_of_it(shop: Shop, page: Page) -> dict[str, Any]:
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
    assert found["words"].strip() == "".join(_WORDS).strip()
    assert found["thumbs"] == len(_KEYS)
    assert found["painted"] == sorted(found["painted"])
    assert found["painted"][-1] == len(shop.emitted) - 1
    return found


def _browser(page: Page) -> Browser:
    browser = page.context.browser
    assert browser is not None
    return browser


def _said(found: dict[str, Any], name: str) -> list[Any]:
    return [detail for said, detail in found["heard"] if said == name]


def test_cut_at_ten_places() -> None:
    async def body(shop: Shop, page: Page) -> None:
        shop.on_event = lambda seq: shop.cut() if seq in {1, 2, 9, 21, 33, 34, 50, 64, 78, 90} else None
        found = await _all_of_it(shop, page)
        roads = [detail["road"] for detail in _said(found, "road")]
        assert len(roads) >= 4
        assert set(roads) == {"webrtc"}
        assert _said(found, "snapshot") == []

    _watch(body, gap=0.1)


_ROADS = {
    "websocket": "window.RTCPeerConnection = undefined",
    "sse": "window.RTCPeerConnection = window.WebSocket = undefined",
}


@pytest.mark.parametrize("road", list(_ROADS))
def test_the_other_roads_carry_a_whole_tour_and_are_found_again(road: str) -> None:
    async def body(shop: Shop, page: Page) -> None:
        shop.on_event = lambda seq: shop.cut() if seq in {1, 30, 31, 60} else None
        found = await _all_of_it(shop, page)
        assert found["road"] == road
        roads = [detail["road"] for detail in _said(found, "road")]
        assert len(roads) >= 3
        assert set(roads) == {road}

    _watch(body, before=_ROADS[road], gap=0.06, tokens=True)


def test_the_cursor_goes_from_road_to_road() -> None:
    """WebRTC, then only a WebSocket, then only server-sent events, then WebRTC again."""

    async def body(shop: Shop, page: Page) -> None:
        await page.evaluate(
            """() => {
              const {RTCPeerConnection, WebSocket} = window;
              window.only = (road) => {
                window.RTCPeerConnection = road === 'webrtc' ? RTCPeerConnection : undefined;
                window.WebSocket = road === 'websocket' ? WebSocket : undefined;
              };
            }"""
        )
        for at, road in ((10, "websocket"), (25, "sse"), (40, "webrtc")):
            await page.evaluate(f"until(() => arrived().length > {at})")
            await page.evaluate(f"only('{road}')")
            if road == "webrtc":
                await page.route("**/sse/**", lambda route: route.abort())  # it would be there sooner
            shop.cut()
            await page.evaluate(f"until(() => tour.road === '{road}')")
        found = await _all_of_it(shop, page)
        assert [detail["road"] for detail in _said(found, "road")] == ["webrtc", "websocket", "sse", "webrtc"]

    _watch(body, gap=0.1)


def test_a_tunnel_is_ridden_through() -> None:
    async def body(shop: Shop, page: Page) -> None:
        await page.evaluate("until(() => arrived().length > 20)")
        await page.context.set_offline(True)
        shop.cut()
        await page.wait_for_selector("product-tour[reconnecting]")
        assert await page.evaluate("tour.state") == "playing"
        assert await page.locator("product-tour [part=message]").inner_text() == "Reconnecting…"
        await asyncio.sleep(2.5)
        await page.context.set_offline(False)
        await page.wait_for_selector("product-tour:not([reconnecting])", timeout=5000)
        await _all_of_it(shop, page)

    _watch(body, gap=0.05)


def test_a_second_tab_takes_the_tour_over_and_the_first_one_rests() -> None:
    async def body(shop: Shop, page: Page) -> None:
        await page.evaluate("until(() => arrived().length > 20)")
        (seat,) = seats
        async with open_page(_browser(page)) as other:
            await other.goto(shop.url)
            await other.evaluate(_READY)
            await other.evaluate("(seat) => tour.setAttribute('src', seat)", seat)
            await other.evaluate("tour.play()")
            await page.evaluate("until(() => tour.state === 'error')")
            (error,) = await page.evaluate("heard.filter(([name]) => name === 'error')")
            assert error[1]["code"] == "taken"
            await other.evaluate("until(() => tour.state === 'ended')")
            first, second = await page.evaluate("arrived()"), await other.evaluate("arrived()")
            assert first == list(range(len(first)))
            assert second == list(range(second[0], len(shop.emitted)))
            assert (await other.evaluate("words()")).strip() == "".join(_WORDS).strip()
            assert await page.evaluate("tour.state") == "error"
            assert len(seats) == 1, "the first one made no further offer"

    seats: list[str] = []

    def listen(page: Page) -> None:
        page.on("response", lambda reply: seats.append(reply.headers["location"]) if reply.status == 201 else None)

    _watch(body, listen=listen, gap=0.06)


def test_a_late_viewer_of_a_shared_tour_begins_where_it_stands() -> None:
    async def body(shop: Shop, page: Page) -> None:
        await page.evaluate("until(() => arrived().length > 40)")
        async with open_page(_browser(page)) as other:
            await other.goto(shop.url)
            await other.evaluate(_READY)
            await other.evaluate("tour.play()")
            await other.evaluate("until(() => arrived().length > 4)")
            # What stood on the stage stands there, from its own bytes.
            await other.evaluate("until(() => tour.shadowRoot.querySelector('[part=stage] img')?.naturalWidth)")
            shop.cut()  # both come back, each to its own place
            await other.evaluate("until(() => tour.state === 'ended')")
            seqs = await other.evaluate("arrived()")
            (snapshot,) = await other.evaluate("heard.filter(([name]) => name === 'snapshot')")
            assert seqs[0] == snapshot[1]["seq"] > 30
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            assert (await other.evaluate("words()")).strip() == "".join(_WORDS).strip()
        await page.evaluate("until(() => tour.state === 'ended')")
        assert await page.evaluate("arrived()") == list(range(seqs[-1] + 1))

    _watch(body, gap=0.08, shared=True)
