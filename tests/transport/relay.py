"""A UDP relay for one connection: latency, and the loss of chosen packets, as data."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

Address = tuple[str, int]


class Relay:
    """Stands between a client and the server named in an SDP answer.

    Args:
        latency: seconds one way.
        drop: decides, for each packet from the server (its size in bytes), whether it is lost.
    """

    def __init__(self, latency: float, drop: Callable[[int], bool]) -> None:
        self.latency = latency
        self.drop = drop
        self.dropped = 0
        self._server: Address | None = None
        self._client: Address | None = None
        self._front: asyncio.DatagramTransport | None = None
        self._back: asyncio.DatagramTransport | None = None

    async def answer(self, sdp: str) -> str:
        """The answer with the relay's address in place of the server's."""
        found = re.search(r"a=candidate:\S+ 1 udp \d+ (\S+) (\d+)", sdp)
        assert found is not None
        self._server = (found[1], int(found[2]))
        loop = asyncio.get_running_loop()
        local = (found[1], 0)
        self._front, _ = await loop.create_datagram_endpoint(lambda: _Side(self._from_client), local_addr=local)
        self._back, _ = await loop.create_datagram_endpoint(lambda: _Side(self._from_server), local_addr=local)
        port = self._front.get_extra_info("sockname")[1]
        return sdp.replace(f" {found[1]} {found[2]} ", f" {found[1]} {port} ")

    def close(self) -> None:
        for transport in (self._front, self._back):
            if transport is not None:
                transport.close()

    def _from_client(self, data: bytes, address: Address) -> None:
        self._client = address
        assert self._back is not None
        asyncio.get_running_loop().call_later(self.latency, self._back.sendto, data, self._server)

    def _from_server(self, data: bytes, address: Address) -> None:
        if self.drop(len(data)):
            self.dropped += 1
            return
        assert self._front is not None
        asyncio.get_running_loop().call_later(self.latency, self._front.sendto, data, self._client)


class _Side(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, Address], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._received(data, addr)
