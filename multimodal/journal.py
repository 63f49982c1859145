"""The append-only log of what each session emitted, so that a viewer who was away gets every event once.

Events are kept as the bytes that were sent: a replay is byte-identical. They stay in the bundles in which they were
emitted, so that what belongs to one frame is painted in one.

    J1  Appends are contiguous in `seq`, the first one begins at 0 (or where `open` says that the log goes on). A bundle
        that is there already is accepted and changes nothing; another of the same `seq`, or one that leaves a hole, is
        refused.
    J2  One writer: `open` takes a lease and raises its epoch; an append, a renewal or a snapshot under an older epoch
        is refused (`LeaseLost`), and changes nothing.
    J3  `read` gives bundles in order without a hole. What was asked for and is not kept raises `JournalGap`; it is
        never left out silently.
    J4  Bounded by events and by seconds; whole bundles are forgotten, oldest first, the newest never.
    J5  Sessions know nothing of each other. One that is dropped, or was not written for `ttl` seconds, leaves nothing.
    J6  A snapshot belongs to the `seq` it was folded to; the newest one stays, however old.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from multimodal.errors import JournalGap, LeaseHeld, LeaseLost, UsageError
from multimodal.events import AnyEvent
from multimodal.wire import encode_event

__all__ = ["KEEP_EVENTS", "KEEP_SECONDS", "LEASE_SECONDS", "TTL", "Entry", "Journal", "Lease", "Mark", "MemoryJournal"]

KEEP_EVENTS = 20_000
"""Events of a session kept: half an hour of narration at ten tokens a second."""
KEEP_SECONDS = 1800.0
LEASE_SECONDS = 3.0
"""A writer that was killed holds up its successor for so long at most; it is renewed three times as often."""
TTL = 3600.0
"""Seconds after its last append for which a session is kept."""


class Lease(msgspec.Struct, frozen=True):
    """The right to write one session: `epoch` rises with every `open` (J2)."""

    session: str
    writer: str
    epoch: int


class Entry(msgspec.Struct, frozen=True):
    """One bundle as it was sent: the `seq` of its first and last event, and the JSON of each."""

    first: int
    last: int
    events: tuple[bytes, ...]

    @classmethod
    def of(cls, bundle: Sequence[AnyEvent]) -> Entry:
        """The entry of a bundle, which has at least one event."""
        return cls(bundle[0].seq, bundle[-1].seq, tuple(encode_event(event) for event in bundle))


class Mark(msgspec.Struct, frozen=True):
    """A snapshot in the journal: `data` is whatever its writer needs to go on after `seq` (J6)."""

    seq: int
    data: bytes


class Journal(Protocol):
    """Where sessions are kept (J1-J6). Every call may raise JournalError; cancelling one loses nothing it confirmed."""

    async def open(self, session: str, writer: str) -> Lease:
        """Become the writer of a session, new or not.

        Args:
            session: its name.
            writer: who asks; the same writer gets its own session again at once.

        Raises:
            LeaseHeld: another writer's lease is alive.
        """
        ...

    async def renew(self, lease: Lease) -> None:
        """Hold the lease for `LEASE_SECONDS` more; an append does so too.

        Raises:
            LeaseLost: see J2.
        """

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Keep bundles, in order (J1).

        Raises:
            LeaseLost: see J2.
            UsageError: a hole, or other events of a `seq` that is there.
        """

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        """The bundles after an event, whole, about `limit` events of them; [] = there are none yet (J3).

        A bundle in whose middle `after_seq` stands is given whole.

        Raises:
            JournalGap: see J3.
        """
        ...

    async def first_seq(self, session: str) -> int:
        """The first event that is kept; one after the last, where none is; 0 for a session that is not known."""
        ...

    async def last_seq(self, session: str) -> int:
        """The last event; -1 = none, or a session that is not known."""
        ...

    async def mark(self, lease: Lease, mark: Mark) -> None:
        """Keep a snapshot in the place of the one before (J6).

        Raises:
            LeaseLost: see J2.
        """

    async def snapshot(self, session: str) -> Mark | None:
        """The newest snapshot."""
        ...

    async def drop(self, session: str) -> None:
        """Forget a session; unknown ones are no fault."""

    async def aclose(self) -> None:
        """Let go of everything. Twice is once."""


class _Log:
    def __init__(self) -> None:
        self.entries: deque[tuple[float, Entry]] = deque()
        self.events = 0
        self.last = -1
        self.mark: Mark | None = None
        self.lease: Lease | None = None
        self.held_until = 0.0
        self.touched = 0.0


