"""Join a tour over a WebSocket from Python. The only module of ours that imports websockets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from multimodal.errors import ChannelClosedError
from multimodal.transport.inbox import CLIENT_BYTES, CLIENT_MESSAGES, Inbox
from multimodal.transport.outgoing import Message
from multimodal.transport.roads import refusal, seat_url, tour_url
from multimodal.transport.websocket import WebSocketLink
from multimodal.wire import MESSAGE_LIMIT_BYTES

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["JOIN_LIMIT", "join_websocket", "rejoin_websocket"]

JOIN_LIMIT = 10.0
"""Seconds that connecting and the server's answer may take."""


async def join_websocket(url: str, *, token: str = "", origin: str = "") -> WebSocketLink:
    """A link to the tour at `url`, for a `Viewer`, whose protocol then knows the `seat`.

    Args:
        url: the tour's address on any road, such as ``http://127.0.0.1:8080/tour/whep/demo``.
        token: the join token, where the server asks for one; the hello has to carry it too.
        origin: of the page that a browser would have come from ("" = none).

    Raises:
        JoinRefused: the server refused; its message says why.
        ChannelClosedError: it could not be reached, or does not speak WebSocket.
        UsageError: the URL is no tour's.
    """
    return await _connect(tour_url(url, "ws"), token, origin)


async def rejoin_websocket(seat: str, *, token: str = "") -> WebSocketLink:
    """A new link to the seat at this URL, as any road gave it. Args and errors as for `join_websocket`."""
    return await _connect(seat_url(seat, "ws"), token)


async def _connect(url: str, token: str, origin: str = "") -> WebSocketLink:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.typing import Origin

    try:
        connection = await connect(
            url,
            additional_headers={"Authorization": f"Bearer {token}"} if token else {},
            origin=Origin(origin) if origin else None,
            # Pictures are compressed already, and the viewer's own pings say when the road is dead.
            compression=None,
            ping_interval=None,
            open_timeout=JOIN_LIMIT,
            close_timeout=1.0,
            max_size=2 * MESSAGE_LIMIT_BYTES,
        )
    except InvalidStatus as error:
        response = error.response
        wait = response.headers.get("Retry-After")
        raise refusal(url, response.status_code, bytes(response.body or b""), wait) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise ChannelClosedError(f"{url} could not be reached: {error or type(error).__name__}") from error
    shim = _Shim(connection)
    link = WebSocketLink(shim.receive, shim.send, Inbox(CLIENT_MESSAGES, CLIENT_BYTES))
    link.start()
    return link


class _Shim:
    """A client's connection with the face of a server's."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def receive(self) -> Message:
        from websockets.exceptions import ConnectionClosed

        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            said = closed.rcvd
            return {
                "type": "websocket.disconnect",
                "code": 1006 if said is None else said.code,
                "reason": "" if said is None else said.reason,
            }
        return {"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data}

    async def send(self, message: Message) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):  # the reader learns of it, in order
            if message["type"] == "websocket.close":
                await self._connection.close(message["code"], message["reason"])
            else:
                await self._connection.send(message["text"] if "text" in message else message["bytes"])
