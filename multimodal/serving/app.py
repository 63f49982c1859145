"""The ASGI application: WHEP-style signalling for tours, and the player's files. Mountable under any prefix.

POST   /whep/{tour}        Content-Type application/sdp, an offer -> 201, the answer, Location, ETag
DELETE /whep/{tour}/{id}   ends that session -> 200, and 404 from then on
GET    /player/{file}      the player
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.serving.sessions import Sessions
from multimodal.serving.signalling import (
    OFFER_LIMIT_BYTES,
    SDP_TYPE,
    Problem,
    check_content_type,
    check_offer,
    session_path,
)
from multimodal.transport.base import Source
from multimodal.transport.session import Limits, ViewerSession
from multimodal.transport.webrtc import IceServer, WebRTCLink

__all__ = ["MAX_SESSIONS", "OFFER_WAIT", "MakeStream", "Recorder", "asgi"]

log = logging.getLogger(__name__)

MAX_SESSIONS = 64
"""One core carries about 170 viewers beside other load; half of that and less leaves room for what makes the text."""

OFFER_WAIT = 10.0
"""Seconds in which an offer's body must arrive."""

MakeStream = Callable[[str], Source | Awaitable[Source]]
"""Gives the stream of a tour, by the tour's name: a `MultiModalStream`, or whatever else a session can serve."""
Recorder = Callable[[Any], Callable[[dict[str, Any]], None]]
"""Called with every new viewer's stream; gives what takes the lines of that viewer's recording."""

_MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".d.ts": "text/plain; charset=utf-8",
}


def asgi(
    make_stream: MakeStream,
    *,
    cors_origins: Sequence[str] = (),
    ice_servers: Sequence[IceServer] = (),
    bind_addresses: Sequence[str] | None = None,
    max_sessions: int = MAX_SESSIONS,
    limits: Limits | None = None,
    recorder: Recorder | None = None,
) -> Starlette:
    """An application that serves tours to browsers: ``app.mount("/tour", multimodal.asgi(make_stream))``.

    Sessions end when their viewer is gone, and all of them when the server stops: by the lifespan, where this runs by
    itself; where it is mounted, and lifespans do not reach it, when the event loop ends. A server that a signal other
    than Ctrl-C stops may die without that: hand the lifespan to the outer application, which then ends them in order,
    ``tours = asgi(...); Starlette(routes=[Mount("/tour", tours)], lifespan=tours.router.lifespan_context)``.

    Args:
        make_stream: the stream of a tour, given its name; called once for each viewer, may be async. It raises
            UsageError or KeyError for a tour that it does not know.
        cors_origins: origins whose pages may play tours from here (``*`` = all); same origin needs none.
        ice_servers: STUN and TURN servers for the server's side.
        bind_addresses: addresses to offer; None = those of all interfaces, or loopback where there is no other.
        max_sessions: viewers at one time; more get 503.
        limits: the named waits of a session.
        recorder: called with every new viewer's stream; gives what takes the lines of its recording.

    Raises:
        UsageError: a `make_stream` that cannot be called, or a `max_sessions` that is no whole number of 1 or more.
    """
    if not callable(make_stream):
        raise UsageError(f"asgi: make_stream={make_stream!r} cannot be called; give a function from a tour's name")
    if isinstance(max_sessions, bool) or not isinstance(max_sessions, int) or max_sessions < 1:
        raise UsageError(f"max_sessions={max_sessions!r} must be a whole number, 1 or more")
    sessions = Sessions(max_sessions)
    server = _Signalling(
        make_stream, sessions, {"ice_servers": ice_servers, "bind_addresses": bind_addresses}, limits, recorder
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await sessions.aclose()

    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Content-Type", "Authorization", "If-Match"],
        expose_headers=["Location", "ETag"],
    )
    app = Starlette(
        routes=[
            # A server hands an escaped slash on as a plain one, so a tour's name may hold some.
            Route("/whep/{tour:path}", server.offer, methods=["POST"]),
            Route("/whep/{tour:path}", server.options, methods=["OPTIONS"]),
            Route("/whep/{tour:path}/{session}", server.end, methods=["DELETE"]),
            Route("/player/{name}", _player, methods=["GET"]),
        ],
        middleware=[cors],
        exception_handlers={Problem: _problem, HTTPException: _http_problem, Exception: _fault},
        lifespan=lifespan,
    )
    app.state.sessions = sessions
    return app


