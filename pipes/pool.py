"""A pool bounded in bytes: kept prefixes, encoded pictures, whatever can be made anew. Pure.

P1. `bytes` (entries and reservations) never exceeds the limit. Only a limit lowered below what is in use is exceeded,
    until the pins and reservations that were there have gone.
P2. A pinned entry is never given up.
P3. Entries are kept to `1 - keep_free` of the limit at most, so that work which comes finds room without evicting
    first. Pinned entries and reservations may use the rest.
P4. Whatever was put is either held or was given back once: what `put` gives up it returns, what other calls give up
    goes to `on_evict`, what `remove` takes out is its result.
P5. Each call costs O(log n), amortised. Any call may come from any thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from multimodal.errors import UsageError
from multimodal.pipes.pool_stats import COUNTED, PoolStats
from multimodal.pipes.reclaim import Entry, Policy, ReclaimOrder, check_policy

__all__ = ["BytePool", "Policy", "PoolStats"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BytePool(Generic[K, V]):
    """P1-P5.

    Args:
        limit_bytes: the most bytes of entries and reservations together.
        keep_free: share of the limit, 0 to below 1, that entries leave free unless they are pinned.
        policy: what goes first: lru, size or hybrid.
        on_evict: called with (key, value) of each entry that `reserve`, `unpin` or `configure` gave up, at
            the end of the call.

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        keep_free: float = 0.3,
        policy: Policy = "hybrid",
        on_evict: Callable[[K, V], object] | None = None,
    ) -> None:
        _check(limit_bytes, keep_free, policy)
        self.limit_bytes, self.keep_free = limit_bytes, keep_free
        self.policy: Policy = policy
        self.on_evict = on_evict
        self._lock = threading.Lock()
        self._entries: dict[K, Entry[K, V]] = {}
        self._order: ReclaimOrder[K, V] = ReclaimOrder(policy)
        self._held = self._pinned = self._reserved = 0
        self._high = 0
        self._low: int | None = None
        self._counts = dict.fromkeys(COUNTED, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether it is held; neither a hit nor a miss."""
        return key in self._entries

    def keys(self) -> list[K]:
        """The keys held, oldest first."""
        with self._lock:
            return list(self._entries)

    @property
    def bytes(self) -> int:
        """Bytes of entries and reservations now."""
        return self._held + self._reserved

    @property
    def free_bytes(self) -> int:
        """Bytes that a reservation would get without evicting."""
        return max(0, self.limit_bytes - self.bytes)

    # ---- entries

    def put(self, key: K, value: V, size_bytes: int, *, pinned: bool = False) -> list[tuple[K, V]]:
        """Keep `value`, giving up others for it; an entry of this key that is not pinned is replaced.

        Args:
            key: its name. A pinned entry of that name stays, and the new value comes back: it is in use.
            value: what to keep.
            size_bytes: what it takes.
            pinned: pin it at once; it may then use the bytes that `keep_free` leaves.

        Returns:
            Everything that the pool no longer holds by this call, `value` itself if it could not be kept (P4).

        Raises:
            UsageError: a size below 1.
        """
        _whole("size_bytes", size_bytes)
        gone: list[tuple[K, V]] = []
        with self._lock:
            old = self._entries.get(key)
            if old is not None and old.pins:
                return [(key, value)]
            if old is not None:
                gone.append((key, self._drop(old).value))
            target = self.limit_bytes if pinned else self._soft()
            # What cannot go must leave room, or nothing is evicted in vain.
            if self._pinned + size_bytes > target or self._pinned + self._reserved + size_bytes > self.limit_bytes:
                self._counts["rejected"] += 1
                gone.append((key, value))
            else:
                if pinned and self.bytes + size_bytes > self.limit_bytes:
                    self._counts["stalls"] += 1
                room = min(target, self.limit_bytes - self._reserved) - size_bytes
                gone += [(each.key, each.value) for each in self._shrink(room)]
                entry = Entry(key, value, size_bytes, int(pinned))
                self._entries[key] = entry
                self._held += size_bytes
                self._pinned += size_bytes if pinned else 0
                self._order.used(entry)
                self._mark()
        return gone

    def get(self, key: K, size_bytes: int = 0) -> V | None:
        """The value, which counts as used now; None = not held.

        Args:
            key: its name.
            size_bytes: what a miss counts as missed.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._counts["misses"] += 1
                self._counts["miss_bytes"] += size_bytes
                return None
            self._counts["hits"] += 1
            self._counts["hit_bytes"] += entry.size
            entry.uses += 1
            self._order.used(entry)
            return entry.value

    def pin(self, key: K) -> V | None:
        """The value, which stays until as many `unpin` came (P2); None = not held. It counts neither as hit nor use."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if not entry.pins:
                self._pinned += entry.size
            entry.pins += 1
            return entry.value

    def unpin(self, key: K) -> None:
        """One pin less; without any, the entry counts as used now and keeps to P3.

        Raises:
            UsageError: it is not held, or not pinned.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or not entry.pins:
                raise UsageError(f"{key!r} is not pinned in this pool; call unpin once for each pin")
            entry.pins -= 1
            gone: list[Entry[K, V]] = []
            if not entry.pins:
                self._pinned -= entry.size
                self._order.used(entry)
                gone = self._shrink(self._room())
        self._tell(gone)

    def remove(self, key: K) -> V | None:
        """Take an entry out; None = not held.

        Raises:
            UsageError: it is pinned.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.pins:
                raise UsageError(f"{key!r} is pinned {entry.pins} times and in use; unpin it first")
            self._drop(entry)
            self._mark()
            return entry.value

    # ---- work that is not an entry

    def reserve(self, size_bytes: int) -> bool:
        """Take room for running work, evicting for it if it must; False = there is none, and nothing was changed.

        Raises:
            UsageError: a size below 1.
        """
        _whole("size_bytes", size_bytes)
        gone: list[Entry[K, V]] = []
        with self._lock:
            fits = self._pinned + self._reserved + size_bytes <= self.limit_bytes
            if fits:
                room = self.limit_bytes - self._reserved - size_bytes
                self._counts["stalls"] += self._held > room
                gone = self._shrink(room)
                self._reserved += size_bytes
                self._mark()
            else:
                self._counts["refused"] += 1
        self._tell(gone)
        return fits

    def release(self, size_bytes: int) -> None:
        """Give back reserved room.

        Raises:
            UsageError: more than is reserved.
        """
        _whole("size_bytes", size_bytes)
        with self._lock:
            if size_bytes > self._reserved:
                raise UsageError(f"release({size_bytes}) is more than the {self._reserved} bytes that are reserved")
            self._reserved -= size_bytes
            self._mark()

    # ---- settings and counts

    def configure(
        self, *, limit_bytes: int | None = None, keep_free: float | None = None, policy: Policy | None = None
    ) -> None:
        """Other settings, from now on; entries that they no longer allow are given up at once.

        Raises:
            UsageError: a value out of its range; nothing is changed then.
        """
        with self._lock:
            limit = self.limit_bytes if limit_bytes is None else limit_bytes
            free = self.keep_free if keep_free is None else keep_free
            chosen: Policy = self.policy if policy is None else policy
            _check(limit, free, chosen)
            self.limit_bytes, self.keep_free = limit, free
            if chosen != self.policy:
                self.policy = chosen
                self._order.change(chosen, self._entries.values())
            gone = self._shrink(self._room())
        self._tell(gone)

    def stats(self) -> PoolStats:
        """Everything that was counted, at one instant."""
        with self._lock:
            return PoolStats(
                limit_bytes=self.limit_bytes,
                bytes=self.bytes,
                pinned_bytes=self._pinned,
                reserved_bytes=self._reserved,
                entries=len(self._entries),
                high_bytes=self._high,
                low_bytes=self._low or 0,
                **self._counts,
            )

    def reset_marks(self) -> None:
        """Begin high and low water anew from what is held now."""
        with self._lock:
            self._high = self._low = self.bytes

    # ---- inside

    def _soft(self) -> int:
        return math.floor(self.limit_bytes * (1 - self.keep_free))

    def _room(self) -> int:
        return min(self._soft(), self.limit_bytes - self._reserved)

    def _shrink(self, room: int) -> list[Entry[K, V]]:
        """Give up the least worthy until the entries take `room` at most, or all that are left are pinned."""
        gone: list[Entry[K, V]] = []
        while self._held > room and (entry := self._order.pop()) is not None:
            self._drop(entry)
            self._counts["evictions"] += 1
            self._counts["evicted_bytes"] += entry.size
            gone.append(entry)
        if gone:
            self._mark()
        return gone

    def _drop(self, entry: Entry[K, V]) -> Entry[K, V]:
        del self._entries[entry.key]
        self._held -= entry.size
        self._order.removed(entry, len(self._entries))
        return entry

    def _mark(self) -> None:
        held = self.bytes
        self._high = max(self._high, held)
        self._low = held if self._low is None else min(self._low, held)

    def _tell(self, gone: list[Entry[K, V]]) -> None:
        # Outside the lock: what it calls may call the pool.
        if self.on_evict is not None:
            for entry in gone:
                self.on_evict(entry.key, entry.value)


def _check(limit_bytes: int, keep_free: float, policy: str) -> None:
    _whole("limit_bytes", limit_bytes)
    if isinstance(keep_free, bool) or not isinstance(keep_free, (int, float)) or not 0 <= keep_free < 1:
        raise UsageError(f"keep_free={keep_free!r} is not a share; give 0 (none) to below 1, such as 0.3")
    check_policy(policy)


def _whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is no number of bytes; give a whole number, 1 or more")
