"""One running stream and those who watch it: it outlives every connection, and loses none of them an event.

The stream is pulled here, once. What it emits goes into the journal first and to the viewers then, so that nobody has
seen what a successor of this process would not know. Each connection has a scheduler and a cursor of its own; one that
was away, or is slow, catches up from the journal, and delays nobody.

    K1  A bundle is in the journal before it is offered to any connection (`transport.keeper`).
    K2  A connection gets every event after its cursor, in order, once. What is no longer kept is told by a gap and a
        snapshot. A first hello to a stream that runs gets a snapshot first.
    K3  A seat has one connection: at the hello of a newer one, the older is told and closed.
    K4  The stream waits only when every connection is congested; it pauses while none is alive, and when whoever may
        turn the session says so.
    K5  The session ends when the last seat has left it, when nobody was connected for `keep` seconds, or when it is
        told to. Then the stream is closed, and the journal forgets it. A seat that nobody came back to for so long is
        given up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, cast

import msgspec

from multimodal import wire
from multimodal.errors import LeaseHeld, LeaseLost, PipeError, UsageError
from multimodal.events import AnyEvent
from multimodal.journal import Journal, MemoryJournal
from multimodal.loops import loop_here
from multimodal.transport.base import GoesOn, Link, Source
from multimodal.transport.connection import Connection, Limits, Over
from multimodal.transport.fold import Fold
from multimodal.transport.keeper import Keeper
from multimodal.transport.scheduler import PEER_QUIET
from multimodal.transport.turning import Turning, turn

__all__ = ["KEEP", "PENDING", "LiveSession", "Seat"]

log = logging.getLogger(__name__)

_FIRST = 10.0
"""Seconds that a new session is kept for its first connection at least: the answer to an offer is being made."""
KEEP = 60.0
"""Seconds for which a session without any connection is kept: a tunnel, a lift, a phone that sleeps for a moment."""
PENDING = 4
"""Connections of one seat that have not said hello: a page tries two roads at once, and may have given two up already.
Each holds sockets until its own limit, and a page, or somebody with its token, could ask for many."""
_FAREWELL = 1.0
"""Seconds that the viewers have for hearing why their session ends, before their links are closed."""

Recorder = Callable[[dict[str, Any]], None]


class Seat:
    """A viewer's place in a session; it outlives the viewer's connections.

    Args:
        name: its id.
        turns: it may interrupt, ask, pause, skip and rewind.
        record: takes the lines of this viewer's recording.
    """

    def __init__(self, name: str = "", *, turns: bool = True, record: Recorder | None = None) -> None:
        self.name = name or uuid.uuid4().hex
        self.turns = turns
        self.record = record or _discard
        self.connection: Connection | None = None
        self.connections = 0
        """How many connections it had so far: the number of the present one."""
        self.acked_seq = self.frame = -1
        """The last event that it has acknowledged, and the last frame of which it sent a receipt."""
        self.greeted = self.left = False
        self.on_left: Callable[[], object] = _nothing
        """Called once the viewer has left for good."""
        self.links = 0
        """Its connections that are open, from before their hello to their end."""


class LiveSession:
    """A stream, its journal, its seats and their connections (K1-K5 above).

    Args:
        stream: entered at the first hello, closed at the end; nobody else may iterate it.
        name: of the session in the journal.
        journal: None = one in memory, of its own.
        writer: who writes it: another name than that of the process before.
        limits: named waits and bounds.
        keep: seconds without any connection after which it ends; 0 = with its last connection.
        open_ended: True = it does not end when its last seat leaves, but only by `keep` (a shared session).
        fold: the session so far, where it goes on from an earlier process; its `seq` is the last event that there was.
    """

    def __init__(
        self,
        stream: Source,
        *,
        name: str = "",
        journal: Journal | None = None,
        writer: str = "",
        limits: Limits | None = None,
        keep: float = KEEP,
        open_ended: bool = False,
        fold: Fold | None = None,
    ) -> None:
        self.stream = stream
        self.name = name or uuid.uuid4().hex
        self.limits = limits or Limits()
        self.failure: PipeError | None = None
        self.reason = ""
        self.seats: dict[str, Seat] = {}
        self._own_journal: Journal | None = MemoryJournal() if journal is None else None
        used = self._own_journal if journal is None else journal
        assert used is not None
        self.kept = Keeper(
            used,
            self.name,
            writer or uuid.uuid4().hex,
            fold or Fold(),
            lambda: stream.offset if isinstance(stream, GoesOn) else None,
            marks=journal is not None,
        )
        self.revived = fold is not None
        """It goes on from an earlier process: its seats were given there."""
        self._before = fold.last.epoch if fold is not None and fold.last is not None else -1
        self.gone: set[str] = set()
        """Seats of a revived session that were given up."""
        self._keep, self._open_ended = keep, open_ended
        self._connections: list[Connection] = []
        self._away: dict[str, float] = {}
        """Seats without any connection, the longest away first, and since when."""
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[Connection] = []
        self._begun = asyncio.Event()
        self._changed, self._news = asyncio.Event(), asyncio.Event()
        self._over: asyncio.Future[Exception]
        self._zero = math.inf
        self._turn_paused = self._paused = self._seated = False
        self._ended = False
        self._alone_since: float | None = None
        self._patience = max(keep, _FIRST)
        self._witness: Seat | None = None

    @property
    def viewers(self) -> int:
        """Its seats; 1 while the first is being taken."""
        return len(self.seats) or int(not self._seated)

    # ---- seats and connections -----------------------------------------------------------------------------------

    def sit(self, seat: Seat) -> Seat:
        """Take a seat."""
        self._seated = True
        self.seats[seat.name] = seat
        return seat

    def connect(
        self,
        seat: Seat,
        link: Link,
        *,
        admit: Callable[[wire.Hello], None] | None = None,
        hello: wire.Hello | None = None,
        seat_path: str = "",
    ) -> Connection:
        """Serve a link as a seat's connection, from its hello on; it is closed at the end.

        Of those of one seat that have not said hello the newest `PENDING` are kept.

        Args:
            seat: of this session.
            link: the server's end of the road.
            admit: called with the hello; raises `Over` to send the viewer away.
            hello: the first message, where it came by another way.
            seat_path: told to the viewer, on roads whose answer had no `Location`.

        Raises:
            UsageError: the session is over.
        """
        if self.reason:
            raise UsageError("this session is over; begin a new one")
        connection = Connection(self, seat, link, admit=admit, hello=hello, seat_path=seat_path)
        self._connections.append(connection)
        self._patience = self._keep
        seat.links += 1
        self._away.pop(seat.name, None)
        if self._tasks is None:
            self._early.append(connection)
        else:
            self._tasks.create_task(self._serve(connection))
        waiting = [each for each in self._connections if each.seat is seat and not each.ready]
        for older in waiting[:-PENDING]:
            older.stop("newer connections of this seat came", farewell=False)
        self._look()
        return connection

    async def leave(self, seat: Seat, reason: str) -> None:
        """Give up a seat and close its connections."""
        # Those that have not said hello yet included: nobody waits for them any more.
        connections = [connection for connection in self._connections if connection.seat is seat]
        self._left(seat)
        for connection in connections:
            connection.stop(reason, farewell=True)
        for connection in connections:
            await connection.closed.wait()

    def farewell(self, reason: str) -> None:
        """Tell every viewer, in this very call, that the session is about to be cancelled; it may not be heard."""
        self.reason = self.reason or reason
        for connection in self._connections:
            connection.farewell(reason)

    def greeted(self, connection: Connection, hello: wire.Hello) -> None:
        """A connection's hello came: from now on it is its seat's (K3)."""
        seat = connection.seat
        older, seat.connection = seat.connection, connection
        seat.connections += 1
        if older is not None:
            older.stop("taken over by another connection", farewell=True)
        if self._witness is None or self._witness.left:
            self._witness = seat
        if not seat.greeted:
            seat.greeted = True
            # Before the stream asks for its first pictures: they come as suits the viewer, too (I10).
            self.stream.ack(hello)
        self._begun.set()
        self._look()

    def closed(self, connection: Connection) -> None:
        """A connection has ended; its seat stays, unless the viewer itself left."""
        seat = connection.seat
        if connection in self._connections:
            self._connections.remove(connection)
            seat.links -= 1
        if seat.connection is connection:
            seat.connection = None
        if connection.left or not (seat.greeted or seat.links):
            # One that never said hello has nothing to come back for.
            self._left(seat)
        elif not seat.links and seat.name in self.seats:
            self._away[seat.name] = self.now()
        self._look()

    def _left(self, seat: Seat) -> None:
        if self.seats.pop(seat.name, None) is not None and seat.greeted and not self._ended:
            self.stream.ack(wire.Bye())
        if not seat.left:
            seat.left = True
            if self.revived:
                self.gone.add(seat.name)
            seat.on_left()
        self._away.pop(seat.name, None)
        self._look()

    # ---- the run -------------------------------------------------------------------------------------------------

    async def run(self) -> str:
        """Serve to the end (K5); returns why it ended. Cancelling closes the stream and every connection.

        A failed pipe is in `failure`, and its event has been sent. A fault of ours is raised, once all is closed.
        """
        self._over = asyncio.get_running_loop().create_future()
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                self._tasks = group
                await self._serve_all(group)
            over = self._over.result()
            if not isinstance(over, Over):
                raise over.with_traceback(over.__traceback__)
        finally:
            if not self._goes_on:
                for seat in tuple(self.seats.values()):
                    self._left(seat)
            try:
                await self.stream.aclose()
            finally:
                if self._own_journal is not None:
                    await self._own_journal.aclose()
                elif self._goes_on:
                    await self.kept.release()
                else:
                    await self.kept.forget()
        return self.reason

    async def _open(self) -> None:
        try:
            await self.kept.open()
        except LeaseHeld as error:
            self._end(Over(f"{_TAKEN}: {error}", True))

    async def _serve_all(self, group: asyncio.TaskGroup) -> None:
        for connection in self._early:
            group.create_task(self._serve(connection))
        jobs = [group.create_task(self._guarded(self._watch()))]
        if self._own_journal is None:
            jobs.append(group.create_task(self._guarded(self.kept.tend())))
        begun = asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait((begun, self._over), return_when=asyncio.FIRST_COMPLETED)
            if self._over.done():
                return
            async with self.stream:
                try:
                    jobs.append(group.create_task(self._guarded(self._emit())))
                    await asyncio.wait((self._over,))
                finally:
                    # Before the stream, whose pipes may take their time to stop: the viewers learn at once.
                    await self._hang_up()
                    for job in jobs:
                        job.cancel()
        finally:
            begun.cancel()
            for job in jobs:
                job.cancel()
            await self._hang_up()

    async def _guarded(self, job: Coroutine[object, object, None]) -> None:
        try:
            await job
        except LeaseLost as error:
            self._end(Over(f"{_TAKEN}: {error}", True))
        except Exception as error:
            self._end(error)

    def _end(self, over: Exception) -> None:
        """The session is over; `run` sees to the rest."""
        self.reason = self.reason or (str(over) if isinstance(over, Over) else "the server failed")
        if not self._over.done():
            self._over.set_result(over)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Exception as error:
            if not self._keep:
                self._end(error)
            else:
                log.exception("a viewer's connection failed")

    async def _hang_up(self) -> None:
        """Close every connection; where the session has come to its end by itself, the viewers hear why."""
        over = self._over.result() if self._over.done() else None
        told = [] if over is None or (isinstance(over, Over) and not over.farewell) else list(self._connections)
        for connection in told:
            connection.stop(self.reason, farewell=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                for connection in told:
                    await connection.closed.wait()
        for connection in tuple(self._connections):
            await connection.hang_up(self.reason)

    async def _emit(self) -> None:
        # A generator that a cancelled task leaves behind would be closed by the loop, some time later.
        bundles = cast(AsyncGenerator[tuple[AnyEvent, ...], None], self.stream.bundles())
        try:
            async with aclosing(bundles):
                async for bundle in bundles:
                    await self.kept.keep(bundle)
                    for event in bundle:
                        # The least delayed event tells best when the stream's own clock began.
                        self._zero = min(self._zero, self.now() - event.pts_ms / 1000)
                        line = {"vantage": "emitted", "event": msgspec.to_builtins(event)}
                        for seat in tuple(self.seats.values()):
                            seat.record(line)
                    for connection in tuple(self._connections):
                        connection.offer(bundle)
                    await self._relief()
        except PipeError as error:
            # The viewers were told by an `error` event and the end; here it is for whoever runs the session.
            self.failure = error
            log.warning("stream ended early: %s", error)
        self._ended = True
        for connection in tuple(self._connections):
            connection.wake()

    async def _relief(self) -> None:
        """Until one connection takes more (K4); with none, nothing waits: the pause comes in its time."""
        while self._connections and all(each.congested for each in self._connections):
            self._changed.clear()
            await self._changed.wait()

    async def _watch(self) -> None:
        """The pauses and the end of the session."""
        while True:
            now = self.now()
            self._check_alone(now)
            self._check_away(now)
            self.apply_pause()
            due: list[float] = []
            if self._alone_since is not None:
                due += [at for at in (self._alone_since + PEER_QUIET, self._alone_since + self._patience) if at > now]
            due += [since + self._keep for since in tuple(self._away.values())[:1]]
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(due, default=None)):
                    await self._news.wait()

    def _check_alone(self, now: float) -> None:
        if any(connection.ready for connection in self._connections):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
        if self._connections:
            return
        if self._seated and not self.seats and not self._open_ended:
            raise Over("every viewer has left", False)
        # The same sum as the timer's: a difference may round to less, and no timer would come again.
        if now >= self._alone_since + self._patience:
            raise Over(f"no viewer came back within {self._keep:g} s", False)

    def _check_away(self, now: float) -> None:
        """Seats whose viewers did not come back: they would pile up in a session that many look into (K5)."""
        while self._away:
            name, since = next(iter(self._away.items()))
            if now < since + self._keep:
                return
            self._left(self.seats[name])

    @property
    def _goes_on(self) -> bool:
        """It was not ended by its own rules, but because this process stops: viewers may come back elsewhere."""
        return not self.reason or self.reason.startswith(_KEPT)

    # ---- what connections ask ------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """The stream has ended: nothing follows `last_seq`."""
        return self._ended

    def now(self) -> float:
        """The clock of the session, seconds."""
        return loop_here("a session").time()

    def ms(self, now: float) -> float:
        """Our clock in `pts_ms`, the stream's own milliseconds; infinite before its first event."""
        return round((now - self._zero) * 1000, 3) if self._zero < math.inf else -math.inf

    def relieved(self) -> None:
        """A connection takes more again."""
        self._changed.set()

    def _look(self) -> None:
        """Who is here has changed: see who waits for it."""
        self._changed.set()
        self._news.set()

    def painted(self, seat: Seat, message: wire.Painted) -> None:
        """A viewer's receipt. The stream hears those of one viewer: receipts are on a viewer's own clock, and what two
        have seen is not what one has seen."""
        if seat is self._witness:
            self.stream.ack(message)

    def set_paused(self, paused: bool) -> None:
        """Whoever may turn the session stops the text, or lets it go on."""
        self._turn_paused = paused
        self.apply_pause()

    def apply_pause(self) -> None:
        """Stop pulling text, or go on (K4)."""
        alone = self._alone_since is not None and self.now() >= self._alone_since + PEER_QUIET
        here = [each for each in self._connections if each.ready]
        quiet = bool(here) and all(each.quiet for each in here)
        paused = self._turn_paused or alone or quiet
        if paused != self._paused:
            self._paused = paused
            (self.stream.pause if paused else self.stream.resume)()

    def turn(self, message: Turning) -> bool:
        """A seat that may turn the session leaves its turn, or moves in it (R9); False = nothing has changed."""
        last = self.kept.fold.last
        if self.revived and last is not None and (message.epoch, last.epoch) == (self._before, self._before + 1):
            # Said before the viewer knew that the epoch rose when the server was killed: the turn is the same.
            message = msgspec.structs.replace(message, epoch=last.epoch)
        acted = turn(self.stream, message)
        if acted:
            # Whoever asks wants to hear the answer.
            self.set_paused(False)
        return acted


_TAKEN = "another server has taken over"
_KEPT = ("the server is stopping", _TAKEN)
"""Reasons after which a session can be resumed elsewhere."""


def _nothing() -> None:
    return None


def _discard(record: dict[str, Any]) -> None:
    return None
