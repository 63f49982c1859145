"""A tour served in this process to a real Chromium, with a UDP relay of a stated network between the two."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from multimodal.bench.tabs import open_tab
from multimodal.browser import open_page
from multimodal.demos.product_tour import build_routes
from multimodal.demos.product_tour.tour import Settings, Tour, tour_app
from multimodal.errors import SyncError
from multimodal.events import Reveal
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.serving.run import Recordings
from multimodal.stream import MultiModalStream
from multimodal.sync.browsing import PlayerPage
from multimodal.sync.link import LinkCounters, LinkProfile, Network
from multimodal.sync.log import SyncLog
from multimodal.sync.relay import behind

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["ROUND_TRIP", "Hidden", "Played", "hide_behind", "lost_end", "play_behind"]

ROUND_TRIP = 0.06
"""Seconds, of the road on which the last words are lost."""
_WORDS = [f"word{number} " for number in range(12)]
_GAP = 0.05
_TOUR_BYTES = 200
"""Acks and keep-alives are smaller than the message that ends a tour, whatever encryption adds."""


class Played(msgspec.Struct, frozen=True):
    """A tour as all vantage points saw it, and what the network did to its datagrams."""

    log: SyncLog
    down: LinkCounters
    up: LinkCounters


async def play_behind(
    browser: Browser, tour: Tour, profile: str | LinkProfile | Network, *, speed: float, seed: int = 0
) -> Played:
    """Play a tour to its end.

    Args:
        browser: from `multimodal.browser.launch`.
        tour: what is played; its pictures are prepared once, so give the same one again.
        profile: the network.
        speed: how many times as fast as naturally.
        seed: of the network's chance.

    Raises:
        SyncError: the player stopped with an error, or did not come to the end in the time of two such tours.
    """
    with tempfile.TemporaryDirectory(prefix="multimodal-") as folder:
        recording = Path(folder) / "tour.jsonl"
        app = behind(tour_app(tour, Settings(speed=speed), Recordings(recording).begin), profile, seed=seed)
        async with _served(app) as url, open_page(browser) as page:
            player = PlayerPage(page, recording)
            await page.goto(url)
            await page.evaluate("document.querySelector('product-tour').scrollIntoView({block: 'start'})")
            await player.play()
            await player.until("ended", 30 + 0.5 * len(tour.plan.tokens) / speed)
            log = await player.log()
            relay = app.relays[0]
            return Played(log, relay.down.counters, relay.up.counters)


class Hidden(msgspec.Struct, frozen=True):
    """A tour whose tab was hidden for a while.

    Args:
        log: the tour as all vantage points saw it.
        missing: events that had arrived by the return and were not on the page one frame later.
        shown: what the first frame after the return showed: all words, without spaces, and the key of the picture.
        expected: what it should have shown.
    """

    log: SyncLog
    missing: int
    shown: tuple[str, str]
    expected: tuple[str, str]


async def hide_behind(
    browser: Browser, tour: Tour, profile: str | LinkProfile | Network, *, speed: float, after: float, hidden: float
) -> Hidden:
    """Play a tour to its end, its tab hidden from `after` seconds on, for `hidden` seconds.

    Args:
        browser: from `multimodal.browser.launch`.
        tour: what is played.
        profile: the network.
        speed: how many times as fast as naturally.
        after: seconds from the press of the button.
        hidden: seconds; the tour must be longer than both together.

    Raises:
        SyncError: the player stopped with an error or did not come to the end, or the tab could not be hidden.
    """
    with tempfile.TemporaryDirectory(prefix="multimodal-") as folder:
        recording = Path(folder) / "tour.jsonl"
        app = behind(tour_app(tour, Settings(speed=speed), Recordings(recording).begin), profile)
        async with _served(app) as url, open_tab(browser, url) as tab:
            player = PlayerPage(cast("Page", tab), recording)
            await tab.evaluate("customElements.whenDefined('product-tour').then(() => true)")
            await tab.evaluate(_ON_RETURN)
            await player.play()
            await asyncio.sleep(after)
            await tab.hide()
            await asyncio.sleep(hidden)
            if await tab.evaluate("document.visibilityState") != "hidden":
                raise SyncError("the tab stayed visible behind another one; nothing was measured")
            await tab.show()
            back: dict[str, Any] = await tab.evaluate("window.back")
            await player.until("ended", 30 + 0.5 * len(tour.plan.tokens) / speed)
            log = await player.log()
    texts = "".join(text.text for text in log.texts if text.seq <= back["painted"])
    keys = [reveal.key for reveal in log.of(Reveal) if reveal.seq <= back["painted"]]
    # The page lays words out with spaces of its own.
    shown, expected = ("".join(text.split()) for text in (back["words"], texts))
    missing = max(0, back["arrived"] - back["painted"])
    return Hidden(log, missing, (shown, back["key"]), (expected, keys[-1] if keys else ""))


_ON_RETURN = """window.back = new Promise((resolve) => document.addEventListener('visibilitychange', () => {
    if (document.hidden) return;
    const tour = document.querySelector('product-tour');
    const last = (vantage) => tour.log.findLast((line) => line.vantage === vantage);
    const arrived = last('arrived').event.seq;
    requestAnimationFrame(() => requestAnimationFrame(() => resolve({
        arrived, painted: last('painted').seq,
        words: [...tour.shadowRoot.querySelectorAll('[data-tok]')].map((word) => word.textContent).join(''),
        key: [...tour.shadowRoot.querySelectorAll('[data-current]')].at(-1)?.dataset.key ?? '',
    })));
})), true"""


async def lost_end(browser: Browser) -> float:
    """Milliseconds from the last word's emission to the frame it was painted in, its datagram lost once.

    The two clocks are this machine's wall clock, read here and, at its start, by the page.

    Raises:
        SyncError: the player stopped with an error, or another number of datagrams than one was lost.
    """
    emitted = 0.0

    def make_stream(name: str) -> MultiModalStream:
        return MultiModalStream(ScriptTextPipe(_WORDS, gap=_GAP), ScriptImagePipe([]))

    def recorder(stream: MultiModalStream) -> Callable[[dict[str, Any]], None]:
        def record(line: dict[str, Any]) -> None:
            nonlocal emitted
            if line["vantage"] == "emitted" and line["event"].get("token_index") == len(_WORDS) - 1:
                emitted = time.time()
                app.relays[0].down.lose_next(_TOUR_BYTES)

        return record

    tours = asgi(make_stream, recorder=recorder, quotas=Quotas.unlimited())
    page_and_tours = Starlette(routes=[Mount("/tour", tours), *build_routes("a tour whose end is lost")])
    app = behind(page_and_tours, LinkProfile(delay=ROUND_TRIP / 2))
    try:
        async with _served(app) as url, open_page(browser) as page:
            player = PlayerPage(page, Path())
            await page.goto(url)
            await player.play()
            await player.until("ended", 30)
            origin_ms: float = await page.evaluate("performance.timeOrigin")
            seen: list[dict[str, Any]] = await page.evaluate("document.querySelector('product-tour').log")
            lost = app.relays[0].down.counters.lost
    finally:
        await tours.state.sessions.aclose()
    if lost != 1:
        raise SyncError(f"{lost} datagrams were lost where one was to be; the last words were not measured")
    texts = [line["event"] for line in seen if line["vantage"] == "arrived" and line["event"]["kind"] == "text"]
    painted = next(line for line in seen if line["vantage"] == "painted" and line["seq"] >= texts[-1]["seq"])
    return float(origin_ms + painted["t_ms"] - emitted * 1000)


@asynccontextmanager
async def _served(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="warning", ws="none", timeout_graceful_shutdown=3, lifespan="on"
    )
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        finally:
            server.should_exit = True
