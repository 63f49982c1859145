"""The roads beside WebRTC over real HTTP: the same tour, cut and resumed, over each and from one to the next."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from multimodal import wire
from multimodal.errors import ChannelClosedError, JoinRefused, UsageError
from multimodal.events import AnyEvent
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.serving.run import UNSENT_BYTES, SmallBuffers, listening
from multimodal.sse_reader import SSEDecoder
from multimodal.stream import MultiModalStream
from multimodal.transport.connection import Limits
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import memory_link
from multimodal.transport.resilient import Connector, ResilientViewer, connectors
from multimodal.transport.roads import ROADS, Road, seat_url
from multimodal.transport.sse_client import join_sse
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.websocket_client import join_websocket
from multimodal.transport.whep import join
from tests.proxy import proxying
from tests.serving.test_stop import interrupted, server
from tests.serving.test_stop import joined as up
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

WORDS = [f"w{number} " for number in range(90)]
PICTURES = [picture(f"p{i}", 20_000 + i) for i in range(6)]


class Tours:
    """Makes the tour's streams; the last one is kept."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self.records: list[list[dict[str, Any]]] = []

    def make(self, tour: str) -> MultiModalStream:
        if tour not in {"demo", "demos/kettle"}:
            raise UsageError(f"there is no tour {tour!r}; there is: demo")
        # Held, a log does not depend on how soon each picture came.
        text, images = ScriptTextPipe(WORDS, gap=self.gap), ScriptImagePipe(PICTURES)
        return MultiModalStream(text, images, late="hold", max_hold=10.0)

    def recorder(self, stream: Any) -> Callable[[dict[str, Any]], None]:
        self.records.append([])
        return self.records[-1].append

    def emitted(self, record: int = 0) -> list[dict[str, Any]]:
        events = [line["event"] for line in self.records[record] if line["vantage"] == "emitted"]
        told: list[dict[str, Any]] = json.loads(json.dumps(events))
        return told


class Served:
    """A running server and its address."""

    def __init__(self, port: int, app: Starlette, tours: Tours) -> None:
        self.app, self.tours = app, tours
        self.base = f"http://127.0.0.1:{port}/shop"
        self.url = f"{self.base}/whep/demo"

    @property
    def live(self) -> list[LiveSession]:
        return list(self.app.state.door._live.values())


@asynccontextmanager
async def serving(gap: float = 0.02, **settings: Any) -> AsyncIterator[Served]:
    tours = Tours(gap)
    settings.setdefault("quotas", Quotas.unlimited())
    app = asgi(tours.make, recorder=tours.recorder, **settings)
    outer: ASGIApp = Starlette()
    assert isinstance(outer, Starlette)
    outer.mount("/shop", app)
    server = uvicorn.Server(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="warning", ws=SmallBuffers))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        yield Served(server.servers[0].sockets[0].getsockname()[1], app, tours)
    finally:
        await app.state.sessions.aclose()
        server.should_exit = True
        await running


def check(scenario: Callable[[Served], Awaitable[None]], **settings: Any) -> None:
    async def checked() -> None:
        async with nothing_left(), serving(**settings) as served:
            await scenario(served)

    run(checked())


def plain(events: list[AnyEvent]) -> list[dict[str, Any]]:
    return [json.loads(wire.encode_event(event)) for event in events]


