"""The player and the real server: what only the two together show."""

from __future__ import annotations

import asyncio

import pytest

from multimodal.bench.paint_stage import serving
from multimodal.browser import launch, open_page
from tests.support import run


@pytest.mark.browser
def test_restarting_again_and_again_leaves_nothing_red_in_the_console() -> None:
    async def body() -> tuple[list[str], int, str]:
        red: list[str] = []
        async with serving() as (url, shop), launch() as browser, open_page(browser) as page:
            # What the console shows in red, but for the icon that the bare page does not have.
            page.on("response", lambda reply: red.append(reply.url) if reply.status >= 400 else None)
            page.on("requestfailed", lambda r: red.append(f"failed: {r.failure} {r.method} {r.url}"))
            await page.goto(f"{url}/play/2-80-20")
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
            await asyncio.sleep(0.3)
            return red, len(shop.reveals), str(state)

    red, reveals, state = run(body(), limit=60)
    assert [url for url in red if "/whep/" in url] == []
    assert (reveals, state) == (2, "ended")
