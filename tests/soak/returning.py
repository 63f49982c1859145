"""A viewer that comes back after every cut, and the road to its seat, which can be cut: on virtual time or real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from multimodal import wire
from multimodal.errors import ChannelClosedError, TransportError
from multimodal.events import AnyEvent
from multimodal.sync.link import LinkProfile
from multimodal.transport.base import Link
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.viewer import Viewer

__all__ = ["BACKOFF", "Emitted", "MemoryRoad", "Returning"]

BACKOFF = (0.25, 0.5, 1.0)
"""Seconds between two attempts; the last goes on."""


class Emitted:
    """What the server emitted, by a seat's recording; `on_event` is called before any viewer is offered it."""

    def __init__(self, on_event: Callable[[AnyEvent], None] | None = None) -> None:
        self.events: list[AnyEvent] = []
        self._on_event = on_event

    def __call__(self, line: dict[str, Any]) -> None:
        if line["vantage"] != "emitted":
            return
        event = wire.decode_event(msgspec.json.encode(line["event"]))
        assert event is not None
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)


class Returning:
    """Views to the stream's end over as many connections as it takes.

    Args:
        connect: gives a link to its seat; raises TransportError where there is no way.
        hello: the first one.
        on_show: called with every bundle when it is painted.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Link]],
        *,
        hello: wire.Hello | None = None,
        on_show: Callable[[tuple[AnyEvent, ...]], None] | None = None,
    ) -> None:
        self.connections = 0
        self.ended = ""
        self._connect, self._hello, self._on_show = connect, hello, on_show
        self._viewer: Viewer | None = None

    @property
    def events(self) -> list[AnyEvent]:
        """Every event that was painted, in order."""
        return [] if self._viewer is None else self._viewer.seen.events

    @property
    def shown_at(self) -> list[float]:
        """When each of them was, in seconds of the loop's clock."""
        return [] if self._viewer is None else self._viewer.seen.at

    @property
    def pictures(self) -> dict[str, bytes]:
        """Those that came whole."""
        return {} if self._viewer is None else self._viewer.seen.pictures

    @property
    def doubled(self) -> int:
        """Events that came again and were dropped."""
        return 0 if self._viewer is None else self._viewer.protocol.doubled

    async def watch(self) -> None:
        """To the end event, or to a goodbye that is none of a cut."""
        attempt = 0
        while not self.ended:
            try:
                link = await self._connect()
            except TransportError:
                await asyncio.sleep(BACKOFF[min(attempt, len(BACKOFF) - 1)])
                attempt += 1
                continue
            self.connections += 1
            if self._viewer is None:
                self._viewer = Viewer(link, hello=self._hello, on_show=self._on_show)
            else:
                self._viewer.link, self._viewer.seen.ended = link, ""
                self._viewer.protocol.rejoin(asyncio.get_running_loop().time())
            before = len(self.events)
            with suppress(ChannelClosedError):
                await self._viewer._view()
            # Without a word, or with a close that nobody announced: it was a cut.
            self.ended = self._viewer.seen.ended.removeprefix("closed")
            attempt = 0 if len(self.events) > before else attempt + 1


class MemoryRoad:
    """Links in memory to one seat, one at a time, and a network that can be down.

    Args:
        live: the session.
        seat: whose road it is.
        delay: seconds one way.
    """

    def __init__(self, live: LiveSession, seat: Seat, delay: float = 0.02) -> None:
        self.live, self.seat, self.up = live, seat, True
        self._profile = LinkProfile(delay=delay)
        self._ends: tuple[MemoryLink, MemoryLink] | None = None

    async def connect(self) -> MemoryLink:
        """A new link, made by the server when the viewer's offer came there."""
        await asyncio.sleep(2 * self._profile.delay)
        if not self.up:
            raise ChannelClosedError("there is no way to the server")
        self._ends = server, client = memory_link(self._profile)
        self.live.connect(self.seat, server)
        return client

    @property
    def connected(self) -> bool:
        """A link was made, and not cut yet."""
        return self._ends is not None

    def cut(self, *, silent: bool) -> None:
        """Nothing passes from now on; both ends notice it by silence alone, or at once."""
        self.up = False
        if self._ends is not None:
            server, client = self._ends
            client.sever()
            if not silent:
                server._lost()
                client._lost()
            self._ends = None

    def restore(self) -> None:
        """New connections come through again; what was cut stays dead."""
        self.up = True
