"""The stage of `bench paint`: the real server, the real player, and the player with one fault planted in it."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from multimodal.browser import open_page
from multimodal.errors import SyncError, UsageError
from multimodal.events import Reveal
from multimodal.glass import VIEWPORT, GlassReport, Pair, claims, watch
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, EncodedImage

if TYPE_CHECKING:
    from playwright.async_api import Browser
    from playwright.async_api import Route as Request_

__all__ = ["FAULTS", "HONEST", "UNHURRIED", "Fault", "Played", "planted", "play", "serving"]

PLAYER = "product-tour.js"
SYLLABLES = (
    "ket",
    "tle",
    "wal",
    "nut",
    "lin",
    "en",
    "cop",
    "per",
    "ves",
    "sel",
    "mo",
    "ra",
    "quil",
    "ty",
    "gla",
    "zed",
)
TOUR_LIMIT = 60.0
TTFT = 0.5
"""Seconds to the first word: no narrator starts at once, and the page takes in its first pictures meanwhile."""
PICTURE_EVERY = 0.15
"""Seconds from one picture to the next: faster than the words need them, and no burst that stalls a slow page."""


class Fault(msgspec.Struct, frozen=True):
    """A change of the player that the glass must see.

    Args:
        name: as in the figures.
        what: in words.
        patches: (old, new) pieces of the player's source; each old one must be there exactly once.
        width_px: width of the pictures.
        gap: seconds between two tokens.
        deceives: True = its receipts must claim the same frame for the fault to count as flagged.
    """

    name: str
    what: str
    patches: tuple[tuple[str, str], ...] = ()
    width_px: int = 480
    gap: float = 0.07
    deceives: bool = False

    def flagged(self, pair: Pair, claimed: Mapping[int, bool]) -> bool:
        """Whether the pixels show this pair apart, and, for a fault that deceives, its receipt says otherwise."""
        return pair.verdict == "apart" and (not self.deceives or claimed.get(pair.cue) is True)


HONEST = Fault("honest", "the player as it ships")
UNHURRIED = Fault("honest", "the player as it ships, a picture every 270 ms in place of 210", gap=0.09)
"""For a slowed-down page: a stall longer than the time between two pictures lets one of them never be shown at all."""

FAULTS = (
    Fault(
        "split",
        "a bundle's pictures are applied one frame after its words, with true receipts",
        (
            (
                "this.#queue.push(...events);",
                "const late = events.filter((event) => event.kind === 'reveal');"
                " this.#queue.push(...events.filter((event) => event.kind !== 'reveal'));"
                " if (late.length) requestAnimationFrame(() => setTimeout(() => {"
                " this.#queue.push(...late); this.#schedule(); }));",
            ),
        ),
    ),
    Fault(
        "lie",
        "a receipt at once; every other picture comes 100 ms later, the rest never",
        (
            (
                "return this.#reveal(event, frame);",
                "return void (event.cue % 2 && setTimeout(() => this.#reveal(event, frame), 100));",
            ),
        ),
        deceives=True,
    ),
    Fault(
        "shown before decode",
        "1,600-px pictures, loaded but not decoded, shown as if they were",
        (
            ("image.decoding = 'sync';", "image.decoding = 'async';"),
            (
                "await Promise.race([image.decode(), hidden]);",
                "await new Promise((loaded) => { image.onload = loaded; });",
            ),
        ),
        width_px=1600,
        gap=0.17,
        deceives=True,
    ),
)


def planted(source: str, fault: Fault) -> str:
    """The player's source with a fault in it.

    Raises:
        UsageError: a piece to change is not there exactly once: the player has changed, and the fault must follow.
    """
    for old, new in fault.patches:
        if source.count(old) != 1:
            raise UsageError(
                f"the fault {fault.name!r} no longer fits {PLAYER}: {old!r} stands there {source.count(old)} times; "
                "adapt multimodal/bench/paint_stage.py to the player"
            )
        source = source.replace(old, new)
    return source


class Played(msgspec.Struct, frozen=True):
    """One tour: what the pixels said, and what the receipts claimed (cue -> same frame)."""

    report: GlassReport
    claimed: dict[int, bool]


class _Shop:
    """Makes a stream per tour; a tour is named `{pairs}-{width_px}-{gap_ms}`. Pictures are drawn once."""

    def __init__(self) -> None:
        self.reveals: list[Reveal] = []
        self._pictures: dict[int, list[EncodedImage]] = {}

    def make(self, tour: str) -> MultiModalStream:
        pairs, width, gap_ms = (int(part) for part in tour.split("-"))
        # No word twice in one place: where the text scrolls by a line, it would look as if it had stood there before.
        random = np.random.default_rng(pairs)
        text = ["".join(random.choice(SYLLABLES, 3)) + " " for _ in range(3 * pairs)]
        cues = [Cue(3 * number + 3, f"p{number}") for number in range(pairs)]
        # One after the other, as a pipe that decodes and encodes gives them, and each well before its words.
        given = [(picture, number * PICTURE_EVERY) for number, picture in enumerate(self.pictures(width, pairs))]
        pictures = PlannedScriptImagePipe(given)
        return MultiModalStream(ScriptTextPipe(text, ttft=TTFT, gap=gap_ms / 1000), pictures, 3, cues=cues)

    def record(self, stream: MultiModalStream) -> Callable[[dict[str, Any]], None]:
        self.reveals = reveals = []

        def line(entry: dict[str, Any]) -> None:
            event = entry.get("event") or {}
            if entry["vantage"] == "emitted" and event.get("kind") == "reveal":
                reveals.append(msgspec.convert(event, Reveal))

        return line

    def pictures(self, width: int, count: int) -> list[EncodedImage]:
        made = self._pictures.setdefault(width, [])
        while len(made) < count:
            made.append(_picture(len(made), width))
        return made[:count]


def _picture(number: int, width: int) -> EncodedImage:
    """A coloured, grainy picture, unlike its neighbours: flat ones would be too easy to send and to decode."""
    height = width // 2
    random = np.random.default_rng(number)
    colour = np.array([[(number * 97) % 200, (number * 53 + 80) % 200, (number * 151 + 40) % 200]])
    rough = random.integers(0, 56, (height // 20, width // 20, 3)) + colour
    pixels = np.kron(rough, np.ones((20, 20, 1))) + random.normal(0, 4, (height, width, 3))
    data = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(data, "WEBP", quality=80, method=0)
    return EncodedImage(f"p{number}", data.getvalue(), "image/webp", width, height)


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>bench paint</title>
<style>body{{margin:16px}}product-tour{{--tour-ratio:2;--tour-text-height:110px}}</style>
<script type="module" src="/tour/player/{player}"></script>
<product-tour src="/tour/whep/{tour}"></product-tour></html>"""


