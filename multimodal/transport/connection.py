"""One link of a viewer to a session: hello, bundles and pictures out, acks in, and a clean end whatever happens.

Three tasks share one scheduler: `_listen` reads the viewer, `_catch_up` brings what the viewer missed, `_watch` keeps
the clock. Whoever changes something calls `_pump`, which is synchronous, so that a pong leaves in the call that read
the ping.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multimodal import wire
from multimodal.errors import (
    ChannelClosedError,
    ChannelClosedOK,
    MultiModalError,
    RemoteProtocolError,
    TransportError,
)
from multimodal.events import AnyEvent, AssetReserved, CueMissed, Gap, Interrupted, Reveal, Snapshot
from multimodal.transport.base import Inbound, Link
from multimodal.transport.bucket import Bucket, Rate
from multimodal.transport.scheduler import PEER_GONE, Peer, SendScheduler

if TYPE_CHECKING:
    from multimodal.transport.live import LiveSession, Seat

__all__ = ["DRAIN_LIMIT", "HELLO_LIMIT", "LINGER", "MALFORMED_LIMIT", "STAYS", "Connection", "Limits", "Over"]

log = logging.getLogger(__name__)

HELLO_LIMIT = 10.0
"""Seconds that the viewer has for its hello, once the road stands."""
DRAIN_LIMIT = 30.0
"""Seconds after the end event for the last parts and acks."""
LINGER = 300.0
"""Seconds that a session stays after everything arrived: the page is still open and may ask for a pong."""
MALFORMED_LIMIT = 20
"""Malformed messages after which the viewer is sent away: a bug or an attack, not an accident."""
MESSAGES_PER_SECOND = 500.0
"""What a viewer may say in the long run: a screen of 240 Hz, with its acks, has 300 messages a second at the most."""
MESSAGES_BURST = 5000
"""And at once: the receipts of a whole tour that was told faster than anybody can read."""
STAYS = Rate(1.0, 10)
"""Refused interruptions and questions of one connection: nobody clicks faster in the long run."""
_FAREWELL = 0.5
"""Seconds in which the viewer, having read our goodbye, may close first; closing at once could lose it."""


@dataclass(frozen=True)
class Limits:
    """The named waits and bounds of a session.

    Args:
        hello, drain, linger: seconds; see `HELLO_LIMIT`, `DRAIN_LIMIT`, `LINGER`.
        malformed: messages that cannot be read.
        messages_per_second: what a viewer may say in the long run; infinite = no limit.
        messages_burst: and at once.
    """

    hello: float = HELLO_LIMIT
    drain: float = DRAIN_LIMIT
    linger: float = LINGER
    malformed: int = MALFORMED_LIMIT
    messages_per_second: float = MESSAGES_PER_SECOND
    messages_burst: int = MESSAGES_BURST

    def __post_init__(self) -> None:
        Rate(self.messages_per_second, self.messages_burst)


class Over(Exception):  # noqa: N818 - not an error: it has ended
    """Raised by whoever notices the end of a connection or a session.

    Args:
        reason: why, for the log and, where it is told, for the viewer.
        farewell: True = the viewer is still there to be told.
        left: True = the viewer does not come back: its seat is free.
    """

    def __init__(self, reason: str, farewell: bool, *, left: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.farewell = farewell
        self.left = left


class Connection:
    """One link, from hello to its end (`transport.live` has the rules K1-K5).

    Args:
        live: the session that it shows.
        seat: whose it is.
        link: the server's end of the road; closed at the end.
        admit: called with the hello; raises `Over` to send the viewer away.
        hello: the first message, where it came by another way than the link.
        seat_path: told to the viewer after its hello, on roads whose answer had no `Location`.
    """

    def __init__(
        self,
        live: LiveSession,
        seat: Seat,
        link: Link,
        *,
        admit: Callable[[wire.Hello], None] | None = None,
        hello: wire.Hello | None = None,
        seat_path: str = "",
    ) -> None:
        self.live, self.seat, self.link = live, seat, link
        self._by_url: bool = getattr(link, "pictures_by_url", False)
        limit: int = getattr(link, "message_limit_bytes", wire.MESSAGE_LIMIT_BYTES)
        self.scheduler = SendScheduler(message_bytes=limit, pictures=not self._by_url)
        self.closed = asyncio.Event()
        self.malformed = self.ignored = self.refused = 0
        """Messages that could not be read, that this version does not know, that the seat may not send."""
        self.pictures_kept = 0
        """Pictures that the viewer held already, so that no byte of them was sent."""
        self.cursor = -1
        """The last event that was queued for this viewer."""
        self.reason = ""
        self.left = False
        self.ready = False
        """The viewer has said hello, and the connection has not ended."""
        self._admit, self._first, self._seat_path = admit, hello, seat_path
        self._limits = live.limits
        self._bucket = Bucket(Rate(self._limits.messages_per_second, self._limits.messages_burst))
        self._stays = Bucket(STAYS)
        self._have: frozenset[str] = frozenset()
        self._pictures: set[str] = set()
        self._live = False
        self._wake = asyncio.Event()
        self._more = asyncio.Event()
        self._stop: Exception | None = None
        self._quiet = False
        self._drained_at: float | None = None
        self._end_at: float | None = None
        self._task: asyncio.Task[Any] | None = None

    # ---- what the session calls ----------------------------------------------------------------------------------

    async def run(self) -> str:
        """Serve the viewer; returns why the connection ended. Cancelling closes the link.

        Nothing that the viewer or the road does raises.
        """
        self._task = asyncio.current_task()
        try:
            if self._stop is not None:
                raise self._stop
            await self._serve()
        except (Over, MultiModalError) as over:
            await self._part(over)
        finally:
            self.ready = False
            try:
                await self.link.aclose()
            finally:
                self.live.closed(self)
                self.closed.set()
        return self.reason

    def offer(self, bundle: Sequence[AnyEvent]) -> None:
        """The next bundle of the stream; one that the viewer is not ready for is read later, where it is kept."""
        if self._live and not self.scheduler.congested and bundle[0].seq == self.cursor + 1:
            try:
                self._queue(bundle)
                self._pump()
            except MultiModalError as error:
                # This viewer's end, and nobody else's.
                self._stop = self._stop or error
                self._wake.set()
        else:
            self._live = False
            self._more.set()

    def wake(self) -> None:
        """Something has changed that the clock should look at, such as the stream's end."""
        self._more.set()
        self._wake.set()

    def stop(self, reason: str, *, farewell: bool) -> None:
        """End it; the viewer is told where it can be."""
        self._stop = self._stop or Over(reason, farewell)
        self._wake.set()
        if not self.ready and self._task is not None:
            self._task.cancel()

    async def hang_up(self, reason: str) -> None:
        """The session ends: close the link at once."""
        self.reason = self.reason or reason
        await self.link.aclose()

    def farewell(self, reason: str) -> None:
        """Tell the viewer, in this very call, that all is about to be cancelled; it may not be heard."""
        if self.reason:
            return
        self.reason = reason
        self.scheduler.stop()
        with suppress(TransportError):
            self.link.send_last(wire.encode(wire.Bye(reason)))

    @property
    def congested(self) -> bool:
        """It takes no more for now."""
        return self.scheduler.congested

    @property
    def quiet(self) -> bool:
        """The viewer has said nothing for a while."""
        return self._quiet

    # ---- from hello to the end -----------------------------------------------------------------------------------

    async def _serve(self) -> None:
        if self._stop is not None:
            raise self._stop
        await self.link.opened()
        hello = self._first or await self._hello()
        if self._admit is not None:
            self._admit(hello)
        self.link.on_writable(self._wake.set)
        self._have = frozenset(digest[: wire.HAVE_CHARS] for digest in hello.have)
        self.ready = True
        if self._seat_path:
            self.scheduler.queue_control(wire.encode(wire.Seat(self._seat_path)))
        self._greet(hello)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._catch_up())
                group.create_task(self._watch())
        except BaseExceptionGroup as errors:
            over = _first(errors)
            await self._part(over)
            raise over from None

    async def _hello(self) -> wire.Hello:
        try:
            async with asyncio.timeout(self._limits.hello):
                while True:
                    message = self._read(await self.link.receive())
                    if isinstance(message, wire.Hello):
                        return message
                    if isinstance(message, wire.Bye):
                        raise Over(message.reason or "the viewer left before its hello", False, left=True)
                    if message is not None:
                        self._mark_malformed(f"{type(message).__name__} before hello")
        except TimeoutError:
            raise Over(
                f"no hello within {self._limits.hello:g} s of the connection; a viewer says hello first", True
            ) from None

    def _greet(self, hello: wire.Hello) -> None:
        """Where this viewer begins (K2)."""
        again = hello.resume or hello.cursor >= 0
        if not again:
            self.seat.frame = -1  # another page, which counts anew
        fold = self.live.kept.fold
        self.cursor = min(hello.cursor, fold.seq)
        self.scheduler.start(self._now(), self.cursor)
        self.live.greeted(self, hello)
        if hello.cursor > fold.seq:
            # It has seen what the journal lost, and with it this process: what follows has those numbers again.
            if fold.seq < 0:
                raise Over("nothing is known any more of what this viewer has seen", True, left=True)
            self._tell_snapshot(fold.missed(hello.cursor, self.scheduler.message_bytes))
        elif not again and fold.seq >= 0:
            self._tell_snapshot(fold.take(self.scheduler.message_bytes))
        elif again and fold.seq >= 0:
            # What was described before the cursor, and did not arrive whole, has to come anew.
            self._queue_known(fold.assets)
        self._more.set()

    def _tell_snapshot(self, parts: Sequence[Gap | Snapshot]) -> None:
        self.scheduler.queue_bundle(parts)
        self.cursor = parts[-1].seq
        # What it is told in sum did not arrive one by one.
        self.seat.acked_seq = max(self.seat.acked_seq, self.cursor)
        fold = self.live.kept.fold
        self._queue_known([key for key in fold.assets if self._due(key) is not None])

    # ---- what comes in -------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            message = self._read(await self.link.receive())
            now = self._now()
            if self._bucket.take(now):
                raise Over(f"more than {self._limits.messages_per_second:g} messages a second", True)
            self.scheduler.heard(now)
            if message is not None:
                self._obey(message, now)
            self._pump()

    def _read(self, inbound: Inbound) -> wire.ClientMessage | None:
        if inbound.channel == "images":
            # Nothing comes up this channel in this version; another version's viewer may do no harm.
            self.ignored += 1
            return None
        try:
            return wire.decode_client(inbound.data)
        except RemoteProtocolError as error:
            self._mark_malformed(str(error))
            return None

    def _mark_malformed(self, what: str) -> None:
        self.malformed += 1
        log.debug("malformed message %d: %s", self.malformed, what)
        if self.malformed > self._limits.malformed:
            raise Over(f"{self.malformed} malformed messages, the last: {what}", True)

    def _obey(self, message: wire.ClientMessage, now: float) -> None:
        live, seat = self.live, self.seat
        match message:
            case wire.Ping(id=number, t_ms=t_ms):
                self.scheduler.queue_control(wire.encode(wire.Pong(number, t_ms, now * 1000)))
            case wire.Ack(seq=seq, picture_bytes=picture_bytes):
                self.scheduler.acked(seq, picture_bytes, now)
                self._note_arrival(seq, now)
            case wire.Painted():
                if message.seq > self.cursor:
                    self._mark_malformed(f"painted {message.seq}, which was not sent")
                    return
                self._note_arrival(message.seq, now)  # a viewer may leave before its last ack is due
                if message.frame <= seat.frame:
                    return  # said again after a return: it may not have been heard
                seat.frame = message.frame
                seat.record(
                    {
                        "vantage": "painted",
                        "t_ms": message.t_ms,
                        "frame": message.frame,
                        "seq": message.seq,
                        "visible": message.visible,
                    }
                )
                live.painted(seat, message)
            case wire.Ready(key=key, ok=ok, reason=reason):
                if live.ms(now) > -math.inf:
                    seat.record({"vantage": "ready", "t_ms": live.ms(now), "key": key, "ok": ok, "reason": reason})
                live.stream.ack(message)
            case wire.Need(key=key):
                if live.stream.picture(key) is None:
                    self._mark_malformed(f"it needs {key[:80]!r}, which was not described")
                else:
                    self._queue_picture(key, again=True)
            case wire.Resend(key=key, ranges=ranges):
                self._resend(key, ranges)
            case wire.Pause() | wire.Resume():
                if self._may_turn():
                    live.set_paused(isinstance(message, wire.Pause))
            case wire.Interrupt() | wire.Ask():
                too_long = isinstance(message, wire.Ask) and len(message.text) > wire.ASK_LIMIT
                self.refused += too_long
                if too_long or not self._may_turn() or not live.turn(message):
                    self._stay(message)
            case wire.Skip() | wire.Rewind():
                if self._may_turn():
                    live.turn(message)
            case wire.Bye():
                raise Over(message.reason or "the viewer left", False, left=True)
            case wire.Hello():
                self._mark_malformed("a second hello")
            case wire.Pong(t_ms=t_ms, at_ms=at_ms):
                # One whose sending time is not behind us is no answer to a ping of ours.
                if live.ms(now) > -math.inf and t_ms <= now * 1000:
                    sent_ms, heard_ms = live.ms(t_ms / 1000), live.ms(now)
                    seat.record({"vantage": "clock", "sent_ms": sent_ms, "viewer_ms": at_ms, "heard_ms": heard_ms})

    def _stay(self, message: wire.Interrupt | wire.Ask) -> None:
        """The viewer has left a turn in which it has to stay: it shows nothing more of it until it is told where the
        stream stands."""
        fold = self.live.kept.fold
        if fold.last is None or message.epoch < fold.last.epoch:
            return
        if self._stays.take(self._now()):
            # A snapshot is a thousand times what asks for it.
            raise Over("it asks for what it may not have, again and again", True)
        self._tell_snapshot(fold.take(self.scheduler.message_bytes))

    def _may_turn(self) -> bool:
        if not self.seat.turns:
            self.refused += 1
            log.info("a viewer that only watches wanted to turn the session")
        return self.seat.turns

    def _note_arrival(self, seq: int, now: float) -> None:
        seat = self.seat
        if seq > self.cursor or self.live.ms(now) == -math.inf:
            return
        for arrived in range(seat.acked_seq + 1, seq + 1):
            seat.record({"vantage": "arrived", "t_ms": self.live.ms(now), "seq": arrived, "clock": "server"})
        seat.acked_seq = max(seat.acked_seq, seq)

    # ---- what goes out -------------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Bring what follows the cursor, as fast as the viewer takes it, until it is level with the stream (K2)."""
        while True:
            self._more.clear()
            while self.cursor < self.live.kept.last_seq:
                self._live = False
                bundles = self.live.kept.recent(self.cursor)
                if bundles is None:
                    bundles = await self.live.kept.read(self.cursor)
                if bundles is None:
                    self._tell_snapshot(self.live.kept.fold.missed(self.cursor, self.scheduler.message_bytes))
                    bundles = []
                for bundle in bundles:
                    await self._room()
                    if bundle[0].seq <= self.cursor < bundle[-1].seq:
                        bundle = tuple(event for event in bundle if event.seq > self.cursor)
                    if bundle[0].seq == self.cursor + 1:
                        self._queue(bundle)
                self._pump()
                await asyncio.sleep(0)
            await self._room()
            # Nothing awaits between this look and the flag: what is emitted from now on is offered.
            if self.cursor >= self.live.kept.last_seq:
                self._live = True
                if self.live.ended and self._end_at is None:
                    self._end_at = self._now()
                    self._wake.set()
                await self._more.wait()

    async def _room(self) -> None:
        while self.scheduler.congested:
            self._pump()
            if not self.scheduler.congested:
                return
            self._more.clear()
            await self._more.wait()

    def _queue(self, bundle: Sequence[AnyEvent]) -> None:
        self.scheduler.queue_bundle(bundle)
        self.cursor = bundle[-1].seq
        # What was left or missed is no longer due: it drops to look-ahead.
        if not any(isinstance(event, AssetReserved | Reveal | CueMissed | Interrupted) for event in bundle):
            return
        for event in bundle:
            if isinstance(event, AssetReserved | Reveal):
                self._queue_picture(event.key)
        for key in self.scheduler.waiting_pictures:
            self.scheduler.set_due(key, self._due(key))

    def _queue_known(self, keys: Sequence[str] | dict[str, AssetReserved]) -> None:
        for key in keys:
            self._queue_picture(key)

    def _queue_picture(self, key: str, *, again: bool = False) -> None:
        asset = self.live.kept.fold.assets.get(key)
        if self._by_url or asset is None or not asset.variants or asset.variants[0].url is not None:
            return
        picture = self.live.stream.picture(key)
        if picture is None or (key in self._pictures and not again):
            return
        self._pictures.add(key)
        if picture.sha256[: wire.HAVE_CHARS] in self._have and not again:
            self.pictures_kept += 1
        else:
            self.scheduler.queue_picture(key, picture.data, self._due(key))

    def _due(self, key: str) -> int | None:
        """Where a picture is needed next: at once, if it is on the stage; None = nowhere, as far as is known."""
        fold = self.live.kept.fold
        if key in fold.wanted:
            return -1
        due = self.live.stream.due(key)
        gone = key in fold.revealed and fold.last is not None and due is not None and due < fold.last.tok
        return None if gone else due

    def _resend(self, key: str, ranges: Sequence[tuple[int, int]]) -> None:
        picture = self.live.stream.picture(key)
        if picture is None or key not in self._pictures:
            self._mark_malformed(f"it asks for parts of {key[:80]!r}, which was not sent")
        elif any(not 0 <= begin < end <= len(picture.data) for begin, end in ranges):
            self._mark_malformed(f"it asks for bytes {list(ranges)[:3]} of a picture of {len(picture.data)}")
        else:
            self.scheduler.queue_ranges(key, picture.data, ranges, self._due(key))

    def _pump(self, now: float | None = None) -> None:
        now = self._now() if now is None else now
        congested = self.scheduler.congested
        while (message := self.scheduler.next_message(self.link.buffered_amount, now)) is not None:
            if isinstance(message, str):
                self.link.send_event(message)
            else:
                self.link.send_image(message)
        if congested and not self.scheduler.congested:
            self._more.set()
            self.live.relieved()

    # ---- the clock -----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        now = self._now()
        while True:
            if self._stop is not None:
                raise self._stop
            self._check_peer(now)
            self._check_end(now)
            self._pump(now)
            self._wake.clear()
            timer = self.scheduler.next_timer(now)
            try:
                async with asyncio.timeout(None if timer is None else max(timer - self._now(), 0.0)):
                    await self._wake.wait()
                now = self._now()
            except TimeoutError:
                # A loop may wake a little early; what the timer was set for is due all the same.
                now = max(self._now(), timer or 0.0)

    def _check_peer(self, now: float) -> None:
        peer = self.scheduler.peer(now)
        if peer is Peer.GONE:
            raise Over(f"the viewer was silent for {PEER_GONE:g} s", False)
        if (peer is Peer.QUIET) != self._quiet:
            self._quiet = peer is Peer.QUIET
            self.live.apply_pause()

    def _check_end(self, now: float) -> None:
        if self._end_at is None:
            return
        if self._drained_at is None:
            if self.scheduler.drained:
                self._drained_at = now
            elif now - self._end_at > self._limits.drain:
                raise Over(f"not everything arrived within {self._limits.drain:g} s of the end", True)
        elif now - self._drained_at > self._limits.linger:
            raise Over(f"all was told, and the viewer stayed for {self._limits.linger:g} s more", True, left=True)

    async def _part(self, over: BaseException) -> None:
        """Note why it is over, once, and tell the viewer where it is still there to hear it."""
        if self.reason:
            return
        self.reason = str(over)
        self.left = isinstance(over, Over) and over.left
        self.scheduler.stop()
        log.info("connection over: %s", over)
        if isinstance(over, ChannelClosedOK | ChannelClosedError) or (isinstance(over, Over) and not over.farewell):
            return
        # Short, whatever the reason quotes; and what a fault of ours says is for our log alone.
        told = self.reason[:200] if isinstance(over, Over | MultiModalError) else "the server failed"
        with suppress(TransportError, TimeoutError):
            self.link.send_event(wire.encode(wire.Bye(told)))
            async with asyncio.timeout(_FAREWELL):
                while True:
                    await self.link.receive()

    def _now(self) -> float:
        return self.live.now()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One reason out of a group: the connection's own end, else the road's, else whatever is a fault."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    order = (Over, ChannelClosedOK, ChannelClosedError, MultiModalError)
    faults = [error for error in flat if not isinstance(error, order)]
    return faults[0] if faults else min(flat, key=lambda error: [isinstance(error, k) for k in order].index(True))
