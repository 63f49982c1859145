"""The player and the real server, and the road between them lost: what is on screen at the end is what was emitted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from multimodal.browser import launch, open_page
from tests.player.stage import READY, WORDS, Shop, all_of_it, open_shop
from tests.support import run

pytestmark = pytest.mark.browser

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
        async with open_shop(tokens=tokens, **options) as shop, launch() as browser, open_page(browser) as page:
            refused: list[str] = []
            page.on("response", lambda reply: refused.append(reply.url) if reply.status >= 400 else None)
            if listen is not None:
                listen(page)
            if before:
                await page.add_init_script(before)
            await page.goto(shop.url)
            await page.evaluate(READY)
            await page.evaluate("tour.play()")
            await body(shop, page)
            assert refused == []
            return shop

    return run(scenario(), limit=180)


def _browser(page: Page) -> Browser:
    browser = page.context.browser
    assert browser is not None
    return browser


def _said(found: dict[str, Any], name: str) -> list[Any]:
    return [detail for said, detail, _ in found["heard"] if said == name]


_ROADS = {
    "websocket": "window.RTCPeerConnection = undefined",
    "sse": "window.RTCPeerConnection = window.WebSocket = undefined",
}


@pytest.mark.parametrize("road", list(_ROADS))
def test_the_other_roads_carry_a_whole_tour_and_are_found_again(road: str) -> None:
    async def body(shop: Shop, page: Page) -> None:
        shop.on_event = lambda seq: shop.cut() if seq in {1, 30, 31, 60} else None
        found = await all_of_it(shop, page)
        assert found["road"] == road
        roads = [detail["road"] for detail in _said(found, "road")]
        assert len(roads) >= 3
        assert set(roads) == {road}

    _watch(body, before=_ROADS[road], gap=0.1, tokens=True)


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
        found = await all_of_it(shop, page)
        assert [detail["road"] for detail in _said(found, "road")] == ["webrtc", "websocket", "sse", "webrtc"]

    _watch(body, gap=0.2)  # long enough to come back thrice while it is told, also on a busy machine


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
        await page.wait_for_selector("product-tour:not([reconnecting])")
        await all_of_it(shop, page)

    _watch(body, gap=0.05)


def test_a_second_tab_takes_the_tour_over_and_the_first_one_rests() -> None:
    async def body(shop: Shop, page: Page) -> None:
        async with open_page(_browser(page)) as other:
            await other.goto(shop.url)
            await other.evaluate(READY)
            await page.evaluate("until(() => arrived().length > 20)")
            (seat,) = seats
            await other.evaluate("(seat) => tour.setAttribute('src', seat)", seat)
            await other.evaluate("tour.play()")
            await page.evaluate("until(() => heard.some(([name]) => name === 'error'))")
            (error,) = await page.evaluate("heard.filter(([name]) => name === 'error')")
            assert error[1]["code"] == "taken"
            await other.evaluate("until(() => tour.state === 'ended')")
            first, second = await page.evaluate("arrived()"), await other.evaluate("arrived()")
            assert first == list(range(len(first)))
            assert second == list(range(second[0], len(shop.emitted)))
            assert (await other.evaluate("words()")).strip() == "".join(WORDS).strip()
            assert await page.evaluate("tour.state") == "error"
            assert len(seats) == 1, "the first one made no further offer"

    seats: list[str] = []

    def listen(page: Page) -> None:
        page.on("response", lambda reply: seats.append(reply.headers["location"]) if reply.status == 201 else None)

    _watch(body, listen=listen, gap=0.06)


def test_a_late_viewer_of_a_shared_tour_begins_where_it_stands() -> None:
    async def body(shop: Shop, page: Page) -> None:
        async with open_page(_browser(page)) as other:
            await other.goto(shop.url)
            await other.evaluate(READY)
            await page.evaluate("until(() => arrived().length > 40)")
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
            assert (await other.evaluate("words()")).strip() == "".join(WORDS).strip()
        await page.evaluate("until(() => tour.state === 'ended')")
        assert await page.evaluate("arrived()") == list(range(seqs[-1] + 1))

    _watch(body, gap=0.08, shared=True)
