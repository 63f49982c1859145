"""A shop behind tokens, served over real HTTP, and who comes there."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import httpx2
import jwt
import websockets
from starlette.applications import Starlette
from websockets.asyncio.client import connect

from multimodal import wire
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.websocket_client import join_websocket, rejoin_websocket
from tests.serving.mounted import mounted
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

__all__ = [
    "OTHER",
    "PICTURES",
    "SEAT_ROUTES",
    "SECRET",
    "SHOP",
    "TOUR_ROUTES",
    "Served",
    "Watching",
    "check",
    "code_of",
    "make_stream",
    "serving",
    "tampered",
    "tried",
    "watching",
]

SECRET = "a-secret-of-the-shop-0123456789-abcdefgh"

OTHER = "a-secret-of-another-shop-0123456789-abcd"

SHOP = "https://shop.example"

PICTURES = [picture(f"p{i}", 5_000 + i) for i in range(3)]


def make_stream(tour: str) -> MultiModalStream:
    if tour not in {"demo", "other", "short"}:
        raise KeyError(tour)
    words = 20 if tour == "short" else 10_000
    return MultiModalStream(ScriptTextPipe([f"w{i} " for i in range(words)], gap=0.02), ScriptImagePipe(PICTURES))


class Served:
    """A running server, and what tests ask of it."""

    def __init__(self, port: int, app: Starlette, http: httpx2.AsyncClient) -> None:
        self.app, self.http = app, http
        self.base = f"http://127.0.0.1:{port}/shop"
        self.url = f"{self.base}/whep/demo"
        self.tokens = Tokens(SECRET)
        self.offer = ""

    def token(self, **claims: Any) -> str:
        return self.tokens.issue(**{"tour": "demo", "now": time.time(), **claims})

    @property
    def sessions(self) -> int:
        return len(self.app.state.sessions)

    async def ask(self, method: str, path: str, token: str = "", body: str = "", **headers: str) -> httpx2.Response:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        return await self.http.request(method, urljoin(self.base + "/", path), content=body, headers=sent)

    async def post_offer(self, path: str, token: str = "", **headers: str) -> httpx2.Response:
        return await self.ask("POST", path, token, self.offer, Content_Type="application/sdp", **headers)

    async def socket(self, path: str, token: str = "", *, header: bool = False) -> tuple[int, str]:
        """The status and the code with which a WebSocket is closed, or (200, "") where it is let in."""
        headers = {"Authorization": f"Bearer {token}"} if header else {}
        hello = wire.encode(wire.Hello(join_token="" if header else token))
        async with connect(f"ws{self.base[4:]}/{path}", additional_headers=headers) as socket:
            try:
                async with asyncio.timeout(30):
                    await socket.send(hello)
                    assert json.loads(await socket.recv())["type"] in {"seat", "bundle", "ping"}
            except websockets.ConnectionClosed:
                return (socket.close_code or 0) - 4000, socket.close_reason or ""
            # A goodbye would give up the seat: this is a road that was lost.
            socket.transport.abort()
        return 200, ""


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    settings.setdefault("quotas", Quotas.unlimited())
    settings.setdefault("secret", SECRET)
    app = asgi(make_stream, cors_origins=[SHOP], **settings)
    async with mounted(app) as port, httpx2.AsyncClient(timeout=30) as http:
        yield Served(port, app, http)


def check(scenario: Callable[[Served], Awaitable[None]], **settings: Any) -> None:
    async def checked() -> None:
        async with nothing_left(), serving(**settings) as served:
            link, served.offer = await WebRTCLink.offering()
            try:
                await scenario(served)
            finally:
                await link.aclose()

    run(checked())


class Watching:
    """A viewer that is in."""

    def __init__(self, served: Served, token: str, viewer: Viewer) -> None:
        self.served, self.token, self.viewer = served, token, viewer
        self.task = asyncio.ensure_future(viewer.watch())

    @property
    def seat(self) -> str:
        return self.viewer.protocol.seat.rsplit("/", 1)[1]

    @property
    def cursor(self) -> int:
        return self.viewer.protocol.cursor


@asynccontextmanager
async def watching(served: Served, token: str, seat: str = "") -> AsyncIterator[Watching]:
    hello = wire.Hello(join_token=token)
    link = await (
        rejoin_websocket(f"{served.url}/{seat}", token=token) if seat else join_websocket(served.url, token=token)
    )
    watcher = Watching(served, token, Viewer(link, hello=hello))
    try:
        await until(lambda: watcher.cursor >= 2 or watcher.task.done())
        yield watcher
    finally:
        watcher.task.cancel()
        with suppress(asyncio.CancelledError):
            await watcher.task


def code_of(response: httpx2.Response) -> tuple[int, str]:
    if response.status_code < 400:
        return response.status_code, ""
    error = response.json()["error"]
    assert error.keys() == {"code", "message", "hint"}
    assert all(error.values())
    assert "Traceback" not in response.text
    if response.status_code == 401:
        assert response.headers["www-authenticate"].startswith("Bearer")
    if response.status_code == 429:
        assert int(response.headers["retry-after"]) >= 1
    return response.status_code, error["code"]


def tampered(token: str) -> dict[str, str]:
    head, body, mac = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    more = base64.urlsafe_b64encode(json.dumps({**claims, "role": "operator", "tour": "*"}).encode()).rstrip(b"=")
    return {
        "alg none": f"{none}.{body}.",
        "another role": f"{head}.{more.decode()}.{mac}",
        "another secret": jwt.encode(claims, OTHER, "HS256"),
        "no token of anybody": "x.y.z",
    }


SEAT_ROUTES = [
    ("POST", "whep/demo/{seat}"),
    ("DELETE", "whep/demo/{seat}"),
    ("GET", "sse/demo/{seat}"),
    ("POST", "sse/demo/{seat}"),
    ("POST", "sse/demo/{seat}/messages"),
    ("GET", "pictures/demo/{seat}/" + PICTURES[0].sha256),
    ("WS", "ws/demo/{seat}"),
]


TOUR_ROUTES = [("POST", "whep/demo"), ("GET", "sse/demo"), ("POST", "sse/demo"), ("WS", "ws/demo")]


async def tried(served: Served, method: str, path: str, token: str) -> tuple[tuple[int, str], str]:
    """Status and code, and all of a refusal that a stranger could tell one from another by."""
    if method == "WS":
        # By the hello, as pages do, and by a header.
        answers = {await served.socket(path, token, header=header) for header in (False, True)}
        assert len(answers) == 1, answers
        answer = answers.pop()
        return answer, str(answer)
    if method == "POST" and path.startswith("whep"):
        response = await served.post_offer(path, token)
    elif method == "POST":
        response = await served.ask(method, path, token, wire.encode(wire.Hello()))
    else:
        response = await served.ask(method, path, token)
    headers = sorted(f"{key}: {value}" for key, value in response.headers.items() if key != "date")
    return code_of(response), "\n".join([*headers, response.text])
