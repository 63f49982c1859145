"""From the offer to the first event: a real Chromium with the player, on loopback and over 60 ms.

The player posts its offer at once. Beside it, in turns in the same run: the same page, made to wait until its browser
has gathered all candidates, as clients do that send one complete offer. The network is a UDP relay; the signalling,
which goes by TCP, waits in the application for as long as that network's round trip.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Mount

from multimodal.bench.links_stage import _served
from multimodal.bench.report import Figure, figure, report
from multimodal.browser import launch, open_page
from multimodal.demos.product_tour import build_routes
from multimodal.errors import SyncError
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.sync.browsing import PlayerPage
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import behind

if TYPE_CHECKING:
    from playwright.async_api import Browser

ROUND_TRIPS = {"loopback": 0.0, "60 ms": 0.060}
LIMITS_MS = {"loopback": 100.0, "60 ms": 600.0}
OURS, GATHERING = "ours", "waiting for ICE gathering"
CONNECTS = 30
_WITHIN = 20.0

_MARK = """(() => {
    const pc = RTCPeerConnection.prototype, offer = pc.setLocalDescription;
    pc.setLocalDescription = async function (...rest) {
        window.offered ??= performance.now();
        await offer.apply(this, rest);
        if (WAITS && this.iceGatheringState !== 'complete') await new Promise((resolve) => {
            this.addEventListener('icegatheringstatechange',
                () => this.iceGatheringState === 'complete' && resolve());
        });
    };
})()"""
_FIRST = """(() => {
    const first = document.querySelector('product-tour').log.find((line) => line.vantage === 'arrived');
    return first ? first.t_ms - window.offered : null;
})()"""

Message = MutableMapping[str, Any]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About three minutes; `--quick` half of one."""
    return judge(asyncio.run(measure(4 if options.quick else CONNECTS)))


async def measure(connects: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each connect, by road and by who waits for what."""
    found: dict[str, dict[str, list[float]]] = {}
    async with launch() as browser:
        for road, round_trip in ROUND_TRIPS.items():
            print(f"connect: {road} ...", file=sys.stderr, flush=True)
            found[road] = await _connects(browser, round_trip, connects)
    return found


def judge(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """What `measure` gave, held against the bars."""
    figures: list[Figure] = []
    for road, times in found.items():
        figures.append(figure(f"{road}: offer to first event, p95", _p95(times[OURS]), "ms", LIMITS_MS[road]))
        ratio = statistics.median(times[OURS]) / statistics.median(times[GATHERING])
        figures.append(figure(f"{road}: of {GATHERING}, median", ratio, "ratio", 1.0))
    ours, peer = ({road: _row(times[name]) for road, times in found.items()} for name in (OURS, GATHERING))
    return report("connect", figures, ours, {GATHERING: peer}, ("aiortc", "aioice", "playwright"))


def _row(times: list[float]) -> dict[str, Any]:
    figures = {"p50_ms": statistics.median(times), "p95_ms": _p95(times), "max_ms": max(times)}
    return {"connects": len(times), **{name: round(value, 1) for name, value in figures.items()}}


def _p95(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * 95 // 100)]


async def _connects(browser: Browser, round_trip: float, count: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {OURS: [], GATHERING: []}

    def make_stream(name: str) -> MultiModalStream:
        return MultiModalStream(ScriptTextPipe(["A ", "word. "], gap=0.02), ScriptImagePipe([]))

    # All viewers come from this one address.
    tours = asgi(make_stream, quotas=Quotas.unlimited())
    app: Any = Starlette(routes=[Mount("/tour", tours), *build_routes("a tour that begins")])
    if round_trip:
        app = _far(behind(app, LinkProfile(delay=round_trip / 2)), round_trip)
    try:
        async with _served(app) as url:
            # The first of each only warms the browser up.
            for number in range(count + 1):
                for name in times:
                    took = await _connect(browser, url, waits=name == GATHERING)
                    if number:
                        times[name].append(took)
    finally:
        await tours.state.sessions.aclose()
    return times


async def _connect(browser: Browser, url: str, *, waits: bool) -> float:
    async with open_page(browser) as page:
        await page.add_init_script(_MARK.replace("WAITS", str(waits).lower()))
        await page.goto(url)
        await PlayerPage(page, Path()).play()
        loop = asyncio.get_running_loop()
        end = loop.time() + _WITHIN
        while (took := await page.evaluate(_FIRST)) is None:
            if loop.time() > end:
                state = await page.evaluate("document.querySelector('product-tour').state")
                raise SyncError(f"no event within {_WITHIN:g} s of the offer; the player is {state}")
            await asyncio.sleep(0.05)
        return float(took)


def _far(app: Any, round_trip: float) -> Any:
    """Requests of the signalling take a round trip more; the page's own files do not."""

    async def far(scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            await asyncio.sleep(round_trip)
        await app(scope, receive, send)

    return far
