"""The network of this machine itself: addresses, routes, UDP, packet sizes. Nothing leaves it."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from multimodal.doctor_network_finding import Finding, broken, good, note, skipped
from multimodal.errors import UsageError

__all__ = [
    "FULL_PACKET_BYTES",
    "SMALLEST_MTU",
    "check_own",
    "examine_addresses",
    "examine_families",
    "examine_mtu",
    "examine_udp",
    "interfaces",
]

FULL_PACKET_BYTES = 1232
"""The largest datagram of a data channel, without its IP and UDP headers: both sides make theirs for the smallest MTU
that IPv6 allows, 1,280 bytes."""
SMALLEST_MTU = 1280
"""RFC 8200 section 5: what every link of IPv6 carries, and what packets of data channels are made for."""

_ECHO_LIMIT = 1.0
"""Seconds that a datagram may take from this machine to itself."""
_ECHOES = 3
_SIOCGIFMTU = 0x8921
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def interfaces() -> dict[str, list[str]]:
    """The addresses of each interface, IPv6 without their scope."""
    import ifaddr

    found: dict[str, list[str]] = {}
    for adapter in ifaddr.get_adapters():
        own = found.setdefault(str(adapter.nice_name), [])
        own += [ip.ip if isinstance(ip.ip, str) else ip.ip[0] for ip in adapter.ips]
    return {name: own for name, own in found.items() if own}


def check_own(found: Mapping[str, Sequence[str]], addresses: Iterable[str]) -> None:
    """Whether this machine can offer these addresses: the kernel is asked, which knows more than the interfaces list.

    Args:
        found: as `interfaces` gives them.
        addresses: IP addresses.

    Raises:
        UsageError: one is not this machine's; it names those that are.
    """
    for address in addresses:
        try:
            with socket.socket(_family_of(address), socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
        except OSError as error:
            why = "none of this machine's addresses"
            if error.errno != errno.EADDRNOTAVAIL:
                why = f"no address to bind to ({error.strerror or error})"
            has = "; ".join(f"{name} {', '.join(own)}" for name, own in found.items()) or "none"
            raise UsageError(f"{address} is {why}; it has: {has}") from error


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def kind_of(address: str) -> str:
    """Who can reach this address, in a word."""
    ip = ipaddress.ip_address(address)
    if ip.is_loopback:
        return "loopback"
    if ip.is_link_local:
        return "link-local"
    if ip.version == 4 and ip in _SHARED:
        return "carrier NAT"
    return "public" if ip.is_global else "private"


def examine_addresses(found: Mapping[str, Sequence[str]], offered: Sequence[str]) -> Finding:
    """Which addresses there are, and which of them peers would be told.

    Args:
        found: as `interfaces` gives them.
        offered: those that a connection offers.
    """
    tried = "asked the kernel for the addresses of all interfaces, and our own connections for what they would offer"
    told = "; ".join(f"{name} " + ", ".join(f"{a} ({kind_of(a)})" for a in own) for name, own in found.items())
    came = f"{told or 'none'}. Offered as candidates: {', '.join(offered) or 'none'}"
    kinds = {kind_of(address) for address in offered}
    if not offered:
        return broken("addresses", tried, came, "bring an interface up: ip link set lo up")
    if kinds <= {"loopback"}:
        advice = "only viewers on this machine reach it; for others bring an interface up, or give bind_addresses"
        return note("addresses", tried, came, advice)
    if "public" not in kinds:
        advice = "viewers outside this network need a TURN server, or a forwarded port; check one with --ice turn:HOST"
        return note("addresses", tried, came, advice)
    return good("addresses", tried, came)


def examine_families() -> list[Finding]:
    """For each family: whether there is a socket for it, and a route to the world. No packet is sent."""
    # Addresses for documentation (RFC 5737, RFC 3849): routed like any other, and nobody's.
    return [
        _family("IPv4", socket.AF_INET, "198.51.100.1", needed=True),
        _family("IPv6", socket.AF_INET6, "2001:db8::1", needed=False),
    ]


def _family(name: str, family: socket.AddressFamily, outside: str, *, needed: bool) -> Finding:
    tried = f"asked the kernel for its route to {outside} (nothing was sent)"
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            own: str = probe.getsockname()[0]
    except OSError as error:
        came = f"no route to the world ({error.strerror or error})"
        if not needed:
            return good(name, tried, f"{came}; IPv4 is enough where viewers have it, too")
        return note(name, tried, came, "only viewers of this network reach the server: ip route show")
    return good(name, tried, f"there is a route to the world, from {own}")


def examine_udp(addresses: Iterable[str], limit: float = _ECHO_LIMIT) -> list[Finding]:
    """Small and full datagrams from each address to itself, as a connection's first checks are sent.

    Args:
        addresses: those that would be offered, and loopback.
        limit: seconds that each may take.
    """
    return [_echo(address, limit) for address in addresses]


def _echo(address: str, limit: float) -> Finding:
    name = f"UDP {address}"
    tried = f"sent datagrams of 20 and {FULL_PACKET_BYTES:,} bytes from {address} to itself"
    family = _family_of(address)
    advice = "a firewall on this machine drops UDP (nft list ruleset; iptables -S; ip rule): let it through"
    lost: list[int] = []
    slowest = 0.0
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as receiver, socket.socket(family, socket.SOCK_DGRAM) as sender:
            try:
                receiver.bind((address, 0))
                sender.bind((address, 0))
            except OSError as error:
                # No firewall has a say in this: the address has gone, or never was here.
                came = f"it cannot be bound to: {error.strerror or error}"
                return broken(name, tried, came, "give addresses that this machine has: ip address")
            for size in (20, FULL_PACKET_BYTES):
                took = _round(sender, receiver, bytes(size), limit)
                slowest = max(slowest, took or 0.0)
                if took is None:
                    lost.append(size)
    except OSError as error:
        return broken(name, tried, f"the kernel refused: {error.strerror or error}", advice)
    if lost:
        sizes = " and ".join(f"{size:,}" for size in lost)
        return broken(name, tried, f"those of {sizes} bytes did not arrive within {limit:g} s", advice)
    return good(name, tried, f"all arrived, the slowest after {slowest * 1000:.2f} ms")


def _round(sender: socket.socket, receiver: socket.socket, data: bytes, limit: float) -> float | None:
    """Seconds until one of a few datagrams arrived; None = none did."""
    began = time.monotonic()
    for _ in range(_ECHOES):
        sender.sendto(data, receiver.getsockname())
        receiver.settimeout(limit / _ECHOES)
        with suppress(TimeoutError):
            while receiver.recv(65536) != data:
                pass
            return time.monotonic() - began
    return None


def examine_mtu(names: Iterable[str]) -> Finding:
    """Packet sizes of the interfaces, and what small ones do to data channels."""
    tried = "asked the kernel for the MTU of each interface"
    sizes = {name: size for name in names if (size := _mtu(name)) is not None}
    if not sizes:
        return skipped("MTU", "this system does not tell the MTU of its interfaces")
    came = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    low = {name: size for name, size in sizes.items() if size < SMALLEST_MTU}
    if not low:
        return good("MTU", tried, f"{came}; packets of data channels are made for {SMALLEST_MTU:,}")
    named = ", ".join(f"{name} ({size:,})" for name, size in low.items())
    came += (
        f": below {SMALLEST_MTU:,} there is no IPv6, and full packets of a picture travel in fragments, which many"
        " firewalls drop: words come, pictures do not"
    )
    return note("MTU", tried, came, f"raise it where a tunnel allows that: ip link set {named.split(' ')[0]} mtu 1280")


def _mtu(name: str) -> int | None:
    # Not from /sys: in a network namespace that still shows the interfaces of the machine.
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, struct.pack("16si12x", name.encode()[:15], 0))
    except (ImportError, OSError):
        return None
    size: int = struct.unpack("16si12x", answer)[1]
    return size
