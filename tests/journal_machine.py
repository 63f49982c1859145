"""Random work on a journal, beside a model that is as simple as can be: lists, searched from their beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from unittest import TestCase

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from multimodal.errors import JournalGap, LeaseHeld, LeaseLost, MultiModalError, UsageError
from multimodal.journal import Entry, Journal, Lease, Mark
from tests.journal_checks import LEASE, entry

__all__ = ["JournalMachine", "machine_case"]

T = TypeVar("T")
KEEP_EVENTS, KEEP_SECONDS = 12, 20.0
SESSIONS = st.sampled_from(["s", "t"])


class MachineStore(Protocol):
    """As `tests.journal_checks.Store`, and it can be closed."""

    now: float

    def journal(self, *, keep_events: int = ..., keep_seconds: float = ...) -> Journal: ...
    def pass_time(self, seconds: float) -> None: ...
    def close(self) -> None: ...


@dataclass
class Log:
    """What the model knows of a session."""

    lease: Lease
    until: float
    kept: list[tuple[float, Entry]] = field(default_factory=list)
    mark: Mark | None = None

    @property
    def last(self) -> int:
        return self.kept[-1][1].last if self.kept else -1

    def forget(self, now: float) -> None:
        """J4, word for word."""
        while len(self.kept) > 1:
            count = sum(len(each.events) for _, each in self.kept)
            if count <= KEEP_EVENTS and self.kept[0][0] >= now - KEEP_SECONDS:
                break
            self.kept.pop(0)


class JournalMachine(RuleBasedStateMachine):
    """Two writers, two sessions, a clock; what the journal says is what the model says."""

    leases = Bundle("leases")

    def make_store(self) -> MachineStore:
        """The store of one run."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = self.make_store()
        self.journal = self.store.journal(keep_events=KEEP_EVENTS, keep_seconds=KEEP_SECONDS)
        self.logs: dict[str, Log] = {}
        self.top_epoch: dict[str, int] = {}

    def teardown(self) -> None:
        self.run(self.journal.aclose())
        self.runner.close()
        self.store.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def refused(self, kind: type[MultiModalError], coroutine: Coroutine[Any, Any, object]) -> None:
        try:
            self.run(coroutine)
        except kind:
            return
        raise AssertionError(f"{kind.__name__} was to be raised")

    @rule(target=leases, session=SESSIONS, writer=st.sampled_from(["ann", "bob"]))
    def open(self, session: str, writer: str) -> Any:
        log = self.logs.get(session)
        if log is not None and log.lease.writer != writer and self.store.now < log.until:
            self.refused(LeaseHeld, self.journal.open(session, writer))
            return multiple()
        lease = self.run(self.journal.open(session, writer))
        assert lease.epoch > self.top_epoch.get(session, -1)
        self.top_epoch[session] = lease.epoch
        if log is None:
            log = self.logs[session] = Log(lease, 0.0)
        log.lease, log.until = lease, self.store.now + LEASE
        return lease

    @rule(
        lease=leases,
        back=st.integers(0, 9),
        jump=st.sampled_from([0, 0, 0, 0, 1, -1]),
        sizes=st.lists(st.integers(1, 4), max_size=4),
        mark=st.sampled_from(["", "", "", "x"]),
    )
    def append(self, lease: Lease, back: int, jump: int, sizes: list[int], mark: str) -> None:
        """What is kept from `back` bundles before its end on, or new bundles from a place that may be wrong."""
        log = self.logs.get(lease.session)
        entries = [each for _, each in log.kept[-back:]] if log is not None and back else []
        first = (log.last if log is not None else -1) + 1 + jump
        for size in sizes if first >= 0 else []:
            entries.append(entry(first, size, mark))
            first += size
        call = self.journal.append(lease, entries)
        if log is None or log.lease != lease:
            self.refused(LeaseLost, call)
            return
        log.forget(self.store.now)
        grown = list(log.kept)
        for each in entries:
            taken = {seq: kept for _, kept in grown for seq in range(kept.first, kept.last + 1)}
            end = grown[-1][1].last if grown else -1
            same = taken.get(each.last)
            if not grown or each.first == end + 1:
                grown.append((self.store.now, each))
            elif each.last < grown[0][1].first or same == each:
                continue
            else:
                self.refused(UsageError, call)
                self.may_have_held(log)
                return
        self.run(call)
        log.kept, log.until = grown, self.store.now + LEASE
        log.forget(self.store.now)

    def may_have_held(self, log: Log) -> None:
        """A refused append may hold the lease, or not: after a renewal both agree again."""
        self.run(self.journal.renew(log.lease))
        log.until = self.store.now + LEASE

    @rule(lease=leases)
    def renew(self, lease: Lease) -> None:
        log = self.logs.get(lease.session)
        if log is None or log.lease != lease:
            self.refused(LeaseLost, self.journal.renew(lease))
        else:
            self.run(self.journal.renew(lease))
            log.until = self.store.now + LEASE

    @rule(lease=leases, data=st.binary(max_size=8))
    def mark(self, lease: Lease, data: bytes) -> None:
        log = self.logs.get(lease.session)
        if log is None or log.lease != lease:
            self.refused(LeaseLost, self.journal.mark(lease, Mark(0, data)))
            return
        log.mark = Mark(log.last, data)
        self.run(self.journal.mark(lease, log.mark))
        log.until = self.store.now + LEASE

    @rule(session=SESSIONS, after=st.integers(-2, 40), limit=st.integers(0, 20))
    def read(self, session: str, after: int, limit: int) -> None:
        log = self.logs.get(session)
        call = self.journal.read(session, after, limit)
        after = max(after, -1)
        if log is None or after >= log.last:
            assert self.run(call) == []
            return
        log.forget(self.store.now)
        if after + 1 < log.kept[0][1].first:
            self.refused(JournalGap, call)
            return
        wanted: list[Entry] = []
        for _, each in log.kept:
            if each.last > after and sum(len(one.events) for one in wanted) < max(limit, 1):
                wanted.append(each)
        assert self.run(call) == wanted

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0, 25.0]))
    def pass_time(self, seconds: float) -> None:
        self.store.pass_time(seconds)

    @rule(session=SESSIONS, really=st.integers(0, 3))
    def drop(self, session: str, really: int) -> None:
        if not really:
            self.run(self.journal.drop(session))
            self.logs.pop(session, None)

    @invariant()
    def the_ends_agree(self) -> None:
        for session in ("s", "t"):
            log = self.logs.get(session)
            if log is not None:
                log.forget(self.store.now)
            first = log.kept[0][1].first if log is not None and log.kept else 0
            last = log.last if log is not None else -1
            assert self.run(self.journal.first_seq(session)) == first
            assert self.run(self.journal.last_seq(session)) == last
            assert self.run(self.journal.snapshot(session)) == (None if log is None else log.mark)
            if log is not None and log.kept:
                whole = self.run(self.journal.read(session, first - 1, int(1e6)))
                assert whole == [each for _, each in log.kept]


def machine_case(machine: type[JournalMachine], examples: int) -> type[TestCase]:
    """The test case of a machine, for a module to hold."""
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    return case
