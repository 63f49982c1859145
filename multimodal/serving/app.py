"""The ASGI application: WHEP-style signalling for tours, and the player's files. Mountable under any prefix.

POST   /whep/{tour}          Content-Type application/sdp, an offer -> 201, the answer, Location (a seat), ETag
POST   /whep/{tour}/{seat}   the same, for a viewer that comes back to its seat: it goes on where it was
DELETE /whep/{tour}/{seat}   gives up the seat -> 200, and 404 from then on
the same seats over a WebSocket, and over server-sent events: `multimodal.serving.roads`
GET    /sessions/{tour}             for operators: the sessions of a tour, or of all (``*``)
DELETE /sessions/{tour}/{session}   for operators: ends one
GET    /player/{file}        the player
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.journal import Journal
from multimodal.serving.auth import Seats, Tokens, bearer, no_such_seat
from multimodal.serving.discreet import be_discreet
from multimodal.serving.door import Chair, Door, MakeStream, Recorder, ResumeStream, server_fault
from multimodal.serving.guard import Guard, address_of
from multimodal.serving.limits import Proxies, Quotas, Traffic
from multimodal.serving.origins import Origins
from multimodal.serving.sessions import Sessions
from multimodal.serving.settings import check_settings
from multimodal.serving.signalling import (
    OFFER_LIMIT_BYTES,
    SDP_TYPE,
    Problem,
    check_content_type,
    check_offer,
    session_path,
)
from multimodal.serving.spent import SpentTokens
from multimodal.serving.turn import Turn
from multimodal.serving.turnstile import Turnstile
from multimodal.transport.base import Link
from multimodal.transport.connection import Connection, Limits
from multimodal.transport.live import KEEP
from multimodal.transport.webrtc import IceServer, WebRTCLink

__all__ = ["MAX_SESSIONS", "OFFER_WAIT", "asgi", "connect", "split_seat"]

MAX_SESSIONS = 64
"""One core carries about 170 viewers beside other load; half of that and less leaves room for what makes the text."""

OFFER_WAIT = 10.0
"""Seconds in which an offer's body must arrive."""

_MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".d.ts": "text/plain; charset=utf-8",
}


