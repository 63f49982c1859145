"""A tour on a real page: served by a process of its own, played by the player in a headless Chromium."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import SyncError, UsageError
from multimodal.sync.log import Arrived, Painted, SyncLog

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["BrowserPlayer", "PlayerPage"]

POLL = 0.1
"""Seconds between two looks at the player."""
_STATE = """(() => {
    const tour = document.querySelector('product-tour');
    return [tour.state, tour.log.length, tour.shadowRoot.querySelector('[part=message]')?.textContent ?? ''];
})()"""


class PlayerPage:
    """A page with the player on it.

    Args:
        page: the page, of Playwright's async API; `document.querySelector('product-tour')` is the player.
        recording: where the server records what it emits.
    """

    def __init__(self, page: Page, recording: Path) -> None:
        self.page = page
        self._recording = recording

    async def play(self) -> None:
        """Start the tour, as a press of its button does."""
        await self.page.evaluate("document.querySelector('product-tour').play()")

    async def until(self, state: str, limit: float = 60.0) -> None:
        """Wait for the player's state: ``connecting``, ``playing``, ``paused`` or ``ended``.

        Raises:
            SyncError: it was not reached within `limit` seconds, or the player stopped with an error.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + limit
        while True:
            now, length, message = await self.page.evaluate(_STATE)
            if now == state:
                return
            if now == "error":
                raise SyncError(f"the player stopped with an error after {length} entries of its log: {message!r}")
            if clock() > until:
                raise SyncError(
                    f"the player is {now!r} after {limit:g} s and not {state!r}, with {length} entries in its log;"
                    " give a higher limit, or play faster with --speed"
                )
            await asyncio.sleep(POLL)

    async def log(self) -> SyncLog:
        """The tour so far: what the server says it emitted, what the page says arrived and was painted.

        Raises:
            UsageError: nothing was emitted yet.
        """
        seen: list[dict[str, Any]] = await self.page.evaluate("document.querySelector('product-tour').log")
        emitted = await asyncio.to_thread(SyncLog.read, self._recording)
        arrived = tuple(Arrived(line["t_ms"], line["seq"]) for line in seen if line["vantage"] == "arrived")
        painted = tuple(
            Painted(line["t_ms"], line["frame"], line["seq"], line["visible"])
            for line in seen
            if line["vantage"] == "painted"
        )
        return msgspec.structs.replace(emitted, arrived=arrived, painted=painted, source="")


class BrowserPlayer:
    """Tours in a headless Chromium.

    Args:
        options: of `multimodal tour`, as words.
        made: told of every log that `play` makes.

    Raises:
        UsageError: no Chromium, or no Playwright; the message says how to install it.
    """

    def __init__(self, options: Sequence[str], made: Callable[[SyncLog], object]) -> None:
        from multimodal.browser import find_chromium

        find_chromium()
        try:
            import playwright.async_api  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise UsageError(
                "browser_player drives Chromium through Playwright: pip install 'multimodal-stream[test]'"
            ) from error
        self._options = tuple(options) if "--port" in options else (*options, "--port", "0")
        self._made = made

    @asynccontextmanager
    async def open(self, **context: Any) -> AsyncIterator[PlayerPage]:
        """The page of a tour that is served while the block runs.

        Args:
            context: of Playwright's `new_context`, such as `viewport={"width": 390, "height": 844}`.

        Raises:
            UsageError: the server refuses the options, with its own words.
        """
        from multimodal.browser import launch, open_page
        from multimodal.check import serving

        folder = Path(tempfile.mkdtemp(prefix="multimodal-"))
        try:
            recording = folder / "tour.jsonl"
            async with (
                serving([*self._options, "--record", str(recording)]) as url,
                launch() as browser,
                open_page(browser, **context) as page,
            ):
                await page.goto(url)
                await page.evaluate("document.querySelector('product-tour').scrollIntoView({block: 'start'})")
                yield PlayerPage(page, recording)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def play(self, *, limit: float = 120.0, **context: Any) -> SyncLog:
        """Play the tour to its end, and give its log of all three vantage points.

        Args:
            limit: seconds that it may take, the start of server and browser not counted.
            context: as for `open`.

        Raises:
            SyncError: the player reported an error, or the tour did not end within `limit`.
            UsageError: as `open`; or a call from inside a running event loop.
        """

        async def whole() -> SyncLog:
            async with self.open(**context) as player:
                await player.play()
                await player.until("ended", limit)
                return await player.log()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            log = asyncio.run(whole())
        else:
            raise UsageError(
                "browser_player(...).play() runs an event loop of its own; in an async test use `async with"
                " browser_player(...).open() as player`"
            )
        self._made(log)
        return log
