"""The player, the real server and a real coturn: a page that allows no way but the relay."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal.browser import launch, open_page
from multimodal.serving.app import asgi
from multimodal.serving.turn import Turn
from tests.coturn import MISSING, SECRET, coturn
from tests.serving.test_app import make_stream
from tests.support import run
from tests.transport.leaks import until

_PAGE = """<!doctype html><link rel="icon" href="data:,">
<script type="module" src="/tour/player/product-tour.js"></script><product-tour src="/tour/whep/demo"></product-tour>"""


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("turnserver") is None, reason=MISSING)
def test_a_whole_tour_comes_through_the_relay_that_a_real_server_names() -> None:
    async def page_of_a_shop(_: Request) -> HTMLResponse:
        return HTMLResponse(_PAGE)

    async def scenario(relay: str) -> Any:
        tours = asgi(make_stream, bind_addresses=["127.0.0.1"], turn=Turn([relay], SECRET))
        app = Starlette(
            routes=[Route("/", page_of_a_shop), Mount("/tour", tours)], lifespan=tours.router.lifespan_context
        )
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        running = asyncio.ensure_future(server.serve())
        await until(lambda: server.started)
        try:
            async with launch() as browser, open_page(browser) as page:
                await page.goto(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/")
                return await page.evaluate(
                    """async () => {
                      await customElements.whenDefined('product-tour');
                      const tour = document.querySelector('product-tour'), roads = [];
                      tour.iceTransportPolicy = 'relay';
                      tour.addEventListener('tour-road', ({detail}) => roads.push(detail.road));
                      const over = new Promise((done) => {
                        for (const name of ['tour-end', 'tour-error']) tour.addEventListener(name, done);
                      });
                      tour.play();
                      const {type} = await over;
                      return {type, roads};
                    }"""
                )
        finally:
            server.should_exit = True
            await running

    with coturn() as relay:
        assert run(scenario(relay.url())) == {"type": "tour-end", "roads": ["webrtc"]}
        assert relay.allocations
