"""The player and the real server: what only the two together show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Request as PageRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal.browser import launch, open_page
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.sync.history import Heard
from multimodal.values import Cue, EncodedImage
from tests.support import run
from tests.transport.leaks import until

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf50cf000003860181f3b8e7980000000049454e44ae426082"
)
_PAGE = """<!doctype html><link rel="icon" href="data:,">
<script type="module" src="/tour/player/product-tour.js"></script><product-tour src="/tour/whep/any"></product-tour>"""


@asynccontextmanager
async def _serving(make: Callable[[str], MultiModalStream]) -> AsyncIterator[str]:
    async def page(_: Request) -> HTMLResponse:
        return HTMLResponse(_PAGE)

    tours = asgi(make, quotas=Quotas.unlimited())
    app = Starlette(routes=[Route("/", page), Mount("/tour", tours)])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none"))
    running = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it; the test as a whole has a limit
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        await tours.state.sessions.aclose()
        server.should_exit = True
        await running


def _pictures(*keys: str) -> ScriptImagePipe:
    return ScriptImagePipe([EncodedImage(key, _PNG, "image/png", 1, 1) for key in keys])


@pytest.mark.browser
def test_restarting_again_and_again_leaves_nothing_red_in_the_console() -> None:
    def make(tour: str) -> MultiModalStream:
        return MultiModalStream(ScriptTextPipe("One two three four five six.", gap=0.05), _pictures("a"), 3)

    async def body() -> tuple[list[str], str]:
        red: list[str] = []
        async with _serving(make) as url, launch() as browser, open_page(browser) as page:
            # What the console, or its list of requests, shows in red.
            page.on("response", lambda reply: red.append(reply.url) if reply.status >= 400 else None)
            page.on("requestfailed", lambda r: red.append(f"failed: {r.failure} {r.method} {r.url}"))
            pending: set[PageRequest] = set()
            page.on("request", lambda r: pending.add(r))
            page.on("requestfinished", lambda r: pending.discard(r))
            page.on("requestfailed", lambda r: pending.discard(r))
            await page.goto(url)
            await page.evaluate("window.tour = document.querySelector('product-tour')")
            for number in range(8):
                await page.evaluate("tour.restart()")
                # At every stage of a session: being made, just begun, in the middle, over.
                await asyncio.sleep((0.02, 0.15, 0.6, 1.2)[number % 4])
            state = await page.evaluate(
                """new Promise((done) => {
                  const look = () => ['ended', 'error'].includes(tour.state) ? done(tour.state) : setTimeout(look, 20);
                  look();
                })"""
            )
            await until(lambda: not pending)
            return red, str(state)

    assert run(body(), limit=180) == ([], "ended")


@pytest.mark.browser
def test_a_question_is_answered_and_the_old_turn_never_comes_back() -> None:
    asked: list[str] = []

    def make(tour: str) -> MultiModalStream:
        def on_ask(text: str, heard: Heard) -> tuple[ScriptTextPipe, list[Cue]]:
            asked.append(text)
            words = [f"a{len(asked)}-{n} " for n in range(4 if len(asked) == 5 else 400)]
            return ScriptTextPipe(words, gap=0.02), [Cue(3, "answer")]

        told = ScriptTextPipe([f"a0-{n} " for n in range(2000)], ttft=0.1, gap=0.02)
        cues = [Cue(3, "old"), Cue(900, "answer")]
        return MultiModalStream(told, _pictures("old", "answer"), 3, cues=cues, on_ask=on_ask)

    async def body() -> dict[str, Any]:
        async with _serving(make) as url, launch() as browser, open_page(browser) as page:
            await page.goto(url)
            found: dict[str, Any] = await page.evaluate(
                """async () => {
                  const tour = document.querySelector('product-tour'), root = tour.shadowRoot;
                  const until = async (holds) => { while (!holds()) await new Promise((done) => setTimeout(done, 5)); };
                  let turn = 0;
                  const late = [];
                  new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((node) => {
                    const of = /^a(\\d+)-/.exec(node.textContent)?.[1];
                    if (of < turn) late.push(node.textContent);
                  }))).observe(root, {childList: true, subtree: true});
                  tour.play();
                  await until(() => root.querySelector('[data-key=old]'));
                  tour.pause();
                  for (turn = 1; turn < 6; turn++) {
                    tour.ask(`question ${turn}`);
                    await until(() => root.textContent.includes(`a${turn}-${turn % 4}`));
                  }
                  turn--;
                  await until(() => tour.state === 'ended');
                  return {late, old: root.querySelectorAll('[part=stage] [data-key=old]').length,
                          shown: root.querySelector('[part=stage] img')?.dataset.key,
                          last: root.querySelector('[part=text] p:last-child').textContent};
                }"""
            )
            return found

    assert run(body(), limit=180) == {"late": [], "old": 0, "shown": "answer", "last": "a5-0 a5-1 a5-2 a5-3 "}
    assert asked == [f"question {number}" for number in range(1, 6)]
