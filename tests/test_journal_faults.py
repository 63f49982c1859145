"""What a journal on Redis does when Redis is killed, frozen, or comes back with less than it was given."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from multimodal.bench.redis_stage import RedisServer
from multimodal.errors import JournalError, JournalGap, LeaseHeld, LeaseLost, UsageError
from multimodal.journal import Entry, Journal, Lease, Mark
from multimodal.journal_redis import ANSWER, RedisJournal
from tests.journal_checks import entry
from tests.redis_server import own_redis_server
from tests.support import run

__all__ = ["own_redis_server"]


@asynccontextmanager
async def journals(server: RedisServer, count: int = 1) -> AsyncIterator[list[RedisJournal]]:
    made = [RedisJournal(server.url, lease_seconds=0.5) for _ in range(count)]
    try:
        yield made
    finally:
        for journal in made:
            await journal.aclose()


def bundles(first: int, until: int) -> list[Entry]:
    """Bundles of one to four events, the same for a place every time."""
    made: list[Entry] = []
    while first < until:
        count = min(1 + first * 7 % 4, until - first)
        made.append(entry(first, count))
        first += count
    return made


async def restart(server: RedisServer) -> None:
    await asyncio.to_thread(server.start)


def seqs(entries: Sequence[Entry]) -> list[int]:
    return [seq for each in entries for seq in range(each.first, each.last + 1)]


class Writer:
    """What a session's process does: it keeps what it has emitted, and brings the journal up to it."""

    def __init__(self, journal: Journal, name: str = "ann", session: str = "s") -> None:
        self.journal, self.name, self.session = journal, name, session
        self.emitted: list[Entry] = []
        self.lease: Lease | None = None
        self.refused = 0

    async def emit(self, entries: Sequence[Entry]) -> None:
        """Append, and not mind a journal that is away."""
        self.emitted += entries
        try:
            if self.lease is None:
                self.lease = await self.journal.open(self.session, self.name)
            await self.journal.append(self.lease, entries)
        except (LeaseHeld, LeaseLost):
            raise
        except JournalError:
            self.refused += 1

    async def catch_up(self, kept: int = 10**6) -> None:
        """After a return of the journal, with the newest `kept` bundles at hand."""
        self.lease = await self.journal.open(self.session, self.name)
        last = await self.journal.last_seq(self.session)
        at_hand = self.emitted[-kept:]
        if at_hand[0].first > last + 1:
            await self.journal.drop(self.session)
            self.lease = await self.journal.open(self.session, self.name)
        await self.journal.append(self.lease, [each for each in at_hand if each.first > last])


def test_killed_by_9_it_loses_nothing_that_it_confirmed(own_redis_server: RedisServer) -> None:
    """And while it is away, every call says so, at once, by an error of ours."""

    async def scenario() -> None:
        async with journals(own_redis_server) as [journal]:
            writer = Writer(journal)
            for each in bundles(0, 200):
                await writer.emit([each])
            assert writer.lease is not None
            await journal.mark(writer.lease, Mark(150, b"folded"))
            own_redis_server.kill()
            began = time.monotonic()
            lease = writer.lease
            for name, call in (
                ("append", journal.append(lease, [entry(200)])),
                ("renew", journal.renew(lease)),
                ("mark", journal.mark(lease, Mark(1, b""))),
                ("open", journal.open("s", "ann")),
                ("read", journal.read("s", -1)),
                ("first_seq", journal.first_seq("s")),
                ("last_seq", journal.last_seq("s")),
                ("snapshot", journal.snapshot("s")),
                ("drop", journal.drop("s")),
            ):
                where = rf"127\.0\.0\.1:{own_redis_server.port}"
                with pytest.raises(JournalError, match=rf"{name}: Redis at {where} cannot be reached .*; start it"):
                    await call
            assert time.monotonic() - began < 9 * ANSWER
            await restart(own_redis_server)
            assert await journal.read("s", -1, 1000) == writer.emitted
            assert await journal.snapshot("s") == Mark(150, b"folded")
            # The lease is as good as before: nobody has taken it, and nothing is missing.
            await journal.append(lease, [entry(200)])
            assert await journal.last_seq("s") == 200

    run(scenario())


