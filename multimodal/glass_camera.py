"""Filming a page of Chromium: one screenshot per frame through CDP traces, and the isolated world's notes."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from multimodal.errors import TransportError
from multimodal.glass_world import BINDING

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

__all__ = ["Camera", "screenshots"]

_TRACE = {
    # The next trace can start before this one's megabytes are read, and without waiting until they are JSON:
    # 5 ms from one trace to the next where JSON takes 30-150.
    "transferMode": "ReturnAsStream",
    "streamFormat": "proto",
    "traceConfig": {
        # Screenshots alone: what the page did is told by the isolated world, and a timeline costs CPU.
        "includedCategories": ["disabled-by-default-devtools.screenshot"],
        "excludedCategories": ["*"],
        "recordMode": "recordUntilFull",
    },
}
_CDP_WAIT = 20.0
_POLL = 0.02
_READ_TRIES = 5
_READ_AGAIN = 0.1
_JPEG_IN_JSON = b'"/9j/'


class Camera:
    """Takes a page's screenshots through one trace after the other, and its notes through the binding."""

    def __init__(self, cdp: CDPSession, notes: list[dict[str, Any]], shots: list[bytes]) -> None:
        self._cdp = cdp
        self._notes = notes
        self._shots = shots
        self.ending = False
        self._running = False
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
        self._running = True
        self._started = time.monotonic()

    async def _finish(self) -> None:
        self._complete = asyncio.get_running_loop().create_future()
        self._running = False
        await self._cdp.send("Tracing.end")
        try:
            async with asyncio.timeout(_CDP_WAIT):
                self._streams.append(await self._complete)
        except TimeoutError:
            raise TransportError(
                f"waited {_CDP_WAIT:.0f} s for Chromium to finish a trace; is the browser still alive?"
            ) from None

    async def turn(self) -> None:
        """Start a new trace before the 450th screenshot (7.5 s at 60 per second), while no picture is due.

        Right after a picture, since the next one is then furthest away; or in a long calm; or when it must be.
        """
        while not self.ending:
            await asyncio.sleep(_POLL)
            now = time.monotonic()
            age, calm = now - self._started, now - self._changed
            if (age > 5.8 and (0.1 < calm < 0.16 or calm > 1.0)) or age > 6.5:
                await self._finish()
                await self.start()

    async def stop(self) -> None:
        if self._running:
            await self._finish()
        for stream in self._streams:
            self._shots.extend(await self._read(stream))
        self._streams.clear()

    async def _read(self, stream: str) -> list[bytes]:
        parts: list[bytes] = []
        offset = failures = 0
        while True:
            try:
                chunk = await self._cdp.send("IO.read", {"handle": stream, "size": 1 << 20, "offset": offset})
                if chunk["eof"] and not chunk["data"] and not offset:
                    raise TransportError("Chromium says that a trace is empty; it never is, so read it again")
            except Exception:
                # Seen on a busy machine, once in a hundred traces: "Read failed", and all is well a moment later.
                failures += 1
                if failures == _READ_TRIES:
                    raise
                await asyncio.sleep(_READ_AGAIN)
                continue
            data = chunk["data"].encode()
            parts.append(base64.b64decode(data) if chunk.get("base64Encoded") else data)
            offset += len(parts[-1])
            if chunk["eof"]:
                break
        await self._cdp.send("IO.close", {"handle": stream})
        return screenshots(b"".join(parts))


def screenshots(trace: bytes) -> list[bytes]:
    """The JPEG pictures in a Perfetto trace, in the order they were taken.

    Only what is needed of the format (perfetto.dev, `trace_packet.proto`, `track_event.proto`): a trace is a row of
    packets (field 1), a packet may hold a track event (11) with debug annotations (4), of which one is a JSON string
    (9) with the picture in base64. All of them come from one thread, whose packets keep their order.
    """
    return [
        base64.b64decode(text[1:-1])
        for packet in _fields(trace, 1)
        for event in _fields(packet, 11)
        for annotation in _fields(event, 4)
        for text in _fields(annotation, 9)
        if text.startswith(_JPEG_IN_JSON)
    ]


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields of one number in a protobuf message; a truncated rest is left out."""
    at, end = 0, len(message)
    try:
        while at < end:
            tag, at = _varint(message, at)
            wire = tag & 7
            if wire == 0:
                _, at = _varint(message, at)
            elif wire == 1:
                at += 8
            elif wire == 5:
                at += 4
            elif wire == 2:
                length, at = _varint(message, at)
                if tag >> 3 == wanted and at + length <= end:
                    yield bytes(message[at : at + length])
                at += length
            else:
                return
    except IndexError:
        return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
