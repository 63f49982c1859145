"""What a session keeps: a journal that is slow, and one that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from multimodal.errors import JournalError
from multimodal.journal import Entry, Lease, MemoryJournal
from multimodal.transport.fold import Fold
from multimodal.transport.keeper import Keeper
from tests.support import virtual
from tests.transport.events import text


class SlowJournal(MemoryJournal):
    """Takes its time over every append, and keeps it when the time is over; `away` = it fails instead."""

    def __init__(self, seconds: float) -> None:
        super().__init__(clock=asyncio.get_running_loop().time)
        self.seconds, self.away, self.opened = seconds, False, 0

    async def open(self, session: str, writer: str) -> Lease:
        self.opened += 1
        return await super().open(session, writer)

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        await asyncio.sleep(self.seconds)
        if self.away:
            raise JournalError("nobody answers")
        await super().append(lease, entries)


@pytest.mark.parametrize("seconds", [0.001, 0.3, 0.7, 1.9])
def test_a_slow_journal_keeps_its_writer(seconds: float) -> None:
    async def scenario() -> None:
        journal = SlowJournal(seconds)
        keeper = Keeper(journal, "s", "we", Fold(), lambda: 0)
        await keeper.open()
        tending = asyncio.ensure_future(keeper.tend())
        for seq in range(20):
            await asyncio.sleep(0.13)
            await keeper.keep((text(seq),))
        await asyncio.sleep(5.0)
        assert not tending.done()
        assert await journal.last_seq("s") == 19
        assert keeper.unsaved == 0
        assert journal.opened == 1
        tending.cancel()

    virtual(scenario())


def test_what_a_journal_missed_is_written_when_it_is_back() -> None:
    async def scenario() -> None:
        journal = SlowJournal(0.1)
        keeper = Keeper(journal, "s", "we", Fold(), lambda: 0)
        await keeper.open()
        tending = asyncio.ensure_future(keeper.tend())
        for seq in range(30):
            journal.away = 5 <= seq < 15
            await keeper.keep((text(seq),))
            await asyncio.sleep(0.2)
        await asyncio.sleep(2.0)
        assert not tending.done()
        entries = await journal.read("s", -1)
        assert [entry.first for entry in entries] == list(range(30))
        assert keeper.unsaved == 0
        tending.cancel()

    virtual(scenario())
