"""The bounded queue between a link's listeners, which only enqueue, and its one reader."""

from __future__ import annotations

import asyncio
from collections import deque

from multimodal.errors import ChannelClosedError, TransportError
from multimodal.transport.base import Channel, Inbound

__all__ = ["CLIENT_BYTES", "CLIENT_MESSAGES", "INBOX_BYTES", "INBOX_MESSAGES", "Inbox"]

INBOX_MESSAGES = 1024
"""A viewer says some 100 messages a second at most: this is ten seconds in which nobody read."""
INBOX_BYTES = 1024 * 1024
CLIENT_MESSAGES = 16 * 1024
"""A viewer's own inbox: what it missed in an hour comes at once."""
CLIENT_BYTES = 16 * 1024 * 1024


class Inbox:
    """Messages in order, then the reason why no more will come.

    Args:
        limit_messages: messages that may wait.
        limit_bytes: bytes (characters, for text) that may wait.
    """

    def __init__(self, limit_messages: int = INBOX_MESSAGES, limit_bytes: int = INBOX_BYTES) -> None:
        self._limit_messages = limit_messages
        self._limit_bytes = limit_bytes
        self._waiting: deque[Inbound] = deque()
        self._bytes = 0
        self._ended: TransportError | None = None
        self._changed = asyncio.Event()

    @property
    def ended(self) -> TransportError | None:
        """Why no more will come; None while the road stands."""
        return self._ended

    def put(self, channel: Channel, data: str | bytes) -> bool:
        """Enqueue; never raises. False = the peer has flooded the inbox and must be dropped."""
        if self._ended is not None:
            return True
        if len(self._waiting) >= self._limit_messages or self._bytes + len(data) > self._limit_bytes:
            self._waiting.clear()
            self.end(
                ChannelClosedError(
                    f"the peer flooded the link: more than {self._limit_messages} messages or "
                    f"{self._limit_bytes} bytes waited to be read; it was dropped"
                )
            )
            return False
        self._waiting.append(Inbound(channel, data))
        self._bytes += len(data)
        self._changed.set()
        return True

    def end(self, reason: TransportError) -> None:
        """No more will come; what waits can still be read. The first reason stays."""
        if self._ended is None:
            self._ended = reason
        self._changed.set()

    async def get(self) -> Inbound:
        """The next message. Cancelling loses nothing.

        Raises:
            ChannelClosedOK: closed on purpose, and everything was read.
            ChannelClosedError: lost or flooded.
        """
        while not self._waiting:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        self._bytes -= len(message.data)
        return message
