"""The roads beside WebRTC over real HTTP: the same tour, cut and resumed, over each and from one to the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from multimodal import wire
from multimodal.errors import ChannelClosedError
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import memory_link
from multimodal.transport.resilient import Connector, ResilientViewer, connectors
from multimodal.transport.roads import ROADS, Road, seat_url
from multimodal.transport.viewer import Viewer
from multimodal.transport.websocket_client import join_websocket
from tests.proxy import proxying
from tests.serving.tours import WORDS, Cuts, Served, Tours, check, closed_by, joined, plain, timeless, whole
from tests.support import run
from tests.transport.leaks import until


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
