"""TURN as a connection uses it: a real allocation by UDP, TCP or TLS, and a full packet through the relay."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from multimodal.doctor_network_finding import Finding, broken, good, note
from multimodal.doctor_network_here import FULL_PACKET_BYTES
from multimodal.doctor_network_ice import Credentials, IceUrl, addresses_of
from multimodal.doctor_network_stun import ask_tcp, ask_udp

if TYPE_CHECKING:
    from aioice.turn import TurnTransport

__all__ = ["RELAY_LIMIT", "TURN_LIMIT", "examine_turn"]

TURN_LIMIT = 6.0
"""Seconds that each server has for an allocation; a browser gives up on one after ten."""
RELAY_LIMIT = 3.0
"""Seconds that a datagram may take through the relay."""
_REASONS = {
    300: ("it sends clients to another server", "name that server instead"),
    403: ("it forbids this address", "look at denied-peer-ip and allowed-peer-ip in its configuration"),
    437: ("it has an allocation of this very port already", "run this again"),
    441: ("these credentials belong to another allocation", "run this again"),
    486: ("the quota of allocations is used up", "raise user-quota and total-quota, or wait until older ones expire"),
    508: ("it has no relay port left", "widen min-port and max-port in its configuration"),
}


async def examine_turn(server: IceUrl, credentials: Credentials | None) -> Finding:
    """Ask for two relayed addresses and send from one to the other.

    Cancelling leaves no address behind that lives longer than the server's lifetime for one (ten minutes).

    Args:
        server: of scheme turn or turns.
        credentials: None = there are none, and nothing is tried.
    """
    from aioice import stun

    road = {"turn": server.transport.upper(), "turns": "TLS"}[server.scheme]
    name, tried = server.url, f"asked {server.host} port {server.port} by {road} for a relayed address"
    if credentials is None:
        advice = "give --turn-secret-env NAME (or --turn-user and --turn-password-env)"
        return note(name, "nothing", "not tried: a TURN server gives nothing without credentials", advice)
    addresses = await addresses_of(server)
    if isinstance(addresses, str):
        return broken(name, tried, addresses, "check the name, and this machine's name server (/etc/resolv.conf)")
    ends: list[_End] = []
    began = time.monotonic()
    try:
        async with asyncio.timeout(TURN_LIMIT):
            ends.append(await _allocate(server, credentials))
        took = time.monotonic() - began
        came = f"relayed by {ends[0].address[0]}, after {took * 1000:.0f} ms"
        wrong = _wrong_address(addresses[0][0], ends[0].address[0])
        if wrong:
            return broken(name, tried, f"{came}: {wrong}", "set external-ip in the server's configuration")
        async with asyncio.timeout(TURN_LIMIT):
            ends.append(await _allocate(server, credentials))
        return await _through(
            name, f"{tried}, twice, and sent {FULL_PACKET_BYTES:,} bytes from one to the other", came, ends
        )
    except (stun.TransactionError, OSError, TimeoutError) as error:
        came, advice = await _why_not(error, server, credentials, addresses[0])
        return broken(name, tried, came, advice)
    finally:
        for end in ends:
            await end.aclose()


class _End(asyncio.DatagramProtocol):
    """One relayed address, and what came to it."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes] = asyncio.Queue(16)
        self.error: Exception | None = None
        self.transport: TurnTransport | None = None
        self._gone = asyncio.Event()

    @property
    def address(self) -> tuple[str, int]:
        assert self.transport is not None
        host, port = self.transport.get_extra_info("sockname")
        return host, port

    def datagram_received(self, data: bytes, addr: Any) -> None:
        with suppress(asyncio.QueueFull):
            self.came.put_nowait(data)

    def error_received(self, exc: Exception) -> None:
        self.error = self.error or exc

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    async def aclose(self) -> None:
        """Give the address back; the server would keep it for ten minutes."""
        if self.transport is not None:
            self.transport.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._gone.wait()


async def _allocate(server: IceUrl, credentials: Credentials) -> _End:
    from aioice import turn

    transport, end = await turn.create_turn_endpoint(
        _End,
        (server.host, server.port),
        username=credentials.user,
        password=credentials.password,
        ssl=server.scheme == "turns",
        transport=server.transport,
    )
    end.transport = transport
    return end


async def _through(name: str, tried: str, came: str, ends: list[_End]) -> Finding:
    one, other = ends
    assert one.transport is not None
    assert other.transport is not None
    payload = bytes(FULL_PACKET_BYTES)
    began = time.monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(RELAY_LIMIT):
            # The first only permits the way back; the relay may drop it, as nothing permits it at the other end.
            other.transport.sendto(b"\0", one.address)
            while one.error is None and other.error is None:
                one.transport.sendto(payload, other.address)
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.3):
                        if await other.came.get() == payload:
                            took = (time.monotonic() - began) * 1000
                            return good(name, tried, f"{came}; the bytes came through in {took:.0f} ms")
    if one.error is not None or other.error is not None:
        error = one.error or other.error
        advice = "a server that relays between its own addresses is told so; the tour's server must not be denied there"
        return note(name, tried, f"{came}; it refuses to relay to its own address ({error})", advice)
    advice = "let the relay's UDP ports (min-port to max-port of its configuration) through its own firewall"
    return broken(name, tried, f"{came}; but nothing came through within {RELAY_LIMIT:g} s", advice)


def _wrong_address(server: str, relayed: str) -> str:
    outer, inner = ipaddress.ip_address(server), ipaddress.ip_address(relayed)
    if outer.is_global and not inner.is_global:
        return f"a private address, while the server itself is at the public {server}: nobody outside reaches it"
    return ""


async def _why_not(
    error: Exception, server: IceUrl, credentials: Credentials, address: tuple[str, int]
) -> tuple[str, str]:
    """What came instead of an allocation, and the next step."""
    code = getattr(getattr(error, "response", None), "error_code", None)
    if code == 401:
        advice = "check the secret (static-auth-secret of its configuration) and the user name"
        if credentials.expires:
            until = time.strftime("%H:%M:%S UTC", time.gmtime(credentials.expires))
            advice += f", and the clocks: these credentials are good until {until}, by the server's own clock"
        return "refused: wrong credentials (401)", advice
    if code in _REASONS:
        why, advice = _REASONS[code]
        return f"refused: {why} ({code})", advice
    if code is not None:
        return f"refused: {error}", "look into the server's log"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error}", "renew its certificate, or name the host that it is for"
    if isinstance(error, ConnectionRefusedError):
        return "refused: nothing listens there", "start it, or check host, port and transport"
    if server.transport == "udp":
        quick = await ask_udp(address, 1.0)
        if quick.error:
            return f"refused: {quick.error}", "no TURN server listens there; check host and port"
        if quick.mapped is not None:
            return "it answers STUN, and gives no relayed address", "is it set up to relay? look into its log"
    if server.transport == "udp" and (await ask_tcp(address)).mapped is not None:
        came = "by UDP nothing came back; by TCP it answers: UDP is dropped on the way"
        return came, f"offer viewers turn:{server.host}:{server.port}?transport=tcp beside it"
    said = f"no answer within {TURN_LIMIT:g} s" if isinstance(error, TimeoutError) or not str(error) else str(error)
    return said, "is it running, and does a firewall let this port through?"