def asgi(
    make_stream: MakeStream,
    *,
    resume_stream: ResumeStream | None = None,
    journal: Journal | None = None,
    shared: Collection[str] = (),
    secret: str | bytes | None = None,
    older_secrets: Sequence[str | bytes] = (),
    tokens: bool | None = None,
    spent: SpentTokens | None = None,
    quotas: Quotas | None = None,
    trusted_proxies: Sequence[str] = (),
    turn: Turn | None = None,
    keep: float = KEEP,
    cors_origins: Sequence[str] = (),
    ice_servers: Sequence[IceServer] = (),
    bind_addresses: Sequence[str] | None = None,
    max_sessions: int = MAX_SESSIONS,
    limits: Limits | None = None,
    recorder: Recorder | None = None,
) -> Starlette:
    """An application that serves tours to browsers: ``app.mount("/tour", multimodal.asgi(make_stream))``.

    Sessions end when their viewer leaves, or did not come back for `keep` seconds, and all of them when the server
    stops: by the lifespan, where this runs by itself; where it is mounted, and lifespans do not reach it, when the
    event loop ends. A server that a signal other than Ctrl-C stops may die without that: hand the lifespan to the outer
    application, which then ends them in order,
    ``tours = asgi(...); Starlette(routes=[Mount("/tour", tours)], lifespan=tours.router.lifespan_context)``.

    Args:
        make_stream: the stream of a tour, given its name; called once for each session, may be async. It raises
            UsageError or KeyError for a tour that it does not know; the log says so, as it may be a fault of its own.
        resume_stream: the stream of a tour that goes on where a killed server left it, given its name and the place;
            None = such a tour ends with the error `server_restarted`, after what it had told.
        journal: where events are kept; one that outlives the process lets viewers come back to a server that was
            killed and started again. None = in memory.
        shared: tours that all their viewers watch together; who comes after the end begins another telling.
        secret: signs seats and join tokens; give the same to every process that viewers may come back to. None = a
            random one, which ends with the process.
        older_secrets: those before it, whose tokens and seats are still good.
        tokens: whether a join token is asked for (`multimodal.serving.auth`); None = where a secret is given.
        spent: remembers tokens whose seat was given up; None = in memory, until the process ends.
        quotas: how much one address and one token may ask for; None = the defaults of `Quotas`.
        trusted_proxies: addresses and networks whose `X-Forwarded-For` says who asks.
        turn: the relay that viewers are told of, with credentials that end.
        keep: seconds for which a session without any connection is kept.
        cors_origins: origins whose pages may play tours from here (``*`` = all); same origin needs none.
        ice_servers: STUN and TURN servers for the server's side.
        bind_addresses: addresses to offer; None = those of all interfaces, or loopback where there is no other.
        max_sessions: viewers at one time; more get 503.
        limits: the named waits of a connection.
        recorder: called with the stream of every new seat; gives what takes the lines of its recording.

    Raises:
        UsageError: an argument of the wrong kind or out of range, a secret that can be guessed, an origin or a proxy
            that is none.
    """
    if not callable(make_stream):
        raise UsageError(f"asgi: make_stream={make_stream!r} cannot be called; give a function from a tour's name")
    if isinstance(max_sessions, bool) or not isinstance(max_sessions, int) or max_sessions < 1:
        raise UsageError(f"max_sessions={max_sessions!r} must be a whole number, 1 or more")
    check_settings(
        {
            "journal": journal,
            "spent": spent,
            "quotas": quotas,
            "turn": turn,
            "limits": limits,
            "resume_stream": resume_stream,
            "recorder": recorder,
            "shared": shared,
            "keep": keep,
            "tokens": tokens,
            "bind_addresses": bind_addresses,
            "ice_servers": ice_servers,
            "secret": secret,
        }
    )
    if tokens and secret is None:
        raise UsageError("tokens=True: give the secret that they are signed with")
    if older_secrets and secret is None:
        raise UsageError("older_secrets without a secret: give the one that signs as secret")
    be_discreet()
    origins, proxies, traffic = Origins(cors_origins), Proxies(trusted_proxies), Traffic(quotas)
    sessions = Sessions(max_sessions)
    judge = Tokens(secret, older=older_secrets) if secret is not None and tokens is not False else None
    turnstile = Turnstile(judge, spent=spent, traffic=traffic)
    door = Door(
        make_stream,
        sessions,
        turnstile=turnstile,
        seats=Seats(secret, older=older_secrets),
        journal=journal,
        resume_stream=resume_stream,
        shared=shared,
        keep=keep,
        limits=limits,
        recorder=recorder,
    )
    from multimodal.serving.roads import roads  # it leans on this module

    server = _Signalling(door, {"ice_servers": ice_servers, "bind_addresses": bind_addresses}, turn)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await sessions.aclose()
            await turnstile.spent.aclose()

    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(origins.allowed),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Content-Type", "Authorization", "If-Match", "Last-Event-ID"],
        expose_headers=["Location", "ETag", "Link", "Retry-After"],
    )
    app = Starlette(
        routes=[
            # A server hands an escaped slash on as a plain one, so a tour's name may hold some.
            Route("/whep/{tour:path}", server.offer, methods=["POST"]),
            Route("/whep/{tour:path}", server.options, methods=["OPTIONS"]),
            Route("/whep/{tour:path}/{seat}", server.end, methods=["DELETE"]),
            *roads(door),
            Route("/sessions/{tour:path}", server.sessions, methods=["GET"]),
            Route("/sessions/{tour:path}/{session}", server.end_session, methods=["DELETE"]),
            Route("/player/{name}", _player, methods=["GET"]),
        ],
        # Within CORS, so that a page of the list can read why it was refused.
        middleware=[cors, Middleware(Guard, traffic=traffic, proxies=proxies, origins=origins)],
        exception_handlers={Problem: _problem, HTTPException: _http_problem, Exception: _fault},
        lifespan=lifespan,
    )
    # A refusal, not a redirection: it would send an offer to whatever host the request named.
    app.router.redirect_slashes = False
    app.state.sessions, app.state.door = sessions, door
    return app


