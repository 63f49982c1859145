"""A viewer without manners, on any link: says whatever a mutator makes, and notes what it hears."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from multimodal import wire
from multimodal.errors import RemoteProtocolError, TransportError
from multimodal.transport.base import Channel, Link
from tests.fuzz.corpus import CLIENT, NASTY_PARTS, NASTY_TEXT, PARTS
from tests.fuzz.mutator import Mutator

__all__ = ["Attacker", "Say", "sendable"]

Say = Callable[[Channel, str | bytes], Awaitable[None] | None]
"""Sends on a link what a peer could send, and this package's own links would refuse: too large, of the wrong kind."""


def sendable(data: str | bytes) -> str | bytes:
    """As bytes, where no transport could hand it on as text."""
    encoded = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    try:
        encoded.decode()
    except UnicodeDecodeError:
        return encoded
    return data


class Attacker:
    """One connection's worth of messages.

    Args:
        link: the client's end.
        say: how to send on it.
        seed: of everything it says.
        messages: how many it says at most.
        gap: seconds between two of them at most.
    """

    def __init__(self, link: Link, say: Say, seed: int, messages: int = 20, gap: float = 0.2) -> None:
        self.link, self._say, self._gap, self._messages = link, say, gap, messages
        self.said = 0
        self.heard: list[str] = []
        self.bye: str | None = None
        self.goodbyes: list[str] = []
        """The reasons of every goodbye that it said: its connection may end with any of them."""
        self._mutator = Mutator(seed, CLIENT)
        self._rng: random.Random = self._mutator.rng
        self._cursor = -1
        self._bytes = self._epoch = 0
        self._rough = self._rng.random() < 0.25
        """It only sends what cannot be read."""

    async def run(self) -> None:
        """Say everything and go, one way or another, or be sent away."""
        with suppress(TransportError):
            await self.link.opened()
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._listen())
                try:
                    await self._talk()
                finally:
                    # A server that sends it away does so in its own time.
                    await asyncio.sleep(self._rng.choice((0.0, 0.01, 1.0)))
                    listening.cancel()
        if self._rng.random() < 0.8:
            await self.link.aclose()

    async def _talk(self) -> None:
        rng = self._rng
        try:
            if rng.random() < 0.85:
                await self._send(
                    "events", json.dumps({"type": "hello", "v": 1, "cursor": rng.choice((*[-1] * 12, 0, 5, 10**9))})
                )
            for _ in range(self._messages):
                await self._send(*self._message())
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.random() * self._gap)
            if rng.random() < 0.3:
                await self._send("events", '{"type":"bye","reason":"seen enough"}')
        except TransportError:
            return

    def _message(self) -> tuple[Channel, str | bytes]:
        rng = self._rng
        chance = rng.random()
        if chance < 0.08:
            return "images", self._mutator.part(PARTS)
        if chance < 0.1:
            return "images", rng.choice(NASTY_PARTS)
        if chance < 0.2:
            return "events", rng.choice(NASTY_TEXT)
        if chance < 0.65 and not self._rough:
            return "events", json.dumps(self._plausible())
        return "events", self._mutator.message()

    def _plausible(self) -> dict[str, Any]:
        """What the decoder takes, and the session has to judge."""
        rng = self._rng
        number = rng.choice((-(2**53) + 1, -1, 0, 1, 2, self._cursor, self._cursor + 1, 40, 2**53 - 1))
        key = rng.choice(("p0", "p1", "p2", "nothing", "", "x" * 300))
        epoch = rng.choice((self._epoch, self._epoch, abs(number)))
        messages: list[dict[str, Any]] = [
            {"type": "ack", "seq": number, "picture_bytes": rng.choice((-1, 0, self._bytes, 2**40))},
            {"type": "painted", "seq": number, "t_ms": rng.choice((0, -1e308, 1e308, 5.5)), "frame": number},
            {"type": "ready", "key": key, "ok": rng.random() < 0.5, "reason": "x" * rng.choice((0, 5000))},
            {"type": "need", "key": key},
            {"type": "resend", "key": key, "ranges": [[rng.choice((0, 100, 10**9)), rng.choice((1, 200, 10**10))]]},
            {"type": "pong", "id": number, "t_ms": rng.choice((0, -1e308, 1e308)), "at_ms": -1e308},
            {"type": "ping", "id": number, "t_ms": rng.choice((0, 1e308))},
            {"type": "pause"},
            {"type": "resume"},
            {"type": "rewind", "epoch": epoch, "mark": abs(number)},
            {"type": "skip", "epoch": epoch},
            {"type": "interrupt", "epoch": epoch},
            {"type": "ask", "epoch": epoch, "text": "?"},
        ]
        return rng.choice(messages)

    async def _send(self, channel: Channel, data: str | bytes) -> None:
        data = sendable(data)
        if self.bye is not None:
            return
        with suppress(RemoteProtocolError):
            message = wire.decode_client(data)
            if isinstance(message, wire.Bye):
                self.goodbyes.append(message.reason)
        sent = self._say(channel, data)
        if sent is not None:
            await sent
        self.said += 1

    async def _listen(self) -> None:
        while True:
            try:
                inbound = await self.link.receive()
            except TransportError:
                return
            if isinstance(inbound.data, bytes):
                self._bytes += len(inbound.data)
                continue
            message = json.loads(inbound.data)
            self.heard.append(message["type"])
            if message["type"] == "bye":
                self.bye = message["reason"]
            elif message["type"] == "bundle":
                self._cursor = message["events"][-1]["seq"]
                self._epoch = message["events"][-1]["epoch"]
