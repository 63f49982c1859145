"""The journal in memory: what every journal must do, its time to live, and what it costs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from multimodal.errors import LeaseLost, UsageError
from multimodal.journal import Entry, Journal, Lease, Mark, MemoryJournal, journal_from_url
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


@pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
def test_in_memory(rule: Check) -> None:
    """The rule's name is the claim; what follows shows that none of them passes by itself."""
    run(rule(MemoryStore()))


class Hollow:
    """A journal that takes everything and keeps nothing."""

    async def open(self, session: str, writer: str) -> Lease:
        return Lease(session, writer, 1)

    async def renew(self, lease: Lease) -> None: ...

    async def release(self, lease: Lease) -> None: ...

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None: ...

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        return []

    async def first_seq(self, session: str) -> int:
        return 0

    async def last_seq(self, session: str) -> int:
        return -1

    async def mark(self, lease: Lease, mark: Mark) -> None: ...

    async def snapshot(self, session: str) -> Mark | None:
        return None

    async def drop(self, session: str) -> None: ...

    async def aclose(self) -> None: ...


class Haunted(Hollow):
    """It knows sessions that never were."""

    async def last_seq(self, session: str) -> int:
        return 7


class ClosesOnce(Hollow):
    """It minds being closed again."""

    closed = False

    async def aclose(self) -> None:
        assert not self.closed, "it is closed already"
        self.closed = True


BROKEN: dict[str, type[Hollow]] = {
    "an_unknown_session_is_empty": Haunted,
    "closing_twice_is_closing_once": ClosesOnce,
}
"""What breaks the rules that hold of an empty journal, too."""


@pytest.mark.filterwarnings("ignore:coroutine 'Hollow")  # those that a rule had ready, and did not come to
@pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
def test_a_broken_journal_breaks_every_rule(rule: Check) -> None:
    class Store(MemoryStore):
        def journal(self, *, keep_events: int = 1000, keep_seconds: float = 1000.0) -> Journal:
            return BROKEN.get(rule.__name__, Hollow)()

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(rule(Store()))
    gc.collect()


class MemoryMachine(JournalMachine):
    """Random work on it, beside a model."""

    def make_store(self) -> MemoryStore:
        return MemoryStore()


TestMemoryMachine = machine_case(MemoryMachine, examples=80)


class Forgetful(MemoryJournal):
    """Says that it has kept what it has not, where it is the fourth bundle."""

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        await super().append(lease, [each for each in entries if each.first != 3])


def test_random_work_finds_a_journal_that_loses_one_bundle() -> None:
    class ForgetfulStore(MemoryStore):
        def journal(self, *, keep_events: int = 1000, keep_seconds: float = 1000.0) -> Journal:
            self._journal = self._journal or Forgetful(
                keep_events=keep_events, keep_seconds=keep_seconds, lease_seconds=LEASE, clock=lambda: self.now
            )
            return self._journal

    class ForgetfulMachine(JournalMachine):
        def make_store(self) -> MemoryStore:
            return ForgetfulStore()

    # The first that is found will do: to make it short would take minutes.
    search = settings(max_examples=80, deadline=None, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((AssertionError, UsageError)):
        run_state_machine_as_test(ForgetfulMachine, settings=search)


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