class _Signalling:
    def __init__(self, door: Door, link_settings: dict[str, Any], turn: Turn | None) -> None:
        self._door, self._link_settings, self._turn = door, link_settings, turn

    async def offer(self, request: Request) -> Response:
        check_content_type(request.headers.get("content-type", ""))
        sdp = check_offer(await _body(request))
        tour, seat_id = split_seat(request.path_params["tour"])
        token, address = bearer(request.headers.get("authorization", "")), address_of(request)
        chair = await (
            self._door.come_back(tour, seat_id, token, address) if seat_id else self._door.enter(tour, token, address)
        )
        try:
            link, answer = await WebRTCLink.answering(sdp, **self._link_settings)
        except BaseException as error:
            if not (chair.seat.greeted or chair.seat.links):
                await chair.live.leave(chair.seat, "no connection was made")
            if isinstance(error, RemoteProtocolError):
                raise Problem(400, "bad_offer", str(error), "send the browser's own offer, unchanged") from error
            raise
        connect(chair, link)
        location = session_path(request.scope.get("root_path", ""), tour, chair.ticket.id)
        etag = f'"{chair.seat.connections + chair.seat.links}"'
        headers = {"Location": location, "ETag": etag, "Cache-Control": "no-store"}
        response = Response(answer, 201, headers, SDP_TYPE)
        if self._turn is not None:
            for link_value in self._turn.links(user=chair.ticket.viewer, now=time.time()):
                response.headers.append("Link", link_value)
        return response

    async def options(self, request: Request) -> Response:
        return Response(status_code=204, headers={"Allow": "OPTIONS, POST", "Accept-Post": SDP_TYPE})

    async def end(self, request: Request) -> Response:
        params = request.path_params
        await self._door.leave(params["tour"], params["seat"], bearer(request.headers.get("authorization", "")))
        return Response(status_code=200)

    async def sessions(self, request: Request) -> Response:
        token = bearer(request.headers.get("authorization", ""))
        found = self._door.listed(request.path_params["tour"], token)
        return JSONResponse({"sessions": found}, headers={"Cache-Control": "no-store"})

    async def end_session(self, request: Request) -> Response:
        params = request.path_params
        await self._door.end(params["tour"], params["session"], bearer(request.headers.get("authorization", "")))
        return Response(status_code=200)


def split_seat(path: str) -> tuple[str, str]:
    """A path below a road: the tour, and the id of the seat ("" = a new viewer)."""
    tour, slash, last = path.rpartition("/")
    return (tour, last) if slash and Seats.looks_like(last) else (path, "")


def connect(chair: Chair, link: Link, **settings: Any) -> Connection:
    """Give a seat its connection.

    Raises:
        Problem: 404, the session ended in this very moment.
    """
    try:
        return chair.live.connect(chair.seat, link, **settings)
    except UsageError:
        raise no_such_seat() from None


async def _body(request: Request) -> bytes:
    """The body, or just more of it than is allowed: a large one is refused, not read."""
    body = b""
    try:
        async with asyncio.timeout(OFFER_WAIT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > OFFER_LIMIT_BYTES:
                    break
    except TimeoutError:
        message = f"the offer did not arrive within {OFFER_WAIT:g} s"
        raise Problem(408, "offer_timeout", message, "send it in one piece") from None
    except ClientDisconnect:
        # Nobody reads this answer; without it the log would tell of a fault of ours.
        raise Problem(400, "offer_cut", "the offer ended before all of it was there", "send it again") from None
    return body


async def _player(request: Request) -> Response:
    name: str = request.path_params["name"]
    media_type = next((kind for suffix, kind in _MEDIA_TYPES.items() if name.endswith(suffix)), None)
    # Looked up among its files, never by path: a name may be too long for the disk, or lead elsewhere.
    files = {file.name: file for file in importlib.resources.files("multimodal.player").iterdir()}
    source = files.get(name)
    if media_type is None or source is None or not source.is_file():
        raise Problem(404, "no_such_file", f"the player has no file {name[:80]!r}", "load player/product-tour.js")
    data = source.read_bytes()
    # The names carry no version: the browser asks each time, and mostly hears that nothing changed.
    headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, 200, {**headers, "X-Content-Type-Options": "nosniff"}, media_type)


# These are async because Starlette runs plain functions in a worker thread, which then stays.
async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return JSONResponse(error.body(), error.status, error.headers)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    hint = "POST an offer to whep/{tour}, DELETE whep/{tour}/{id}, GET player/product-tour.js"
    body = Problem(
        error.status_code, code, f"{request.method[:20]} {request.url.path[:80]}: {error.detail}", hint
    ).body()
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


async def _fault(request: Request, error: Exception) -> Response:
    # Starlette raises it again for the server's log; the browser learns only that it was not its fault.
    fault = server_fault()
    return JSONResponse(fault.body(), fault.status)
