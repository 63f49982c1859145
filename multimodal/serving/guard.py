"""What stands before every route: too many requests, and other people's pages, come no further.

It answers for HTTP and for WebSockets alike. A stranger's WebSocket gets the answer of a request, where the server can
give one (ASGI's `websocket.http.response`), and a plain 403 where it cannot; one too many is told so in its close code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from multimodal.serving.limits import Proxies, Traffic
from multimodal.serving.origins import Origins
from multimodal.serving.signalling import Problem

__all__ = ["Guard", "address_of", "deny"]

_OPEN = ("player", "pictures")
"""First parts of paths that any page may read: they change nothing. A picture's path holds a seat, which is secret."""
_ADDRESS = "multimodal.address"


class Guard:
    """The middleware.

    Args:
        app: what is guarded.
        traffic: the quotas.
        proxies: whose `X-Forwarded-For` is believed.
        origins: whose pages may act.
    """

    def __init__(self, app: ASGIApp, traffic: Traffic, proxies: Proxies, origins: Origins) -> None:
        self._app, self._traffic, self._proxies, self._origins = app, traffic, proxies, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer = scope.get("client") or ("", 0)
        address = self._proxies.client(str(peer[0]), headers.getlist("x-forwarded-for"))
        try:
            self._traffic.open(address)
        except Problem as problem:
            await deny(problem, scope, receive, send)
            return
        try:
            await self._judged(address, headers, scope, receive, send)
        finally:
            self._traffic.close(address)

    async def _judged(self, address: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._traffic.request(address, time.monotonic())
            if _acts(scope):
                self._origins.check(
                    origin=headers.get("origin", ""),
                    site=headers.get("sec-fetch-site", ""),
                    host=headers.get("host", ""),
                )
        except Problem as problem:
            await deny(problem, scope, receive, send)
            return
        scope[_ADDRESS] = address
        await self._app(scope, receive, send)


def address_of(connection: HTTPConnection) -> str:
    """By which the limits know who asks (`Proxies.client`)."""
    address: str = connection.scope.get(_ADDRESS, "")
    return address


async def deny(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem: a request, or a WebSocket that has not been accepted."""
    if scope["type"] == "websocket" and problem.status != 403:
        # Of a refused upgrade a page learns nothing, so it is accepted first, and closed with the status in the code.
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4000 + problem.status, "reason": problem.code})
    elif scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": problem.code})
    else:
        await JSONResponse(problem.body(), problem.status, problem.headers)(scope, receive, send)


def _acts(scope: Scope) -> bool:
    if scope["type"] == "http" and scope["method"] == "OPTIONS":
        return False
    root, path = scope.get("root_path", ""), scope["path"]
    inner = path[len(root) :] if path.startswith(root) else path
    return next(_parts(inner), "") not in _OPEN


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part)
