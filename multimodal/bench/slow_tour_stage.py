"""A tour in a real Chromium behind a slow network, with the figures that its page and the network give."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal import pictures
from multimodal.bench.links_stage import _served
from multimodal.browser import open_page
from multimodal.demos.product_tour.tour import Settings, Tour, tour_app
from multimodal.errors import SyncError
from multimodal.events import AssetReserved, Reveal, Swap
from multimodal.serving.run import Recordings
from multimodal.sync.browsing import PlayerPage
from multimodal.sync.log import SyncLog
from multimodal.sync.relay import behind

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["DESKTOP", "NETWORK", "PHONE", "Shown", "TourSeen", "first_words", "looking_ahead", "play_tours"]

NETWORK = "slow"
"""4 Mb/s and 50 ms each way (`multimodal.sync.link.PROFILES`)."""
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}

_COUNT = """(() => {
    window.pictureBytes = 0;
    const make = RTCPeerConnection.prototype.createDataChannel;
    RTCPeerConnection.prototype.createDataChannel = function (label, ...rest) {
        const channel = make.call(this, label, ...rest);
        if (label === 'images') channel.addEventListener('message', ({ data }) => {
            window.pictureBytes += data.byteLength ?? data.size;
        });
        return channel;
    };
})()"""
"""What the page got on the pictures' channel, counted beside the player and not by it."""
_PRESS = "(() => { window.pressed = performance.now(); document.querySelector('product-tour').play(); })()"
_FIRST = """(() => {
    const { log, state } = document.querySelector('product-tour');
    const text = log.find((line) => line.event?.kind === 'text' && line.event.text.trim());
    const frame = text && log.find((line) => line.vantage === 'painted' && line.seq >= text.seq);
    const start = log.find((line) => line.event?.kind === 'start');
    return [frame ? [frame.t_ms - window.pressed, frame.t_ms - start.t_ms] : null, state];
})()"""


class Shown(msgspec.Struct, frozen=True):
    """A picture when its words came: whether the page had it whole and decoded; if not, whether it was swapped in."""

    key: str
    full: bool
    swapped: bool
    media_type: str
    width_px: int
    size_bytes: int


class TourSeen(msgspec.Struct, frozen=True):
    """A whole tour: its recording, each reveal, and the bytes that came on the pictures' channel."""

    log: SyncLog
    shown: tuple[Shown, ...]
    picture_bytes: int

    @property
    def share(self) -> float:
        """Reveals whose full picture was decoded already, of all that were expected."""
        return sum(each.full for each in self.shown) / max(1, len(self.log.plan or self.shown))


@contextmanager
def looking_ahead(count: int) -> Iterator[None]:
    """So many pictures are asked for before they are due, for streams of this process; 1 = the next alone."""
    usual = pictures.LOOK_AHEAD
    pictures.LOOK_AHEAD = count
    try:
        yield
    finally:
        pictures.LOOK_AHEAD = usual


async def play_tours(
    browser: Browser, tour: Tour, viewport: dict[str, Any], *, speed: float, times: int = 1
) -> list[TourSeen]:
    """Play a tour to its end, so many times in one browser profile: later ones may find its pictures there.

    Args:
        browser: from `multimodal.browser.launch`.
        tour: what is played.
        viewport: of the page, as `DESKTOP` and `PHONE`.
        speed: how many times as fast as naturally.
        times: how often.

    Raises:
        SyncError: the player stopped with an error, or did not come to the end.
    """
    seen = []
    async with _stage(tour, speed) as (url, recording), open_page(browser, **viewport) as page:
        await page.add_init_script(_COUNT)
        for number in range(times):
            player = PlayerPage(page, Path(f"{recording}.{number + 1}") if number else recording)
            await _visit(page, url)
            await page.evaluate(_PRESS)
            await player.until("ended", 60 + 0.6 * len(tour.plan.tokens) / speed)
            log = await player.log()
            lines: list[dict[str, Any]] = await page.evaluate("document.querySelector('product-tour').log")
            seen.append(TourSeen(log, _shown(log, lines), await page.evaluate("window.pictureBytes")))
            await asyncio.sleep(1.0)  # the page puts the last pictures away
            await page.goto("about:blank")
    return seen


async def first_words(browser: Browser, tour: Tour, viewport: dict[str, Any]) -> tuple[float, float]:
    """Milliseconds to the frame of the first text, from the press of the button and from the arrival of `start`.

    Raises:
        SyncError: no word within a minute.
    """
    async with _stage(tour, 1.0) as (url, _), open_page(browser, **viewport) as page:
        await _visit(page, url)
        await page.evaluate(_PRESS)
        state = ""
        for _ in range(600):
            times, state = await page.evaluate(_FIRST)
            if times is not None:
                return float(times[0]), float(times[1])
            if state == "error":
                break
            await asyncio.sleep(0.1)
    raise SyncError(f"no word was painted; the player is {state!r}")


async def _visit(page: Page, url: str) -> None:
    await page.goto(url)
    await page.evaluate("customElements.whenDefined('product-tour').then(() => true)")
    await page.evaluate("document.querySelector('product-tour').scrollIntoView({block: 'start'})")


@asynccontextmanager
async def _stage(tour: Tour, speed: float) -> AsyncIterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory(prefix="multimodal-") as folder:
        recording = Path(folder) / "tour.jsonl"
        app = behind(tour_app(tour, Settings(speed=speed), Recordings(recording).begin), NETWORK)
        async with _served(app) as url:
            yield url, recording


def _shown(log: SyncLog, lines: list[dict[str, Any]]) -> tuple[Shown, ...]:
    painted = {
        entry["key"]: entry["decoded"] and not entry["preview"]
        for line in reversed(lines)
        if line["vantage"] == "painted"
        for entry in reversed(line["reveals"])
    }
    assets = {event.key: event for event in log.of(AssetReserved)}
    swapped = {event.key for event in log.of(Swap) if event.ok}
    found = []
    for reveal in log.of(Reveal):
        asset = assets.get(reveal.key)
        variant = asset.variants[0] if asset and asset.variants else None
        of = ("", 0, 0) if variant is None else (variant.media_type, variant.width_px, variant.size_bytes)
        full = not reveal.preview and painted.get(reveal.key, False)
        found.append(Shown(reveal.key, full, reveal.key in swapped, *of))
    return tuple(found)
