"""Which waiting requests join the batch at a step boundary. Pure.

A1. While nothing runs nobody waits: the window gathers only behind work that would make a newcomer wait anyway.
A2. Behind running work the first that waits opens a window; at its end, or as soon as the room is filled, all that
    came leave together, as one prefill.
A3. Never more rows than the limit and than the engine has free.
A4. Without grouping, requests leave in the order they came. With it, those that share most with the one before them
    leave next, so that a kept prefix is met again before it is given up.
A5. No request is passed over by later ones in more than `PATIENCE` takes; from then on it goes before all that came
    after it.
A6. Each request leaves once, or was withdrawn.
A7. Any call may come from any thread.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from itertools import islice

from multimodal.errors import UsageError
from multimodal.pipes.rowlimit import RowLimit

__all__ = ["PATIENCE", "Admission"]

PATIENCE = 8
"""Takes in which a request may be passed over (A5). In a simulated overload by 12 products the worst wait was shorter
with any patience than without grouping, as fewer tokens are read; 8 keeps two thirds of the gain of an endless one."""
SHARED_TOKENS = 16
"""A shared prefix below this saves less than the reordering costs: one block of a paged cache."""


_Key = tuple[str, tuple[int, ...]]
"""Context and prompt: sorted by it, those that share most stand side by side."""


_AFTER = 1 << 62
"""No token has so high an id: behind a prefix it stands after all that begin with that prefix."""


class _Waiting:
    __slots__ = ("key", "offered", "passed", "request_id", "serial")

    def __init__(self, request_id: Hashable, key: _Key, serial: int, now: float) -> None:
        self.request_id, self.key, self.serial, self.offered = request_id, key, serial, now
        self.passed = 0


class Admission:
    """A1-A7. The engine offers what comes, and asks at each step boundary who joins.

    Args:
        window_size: milliseconds that the first request waits for others behind running work (A2); 0 = off.
        semantic_cluster: group requests of one context, or with a common beginning of the prompt (A4).
        dynamic_batch: set `limit` from measured step times (`RowLimit`); otherwise it is `max_rows`.
        max_rows: most rows ever.
        target_itl: seconds between two tokens of a row that `dynamic_batch` keeps to.

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(
        self,
        window_size: float = 50,
        semantic_cluster: bool = True,
        dynamic_batch: bool = True,
        *,
        max_rows: int = 32,
        target_itl: float = 0.1,
    ) -> None:
        self._lock = threading.RLock()
        self._waiting: dict[Hashable, _Waiting] = {}
        # The same by key, kept sorted: sorting hundreds of long prompts at each step would cost milliseconds.
        self._ordered: list[_Place] = []
        self._serial = 0
        self._last: _Key | None = None
        self._looked = -math.inf
        self.taken = self.withdrawn = self.takes = self.grouped = self.most_passed = 0
        self.window_size: float = 0
        self.semantic_cluster = self.dynamic_batch = False
        self.rows = RowLimit(max_rows, target_itl)
        self.configure(window_size=window_size, semantic_cluster=semantic_cluster, dynamic_batch=dynamic_batch)

    def configure(
        self,
        *,
        window_size: float | None = None,
        semantic_cluster: bool | None = None,
        dynamic_batch: bool | None = None,
        max_rows: int | None = None,
        target_itl: float | None = None,
    ) -> None:
        """Other settings, from the next take on; None = as it is.

        Raises:
            UsageError: a value out of its range; nothing is changed then.
        """
        for name, flag in (("semantic_cluster", semantic_cluster), ("dynamic_batch", dynamic_batch)):
            if flag is not None and not isinstance(flag, bool):
                raise UsageError(f"{name}={flag!r} is neither True nor False")
        if window_size is not None and (
            isinstance(window_size, bool)
            or not isinstance(window_size, (int, float))
            or not 0 <= window_size < math.inf
        ):
            raise UsageError(f"window_size={window_size!r} is no window; give milliseconds, 0 (off) or more")
        with self._lock:
            self.rows.configure(max_rows, target_itl)
            if window_size is not None:
                self.window_size, self._looked = window_size, -math.inf
            self.semantic_cluster = self.semantic_cluster if semantic_cluster is None else semantic_cluster
            self.dynamic_batch = self.dynamic_batch if dynamic_batch is None else dynamic_batch

    @property
    def limit(self) -> int:
        """Rows that may run at once now."""
        return self.rows.limit if self.dynamic_batch else self.rows.max_rows

    @property
    def waiting(self) -> int:
        """Requests that were offered and have not left."""
        return len(self._waiting)

    def offer(self, request_id: Hashable, prompt_ids: Sequence[int], now: float, context: str | None = None) -> None:
        """A request came.

        Args:
            request_id: its name, until it leaves.
            prompt_ids: its prompt, for grouping.
            now: seconds, monotonic.
            context: what its answer is about, such as a product's id: the same context is one group, another is
                another, whatever the prompts share. None = the prompt's beginning decides.

        Raises:
            UsageError: a request of that name waits already.
        """
        key = ("" if context is None else f"={context}", tuple(prompt_ids))
        with self._lock:
            if request_id in self._waiting:
                raise UsageError(f"request {request_id!r} waits already; a name is one request's until it leaves")
            self._serial += 1
            each = self._waiting[request_id] = _Waiting(request_id, key, self._serial, now)
            insort(self._ordered, (key, self._serial, each))

    def withdraw(self, request_id: Hashable) -> bool:
        """It is no longer wanted; False = it does not wait (any more)."""
        with self._lock:
            found = self._waiting.get(request_id)
            if found is not None:
                self._leave(found)
                self.withdrawn += 1
            return found is not None

    def next_timer(self) -> float | None:
        """When to take even if no step ended by then; None = only a step's end or a newcomer changes anything."""
        with self._lock:
            if not self._waiting:
                return None
            end = next(iter(self._waiting.values())).offered + self.window_size / 1000
        # A window that was over at the last take only waits for room: there is no instant to wake up at.
        return None if end <= self._looked else end

    def take(self, now: float, running: int, free_rows: int, idle: bool) -> list[Hashable]:
        """Who joins now, in the order to prefill them.

        Args:
            now: seconds, monotonic.
            running: rows in the batch.
            free_rows: rows for which the engine has room beside them.
            idle: nothing runs and nothing is being prefilled (A1).
        """
        with self._lock:
            if not self._waiting:
                return []
            self._looked = now
            room = min(free_rows, self.limit - running)
            if room <= 0 or not (idle or len(self._waiting) >= room or self.next_timer() is None):
                return []
            chosen = self._choose(room)
            newest = max(each.serial for each in chosen)
            for each in self._waiting.values():
                each.passed += each.serial < newest
                self.most_passed = max(self.most_passed, each.passed)
            self._last = chosen[-1].key
            self.takes += 1
            self.taken += len(chosen)
            return [each.request_id for each in chosen]

    def measured(self, step_seconds: float, rows: int, now: float) -> None:
        """A step of `rows` rows took so long; the time of prefills is not among it."""
        with self._lock:
            if self.dynamic_batch:
                self.rows.measured(step_seconds, rows, now)

    def _choose(self, room: int) -> list[_Waiting]:
        """Take out those that leave now."""
        first = self._waiting.values()
        chosen = list(islice((each for each in first if self._is_due(each)), room))
        for each in chosen:
            self._leave(each)
        last = chosen[-1].key if chosen else self._last
        while self._waiting and len(chosen) < room:
            near = None if last is None else _nearest(self._ordered, last)
            self.grouped += near is not None
            each = next(iter(first)) if near is None else near
            self._leave(each)
            chosen.append(each)
            last = each.key
        return chosen

    def _is_due(self, each: _Waiting) -> bool:
        """A4, A5: its turn does not depend on the others."""
        return not self.semantic_cluster or each.passed >= PATIENCE

    def _leave(self, each: _Waiting) -> None:
        del self._waiting[each.request_id]
        del self._ordered[bisect_left(self._ordered, (each.key, each.serial))]


_Place = tuple[_Key, int, _Waiting]


def _nearest(ordered: list[_Place], last: _Key) -> _Waiting | None:
    """The one that shares most with `last`, of equals the first that came; None = none shares enough."""
    place = bisect_left(ordered, (last, 0))
    beside = [_shared(ordered[i][0], last) for i in (place - 1, place) if 0 <= i < len(ordered)]
    most = max(beside, default=-1)
    if most < (0 if last[0] else SHARED_TOKENS):
        return None
    context, prefix = last[0], last[1][:most]
    low = bisect_left(ordered, ((context, prefix), 0))
    high = bisect_left(ordered, ((context, (*prefix, _AFTER)), 0))
    return min(ordered[low:high], key=lambda place: place[1])[2]


def _shared(one: _Key, other: _Key) -> int:
    """Tokens of their common beginning; -1 = other contexts."""
    if one[0] != other[0]:
        return -1
    low, high = 0, min(len(one[1]), len(other[1]))
    while low < high:  # whole slices compare much faster than token by token
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[1][:middle] == other[1][:middle] else (low, middle - 1)
    return low
