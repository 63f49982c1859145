"""A viewer that comes back after every cut, and the road to its seat, which can be cut: on virtual time or real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from multimodal import wire
from multimodal.errors import ChannelClosedError, JoinRefused, UsageError
from multimodal.events import AnyEvent, StreamEnd
from multimodal.sync.link import LinkProfile
from multimodal.transport.assembly import RESEND_AFTER, RESEND_LIMIT
from multimodal.transport.base import Link
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.resilient import ResilientViewer

__all__ = ["Emitted", "MemoryRoad", "Returning"]


STAYS = RESEND_AFTER * (RESEND_LIMIT + 2)
"""Seconds without a byte of a picture after which none is still on its way: by then a viewer has asked for its missing
parts as often as it does, and for the whole of it (V11). While bytes come it stays: their speed is the machine's."""


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


class Returning(ResilientViewer):
    """A `ResilientViewer` on a road of this file.

    Args:
        connect: gives a link to its seat, a new one where it is told so; raises TransportError where there is no way.
        hello: the first one.
        on_show: called with every bundle when it is painted.
        pictures: how many there are: at the end it stays for those still on their way (`STAYS`).
    """

    def __init__(
        self,
        connect: Callable[[bool], Awaitable[Link]],
        *,
        hello: wire.Hello | None = None,
        on_show: Callable[[tuple[AnyEvent, ...]], None] | None = None,
        pictures: int = 0,
    ) -> None:
        self.left = False
        """It has seen everything, and said goodbye."""
        self._expected, self._shown = pictures, on_show

        async def take(url: str, seat: str, token: str) -> tuple[Link, str]:
            return await connect(not seat), "http://server.test/whep/demo/seat"

        super().__init__(
            "http://server.test/whep/demo",
            roads=["whep"],
            take={"whep": take},
            hello=hello,
            on_show=self._on_bundle,
            leave_at_end=False,
        )

    @property
    def events(self) -> list[AnyEvent]:
        """Every event that was painted, in order."""
        return self.seen.events

    def _on_bundle(self, bundle: tuple[AnyEvent, ...]) -> None:
        if self._shown is not None:
            self._shown(bundle)
        if isinstance(bundle[-1], StreamEnd):
            self._leave(-1, 0.0)

    def _leave(self, picture_bytes: int, until: float) -> None:
        if self.protocol.picture_bytes != picture_bytes:
            picture_bytes, until = self.protocol.picture_bytes, self._loop.time() + STAYS
        if len(self.seen.pictures) < self._expected and self._loop.time() < until:
            self._loop.call_later(0.02, self._leave, picture_bytes, until)
            return
        self.protocol.bye("end")
        self._flush()
        self.left, self.seen.ended = True, "end"


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

    async def connect(self, fresh: bool) -> MemoryLink:
        """A new link, made by the server when the viewer's offer came there."""
        await asyncio.sleep(2 * self._profile.delay)
        if not self.up:
            raise ChannelClosedError("there is no way to the server")
        if self.seat.left and not fresh:
            raise JoinRefused("memory", 404, "no_such_seat", "this seat was given up")
        if self.seat.left:
            self.seat = self.live.sit(Seat(turns=self.seat.turns, record=self.seat.record))
        server, client = memory_link(self._profile)
        try:
            self.live.connect(self.seat, server)
        except UsageError as error:
            raise JoinRefused("memory", 404, "no_such_seat", f"{error} ({self.live.reason})") from error
        self._ends = server, client
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
