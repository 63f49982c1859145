"""The journal in this process: lists of bundles, bounded (`multimodal.journal`, J1-J6)."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence

from multimodal.errors import JournalGap, LeaseHeld
from multimodal.journal_base import (
    KEEP_EVENTS,
    KEEP_SECONDS,
    LEASE_SECONDS,
    TTL,
    Entry,
    Lease,
    Mark,
    check_bounds,
    check_entry,
    conflict,
    hole,
    lost,
)

__all__ = ["MemoryJournal"]


class _Log:
    """One session. What was forgotten stays in the lists, before `start`, until it is worth moving the rest."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.times: list[float] = []
        self.start = 0
        self.mark: Mark | None = None
        self.lease = Lease("", "", 0)
        self.held_until = -math.inf
        self.touched = 0.0

    @property
    def first(self) -> int:
        return self.entries[self.start].first if self.entries else 0

    @property
    def last(self) -> int:
        return self.entries[-1].last if self.entries else -1

    def place(self, seq: int) -> int:
        """Where the first entry stands that ends at `seq` or later."""
        return bisect_left(self.entries, seq, lo=self.start, key=_last)

    def trim(self, from_seq: int, since: float) -> None:
        """Forget entries that begin before `from_seq`, or came before `since`; not the newest."""
        newest = len(self.entries) - 1
        while self.start < newest and (self.first < from_seq or self.times[self.start] < since):
            self.start += 1
        if self.start > 512 and self.start > newest // 2:
            del self.entries[: self.start], self.times[: self.start]
            self.start = 0


def _last(entry: Entry) -> int:
    return entry.last


class MemoryJournal:
    """A journal in this process: the default. What it keeps ends with the process.

    Args:
        keep_events: events kept of each session.
        keep_seconds: seconds for which each is kept.
        ttl: seconds for which a session is kept after its writer did anything.
        lease_seconds: seconds for which a lease is held.
        clock: seconds, monotonic.

    Raises:
        UsageError: a bound that keeps nothing.
    """

    def __init__(
        self,
        *,
        keep_events: int = KEEP_EVENTS,
        keep_seconds: float = KEEP_SECONDS,
        ttl: float = TTL,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_bounds(keep_events, keep_seconds, ttl, lease_seconds)
        self._keep_events, self._keep_seconds, self._ttl = keep_events, keep_seconds, ttl
        self._lease_seconds, self._clock = lease_seconds, clock
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        """Those that were written last stand last."""
        self._epochs = 0
        """Counted over all sessions, so that one which was dropped does not begin again with an epoch it had (J2)."""

    def __len__(self) -> int:
        return len(self._logs)

    async def open(self, session: str, writer: str) -> Lease:
        """See `Journal.open`."""
        log = self._find(session)
        now = self._clock()
        if log is None:
            log = self._logs[session] = _Log()
        elif log.lease.writer != writer and now < log.held_until:
            raise LeaseHeld(session, log.lease.writer, log.held_until - now)
        self._epochs += 1
        log.lease = Lease(session, writer, self._epochs)
        self._touch(log, now)
        return log.lease

    async def renew(self, lease: Lease) -> None:
        """See `Journal.renew`."""
        self._own(lease)

    async def release(self, lease: Lease) -> None:
        """See `Journal.release`."""
        self._own(lease).held_until = self._clock()

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """See `Journal.append`. Nothing awaits in it."""
        for entry in entries:
            check_entry(entry)
        log = self._own(lease)
        now = self._clock()
        self._trim(log, now)
        last, fresh = log.last, dict[int, Entry]()
        first = log.first if log.entries else None
        for entry in entries:
            if first is None or entry.first == last + 1:
                first = entry.first if first is None else first
                fresh[entry.last] = entry
                last = entry.last
            elif entry.first > last + 1:
                raise hole(lease.session, entry.first, last)
            elif entry.last >= first and entry != (fresh.get(entry.last) or self._kept(log, entry.last)):
                raise conflict(lease.session, entry.first)
        log.entries += fresh.values()
        log.times += [now] * len(fresh)
        self._trim(log, now)

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        """See `Journal.read`."""
        log = self._find(session)
        after_seq = max(after_seq, -1)
        if log is None or after_seq >= log.last:
            return []
        self._trim(log, self._clock())
        if after_seq + 1 < log.first:
            raise JournalGap(session, after_seq, log.first)
        given: list[Entry] = []
        count = 0
        for place in range(log.place(after_seq + 1), len(log.entries)):
            given.append(log.entries[place])
            count += len(given[-1].events)
            if count >= limit:
                break
        return given

    async def first_seq(self, session: str) -> int:
        """See `Journal.first_seq`."""
        log = self._find(session)
        if log is None:
            return 0
        self._trim(log, self._clock())
        return log.first

    async def last_seq(self, session: str) -> int:
        """See `Journal.last_seq`."""
        log = self._find(session)
        return -1 if log is None else log.last

    async def mark(self, lease: Lease, mark: Mark) -> None:
        """See `Journal.mark`."""
        self._own(lease).mark = mark

    async def snapshot(self, session: str) -> Mark | None:
        """See `Journal.snapshot`."""
        log = self._find(session)
        return None if log is None else log.mark

    async def drop(self, session: str) -> None:
        """See `Journal.drop`."""
        self._logs.pop(session, None)

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        self._logs.clear()

    def _find(self, session: str) -> _Log | None:
        gone = self._clock() - self._ttl
        while self._logs and next(iter(self._logs.values())).touched <= gone:
            self._logs.popitem(last=False)
        return self._logs.get(session)

    def _own(self, lease: Lease) -> _Log:
        log = self._find(lease.session)
        if log is None or log.lease != lease:
            raise lost(lease.session, "" if log is None else log.lease.writer)
        self._touch(log, self._clock())
        return log

    def _touch(self, log: _Log, now: float) -> None:
        log.touched, log.held_until = now, now + self._lease_seconds
        self._logs.move_to_end(log.lease.session)

    def _kept(self, log: _Log, last: int) -> Entry | None:
        place = log.place(last)
        return log.entries[place] if place < len(log.entries) else None

    def _trim(self, log: _Log, now: float) -> None:
        log.trim(log.last - self._keep_events + 1, now - self._keep_seconds)
