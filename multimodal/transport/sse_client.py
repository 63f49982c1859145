"""Join a tour over server-sent events from Python: the last road, which passes wherever a web page does.

The hello opens the stream by POST, further messages are posted as lines, one request at a time, and pictures are
fetched by their URL.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from multimodal import wire
from multimodal.errors import (
    ChannelClosedError,
    ChannelClosedOK,
    JoinRefused,
    MessageTooLarge,
    RemoteProtocolError,
    TransportError,
    UsageError,
)
from multimodal.loops import loop_here
from multimodal.sse_reader import SSEDecoder
from multimodal.transport.base import Inbound
from multimodal.transport.inbox import CLIENT_BYTES, CLIENT_MESSAGES, Inbox
from multimodal.transport.roads import picture_url, refusal, seat_url, tour_url
from multimodal.wire import MESSAGE_LIMIT_BYTES

if TYPE_CHECKING:
    import httpx2

__all__ = ["POST_LIMIT", "SSEViewerLink", "join_sse", "rejoin_sse"]

POST_LIMIT = 10.0
"""Seconds that one request for messages or a picture may take."""
POST_BYTES = 32 * 1024
"""Bytes of messages that one request carries, one larger message aside."""
_WAITING_BYTES = 1024 * 1024
_TRIES = 4
"""Requests made for the same messages or the same picture, where the server says that it is busy."""
_AGAIN = 0.5
"""Seconds before messages that found no server are posted again."""
_PICTURE_LIMIT_BYTES = 32 * 1024 * 1024


async def join_sse(url: str, *, token: str = "") -> SSEViewerLink:
    """A link to the tour at `url`, for a `Viewer`: its hello is the request that opens the stream.

    Args:
        url: the tour's address on any road, such as ``http://127.0.0.1:8080/tour/whep/demo``.
        token: the join token, where the server asks for one.

    Raises:
        UsageError: the URL is no tour's, or httpx2 is not installed. What the server refuses, `receive` raises.
    """
    return SSEViewerLink(tour_url(url, "sse"), token)


async def rejoin_sse(seat: str, *, token: str = "") -> SSEViewerLink:
    """A new link to the seat at this URL, as any road gave it. Args and errors as for `join_sse`."""
    url = seat_url(seat, "sse")
    return SSEViewerLink(url, token)


class SSEViewerLink:
    """The viewer's end of an event stream; a `Link`. Made by `join_sse` or `rejoin_sse`.

    Args:
        url: where the stream is opened.
        token: the join token; "" = none.
    """

    pictures_by_url = True

    def __init__(self, url: str, token: str = "") -> None:
        self._client = _client(token)
        self._url, self._seat = url, ""
        self._inbox = Inbox(CLIENT_MESSAGES, CLIENT_BYTES)
        self._out: deque[str] = deque()
        self._bytes = 0
        self._work = asyncio.Event()
        self._seated = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        """It stands when the hello was answered; what the server says of it, `receive` gives."""

    def send_event(self, text: str) -> None:
        """See `Link.send_event`; the first one opens the stream."""
        ended = self._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        size = len(text.encode())
        if size > MESSAGE_LIMIT_BYTES:
            raise MessageTooLarge(size, MESSAGE_LIMIT_BYTES)
        if self._bytes + size > _WAITING_BYTES:
            self._inbox.end(
                ChannelClosedError(f"more than {_WAITING_BYTES} bytes wait for a server that takes nothing")
            )
            return
        if self._task is None:
            self._task = loop_here("a link").create_task(self._run(text), name="multimodal event stream")
            return
        self._out.append(text)
        self._bytes += size
        self._work.set()

    def send_image(self, data: bytes) -> None:
        """Refused: no viewer sends pictures, and this road carries none.

        Raises:
            UsageError: always.
        """
        raise UsageError("no picture goes over an event stream")

    def send_last(self, text: str) -> None:
        """As `send_event`: a request takes its time, and is lost where the loop ends before."""
        self.send_event(text)

    @property
    def buffered_amount(self) -> int:
        """See `Link.buffered_amount`: what the server has not answered for."""
        return self._bytes

    async def receive(self) -> Inbound:
        """See `Link.receive`.

        Raises:
            JoinRefused: the server did not open the stream.
        """
        return await self._inbox.get()

    def on_writable(self, callback: Any) -> None:
        """See `Link.on_writable`; a viewer says so little that nobody waits for it."""

    async def picture(self, sha256: str) -> bytes:
        """See `FetchesPictures.picture`."""
        await self._seated.wait()
        url = picture_url(self._seat, sha256)
        data = await self._request("GET", url, limit_bytes=_PICTURE_LIMIT_BYTES)
        return data

    async def aclose(self) -> None:
        """See `Link.aclose`. What was not posted is lost."""
        self._inbox.end(ChannelClosedOK("this side closed the connection"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._client.aclose()

    # ---- the stream and the posts --------------------------------------------------------------------------------

    async def _run(self, hello: str) -> None:
        import httpx2

        try:
            async with asyncio.TaskGroup() as group:
                posting = group.create_task(self._post())
                await self._stream(hello)
                posting.cancel()
        except* TransportError as errors:
            self._inbox.end(_first(errors))
        except* (httpx2.HTTPError, httpx2.StreamError, OSError) as errors:
            self._inbox.end(ChannelClosedError(f"{self._url}: the connection was lost: {_name(errors)}"))
        except* RemoteProtocolError as errors:
            self._inbox.end(ChannelClosedError(f"{self._url}: {_name(errors)}"))

    async def _stream(self, hello: str) -> None:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        async with self._client.stream("POST", self._url, content=hello, headers=headers, timeout=_waits()) as response:
            if response.status_code != 200:
                body = await _some(response)
                raise refusal(self._url, response.status_code, body, response.headers.get("Retry-After"))
            decoder = SSEDecoder()
            async for chunk in response.aiter_bytes():
                for event in decoder.feed(chunk):
                    self._came(event.data)
        self._inbox.end(ChannelClosedOK("the server ended the event stream"))

    def _came(self, data: str) -> None:
        if not self._seated.is_set():
            # The server's first word on every connection.
            message = wire.decode_server(data)
            if isinstance(message, wire.Seat):
                self._seat = seat_url(urljoin(self._url, message.path), "sse")
                self._seated.set()
        if not self._inbox.put("events", data):
            raise ChannelClosedError("the server sends faster than this side reads; the connection is given up")

    async def _post(self) -> None:
        await self._seated.wait()
        while True:
            lines: list[str] = []
            size = 0
            while self._out and (not lines or size + len(self._out[0]) <= POST_BYTES):
                lines.append(self._out.popleft())
                size += len(lines[-1].encode())
            if not lines:
                self._work.clear()
                await self._work.wait()
                continue
            try:
                await self._request("POST", f"{self._seat}/messages", ("\n".join(lines) + "\n").encode())
            except (ChannelClosedError, JoinRefused) as error:
                if isinstance(error, JoinRefused) and error.status not in {409, 429, 503}:
                    raise
                # Whether the road is lost, the stream tells, after what is still on its way to us. What was heard all
                # the same does no harm when it comes again.
                self._out.extendleft(reversed(lines))
                await asyncio.sleep(_AGAIN)
                continue
            self._bytes -= size

    async def _request(self, method: str, url: str, body: bytes | None = None, *, limit_bytes: int = 4096) -> bytes:
        import httpx2

        headers = {} if body is None else {"Content-Type": "application/x-ndjson"}
        for attempt in range(_TRIES):
            try:
                async with self._client.stream(method, url, content=body, headers=headers) as response:
                    data = await _some(response, limit_bytes)
                    if response.status_code < 300:
                        return data
                    refused = refusal(url, response.status_code, data, response.headers.get("Retry-After"))
            except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
                raise ChannelClosedError(f"{url} could not be reached: {error or type(error).__name__}") from error
            # 409: the server does not know of the stream yet, or not any more; that tells the stream.
            if refused.status not in {409, 429, 503} or attempt + 1 == _TRIES:
                raise refused
            await asyncio.sleep(min(refused.retry_after or 0.5, POST_LIMIT))
        raise AssertionError


def _client(token: str) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ImportError as error:
        raise UsageError(
            "joining by server-sent events needs httpx2: install it with `pip install 'multimodal-stream[remote]'`"
        ) from error
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(headers=headers, timeout=POST_LIMIT)


def _waits() -> httpx2.Timeout:
    import httpx2

    # The stream may be silent for as long as the viewer itself bears it.
    return httpx2.Timeout(POST_LIMIT, read=None)


async def _some(response: httpx2.Response, limit_bytes: int = 4096) -> bytes:
    data = b""
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > limit_bytes:
            if response.status_code < 300:
                raise ChannelClosedError(f"{response.url} gave more than {limit_bytes} bytes")
            return data[:limit_bytes]
    return data


def _first(errors: BaseExceptionGroup[TransportError]) -> TransportError:
    """A refusal, where there is one: it says more than the failures that it caused."""
    flat = _flat(errors)
    refused = [error for error in flat if isinstance(error, JoinRefused)]
    first = (refused or flat)[0]
    assert isinstance(first, TransportError)
    return first


def _flat(errors: BaseExceptionGroup[Any]) -> list[BaseException]:
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return flat


def _name(errors: BaseExceptionGroup[Any]) -> str:
    error = _flat(errors)[0]
    return str(error) or type(error).__name__