def timeless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs from one run to the next: the clock, and which tokens were released together."""
    told: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "text" and told and told[-1]["kind"] == "text":
            told[-1]["text"] += event["text"]
        else:
            clocked = {"sid", "pts_ms", "seq", "tok", "token_count"}
            told.append({key: value for key, value in event.items() if key not in clocked})
    return told


def whole(seen: Seen, served: Served, viewer: Viewer) -> None:
    """Word for word what the server emitted, once, and the pictures."""
    assert plain(seen.events) == served.tours.emitted()
    assert [event.seq for event in seen.events] == list(range(len(seen.events)))
    assert len(seen.events) >= 120
    assert seen.pictures == {image.key: image.data for image in PICTURES}
    assert (seen.ended, viewer.protocol.doubled) == ("end", 0)


async def joined(road: Road, url: str) -> Any:
    if road == "whep":
        return (await join(url))[0]
    return await (join_websocket(url) if road == "ws" else join_sse(url))


def test_the_same_tour_over_every_road_and_in_memory() -> None:
    logs: dict[str, list[dict[str, Any]]] = {}

    async def over(served: Served, road: Road) -> None:
        viewer = Viewer(await joined(road, served.url))
        seen = await viewer.watch()
        whole(seen, served, viewer)
        logs[road] = timeless(plain(seen.events))
        if road != "whep":
            assert seat_url(f"http://h{viewer.protocol.seat}", "whep").startswith("http://h/shop/whep/demo/s1_")
        await until(lambda: not served.live)

    async def in_memory() -> None:
        live = LiveSession(Tours(0.01).make("demo"))
        server, client = memory_link()
        live.connect(live.sit(Seat()), server)
        running = asyncio.ensure_future(live.run())
        logs["memory"] = timeless(plain((await Viewer(client).watch()).events))
        await running

    for road in ROADS:
        check(lambda served, road=road: over(served, road), gap=0.01)  # type: ignore[misc]
    run(in_memory())
    assert logs["whep"] == logs["ws"] == logs["sse"] == logs["memory"]
    assert "".join(event.get("text", "") for event in logs["memory"]) == "".join(WORDS)


class Cuts:
    """Cuts the road when so many events have come, without a word."""

    def __init__(self, places: list[int], cut: Callable[[], None]) -> None:
        self.places, self._cut = places, cut

    def on_show(self, bundle: tuple[AnyEvent, ...]) -> None:
        if self.places and bundle[-1].seq >= self.places[0]:
            self.places = [place for place in self.places if place > bundle[-1].seq]
            self._cut()


def closed_by(served: Served) -> Callable[[], None]:
    """The far end of the road goes."""

    def cut() -> None:
        connection = next(iter(served.live[0].seats.values())).connection
        assert connection is not None
        connection.stop("cut", farewell=False)

    return cut


class Relay:
    """Carries TCP connections, and cuts them all: with resets, or by carrying nothing more."""

    def __init__(self) -> None:
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def hush(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def carry(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        self._writers += (writer, back)
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.ensure_future(self._pipe(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()


@asynccontextmanager
async def relayed(served: Served) -> AsyncIterator[tuple[Relay, str]]:
    """A relay, and the tour's address through it."""
    relay, target = Relay(), int(served.url.split(":")[2].split("/")[0])
    server = await asyncio.start_server(partial(relay.carry, target), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield relay, served.url.replace(str(target), str(port))
    finally:
        server.close()
        relay.hush()
        relay.reset()


def test_webrtc_cut_at_ten_places_and_resumed() -> None:
    async def scenario(served: Served) -> None:
        cuts = Cuts(list(range(3, 120, 12)), closed_by(served))
        viewer = ResilientViewer(served.url, roads=("whep",), on_show=cuts.on_show)
        whole(await viewer.watch(), served, viewer)
        # A busy machine may be past the next place before it is back.
        assert 6 <= len(viewer.connections) <= 11
        assert len(served.tours.records) == 1

    check(scenario, gap=0.1)


@pytest.mark.parametrize("road", ["ws", "sse"])
def test_reset_at_ten_places_and_resumed(road: Road) -> None:
    async def scenario(served: Served) -> None:
        async with relayed(served) as (relay, url):
            cuts = Cuts(list(range(3, 120, 12)), relay.reset)
            viewer = ResilientViewer(url, roads=(road,), on_show=cuts.on_show)
            whole(await viewer.watch(), served, viewer)
            assert 6 <= len(viewer.connections) <= 11
            assert len(served.tours.records) == 1

    check(scenario, gap=0.05)


@pytest.mark.parametrize("road", ["ws", "sse"])
def test_a_road_that_carries_nothing_more_is_left(road: Road) -> None:
    async def scenario(served: Served) -> None:
        async with relayed(served) as (relay, url):
            cuts = Cuts([40], relay.hush)
            viewer = ResilientViewer(url, roads=(road,), on_show=cuts.on_show)
            whole(await viewer.watch(), served, viewer)
            assert viewer.connections == [road, road]
            assert "said nothing for 3 s" in viewer.failures[0]

    check(scenario, gap=0.02)


def test_from_webrtc_to_websocket_to_sse_with_one_seat_and_one_cursor() -> None:
    async def scenario(served: Served) -> None:
        cuts = Cuts([20, 60], closed_by(served))
        real = connectors()
        dead: set[Road] = set()

        def take(road: Road) -> Connector:
            async def connect(url: str, seat: str, token: str) -> Any:
                if road in dead:
                    raise ChannelClosedError("blocked")
                dead.add(road)
                return await real[road](url, seat, token)

            return connect

        viewer = ResilientViewer(served.url, take={road: take(road) for road in ROADS}, on_show=cuts.on_show)
        whole(await viewer.watch(), served, viewer)
        assert viewer.connections == ["whep", "ws", "sse"]
        assert len(served.tours.records) == 1

    check(scenario, gap=0.04)


@pytest.mark.parametrize("upgrades", [True, "strip", "hang"])
def test_where_udp_is_blocked_and_upgrades_are_refused_it_comes_by_sse(upgrades: bool | str) -> None:
    async def scenario(served: Served) -> None:
        async def blocked(url: str, seat: str, token: str) -> Any:
            await asyncio.get_running_loop().create_future()

        port = int(served.url.split(":")[2].split("/")[0])
        async with proxying(("127.0.0.1", port), refuse_upgrades=upgrades) as proxy:
            url = served.url.replace(str(port), str(proxy.port))
            take = {**connectors(), "whep": blocked}
            viewer = ResilientViewer(url, take=take, fallback_after=0.3)
            whole(await viewer.watch(), served, viewer)
        assert viewer.connections == ["sse"]

    check(scenario, gap=0.01)


def test_two_connections_in_a_row_without_progress() -> None:
    async def scenario(served: Served) -> None:
        link = await join_websocket(served.url)
        viewer = Viewer(link)
        watching = asyncio.ensure_future(viewer.watch())
        await until(lambda: viewer.protocol.cursor >= 10)
        watching.cancel()
        await asyncio.wait((watching,))
        seat = f"{served.base.removesuffix('/shop')}{viewer.protocol.seat}"
        cursor = viewer.protocol.cursor
        hello = wire.Hello(cursor=cursor, resume=True)
        for road in ("ws", "sse"):
            again = await connectors()[road](served.url, seat, "")
            again[0].send_event(wire.encode(hello))
            await again[0].receive()
            await again[0].aclose()
        resumed = ResilientViewer(served.url, seat=seat, roads=("ws",), hello=hello)
        seen = await resumed.watch()
        assert [event.seq for event in seen.events] == list(range(cursor + 1, len(served.tours.emitted())))
        assert plain(viewer.seen.events) + plain(seen.events) == served.tours.emitted()

    check(scenario)


def test_a_late_viewer_of_a_shared_tour_gets_a_snapshot_over_each_road() -> None:
    async def scenario(served: Served) -> None:
        first = Viewer(await join_websocket(served.url))
        watching = asyncio.ensure_future(first.watch())
        await until(lambda: first.protocol.cursor >= 40)
        late = [Viewer(await joined(road, served.url)) for road in ROADS]
        seen = await asyncio.gather(*(viewer.watch() for viewer in late))
        await watching
        for each in seen:
            snapshot, rest = each.events[0], each.events[1:]
            assert snapshot.kind == "snapshot"
            assert [event.seq for event in rest] == list(range(snapshot.seq + 1, len(first.seen.events)))
            assert rest == first.seen.events[snapshot.seq + 1 :]
            assert each.text == "".join(WORDS)
        assert len(served.tours.records) == 4

    check(scenario, shared=["demo"], gap=0.08)


def test_a_takeover_on_another_road_is_told() -> None:
    async def scenario(served: Served) -> None:
        old = ResilientViewer(served.url, roads=("sse",))
        watching = asyncio.ensure_future(old.watch())
        await until(lambda: old.protocol.cursor >= 10)
        old._learn_seat()
        new = ResilientViewer(served.url, seat=old.seat, roads=("ws",), hello=wire.Hello(cursor=5, resume=True))
        seen = await new.watch()
        assert (await watching).ended == "taken over by another connection"
        assert len(old.connections) == 1
        assert seen.events[0].seq == 6

    check(scenario, gap=0.05)


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