async def _page(request: Request) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(player=PLAYER, tour=request.path_params["tour"]))


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, _Shop]]:
    """The real server on a free port of loopback, with pages and tours for the bench; gives its URL and the shop."""
    shop = _Shop()
    tours = asgi(shop.make, recorder=shop.record, quotas=Quotas.unlimited())
    app = Starlette(routes=[Route("/play/{tour}", _page), Mount("/tour", tours)])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
        # A task of its own, awaited below: a TaskGroup would wrap what the caller's block raises.
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(10):
                while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", shop
        finally:
            await tours.state.sessions.aclose()
            server.should_exit = True
            await running


async def play(
    browser: Browser, url: str, shop: _Shop, pairs: int, fault: Fault = HONEST, *, throttle: float = 1.0
) -> Played:
    """Play one tour in a page of its own and judge it.

    Raises:
        SyncError: the player stopped with an error, or did not come to the end in `TOUR_LIMIT` seconds.
    """
    source = planted(resources.files("multimodal.player").joinpath(PLAYER).read_text(encoding="utf-8"), fault)

    async def player(route: Request_) -> None:
        await route.fulfill(body=source, content_type="text/javascript")

    async with open_page(browser, viewport=VIEWPORT) as page:
        await page.route(f"**/player/{PLAYER}", player)
        await page.goto(f"{url}/play/{pairs}-{fault.width_px}-{fault.gap * 1000:.0f}")
        cdp = await page.context.new_cdp_session(page)
        await cdp.send("Emulation.setCPUThrottlingRate", {"rate": throttle})
        async with watch(page) as glass:
            await page.evaluate("window.tour = document.querySelector('product-tour'), tour.play()")
            state = await _until_over(page)
            await asyncio.sleep(0.3)  # the last picture, too, is looked at once it has settled
        log: Sequence[dict[str, Any]] = await page.evaluate("tour.log")
    if state != "ended":
        raise SyncError(f"the tour of bench paint ({fault.name}) is {state!r} after {len(log)} entries of its log")
    report = await asyncio.to_thread(glass.report, tuple(shop.reveals), log)
    return Played(report, claims(log))


async def _until_over(page: Any) -> str:
    clock = asyncio.get_running_loop().time
    end = clock() + TOUR_LIMIT
    state = ""
    while clock() < end:
        state = await page.evaluate("tour.state")
        if state in ("ended", "error"):
            break
        await asyncio.sleep(0.2)
    return state
