"""One viewer on one stream: hello, bundles and pictures out, acks in, and a clean end whatever happens.

Three tasks share one scheduler: `_listen` reads the viewer, `_emit` pulls the stream, `_watch` keeps the clock.
Whoever changes something calls `_pump`, which is synchronous, so that a pong leaves in the call that read the ping.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from multimodal import wire
from multimodal.errors import (
    ChannelClosedError,
    ChannelClosedOK,
    MultiModalError,
    PipeError,
    RemoteProtocolError,
    TransportError,
    UsageError,
)
from multimodal.events import AnyEvent, AssetReserved, CueMissed, Interrupted, Reveal
from multimodal.transport.base import Inbound, Link, Moves, Source, Turns
from multimodal.transport.scheduler import PEER_GONE, Peer, SendScheduler

__all__ = ["DRAIN_LIMIT", "HELLO_LIMIT", "LINGER", "MALFORMED_LIMIT", "Limits", "ViewerSession"]

log = logging.getLogger(__name__)

HELLO_LIMIT = 10.0
"""Seconds that the viewer has for its hello, once the road stands."""
DRAIN_LIMIT = 30.0
"""Seconds after the end event for the last parts and acks."""
LINGER = 300.0
"""Seconds that a session stays after everything arrived: the page is still open and may ask for a pong."""
MALFORMED_LIMIT = 20
"""Malformed messages after which the viewer is sent away: a bug or an attack, not an accident."""
_FAREWELL = 0.5
"""Seconds in which the viewer, having read our goodbye, may close first; closing at once could lose it."""


@dataclass(frozen=True)
class Limits:
    """The named waits and bounds of a session, in seconds but for `malformed`, which counts messages."""

    hello: float = HELLO_LIMIT
    drain: float = DRAIN_LIMIT
    linger: float = LINGER
    malformed: int = MALFORMED_LIMIT


class _Over(Exception):  # noqa: N818 - not an error: the session has ended
    """Raised by whichever task notices the end, to stop the other two."""

    def __init__(self, reason: str, farewell: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.farewell = farewell


class ViewerSession:
    """One viewer on one stream, from hello to the end.

    Args:
        stream: entered once the viewer said hello, closed at the end; nobody else may iterate it.
        link: the server's end of the road; closed at the end.
        limits: named waits and bounds.
        on_record: called with every line of a recording (`multimodal.sync.log`): emitted events, what arrived (by the
            viewer's acks), what was painted (by its receipts, on its clock), which pictures are ready, and the pings.
    """

    def __init__(
        self,
        stream: Source,
        link: Link,
        *,
        limits: Limits | None = None,
        on_record: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.stream = stream
        self.link = link
        self.scheduler = SendScheduler()
        self.malformed = 0
        self.ignored = 0
        self.pictures_kept = 0
        """Pictures that the viewer held already, so that no byte of them was sent."""
        self._have: frozenset[str] = frozenset()
        self.failure: PipeError | None = None
        self.reason = ""
        self._limits = limits or Limits()
        self._record = on_record or _discard
        self._wake = asyncio.Event()
        self._relieved = asyncio.Event()
        self._viewer_paused = self._road_paused = self._paused = False
        self._acked_seq = -1
        self._zero = math.inf
        self._end_at: float | None = None
        self._drained_at: float | None = None

    async def run(self) -> str:
        """Serve the viewer; returns why the session ended. Cancelling closes stream and link.

        Nothing that the viewer or the road does raises; a failed pipe is in `failure`, and its event has been sent.
        """
        try:
            await self._serve()
        except (_Over, MultiModalError) as over:
            await self._part(over)
        finally:
            try:
                await self.link.aclose()
            finally:
                await self.stream.aclose()
        return self.reason

    def farewell(self, reason: str) -> None:
        """Tell the viewer, in this very call, that the session is about to be cancelled; it may not be heard."""
        if self.reason:
            return
        self.reason = reason
        self.scheduler.stop()
        with suppress(TransportError):
            self.link.send_last(wire.encode(wire.Bye(reason)))

    async def _serve(self) -> None:
        await self.link.opened()
        hello = await self._hello()
        self.link.on_writable(self._wake.set)
        self._have = frozenset(digest[: wire.HAVE_CHARS] for digest in hello.have)
        # Before the stream asks for its first pictures: they come as suits the viewer, too (I10).
        self.stream.ack(hello)
        async with self.stream:
            self.scheduler.start(self._now())
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._listen())
                    group.create_task(self._emit())
                    group.create_task(self._watch())
            except BaseExceptionGroup as errors:
                over = _first(errors)
                await self._part(over)
                raise over from None
            finally:
                # Before the stream, whose pipes may take their time to stop: the viewer learns at once.
                await self.link.aclose()

    async def _hello(self) -> wire.Hello:
        try:
            async with asyncio.timeout(self._limits.hello):
                while True:
                    message = self._read(await self.link.receive())
                    if isinstance(message, wire.Hello):
                        return message
                    if isinstance(message, wire.Bye):
                        raise _Over(message.reason or "the viewer left before its hello", False)
                    if message is not None:
                        self._mark_malformed(f"{type(message).__name__} before hello")
        except TimeoutError:
            raise _Over(
                f"no hello within {self._limits.hello:g} s of the connection; a viewer says hello first", True
            ) from None

    # What comes in

    async def _listen(self) -> None:
        while True:
            message = self._read(await self.link.receive())
            now = self._now()
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
            raise _Over(f"{self.malformed} malformed messages, the last: {what}", True)

    def _obey(self, message: wire.ClientMessage, now: float) -> None:
        match message:
            case wire.Ping(id=number, t_ms=t_ms):
                self.scheduler.queue_control(wire.encode(wire.Pong(number, t_ms, now * 1000)))
            case wire.Ack(seq=seq, picture_bytes=picture_bytes):
                self.scheduler.acked(seq, picture_bytes, now)
                self._note_arrival(seq, now)
            case wire.Painted():
                if message.seq > self.scheduler.sent_seq:
                    self._mark_malformed(f"painted {message.seq}, which was not sent")
                    return
                self._note_arrival(message.seq, now)  # a viewer may leave before its last ack is due
                self._record(
                    {
                        "vantage": "painted",
                        "t_ms": message.t_ms,
                        "frame": message.frame,
                        "seq": message.seq,
                        "visible": message.visible,
                    }
                )
                self.stream.ack(message)
            case wire.Ready(key=key, ok=ok, reason=reason):
                if self._zero < math.inf:
                    self._record({"vantage": "ready", "t_ms": self._ms(now), "key": key, "ok": ok, "reason": reason})
                self.stream.ack(message)
            case wire.Need(key=key):
                picture = self.stream.picture(key)
                if picture is None:
                    self._mark_malformed(f"it needs {key[:80]!r}, which was not described")
                else:
                    self.scheduler.queue_picture(key, picture.data, self.stream.due(key))
            case wire.Pause() | wire.Resume():
                self._viewer_paused = isinstance(message, wire.Pause)
                self._apply_pause()
            case wire.Interrupt() | wire.Ask():
                self._leave_turn(message)
            case wire.Skip() | wire.Rewind():
                self._move(message)
            case wire.Bye():
                self.stream.ack(message)
                raise _Over(message.reason or "the viewer left", False)
            case wire.Hello():
                self._mark_malformed("a second hello")
            case wire.Pong(t_ms=t_ms, at_ms=at_ms):
                # One whose sending time is not behind us is no answer to a ping of ours.
                if self._zero < math.inf and t_ms <= now * 1000:
                    sent_ms = self._ms(t_ms / 1000)
                    line = {"vantage": "clock", "sent_ms": sent_ms, "viewer_ms": at_ms, "heard_ms": self._ms(now)}
                    self._record(line)

    def _leave_turn(self, message: wire.Interrupt | wire.Ask) -> None:
        stream, epoch = self.stream, message.epoch
        if not isinstance(stream, Turns):
            log.info("a viewer interrupted a stream that has no turns")
            return
        try:
            if isinstance(message, wire.Interrupt):
                left = stream.interrupt(epoch) is not None
            else:
                left = stream.ask(message.text, epoch)
        except UsageError as error:
            log.info("nobody answers a viewer's question: %s", error)
            left = False
            with suppress(UsageError):
                # The viewer shows nothing more of the turn that it left, so the tour must not go on unseen.
                if stream.interrupt(epoch) is not None:
                    left = True
                    stream.finish()
        if left:
            # Whoever asks wants to hear the answer.
            self._viewer_paused = False
            self._apply_pause()

    def _move(self, message: wire.Skip | wire.Rewind) -> None:
        if not isinstance(self.stream, Moves):
            log.info("a viewer would move in a stream that only goes on")
            return
        try:
            if isinstance(message, wire.Skip):
                moved = self.stream.skip(message.epoch) is not None
            else:
                moved = self.stream.rewind(message.mark, message.epoch) is not None
        except UsageError as error:
            log.info("a viewer cannot move there: %s", error)
            return
        if moved:
            self._viewer_paused = False
            self._apply_pause()

    def _note_arrival(self, seq: int, now: float) -> None:
        if seq > self.scheduler.sent_seq:
            return
        for arrived in range(self._acked_seq + 1, seq + 1):
            self._record({"vantage": "arrived", "t_ms": self._ms(now), "seq": arrived, "clock": "server"})
        self._acked_seq = max(self._acked_seq, seq)

    # What goes out

    async def _emit(self) -> None:
        # A generator that a cancelled task leaves behind would be closed by the loop, some time later.
        bundles = cast(AsyncGenerator[tuple[AnyEvent, ...], None], self.stream.bundles())
        try:
            async with aclosing(bundles):
                async for bundle in bundles:
                    for event in bundle:
                        # The least delayed event tells best when the stream's own clock began.
                        self._zero = min(self._zero, self._now() - event.pts_ms / 1000)
                        self._record({"vantage": "emitted", "event": msgspec.to_builtins(event)})
                    self.scheduler.queue_bundle(bundle)
                    self._queue_pictures(bundle)
                    self._pump()
                    while self.scheduler.congested:
                        self._relieved.clear()
                        await self._relieved.wait()
        except PipeError as error:
            # The viewer was told by an `error` event and the end; here it is for whoever runs the session.
            self.failure = error
            log.warning("stream ended early: %s", error)
        self._end_at = self._now()
        self._wake.set()

    def _queue_pictures(self, bundle: Sequence[AnyEvent]) -> None:
        # What was left or missed is no longer due: it drops to look-ahead.
        if not any(isinstance(event, AssetReserved | Reveal | CueMissed | Interrupted) for event in bundle):
            return
        for event in bundle:
            if isinstance(event, AssetReserved) and event.variants and event.variants[0].url is None:
                picture = self.stream.picture(event.key)
                if picture is not None and picture.sha256[: wire.HAVE_CHARS] in self._have:
                    self.pictures_kept += 1
                elif picture is not None:
                    self.scheduler.queue_picture(event.key, picture.data, self.stream.due(event.key))
        for key in self.scheduler.waiting_pictures:
            self.scheduler.set_due(key, self.stream.due(key))

    def _pump(self, now: float | None = None) -> None:
        now = self._now() if now is None else now
        while (message := self.scheduler.next_message(self.link.buffered_amount, now)) is not None:
            if isinstance(message, str):
                self.link.send_event(message)
            else:
                self.link.send_image(message)
        if not self.scheduler.congested:
            self._relieved.set()

    # The clock

    async def _watch(self) -> None:
        now = self._now()
        while True:
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
            raise _Over(f"the viewer was silent for {PEER_GONE:g} s", False)
        self._road_paused = peer is Peer.QUIET
        self._apply_pause()

    def _apply_pause(self) -> None:
        paused = self._viewer_paused or self._road_paused
        if paused != self._paused:
            self._paused = paused
            (self.stream.pause if paused else self.stream.resume)()

    def _check_end(self, now: float) -> None:
        if self._end_at is None:
            return
        if self._drained_at is None:
            if self.scheduler.drained:
                self._drained_at = now
            elif now - self._end_at > self._limits.drain:
                raise _Over(f"not everything arrived within {self._limits.drain:g} s of the end", True)
        elif now - self._drained_at > self._limits.linger:
            raise _Over(f"complete, and the viewer stayed for {self._limits.linger:g} s more", True)

    async def _part(self, over: BaseException) -> None:
        """Note why it is over, once, and tell the viewer where it is still there to hear it."""
        if self.reason:
            return
        self.reason = str(over)
        self.scheduler.stop()
        log.info("session over: %s", over)
        if isinstance(over, ChannelClosedOK | ChannelClosedError) or (isinstance(over, _Over) and not over.farewell):
            return
        # Short, whatever the reason quotes; and what a fault of ours says is for our log alone.
        told = self.reason[:200] if isinstance(over, _Over | MultiModalError) else "the server failed"
        with suppress(TransportError, TimeoutError):
            self.link.send_event(wire.encode(wire.Bye(told)))
            async with asyncio.timeout(_FAREWELL):
                while True:
                    await self.link.receive()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _ms(self, now: float) -> float:
        """Our clock in `pts_ms`, the stream's own milliseconds."""
        return round((now - self._zero) * 1000, 3)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One reason out of a group: the session's own end, else the road's, else whatever is a fault."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    order = (_Over, ChannelClosedOK, ChannelClosedError, MultiModalError)
    faults = [error for error in flat if not isinstance(error, order)]
    return faults[0] if faults else min(flat, key=lambda error: [isinstance(error, k) for k in order].index(True))


def _discard(record: dict[str, Any]) -> None:
    return None
