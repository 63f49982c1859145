"""Finding Debian's Chromium and driving it through Playwright: for `tour --check`, the pixel check and the tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from multimodal.errors import TransportError, UsageError

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

__all__ = ["CHROMIUM_ARGS", "find_chromium", "launch", "open_page"]

CHROMIUM_ARGS = (
    "--no-sandbox",  # root has no user namespace of its own in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-loopback-in-peer-connection",  # a machine without a network has no other candidate
    "--use-fake-ui-for-media-stream",  # and without this leave to see addresses, mDNS hides that one, for ever
)
"""What a headless Chromium needs on a plain Debian, as root, with nothing but loopback."""

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str:
    """The path of the Chromium to drive: `$MULTIMODAL_CHROMIUM`, else the first known name on PATH.

    Raises:
        UsageError: there is none; the message names the command that installs it.
    """
    named = os.environ.get("MULTIMODAL_CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise UsageError(
                f"MULTIMODAL_CHROMIUM is {named!r}, which is no program; point it at a Chromium, or unset it"
            )
        return found
    for name in _NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    raise UsageError(
        "no Chromium on PATH (looked for " + ", ".join(_NAMES) + "): "
        "install it with `apt-get install chromium`, or set MULTIMODAL_CHROMIUM to its path"
    )


@asynccontextmanager
async def launch(*, headless: bool = True, args: Sequence[str] = ()) -> AsyncIterator[Browser]:
    """A running Chromium, closed when the block ends.

    Args:
        headless: False shows a window.
        args: command line options beside `CHROMIUM_ARGS`.

    Raises:
        UsageError: no Chromium, or Playwright is not installed.
        TransportError: out of the block, where the browser itself failed.
    """
    executable = find_chromium()
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError as error:
        raise UsageError(
            "driving a browser needs Playwright: install it with `pip install 'multimodal-stream[test]'`"
        ) from error
    # Only the driver is Playwright's: its own browser cannot be had everywhere, Debian's can.
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, headless=headless, args=[*CHROMIUM_ARGS, *args]
        )
        try:
            yield browser
        except Error as error:
            raise TransportError(f"the browser failed: {error.message.splitlines()[0]}") from error
        finally:
            await browser.close()


@asynccontextmanager
async def open_page(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """A page in a context of its own (no cookies or cache shared), closed with it when the block ends.

    Args:
        browser: from `launch`.
        options: of Playwright's `new_context`, such as `viewport={"width": 500, "height": 500}`.
    """
    context = await browser.new_context(**options)
    try:
        yield await context.new_page()
    finally:
        await context.close()