class MemoryJournal:
    """A journal in this process: the default. What it keeps ends with the process.

    Args:
        keep_events: events kept of each session.
        keep_seconds: seconds for which each is kept.
        ttl: seconds after its last append for which a session is kept.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if keep_events < 1 or keep_seconds <= 0 or ttl <= 0:
            raise UsageError(
                f"a journal of {keep_events} events, {keep_seconds} s and a ttl of {ttl} s keeps nothing; give more"
            )
        self._keep_events, self._keep_seconds, self._ttl, self._clock = keep_events, keep_seconds, ttl, clock
        self._logs: dict[str, _Log] = {}

    def __len__(self) -> int:
        return len(self._logs)

    async def open(self, session: str, writer: str) -> Lease:
        """See `Journal.open`."""
        now = self._clock()
        self._forget_sessions(now)
        log = self._logs.setdefault(session, _Log())
        held = log.lease
        if held is not None and held.writer != writer and now < log.held_until:
            raise LeaseHeld(session, held.writer, log.held_until - now)
        log.lease = Lease(session, writer, 1 if held is None else held.epoch + 1)
        log.held_until, log.touched = now + LEASE_SECONDS, now
        return log.lease

    async def renew(self, lease: Lease) -> None:
        """See `Journal.renew`."""
        self._own(lease)

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """See `Journal.append`. Nothing awaits in it: what it was given is kept when it returns, or refused whole."""
        log = self._own(lease)
        now, last, fresh = self._clock(), log.last, []
        for entry in entries:
            check_entry(entry)
            if entry.last <= last:
                self._check_same(log, entry)
                continue
            if entry.first != last + 1:
                raise UsageError(
                    f"session {lease.session[:40]}: event {entry.first} follows {last}; append what is between"
                )
            fresh.append(entry)
            last = entry.last
        for entry in fresh:
            log.entries.append((now, entry))
            log.events += len(entry.events)
        log.last = last
        self._trim(log, now)

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        """See `Journal.read`."""
        log = self._logs.get(session)
        if log is None or after_seq >= log.last:
            return []
        self._trim(log, self._clock())
        first = log.entries[0][1].first
        if after_seq + 1 < first:
            raise JournalGap(session, after_seq, first)
        given: list[Entry] = []
        count = 0
        # From the end: those who read are mostly near it.
        at = len(log.entries)
        while at and log.entries[at - 1][1].last > after_seq:
            at -= 1
        for place in range(at, len(log.entries)):
            if count >= limit:
                break
            given.append(log.entries[place][1])
            count += len(given[-1].events)
        return given

    async def first_seq(self, session: str) -> int:
        """See `Journal.first_seq`."""
        log = self._logs.get(session)
        if log is None:
            return 0
        self._trim(log, self._clock())
        return log.entries[0][1].first if log.entries else log.last + 1

    async def last_seq(self, session: str) -> int:
        """See `Journal.last_seq`."""
        log = self._logs.get(session)
        return -1 if log is None else log.last

    async def mark(self, lease: Lease, mark: Mark) -> None:
        """See `Journal.mark`."""
        self._own(lease).mark = mark

    async def snapshot(self, session: str) -> Mark | None:
        """See `Journal.snapshot`."""
        log = self._logs.get(session)
        return None if log is None else log.mark

    async def drop(self, session: str) -> None:
        """See `Journal.drop`."""
        self._logs.pop(session, None)

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        self._logs.clear()
        await asyncio.sleep(0)

    def _own(self, lease: Lease) -> _Log:
        log = self._logs.get(lease.session)
        if log is None or log.lease != lease:
            raise LeaseLost(f"session {lease.session[:40]} has another writer now; stop writing it")
        log.touched = self._clock()
        log.held_until = log.touched + LEASE_SECONDS
        return log

    def _check_same(self, log: _Log, entry: Entry) -> None:
        for _, kept in reversed(log.entries):
            if kept.last < entry.first:
                break
            if kept.first == entry.first:
                if kept != entry:
                    raise UsageError(f"event {entry.first} is kept already, and is not the same; number events once")
                return

    def _trim(self, log: _Log, now: float) -> None:
        while len(log.entries) > 1 and (log.events > self._keep_events or log.entries[0][0] < now - self._keep_seconds):
            log.events -= len(log.entries.popleft()[1].events)

    def _forget_sessions(self, now: float) -> None:
        for name in [name for name, log in self._logs.items() if log.touched < now - self._ttl]:
            del self._logs[name]


def check_entry(entry: Entry) -> None:
    """Refuse an entry whose numbers and events do not agree.

    Raises:
        UsageError: it is empty, or `last` is not where its events end.
    """
    if not entry.events or entry.last != entry.first + len(entry.events) - 1 or entry.first < 0:
        raise UsageError(
            f"an entry from {entry.first} to {entry.last} with {len(entry.events)} events; make it by Entry.of(bundle)"
        )
