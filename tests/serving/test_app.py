"""The application over real HTTP on a loopback port, mounted under a prefix, with real peer connections."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from multimodal.errors import UsageError
from multimodal.events import StreamEnd
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.serving.signalling import OFFER_LIMIT_BYTES
from multimodal.stream import MultiModalStream
from multimodal.transport.client import ViewerProtocol
from multimodal.transport.session import Limits
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.whep import join, leave
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

WORDS = [f"w{number} " for number in range(30)]
SDP = {"Content-Type": "application/sdp"}


def make_stream(tour: str) -> MultiModalStream:
    if tour != "demo":
        raise UsageError(f"there is no tour {tour!r}; there is: demo")
    return told(WORDS)


def make_long_stream(tour: str) -> MultiModalStream:
    """It is still told when a test is done with it, however slow the machine."""
    return told(WORDS * 100)


def told(words: list[str], gap: float = 0.02) -> MultiModalStream:
    pictures = [picture(f"p{i}", 20_000) for i in range(4)]
    # Its end waits for the pictures as long as a busy machine takes for them.
    return MultiModalStream(ScriptTextPipe(words, gap=gap), ScriptImagePipe(pictures), swap_wait=30.0)


class Served:
    """A running server and its address."""

    def __init__(self, port: int, app: Starlette) -> None:
        self.port = port
        self.app = app
        self.base = f"http://127.0.0.1:{port}"

    @property
    def sessions(self) -> int:
        return len(self.app.state.sessions)

    async def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        def call() -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request(method, path, body, headers or {})
                response = connection.getresponse()
                return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
            finally:
                connection.close()

        return await asyncio.to_thread(call)

    async def error(self, *args: Any, **kwargs: Any) -> tuple[int, str]:
        """Status and code of an answer that must be a problem in JSON."""
        status, headers, body = await self.request(*args, **kwargs)
        assert headers["content-type"] == "application/json"
        error = json.loads(body)["error"]
        assert error.keys() == {"code", "message", "hint"}
        assert b"Traceback" not in body
        return status, error["code"]


@asynccontextmanager
async def serving(app: Starlette, mounted: bool = True) -> AsyncIterator[Served]:
    outer: ASGIApp = app
    if mounted:
        outer = Starlette()
        outer.mount("/tour", app)
    server = uvicorn.Server(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="warning"))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        yield Served(server.servers[0].sockets[0].getsockname()[1], app)
    finally:
        server.should_exit = True
        await running
        if mounted:
            await app.state.sessions.aclose()


def check(scenario: Callable[[Served], Awaitable[None]], *, mounted: bool = True, **settings: Any) -> None:
    """Serve, run, and see that nothing is left."""
    make = settings.pop("make_stream", make_stream)
    settings.setdefault("quotas", Quotas.unlimited())

    async def checked() -> None:
        async with nothing_left(), serving(asgi(make, **settings), mounted) as served:
            await scenario(served)

    run(checked())


@pytest.mark.parametrize("mounted", [True, False])
def test_a_whole_tour_over_http(mounted: bool) -> None:
    prefix = "/tour" if mounted else ""
    lines: list[dict[str, Any]] = []
    sids: list[str] = []

    def recorder(stream: MultiModalStream) -> Callable[[dict[str, Any]], None]:
        sids.append(stream.sid)
        return lines.append

    async def scenario(served: Served) -> None:
        link, session_url = await join(f"{served.base}{prefix}/whep/demo")
        assert session_url.startswith(f"{served.base}{prefix}/whep/demo/")
        seen = await Viewer(link).watch()
        assert seen.text == "".join(WORDS)
        assert seen.revealed == ["p0", "p1", "p2", "p3"]
        assert isinstance(seen.events[-1], StreamEnd)
        await until(lambda: not served.sessions)
        assert not await leave(session_url)
        assert [event.sid for event in seen.events[:1]] == sids
        assert {line["vantage"] for line in lines} >= {"emitted", "arrived", "painted", "ready"}

    check(scenario, mounted=mounted, recorder=recorder)


def test_the_answer_carries_what_a_whep_client_needs() -> None:
    async def scenario(served: Served) -> None:
        link, offer = await WebRTCLink.offering()
        headers = {**SDP, "Origin": "https://shop.example"}
        status, answered, body = await served.request("POST", "/tour/whep/demo", offer.encode(), headers)
        assert status == 201
        assert answered["content-type"] == "application/sdp"
        assert answered["etag"] == '"1"'  # the first connection of its seat
        assert answered["access-control-allow-origin"] == "https://shop.example"
        assert answered["access-control-expose-headers"] == "Location, ETag, Link, Retry-After"
        assert body.startswith(b"v=0")
        assert b"a=candidate:" in body
        assert served.sessions == 1
        assert (await served.request("DELETE", answered["location"]))[0] == 200
        await until(lambda: not served.sessions)
        assert await served.error("DELETE", answered["location"]) == (404, "no_such_seat")
        await link.aclose()

    check(scenario, cors_origins=["https://shop.example"])


def test_delete_ends_a_tour_in_the_middle() -> None:
    async def scenario(served: Served) -> None:
        link, session_url = await join(f"{served.base}/tour/whep/demo")
        viewer = Viewer(link)
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: bool(viewer.seen.text))
        assert await leave(session_url)
        seen = await watching
        assert seen.ended == "the viewer left"
        assert 0 < len(seen.text) < len("".join(WORDS * 100))

    check(scenario, make_stream=make_long_stream)


def test_two_viewers_have_a_stream_each_and_a_third_is_turned_away() -> None:
    async def scenario(served: Served) -> None:
        url = f"{served.base}/tour/whep/demo"
        viewers = [Viewer((await join(url))[0]) for _ in range(2)]
        with pytest.raises(UsageError, match=r"503.*too_many_sessions"):
            await join(url)
        seen = await asyncio.gather(*(viewer.watch() for viewer in viewers))
        assert seen[0].events[0].sid != seen[1].events[0].sid
        assert seen[0].text == seen[1].text == "".join(WORDS)
        await until(lambda: not served.sessions)
        await (await join(url))[0].aclose()

    check(scenario, max_sessions=2)


def test_wrong_requests_get_json_and_leave_nothing() -> None:
    async def scenario(served: Served) -> None:
        link, offer = await WebRTCLink.offering()
        await link.aclose()
        good = offer.encode()
        whep = "/tour/whep/demo"
        assert await served.error("POST", whep, b"x" * (OFFER_LIMIT_BYTES + 1), SDP) == (413, "offer_too_large")
        assert await served.error("POST", whep, b"hello", SDP) == (400, "bad_offer")
        assert await served.error("POST", whep, b"", SDP) == (400, "bad_offer")
        assert await served.error("POST", whep, good.replace(b"DTLS", b"D"), SDP) == (400, "bad_offer")
        mangled = good.replace(b"a=ice-pwd:", b"a=ice-pwd:?")
        assert (await served.request("POST", whep, mangled, SDP))[0] in {201, 400}
        assert await served.error("POST", whep, good, {"Content-Type": "text/plain"}) == (
            415,
            "unsupported_media_type",
        )
        assert await served.error("POST", whep, good) == (415, "unsupported_media_type")
        assert await served.error("POST", "/tour/whep/nope", good, SDP) == (404, "no_such_tour")
        assert await served.error("DELETE", "/tour/whep/demo/none") == (404, "no_such_seat")
        assert await served.error("GET", whep) == (405, "method_not_allowed")
        assert await served.error("PATCH", "/tour/whep/demo/none", b"", SDP) == (405, "method_not_allowed")
        assert await served.error("GET", "/tour/nothing/here") == (404, "not_found")
        await served.app.state.sessions.aclose()
        assert served.sessions == 0

    check(scenario)


def test_an_offer_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.serving.app.OFFER_WAIT", 0.2)

    async def scenario(served: Served) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /tour/whep/demo HTTP/1.1\r\nHost: x\r\nContent-Type: application/sdp\r\n")
        writer.write(b"Content-Length: 500\r\n\r\nv=0")
        async with asyncio.timeout(9):  # its own limit is of ten
            assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()

    check(scenario)


def test_options_and_the_preflight() -> None:
    async def scenario(served: Served) -> None:
        status, headers, _ = await served.request("OPTIONS", "/tour/whep/demo")
        assert (status, headers["accept-post"]) == (204, "application/sdp")
        preflight = {
            "Origin": "https://shop.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        }
        status, headers, _ = await served.request("OPTIONS", "/tour/whep/demo", None, preflight)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://shop.example")
        preflight["Origin"] = "https://other.example"
        status, headers, _ = await served.request("OPTIONS", "/tour/whep/demo", None, preflight)
        assert status == 400
        assert "access-control-allow-origin" not in headers

    check(scenario, cors_origins=["https://shop.example"])


def test_make_stream_may_be_async_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def make(tour: str) -> MultiModalStream:
        await asyncio.sleep(0)
        if tour == "missing":
            raise KeyError(tour)
        if tour == "broken":
            raise RuntimeError("the database password is hunter2")
        return make_stream(tour)

    async def scenario(served: Served) -> None:
        seen = await Viewer((await join(f"{served.base}/tour/whep/demo"))[0]).watch()
        assert seen.text == "".join(WORDS)
        with pytest.raises(UsageError, match=r"404.*no_such_tour"):
            await join(f"{served.base}/tour/whep/missing")
        with pytest.raises(UsageError, match=r"500.*server_fault") as caught:
            await join(f"{served.base}/tour/whep/broken")
        assert "hunter2" not in str(caught.value)
        await until(lambda: not served.sessions)

    with caplog.at_level(logging.ERROR):
        check(scenario, make_stream=make)
    assert [record.getMessage() for record in caplog.records] == ["make_stream failed for tour 'broken'"]


@pytest.mark.parametrize("made", [None, "a narration", 7])
def test_make_stream_that_gives_no_stream_is_named_in_one_line(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def make(tour: str) -> Any:
        return made

    async def scenario(served: Served) -> None:
        link, offer = await WebRTCLink.offering()
        await link.aclose()
        assert await served.error("POST", "/tour/whep/demo", offer.encode(), SDP) == (500, "server_fault")
        assert not served.sessions

    with caplog.at_level(logging.ERROR):
        check(scenario, make_stream=make)
        check(scenario, make_stream=lambda tour: made)
    line = f"make_stream('demo') gave {type(made).__name__}; return a MultiModalStream"
    assert [record.getMessage() for record in caplog.records] == [line, line]
    assert not any(record.exc_info for record in caplog.records)


def test_a_tours_name_may_hold_a_slash() -> None:
    asked: list[str] = []

    def make(tour: str) -> MultiModalStream:
        asked.append(tour)
        return make_long_stream(tour) if tour == "sommer/a b" else make_stream(tour)

    async def scenario(served: Served) -> None:
        link, session_url = await join(f"{served.base}/tour/whep/sommer%2Fa%20b")
        assert session_url.startswith(f"{served.base}/tour/whep/sommer%2Fa%20b/")
        viewer = Viewer(link)
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: bool(viewer.seen.text))
        assert await leave(session_url)
        assert (await watching).ended == "the viewer left"
        link, offer = await WebRTCLink.offering()
        await link.aclose()
        assert await served.error("POST", "/tour/whep/a%2Fb", offer.encode(), SDP) == (404, "no_such_tour")
        assert asked == ["sommer/a b", "a/b"]

    check(scenario, make_stream=make)


def test_a_client_that_posts_and_never_connects_is_given_up() -> None:
    async def scenario(served: Served) -> None:
        link, offer = await WebRTCLink.offering()
        assert (await served.request("POST", "/tour/whep/demo", offer.encode(), SDP))[0] == 201
        await link.aclose()
        assert served.sessions == 1
        await until(lambda: not served.sessions, 60.0)  # the server's limit is of ten

    check(scenario)


def test_a_client_that_connects_and_never_says_hello_is_given_up() -> None:
    async def scenario(served: Served) -> None:
        link, _ = await join(f"{served.base}/tour/whep/demo")
        assert served.sessions == 1
        await link.opened()
        await until(lambda: not served.sessions)
        await link.aclose()

    check(scenario, limits=Limits(hello=1.0))


def test_the_lifespan_ends_sessions_that_play() -> None:
    async def scenario(served: Served) -> None:
        link, _ = await join(f"{served.base}/whep/demo")
        viewer = Viewer(link)
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: bool(viewer.seen.text))
        viewer.say(ViewerProtocol.pause)
        scenarios.append(watching)

    scenarios: list[asyncio.Future[Any]] = []
    check(scenario, mounted=False, make_stream=make_long_stream)
    assert scenarios[0].result().ended == "the server is stopping"


def test_the_players_files() -> None:
    async def scenario(served: Served) -> None:
        path = "/tour/player/product-tour.js"
        status, headers, body = await served.request("GET", path)
        assert status == 200
        assert headers["content-type"] == "text/javascript; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        assert b"customElements" in body
        status, again, nothing = await served.request("GET", path, None, {"If-None-Match": headers["etag"]})
        assert (status, again["etag"], nothing) == (304, headers["etag"], b"")
        for name in ("nothing.js", "__init__.py", "..%2F__init__.py", "..%2Fplayer%2Fproduct-tour.js", "%00.js"):
            assert await served.error("GET", f"/tour/player/{name}") in {(404, "no_such_file"), (404, "not_found")}

    check(scenario)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="make_stream=3"):
        asgi(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_sessions='2'"):
        asgi(make_stream, max_sessions="2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="max_sessions=0"):
        asgi(make_stream, max_sessions=0)
