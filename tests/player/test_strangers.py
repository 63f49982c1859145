"""A real browser on pages of three origins: the shop's plays with its token, a stranger's gets nothing started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from multimodal.browser import launch, open_page
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.run import SmallBuffers
from multimodal.serving.turn import Turn
from multimodal.stream import MultiModalStream
from tests.support import run
from tests.transport.leaks import until

SECRET = "a-secret-of-the-shop-0123456789-abcdefgh"
TEXT = "One two three four five six. Seven eight nine ten."


def make_stream(tour: str) -> MultiModalStream:
    words = TEXT if tour == "short" else TEXT * 200
    return MultiModalStream(ScriptTextPipe(words, gap=0.03), ScriptImagePipe([]), 3)


@asynccontextmanager
async def listening(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ws=SmallBuffers))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


class Site:
    """The tours' server, and pages of a shop and of a stranger, each of an origin of its own."""

    def __init__(self, tours: str, shop: str, stranger: str, app: Starlette, made: list[str]) -> None:
        self.tours, self.shop, self.stranger, self.app = tours, shop, stranger, app
        self.made = made
        """The tours that streams were made of."""

    @property
    def sessions(self) -> int:
        return len(self.app.state.sessions)

    def token(self, **claims: Any) -> str:
        return Tokens(SECRET).issue(**{"tour": "short", "now": time.time(), **claims})


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async def page(request: Request) -> HTMLResponse:
        # What a page may hold that is not of the shop's making stays out of it: it comes by the test's own hand.
        return HTMLResponse('<!doctype html><link rel="icon" href="data:,"><main></main>')

    pages = Starlette(routes=[Route("/", page)])
    async with listening(pages) as shop, listening(pages) as stranger:
        turn = Turn(["turn:127.0.0.1:9"], "the relay's secret")
        made: list[str] = []

        def make(tour: str) -> MultiModalStream:
            made.append(tour)
            return make_stream(tour)

        # A browser that is closed by a test says no goodbye.
        app = asgi(make, secret=SECRET, cors_origins=[shop], turn=turn, keep=0.5)
        async with listening(Starlette(routes=[Mount("/tour", app)])) as tours:
            try:
                yield Site(tours, shop, stranger, app, made)
            finally:
                await app.state.sessions.aclose()


_PLAY = """async ([tours, tour, token, without]) => {
  for (const name of without) window[name] = undefined;
  await import(`${tours}/tour/player/product-tour.js`);
  const tag = document.createElement('product-tour');
  tag.setAttribute('src', `${tours}/tour/whep/${tour}`);
  if (token) tag.setAttribute('token', token);
  const errors = [];
  tag.addEventListener('tour-error', ({ detail }) => errors.push(detail));
  document.querySelector('main').append(tag);
  tag.play?.();
  // What went wrong is told behind the state.
  const over = () => tag.state === 'ended' || (tag.state === 'error' && errors.length);
  for (let i = 0; i < 1200 && !over(); i++) await new Promise((done) => setTimeout(done, 50));
  return { state: tag.state, road: tag.road, errors, text: tag.shadowRoot.querySelector('.text').textContent.trim() };
}"""


async def played(browser: Browser, place: str, site: Site, token: str, *, without: tuple[str, ...] = ()) -> Any:
    async with open_page(browser) as page:
        await page.goto(place)
        return await page.evaluate(_PLAY, [site.tours, "short", token, list(without)])


@pytest.mark.browser
def test_the_shops_page_plays_on_every_road_and_each_token_once() -> None:
    async def body() -> None:
        async with launch() as browser, site() as place:
            roads: dict[str, tuple[str, ...]] = {
                "webrtc": (),
                "websocket": ("RTCPeerConnection",),
                "sse": ("RTCPeerConnection", "WebSocket"),
            }
            for road, without in roads.items():
                token = place.token()
                told = await played(browser, place.shop, place, token, without=without)
                assert told == {"state": "ended", "road": road, "errors": [], "text": TEXT}
                await until(lambda: not place.sessions)
                # Its seat was given up at the end: the token is used up, and the page learns it.
                told = await played(browser, place.shop, place, token, without=without)
                assert (told["state"], told["errors"][0]["status"], told["text"]) == ("error", 401, "")
            for token in ("", place.token(now=time.time() - 1000)):
                told = await played(browser, place.shop, place, token)
                assert (told["state"], told["errors"][0]["status"]) == ("error", 401)

    run(body(), limit=120)


_ATTACK = """async ([tours, token]) => {
  const said = [], say = (what) => said.push(what), at = `${tours}/tour`;
  const later = (ms) => new Promise((done) => setTimeout(done, ms));
  for (const mode of ['cors', 'no-cors'])
    for (const path of ['whep/demo', 'sse/demo'])
      await fetch(`${at}/${path}`, { method: 'POST', mode, body: '{"type":"hello"}' })
        .then(({ type }) => say(type), () => say('refused'));
  await import(`${at}/player/product-tour.js`).catch(() => say('no player'));
  const target = 'frame', form = document.createElement('form'), frame = document.createElement('iframe');
  Object.assign(form, { action: `${at}/sse/demo`, method: 'POST', target });
  frame.name = target;
  document.body.append(frame, form);
  form.submit();
  document.body.append(Object.assign(document.createElement('img'), { src: `${at}/sse/demo` }));
  for (const hello of [{ type: 'hello' }, { type: 'hello', join_token: token }]) {
    const socket = new WebSocket(`${at.replace('http', 'ws')}/ws/demo`);
    socket.onopen = () => { say('open'); socket.send(JSON.stringify(hello)); };
    await new Promise((done) => { socket.onclose = ({ code }) => { say(code); done(); }; });
  }
  const events = new EventSource(`${at}/sse/demo`);
  events.onmessage = () => say('event');
  await later(1000);
  events.close();
  return said;
}"""


@pytest.mark.browser
def test_a_strangers_page_starts_nothing_even_with_a_good_token() -> None:
    async def body() -> None:
        async with launch() as browser, site() as place:
            for door in (place, await _open_to_all_tokens(place)):
                async with open_page(browser) as page:
                    await page.goto(door.stranger)
                    said = await page.evaluate(_ATTACK, [door.tours, door.token(tour="demo")])
                assert said == ["refused", "refused", "opaque", "opaque", "no player", 1006, 1006]
                assert place.made == []

    run(body(), limit=120)


async def _open_to_all_tokens(place: Site) -> Site:
    """The same server, as if it asked for no tokens: then the origin is all that keeps strangers' pages out."""
    place.app.state.door.turnstile.tokens = None
    return place
