"""A UDP relay in user space: real peers, browsers included, behind a simulated network, on any machine.

ICE decides how to put a peer behind it. The viewer's offer loses its candidates, so that the server knows no address to
try; the server's answer gets one candidate, the relay's. The viewer's checks then come to the relay, which sends them
on from a port of its own (one for each address that the viewer tries from, as a NAT does); the server learns that port
as a peer-reflexive candidate and answers through it. Nothing is left that could find a shorter way.

    viewer  ----->  front | up ----->  | back, one port per viewer address  ----->  server
    viewer  <-----  front | <----- down | back                              <-----  server

In real time, so figures are as good as the event loop is idle. Bounds: the queue of the profile's bottleneck,
`IN_FLIGHT_LIMIT` datagrams under way each way, `VIEWER_ADDRESSES` ports.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from types import TracebackType
from typing import Any

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.sync.link import LinkProfile, Network, SimulatedLink, network

__all__ = ["IN_FLIGHT_LIMIT", "RELAYS_LIMIT", "VIEWER_ADDRESSES", "RelayedApp", "UdpRelay", "behind"]

VIEWER_ADDRESSES = 8
"""A browser tries from each of its interfaces: two or three; more are turned away."""
IN_FLIGHT_LIMIT = 8192
"""Datagrams on one direction's delay line: ten megabytes."""
RELAYS_LIMIT = 64
"""Relays of one `behind`; the oldest closes for the next."""
_OFFER_LIMIT_BYTES = 64 * 1024
"""What is longer is no offer, and is handed on as it comes."""
_BUFFER_BYTES = 1024 * 1024
"""Asked of the kernel for each socket: a busy moment of the loop must not lose what the profile would not."""

Address = tuple[str, int]
_CANDIDATE = re.compile(r"^a=candidate:(?:\S+ ){4}(?P<host>\S+) (?P<port>\d+) [^\r\n]*\r?\n?", re.MULTILINE)
_USABLE = re.compile(r"^a=candidate:\S+ 1 udp \d+ \S+ \d+ ", re.IGNORECASE)
_CANDIDATES = re.compile(r"^a=(?:candidate:[^\r\n]*|end-of-candidates)\r?\n?", re.MULTILINE)


class UdpRelay:
    """A relay for one connection, made in a running loop; closed by `aclose`, or as an async context.

    Args:
        profile: the network, by its name, as one profile for both directions, or as both.
        seed: of all chance.
        beside: a relay whose network this one shares, as two connections of one viewer do: they wait in one queue.

    `down` and `up` are the two directions, with their counters; `strangers` counts datagrams that came from an address
    which is none of the two peers'. While `unplugged` is set nothing passes, and nobody is told; what is under way
    still arrives.

    Raises:
        UsageError: an unknown network, or no event loop runs here.
    """

    def __init__(
        self, profile: str | LinkProfile | Network, *, seed: int | str = 0, beside: UdpRelay | None = None
    ) -> None:
        directions = network(profile)
        began = loop_here("UdpRelay(...)").time()
        down = SimulatedLink(directions.down, f"{seed}:down", began=began)
        up = SimulatedLink(directions.up, f"{seed}:up", began=began)
        self.down: SimulatedLink = down if beside is None else beside.down
        self.up: SimulatedLink = up if beside is None else beside.up
        self.strangers = 0
        self.unplugged = False
        self._down, self._up = _Lane(self.down), _Lane(self.up)
        self._server: Address | None = None
        self._front: asyncio.DatagramTransport | None = None
        self._backs: list[asyncio.DatagramTransport] = []
        self._viewers: list[Address] = []
        self._closed = False

    @property
    def crowded_out(self) -> int:
        """Datagrams dropped because `IN_FLIGHT_LIMIT` were under way already."""
        return self._down.crowded_out + self._up.crowded_out

    @staticmethod
    def rewrite_offer(sdp: str) -> str:
        """The viewer's offer without its candidates: the server can only answer through the relay."""
        return _CANDIDATES.sub("", sdp)

    async def rewrite_answer(self, sdp: str) -> str:
        """The server's answer with the relay's address for its only candidate. Once for each relay.

        The relay opens its sockets on the server's own address, the first of its IPv4 ones where it has any.

        Raises:
            UsageError: no usable candidate in the answer, or the relay is in use or closed.
        """
        if self._front is not None or self._closed:
            raise UsageError("this UdpRelay is in use or closed; make one for each connection")
        usable = [found for found in _CANDIDATE.finditer(sdp) if _USABLE.match(found[0])]
        usable.sort(key=lambda found: ":" in found["host"])
        if not usable:
            raise UsageError("the answer lists no UDP candidate, so there is nothing to relay to")
        chosen = usable[0]
        self._server = (chosen["host"], int(chosen["port"]))
        for number in range(VIEWER_ADDRESSES):
            self._backs.append(await _open(chosen["host"], partial(self._from_server, number)))
        self._front = await _open(chosen["host"], self._from_viewer)
        port = self._front.get_extra_info("sockname")[1]
        line = chosen[0].replace(f" {chosen['host']} {chosen['port']} ", f" {chosen['host']} {port} ")
        return _CANDIDATE.sub(lambda found: line if found[0] == chosen[0] else "", sdp)

    async def aclose(self) -> None:
        """Close all sockets and drop what is under way. Twice is once."""
        self._closed = True
        self._down.close()
        self._up.close()
        for transport in (*self._backs, self._front):
            if transport is not None:
                transport.close()
        # Transports close their sockets in the loop's next turn.
        await asyncio.sleep(0)

    async def __aenter__(self) -> UdpRelay:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _from_viewer(self, data: bytes, address: Address) -> None:
        if self.unplugged:
            return
        if address not in self._viewers:
            if len(self._viewers) == VIEWER_ADDRESSES:
                self.strangers += 1
                return
            self._viewers.append(address)
        back = self._backs[self._viewers.index(address)]
        self._up.push(data, back, self._server)

    def _from_server(self, number: int, data: bytes, address: Address) -> None:
        if self.unplugged:
            return
        # A server with several addresses may knock from another one; the viewer's answer would not find back to it.
        if address != self._server or number >= len(self._viewers) or self._front is None:
            self.strangers += 1
            return
        self._down.push(data, self._front, self._viewers[number])