class _Signalling:
    def __init__(
        self,
        make_stream: MakeStream,
        sessions: Sessions,
        link_settings: dict[str, Any],
        limits: Limits | None,
        recorder: Recorder | None,
    ) -> None:
        self._make_stream = make_stream
        self._sessions = sessions
        self._link_settings = link_settings
        self._limits = limits
        self._recorder = recorder

    async def offer(self, request: Request) -> Response:
        check_content_type(request.headers.get("content-type", ""))
        sdp = check_offer(await _body(request))
        tour: str = request.path_params["tour"]
        if not self._sessions.reserve():
            raise Problem(
                503,
                "too_many_sessions",
                f"{self._sessions.limit} viewers are here already",
                "try again in a few seconds",
                {"Retry-After": "5"},
            )
        try:
            stream = await self._stream(tour)
            link, answer = await self._link(stream, sdp)
        except BaseException:
            self._sessions.release()
            raise
        name = secrets.token_urlsafe(12)
        record = None if self._recorder is None else self._recorder(stream)
        session = ViewerSession(stream, link, limits=self._limits, on_record=record)
        self._sessions.start(f"{tour}/{name}", session)
        location = session_path(request.scope.get("root_path", ""), tour, name)
        return Response(answer, 201, {"Location": location, "ETag": f'"{name}"', "Cache-Control": "no-store"}, SDP_TYPE)

    async def options(self, request: Request) -> Response:
        return Response(status_code=204, headers={"Allow": "OPTIONS, POST", "Accept-Post": SDP_TYPE})

    async def end(self, request: Request) -> Response:
        params = request.path_params
        if not await self._sessions.end(f"{params['tour']}/{params['session']}"):
            raise Problem(404, "no_such_session", "this session has ended, or never was", "POST an offer for a new one")
        return Response(status_code=200)

    async def _stream(self, tour: str) -> Source:
        try:
            made = self._make_stream(tour)
            stream = await made if isinstance(made, Awaitable) else made
        except (UsageError, KeyError) as error:
            message = str(error) if isinstance(error, UsageError) else f"there is no tour {tour[:80]!r}"
            raise Problem(404, "no_such_tour", message, "check the last part of the player's src") from error
        except Exception as error:
            # Turned into a response here, not further out, so that it passes CORS and the page can read it.
            log.exception("make_stream failed for tour %r", tour)
            raise _server_fault() from error
        if not hasattr(stream, "bundles"):
            log.error("make_stream(%r) gave %s; return a MultiModalStream", tour, type(stream).__name__)
            raise _server_fault()
        return stream

    async def _link(self, stream: Source, sdp: str) -> tuple[WebRTCLink, str]:
        try:
            return await WebRTCLink.answering(sdp, **self._link_settings)
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, RemoteProtocolError):
                raise Problem(400, "bad_offer", str(error), "send the browser's own offer, unchanged") from error
            raise


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
    return body


async def _player(request: Request) -> Response:
    name: str = request.path_params["name"]
    media_type = next((kind for suffix, kind in _MEDIA_TYPES.items() if name.endswith(suffix)), None)
    source = importlib.resources.files("multimodal.player") / name
    if media_type is None or "\\" in name or not source.is_file():
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
    body = Problem(error.status_code, code, f"{request.method} {request.url.path}: {error.detail}", hint).body()
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


async def _fault(request: Request, error: Exception) -> Response:
    # Starlette raises it again for the server's log; the browser learns only that it was not its fault.
    fault = _server_fault()
    return JSONResponse(fault.body(), fault.status)


def _server_fault() -> Problem:
    return Problem(500, "server_fault", "the tour could not be started", "the server's log says what failed")
