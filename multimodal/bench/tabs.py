"""A tab that can be hidden. Playwright's own pages always count as visible, so this one is driven beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from multimodal.errors import SyncError

if TYPE_CHECKING:
    from playwright.async_api import Browser, CDPSession

__all__ = ["ANSWER_LIMIT", "Tab", "open_tab"]

ANSWER_LIMIT = 30.0
"""Seconds that the page has to answer."""
_LOADED = "location.href !== 'about:blank' && document.readyState === 'complete'"


class Tab:
    """A tab of Chromium's default context; made by `open_tab`."""

    def __init__(self, session: CDPSession, target: str, attached: str) -> None:
        self._session = session
        self._target = target
        self._attached = attached
        self._other = ""
        self._count = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        session.on("Target.receivedMessageFromTarget", self._on_message)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, as Playwright's `Page.evaluate` gives it.

        Raises:
            SyncError: it threw, or did not settle within `ANSWER_LIMIT`.
        """
        self._count += 1
        answer = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        parameters = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        message = {"id": self._count, "method": "Runtime.evaluate", "params": parameters}
        await self._session.send(
            "Target.sendMessageToTarget", {"sessionId": self._attached, "message": json.dumps(message)}
        )
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                found = (await answer).get("result", {})
        except TimeoutError:
            raise SyncError(f"the tab did not answer within {ANSWER_LIMIT:g} s: {expression[:80]!r}") from None
        if "exceptionDetails" in found:
            raise SyncError(f"the tab failed in {expression[:80]!r}: {found['exceptionDetails']['text']}")
        return found.get("result", {}).get("value")

    async def hide(self) -> None:
        """Put another tab in front."""
        self._other = (await self._session.send("Target.createTarget", {"url": "about:blank"}))["targetId"]

    async def show(self) -> None:
        """Come back to the front."""
        await self._session.send("Target.activateTarget", {"targetId": self._target})
        await self._session.send("Target.closeTarget", {"targetId": self._other})

    def _on_message(self, event: dict[str, Any]) -> None:
        message = json.loads(event["message"])
        waiting = self._waiting.pop(message.get("id", 0), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


@asynccontextmanager
async def open_tab(browser: Browser, url: str) -> AsyncIterator[Tab]:
    """A tab on `url`, loaded, closed when the block ends.

    Raises:
        SyncError: it was not loaded within `ANSWER_LIMIT`.
    """
    session = await browser.new_browser_cdp_session()
    target = (await session.send("Target.createTarget", {"url": url}))["targetId"]
    # Not flattened: Playwright's sessions cannot address another one, but can wrap a message to it.
    attached = (await session.send("Target.attachToTarget", {"targetId": target, "flatten": False}))["sessionId"]
    try:
        tab = Tab(session, target, attached)
        await _loaded(tab, url)
        yield tab
    finally:
        await session.send("Target.closeTarget", {"targetId": target})
        await session.detach()


async def _loaded(tab: Tab, url: str) -> None:
    """A new tab is an empty page first, and what is asked of that one is lost when the real one takes its place."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            while not await tab.evaluate(_LOADED):  # noqa: ASYNC110 - the page that will be there has no event yet
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise SyncError(f"the tab did not load {url} within {ANSWER_LIMIT:g} s") from None
