"""What the links over one ordered byte stream have in common: a queue that is bounded, and one task that empties it.

Sending is synchronous (L1), the server's interface for it is not. So a message waits here until the transport has
taken it, and counts in `buffered_amount` until then: the scheduler paces only by what it is told. A transport with a
large buffer of its own takes everything at once and makes the figure a lie; `serving.run` keeps those buffers small.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, NamedTuple

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge, TransportError
from multimodal.loops import loop_here
from multimodal.transport.base import Inbound
from multimodal.transport.inbox import Inbox
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["CLOSE_LIMIT", "OUT_LIMIT_BYTES", "QueuedLink", "Receive", "Send"]

log = logging.getLogger(__name__)

OUT_LIMIT_BYTES = 1024 * 1024
"""Bytes that may wait here. The scheduler stops long before; whoever sends past it has no regard for the figure."""
CLOSE_LIMIT = 2.0
"""Seconds that a close waits for what was sent before it; a peer that reads nothing must not hold it up."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
"""ASGI's `receive`: the next message of the server."""
Send = Callable[[Message], Awaitable[None]]
"""ASGI's `send`: returns when the server has taken the message."""


class _Out(NamedTuple):
    message: Message
    size_bytes: int
    text: str


class QueuedLink:
    """A `Link` over ASGI's `receive` and `send`; `run` carries its messages, and must be running.

    Args:
        receive: gives what the peer does.
        send: takes what goes out.
        inbox: None = one for what a viewer says.
    """

    def __init__(self, receive: Receive, send: Send, inbox: Inbox | None = None) -> None:
        self._receive, self._send_asgi = receive, send
        self._inbox = Inbox() if inbox is None else inbox
        self._out: deque[_Out] = deque()
        self._bytes = 0
        self.high_water_bytes = 0
        """The most that ever waited here."""
        self._work = asyncio.Event()
        self._stands = asyncio.Event()
        self._done = asyncio.Event()
        self._running = self._closing = False
        self._under_way = False
        self._writing: asyncio.Task[bool] | None = None
        self._writable: Callable[[], None] = _nothing
        self._close_code, self._close_reason = 1000, ""
        self._task: asyncio.Task[None] | None = None

    # ---- the link ------------------------------------------------------------------------------------------------

    async def opened(self) -> None:
        """See `Link.opened`: returns when `run` has begun, or has ended."""
        await self._stands.wait()
        if self._inbox.ended is not None:
            raise self._inbox.ended.with_traceback(None)

    def send_event(self, text: str) -> None:
        """See `Link.send_event`."""
        size = len(text.encode())
        self._check(size)
        message = self._event(text)
        if message is not None:
            self._put(_Out(message, size, text))

    def send_image(self, data: bytes) -> None:
        """See `Link.send_image`."""
        self._check(len(data))
        self._put(_Out(self._image(data), len(data), ""))

    def send_last(self, text: str) -> None:
        """See `Link.send_last`. What waits goes first; where the transport takes nothing more, nothing of it goes."""
        self.send_event(text)
        if self._under_way or not self._stands.is_set():
            return
        while self._out:
            step = self._send_asgi(self._out[0].message)
            assert isinstance(step, Coroutine)
            try:
                # A transport that has room takes it without waiting for anything.
                step.send(None)
            except StopIteration:
                self._took(self._out.popleft())
            except Exception as error:
                log.debug("the last words could not be sent: %s", error)
                return
            else:
                step.close()
                return

    @property
    def buffered_amount(self) -> int:
        """See `Link.buffered_amount`: what the transport has not taken yet."""
        return self._bytes

    async def receive(self) -> Inbound:
        """See `Link.receive`."""
        return await self._inbox.get()

    def on_writable(self, callback: Callable[[], None]) -> None:
        """See `Link.on_writable`."""
        self._writable = callback

    async def aclose(self) -> None:
        """See `Link.aclose`. What was sent before goes out first, within `CLOSE_LIMIT`. Cancelling closes at once."""
        self._writable = _nothing
        self._end(ChannelClosedOK("this side closed the connection"))
        self._closing = True
        self._work.set()
        if not self._running:
            return
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await self._done.wait()
        except TimeoutError:
            log.info("the peer took nothing for %g s; the connection is closed over %d bytes", CLOSE_LIMIT, self._bytes)
        finally:
            if self._writing is not None:
                self._writing.cancel()
        await self._done.wait()
        if self._task is not None:
            await asyncio.wait((self._task,))

    # ---- the run -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run in a task of its own, which `aclose` ends: on the client's side there is no request to run in."""
        self._running = True
        self._task = loop_here("a link").create_task(self.run(), name="multimodal link")

    async def run(self) -> None:
        """Carry messages until either side closes. Cancelling ends the link; nothing of the road's is raised."""
        self._running = True
        try:
            await self._carry()
        finally:
            self._running = False
            self._end(ChannelClosedError("the connection was given up"))
            self._out.clear()
            self._bytes = 0
            self._stands.set()
            self._done.set()

    async def _carry(self) -> None:
        if not await self._bears(self._begin):
            return
        self._stands.set()
        async with asyncio.TaskGroup() as group:
            self._writing = writing = group.create_task(self._bears(self._write))
            reading = group.create_task(self._bears(self._read))
            await asyncio.wait((writing, reading), return_when=asyncio.FIRST_COMPLETED)
            # Whichever has ended, the other would wait for something that never comes.
            writing.cancel()
            reading.cancel()

    async def _bears(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Whether the road bore it; else that is its end. Each server has an error of its own for a peer that has gone,
        and the interface names none."""
        try:
            await act()
        except Exception as error:
            log.debug("a connection was lost", exc_info=True)
            self._end(ChannelClosedError(f"the connection was lost: {error or type(error).__name__}"))
            return False
        return True

    async def _write(self) -> None:
        while True:
            while self._out:
                self._under_way = True
                await self._send_asgi(self._out[0].message)
                self._under_way = False
                self._took(self._out.popleft())
            if self._closing:
                await self._finish()
                return
            self._work.clear()
            await self._work.wait()

    def _took(self, out: _Out) -> None:
        self._bytes -= out.size_bytes
        self._sent(out.text)
        if self._bytes == 0:
            self._writable()

    # ---- what the two roads do each in its way -------------------------------------------------------------------

    def _event(self, text: str) -> Message | None:
        """A text as the transport takes it; None = this road has no use for it."""
        raise NotImplementedError

    def _image(self, data: bytes) -> Message:
        raise NotImplementedError

    async def _begin(self) -> None:
        """Open the road."""
        raise NotImplementedError

    async def _read(self) -> None:
        """Enqueue what comes, and return when the peer has gone."""
        raise NotImplementedError

    async def _finish(self) -> None:
        """Close the road."""
        raise NotImplementedError

    def _sent(self, text: str) -> None:
        """The transport has taken it ("" = a part of a picture)."""

    # ---- ends ----------------------------------------------------------------------------------------------------

    def _check(self, size_bytes: int) -> None:
        ended = self._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        if size_bytes > MESSAGE_LIMIT_BYTES:
            raise MessageTooLarge(size_bytes, MESSAGE_LIMIT_BYTES)

    def _put(self, out: _Out) -> None:
        if self._bytes + out.size_bytes > OUT_LIMIT_BYTES:
            error = ChannelClosedError(
                f"more than {OUT_LIMIT_BYTES} bytes wait for a peer that takes nothing; the connection is given up"
            )
            self._drop(error)
            raise error
        self._out.append(out)
        self._bytes += out.size_bytes
        self.high_water_bytes = max(self.high_water_bytes, self._bytes)
        self._work.set()

    def _drop(self, reason: TransportError, code: int = 1011) -> None:
        """Cut the peer off: nothing that waits is worth its place any more."""
        self._close_code = code
        self._end(reason)
        while len(self._out) > self._under_way:
            self._bytes -= self._out.pop().size_bytes
        self._closing = True
        self._work.set()

    def _end(self, reason: TransportError) -> None:
        self._inbox.end(reason)


def _nothing() -> None:
    return None
