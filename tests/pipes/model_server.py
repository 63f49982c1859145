"""A real HTTP server on loopback that plays what a model's server sent, whole or spoilt, and sees who leaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

__all__ = ["ModelServer", "Play", "resetting", "served", "sse"]

EVENTS = "text/event-stream; charset=utf-8"


def sse(*pieces: str, finish: str | None = "stop", done: bool = True) -> bytes:
    """A chat's answer in these deltas."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}]
    chunks += [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


@dataclass
class Play:
    """How one name answers.

    `pieces` are sent one by one, `gap` seconds apart; then it closes as it should, hangs, or breaks off (`end`).
    """

    pieces: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": EVENTS})
    gap: float = 0.0
    before: float = 0.0
    end: str = "close"
    models: bytes | None = None
    """What it answers at /models; None = the list of "m". `models_status` and `headers` go with it."""
    models_status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    sent_to: list[dict[str, str]] = field(default_factory=list)
    listed_to: list[dict[str, str]] = field(default_factory=list)
    active: int = 0
    sent: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    """Somebody left before the end."""


class ModelServer:
    """Answers at /{name}/v1/chat/completions, /{name}/v1/completions and /{name}/v1/models as `plays[name]` says."""

    def __init__(self) -> None:
        self.plays: dict[str, Play] = {}
        self.port = 0

    def url(self, name: str, play: Play | None = None) -> str:
        """The base URL of a name, which from now on plays this."""
        if play is not None:
            self.plays[name] = play
        return f"http://127.0.0.1:{self.port}/{name}/v1"

    async def answer(self, request: Request) -> Response:
        play = self.plays[request.path_params["name"]]
        play.asked.append({"path": request.path_params["path"], **await request.json()})
        play.sent_to.append(dict(request.headers))
        await asyncio.sleep(play.before)
        if play.status != 200:
            return Response(b"".join(play.pieces), play.status, play.headers)
        return StreamingResponse(self._stream(play), headers=play.headers)

    async def models(self, request: Request) -> Response:
        play = self.plays[request.path_params["name"]]
        play.listed_to.append(dict(request.headers))
        await asyncio.sleep(play.before)
        listed = b'{"object":"list","data":[{"id":"m","object":"model"}]}' if play.models is None else play.models
        return Response(listed, play.models_status, {**play.headers, "content-type": "application/json"})

    async def _stream(self, play: Play) -> AsyncIterator[bytes]:
        play.active += 1
        try:
            for piece in play.pieces:
                yield piece
                play.sent += 1
                if play.gap:
                    await asyncio.sleep(play.gap)
            if play.end == "hang":
                await asyncio.sleep(60)
            if play.end == "break":
                raise ConnectionError("planted")
        except (asyncio.CancelledError, GeneratorExit):
            play.left.set()
            raise
        finally:
            play.active -= 1


@contextlib.contextmanager
def served() -> Iterator[ModelServer]:
    """The server, in a thread of its own."""
    model = ModelServer()
    app = Starlette(
        routes=[
            Route("/{name}/v1/models", model.models, methods=["GET"]),
            Route("/{name}/v1/{path:path}", model.answer, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(config)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # who connects before the thread has begun waits for it
    model.port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@contextlib.asynccontextmanager
async def resetting(body: bytes) -> AsyncIterator[str]:
    """A server whose connection is reset (RST) behind these bytes; gives its base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        # Lingering for 0 s makes closing a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.set()

    over = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with asyncio.timeout(10):
            await over.wait()
    finally:
        server.close()
        await server.wait_closed()
