"""Spoilt offers and requests against the application: a documented status, and nothing left of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette

from multimodal.errors import UsageError
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.transport.session import Limits
from multimodal.transport.webrtc import WebRTCLink
from tests.fuzz.faults import watched
from tests.fuzz.mutator import SEED, count
from tests.fuzz.requests import CHROMIUM_OFFER, NASTY_OFFERS, NASTY_REQUESTS, Requests, Spoilt
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

REQUESTS = count("MULTIMODAL_FUZZ_HTTP", 2_000)
"""Spoilt requests in all, half of them offers; `make soak` asks for 20,000."""
BESIDE = 12
"""Requests at one time."""
HANG = 20.0
"""Seconds that one answer may take: more than every wait that the server has."""
STATUSES = {200, 201, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 414, 415, 422, 429, 431, 503}
"""What is documented; no 500."""


def make_stream(tour: str) -> MultiModalStream:
    if tour != "demo":
        raise UsageError(f"there is no tour {tour[:80]!r}; there is: demo")
    return MultiModalStream(ScriptTextPipe(["one ", "two "], gap=0.01), ScriptImagePipe([picture("p0", 2000)]))


class Client:
    """Sends requests into the application and judges the answers."""

    def __init__(self, app: Starlette) -> None:
        self.app = app
        transport = httpx2.ASGITransport(app)
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://shop.test")
        self.statuses = Counter[int]()

    async def send(self, spoilt: Spoilt) -> None:
        url = "http://shop.test" + quote(spoilt.path.encode(errors="surrogatepass"), safe="/%")
        request = self._client.build_request(spoilt.method, url, headers=spoilt.headers, content=spoilt.stream())
        try:
            async with asyncio.timeout(HANG):
                answer = await self._client.send(request)
        except Exception as error:
            pytest.fail(
                f"{type(error).__name__}: {str(error)[:300]}\nfor {_short(spoilt)}\n(MULTIMODAL_FUZZ_SEED={SEED})"
            )
        self.statuses[answer.status_code] += 1
        assert answer.status_code in STATUSES, f"{answer.status_code} for {_short(spoilt)}: {answer.text[:300]}"
        assert "Traceback" not in answer.text
        if answer.status_code >= 400 and answer.headers.get("content-type") == "application/json" and answer.content:
            problem = json.loads(answer.content)["error"]
            assert problem.keys() == {"code", "message", "hint"}
            assert len(answer.content) < 2000, f"a refusal that repeats what it refuses: {answer.text[:300]}"
        if answer.status_code == 201:
            gone = await self._client.delete(answer.headers["location"])
            assert gone.status_code in {200, 404}

    async def send_all(self, spoilt: list[Spoilt]) -> None:
        waiting = iter(spoilt)

        async def work() -> None:
            for request in waiting:
                await self.send(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(BESIDE):
                group.create_task(work())

    async def aclose(self) -> None:
        await self._client.aclose()
        await until(lambda: not len(self.app.state.sessions), 5.0)


@asynccontextmanager
async def served() -> AsyncIterator[Client]:
    app = asgi(
        make_stream,
        bind_addresses=["127.0.0.1"],
        limits=Limits(hello=0.5, linger=0.1),
        cors_origins=["https://shop.example"],
        quotas=Quotas.unlimited(),
        keep=0.5,
    )
    client = Client(app)
    async with app.router.lifespan_context(app):
        yield client
        await client.aclose()


def check(spoilt: list[Spoilt], capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        async with nothing_left(), served() as client:
            await client.send_all(spoilt)
            with capsys.disabled():
                print(f"\n{len(spoilt)} requests (seed {SEED}): {dict(sorted(client.statuses.items()))}")

    with watched():
        run(scenario(), 60.0 + len(spoilt) / 10)


def test_the_known_bad_offers(capsys: pytest.CaptureFixture[str]) -> None:
    bodies = [offer if isinstance(offer, bytes) else offer.encode() for offer in NASTY_OFFERS]
    check([Spoilt(body=body) for body in bodies], capsys)


def test_the_known_bad_requests(capsys: pytest.CaptureFixture[str]) -> None:
    check(NASTY_REQUESTS, capsys)


def test_spoilt_offers(capsys: pytest.CaptureFixture[str]) -> None:
    async def real_offer() -> str:
        link, offer = await WebRTCLink.offering(bind_addresses=["127.0.0.1"])
        await link.aclose()
        return offer

    made = Requests(SEED, [CHROMIUM_OFFER, run(real_offer())])
    check([Spoilt(body=made.offer()) for _ in range(REQUESTS // 2)], capsys)


def test_spoilt_requests(capsys: pytest.CaptureFixture[str]) -> None:
    made = Requests(SEED, [CHROMIUM_OFFER])
    check([made.request() for _ in range(REQUESTS // 2)], capsys)


def _short(spoilt: Spoilt) -> str:
    return f"{spoilt.method[:40]} {spoilt.path[:200]!r} {str(spoilt.headers)[:300]} {spoilt.body[:1500]!r}"
