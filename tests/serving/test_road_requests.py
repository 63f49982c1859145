"""Single requests on every road over real HTTP: with curl, wrong ones, refused ones, and when the server stops."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
import subprocess
import time
from typing import Any

import httpx2
import pytest

from multimodal import wire
from multimodal.errors import JoinRefused, UsageError
from multimodal.serving.run import UNSENT_BYTES, SmallBuffers, listening
from multimodal.sse_reader import SSEDecoder
from multimodal.transport.connection import Limits
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.roads import ROADS
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.websocket_client import join_websocket
from tests.serving.test_stop import interrupted, server
from tests.serving.test_stop import joined as up
from tests.serving.tours import PICTURES, Cuts, Served, check, closed_by, joined
from tests.support import run
from tests.transport.leaks import until


async def curl(*arguments: str) -> tuple[bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sSN", "--max-time", "30", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    return await process.communicate()


async def curl_until(wanted: bytes, url: str) -> bytes:
    """What it has printed when `wanted` is in a whole event of it; then it is killed."""
    process = await asyncio.create_subprocess_exec("curl", "-sSN", url, stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = b""
    while wanted not in told.rpartition(b"\n\n")[0]:
        more = await process.stdout.read(65536)
        assert more, f"it ended before {wanted!r}: {told!r}"
        told += more
    process.kill()
    await process.communicate()
    return told


def test_curl_reads_a_tour_and_its_pictures() -> None:
    async def scenario(served: Served) -> None:
        told, errors = await curl("-D", "-", f"{served.base}/sse/demo")
        head, _, body = told.partition(b"\r\n\r\n")
        assert errors == b""
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n"))
        }
        assert headers["content-type"].startswith("text/event-stream")
        assert headers["cache-control"] == "no-cache, no-transform"
        events = SSEDecoder().feed(body)
        messages = [json.loads(event.data) for event in events]
        assert messages[0] == {"type": "seat", "path": headers["location"]}
        bundles = [message["events"] for message in messages if message["type"] == "bundle"]
        assert [event for bundle in bundles for event in bundle] == served.tours.emitted()
        ids = [int(event.id) for event, message in zip(events, messages, strict=True) if message["type"] == "bundle"]
        assert ids == [bundle[-1]["seq"] for bundle in bundles]
        assert messages[-1]["type"] == "bye"
        assert {"tick", "pong"}.isdisjoint(message["type"] for message in messages)

    check(scenario, limits=Limits(linger=0.2), gap=0.01)


def test_curl_goes_on_after_the_last_event_id_and_fetches_a_picture() -> None:
    async def scenario(served: Served) -> None:
        told = await curl_until(b'"kind":"asset"', f"{served.base}/sse/demo")
        events = SSEDecoder().feed(told)
        seat = json.loads(events[0].data)["path"].replace("/whep/", "/sse/")
        origin = served.base.removesuffix("/shop")
        cursor = next(event.id for event in reversed(events) if event.id)
        asset = next(event for event in served.tours.emitted() if event["kind"] == "asset")
        sha256 = asset["variants"][0]["sha256"]
        data, _ = await curl(f"{origin}{seat.replace('/sse/', '/pictures/')}/{sha256}")
        assert hashlib.sha256(data).hexdigest() == sha256
        told, _ = await curl("-H", f"Last-Event-ID: {cursor}", f"{origin}{seat}")
        messages = [json.loads(event.data) for event in SSEDecoder().feed(told)]
        rest = [event for message in messages if message["type"] == "bundle" for event in message["events"]]
        assert [event["seq"] for event in rest] == list(range(int(cursor) + 1, len(served.tours.emitted())))

    check(scenario, limits=Limits(linger=0.2), gap=0.03)


def test_last_event_id_without_a_seat_goes_on_in_a_shared_tour_and_begins_no_other() -> None:
    async def scenario(served: Served) -> None:
        told, _ = await curl("-H", "Last-Event-ID: 5", f"{served.base}/sse/demo")
        assert json.loads(told)["error"]["code"] == "no_such_seat"
        await until(lambda: not served.live)
        first = Viewer(await join_websocket(f"{served.base}/whep/demos/kettle"))
        watching = asyncio.ensure_future(first.watch())
        await until(lambda: first.protocol.cursor >= 20)
        told, _ = await curl("-H", "Last-Event-ID: 5", f"{served.base}/sse/demos/kettle")
        messages = [json.loads(event.data) for event in SSEDecoder().feed(told)]
        rest = [event["seq"] for message in messages if message["type"] == "bundle" for event in message["events"]]
        await watching
        assert rest == list(range(6, len(first.seen.events)))

    check(scenario, shared=["demos/kettle"], limits=Limits(linger=0.2), gap=0.05)


async def problem(response: httpx2.Response) -> tuple[int, str]:
    error = response.json()["error"]
    assert error.keys() == {"code", "message", "hint"}
    return response.status_code, error["code"]


def test_wrong_requests_get_a_problem_and_leave_nothing() -> None:
    async def scenario(served: Served) -> None:
        async with httpx2.AsyncClient(timeout=30) as client:

            async def asked(method: str, path: str, **settings: Any) -> tuple[int, str]:
                return await problem(await client.request(method, f"{served.base}{path}", **settings))

            fake = "s1_" + "A" * 120
            assert await asked("GET", "/sse/nothing") == (404, "no_such_tour")
            assert await asked("GET", f"/sse/demo/{fake}") == (404, "no_such_seat")
            assert await asked("POST", f"/sse/demo/{fake}/messages", content="{}") == (404, "no_such_seat")
            assert await asked("GET", f"/pictures/demo/{fake}/00") == (404, "no_such_seat")
            assert await asked("GET", f"/sse/demo/{fake}", headers={"Last-Event-ID": "x"}) == (400, "bad_last_event_id")
            for body in (b"", b"{}", b'{"type":"pause"}', b"\xff", b'{"type":"hello","v":2}'):
                assert await asked("POST", "/sse/demo", content=body) == (400, "bad_hello")
            assert await asked("POST", "/sse/demo", content=b"x" * 70_000) == (413, "body_too_large")
            assert await asked("PUT", "/sse/demo") == (405, "method_not_allowed")
        assert served.live == []

    check(scenario)


def test_messages_and_pictures_of_a_seat_without_a_stream() -> None:
    async def scenario(served: Served) -> None:
        viewer = Viewer(await join_websocket(served.url))
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: viewer.protocol.cursor >= 10)
        origin = served.base.removesuffix("/shop")
        async with httpx2.AsyncClient(timeout=30) as client:
            path = viewer.protocol.seat.replace("/whep/", "/sse/")
            answer = await client.post(f"{origin}{path}/messages", content='{"type":"pause"}')
            assert await problem(answer) == (409, "no_event_stream")
            path = viewer.protocol.seat.replace("/whep/", "/pictures/")
            assert await problem(await client.get(f"{origin}{path}/00")) == (404, "no_such_picture")
            url = f"{origin}{path}/{PICTURES[0].sha256}"
            answer = await client.get(url)
            assert answer.content == PICTURES[0].data
            assert answer.headers["content-type"] == "image/webp"
            assert answer.headers["cache-control"].startswith("private")
            answer = await client.get(url, headers={"If-None-Match": answer.headers["etag"]})
            assert (answer.status_code, answer.content) == (304, b"")
        watching.cancel()
        await asyncio.wait((watching,))

    check(scenario, gap=0.2)


@pytest.mark.parametrize(
    ("tour", "first", "status", "code"),
    [
        ("nothing", wire.encode(wire.Hello()), 404, "no_such_tour"),
        ("demo/s1_" + "A" * 120, wire.encode(wire.Hello()), 404, "no_such_seat"),
        ("demo", wire.encode(wire.Pause()), 400, "bad_hello"),
        ("demo", "{}", 400, "bad_hello"),
    ],
)
def test_a_socket_that_is_refused_says_why(tour: str, first: str, status: int, code: str) -> None:
    async def scenario(served: Served) -> None:
        link = await join_websocket(f"{served.base}/whep/{tour}")
        link.send_event(first)
        with pytest.raises(JoinRefused, match=code) as refused:
            await link.receive()
        assert (refused.value.status, refused.value.code) == (status, code)
        await link.aclose()
        assert served.live == []

    check(scenario)


def test_a_full_server_turns_each_road_away_and_says_when_to_come_back() -> None:
    async def scenario(served: Served) -> None:
        viewer = Viewer(await join_websocket(served.url))
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: viewer.protocol.cursor >= 0)
        for road in ROADS:
            with pytest.raises(JoinRefused) as refused:
                await Viewer(await joined(road, served.url)).watch()
            assert (refused.value.status, refused.value.code) == (503, "too_many_sessions")
        watching.cancel()
        await asyncio.wait((watching,))

    check(scenario, max_sessions=1, gap=0.2)


def test_tokens_on_every_road() -> None:
    secret = "a secret of more than thirty-two bytes, for tests only"

    async def scenario(served: Served) -> None:
        tokens = served.app.state.door.turnstile.tokens
        now = time.time()
        for road in ROADS:
            with pytest.raises(JoinRefused, match="token_missing"):
                await ResilientViewer(served.url, roads=(road,)).watch()
            with pytest.raises(JoinRefused, match="wrong_scope"):
                await ResilientViewer(served.url, roads=(road,), token=tokens.issue(tour="other", now=now)).watch()
            cut = Cuts([20], closed_by(served))
            viewer = ResilientViewer(
                served.url, roads=(road,), token=tokens.issue(tour="demo", now=now), on_show=cut.on_show
            )
            seen = await viewer.watch()
            assert [event.seq for event in seen.events] == list(range(len(seen.events)))
            assert seen.pictures == {image.key: image.data for image in PICTURES}
            assert len(viewer.connections) == 2
            await until(lambda: not served.live)

    check(scenario, secret=secret, gap=0.01)


def test_a_server_that_stops_says_goodbye_over_every_road() -> None:
    async def scenario(served: Served) -> None:
        viewers = [Viewer(await joined(road, served.url)) for road in ROADS]
        watching = [asyncio.ensure_future(viewer.watch()) for viewer in viewers]
        for viewer in viewers:
            await until(lambda viewer=viewer: viewer.protocol.cursor >= 5)  # type: ignore[misc]
        await served.app.state.sessions.aclose()
        assert [(await each).ended for each in watching] == ["the server is stopping"] * 3

    check(scenario, gap=0.2)


def test_a_connection_keeps_little_for_itself() -> None:
    async def scenario() -> None:
        accepted: list[socket.socket] = []

        class Application(SmallBuffers):
            def __init__(self) -> None:
                """Without the rest of a server."""

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.connections, self.logger = set(), logging.getLogger("test")
                super().connection_made(transport)
                accepted.append(transport.get_extra_info("socket"))
                assert isinstance(transport, asyncio.Transport)
                assert transport.get_write_buffer_limits() == (0, 0)
                transport.abort()

            def connection_lost(self, exc: Exception | None) -> None:
                pass

        listener = listening(0)
        server = await asyncio.get_running_loop().create_server(Application, sock=listener)
        _, writer = await asyncio.open_connection(*listener.getsockname())
        await until(lambda: bool(accepted))
        writer.close()
        server.close()
        with listening(0) as plain:
            plain.listen()
            with socket.create_connection(plain.getsockname()), plain.accept()[0] as connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT_BYTES

    run(scenario())


def test_a_port_that_is_taken_is_named() -> None:
    with listening(0) as taken:
        taken.listen()
        with pytest.raises(UsageError, match="choose another with --port"):
            listening(taken.getsockname()[1])


@pytest.mark.parametrize("kind", ["mounted", "served"])
def test_ctrl_c_with_viewers_on_every_road(kind: str) -> None:
    async def scenario() -> None:
        async with server(kind) as (process, url):
            viewers = [Viewer(await up(url))]
            viewers += [Viewer(await joined(road, url)) for road in ("ws", "sse")]
            watching = [asyncio.ensure_future(viewer.watch()) for viewer in viewers]
            for viewer in viewers:
                await until(lambda viewer=viewer: len(viewer.seen.text) > 20, 60)  # type: ignore[misc]
            printed, seconds = await interrupted(process, 1)
            assert printed == ""
            assert seconds < 5.0
            ends = await asyncio.gather(*watching, return_exceptions=True)
            told = [end.ended if isinstance(end, Seen) else str(end) for end in ends]
            # A mounted application learns too late that its server stops: by then the WebSocket is closed.
            closed = "the server is stopping" if kind == "served" else "the connection was lost (code 1012)"
            assert told == ["the server is stopping", closed, "the server is stopping"]

    run(scenario())
