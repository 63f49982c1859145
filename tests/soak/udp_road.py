"""A road of real peer connections through a relay of ours, which can be cut."""

from __future__ import annotations

from multimodal.errors import ChannelClosedError, JoinRefused, UsageError
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import UdpRelay
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.webrtc import WebRTCLink

__all__ = ["UdpRoad"]

HERE = ("127.0.0.1",)


class UdpRoad:
    """As `MemoryRoad`, over aiortc, both ends in this process.

    Args:
        live: the session.
        seat: whose road it is.
        delay: seconds one way.
    """

    def __init__(self, live: LiveSession, seat: Seat, delay: float = 0.005) -> None:
        self.live, self.seat, self.up = live, seat, True
        self._profile = LinkProfile(delay=delay)
        self._relays: list[UdpRelay] = []
        self._client: WebRTCLink | None = None

    async def connect(self, fresh: bool) -> WebRTCLink:
        """A new connection by a new relay; the offer and its answer are not lost, unless the network is down."""
        if not self.up:
            raise ChannelClosedError("there is no way to the server")
        if self.seat.left and not fresh:
            raise JoinRefused("udp", 404, "no_such_seat", "this seat was given up")
        if self.seat.left:
            self.seat = self.live.sit(Seat(turns=self.seat.turns, record=self.seat.record))
        relay = UdpRelay(self._profile)
        self._relays.append(relay)
        client, offer = await WebRTCLink.offering(bind_addresses=HERE)
        try:
            server, answer = await WebRTCLink.answering(relay.rewrite_offer(offer), bind_addresses=HERE)
            try:
                self.live.connect(self.seat, server)
            except UsageError as error:
                await server.aclose()
                raise JoinRefused("udp", 404, "no_such_seat", str(error)) from error
            await client.accept(await relay.rewrite_answer(answer))
            relay.unplugged = not self.up
            await client.opened()
        except BaseException:
            await client.aclose()
            raise
        self._client = client
        return client

    def cut(self, *, silent: bool) -> None:
        """Nothing passes; not silent = the viewer's end is told, as when its interface goes down."""
        self.up = False
        for relay in self._relays:
            relay.unplugged = True
        if not silent and self._client is not None:
            self._client._end(ChannelClosedError("the interface went down"))

    def restore(self) -> None:
        """Everything passes again, on old connections too."""
        self.up = True
        for relay in self._relays:
            relay.unplugged = False

    async def aclose(self) -> None:
        """Close every relay."""
        for relay in self._relays:
            await relay.aclose()
