"""The relay between real sockets and real peers: what the profile says happens, and nothing finds a way around."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from multimodal.errors import UsageError
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.stream import MultiModalStream
from multimodal.sync import relay as module
from multimodal.sync.link import LinkProfile, Network
from multimodal.sync.relay import VIEWER_ADDRESSES, RelayedApp, UdpRelay, behind
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.whep import join
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

WORDS = [f"w{number} " for number in range(20)]
HOST = "127.0.0.1"
Address = tuple[str, int]


class Socket(asyncio.DatagramProtocol):
    """A peer without ICE: notes what comes, with its time and source."""

    def __init__(self) -> None:
        self.got: list[tuple[float, bytes, Address]] = []
        self.transport: asyncio.DatagramTransport
        self.address: Address

    @classmethod
    async def open(cls) -> Socket:
        transport, peer = await asyncio.get_running_loop().create_datagram_endpoint(cls, local_addr=(HOST, 0))
        peer.transport, peer.address = transport, transport.get_extra_info("sockname")
        return peer

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.got.append((asyncio.get_running_loop().time(), data, addr))

    @property
    def data(self) -> list[bytes]:
        return [data for _, data, _ in self.got]


def answer(port: int, host: str = HOST) -> str:
    return f"v=0\r\na=candidate:abc 1 udp 2130706431 {host} {port} typ host\r\na=end-of-candidates\r\na=mid:0\r\n"


def relay_port(sdp: str) -> int:
    found = re.findall(r"a=candidate:\S+ 1 udp \d+ (\S+) (\d+) typ host", sdp)
    assert len(found) == 1
    assert found[0][0] == HOST
    return int(found[0][1])


@asynccontextmanager
async def between(
    profile: str | LinkProfile | Network, seed: int = 0
) -> AsyncIterator[tuple[UdpRelay, Socket, Socket, Address]]:
    """A relay, a server and a viewer beside it, and the address that the viewer sends to."""
    server, viewer = await Socket.open(), await Socket.open()
    async with UdpRelay(profile, seed=seed) as relay:
        front = relay_port(await relay.rewrite_answer(answer(server.address[1])))
        yield relay, server, viewer, (HOST, front)
    server.transport.close()
    viewer.transport.close()


def clean(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it, and check that nothing is left."""

    async def checked() -> None:
        async with nothing_left():
            await scenario()

    run(checked())


def test_both_ways_are_delayed_by_their_own_profile() -> None:
    async def scenario() -> None:
        async with between(Network(LinkProfile(delay=0.2), LinkProfile(delay=0.1))) as (relay, server, viewer, front):
            begin = asyncio.get_running_loop().time()
            viewer.transport.sendto(b"up", front)
            await until(lambda: bool(server.got))
            at, data, back = server.got[0]
            assert data == b"up"
            assert 0.1 <= at - begin < 5.0
            server.transport.sendto(b"down", back)
            await until(lambda: bool(viewer.got))
            later, data, source = viewer.got[0]
            assert data == b"down"
            assert source == front
            assert 0.2 <= later - at < 5.0
            assert (relay.up.counters.delivered, relay.down.counters.delivered) == (1, 1)

    clean(scenario)


def test_unplugged_it_passes_nothing_and_plugged_in_again_the_rest() -> None:
    async def scenario() -> None:
        async with between(LinkProfile()) as (relay, server, viewer, front):
            viewer.transport.sendto(b"before", front)
            await until(lambda: bool(server.got))
            back = server.got[0][2]
            relay.unplugged = True
            viewer.transport.sendto(b"lost", front)
            server.transport.sendto(b"lost", back)
            await asyncio.sleep(0.1)
            relay.unplugged = False
            viewer.transport.sendto(b"after", front)
            server.transport.sendto(b"after", back)
            await until(lambda: len(server.got) == 2 and bool(viewer.got))
            assert [data for _, data, _ in server.got] == [b"before", b"after"]
            assert [data for _, data, _ in viewer.got] == [b"after"]

    clean(scenario)


def test_an_outage_is_one_of_relays_that_are_made_meanwhile_too() -> None:
    async def scenario() -> None:
        app = behind(answering, "good")
        await signal(app)
        app.unplug()
        await signal(app)
        assert [relay.unplugged for relay in app.relays] == [True, True]
        app.unplug(False)
        await signal(app)
        assert [relay.unplugged for relay in app.relays] == [False, False, False]
        await app.aclose()

    clean(scenario)


