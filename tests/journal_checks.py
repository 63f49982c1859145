"""What every journal must do (J1-J6), as checks that run over each of them: see `CHECKS` and `JournalMachine`.

A store hands out journals on one memory, as several processes would have them, and moves their clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from multimodal.errors import JournalGap, LeaseHeld, LeaseLost, UsageError
from multimodal.events import Text
from multimodal.journal import Entry, Journal, Lease, Mark

__all__ = ["CHECKS", "LEASE", "Check", "Store", "entry", "flat"]

LEASE = 3.0


class Store(Protocol):
    """Where a check keeps its sessions."""

    def journal(self, *, keep_events: int = 1000, keep_seconds: float = 1000.0) -> Journal:
        """A journal on this store; on one that lies in a process there is only one, whose bounds these are."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Move the clock that leases and ages are counted by."""


def entry(first: int, count: int = 1, mark: str = "") -> Entry:
    """A bundle; others of one place differ in `mark`."""
    events = tuple(b'{"kind":"text","seq":%d,"text":"%s"}' % (first + i, mark.encode()) for i in range(count))
    return Entry(first, first + count - 1, events)


def flat(entries: list[Entry]) -> list[bytes]:
    """The events of bundles."""
    return [event for each in entries for event in each.events]


Check = Callable[[Store], Coroutine[Any, Any, None]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


async def opened(store: Store, **bounds: float) -> tuple[Journal, Lease]:
    journal = store.journal(**bounds)  # type: ignore[arg-type]
    return journal, await journal.open("s", "ann")


@check
async def what_is_appended_is_read_byte_for_byte_in_its_bundles(store: Store) -> None:
    journal, lease = await opened(store)
    events = (b'{"text":"\\u0000"}', b"", b"\xff\x00\n\r", '{"text":"Größe 💡"}'.encode(), b"x" * 70_000)
    entries = [entry(0), Entry(1, 5, events), entry(6, 300)]
    await journal.append(lease, entries[:1])
    await journal.append(lease, entries[1:])
    assert await journal.read("s", -1, 10_000) == entries
    assert (await journal.first_seq("s"), await journal.last_seq("s")) == (0, 305)
    text = Text(v=1, sid="s", epoch=0, seq=306, pts_ms=1.5, tok=1, token_index=0, token_count=1, text="ein Wort")
    await journal.append(lease, [Entry.of((text,))])
    assert (await journal.read("s", 305))[0].events[0].startswith(b'{"kind":"text","v":1')


@check
async def an_unknown_session_is_empty(store: Store) -> None:
    journal = store.journal()
    assert (await journal.first_seq("s"), await journal.last_seq("s")) == (0, -1)
    assert await journal.read("s", -1) == await journal.read("s", 5) == []
    assert await journal.snapshot("s") is None
    await journal.drop("s")
    lease = await journal.open("s", "ann")
    assert (await journal.first_seq("s"), await journal.last_seq("s")) == (0, -1)
    await journal.append(lease, [])
    assert await journal.read("s", -1) == []


@check
async def a_repeat_changes_nothing(store: Store) -> None:
    journal, lease = await opened(store)
    entries = [entry(0, 2), entry(2), entry(3, 3)]
    await journal.append(lease, entries)
    await journal.append(lease, entries)
    await journal.append(lease, [entries[1]])
    await journal.append(lease, [entries[2], entry(6), entry(6), entry(7), entry(6)])
    assert await journal.read("s", -1) == [*entries, entry(6), entry(7)]


@check
async def another_bundle_in_a_taken_place_is_refused_with_all_that_came_with_it(store: Store) -> None:
    journal, lease = await opened(store)
    await journal.append(lease, [entry(0, 2), entry(2, 2)])
    wrong = [
        [entry(2, 2, "other")],
        [entry(0), entry(1)],  # the same events in other bundles
        [entry(0, 4)],
        [entry(1, 2)],
        [entry(3)],
        [entry(3, 2)],  # reaches over the end
        [entry(4), entry(4, 1, "other")],
        [entry(4), entry(5), entry(0, 2, "other")],
        [entry(4, 2), entry(5)],
    ]
    for entries in wrong:
        with pytest.raises(UsageError, match=r"session s: the place of event \d is taken by another bundle"):
            await journal.append(lease, entries)
        assert await journal.last_seq("s") == 3
    assert await journal.read("s", -1) == [entry(0, 2), entry(2, 2)]


@check
async def a_hole_is_refused_with_all_that_came_with_it(store: Store) -> None:
    journal, lease = await opened(store)
    await journal.append(lease, [entry(0)])
    for entries in ([entry(2)], [entry(1), entry(3)], [entry(1), entry(2, 2), entry(5, 2)]):
        with pytest.raises(UsageError, match=r"event \d does not follow \d; append what is between"):
            await journal.append(lease, entries)
        assert await journal.last_seq("s") == 0


@check
async def numbers_and_events_that_disagree_are_refused(store: Store) -> None:
    journal, lease = await opened(store)
    for wrong in (Entry(0, 0, ()), Entry(0, 1, (b"x",)), Entry(-1, -1, (b"x",)), Entry(2**53, 2**53, (b"x",))):
        with pytest.raises(UsageError, match=r"make it by Entry\.of"):
            await journal.append(lease, [entry(0), wrong])
    with pytest.raises(UsageError, match="without any event"):
        Entry.of(())
    assert await journal.last_seq("s") == -1


@check
async def an_empty_log_begins_where_its_first_append_does(store: Store) -> None:
    journal, lease = await opened(store)
    await journal.append(lease, [entry(7, 2), entry(9)])
    assert (await journal.first_seq("s"), await journal.last_seq("s")) == (7, 9)
    with pytest.raises(JournalGap) as caught:
        await journal.read("s", -1)
    assert (caught.value.after_seq, caught.value.first_seq) == (-1, 7)
    assert await journal.read("s", 6) == [entry(7, 2), entry(9)]
    await journal.append(lease, [entry(4), entry(10)])  # what counts as forgotten cannot be compared
    assert await journal.read("s", 9) == [entry(10)]
    with pytest.raises(UsageError, match="taken"):
        await journal.append(lease, [entry(6, 2)])


@check
async def a_read_gives_whole_bundles_about_as_many_as_asked_for(store: Store) -> None:
    journal, lease = await opened(store)
    entries = [entry(0), entry(1, 4), entry(5, 2), entry(7), entry(8)]
    await journal.append(lease, entries)
    assert await journal.read("s", -1, 1) == entries[:1]
    assert await journal.read("s", -1, 2) == entries[:2]
    assert await journal.read("s", -1, 5) == entries[:2]
    assert await journal.read("s", -1, 6) == entries[:3]
    assert await journal.read("s", -1, 0) == await journal.read("s", -9, -3) == entries[:1]
    for inside in (1, 2, 3):
        assert await journal.read("s", inside, 1) == entries[1:2]
    assert await journal.read("s", 4) == entries[2:]
    assert await journal.read("s", 8) == await journal.read("s", 99) == []
    held, seen = -1, []
    while got := await journal.read("s", held, 3):
        seen += got
        held = got[-1].last
    assert seen == entries


@check
async def too_many_events_are_forgotten_in_whole_bundles(store: Store) -> None:
    journal, lease = await opened(store, keep_events=6)
    await journal.append(lease, [entry(0, 3), entry(3, 3)])
    assert await journal.first_seq("s") == 0
    await journal.append(lease, [entry(6)])
    assert await journal.first_seq("s") == 3
    with pytest.raises(JournalGap, match="session s: the event after 1 is no longer kept; the first that is: 3"):
        await journal.read("s", 1)
    assert await journal.read("s", 2) == [entry(3, 3), entry(6)]
    await journal.append(lease, [entry(7, 9)])  # alone it is above the bound: the newest stays
    assert await journal.read("s", 6) == [entry(7, 9)]
    await journal.append(lease, [entry(16)])
    assert await journal.read("s", 15) == [entry(16)]
    # What is forgotten can be appended again, and stays forgotten.
    await journal.append(lease, [entry(0, 3), entry(3, 3), entry(6), entry(7, 9), entry(16), entry(17)])
    assert (await journal.first_seq("s"), await journal.last_seq("s")) == (16, 17)


@check
async def old_events_are_forgotten_without_another_append(store: Store) -> None:
    journal, lease = await opened(store, keep_seconds=10.0)
    for first in range(0, 40, 2):
        await journal.append(lease, [entry(first, 2)])
        store.pass_time(1.0)
    assert await journal.first_seq("s") == 20
    with pytest.raises(JournalGap) as caught:
        await journal.read("s", 18)
    assert caught.value.first_seq == 20
    assert len(await journal.read("s", 19)) == 10
    store.pass_time(3.0)
    assert await journal.first_seq("s") == 26
    assert await journal.read("s", 25) == [entry(first, 2) for first in range(26, 40, 2)]
    store.pass_time(500.0)
    assert await journal.read("s", 37) == [entry(38, 2)]  # the newest stays
    assert await journal.first_seq("s") == 38
    await journal.append(lease, [entry(20, 2, "other"), entry(40)])
    assert await journal.read("s", 39) == [entry(40)]
    assert await journal.first_seq("s") == 40


@check
async def a_session_has_one_writer(store: Store) -> None:
    one, first = await opened(store)
    two = store.journal()
    await one.append(first, [entry(0)])
    store.pass_time(1.0)
    with pytest.raises(LeaseHeld, match=r"session s is written by ann, whose lease lasts 2\.0 s more") as caught:
        await two.open("s", "bob")
    assert (caught.value.writer, round(caught.value.seconds)) == ("ann", 2)
    for hold in (one.renew(first), one.append(first, [entry(1)]), one.mark(first, Mark(1, b"m"))):
        await hold
        store.pass_time(LEASE - 0.5)
        with pytest.raises(LeaseHeld):
            await two.open("s", "bob")
    store.pass_time(0.5)
    second = await two.open("s", "bob")
    assert second.epoch > first.epoch
    for late in (
        one.renew(first),
        one.append(first, [entry(2)]),
        one.append(first, []),
        one.mark(first, Mark(2, b"z")),
    ):
        with pytest.raises(LeaseLost, match="session s: bob writes it now; stop writing it"):
            await late
    assert await two.read("s", -1) == [entry(0), entry(1)]
    assert await two.snapshot("s") == Mark(1, b"m")
    await two.append(second, [entry(2, 1, "bob")])
    assert await one.read("s", 1) == [entry(2, 1, "bob")]


@check
async def a_lease_that_is_given_up_lets_another_writer_in_at_once(store: Store) -> None:
    journal, lease = await opened(store)
    await journal.append(lease, [entry(0)])
    await journal.release(lease)
    other = await journal.open("s", "another")
    assert other.epoch > lease.epoch
    assert await journal.last_seq("s") == 0
    await journal.append(other, [entry(1)])
    with pytest.raises(LeaseLost):
        await journal.release(lease)
    with pytest.raises(LeaseHeld):
        await journal.open("s", "a third")


@check
async def the_same_writer_gets_its_session_again_and_its_older_lease_ends(store: Store) -> None:
    journal, first = await opened(store)
    second = await journal.open("s", "ann")
    assert second.epoch > first.epoch
    with pytest.raises(LeaseLost):
        await journal.append(first, [entry(0)])
    await journal.append(second, [entry(0)])
    # A lease that has run out, and that nobody has taken, is still good.
    store.pass_time(LEASE * 3)
    await journal.append(second, [entry(1)])
    with pytest.raises(LeaseHeld):
        await store.journal().open("s", "bob")


@check
async def a_lease_that_was_never_given_is_worth_nothing(store: Store) -> None:
    journal, lease = await opened(store)
    for wrong in (Lease("s", "bob", lease.epoch, lease.life), Lease("s", "ann", lease.epoch + 1, lease.life)):
        with pytest.raises(LeaseLost):
            await journal.append(wrong, [entry(0)])
    with pytest.raises(LeaseLost):
        await journal.renew(Lease("other", "ann", lease.epoch, lease.life))


@check
async def a_dropped_session_leaves_nothing_and_fences_its_writer(store: Store) -> None:
    journal, first = await opened(store)
    await journal.append(first, [entry(0)])
    await journal.mark(first, Mark(0, b"m"))
    await journal.drop("s")
    assert (await journal.last_seq("s"), await journal.snapshot("s")) == (-1, None)
    for late in (journal.renew(first), journal.append(first, [entry(1)]), journal.mark(first, Mark(1, b"z"))):
        with pytest.raises(LeaseLost, match="it was dropped"):
            await late
    second = await journal.open("s", "ann")
    assert second.epoch > first.epoch
    with pytest.raises(LeaseLost):
        await journal.append(first, [entry(0)])
    await journal.append(second, [entry(0, 1, "new")])
    assert await journal.read("s", -1) == [entry(0, 1, "new")]


@check
async def sessions_know_nothing_of_each_other(store: Store) -> None:
    journal = store.journal()
    names = ["s", "S", "s}:state", "s:{t}", "{", "Größe 💡", "half \ud83d", "a" * 500, "s\x00", "*"]
    leases = {name: await journal.open(name, f"w {name}") for name in names}
    for name in names:
        await journal.append(leases[name], [entry(0, 1, name[:5].encode("utf-8", "replace").decode())])
        await journal.mark(leases[name], Mark(0, name[:5].encode("utf-8", "replace")))
    with pytest.raises(LeaseLost):
        await journal.append(Lease("S", "w s", leases["s"].epoch, leases["s"].life), [entry(1)])
    await journal.drop("s")
    for name in names[1:]:
        mark = name[:5].encode("utf-8", "replace")
        assert await journal.read(name, -1) == [entry(0, 1, mark.decode())]
        assert await journal.snapshot(name) == Mark(0, mark)
    assert await journal.last_seq("s") == -1


@check
async def the_snapshot_stays_when_its_events_are_forgotten(store: Store) -> None:
    journal, lease = await opened(store, keep_events=2, keep_seconds=5.0)
    assert await journal.snapshot("s") is None
    await journal.append(lease, [entry(0)])
    await journal.mark(lease, Mark(0, b""))
    assert await journal.snapshot("s") == Mark(0, b"")
    await journal.mark(lease, Mark(0, b"\x00\xff" * 50_000))
    await journal.append(lease, [entry(seq) for seq in range(1, 9)])
    store.pass_time(60.0)
    assert await journal.snapshot("s") == Mark(0, b"\x00\xff" * 50_000)
    assert await journal.first_seq("s") == 8


@check
async def many_writers_at_once_and_only_one_of_them_writes(store: Store) -> None:
    journals = [store.journal() for _ in range(4)]

    async def write(number: int) -> int:
        journal, writer = journals[number % 4], f"writer {number}"
        try:
            lease = await journal.open("s", writer)
        except LeaseHeld:
            return 0
        for seq in range(20):
            await journal.append(lease, [entry(seq, 1, writer)])
        return 1

    assert sum(await asyncio.gather(*(write(number) for number in range(12)))) == 1
    assert len({event.rpartition(b":")[2] for event in flat(await journals[0].read("s", -1))}) == 1


@check
async def appends_of_many_sessions_at_once(store: Store) -> None:
    journal = store.journal()

    async def write(name: str) -> None:
        lease = await journal.open(name, "ann")
        for seq in range(30):
            await journal.append(lease, [entry(seq, 1, name)])

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(write(f"s{number}"))
    for number in range(40):
        assert await journal.read(f"s{number}", -1) == [entry(seq, 1, f"s{number}") for seq in range(30)]


@check
async def a_cancelled_append_was_kept_whole_or_not_at_all(store: Store) -> None:
    journal, lease = await opened(store)
    done, turns = 0, 0
    while done < 60:
        bundles = [entry(done, 2), entry(done + 2)]
        task = asyncio.ensure_future(journal.append(lease, bundles))
        for _ in range(turns % 7):
            await asyncio.sleep(0)
        turns += 1
        task.cancel()
        await asyncio.wait([task])
        assert await journal.last_seq("s") in (done - 1, done + 2)
        await journal.append(lease, bundles)
        done += 3
    assert flat(await journal.read("s", -1, 1000)) == [event for seq in range(60) for event in entry(seq).events]


@check
async def closing_twice_is_closing_once(store: Store) -> None:
    journal, _ = await opened(store)
    await journal.aclose()
    await journal.aclose()
