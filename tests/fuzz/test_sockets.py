"""Spoilt bytes on real sockets of a real server, while a viewer watches a tour there."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress

import pytest

from multimodal.events import StreamEnd
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.transport.viewer import Viewer
from multimodal.transport.whep import join
from tests.fuzz.faults import watched
from tests.fuzz.mutator import SEED, Mutator, count
from tests.fuzz.requests import CHROMIUM_OFFER
from tests.serving.test_app import WORDS, Served, make_stream, serving
from tests.support import run
from tests.transport.leaks import nothing_left, until

SOCKETS = count("MULTIMODAL_FUZZ_SOCKETS", 200)
"""Connections with spoilt bytes; `make soak` asks for 2,000."""
BESIDE = 8
PATIENCE = 2.0
"""Seconds that a client waits for an answer before it goes away."""

_OFFER = CHROMIUM_OFFER.encode()
_HEAD = b"POST /tour/whep/demo HTTP/1.1\r\nHost: x\r\nContent-Type: application/sdp\r\n"
GOOD = [
    _HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(_OFFER[:500]) + _OFFER[:500],
    _HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nv=0\r\n0\r\n\r\n",
    b"GET /tour/player/product-tour.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"DELETE /tour/whep/demo/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"OPTIONS /tour/whep/demo HTTP/1.1\r\nHost: x\r\nOrigin: x\r\nAccess-Control-Request-Method: POST\r\n\r\n",
]
NASTY = [
    b"",
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET http://other/tour/player/product-tour.js HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /tour/player/\xff\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /tour/player/%00%ff%2e%2e HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    _HEAD + b"Content-Length: -1\r\n\r\n",
    _HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nv=0\r\n",
    _HEAD + b"Content-Length: 99999999999999999999\r\n\r\nv=0\r\n",
    _HEAD + b"Content-Length: 1000\r\n\r\nv=0\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nv=0",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nv=0",
    _HEAD + b"Transfer-Encoding: gzip\r\n\r\nv=0",
    _HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    _HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nv=0",
    b"GET /tour/ws/demo HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 99\r\n\r\n",
    b"GET /tour/ws/demo HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n" + b"\xff" * 500,
    GOOD[2] * 50,
]
"""What made some server fail, or keep a socket."""


class Bytes:
    """Clients that know no HTTP."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.answers = Counter[str]()
        self._chance = random.Random(SEED)

    async def send(self, data: bytes) -> None:
        chance = self._chance
        reader, writer = await asyncio.open_connection("127.0.0.1", self.served.port)
        try:
            with suppress(OSError):
                pieces = chance.choice((1, 1, 2, 20))
                size = len(data) // pieces + 1
                for at in range(0, len(data), size):
                    writer.write(data[at : at + size])
                    await writer.drain()
                    if pieces > 1:
                        await asyncio.sleep(0.001)
                if chance.random() < 0.3:
                    writer.transport.abort()
                    self.answers["gone"] += 1
                    return
                if chance.random() < 0.5 and writer.can_write_eof():
                    writer.write_eof()
            line = b""
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(PATIENCE):
                    line = await reader.readline()
            status = line.split(b" ")[1].decode() if line.startswith(b"HTTP/1.") else "none"
            self.answers[status] += 1
            documented = status in {"none", "100", "101"} or "200" <= status < "500"
            assert documented, f"{line!r} for {data[:1500]!r} (seed {SEED})"
        finally:
            writer.close()
            with suppress(OSError, TimeoutError):
                await writer.wait_closed()


@pytest.mark.parametrize("known", [True, False])
def test_spoilt_bytes_on_sockets(known: bool, capsys: pytest.CaptureFixture[str]) -> None:
    mutator = Mutator(SEED)
    every = NASTY if known else [mutator.edited(mutator.rng.choice(GOOD)) for _ in range(SOCKETS)]

    async def scenario() -> None:
        app = asgi(make_stream, bind_addresses=["127.0.0.1"], quotas=Quotas.unlimited())
        async with nothing_left(), serving(app) as served:
            link, _ = await join(f"{served.base}/tour/whep/demo", bind_addresses=["127.0.0.1"])
            watching = asyncio.ensure_future(Viewer(link).watch())
            client, waiting = Bytes(served), iter(every)

            async def work() -> None:
                for data in waiting:
                    await client.send(data)

            await asyncio.gather(*(work() for _ in range(BESIDE)))
            seen = await watching
            assert seen.text == "".join(WORDS)
            assert isinstance(seen.events[-1], StreamEnd)
            status, _, _ = await served.request("GET", "/tour/player/product-tour.js")
            assert status == 200
            await until(lambda: not served.sessions)
            with capsys.disabled():
                print(f"\n{len(every)} sockets (seed {SEED}): {dict(sorted(client.answers.items()))}")

    with watched():
        run(scenario(), 60.0 + len(every))