def test_two_connections_of_one_viewer_wait_in_one_queue() -> None:
    async def scenario() -> None:
        # 20 kB/s: each datagram of 1,000 bytes takes 50 ms, whichever connection it is of.
        profile = Network(LinkProfile(bytes_per_s=20_000), LinkProfile())
        async with between(profile) as (relay, server, viewer, front), UdpRelay(profile, beside=relay) as other:
            second = await Socket.open()
            there = relay_port(await other.rewrite_answer(answer(server.address[1])))
            viewer.transport.sendto(b"first", front)
            second.transport.sendto(b"second", (HOST, there))
            await until(lambda: len(server.got) == 2)
            begin = asyncio.get_running_loop().time()
            backs = {data: back for _, data, back in server.got}
            for _ in range(3):
                server.transport.sendto(bytes(1000), backs[b"first"])
                server.transport.sendto(bytes(1000), backs[b"second"])
            await until(lambda: len(viewer.got) == len(second.got) == 3)
            assert max(viewer.got[-1][0], second.got[-1][0]) - begin >= 0.29
            assert relay.down.counters.delivered == 6
            second.transport.close()

    clean(scenario)


def test_loss_and_order_are_the_profiles() -> None:
    async def scenario() -> None:
        profile = LinkProfile(jitter=0.05, lose=(3, 7), duplicate=0.3)
        async with between(Network(LinkProfile(), profile), seed=4) as (relay, server, viewer, front):
            for number in range(30):
                viewer.transport.sendto(bytes([number]), front)
            await until(lambda: relay.up.counters.sent == 30)
            await until(lambda: len(server.got) == relay.up.counters.delivered)
            assert list(dict.fromkeys(server.data)) == [bytes([n]) for n in range(30) if n not in (3, 7)]
            assert server.data == sorted(server.data)
            assert relay.up.counters.duplicated == len(server.data) - 28 > 0

    clean(scenario)


def test_what_is_late_holds_up_nobody() -> None:
    async def scenario() -> None:
        profile = LinkProfile(reorder=0.5, reorder_by=1.0)
        async with between(profile, seed=2) as (relay, server, viewer, front):
            for number in range(20):
                viewer.transport.sendto(bytes([number]), front)
            await until(lambda: len(server.got) == 20)
            late = relay.up.counters.reordered
            assert 5 < late < 15
            assert server.got[20 - late][0] - server.got[19 - late][0] > 0.3
            assert sorted(server.data[: 20 - late]) == server.data[: 20 - late]

    clean(scenario)


def test_the_rate_holds_in_real_time() -> None:
    async def scenario() -> None:
        profile = LinkProfile(bytes_per_s=10_000, queue_bytes=5_000)
        async with between(profile) as (relay, server, viewer, front):
            for _ in range(30):
                viewer.transport.sendto(bytes(1000), front)
            await until(lambda: relay.up.counters.sent == 30 and len(server.got) == relay.up.counters.delivered)
            # A busy machine takes its time to hand them over, and what was served meanwhile made room.
            assert 15 <= relay.up.counters.overflowed <= 25
            took = server.got[-1][0] - server.got[0][0]
            assert took >= 0.5 * (len(server.got) - 1) * 1000 / 10_000

    clean(scenario)


def test_each_address_of_the_viewer_has_a_port_of_its_own_and_they_are_bounded() -> None:
    async def scenario() -> None:
        async with between("good") as (relay, server, viewer, front):
            others = [await Socket.open() for _ in range(VIEWER_ADDRESSES)]
            for number, each in enumerate([viewer, *others]):
                each.transport.sendto(bytes([number]), front)
            await until(lambda: len(server.got) == VIEWER_ADDRESSES)
            assert relay.strangers == 1
            assert len({source for _, _, source in server.got}) == VIEWER_ADDRESSES
            for _, data, source in server.got:
                server.transport.sendto(b"to " + data, source)
            await until(lambda: all(each.got for each in [viewer, *others[:-1]]))
            assert [each.data for each in [viewer, *others[:-1]]] == [
                [b"to " + bytes([number])] for number in range(VIEWER_ADDRESSES)
            ]
            # Nobody but the server is heard behind the relay.
            others[-1].transport.sendto(b"knock", server.got[0][2])
            await until(lambda: relay.strangers == 2)
            for each in others:
                each.transport.close()

    clean(scenario)


def test_what_is_under_way_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_LIMIT", 5)

    async def scenario() -> None:
        async with between(LinkProfile(delay=30.0)) as (relay, server, viewer, front):
            for _ in range(8):
                viewer.transport.sendto(b"x", front)
            await until(lambda: relay.crowded_out == 3)
            assert relay.up.counters.sent == 5
        assert server.got == []

    clean(scenario)


