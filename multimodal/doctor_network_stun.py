"""A STUN server asked as a connection asks (RFC 8489): a binding request by UDP; by TCP where UDP brings nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.doctor_network_finding import Finding, broken, good, note, skipped
from multimodal.doctor_network_ice import IceUrl, addresses_of

if TYPE_CHECKING:
    from aioice.stun import Message

__all__ = ["STUN_LIMIT", "Answer", "ask_tcp", "ask_udp", "compare_mappings", "examine_stun"]

STUN_LIMIT = 3.0
"""Seconds for an answer, with repetitions after 0.5 and 1.5 s: where one datagram in ten is lost, three of them and
their answers are all lost once in 150 times."""
_REPEATS = (0.0, 0.5, 1.5)


class Answer(msgspec.Struct, frozen=True):
    """What came: the address that the server sees and how long it took, or what the network said instead."""

    mapped: tuple[str, int] | None = None
    took: float = 0.0
    error: str = ""


async def examine_stun(server: IceUrl, local: Sequence[str]) -> Finding:
    """Whether it answers, and what it sees.

    Args:
        server: of scheme stun.
        local: this machine's own addresses, by which a NAT is told.
    """
    name, tried = server.url, f"sent a STUN binding request to {server.host} port {server.port} by UDP"
    addresses = await addresses_of(server)
    if isinstance(addresses, str):
        return broken(name, tried, addresses, "check the name, and this machine's name server (/etc/resolv.conf)")
    answer: Answer | None = None
    refused = ""
    for address in addresses:
        answer = await ask_udp(address)
        if answer.mapped is not None:
            return _seen(name, tried, answer, local)
        refused = refused or answer.error
    tcp = await ask_tcp(addresses[0])
    if tcp.mapped is not None:
        came = "by UDP nothing came back; by TCP it answered: UDP is dropped on the way"
        advice = "let UDP out in the firewalls between (or only towards this port), or offer viewers TURN over TCP"
        return broken(name, tried, came, f"{advice}: turn:{server.host}:{server.port}?transport=tcp")
    if refused:
        return broken(name, tried, f"refused: {refused}", "no STUN server listens there; check host and port")
    came = "no answer, by TCP neither: the server is down, or all of it is blocked"
    advice = "an unreachable STUN server costs every connection 5 s: take it out of the list, or start it"
    return broken(name, tried, came, advice)


async def compare_mappings(servers: Sequence[IceUrl], local: Sequence[str]) -> Finding:
    """Whether a NAT gives one socket the same address towards every peer; one that does not needs a relay.

    Args:
        servers: two or more of scheme stun.
        local: as for `examine_stun`.
    """
    name, tried = "NAT", f"asked {len(servers)} STUN servers from one socket"
    loop = asyncio.get_running_loop()
    request = _request()
    seen: set[tuple[str, int]] = set()
    transport, protocol = await loop.create_datagram_endpoint(lambda: _Asker(request), local_addr=("0.0.0.0", 0))
    try:
        for server in servers:
            addresses = await addresses_of(server)
            target = next((a for a in addresses if ":" not in a[0]), None) if not isinstance(addresses, str) else None
            if target is None:
                continue
            protocol.answer = loop.create_future()
            transport.sendto(bytes(request), target)
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(STUN_LIMIT / 2):
                    seen.add(await protocol.answer)
            # An answer that comes late must not pass for the next one's.
            request = protocol.request = _request()
    finally:
        transport.close()
    if not seen:
        return skipped(name, "none of the STUN servers answered", "name two that do")
    if len(seen) > 1:
        came = f"each server sees another address ({', '.join(f'{h} port {p}' for h, p in sorted(seen))})"
        return note(name, tried, came, "a symmetric NAT: viewers behind one need a TURN server, direct roads fail")
    host, port = next(iter(seen))
    kind = "no NAT" if host in local else "a NAT that direct connections pass"
    return good(name, tried, f"all see {host} port {port}: {kind}")


def _seen(name: str, tried: str, answer: Answer, local: Sequence[str]) -> Finding:
    assert answer.mapped is not None
    host, port = answer.mapped
    came = f"answered after {answer.took * 1000:.0f} ms: seen from there this machine is {host}, port {port}"
    if host in local:
        return good(name, tried, f"{came}, which is its own address: no NAT between")
    return good(name, tried, f"{came}: a NAT is between, and this address is offered beside the others")


async def ask_udp(address: tuple[str, int], limit: float | None = None) -> Answer:
    """Ask by UDP.

    Args:
        address: of the server.
        limit: seconds; None = `STUN_LIMIT`.
    """
    loop = asyncio.get_running_loop()
    request = _request()
    try:
        # Connected, so that an ICMP refusal reaches us.
        transport, protocol = await loop.create_datagram_endpoint(lambda: _Asker(request), remote_addr=address)
    except OSError as error:
        return Answer(error=error.strerror or str(error))
    began = time.monotonic()
    timers = [loop.call_later(at, transport.sendto, bytes(request)) for at in _REPEATS]
    try:
        async with asyncio.timeout(STUN_LIMIT if limit is None else limit):
            mapped = await protocol.answer
    except TimeoutError:
        return Answer()
    except OSError as error:
        return Answer(error=error.strerror or str(error))
    finally:
        for timer in timers:
            timer.cancel()
        transport.close()
    return Answer(mapped, time.monotonic() - began)


async def ask_tcp(address: tuple[str, int], limit: float | None = None) -> Answer:
    """Ask by TCP, as for `ask_udp`: tells a server that is down from UDP that is dropped."""
    from aioice import stun

    request = _request()
    began = time.monotonic()
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(STUN_LIMIT if limit is None else limit):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(bytes(request))
            header = await reader.readexactly(stun.HEADER_LENGTH)
            body = await reader.readexactly(int.from_bytes(header[2:4], "big"))
        mapped = _mapped(header + body, request)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        return Answer(error=str(error))
    finally:
        if writer is not None:
            writer.close()
    return Answer(mapped, time.monotonic() - began)


class _Asker(asyncio.DatagramProtocol):
    def __init__(self, request: Message) -> None:
        self.request = request
        self.answer: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        mapped = _mapped(data, self.request)
        if mapped is not None and not self.answer.done():
            self.answer.set_result(mapped)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


def _request() -> Message:
    from aioice import stun

    return stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)


def _mapped(data: bytes, request: Message) -> tuple[str, int] | None:
    """The address in an answer to this request; None = it is none."""
    from aioice import stun

    try:
        message = stun.parse_message(data)
    except ValueError:
        return None
    if message.transaction_id != request.transaction_id or message.message_class != stun.Class.RESPONSE:
        return None
    for name in ("XOR-MAPPED-ADDRESS", "MAPPED-ADDRESS"):
        if name in message.attributes:
            host, port = message.attributes[name]
            return host, port
    return None
