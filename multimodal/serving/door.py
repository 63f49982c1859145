"""Who is let in where: the sessions of an application, their seats, and the way back to them. It knows no road.

D1  A token names its session, or none: then the tour is told to this viewer alone, unless the tour is shared.
D2  The same token, while its seat is taken, is the same viewer: the newer connection has the seat (K3).
D3  A seat's id is signed; it says which session it belongs to, so that a server which was started again, with the
    same secret and a journal that outlived it, finds it. An id that is not ours, one whose session has ended, and
    one that belongs to another tour are answered alike.
D4  Whoever comes back to a seat shows the token that opened it. A token whose seat was given up opens nothing more.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from multimodal.errors import JournalError, LeaseHeld, UsageError
from multimodal.journal import LEASE_SECONDS, Journal
from multimodal.serving.auth import ANY_TOUR, Grant, SeatPass, Seats, no_such_seat
from multimodal.serving.sessions import Sessions
from multimodal.serving.signalling import Problem
from multimodal.serving.spent import token_used
from multimodal.serving.turnstile import Turnstile
from multimodal.transport.base import Source
from multimodal.transport.connection import Limits
from multimodal.transport.fold import Fold, State
from multimodal.transport.live import KEEP, LiveSession, Seat
from multimodal.transport.rest import Remainder
from multimodal.values import Place

__all__ = ["Chair", "Door", "MakeStream", "Recorder", "ResumeStream"]

log = logging.getLogger(__name__)

MakeStream = Callable[[str], Source | Awaitable[Source]]
"""Gives the stream of a tour, by the tour's name: a `MultiModalStream`, or whatever else a session can serve."""
ResumeStream = Callable[[str, Place], Source | Awaitable[Source]]
"""Gives the stream that goes on with a tour where a killed server left it, as `MultiModalStream(resume=place)` does."""
Recorder = Callable[[Any], Callable[[dict[str, Any]], None]]
"""Called with the stream of every new seat; gives what takes the lines of that viewer's recording."""


@dataclass(frozen=True)
class Chair:
    """A seat that was given: its session, itself, and what its id says."""

    live: LiveSession
    seat: Seat
    ticket: SeatPass
    grant: Grant


