"""The roads beside WebRTC: the same seats, cursors and messages over a WebSocket, and over server-sent events.

WS    /ws/{tour}[/{seat}]            text frames are the events channel, binary frames the images channel; hello first
GET   /sse/{tour}/{seat}             an event stream, for curl and EventSource; Last-Event-ID is the cursor
GET   /sse/{tour}                    the same in a new seat; its Location says where to come back to
POST  /sse/{tour}[/{seat}]           the same, opened by a hello as its JSON body
POST  /sse/{tour}/{seat}/messages    what the viewer says: one JSON message a line -> 204
GET   /pictures/{tour}/{seat}/{sha}  a picture of that tour, by the SHA-256 that its `asset` named

A WebSocket that is refused is accepted first: a page learns nothing of a refused upgrade. It is closed with 4000 and
the HTTP status, and the code as the reason, such as 4404 no_such_seat.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from multimodal import wire
from multimodal.errors import RemoteProtocolError, TransportError
from multimodal.serving.app import connect, split_seat
from multimodal.serving.auth import bearer
from multimodal.serving.door import Chair, Door
from multimodal.serving.guard import address_of
from multimodal.serving.signalling import Problem, session_path
from multimodal.transport.connection import HELLO_LIMIT
from multimodal.transport.live import Seat
from multimodal.transport.sse import SSELink
from multimodal.transport.websocket import WebSocketLink
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["BODY_WAIT", "roads"]

log = logging.getLogger(__name__)

BODY_WAIT = 10.0
"""Seconds in which a body must arrive."""
_LOOK = 0.5
"""Seconds between two looks at whether the server stops, while an event stream is open."""
_EXACT = 2**53


def roads(door: Door) -> Sequence[BaseRoute]:
    """The routes of these roads."""
    server = _Roads(door)
    return [
        WebSocketRoute("/ws/{tour:path}", server.socket),
        # A server hands an escaped slash on as a plain one, so a tour's name may hold some.
        Route("/sse/{tour:path}/{seat}/messages", server.messages, methods=["POST"]),
        Route("/sse/{tour:path}", server.stream, methods=["GET", "POST"]),
        Route("/pictures/{tour:path}/{seat}/{sha256}", server.picture, methods=["GET"]),
    ]


class _Roads:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._streams: dict[Seat, SSELink] = {}
        """The newest event stream of each seat: a viewer may post before its hello was looked at."""

    async def socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        link = WebSocketLink(websocket.receive, websocket.send)
        try:
            await self._converse(websocket, link)
        finally:
            if link.spoilt:
                self._door.turnstile.traffic.spoilt += 1
                log.info(
                    "a WebSocket of %s ended over bytes that cannot be read: %d", address_of(websocket), link.spoilt
                )

    async def _converse(self, websocket: WebSocket, link: WebSocketLink) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(link.run())
            try:
                hello = await _first_message(link)
                tour, seat_id = split_seat(websocket.path_params["tour"])
                token = hello.join_token or bearer(websocket.headers.get("authorization", ""))
                chair = await self._chair(tour, seat_id, token, address_of(websocket))
                path = session_path(websocket.scope.get("root_path", ""), tour, chair.ticket.id)
                connect(chair, link, hello=hello, seat_path=path)
            except Problem as problem:
                await link.refuse(problem.status, problem.code)
            except TransportError:
                await link.aclose()  # it left before it was let in
            except BaseException:
                await link.refuse(500, "server_fault")
                raise

    async def stream(self, request: Request) -> Response:
        tour, seat_id = split_seat(request.path_params["tour"])
        token = bearer(request.headers.get("authorization", ""))
        if request.method == "POST":
            hello = _hello(await _body(request))
            chair = await self._chair(tour, seat_id, token or hello.join_token, address_of(request))
        else:
            cursor = _cursor(request.headers.get("last-event-id", ""))
            chair = await self._chair(tour, seat_id, token, address_of(request))
            if cursor >= 0 and not (seat_id or chair.seat.greeted or chair.live.kept.fold.seq >= 0):
                # An EventSource comes back to where it was opened, after the end, too: it would tell the tour for ever.
                await chair.live.leave(chair.seat, "it knows another tour")
                raise Problem(
                    404,
                    "no_such_seat",
                    "a Last-Event-ID of another seat, and this address begins a new one",
                    "come back to /sse/{tour}/{seat}: the first message, and Location, say which it is",
                )
            hello = wire.Hello(cursor=cursor, resume=cursor >= 0)
        path = session_path(request.scope.get("root_path", ""), tour, chair.ticket.id)
        return _EventStream(self._door, self._streams, chair, hello, path, vouch=request.method == "GET")

    async def messages(self, request: Request) -> Response:
        chair = await self._at(request)
        body = await _body(request)
        link = self._streams.get(chair.seat)
        if link is None:
            raise Problem(
                409, "no_event_stream", "no event stream is open at this seat", "open one, and post its messages then"
            )
        for line in body.splitlines():
            if line.strip() and not link.deliver(line):
                break  # the stream ends, and says so
        return Response(status_code=204)

    async def picture(self, request: Request) -> Response:
        chair = await self._at(request)
        wanted = request.path_params["sha256"]
        for key, asset in chair.live.kept.fold.assets.items():
            variant = next((each for each in asset.variants[:1] if each.sha256 == wanted), None)
            picture = None if variant is None else chair.live.stream.picture(key)
            if variant is not None and picture is not None:
                headers = {
                    # What has this hash never changes; the path holds a seat, so nobody else may keep it.
                    "Cache-Control": "private, max-age=86400, immutable",
                    "ETag": f'"{wanted}"',
                    "X-Content-Type-Options": "nosniff",
                }
                if headers["ETag"] in request.headers.get("if-none-match", ""):
                    return Response(status_code=304, headers=headers)
                return Response(picture.data, 200, headers, variant.media_type)
        raise Problem(
            404, "no_such_picture", "this tour has described no picture of that hash", "take it from an asset event"
        )

    async def _at(self, request: Request) -> Chair:
        params = request.path_params
        token = bearer(request.headers.get("authorization", ""))
        return await self._door.at(params["tour"], params["seat"], token)

    async def _chair(self, tour: str, seat_id: str, token: str, address: str) -> Chair:
        if seat_id:
            return await self._door.come_back(tour, seat_id, token, address)
        return await self._door.enter(tour, token, address)


class _EventStream(Response):
    """A response that lasts as long as its connection."""

    def __init__(
        self, door: Door, streams: dict[Seat, SSELink], chair: Chair, hello: wire.Hello, path: str, *, vouch: bool
    ) -> None:
        super().__init__()
        self._door, self._streams, self._chair = door, streams, chair
        self._hello, self._path, self._vouch = hello, path, vouch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        location = [(b"location", self._path.encode("latin-1"))]
        link = SSELink(receive, send, vouch=self._vouch, headers=location)
        seat = self._chair.seat
        connect(self._chair, link, hello=self._hello, seat_path=self._path)
        self._streams[seat] = link
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch_server())
                await link.run()
                watching.cancel()
        finally:
            if self._streams.get(seat) is link:
                del self._streams[seat]

    async def _watch_server(self) -> None:
        """A server that stops waits for every response to end, and tells none of them: so this one has to look."""
        while not _server_stops():  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(_LOOK)
        await self._door.sessions.aclose()


def _server_stops() -> bool:
    """Whether a uvicorn that handles the signals of this process was asked to stop; other servers cancel responses."""
    owner = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(owner, "should_exit", False) is True


async def _first_message(link: WebSocketLink) -> wire.Hello:
    try:
        async with asyncio.timeout(HELLO_LIMIT):
            inbound = await link.receive()
    except TimeoutError:
        raise Problem(408, "hello_timeout", f"no hello came within {HELLO_LIMIT:g} s", "say hello first") from None
    return _hello(inbound.data)


def _hello(data: str | bytes) -> wire.Hello:
    try:
        message = wire.decode_client(data)
    except RemoteProtocolError as error:
        raise Problem(400, "bad_hello", str(error)[:200], "the first message is a hello") from error
    if not isinstance(message, wire.Hello):
        raise Problem(400, "bad_hello", f"{type(message).__name__} before hello", "the first message is a hello")
    return message


def _cursor(value: str) -> int:
    if not value:
        return -1
    if not value.isdecimal() or len(value) > 16 or int(value) > _EXACT:
        raise Problem(
            400, "bad_last_event_id", f"Last-Event-ID {value[:40]!r} is no event's id", "send the last id that came"
        )
    return int(value)


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async with asyncio.timeout(BODY_WAIT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MESSAGE_LIMIT_BYTES:
                    raise Problem(
                        413, "body_too_large", f"a body of more than {MESSAGE_LIMIT_BYTES} bytes", "post fewer messages"
                    )
    except TimeoutError:
        message = f"the body did not arrive within {BODY_WAIT:g} s"
        raise Problem(408, "body_timeout", message, "send it in one piece") from None
    except ClientDisconnect:
        raise Problem(400, "body_cut", "the body ended before all of it was there", "send it again") from None
    return body