class _Lane:
    """One direction in real time: what is under way, the next to arrive first, and one timer."""

    def __init__(self, link: SimulatedLink) -> None:
        self._link = link
        self.crowded_out = 0
        self._loop = loop_here("a relay")
        self._under_way: list[tuple[float, int, bytes, asyncio.DatagramTransport, Address | None]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def push(self, data: bytes, transport: asyncio.DatagramTransport, address: Address | None) -> None:
        if len(self._under_way) >= IN_FLIGHT_LIMIT:
            self.crowded_out += 1
            return
        for at in self._link.send(len(data), self._loop.time()):
            # The count keeps the order of equal times.
            self._count += 1
            heapq.heappush(self._under_way, (at, self._count, data, transport, address))
        self._arm()

    def close(self) -> None:
        self._under_way.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._under_way and (self._timer is None or self._under_way[0][0] < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._under_way[0][0], self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._under_way and self._under_way[0][0] <= now:
            _, _, data, transport, address = heapq.heappop(self._under_way)
            if not transport.is_closing():
                transport.sendto(data, address)
        self._arm()


class _Side(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._received(data, addr[:2])


async def _open(host: str, received: Callable[[bytes, Address], None]) -> asyncio.DatagramTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Side(received), local_addr=(host, 0))
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    return transport


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]


def behind(app: Any, profile: str | LinkProfile | Network, *, seed: int | str = 0) -> RelayedApp:
    """An application whose viewers come through a simulated network: ``behind(asgi(make_stream), "lossy")``.

    Args:
        app: an ASGI application with `multimodal.asgi` in it, mounted wherever.
        profile: as for `UdpRelay`; each session has a relay of its own.
        seed: of all chance; the sessions differ by their number.
    """
    return RelayedApp(app, profile, seed)


class RelayedApp:
    """What `behind` gives: an ASGI application, `relays` with one relay for each session, the oldest first.

    `unplug` makes an outage: of what goes through the relays, not of HTTP. The relays close with the application's
    lifespan; where that does not reach it, by `aclose`.
    """

    def __init__(self, app: ASGIApp, profile: str | LinkProfile | Network, seed: int | str) -> None:
        self.relays: list[UdpRelay] = []
        self._app = app
        self._network = network(profile)
        self._seed = seed
        self._count = 0
        self._unplugged = False

    def unplug(self, unplugged: bool = True) -> None:
        """Let nothing through any more, on relays that are made meanwhile neither; `unplug(False)` ends it."""
        self._unplugged = unplugged
        for relay in self.relays:
            relay.unplugged = unplugged

    async def aclose(self) -> None:
        """Close all relays. Twice is once."""
        while self.relays:
            await self.relays.pop(0).aclose()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and "/whep/" in scope["path"]:
            await self._signal(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                await self.aclose()

    async def _signal(self, scope: Message, receive: Receive, send: Send) -> None:
        held: list[Message] = []
        offer, more = b"", True
        while more and len(offer) <= _OFFER_LIMIT_BYTES:
            message = await receive()
            if message["type"] != "http.request":
                return
            offer += message.get("body", b"")
            more = message.get("more_body", False)
        body = UdpRelay.rewrite_offer(offer.decode("latin-1")).encode("latin-1")
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": more}]

        async def receive_offer() -> Message:
            return first.pop() if first else await receive()

        async def send_answer(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 201:
                held.append(message)
            elif not held:
                await send(message)
            else:
                held.append(message)
                if not message.get("more_body", False):
                    await self._send_rewritten(held, send)

        await self._app(scope, receive_offer, send_answer)

    async def _send_rewritten(self, held: list[Message], send: Send) -> None:
        start, *parts = held
        if len(self.relays) == RELAYS_LIMIT:
            await self.relays.pop(0).aclose()
        relay = UdpRelay(self._network, seed=f"{self._seed}:{self._count}")
        self._count += 1
        relay.unplugged = self._unplugged
        self.relays.append(relay)
        answer = (await relay.rewrite_answer(b"".join(part.get("body", b"") for part in parts).decode())).encode()
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(answer)).encode())]})
        await send({"type": "http.response.body", "body": answer})
