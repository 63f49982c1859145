"""A whole exchange with every logger at DEBUG, uvicorn's access log included: no secret is in any line."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from websockets.asyncio.client import connect

from multimodal import wire
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.discreet import short
from multimodal.serving.limits import Quotas
from multimodal.serving.run import SmallBuffers
from multimodal.serving.turn import Turn
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.roads import ROADS
from multimodal.transport.webrtc import WebRTCLink
from tests.serving.guarded_shop import OTHER, PICTURES, SECRET, SHOP, make_stream
from tests.support import run
from tests.transport.leaks import until

RELAY_SECRET = "the-secret-that-is-shared-with-the-relay"
OF_THE_TEST = ("httpx2", "httpcore2", "websockets.client")
"""What this test's own clients log."""


class Heard(logging.Handler):
    """Every line of every logger, as it would be printed."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(OF_THE_TEST):
            self.lines.append(self.format(record))


@contextmanager
def everything_logged() -> Iterator[Heard]:
    heard, root = Heard(), logging.getLogger()
    before = root.level
    names = [name for name in logging.root.manager.loggerDict if not name.startswith(OF_THE_TEST)]
    levels = {name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).propagate = True
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(heard)
        root.setLevel(before)
        for name, (level, propagate) in levels.items():
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).propagate = propagate


def make(tour: str) -> Any:
    if tour == "broken":
        raise RuntimeError("this tour's pipe is broken")
    return make_stream(tour)


async def exchange(base: str, secrets: set[str]) -> None:
    """All that viewers do and strangers try; what must stay secret is added to `secrets`."""
    tokens = Tokens(SECRET)

    def token(**claims: Any) -> str:
        made = tokens.issue(**{"tour": "demo", "now": time.time(), **claims})
        secrets.add(made)
        return made

    # Whole tours over each road: tokens in headers, in hellos, in bodies.
    for road in ROADS:
        mine = token(tour="short")
        viewer = ResilientViewer(f"{base}/whep/short", roads=(road,), token=mine)
        assert (await viewer.watch()).ended == "end"
        secrets.add(viewer.seat.rsplit("/", 1)[1])

    link, offer = await WebRTCLink.offering()
    async with httpx2.AsyncClient(timeout=30) as http:

        async def ask(method: str, path: str, bearer: str = "", body: str = "", **more: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
            headers |= {key.replace("_", "-"): value for key, value in more.items()}
            return await http.request(method, f"{base}/{path}", content=body, headers=headers)

        mine = token()
        answer = await ask("POST", "whep/demo", mine, offer, Content_Type="application/sdp", Origin=SHOP)
        assert answer.status_code == 201
        seat = answer.headers["location"].rsplit("/", 1)[1]
        secrets |= {seat, *(part for part in answer.headers["link"].split('"') if part.endswith("="))}
        # A page's hello carries the token in a body, and a socket's in a message.
        hello = wire.encode(wire.Hello(join_token=mine))
        async with http.stream("POST", f"{base}/sse/demo/{seat}", content=hello) as stream:
            assert stream.status_code == 200
            await anext(stream.aiter_bytes())
            said = await ask("POST", f"sse/demo/{seat}/messages", mine, wire.encode(wire.Ack()))
            assert said.status_code == 204
            assert (await ask("GET", f"pictures/demo/{seat}/{PICTURES[0].sha256}", mine)).status_code in (200, 404)
        async with connect(f"ws{base[4:]}/ws/demo/{seat}") as socket:
            await socket.send(hello)
            assert json.loads(await socket.recv())["type"] == "seat"
        # What is refused: tokens that are spoilt, strangers' seats, strangers' pages, failures of ours.
        forged = Tokens(OTHER).issue(tour="demo", now=time.time())
        secrets.add(forged)
        for path in (
            f"whep/demo/{seat}",
            f"whep/other/{seat}",
            f"whep/demo/{seat[:-1]}",
            f"nothing/{seat}",
            "whep/demo",
        ):
            for bearer in ("", forged, token(), token(tour="other"), mine):
                for method in ("PUT", "GET", "POST"):
                    await ask(
                        method, path, bearer, offer, Content_Type="application/sdp", Origin="https://evil.example"
                    )
                    await ask(method, path, bearer, "{", Content_Type="application/sdp")
        assert (await ask("POST", "sse/broken", token(tour="broken"), wire.encode(wire.Hello()))).status_code == 500
        assert (await ask("GET", f"sse/demo/{seat}?token={mine}", forged)).status_code == 401
        assert (await ask("GET", "sessions/demo", token(role="operator"))).status_code == 200
        for bad in (hello[:-1], hello.replace("hello", "hallo"), hello + "x"):
            async with connect(f"ws{base[4:]}/ws/demo?seat={seat}") as socket:
                await socket.send(bad)
                await socket.wait_closed()
        assert (await ask("DELETE", f"whep/demo/{seat}", mine)).status_code == 200
    await link.aclose()


def test_no_line_of_any_logger_holds_a_secret() -> None:
    secrets = {SECRET, RELAY_SECRET}

    async def scenario() -> None:
        app = asgi(
            make,
            secret=SECRET,
            cors_origins=[SHOP],
            quotas=Quotas.unlimited(),
            turn=Turn(["turn:turn.example.org"], RELAY_SECRET),
        )
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, log_level="debug", ws=SmallBuffers)
        server = uvicorn.Server(config)
        running = asyncio.ensure_future(server.serve())
        await until(lambda: server.started)
        base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        try:
            await exchange(base, secrets)
        finally:
            await app.state.sessions.aclose()
            server.should_exit = True
            await running

    with everything_logged() as heard:
        run(scenario())
    text = "\n".join(heard.lines)
    assert len(secrets) > 15
    # The test hears what it should: the access log, the sockets' frames, our own failure.
    assert text.count("uvicorn.access INFO") > 50
    assert '"POST /whep/short HTTP/1.1" 201' in text
    assert "< TEXT" in text
    assert "make_stream failed" in text
    seats = [secret for secret in secrets if secret.startswith("s1_")]
    assert len(seats) == 4
    assert sum(f"[seat {short(seat)}]" in text for seat in seats) >= 2
    for secret in secrets:
        # Nor a part that would help: a signature without its head, a seat without its end.
        for at in range(0, len(secret) - 20, 5):
            piece = secret[at : at + 20]
            assert piece not in text or piece in _COMMON, next(line for line in heard.lines if piece in line)


_COMMON = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
"""How every token begins."""


def test_uvicorns_own_configuration_prints_none_either(capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> str:
        app = asgi(make, secret=SECRET, quotas=Quotas.unlimited())
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="debug", ws=SmallBuffers))
        running = asyncio.ensure_future(server.serve())
        await until(lambda: server.started)
        base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        token = Tokens(SECRET).issue(tour="short", now=time.time())
        try:
            viewer = ResilientViewer(f"{base}/whep/short", roads=("ws",), token=token)
            assert (await viewer.watch()).ended == "end"
            async with httpx2.AsyncClient() as http:
                await http.delete(viewer.seat, headers={"Authorization": f"Bearer {token}"})
        finally:
            await app.state.sessions.aclose()
            server.should_exit = True
            await running
        return viewer.seat.rsplit("/", 1)[1]

    seat = run(scenario())
    printed = "".join(capfd.readouterr())
    assert f"/whep/short/[seat {short(seat)}]" in printed
    assert seat[3:40] not in printed
    assert "join_token" not in printed or "[token" in printed
