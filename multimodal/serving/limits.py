"""How much one address and one token may ask for, and which address is asking. Pure: time is an argument.

Q1  A key that has taken too much stays refused until its time has come, whatever other keys do: no entry that still
    remembers something is ever dropped from a table.
Q2  Every table is bounded. Keys that find it full share a few buckets among them, by a hash that nobody outside knows.
Q3  A refused request takes nothing: whoever keeps asking is not punished beyond the wait that he was told.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

from multimodal.errors import UsageError
from multimodal.serving.signalling import Problem
from multimodal.transport.bucket import Bucket, Rate

__all__ = ["TABLE_LIMIT", "Buckets", "Proxies", "Quotas", "Traffic", "network_of"]

TABLE_LIMIT = 20_000
"""Keys of one table: 4 MB at most. So many addresses at once are more than one process serves."""
_SHARED = 64
"""Buckets for the keys that find their table full."""
_SWEPT = 2
"""Entries looked at with each new key. One would keep up with one that comes; two catch up."""
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Quotas:
    """What one address and one token may ask for.

    Args:
        joins_per_minute: new seats of one address, in the long run. Each begins a tour, or a link to one: a page that
            is reloaded every three seconds stays below.
        joins_burst: new seats of one address at once: a family, or a person who opens all tours in tabs.
        returns_per_minute: offers and sockets with one token or at one seat. A player that has lost its road tries
            once a second, on two roads at most.
        returns_burst: as many at once: a minute of trying, when the network comes back after every attempt.
        requests_per_second: requests of any kind of one address: pictures by URL, and what viewers on SSE post.
        requests_burst: as many at once: the pictures of a whole tour.
        open_per_address: requests and sockets of one address that are being served at the same time, those that have
            said nothing yet included: eight for each seat.
        seats_per_address: open seats of one address. An eighth of the default `max_sessions`, so that it takes
            several addresses to fill a server; raise it where whole offices watch from behind one address.

    Raises:
        UsageError: a figure that is not above 0. `math.inf` = no limit, for rates.
    """

    joins_per_minute: float = 20
    joins_burst: int = 10
    returns_per_minute: float = 120
    returns_burst: int = 60
    requests_per_second: float = 200
    requests_burst: int = 600
    open_per_address: int = 64
    seats_per_address: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), field.type == "int"
            kinds = int if whole else int | float
            right = isinstance(value, kinds) and not isinstance(value, bool) and value > 0
            if not right:
                kind = "a whole number" if whole else "a number"
                raise UsageError(f"Quotas: {field.name}={value!r} must be {kind} above 0")

    @classmethod
    def unlimited(cls) -> Quotas:
        """No limits: for tests and benchmarks, and where something in front of the server keeps them."""
        rate, many = math.inf, 10**9
        return cls(rate, many, rate, many, rate, many, many, many)


class Buckets:
    """One bucket for each key (Q1, Q2).

    Args:
        rate: of each of them.
        limit: keys that are remembered by themselves.
    """

    def __init__(self, rate: Rate, limit: int = TABLE_LIMIT) -> None:
        self.rate = rate
        self.shared = 0
        """Requests whose key found the table full."""
        self._limit = limit
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._common = [Bucket(rate) for _ in range(_SHARED)]

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now: float) -> float:
        """Take one: 0 = taken; else the seconds after which there is one, and nothing was taken (Q3)."""
        if self.rate.interval == 0:
            return 0.0
        known = self._full_at.get(key)
        if known is None:
            self._sweep(now)
            if len(self._full_at) >= self._limit:
                self.shared += 1
                # Python salts the hash of a str anew in each process.
                return self._common[hash(key) % _SHARED].take(now)
            known = -math.inf
        self._full_at[key], wait = self.rate.take(known, now)
        return wait

    def _sweep(self, now: float) -> None:
        """Drop what remembers nothing any more, a few at a time, round and round."""
        for _ in range(min(_SWEPT, len(self._full_at))):
            key, full_at = self._full_at.popitem(last=False)
            if full_at > now:
                self._full_at[key] = full_at


class Traffic:
    """What is left of the quotas of all who ask.

    Args:
        quotas: None = the defaults.
    """

    def __init__(self, quotas: Quotas | None = None) -> None:
        self.quotas = quotas = quotas or Quotas()
        self.refused = 0
        """Requests that were too many."""
        self.spoilt = 0
        """WebSockets that ended because their bytes could not be read."""
        self._requests = Buckets(Rate(quotas.requests_per_second, quotas.requests_burst))
        self._joins = Buckets(Rate(quotas.joins_per_minute / 60, quotas.joins_burst))
        self._returns = Buckets(Rate(quotas.returns_per_minute / 60, quotas.returns_burst))
        self._open: dict[str, int] = {}
        self._seats: dict[str, int] = {}

    def request(self, address: str, now: float) -> None:
        """A request of any kind.

        Raises:
            Problem: 429, too many from this address.
        """
        self._judge(self._requests.take(address, now), "requests from this address")

    def open(self, address: str) -> None:
        """Count a request or a socket that is being served; `close` takes it back.

        Raises:
            Problem: 429, this address has too many.
        """
        if self._open.get(address, 0) >= self.quotas.open_per_address:
            self._judge(1.0, "open requests and sockets from this address")
        self._open[address] = self._open.get(address, 0) + 1

    def close(self, address: str) -> None:
        """One that was counted has ended."""
        _one_less(self._open, address)

    def join(self, address: str, now: float) -> None:
        """A request for a new seat, before anything is done for it.

        Raises:
            Problem: 429, too many from this address.
        """
        self._judge(self._joins.take(address, now), "new sessions from this address")

    def come_back(self, key: str, now: float) -> None:
        """An offer or a socket with this token, or at this seat.

        Raises:
            Problem: 429, too many.
        """
        self._judge(self._returns.take(key, now), "connections with this token")

    def sit(self, address: str) -> None:
        """Count an open seat; `stand` takes it back.

        Raises:
            Problem: 429, this address has too many.
        """
        taken = self._seats.get(address, 0)
        if taken >= self.quotas.seats_per_address:
            self.refused += 1
            raise Problem(
                429,
                "too_many_sessions",
                f"{taken} sessions are open from this address, and no more are allowed",
                "end one, or wait until one has ended; where one address stands for many viewers, as that of a proxy"
                " does, tell the server: trusted_proxies, or seats_per_address of its Quotas",
                {"Retry-After": "30"},
            )
        self._seats[address] = taken + 1

    def stand(self, address: str) -> None:
        """An open seat of this address has been given up."""
        _one_less(self._seats, address)

    def seats(self, address: str) -> int:
        """Open seats of an address."""
        return self._seats.get(address, 0)

    def _judge(self, wait: float, what: str) -> None:
        if wait:
            self.refused += 1
            seconds = max(1, math.ceil(wait))
            raise Problem(
                429,
                "too_many_requests",
                f"too many {what}",
                f"try again in {seconds} s, and wait longer each time",
                {"Retry-After": str(seconds)},
            )


def _one_less(table: dict[str, int], key: str) -> None:
    left = table.get(key, 0) - 1
    if left > 0:
        table[key] = left
    else:
        table.pop(key, None)


class Proxies:
    """The proxies whose `X-Forwarded-For` is believed; without any, nobody's is.

    Args:
        trusted: addresses and networks, such as ``10.0.0.0/8``.

    Raises:
        UsageError: one is neither.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        if isinstance(trusted, str):
            raise UsageError(f"trusted_proxies={trusted!r} is one string; give a list of addresses and networks")
        self._networks = [_network(entry) for entry in trusted]

    def client(self, peer: str, forwarded: Sequence[str] = ()) -> str:
        """The key by which the limits know who asks (`network_of` its address).

        Args:
            peer: the address of the connection, as the server gives it; empty where there is none.
            forwarded: the values of all `X-Forwarded-For` headers, in order.
        """
        address = _address(peer)
        if address is None:
            return peer or _UNKNOWN
        # Each proxy appends the address it saw, so the list is true from its end to the first that nobody vouches for.
        hops = [hop for value in forwarded for hop in value.split(",")] if self._trusts(address) else []
        while hops and self._trusts(address):
            before = _address(hops.pop().strip())
            if before is None:
                break
            address = before
        return network_of(str(address))

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._networks if network.version == address.version)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """Who an address stands for: itself in IPv4; its /64 in IPv6, since whoever has one has all 2^64 of them."""
    parsed = _address(address)
    if parsed is None:
        return address or _UNKNOWN
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def _address(text: str) -> _Address | None:
    """An address as headers and sockets give it: maybe with a port, brackets, a zone; IPv4 within IPv6 is IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (parsed.version == 6 and parsed.ipv4_mapped) or parsed


def _network(entry: str) -> _Network:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        raise UsageError(f"trusted_proxies: {entry!r} is neither an address nor a network such as 10.0.0.0/8") from None
