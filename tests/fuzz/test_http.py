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
    """Sends requests into the application and judges the answers: `faults` are those that break a promise."""

    def __init__(self, app: Starlette) -> None:
        self.app = app
        transport = httpx2.ASGITransport(app)
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://shop.test")
        self.statuses = Counter[int]()
        self.faults: list[str] = []

    async def send(self, spoilt: Spoilt) -> None:
        url = "http://shop.test" + quote(spoilt.path.encode(errors="surrogatepass"), safe="/%")
        request = self._client.build_request(spoilt.method, url, headers=spoilt.headers, content=spoilt.stream())
        try:
            async with asyncio.timeout(HANG):
                answer = await self._client.send(request)
        except Exception as error:
            self._fault(f"{type(error).__name__}: {str(error)[:300]}", spoilt)
            return
        self.statuses[answer.status_code] += 1
        if why := _wrong(answer):
            self._fault(f"{answer.status_code}, {why}: {answer.text[:300]}", spoilt)
        if answer.status_code == 201:
            gone = await self._client.delete(answer.headers["location"])
            if gone.status_code not in {200, 404}:
                self._fault(f"its seat cannot be given up: {gone.status_code}", spoilt)

    def _fault(self, what: str, spoilt: Spoilt) -> None:
        self.faults.append(f"{what}\nfor {_short(spoilt)}\n(MULTIMODAL_FUZZ_SEED={SEED})")

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
        await until(lambda: not len(self.app.state.sessions))


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


def _wrong(answer: httpx2.Response) -> str:
    """What an answer breaks of what is promised; "" = nothing."""
    if answer.status_code not in STATUSES:
        return "which is documented nowhere"
    if "Traceback" in answer.text:
        return "with a traceback"
    if answer.status_code >= 400 and answer.headers.get("content-type") == "application/json" and answer.content:
        if json.loads(answer.content)["error"].keys() != {"code", "message", "hint"}:
            return "in another form"
        if len(answer.content) >= 2000:
            return "a refusal that repeats what it refuses"
    return ""


def answers(spoilt: list[Spoilt], capsys: pytest.CaptureFixture[str]) -> Client:
    """Send them all; what came, once the application has let go of everything and has logged no error."""
    clients: list[Client] = []

    async def scenario() -> None:
        async with nothing_left(), served() as client:
            clients.append(client)
            await client.send_all(spoilt)

    with watched():
        run(scenario(), 60.0 + len(spoilt) / 10)
    (client,) = clients
    with capsys.disabled():
        print(f"\n{len(spoilt)} requests (seed {SEED}): {dict(sorted(client.statuses.items()))}")
    return client


def test_the_known_bad_offers_are_refused_or_answered(capsys: pytest.CaptureFixture[str]) -> None:
    bodies = [offer if isinstance(offer, bytes) else offer.encode() for offer in NASTY_OFFERS]
    came = answers([Spoilt(body=body) for body in bodies], capsys)
    assert came.faults == []
    assert came.statuses.total() == len(bodies)
    assert came.statuses.keys() == {201, 400}


def test_the_known_bad_requests_are_each_answered(capsys: pytest.CaptureFixture[str]) -> None:
    came = answers(NASTY_REQUESTS, capsys)
    assert came.faults == []
    assert came.statuses.total() == len(NASTY_REQUESTS)


def test_spoilt_offers_are_refused_or_answered(capsys: pytest.CaptureFixture[str]) -> None:
    async def real_offer() -> str:
        link, offer = await WebRTCLink.offering(bind_addresses=["127.0.0.1"])
        await link.aclose()
        return offer

    made = Requests(SEED, [CHROMIUM_OFFER, run(real_offer())])
    came = answers([Spoilt(body=made.offer()) for _ in range(REQUESTS // 2)], capsys)
    assert came.faults == []
    assert came.statuses.total() == REQUESTS // 2
    assert came.statuses[201], "offers that are spoilt beyond use try nothing but the first check"
    assert came.statuses[400], "offers that nothing refuses are not spoilt"


def test_spoilt_requests_are_refused_or_answered(capsys: pytest.CaptureFixture[str]) -> None:
    made = Requests(SEED, [CHROMIUM_OFFER])
    came = answers([made.request() for _ in range(REQUESTS // 2)], capsys)
    assert came.faults == []
    assert came.statuses.total() == REQUESTS // 2


def _short(spoilt: Spoilt) -> str:
    return f"{spoilt.method[:40]} {spoilt.path[:200]!r} {str(spoilt.headers)[:300]} {spoilt.body[:1500]!r}"
