"""A link inside one process: the same frames as on the wire, over a simulated network, on the loop's own clock.

Made for virtual time. The network carries datagrams, a link must carry messages whole and in order, so between the two
stands a model of SCTP (RFC 9260). It is simple, and this is all of it:

    M1  A message goes in datagrams of `DATAGRAM_BYTES` at most, without headers. They leave one by one, as fast as the
        bottleneck takes them: there is no congestion window, and so no loss by overflow.
    M2  A datagram is acknowledged when it arrives, and the acknowledgement takes the other direction's bare delay: it
        is never lost, and takes nothing of the rate.
    M3  A lost datagram is sent again when three later ones were acknowledged (once), or when its timer runs out: after
        `RTO_MIN` or three round trips, whichever is more, doubled each time.
    M4  After `RETRANSMISSIONS` timers in a row the link is lost. A datagram that is merely late is not sent again.
    M5  A message arrives with its last datagram; on `events` it waits for those before it, on `images` it does not.
        The close waits for everything.

There is no ICE and no consent check: a dead network shows by the session's own pings first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge
from multimodal.loops import loop_here
from multimodal.sync.link import LinkProfile, Network, SimulatedLink, network
from multimodal.transport.base import Inbound
from multimodal.transport.inbox import Inbox
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["DATAGRAM_BYTES", "RETRANSMISSIONS", "RTO_MIN", "MemoryLink", "memory_link"]

DATAGRAM_BYTES = 1200
"""User data in one SCTP packet of aiortc."""
RTO_MIN = 1.0
"""RFC 9260, section 16, in seconds; three round trips are what its section 6.3.1 makes of the first measurement."""
RETRANSMISSIONS = 10
"""RFC 9260, section 16: Association.Max.Retrans."""
_MISSING_REPORTS = 3
"""RFC 9260, section 7.2.4."""


class MemoryLink:
    """One end of a pair made by `memory_link`; a `Link`.

    Both channels share one road, as they do over SCTP: a large message ahead delays a small one behind it.

    Args:
        link: the network towards the peer.
        back_delay: seconds that an acknowledgement takes.
        round_trip: seconds; what the retransmit timer starts from.
    """

    def __init__(self, link: SimulatedLink, back_delay: float, round_trip: float) -> None:
        self.network = link
        self._inbox = Inbox()
        self._way = _Way(self, link, back_delay, max(RTO_MIN, 3 * round_trip))
        self._peer: MemoryLink | None = None
        self._closed = False
        self._writable: Callable[[], None] = _nothing

    async def opened(self) -> None:
        """A road in memory stands from the start."""

    def send_event(self, text: str) -> None:
        """See `Link.send_event`."""
        self._send(Inbound("events", text), len(text.encode()))

    def send_last(self, text: str) -> None:
        """See `Link.send_last`."""
        self.send_event(text)

    def send_image(self, data: bytes) -> None:
        """See `Link.send_image`."""
        self._send(Inbound("images", data), len(data))

    @property
    def buffered_amount(self) -> int:
        """See `Link.buffered_amount`: what the network's rate has not let go yet."""
        return self._way.buffered_bytes

    async def receive(self) -> Inbound:
        """See `Link.receive`."""
        return await self._inbox.get()

    def on_writable(self, callback: Callable[[], None]) -> None:
        """See `Link.on_writable`."""
        self._writable = callback

    def sever(self) -> None:
        """Cut the road without a word: from now on everything sent, either way, is lost (a dead peer)."""
        self._way.severed = True
        if self._peer is not None:
            self._peer._way.severed = True

    async def aclose(self) -> None:
        """See `Link.aclose`. What was sent before arrives before the close does."""
        if not self._closed:
            self._closed = True
            self._inbox.end(ChannelClosedOK("this side closed the link"))
            self._writable = _nothing
            self._way.carry(None, 0)

    def _send(self, message: Inbound, size_bytes: int) -> None:
        ended = self._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        if size_bytes > MESSAGE_LIMIT_BYTES:
            raise MessageTooLarge(size_bytes, MESSAGE_LIMIT_BYTES)
        self._way.carry(message, size_bytes)

    def _left(self) -> None:
        if self.buffered_amount == 0:
            self._writable()

    def _arrived(self, message: Inbound | None) -> None:
        """A message of ours has reached the peer; None = our close."""
        peer = self._peer
        assert peer is not None
        if message is None:
            peer._way.stop()
            peer._inbox.end(ChannelClosedOK("the peer closed the link"))
        elif not peer._inbox.put(message.channel, message.data):
            self._inbox.end(ChannelClosedError("the peer dropped this link: it was flooded"))

    def _lost(self) -> None:
        self._inbox.end(
            ChannelClosedError(f"the link was lost: a datagram went unanswered {RETRANSMISSIONS} times in a row")
        )


class _Message:
    """A message on the road (None = the close), and how many of its datagrams are still to come."""

    def __init__(self, inbound: Inbound | None, pieces: int) -> None:
        self.inbound = inbound
        self.missing = pieces


