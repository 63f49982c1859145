"""A link inside one process: the same frames as on the wire, on the loop's own clock (real or virtual)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge, UsageError
from multimodal.transport.base import Channel, Inbound
from multimodal.transport.inbox import Inbox
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["MemoryLink", "memory_link"]


class MemoryLink:
    """One end of a pair made by `memory_link`; a `Link`.

    Both channels share one road, as they do over SCTP: a large message ahead delays a small one behind it.
    """

    def __init__(self, latency: float, bytes_per_s: float | None) -> None:
        self._latency = latency
        self._bytes_per_s = bytes_per_s
        self._inbox = Inbox()
        self._peer: MemoryLink | None = None
        self._loop = asyncio.get_running_loop()
        self._leaving: deque[tuple[Inbound | None, int]] = deque()
        self._coming: deque[Inbound | None] = deque()
        self._buffered = 0
        self._free_at = 0.0
        self._severed = self._closed = False
        self._writable: Callable[[], None] = _nothing

    async def opened(self) -> None:
        """A road in memory stands from the start."""

    def send_event(self, text: str) -> None:
        """See `Link.send_event`."""
        self._send("events", text, len(text.encode()))

    def send_image(self, data: bytes) -> None:
        """See `Link.send_image`."""
        self._send("images", data, len(data))

    @property
    def buffered_amount(self) -> int:
        """See `Link.buffered_amount`: what the road's rate has not let go yet."""
        return self._buffered

    async def receive(self) -> Inbound:
        """See `Link.receive`."""
        return await self._inbox.get()

    def on_writable(self, callback: Callable[[], None]) -> None:
        """See `Link.on_writable`."""
        self._writable = callback

    def sever(self) -> None:
        """Cut the road without a word: from now on everything sent, either way, is lost (a dead peer)."""
        self._severed = True
        if self._peer is not None:
            self._peer._severed = True

    async def aclose(self) -> None:
        """See `Link.aclose`. What was sent before arrives before the close does."""
        if not self._closed:
            self._closed = True
            self._inbox.end(ChannelClosedOK("this side closed the link"))
            self._hand_over(None, 0)
            self._writable = _nothing

    def _send(self, channel: Channel, data: str | bytes, size_bytes: int) -> None:
        ended = self._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        if size_bytes > MESSAGE_LIMIT_BYTES:
            raise MessageTooLarge(size_bytes, MESSAGE_LIMIT_BYTES)
        self._hand_over(Inbound(channel, data), size_bytes)

    def _hand_over(self, message: Inbound | None, size_bytes: int) -> None:
        """Put a message, or the close (None), on the road."""
        leaves = max(self._loop.time(), self._free_at)
        if self._bytes_per_s is not None:
            leaves += size_bytes / self._bytes_per_s
        self._free_at = leaves
        self._buffered += size_bytes
        self._leaving.append((message, size_bytes))
        self._loop.call_at(leaves, self._left)

    def _left(self) -> None:
        # The loop's heap does not keep the order of equal times; the two deques do.
        message, size_bytes = self._leaving.popleft()
        self._buffered -= size_bytes
        peer = self._peer
        if message is None:
            self._peer = None
        if peer is not None and not self._severed:
            peer._coming.append(message)
            self._loop.call_later(self._latency, peer._arrived)
        if self._buffered == 0:
            self._writable()

    def _arrived(self) -> None:
        message = self._coming.popleft()
        if message is None:
            self._inbox.end(ChannelClosedOK("the peer closed the link"))
        elif not self._inbox.put(message.channel, message.data):
            peer, self._peer = self._peer, None
            if peer is not None:
                peer._inbox.end(ChannelClosedError("the peer dropped this link: it was flooded"))


def memory_link(*, latency: float = 0.0, bytes_per_s: float | None = None) -> tuple[MemoryLink, MemoryLink]:
    """A server's and a client's end of one road. Must be called in a running loop.

    Args:
        latency: seconds one way.
        bytes_per_s: how fast the road takes bytes, each way; None = at once.

    Raises:
        UsageError: a negative latency, or a rate that is not above 0.
    """
    if latency < 0:
        raise UsageError(f"memory_link latency={latency} must be 0 or more seconds")
    if bytes_per_s is not None and not bytes_per_s > 0:
        raise UsageError(f"memory_link bytes_per_s={bytes_per_s} must be above 0, or None for no limit")
    server, client = MemoryLink(latency, bytes_per_s), MemoryLink(latency, bytes_per_s)
    server._peer, client._peer = client, server
    return server, client


def _nothing() -> None:
    return None