def test_killed_while_many_write_and_started_again(own_redis_server: RedisServer) -> None:
    """Five sessions append all the time, and one viewer of each reads along; Redis is killed three times."""

    async def write(writer: Writer, until: asyncio.Event) -> None:
        while not until.is_set():
            first = writer.emitted[-1].last + 1 if writer.emitted else 0
            refused = writer.refused
            await writer.emit(bundles(first, first + 3))
            while writer.refused > refused:
                await asyncio.sleep(0.02)
                try:
                    await writer.catch_up()
                    break
                except JournalError:
                    continue

    async def view(journal: RedisJournal, session: str, until: asyncio.Event) -> list[Entry]:
        seen: list[Entry] = []
        while True:
            over = until.is_set()
            try:
                got = await journal.read(session, seen[-1].last if seen else -1, 20)
            except JournalGap:
                raise
            except JournalError:
                got = []
            seen += got
            if not got:
                if over:
                    return seen
                await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with journals(own_redis_server, 2) as [journal, reader]:
            stopped, written = asyncio.Event(), asyncio.Event()
            writers = [Writer(journal, session=f"s{number}") for number in range(5)]
            async with asyncio.TaskGroup() as group:
                views = [group.create_task(view(reader, writer.session, written)) for writer in writers]
                writing = [group.create_task(write(writer, stopped)) for writer in writers]
                for _ in range(3):
                    await asyncio.sleep(0.3)
                    own_redis_server.kill()
                    await asyncio.sleep(0.1)
                    await restart(own_redis_server)
                await asyncio.sleep(0.2)
                stopped.set()
                await asyncio.wait(writing)
                written.set()
            for writer, seen in zip(writers, views, strict=True):
                assert writer.refused > 0
                assert seqs(seen.result()) == list(range(writer.emitted[-1].last + 1))
                assert seen.result() == writer.emitted

    run(scenario())


@pytest.mark.parametrize("seed", range(4))
def test_what_a_lost_machine_took_along_is_said_and_appended_again(own_redis_server: RedisServer, seed: int) -> None:
    """The end of the file is cut off, anywhere: whole appends are missing, and nobody sees a hole or half a bundle."""

    async def scenario() -> None:
        async with journals(own_redis_server, 2) as [journal, other]:
            writer = Writer(journal)
            for each in bundles(0, 60):
                await writer.emit([each])
            size = own_redis_server.log_bytes()
            safe = await journal.last_seq("s")
            for each in bundles(60, 120):
                await writer.emit([each])
            cut = random.Random(seed).randrange(size, own_redis_server.log_bytes())
            own_redis_server.kill()
            own_redis_server.lose_after(cut)
            await restart(own_redis_server)

            last = await other.last_seq("s")
            assert safe <= last < 119
            assert last in {each.last for each in writer.emitted}
            assert await other.read("s", -1, 1000) == [each for each in writer.emitted if each.first <= last]
            # A viewer who has seen what is lost gets nothing twice, and nothing that is not there.
            assert await other.read("s", 119) == []
            assert writer.lease is not None
            with pytest.raises(JournalError, match=rf"lost what followed its event {last} since; open the") as caught:
                await journal.append(writer.lease, [entry(120)])
            assert not isinstance(caught.value, LeaseLost)
            await writer.catch_up()
            await writer.emit([entry(120)])
            assert writer.refused == 0
            assert await other.read("s", -1, 1000) == writer.emitted
            assert await other.read("s", 119) == [entry(120)]
            # After it has opened it again, a hole is its own fault.
            with pytest.raises(UsageError, match="append what is between"):
                await journal.append(writer.lease, [entry(130)])

    run(scenario())


