"""The append-only log of what each session emitted, so that a viewer who was away gets every event once.

Events are kept as the bytes that were sent: a replay is byte-identical. They stay in the bundles in which they were
emitted, so that what belongs to one frame is painted in one.

    J1  Appends are contiguous in `seq`. A bundle that is there already is accepted and changes nothing; another of the
        same `seq`, the same events in other bundles, or one that leaves a hole, is refused, and with it the whole
        append. What is older than what is kept cannot be compared, and is accepted. A log without any event begins
        where its first append does: what was before that counts as forgotten.
    J2  One writer: `open` takes a lease and raises its epoch, which no earlier lease of that session had, not even one
        from before a drop. An append, a renewal or a snapshot under an older epoch, or of a session that is no longer
        there, is refused (`LeaseLost`), and changes nothing.
    J3  `read` gives bundles in order without a hole. What was asked for and is not kept raises `JournalGap`; it is
        never left out silently.
    J4  Bounded by events and by seconds; whole bundles are forgotten, oldest first, the newest never.
    J5  Sessions know nothing of each other. One that is dropped, or whose writer did nothing for `ttl` seconds, not
        even renew its lease, leaves nothing.
    J6  A snapshot belongs to the `seq` it was folded to; the one written last stays, however old, and though the events
        around it are forgotten.

A store of its own, such as Redis, may come back without what it was given last, or without anything. `last_seq` then
says where it stands, and an append that would leave a hole because of it raises JournalError, not UsageError: `open`
the session again and append what follows `last_seq`. A writer that does not have that any more drops the session, opens
it and begins with what it has: readers get a `JournalGap` for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from multimodal.errors import LeaseLost, UsageError
from multimodal.events import AnyEvent
from multimodal.wire import encode_event

__all__ = [
    "KEEP_EVENTS",
    "KEEP_SECONDS",
    "LEASE_SECONDS",
    "SEQ_LIMIT",
    "TTL",
    "Entry",
    "Journal",
    "Lease",
    "Mark",
    "check_bounds",
    "check_entry",
    "conflict",
    "hole",
    "lost",
]

KEEP_EVENTS = 20_000
"""Events of a session kept: half an hour of narration at ten tokens a second."""
KEEP_SECONDS = 1800.0
LEASE_SECONDS = 3.0
"""A writer that was killed holds up its successor for so long at most; it is renewed three times as often."""
TTL = 3600.0
"""Seconds for which a session is kept after its writer did anything."""
SEQ_LIMIT = 2**53 - 1
"""The largest `seq` that browsers and Lua count exactly."""


class Lease(msgspec.Struct, frozen=True):
    """The right to write one session: `epoch` rises with every `open` (J2).

    `life` names the run of the store that gave it, by which one that came back with less than it had is told from one
    that was never given more.
    """

    session: str
    writer: str
    epoch: int
    life: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One bundle as it was sent: the `seq` of its first and last event, and the JSON of each."""

    first: int
    last: int
    events: tuple[bytes, ...]

    @classmethod
    def of(cls, bundle: Sequence[AnyEvent]) -> Entry:
        """The entry of a bundle.

        Raises:
            UsageError: a bundle without any event.
        """
        if not bundle:
            raise UsageError("a bundle without any event has no place in a journal; leave it out")
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

    async def release(self, lease: Lease) -> None:
        """Give up the lease, so that another writer may open the session at once; what is kept stays.

        Raises:
            LeaseLost: see J2.
        """

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Keep bundles, in order (J1): all of them, or none.

        One that was cancelled, or raised a plain JournalError, may have been kept; append the same again.

        Raises:
            LeaseLost: see J2.
            UsageError: a hole, or other events of a `seq` that is there.
        """

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        """The bundles after an event, whole, as many as make `limit` events; [] = there are none yet (J3).

        At least one is given. A bundle in whose middle `after_seq` stands is given whole.

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


def check_bounds(keep_events: int, keep_seconds: float, ttl: float, lease_seconds: float) -> None:
    """Refuse bounds under which nothing is kept.

    Raises:
        UsageError: one that is.
    """
    if keep_events < 1 or not (keep_seconds > 0 and ttl > 0 and lease_seconds > 0):
        raise UsageError(
            f"a journal of {keep_events} events, {keep_seconds} s, a ttl of {ttl} s and leases of {lease_seconds} s"
            " keeps nothing; give at least 1 event, and more than 0 seconds"
        )


def hole(session: str, first: int, last: int) -> UsageError:
    """What an append that leaves a hole is refused with."""
    return UsageError(f"session {session[:40]}: event {first} does not follow {last}; append what is between")


def conflict(session: str, first: int) -> UsageError:
    """What another bundle in a place that is taken is refused with."""
    return UsageError(
        f"session {session[:40]}: the place of event {first} is taken by another bundle; number events once, and append"
        " them again in the bundles they had"
    )


def lost(session: str, writer: str) -> LeaseLost:
    """What a writer is refused with whose lease is over; `writer` = who has it now, "" = the session is gone."""
    what = f"{writer[:80]} writes it now" if writer else "it was dropped, or not written for its time to live"
    return LeaseLost(f"session {session[:40]}: {what}; stop writing it")


def check_entry(entry: Entry) -> None:
    """Refuse an entry whose numbers and events do not agree.

    Raises:
        UsageError: it is empty, `last` is not where its events end, or it lies above `SEQ_LIMIT`.
    """
    count = len(entry.events)
    if not count or entry.last != entry.first + count - 1 or entry.first < 0 or entry.last >= SEQ_LIMIT:
        raise UsageError(
            f"an entry from {entry.first} to {entry.last} with {count} events; make it by Entry.of(bundle)"
        )
