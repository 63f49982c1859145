"""The journal in memory: what every journal must do, its time to live, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multimodal.errors import LeaseLost, UsageError
from multimodal.journal import Journal, Mark, MemoryJournal, journal_from_url
from tests.journal_checks import CHECKS, LEASE, Check, entry
from tests.journal_machine import JournalMachine, machine_case
from tests.support import run


class MemoryStore:
    """One process, one journal, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._journal: MemoryJournal | None = None

    def journal(self, *, keep_events: int = 1000, keep_seconds: float = 1000.0) -> Journal:
        if self._journal is None:
            self._journal = MemoryJournal(
                keep_events=keep_events, keep_seconds=keep_seconds, lease_seconds=LEASE, clock=lambda: self.now
            )
        return self._journal

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def close(self) -> None:
        return None


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_in_memory(check: Check) -> None:
    run(check(MemoryStore()))


class MemoryMachine(JournalMachine):
    """Random work on it, beside a model."""

    def make_store(self) -> MemoryStore:
        return MemoryStore()


TestMemoryMachine = machine_case(MemoryMachine, examples=80)


def test_a_session_whose_writer_does_nothing_leaves_nothing() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        journal = MemoryJournal(ttl=60.0, clock=lambda: store.now)
        kept, gone = await journal.open("kept", "ann"), await journal.open("gone", "ann")
        for lease in (kept, gone):
            await journal.append(lease, [entry(0)])
            await journal.mark(lease, Mark(0, b"m"))
        for seconds in (30.0, 29.9):
            store.pass_time(seconds)
            await journal.renew(kept)
            assert await journal.last_seq("gone") == 0
        store.pass_time(0.1)
        assert await journal.last_seq("gone") == -1
        assert (await journal.read("gone", -1), await journal.snapshot("gone")) == ([], None)
        with pytest.raises(LeaseLost, match="not written for its time to live"):
            await journal.append(gone, [entry(1)])
        assert await journal.read("kept", -1) == [entry(0)]
        assert len(journal) == 1

    run(scenario())


def test_ten_thousand_sessions_that_nobody_dropped_are_forgotten() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        journal = MemoryJournal(ttl=10.0, clock=lambda: store.now)
        most = 0
        for number in range(10_000):
            store.pass_time(0.1)
            lease = await journal.open(f"s{number}", "ann")
            await journal.append(lease, [entry(0)])
            most = max(most, len(journal))
        assert most <= 101

    run(scenario())


def test_what_is_forgotten_is_given_back() -> None:
    async def scenario() -> None:
        journal = MemoryJournal(keep_events=100)
        lease = await journal.open("s", "ann")
        for seq in range(20_000):
            await journal.append(lease, [entry(seq)])
        log = journal._logs["s"]
        assert len(log.entries) == len(log.times) <= 1200
        assert len(await journal.read("s", 19_899, 1000)) == 100

    run(scenario())


@pytest.mark.parametrize(
    "make",
    [
        lambda: MemoryJournal(keep_events=0),
        lambda: MemoryJournal(keep_seconds=0.0),
        lambda: MemoryJournal(ttl=-1.0),
        lambda: MemoryJournal(lease_seconds=0.0),
        lambda: MemoryJournal(keep_seconds=float("nan")),
        lambda: journal_from_url("redis://localhost", keep_events=0),
    ],
)
def test_bounds_that_keep_nothing_are_refused(make: Callable[[], Journal]) -> None:
    with pytest.raises(UsageError, match="keeps nothing; give at least 1 event"):
        make()


def test_a_journal_by_its_url() -> None:
    for url in ("memory:", "memory", "MEMORY:", "memory://"):
        assert isinstance(journal_from_url(url, keep_events=5), MemoryJournal)
    for url in ("", "postgres://ann:secret@host/db", "localhost:6379", "/var/run/redis"):
        with pytest.raises(UsageError, match="give memory: or redis://host:6379/0") as caught:
            journal_from_url(url)
        assert "secret" not in str(caught.value)