def test_all_is_lost_and_the_writer_has_only_the_end(own_redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journals(own_redis_server, 2) as [journal, other]:
            writer = Writer(journal)
            await writer.emit(bundles(0, 100))
            own_redis_server.kill()
            own_redis_server.forget()
            await restart(own_redis_server)
            assert (await other.first_seq("s"), await other.last_seq("s")) == (0, -1)
            assert writer.lease is not None
            for call in (journal.append(writer.lease, [entry(100)]), journal.renew(writer.lease)):
                with pytest.raises(JournalError, match="has lost all of it since; open the session again") as caught:
                    await call
                assert not isinstance(caught.value, LeaseLost)
            await writer.catch_up(kept=10)
            first = writer.emitted[-10].first
            with pytest.raises(JournalGap) as gap:
                await other.read("s", 5)
            assert gap.value.first_seq == first
            assert await other.read("s", first - 1) == writer.emitted[-10:]

    run(scenario())


def test_a_part_is_lost_and_the_writer_has_only_what_came_later(own_redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journals(own_redis_server, 2) as [journal, other]:
            writer = Writer(journal)
            await writer.emit(bundles(0, 40))
            size = own_redis_server.log_bytes()
            for each in bundles(40, 100):
                await writer.emit([each])
            own_redis_server.kill()
            own_redis_server.lose_after(size)
            await restart(own_redis_server)
            await writer.catch_up(kept=3)
            with pytest.raises(JournalGap) as gap:
                await other.read("s", 39)
            assert gap.value.first_seq == writer.emitted[-3].first
            assert await other.read("s", gap.value.first_seq - 1) == writer.emitted[-3:]

    run(scenario())


@pytest.mark.parametrize("first", ["old", "new"])
def test_a_takeover_that_was_lost_still_counts(own_redis_server: RedisServer, first: str) -> None:
    """Whoever opened the session last is its writer, though Redis has forgotten it; the one before is fenced."""

    async def scenario() -> None:
        async with journals(own_redis_server, 2) as [one, two]:
            old = Writer(one, "ann")
            await old.emit(bundles(0, 10))
            size = own_redis_server.log_bytes()
            await asyncio.sleep(0.55)
            new = Writer(two, "bob")
            new.lease = await two.open("s", "bob")
            own_redis_server.kill()
            own_redis_server.lose_after(size)
            await restart(own_redis_server)
            assert old.lease is not None
            if first == "old":
                # Until the later one shows up, nobody knows of it.
                await one.append(old.lease, [entry(10)])
                await two.append(new.lease, [entry(11)])
            else:
                await two.append(new.lease, [entry(10)])
            with pytest.raises(LeaseLost, match="bob writes it now"):
                await one.append(old.lease, [entry(12)])
            with pytest.raises(LeaseLost):
                await one.renew(old.lease)

    run(scenario())


def test_a_session_whose_beginning_was_lost_is_not_begun_in_its_middle(own_redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journals(own_redis_server) as [journal]:
            writer = Writer(journal)
            await writer.emit([])
            size = own_redis_server.log_bytes()
            await writer.emit([entry(0), entry(1)])
            own_redis_server.kill()
            own_redis_server.lose_after(size)
            await restart(own_redis_server)
            assert writer.lease is not None
            with pytest.raises(JournalError, match="lost what followed its event -1 since"):
                await journal.append(writer.lease, [entry(2)])
            # From the beginning it may go on at once.
            await journal.append(writer.lease, [entry(0), entry(1), entry(2)])
            assert await journal.last_seq("s") == 2

    run(scenario())


def test_a_frozen_redis_is_given_its_time_and_no_more(own_redis_server: RedisServer) -> None:
    """What it was told meanwhile it does when it thaws; the writer appends the same again, and nothing is doubled."""

    async def scenario() -> None:
        async with journals(own_redis_server) as [journal]:
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(0)])
            os.kill(own_redis_server.pid, signal.SIGSTOP)
            try:
                calls = [journal.append(lease, [entry(1)]), journal.read("s", -1), journal.last_seq("s")]
                answers = await asyncio.gather(*calls, return_exceptions=True)
                for answer in answers:
                    assert isinstance(answer, JournalError)
                    assert f"did not answer within {ANSWER:g} s" in str(answer)
            finally:
                os.kill(own_redis_server.pid, signal.SIGCONT)
            await journal.append(lease, [entry(1), entry(2)])
            assert await journal.read("s", -1) == [entry(0), entry(1), entry(2)]

    run(scenario())


def test_a_connection_that_was_cut_on_the_way_is_made_again(own_redis_server: RedisServer) -> None:
    """As a firewall does with one that was idle: it is found out by the first use, and that is not lost."""

    async def scenario() -> None:
        cut = 0
        made: list[asyncio.StreamWriter] = []

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, cuts: bool) -> None:
            nonlocal cut
            while data := await source.read(65_536):
                if cuts and cut > 0:
                    cut -= 1
                    break
                target.write(data)
            for each in (target, made[-1]):
                each.transport.abort()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            made.append(writer)
            source, target = await asyncio.open_connection("127.0.0.1", own_redis_server.port)
            await asyncio.gather(pump(reader, target, True), pump(source, writer, False), return_exceptions=True)

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
            journal = RedisJournal(f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(0)])
            cut = 1
            await journal.append(lease, [entry(1)])
            assert len(made) == 2
            cut = 2
            with pytest.raises(JournalError, match="cannot be reached"):
                await journal.append(lease, [entry(2)])
            await journal.append(lease, [entry(2)])
            assert await journal.last_seq("s") == 2
            await journal.aclose()

    run(scenario())
