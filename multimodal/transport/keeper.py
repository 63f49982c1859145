"""What a live session keeps of its stream: the journal, whose writer it is, and the last events beside it.

K1  A bundle is in the journal before it is offered to any connection. While the journal cannot be written it goes
    out all the same and is written later, from what is kept here; how many events wait is counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from multimodal import wire
from multimodal.errors import JournalError, JournalGap, LeaseHeld, LeaseLost, RemoteProtocolError
from multimodal.events import AnyEvent, Interrupted
from multimodal.journal import KEEP_SECONDS, Entry, Journal, Lease, Mark
from multimodal.transport.fold import Fold

__all__ = ["RECENT_EVENTS", "Keeper"]

log = logging.getLogger(__name__)

RECENT_EVENTS = 4096
"""Events kept here beside the journal: three minutes of narration, which also bridges a journal that is away."""
_EVERY = 0.5
"""Seconds between two tries to write what could not be written."""
_RENEW = 1.0
_MARK_EVERY = 256
"""Events between two snapshots in the journal: so many a successor folds at most before it can go on."""
_MARK_SECONDS = KEEP_SECONDS / 4

Bundle = tuple[AnyEvent, ...]


class Keeper:
    """Writes one session (K1), and reads what its viewers missed.

    Args:
        journal: where.
        session: the session's name in it.
        writer: who writes it: another name than that of the process before.
        fold: the session so far; it is fed here.
        offset: gives `MultiModalStream.offset`, asked in the instant of an event.
        marks: write snapshots for a successor; False = the journal ends with this process, so that there is none.
    """

    def __init__(
        self,
        journal: Journal,
        session: str,
        writer: str,
        fold: Fold,
        offset: Callable[[], int | None],
        *,
        marks: bool = True,
    ) -> None:
        self.fold = fold
        self._journal, self._session, self._writer, self._offset = journal, session, writer, offset
        self._lease: Lease | None = None
        self._recent: deque[tuple[Entry, Bundle]] = deque()
        self._recent_events = 0
        self._saved = self._marked = fold.seq
        self._writing, self._marks = False, marks

    @property
    def last_seq(self) -> int:
        """The last event that may be offered."""
        return self._recent[-1][0].last if self._recent else self.fold.seq

    @property
    def unsaved(self) -> int:
        """Events that went out and are not in the journal yet."""
        return self.last_seq - self._saved

    async def open(self) -> None:
        """Become the session's writer. Where the journal is away, that is tried again later.

        Raises:
            LeaseHeld: another process writes it.
        """
        try:
            self._lease = await self._journal.open(self._session, self._writer)
        except LeaseHeld:
            raise
        except JournalError as error:
            log.warning("the journal cannot be opened; viewers come in, it is tried again: %s", error)

    async def keep(self, bundle: Bundle) -> None:
        """What was emitted next.

        Raises:
            LeaseLost: another process writes the session: this one must stop.
        """
        entry = Entry.of(bundle)
        waits = self.unsaved > 0 or self._lease is None
        self.fold.feed(bundle)
        self._recent.append((entry, bundle))
        self._recent_events += len(bundle)
        while self._recent_events > RECENT_EVENTS and len(self._recent) > 1:
            self._recent_events -= len(self._recent.popleft()[1])
        if waits or self._lease is None:
            return
        state = None
        moved = any(isinstance(each, Interrupted) for each in bundle)
        if self._marks and (moved or self.fold.seq - self._marked >= _MARK_EVERY):
            state = self._state()
        self._writing = True
        try:
            await self._journal.append(self._lease, (entry,))
            self._saved = entry.last
            if state is not None:
                await self._mark(self._lease, state)
        except LeaseLost:
            raise
        except JournalError as error:
            log.warning("the journal cannot be written; viewers go on, it is tried again: %s", error)
        finally:
            self._writing = False

    async def tend(self) -> None:
        """For as long as the session lives: hold the lease, and write what could not be written.

        Raises:
            LeaseLost: another process writes the session: this one must stop.
        """
        clock = asyncio.get_running_loop().time
        renew, mark = 0.0, clock() + _MARK_SECONDS
        while True:
            await asyncio.sleep(_EVERY)
            if self._writing:
                # What is under way has not failed, and would be refused under the lease that is opened for a new try.
                continue
            try:
                if self.unsaved:
                    await self._catch_up()
                elif self._lease is not None and clock() >= renew:
                    renew = clock() + _RENEW
                    await self._journal.renew(self._lease)
                    if self._marks and clock() >= mark and self.fold.seq > self._marked:
                        # A journal forgets by time too, and a successor needs the snapshot of what it forgot.
                        mark = clock() + _MARK_SECONDS
                        await self._mark(self._lease, self._state())
            except (LeaseLost, LeaseHeld) as error:
                raise LeaseLost(str(error)) from error
            except JournalError as error:
                log.debug("the journal is still away: %s", error)

    async def _catch_up(self) -> None:
        """Write what waits. What the journal lost meanwhile, with its own memory, is written again, as far as it is
        still here; of what is not, the journal then says that it is missing (J3)."""
        last = await self._journal.last_seq(self._session)
        self._lease = await self._journal.open(self._session, self._writer)
        if self._recent and last < self._recent[0][0].first - 1:
            log.error("the journal has lost events up to %d, which nobody keeps any more", self._recent[0][0].first - 1)
            await self._journal.drop(self._session)
            self._lease, last = await self._journal.open(self._session, self._writer), -1
        state = self._state()
        waiting = [entry for entry, _ in self._recent if entry.first > last]
        if waiting:
            await self._journal.append(self._lease, waiting)
            self._saved = max(self._saved, waiting[-1].last)
        await self._mark(self._lease, state)

    def _state(self) -> tuple[int, bytes]:
        """What a successor needs, of this very instant: a journal is waited for, and the stream goes on meanwhile."""
        return self.fold.seq, self.fold.state(self._offset()).encode()

    async def _mark(self, lease: Lease, state: tuple[int, bytes]) -> None:
        await self._journal.mark(lease, Mark(*state))
        self._marked = state[0]

    def recent(self, after: int) -> list[Bundle] | None:
        """The bundles after an event, from what is kept here; None = it begins later."""
        first = self._recent[0][0].first if self._recent else self.fold.seq + 1
        if after + 1 < first:
            return None
        at = len(self._recent)
        while at and self._recent[at - 1][0].last > after:
            at -= 1
        return [self._recent[place][1] for place in range(at, len(self._recent))]

    async def read(self, after: int) -> list[Bundle] | None:
        """As `recent`, from the journal; None = it is no longer kept there either."""
        try:
            entries = await self._journal.read(self._session, after)
            return [_decoded(entry) for entry in entries] or None
        except JournalGap:
            return None
        except (JournalError, RemoteProtocolError) as error:
            log.warning("the journal cannot be read, a viewer gets a snapshot instead: %s", error)
            return None

    async def release(self) -> None:
        """This process stops: another may write the session at once, and need not wait for the lease to end."""
        if self._lease is not None:
            with suppress(JournalError):
                await self._journal.release(self._lease)

    async def forget(self) -> None:
        """Nobody can come back: the journal need not keep it."""
        with suppress(JournalError):
            await self._journal.drop(self._session)


def _decoded(entry: Entry) -> Bundle:
    return tuple(event for data in entry.events if (event := wire.decode_event(data)) is not None)
