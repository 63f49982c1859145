"""Filming a page of Chromium: one screenshot per frame through CDP traces, and the isolated world's notes."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from multimodal.errors import TransportError
from multimodal.glass_world import BINDING

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

__all__ = ["Camera"]

_TRACE = {
    "transferMode": "ReturnAsStream",  # the next trace can start before this one's megabytes are read
    "traceConfig": {
        # Screenshots alone: what the page did is told by the isolated world, and a timeline costs CPU.
        "includedCategories": ["disabled-by-default-devtools.screenshot"],
        "excludedCategories": ["*"],
        "recordMode": "recordUntilFull",
    },
}
_CDP_WAIT = 20.0
_POLL = 0.02


class Camera:
    """Takes a page's screenshots through one trace after the other, and its notes through the binding."""

    def __init__(self, cdp: CDPSession, notes: list[dict[str, Any]], shots: list[bytes]) -> None:
        self._cdp = cdp
        self._notes = notes
        self._shots = shots
        self.ending = False
        self._streams: list[str] = []
        self._started = 0.0
        self._changed = 0.0
        self._complete: asyncio.Future[str] | None = None
        cdp.on("Tracing.tracingComplete", self._completed)

    def noted(self, message: Mapping[str, Any]) -> None:
        if message.get("name") != BINDING:
            return
        notes = json.loads(message["payload"])
        self._notes.extend(notes)
        if any(note["kind"] == "pic" for note in notes):
            self._changed = time.monotonic()

    def _completed(self, message: Mapping[str, Any]) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(message["stream"])

    async def start(self) -> None:
        await self._cdp.send("Tracing.start", _TRACE)
        self._started = time.monotonic()

    async def _finish(self) -> None:
        self._complete = asyncio.get_running_loop().create_future()
        await self._cdp.send("Tracing.end")
        try:
            async with asyncio.timeout(_CDP_WAIT):
                self._streams.append(await self._complete)
        except TimeoutError:
            raise TransportError(
                f"waited {_CDP_WAIT:.0f} s for Chromium to finish a trace; is the browser still alive?"
            ) from None

    async def turn(self) -> None:
        """Start a new trace before the 450th screenshot (7.5 s at 60 per second), while no picture is changing."""
        while not self.ending:
            await asyncio.sleep(_POLL)
            now = time.monotonic()
            age, calm = now - self._started, now - self._changed
            if (age > 2.0 and calm > 0.6) or (age > 4.5 and calm > 0.08) or age > 6.5:
                await self._finish()
                await self.start()

    async def stop(self) -> None:
        await self._finish()
        for stream in self._streams:
            self._shots.extend(await self._read(stream))
        self._streams.clear()

    async def _read(self, stream: str) -> list[bytes]:
        parts: list[bytes] = []
        while True:
            chunk = await self._cdp.send("IO.read", {"handle": stream, "size": 1 << 20})
            data = chunk["data"].encode()
            parts.append(base64.b64decode(data) if chunk.get("base64Encoded") else data)
            if chunk["eof"]:
                break
        await self._cdp.send("IO.close", {"handle": stream})
        events = json.loads(b"".join(parts))["traceEvents"]
        shots = sorted(
            (event for event in events if event["name"] == "Screenshot"), key=lambda event: float(event["ts"])
        )
        return [base64.b64decode(event["args"]["snapshot"]) for event in shots]