def test_the_answer_names_only_the_relay() -> None:
    async def scenario() -> None:
        sdp = (
            "v=0\r\na=candidate:a 1 udp 1 fd00::2 50001 typ host\r\n"
            "a=candidate:b 1 tcp 1 127.0.0.1 9 typ host tcptype passive\r\n"
            "a=candidate:c 2 udp 1 127.0.0.1 50002 typ host\r\na=candidate:d 1 udp 1 127.0.0.1 50003 typ host\r\n"
            "a=candidate:e 1 udp 1 192.0.2.9 50004 typ srflx raddr 10.0.0.1 rport 1\r\na=end-of-candidates\r\n"
        )
        async with UdpRelay("good") as relay:
            rewritten = await relay.rewrite_answer(sdp)
            port = relay_port(rewritten)
            assert port != 50003
            expected = f"v=0\r\na=candidate:d 1 udp 1 127.0.0.1 {port} typ host\r\na=end-of-candidates\r\n"
            assert rewritten == expected
            with pytest.raises(UsageError, match="one for each connection"):
                await relay.rewrite_answer(sdp)
        async with UdpRelay("good") as relay:
            with pytest.raises(UsageError, match="no UDP candidate"):
                await relay.rewrite_answer("v=0\r\n")
        with pytest.raises(UsageError, match="in use or closed"):
            await relay.rewrite_answer(sdp)

    clean(scenario)


def test_the_offer_keeps_everything_but_its_candidates() -> None:
    sdp = "v=0\r\na=candidate:a 1 udp 1 10.0.0.1 5 typ host\r\na=ice-ufrag:x\r\na=end-of-candidates\r\n"
    assert UdpRelay.rewrite_offer(sdp) == "v=0\r\na=ice-ufrag:x\r\n"


async def watch(server: WebRTCLink, client: WebRTCLink, stream: MultiModalStream) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(ViewerSession(stream, server).run())
        watching = group.create_task(Viewer(client).watch())
    seen = watching.result()
    assert set(seen.pictures) == {"p0", "p1", "p2"}
    return seen.text


def make_stream(tour: str = "") -> MultiModalStream:
    return MultiModalStream(
        ScriptTextPipe(WORDS, gap=0.02), ScriptImagePipe([picture(f"p{number}", 20_000) for number in range(3)])
    )


@pytest.mark.parametrize("settings", [{}, {"bind_addresses": [HOST]}])
def test_real_peers_have_no_other_way(settings: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with UdpRelay(LinkProfile(delay=0.02, loss=0.02), seed=1) as relay:
            client, offer = await WebRTCLink.offering(**settings)
            server, sdp = await WebRTCLink.answering(UdpRelay.rewrite_offer(offer), **settings)
            await client.accept(await relay.rewrite_answer(sdp))
            assert await watch(server, client, make_stream()) == "".join(WORDS)
            # Three pictures have passed through it.
            assert relay.down.counters.delivered_bytes > 60_000
            assert relay.up.counters.delivered > 20

    clean(scenario)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=0, log_level="warning"))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://{HOST}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


def test_an_application_behind_a_profile() -> None:
    async def scenario() -> None:
        app = behind(asgi(make_stream), LinkProfile(delay=0.02))
        async with serving(app) as url:
            for number in range(2):
                link, _ = await join(f"{url}/whep/demo")
                seen = await Viewer(link).watch()
                assert seen.text == "".join(WORDS)
                assert app.relays[number].down.counters.delivered_bytes > 60_000
        assert app.relays == [], "closed with the lifespan"

    clean(scenario)


def test_what_is_no_session_passes_unchanged() -> None:
    async def scenario() -> None:
        app = behind(asgi(make_stream), "good")
        async with serving(app) as url:
            assert await fetch(f"{url}/whep/demo", b"v=0", "text/plain") == 415
            assert await fetch(f"{url}/whep/demo", b"v=0" + bytes(70_000), "application/sdp") == 413
            assert await fetch(f"{url}/player/product-tour.js") == 200
        assert app.relays == []

    clean(scenario)


def test_the_oldest_relay_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELAYS_LIMIT", 1)

    async def scenario() -> None:
        app = behind(answering, "good")
        first = await signal(app)
        second = await signal(app)
        assert first != second
        assert len(app.relays) == 1
        await app.aclose()
        await app.aclose()

    clean(scenario)


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers any offer, in two pieces, after all of it has come."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message.get("more_body", False)
    assert body == b"v=0\r\n"
    headers = [(b"content-length", b"99"), (b"location", b"/whep/x/1")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    sdp = answer(50_000).encode()
    await send({"type": "http.response.body", "body": sdp[:20], "more_body": True})
    await send({"type": "http.response.body", "body": sdp[20:]})


async def signal(app: RelayedApp) -> int:
    offer = b"v=0\r\na=candidate:a 1 udp 1 10.0.0.1 5 typ host\r\n"
    pieces = [
        {"type": "http.request", "body": offer[:12], "more_body": True},
        {"type": "http.request", "body": offer[12:], "more_body": False},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": "/tour/whep/x", "headers": []}, receive, send)
    start, body = sent
    assert dict(start["headers"]) == {b"location": b"/whep/x/1", b"content-length": str(len(body["body"])).encode()}
    return relay_port(body["body"].decode())


async def fetch(url: str, body: bytes | None = None, content_type: str = "") -> int:
    """The status of a request."""

    def call() -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": content_type})) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return await asyncio.to_thread(call)
