"""A network as data: when each datagram arrives, if it does. Pure: time is an argument, chance comes from a seed.

One direction of a link, from the sender to the receiver:

    mtu, cut -> bottleneck (rate, bounded queue, freeze) -> loss -> delay + jitter -> order, or reorder

    K1  A datagram above the MTU, or sent during a cut, is dropped before it takes anything of the rate.
    K2  The bottleneck serves first in, first out, at the rate. What does not fit into its queue is dropped (tail drop).
        During a freeze it serves nothing; what waited is served from its end on, still at the rate.
    K3  Loss is behind the bottleneck: a lost datagram has taken its share of the rate. Each is lost by itself, with one
        probability, beside those that are named by their numbers.
    K4  Jitter is an extra delay, drawn for each datagram by itself, uniform between 0 and the figure given. Order is
        kept by waiting for the one in front, so that a busy link with jitter is slow in bursts, as Wi-Fi is.
    K5  A reordered datagram arrives `reorder_by` later than it would, and nothing waits for it.
    K6  A duplicate is a second datagram right behind the first: it takes its share of rate and queue too, or is left
        out where it does not fit. A lost datagram has none.
    K7  Each datagram uses up the same number of random numbers whatever becomes of it: changing one property leaves
        the draws of all others as they were. The same seed and the same calls give the same result.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping

import msgspec

from multimodal.errors import UsageError

__all__ = ["PROFILES", "LinkCounters", "LinkProfile", "Network", "SimulatedLink", "network"]


class LinkProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What one direction of a network does to datagrams (K1-K7). The default does nothing.

    Args:
        delay: seconds one way.
        jitter: largest extra delay, in seconds; uniform from 0.
        bytes_per_s: the rate of the bottleneck; None = no limit.
        queue_bytes: what the bottleneck holds, the datagram being served included.
        loss: probability that a datagram is lost.
        lose: numbers of datagrams that are lost, counted from 0 as they are sent.
        reorder: probability that a datagram is overtaken by those behind it.
        reorder_by: seconds by which it comes late.
        duplicate: probability that a datagram is sent twice.
        mtu_bytes: larger datagrams are dropped; None = no limit.
        freeze: windows (from, until), in seconds since the link began, in which all waits.
        cut: windows (from, until) in which all is dropped; `math.inf` = for ever.

    Raises:
        UsageError: a figure that makes no sense; the message names it.
    """

    delay: float = 0.0
    jitter: float = 0.0
    bytes_per_s: float | None = None
    queue_bytes: int = 128 * 1024
    loss: float = 0.0
    lose: tuple[int, ...] = ()
    reorder: float = 0.0
    reorder_by: float = 0.010
    duplicate: float = 0.0
    mtu_bytes: int | None = None
    freeze: tuple[tuple[float, float], ...] = ()
    cut: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("delay", "jitter", "reorder_by"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"LinkProfile {name}={getattr(self, name)} must be 0 or more seconds")
        for name in ("loss", "reorder", "duplicate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"LinkProfile {name}={getattr(self, name)} must be a probability, from 0 to 1")
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < math.inf:
            raise UsageError(f"LinkProfile bytes_per_s={self.bytes_per_s} must be above 0, or None for no limit")
        for name in ("queue_bytes", "mtu_bytes"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"LinkProfile {name}={getattr(self, name)} must be 1 or more bytes")
        if any(number < 0 for number in self.lose):
            raise UsageError(f"LinkProfile lose={self.lose} are numbers of datagrams, counted from 0")
        for name in ("freeze", "cut"):
            for begin, end in getattr(self, name):
                if not 0 <= begin < end:
                    raise UsageError(f"LinkProfile {name} window ({begin}, {end}) must be (from, until), from >= 0")
        if any(end == math.inf for _, end in self.freeze):
            raise UsageError("LinkProfile freeze must end; what never goes on is a cut")


class Network(msgspec.Struct, frozen=True):
    """Both directions: `down` from the server to the viewer, `up` from the viewer to the server."""

    down: LinkProfile
    up: LinkProfile

    @property
    def round_trip(self) -> float:
        """Seconds there and back for a small datagram on an empty link: both delays and the mean of both jitters."""
        return self.down.delay + self.up.delay + (self.down.jitter + self.up.jitter) / 2


PROFILES: Mapping[str, Network] = {
    "good": Network(LinkProfile(delay=0.002, bytes_per_s=2_500_000), LinkProfile(delay=0.002, bytes_per_s=625_000)),
    "4g": Network(*[LinkProfile(delay=0.085, bytes_per_s=1_125_000)] * 2),
    "lossy": Network(*[LinkProfile(delay=0.030, loss=0.02)] * 2),
    "slow": Network(*[LinkProfile(delay=0.050, bytes_per_s=500_000)] * 2),
    "jittery": Network(*[LinkProfile(delay=0.010, jitter=0.300)] * 2),
}
"""`good`: 20 Mb/s down, 5 up, round trip 4 ms; `4g`: 9 Mb/s, 170 ms (both as WebPageTest's FIOS and 4G); `lossy`: 2 %
of the datagrams lost each way, 60 ms; `slow`: 4 Mb/s, 100 ms; `jittery`: up to 300 ms of jitter each way, on 20 ms."""


def network(profile: str | LinkProfile | Network) -> Network:
    """A network from its name in `PROFILES`, from one profile for both directions, or as it is.

    Raises:
        UsageError: there is no such name.
    """
    if isinstance(profile, Network):
        return profile
    if isinstance(profile, LinkProfile):
        return Network(profile, profile)
    found = PROFILES.get(profile)
    if found is None:
        raise UsageError(f"there is no network profile {profile!r}; there are: {', '.join(PROFILES)}")
    return found


class LinkCounters(msgspec.Struct):
    """What became of each datagram: sent = delivered - duplicated + lost + overflowed + cut + too_large."""

    sent: int = 0
    delivered: int = 0
    duplicated: int = 0
    reordered: int = 0
    lost: int = 0
    overflowed: int = 0
    cut: int = 0
    too_large: int = 0
    sent_bytes: int = 0
    delivered_bytes: int = 0


class SimulatedLink:
    """One direction of a network, with what is under way on it.

    Args:
        profile: what it does.
        seed: of all chance.
        began: the time from which the windows of freeze and cut count, on the clock of `send`.
    """

    def __init__(self, profile: LinkProfile, seed: int | str = 0, *, began: float = 0.0) -> None:
        self.profile = profile
        self.counters = LinkCounters()
        self._random = random.Random(seed)
        self._began = began
        self._lose = frozenset(profile.lose)
        self._freeze = sorted(profile.freeze)
        self._now = -math.inf
        self._free_at = -math.inf
        self._last = -math.inf
        self._queue: deque[tuple[float, int]] = deque()
        self._queued_bytes = 0
        self._lose_next: int | None = None

    @property
    def free_at(self) -> float:
        """When everything that was accepted has left the bottleneck; -inf before the first datagram."""
        return self._free_at

    def lose_next(self, min_bytes: int = 0) -> None:
        """Lose the next datagram of at least `min_bytes`, once: for a loss at a chosen moment."""
        self._lose_next = min_bytes

    def send(self, size_bytes: int, now: float) -> list[float]:
        """Send a datagram: when it arrives; empty = it does not, two times = it was duplicated.

        Args:
            size_bytes: its size, as the rate, queue and MTU count it.
            now: seconds; never less than in the call before.

        Raises:
            UsageError: `now` went back.
        """
        if now < self._now:
            raise UsageError(f"SimulatedLink.send now={now} lies before the call of {self._now}; time never goes back")
        self._now = now
        number, profile, counters = self.counters.sent, self.profile, self.counters
        counters.sent += 1
        counters.sent_bytes += size_bytes
        lost, twice, *draws = (self._random.random() for _ in range(6))
        if profile.mtu_bytes is not None and size_bytes > profile.mtu_bytes:
            counters.too_large += 1
            return []
        if any(begin <= now - self._began < end for begin, end in profile.cut):
            counters.cut += 1
            return []
        named = number in self._lose
        if self._lose_next is not None and size_bytes >= self._lose_next:
            named, self._lose_next = True, None
        if not self._enqueue(size_bytes):
            counters.overflowed += 1
            return []
        if named or lost < profile.loss:
            counters.lost += 1
            return []
        times = [self._arrival(draws[0] * profile.jitter, draws[1] < profile.reorder)]
        if twice < profile.duplicate and self._enqueue(size_bytes):
            times.append(self._arrival(draws[2] * profile.jitter, draws[3] < profile.reorder))
        counters.delivered += len(times)
        counters.delivered_bytes += size_bytes * len(times)
        counters.duplicated += len(times) == 2
        return times

    def _enqueue(self, size_bytes: int) -> bool:
        while self._queue and self._queue[0][0] <= self._now:
            self._queued_bytes -= self._queue.popleft()[1]
        if self._queued_bytes + size_bytes > self.profile.queue_bytes:
            return False
        work = 0.0 if self.profile.bytes_per_s is None else size_bytes / self.profile.bytes_per_s
        self._free_at = self._served(max(self._now, self._free_at), work)
        self._queue.append((self._free_at, size_bytes))
        self._queued_bytes += size_bytes
        return True

    def _served(self, begin: float, work: float) -> float:
        """When `work` seconds of serving are done, freezes left out."""
        for start, end in self._freeze:
            start, end = start + self._began, end + self._began
            if begin >= end:
                continue
            if begin < start:
                if begin + work <= start:
                    break
                work -= start - begin
            begin = end
        return begin + work

    def _arrival(self, late: float, overtaken: bool) -> float:
        at = max(self._free_at + self.profile.delay + late, self._last)
        if overtaken:
            self.counters.reordered += 1
            return at + self.profile.reorder_by
        self._last = at
        return at
