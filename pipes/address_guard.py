"""Which addresses a picture may be fetched from: the public internet, and what the operator allows. Pure.

A catalogue is written by others; its URLs must not reach what only this machine can reach (server-side request
forgery). The address that is connected to is judged, not its name: a name may mean another address the next time.

N1. Only http and https, without a name and password in the URL, on the ports that are allowed.
N2. No address that is not global (RFC 6890 and its successors, as Python's `ipaddress` has them): loopback, private,
    link-local, carrier-grade NAT, multicast, reserved, unspecified.
N3. An IPv6 address that carries an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo) is judged by both.
N4. No cloud's metadata service, also where it has a public address.
N5. A network that the operator allows is allowed, whatever N2 to N4 say.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from multimodal.errors import UsageError

__all__ = ["AddressGuard"]

_METADATA = frozenset(
    map(ip_address, ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
)
"""The services that hand out a machine's credentials: most clouds, Azure's host, Alibaba, Oracle, AWS over IPv6."""
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = IPv6Network("::/96")

_Address = IPv4Address | IPv6Address


class AddressGuard:
    """N1-N5.

    Args:
        allow: networks of one's own that may be fetched from, such as ``10.1.2.0/24``.
        ports: TCP ports that may be connected to.

    Raises:
        UsageError: what is allowed is no network, or a port no port.
    """

    def __init__(self, allow: Iterable[str] = (), ports: Iterable[int] = (80, 443)) -> None:
        self._allowed: list[IPv4Network | IPv6Network] = []
        for network in allow:
            try:
                self._allowed.append(ip_network(network))
            except ValueError as error:
                raise UsageError(
                    f"--fetch-allow (allow= in code) {network!r} is no network ({error}); write one as 10.1.2.0/24"
                ) from error
        self.ports = frozenset(ports)
        for port in self.ports:
            if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
                raise UsageError(f"--fetch-port (ports= in code): {port!r} is no TCP port; give 1 to 65535")

    def check_url(self, url: str) -> str:
        """Why a URL may not be fetched, whatever its host's address; "" = it may (N1)."""
        try:
            parts: SplitResult = urlsplit(url)
            port = parts.port
            host = parts.hostname
        except ValueError as error:
            return f"it is no URL ({error})"
        if parts.scheme not in {"http", "https"}:
            return f"its scheme is {parts.scheme!r}; only http and https are fetched"
        if not host:
            return "it names no host"
        if "@" in parts.netloc:
            return "it holds a user name; it would be sent to whoever answers"
        if any(character.isspace() or ord(character) < 32 for character in url):
            return "it holds white space or control characters"
        if (port or (443 if parts.scheme == "https" else 80)) not in self.ports:
            known = ", ".join(map(str, sorted(self.ports)))
            return f"its port is {port}; allowed are {known}; allow it with --fetch-port {port} (ports= in code)"
        return ""

    def check_address(self, address: str) -> str:
        """Why an address may not be connected to; "" = it may (N2-N5)."""
        try:
            # A scope ("fe80::1%eth0") names an interface of this machine; the address alone is judged.
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return f"{address!r} is no address"
        if any(ip.version == network.version and ip in network for network in self._allowed):
            return ""
        for each in (ip, *_carried(ip)):
            if each in _METADATA:
                return f"{ip} is a cloud's metadata service"
            # Site-local addresses were withdrawn (RFC 3879), and never were anybody's but one's own.
            inner = isinstance(each, IPv6Address) and each.is_site_local
            if inner or not each.is_global or each.is_multicast:
                remedy = f"where it is your own, allow it with --fetch-allow {ip} (allow= in code)"
                return f"{ip} is not on the public internet ({_kind(each)}); {remedy}"
        return ""


def _carried(ip: _Address) -> list[IPv4Address]:
    """The IPv4 addresses inside an IPv6 one."""
    if isinstance(ip, IPv4Address):
        return []
    low = IPv4Address(int(ip) & 0xFFFFFFFF)
    found = [each for each in (ip.ipv4_mapped, ip.sixtofour) if each is not None]
    if any(ip in network for network in _NAT64) or (ip in _COMPATIBLE and int(ip) > 1):
        found.append(low)
    if ip.teredo is not None:
        found += ip.teredo
    return found


def _kind(ip: _Address) -> str:
    names = ("loopback", "link_local", "multicast", "unspecified", "reserved", "private")
    return next((name.replace("_", "-") for name in names if getattr(ip, f"is_{name}")), "shared")