class Door:
    """Lets viewers in, and back in (D1-D4 above).

    Args:
        make_stream: the stream of a tour.
        sessions: where they run.
        turnstile: judges tokens and keeps the quotas; None = no tokens, no quotas.
        seats: signs seats.
        journal: None = one in memory for each session.
        resume_stream: None = a tour whose server was killed is cut short, in as many words, after what it had told.
        shared: tours that all viewers watch together.
        keep: seconds for which a session without any connection is kept.
        limits: named waits of a connection.
        recorder: see `Recorder`.
    """

    def __init__(
        self,
        make_stream: MakeStream,
        sessions: Sessions,
        *,
        turnstile: Turnstile | None = None,
        seats: Seats,
        journal: Journal | None = None,
        resume_stream: ResumeStream | None = None,
        shared: Collection[str] = (),
        keep: float = KEEP,
        limits: Limits | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._make_stream, self._resume_stream = make_stream, resume_stream
        self.sessions, self.seats, self.turnstile = sessions, seats, turnstile or Turnstile()
        self._journal, self._shared, self._keep = journal, shared, keep
        self._limits, self._recorder = limits, recorder
        # A name that no other process has, so that this one is told from the one before it.
        self._writer = secrets.token_urlsafe(8)
        self._live: dict[str, LiveSession] = {}
        self._making: dict[str, asyncio.Future[LiveSession]] = {}
        self._taken: dict[str, Chair] = {}
        self._about: dict[str, tuple[str, str]] = {}
        self._places: dict[tuple[str, str], Callable[[], None]] = {}

    async def enter(self, tour: str, token: str, address: str = "") -> Chair:
        """A new viewer, or one that comes again with its token (D1, D2). Cancelling gives up what was begun.

        Args:
            tour: the tour.
            token: as it came.
            address: who asks (`guard.address_of`); "" = not counted.

        Raises:
            Problem: 401, 403, 404, 429, 500, 503.
        """
        grant = self.turnstile.admit(tour, token, address)
        async with self.turnstile.alone(grant):
            chair = self._taken.get(grant.key)
            if grant.key and chair is not None:
                return chair
            name = self._session_name(tour, grant)
            ticket = self.seats.issue(grant, tour=tour, session=name, now=time.time())
            elsewhere = await self.turnstile.spent.claim(grant, ticket.id)
            if not elsewhere:
                try:
                    async with self._place(address):
                        live = await self._once(name, lambda: self._begin(name, ticket))
                        return self._sit(live, ticket, grant, address)
                except BaseException:
                    self.turnstile.spent.release(grant)
                    raise
        try:
            return await self._find(tour, elsewhere, token, address)
        except Problem as problem:
            if problem.status != 404:
                raise
            # Its seat went with the server that had it.
            raise token_used() from None

    async def come_back(self, tour: str, seat_id: str, token: str, address: str = "") -> Chair:
        """A viewer that connects to its seat (D3, D4). Arguments as for `enter`.

        Raises:
            Problem: 401, 403, 404, 429, 503.
        """
        chair = await self._find(tour, seat_id, token, address)
        self.turnstile.count_return(chair.grant, chair.ticket)
        return chair

    async def at(self, tour: str, seat_id: str, token: str) -> Chair:
        """A viewer that says or fetches something at its seat (D3, D4), and does not connect.

        Raises:
            Problem: 401, 403, 404, 503.
        """
        return await self._find(tour, seat_id, token, "")

    async def leave(self, tour: str, seat_id: str, token: str) -> None:
        """Give up a seat; with its last one, a session that is not shared ends.

        Raises:
            Problem: 401, 403, 404, 503.
        """
        chair = await self.at(tour, seat_id, token)
        await chair.live.leave(chair.seat, "the viewer left")
        # Also where nobody ever said hello: who asked for it will not come again with this token.
        self.turnstile.spent.close(chair.grant)

    async def _find(self, tour: str, seat_id: str, token: str, address: str) -> Chair:
        owner = self.turnstile.owner(tour, token)
        ticket = self.seats.read(seat_id, tour=tour, now=time.time())
        grant = self.turnstile.same(owner, ticket)
        live = self._live.get(ticket.session)
        seat = None if live is None else live.seats.get(ticket.viewer)
        if live is not None and seat is not None:
            return Chair(live, seat, ticket, grant)
        if await self.turnstile.spent.is_spent(grant):
            raise no_such_seat()
        live = live or await self._once(ticket.session, lambda: self._revive(ticket))
        seat = live.seats.get(ticket.viewer)
        if seat is not None:
            return Chair(live, seat, ticket, grant)
        if not live.revived or ticket.viewer in live.gone:
            raise no_such_seat()
        # Its seats are not known here, but their ids are.
        async with self._place(address):
            return self._sit(live, ticket, grant, address)

    @asynccontextmanager
    async def _place(self, address: str) -> AsyncIterator[None]:
        """Room for one viewer more, held while it is let in."""
        if not self.sessions.reserve():
            raise Problem(
                503,
                "too_many_sessions",
                f"{self.sessions.limit} viewers are here already",
                "try again in a few seconds",
                {"Retry-After": "5"},
            )
        try:
            self.turnstile.sit(address)
            try:
                yield
            except BaseException:
                self.turnstile.stand(address)
                raise
        finally:
            self.sessions.release()

    # ---- operators -----------------------------------------------------------------------------------------------

    def listed(self, tour: str, token: str) -> list[dict[str, object]]:
        """The sessions of a tour, for its operator; of all tours, where the tour is ``*``.

        Raises:
            Problem: 401, 403.
        """
        self.turnstile.operator(tour, token, "list")
        return [
            {
                "session": name,
                "tour": about[0],
                "name": about[1],
                "seats": len(live.seats),
                "connected": sum(seat.connection is not None for seat in live.seats.values()),
                "last_seq": live.kept.last_seq,
            }
            for name, live in self._live.items()
            if (about := self._about.get(name, ("", "")))[0] == tour or tour == ANY_TOUR
        ]

    async def end(self, tour: str, session: str, token: str) -> None:
        """End a session, for the operator of its tour.

        Raises:
            Problem: 401, 403, 404.
        """
        self.turnstile.operator(tour, token, "end")
        known = self._about.get(session, ("", ""))[0]
        if not known or (known != tour and tour != ANY_TOUR) or not await self.sessions.end(session):
            raise Problem(404, "no_such_session", "this session has ended, or never was", "list those that there are")

    # ---- sessions ------------------------------------------------------------------------------------------------

    def _session_name(self, tour: str, grant: Grant) -> str:
        if not grant.session and tour not in self._shared:
            return secrets.token_urlsafe(12)
        shared = f"{len(tour)} {tour} {grant.session}".encode(errors="surrogatepass")
        base, number = _SHARED + hashlib.sha256(shared).hexdigest()[:32], 0
        # Whoever comes after the end begins another telling; those who saw it have it until they leave.
        while (live := self._live.get(f"{base}.{number}")) is not None and (live.ended or live.reason):
            number += 1
        return f"{base}.{number}"

    async def _once(self, name: str, make: Callable[[], Awaitable[LiveSession]]) -> LiveSession:
        """The session of that name; those who come while it is made wait for it."""
        live = self._live.get(name)
        if live is not None:
            return live
        making = self._making.get(name)
        if making is None:
            making = self._making[name] = asyncio.ensure_future(make())
            making.add_done_callback(lambda _: self._making.pop(name, None))
        # One who gives up must not take it from those who wait with him.
        return await asyncio.shield(making)

    async def _begin(self, name: str, ticket: SeatPass) -> LiveSession:
        if self._journal is not None and self._open_ended(name) and await _left_behind(self._journal, name):
            return await self._revive(ticket)
        stream = await self.stream(ticket.tour)
        return self._start(name, stream, open_ended=self._open_ended(name))

    def _start(self, name: str, stream: Source, *, open_ended: bool, fold: Fold | None = None) -> LiveSession:
        live = LiveSession(
            stream,
            name=name,
            journal=self._journal,
            writer=self._writer,
            limits=self._limits,
            keep=self._keep,
            open_ended=open_ended,
            fold=fold,
        )
        self._live[name] = live
        self.sessions.start(name, live, lambda: self._forget(name, live))
        return live

    def _forget(self, name: str, live: LiveSession) -> None:
        if self._live.get(name) is live:
            del self._live[name]
            self._about.pop(name, None)
        # Seats that were not given up go on elsewhere: their tokens are good there, and here they take no place.
        for seat in live.seats.values():
            if (free := self._places.get((name, seat.name))) is not None:
                free()

    @staticmethod
    def _open_ended(name: str) -> bool:
        return name.startswith(_SHARED)

    async def _revive(self, known: SeatPass) -> LiveSession:
        """A session that another process has left behind in the journal."""
        if self._journal is None:
            raise no_such_seat()
        try:
            if await self._journal.last_seq(known.session) < 0:
                raise no_such_seat()
            fold, offset = await self._folded(self._journal, known.session)
        except JournalError as error:
            log.warning("a session cannot be resumed: %s", error)
            raise Problem(
                503, "journal_away", "the session cannot be read just now", "try again", {"Retry-After": "1"}
            ) from error
        stream = await self._rest(known.tour, fold, offset)
        return self._start(known.session, stream, open_ended=self._open_ended(known.session), fold=fold)

    async def _folded(self, journal: Journal, session: str) -> tuple[Fold, int | None]:
        from multimodal.wire import decode_event

        # The one before may still hold it for a moment; it is fenced off from the first append on.
        loop = asyncio.get_running_loop()
        until = loop.time() + 2 * LEASE_SECONDS
        while True:
            try:
                await journal.open(session, self._writer)
                break
            except LeaseHeld as error:
                if loop.time() + error.seconds > until:
                    raise
                await asyncio.sleep(error.seconds + 0.01)
        mark = await journal.snapshot(session)
        state = None if mark is None else State.decode(mark.data)
        fold, offset = Fold(state), 0 if state is None else state.offset
        while entries := await journal.read(session, fold.seq):
            for entry in entries:
                fold.feed(event for data in entry.events if (event := decode_event(data)) is not None)
        return fold, offset

    async def _rest(self, tour: str, fold: Fold, offset: int | None) -> Source:
        if fold.ended:
            return Remainder(fold)
        if self._resume_stream is None or offset is None:
            return Remainder(fold, "server_restarted", "the server was started again, and this tour cannot go on")
        try:
            made = self._resume_stream(tour, fold.place(offset))
            return await made if isinstance(made, Awaitable) else made
        except Exception:
            log.exception("resume_stream failed for tour %r", tour)
            return Remainder(fold, "server_restarted", "the server was started again, and this tour cannot go on")

    async def stream(self, tour: str) -> Source:
        """A new stream of a tour.

        Raises:
            Problem: 404 there is no such tour, 500 it could not be made.
        """
        try:
            made = self._make_stream(tour)
            stream = await made if isinstance(made, Awaitable) else made
        except (UsageError, KeyError) as error:
            # It may be a fault in make_stream, which the log has to show.
            log.warning("make_stream knows no tour %r: %r", tour[:80], error)
            message = str(error) if isinstance(error, UsageError) else f"there is no tour {tour[:80]!r}"
            raise Problem(404, "no_such_tour", message, "check the last part of the player's src") from error
        except Exception as error:
            # Turned into a response here, not further out, so that it passes CORS and the page can read it.
            log.exception("make_stream failed for tour %r", tour)
            raise server_fault() from error
        if not hasattr(stream, "bundles"):
            log.error("make_stream(%r) gave %s; return a MultiModalStream", tour, type(stream).__name__)
            raise server_fault()
        return stream

    # ---- seats ---------------------------------------------------------------------------------------------------

    def _sit(self, live: LiveSession, ticket: SeatPass, grant: Grant, address: str) -> Chair:
        record = None if self._recorder is None else self._recorder(live.stream)
        turns = grant.may("turn_shared" if self._open_ended(ticket.session) else "turn_own")
        seat = live.sit(Seat(ticket.viewer, turns=turns, record=record))
        chair = Chair(live, seat, ticket, grant)
        self._about[ticket.session] = (ticket.tour, grant.session)
        if grant.key:
            self._taken[grant.key] = chair
        spent, place = self.turnstile.spent, (ticket.session, ticket.viewer)

        def free() -> None:
            del self._places[place]
            if self._taken.get(grant.key) is chair:
                del self._taken[grant.key]
            self.turnstile.stand(address)

        def left() -> None:
            free()
            (spent.close if seat.greeted else spent.release)(grant)

        self._places[place], seat.on_left = free, left
        return chair


_SHARED = "shared-"
"""How the names of sessions begin that do not end with their last seat."""


async def _left_behind(journal: Journal, session: str) -> bool:
    """Another process has told some of it: newcomers join that, as those who come back to it do."""
    try:
        return await journal.last_seq(session) >= 0
    except JournalError as error:
        log.warning("whether a session was begun elsewhere is not known; it begins here: %s", error)
        return False


def server_fault() -> Problem:
    """What the browser learns of a fault of ours."""
    return Problem(500, "server_fault", "the tour could not be started", "the server's log says what failed")