class _Piece:
    """A datagram; `number` is that of its last sending."""

    def __init__(self, message: _Message, size_bytes: int) -> None:
        self.message = message
        self.size_bytes = size_bytes
        self.number = -1
        self.arrived = self.hastened = False
        self.timers = self.reports = 0
        self.timer: asyncio.TimerHandle | None = None


class _Way:
    """One direction: datagrams out, messages at the other end (M1-M5)."""

    def __init__(self, owner: MemoryLink, link: SimulatedLink, back_delay: float, rto: float) -> None:
        self.buffered_bytes = 0
        self.severed = False
        self._owner = owner
        self._link = link
        self._back_delay = back_delay
        self._rto = rto
        self._loop = loop_here("a link in memory")
        self._leaving: deque[_Piece] = deque()
        self._busy = self._stopped = False
        self._under_way: list[tuple[float, int, _Piece]] = []
        self._order = 0
        self._missing: dict[int, _Piece] = {}
        self._events: deque[_Message] = deque()
        self._open_images = 0

    def carry(self, inbound: Inbound | None, size_bytes: int) -> None:
        """Put a message, or the close (None), on the road."""
        largest = min(DATAGRAM_BYTES, self._link.profile.mtu_bytes or DATAGRAM_BYTES)
        sizes = [min(largest, size_bytes - at) for at in range(0, size_bytes, largest)] or [0]
        message = _Message(inbound, len(sizes))
        if inbound is not None and inbound.channel == "images":
            self._open_images += 1
        else:
            self._events.append(message)
        self.buffered_bytes += size_bytes
        self._leaving += [_Piece(message, size) for size in sizes]
        self._next()

    def stop(self) -> None:
        """The other end is closed: what has not arrived never will, and nobody waits for it."""
        self._stopped = True
        self._leaving.clear()
        for piece in self._missing.values():
            if piece.timer is not None:
                piece.timer.cancel()
        self._missing.clear()

    def _next(self) -> None:
        if self._busy or self._stopped or not self._leaving:
            return
        self._busy = True
        piece = self._leaving.popleft()
        again, piece.number = piece.number >= 0, self._link.counters.sent
        now = self._loop.time()
        times = self._link.send(piece.size_bytes, now)
        # A datagram that the network refuses takes none of its time, but the loop must have its turn all the same.
        self._loop.call_at(max(now, self._link.free_at), self._left, piece, times, 0 if again else piece.size_bytes)

    def _left(self, piece: _Piece, times: list[float], fresh_bytes: int) -> None:
        self._busy = False
        self.buffered_bytes -= fresh_bytes
        if self.severed or self._stopped:
            pass
        elif times:
            for at in times:
                # The loop's own heap does not keep the order of equal times.
                self._order += 1
                heapq.heappush(self._under_way, (at, self._order, piece))
                self._loop.call_at(at, self._came)
        else:
            self._missing[piece.number] = piece
            piece.reports = 0
            piece.timer = self._loop.call_later(self._rto * 2**piece.timers, self._timed_out, piece)
        self._next()
        self._owner._left()

    def _came(self) -> None:
        _, _, piece = heapq.heappop(self._under_way)
        if self._missing:
            self._loop.call_later(self._back_delay, self._reported, piece.number)
        if piece.arrived:
            return
        piece.arrived = True
        message = piece.message
        message.missing -= 1
        if message.missing == 0 and message.inbound is not None and message.inbound.channel == "images":
            self._open_images -= 1
            self._owner._arrived(message.inbound)
        while self._events and self._events[0].missing == 0:
            if self._events[0].inbound is None and self._open_images:
                break
            self._owner._arrived(self._events.popleft().inbound)

    def _reported(self, number: int) -> None:
        """Datagram `number` was acknowledged: one report more that those sent before it are missing (M3)."""
        for missing in [piece for sent, piece in self._missing.items() if sent < number and not piece.hastened]:
            missing.reports += 1
            if missing.reports == _MISSING_REPORTS:
                missing.hastened = True
                self._again(missing)

    def _timed_out(self, piece: _Piece) -> None:
        piece.timers += 1
        if piece.timers > RETRANSMISSIONS:
            self.stop()
            self._owner._lost()
        else:
            self._again(piece)

    def _again(self, piece: _Piece) -> None:
        del self._missing[piece.number]
        if piece.timer is not None:
            piece.timer.cancel()
        self._leaving.appendleft(piece)
        self._next()


def memory_link(profile: str | LinkProfile | Network | None = None, *, seed: int = 0) -> tuple[MemoryLink, MemoryLink]:
    """A server's and a client's end of one road, made in a running loop.

    Args:
        profile: the network between them (`multimodal.sync.link`), by its name, as one profile for both directions, or
            as both; None = a perfect one. Its windows of freeze and cut count from now.
        seed: of all chance.

    Raises:
        UsageError: an unknown network, or no event loop runs here.
    """
    between = network(profile or LinkProfile())
    began = loop_here("memory_link()").time()
    down = SimulatedLink(between.down, f"{seed}:down", began=began)
    up = SimulatedLink(between.up, f"{seed}:up", began=began)
    server = MemoryLink(down, between.up.delay, between.round_trip)
    client = MemoryLink(up, between.down.delay, between.round_trip)
    server._peer, client._peer = client, server
    return server, client


def _nothing() -> None:
    return None
