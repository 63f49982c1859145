"""A tab that can really be hidden."""

from __future__ import annotations

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from multimodal.bench.links_stage import _served
from multimodal.bench.tabs import open_tab
from multimodal.browser import launch
from tests.support import run

pytestmark = pytest.mark.browser


def test_a_page_that_is_long_in_coming_is_waited_for_and_can_be_hidden() -> None:
    async def page(request: Request) -> HTMLResponse:
        await asyncio.sleep(0.5)
        return HTMLResponse("<p id='here'>here</p>")

    async def seen() -> list[str]:
        async with (
            _served(Starlette(routes=[Route("/", page)])) as url,
            launch() as browser,
            open_tab(browser, url) as tab,
        ):
            found = [await tab.evaluate("document.querySelector('#here').textContent")]
            for change, before in ((tab.hide, "visible"), (tab.show, "hidden")):
                await change()
                while await tab.evaluate("document.visibilityState") == before:  # noqa: ASYNC110 - the page sets no event
                    await asyncio.sleep(0.02)
                found.append(await tab.evaluate("document.visibilityState"))
            return found

    assert run(seen()) == ["here", "hidden", "visible"]
