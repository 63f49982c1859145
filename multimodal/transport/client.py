"""The viewer's side of the protocol without a browser: a pure state machine, for one connection after another.

The machine takes messages and time and gives what to say and what to show; the player in JavaScript speaks
the same protocol, so a tour can be driven from Python over any road.

    V1  `hello` is the first thing said on every connection.
    V2  A bundle split with `more` is shown whole, at its last piece.
    V3  `seq` has no gaps: a hole is the server's fault and raises. What came before is dropped, and counted
        (`doubled`).
    V4  Picture parts may come in any order, twice, and before their `asset`; a picture is whole when all its
        bytes are there, and its sha256 must be what the `asset` said.
    V5  An ack goes out with every 16 KiB of pictures, and 50 ms after anything else that came.
    V6  A ping is answered at once; one of ours goes out every second. 3 s of silence: connect anew.
    V7  Who interrupts or asks names the epoch that it leaves, and is in the next one from then on: words and
        pictures of an older epoch are acknowledged and not shown, a bundle that still waits for its last piece
        included. What else they bring (assets, errors, the end) counts.
    V8  The hello names, by hash, the pictures held from earlier; one of them is whole as soon as its `asset` came, and
        its bytes are not waited for. So it is again when a server that was started anew describes it once more, since
        that does not know what is ready here.
    V9  On a new connection the hello's cursor is the last event of the last whole bundle, the pictures that came whole
        are held, and what came of others is kept. Said again is what may not have been heard: a pause, an interruption
        or a question whose new epoch has not come, and that a picture is ready which was not shown yet.
    V10 After `gap` and `snapshot` the cursor is their `seq`, wherever it stood.
    V11 A part that came spoilt is asked for again at once, the holes of a picture after `RESEND_AFTER`, its end when no
        part of any came for as long, the whole of it after `RESEND_LIMIT` times, or once where its hash is wrong; then
        it is not ready, and says why. Nothing that is not what the `asset` said is ever shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from multimodal import wire
from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.events import (
    AnyEvent,
    AssetReserved,
    CueMissed,
    ErrorRaised,
    Gap,
    Reveal,
    Snapshot,
    StreamEnd,
    StreamStart,
    Swap,
)
from multimodal.transport.arrivals import PENDING_BYTES, Arrivals, Picture
from multimodal.transport.base import Inbound

__all__ = [
    "ACK_BYTES",
    "ACK_DELAY",
    "PENDING_BYTES",
    "SERVER_SILENT",
    "Farewell",
    "Picture",
    "Shown",
    "ViewerProtocol",
]

ACK_BYTES = 16 * 1024
"""A quarter of the server's window, so that it never runs dry between two acks."""
ACK_DELAY = 0.050
SERVER_SILENT = 3.0
"""Silence after which a viewer connects anew (the server pauses one second later)."""
_PING_INTERVAL = 1.0


@dataclass(frozen=True)
class Farewell:
    """The server closes, and why."""

    reason: str


_NOT_SHOWN = (StreamStart, AssetReserved, ErrorRaised, StreamEnd, Gap, Snapshot)
"""Events that put no word or picture of the turn before the viewer: they count whatever their epoch (V7)."""

Shown = tuple[AnyEvent, ...] | Picture | Farewell
"""What a message makes to show: one bundle, a whole picture, or the server's goodbye."""


class _Place(msgspec.Struct):
    seq: int
    kind: str = ""


class _Places(msgspec.Struct):
    events: list[_Place]


_places = msgspec.json.Decoder(_Places)


class ViewerProtocol:
    """What a viewer says and shows (rules V1-V11 above).

    Args:
        hello: the first message; its cursor is the last `seq` already held.
        now: seconds, monotonic.
        held: the bytes of pictures from earlier tours; at most `wire.HAVE_LIMIT` of them are named in the hello.
        by_url: pictures do not come over this road: `wanted` names those to be fetched.
    """

    def __init__(
        self, hello: wire.Hello | None = None, *, now: float = 0.0, held: Iterable[bytes] = (), by_url: bool = False
    ) -> None:
        self._hello = wire.Hello() if hello is None else hello
        self._pictures = Arrivals(held)
        self.seq = self.cursor = self._hello.cursor
        self.epoch = 0
        self.doubled = 0
        """Events that came again and were dropped."""
        self.seat = ""
        """Where this viewer comes back to, a path of the server; "" = not told on this road."""
        self._out: deque[str] = deque()
        self._ready: dict[str, wire.Ready] = {}
        self._turns: list[wire.Interrupt | wire.Ask] = []
        self._heard_epoch = 0
        self._paused: bool | None = None
        self._ping_id = 0
        self._connect(self._hello, now, by_url)

    def rejoin(self, now: float, *, by_url: bool = False, resume: bool = True) -> None:
        """Begin a new connection, on whatever road; what was not sent on the old one is dropped (V9).

        Args:
            now: seconds, monotonic.
            by_url: pictures do not come over this road.
            resume: False = no hello was said yet that the server may have heard.
        """
        hello = msgspec.structs.replace(self._hello, cursor=self.cursor, resume=resume or self._hello.resume)
        self._connect(hello, now, by_url)
        if self._paused is not None:
            self._out.append(wire.encode(wire.Pause() if self._paused else wire.Resume()))
        self._out.extend(wire.encode(turn) for turn in self._turns)
        self._out.extend(wire.encode(ready) for ready in self._ready.values())

    def _connect(self, hello: wire.Hello, now: float, by_url: bool) -> None:
        have = self._pictures.connect(now, by_url=by_url)
        if have:
            hello = msgspec.structs.replace(hello, have=have)
        self._out.clear()
        self._out.append(wire.encode(hello))
        self.seq = self.cursor
        self._split: list[AnyEvent] = []
        self.picture_bytes = self._acked_bytes = 0
        self._ack_at: float | None = None
        self._next_ping = now + _PING_INTERVAL
        self._heard = now

    # ---- what comes ----------------------------------------------------------------------------------------------

    def receive(self, inbound: Inbound, now: float) -> list[Shown]:
        """One message of the server; what it makes to show, in order.

        Raises:
            RemoteProtocolError: malformed, a gap in `seq`, or a picture that is not what its asset said.
        """
        self._heard = now
        if inbound.channel == "images":
            return self._part(inbound.data, now)
        message = wire.decode_server(inbound.data)
        if isinstance(message, wire.Bundle):
            return self._bundle(message, inbound.data, now)
        if isinstance(message, wire.Ping):
            self._out.append(wire.encode(wire.Pong(message.id, message.t_ms, now * 1000)))
        elif isinstance(message, wire.Seat):
            self.seat = message.path
        elif isinstance(message, wire.Bye):
            return [Farewell(message.reason)]
        return []

    def _bundle(self, bundle: wire.Bundle, data: str | bytes, now: float) -> list[Shown]:
        self._ack_at = now + ACK_DELAY if self._ack_at is None else self._ack_at
        try:
            places = _places.decode(data).events
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"a bundle with an event that has no place: {error}") from error
        events = iter(bundle.events)
        event = next(events, None)
        # From the message itself: kinds that this version does not know are skipped, but they have their place.
        for place in places:
            this = event if event is not None and (event.kind, event.seq) == (place.kind, place.seq) else None
            if this is not None:
                event = next(events, None)
            if not isinstance(this, Gap | Snapshot):
                if place.seq <= self.seq:
                    self.doubled += 1
                    continue
                if place.seq != self.seq + 1:
                    raise RemoteProtocolError(f"event {place.seq} follows {self.seq}: something was lost")
            self.seq = place.seq
            if this is not None:
                self._note(this)
                # Before a snapshot takes this viewer back to a turn, what came of that turn is not shown: it is in it.
                if this.epoch >= self.epoch or isinstance(this, _NOT_SHOWN):
                    self._split.append(this)
        if bundle.more:
            return []
        self.cursor = self.seq
        whole = tuple(each for each in self._split if each.epoch >= self.epoch or isinstance(each, _NOT_SHOWN))
        self._split = []
        if whole:
            self.epoch = max(self.epoch, whole[-1].epoch)
        shown: list[Shown] = [whole] if whole else []
        shown += self._pictures.described()
        self._say_of_pictures()
        return shown

    def _note(self, event: AnyEvent) -> None:
        """What an event changes of what is held, waited for, or said again."""
        if event.epoch > self._heard_epoch:
            self._heard_epoch = event.epoch
            self._turns = [turn for turn in self._turns if turn.epoch >= event.epoch]
        if isinstance(event, AssetReserved):
            # A stream describes each picture once.
            self._pictures.reserve(event, again=True)
        elif isinstance(event, Snapshot):
            # Where the stream stands, whatever this viewer took it for: a turn that it left and may not leave goes on.
            self.epoch = event.epoch
            for asset in event.assets:
                self._pictures.reserve(asset)
        elif isinstance(event, Reveal | Swap | CueMissed):
            self._ready.pop(event.key, None)

    def _part(self, data: str | bytes, now: float) -> list[Shown]:
        if isinstance(data, str):
            raise RemoteProtocolError("text on the images channel")
        size_bytes, pictures = self._pictures.part(data, now)
        self._count(size_bytes, now)
        self._say_of_pictures()
        return list(pictures)

    def _say_of_pictures(self) -> None:
        for message in self._pictures.said():
            if isinstance(message, wire.Ready):
                self.ready(message.key, ok=message.ok, reason=message.reason)
            else:
                self._out.append(wire.encode(message))

    def _count(self, size_bytes: int, now: float) -> None:
        self.picture_bytes += size_bytes
        if self.picture_bytes - self._acked_bytes >= ACK_BYTES:
            self._ack()
        elif self._ack_at is None:
            self._ack_at = now + ACK_DELAY

    def wanted(self) -> list[tuple[str, str]]:
        """Key and SHA-256 of the pictures that have to be fetched; each is named once a connection."""
        return self._pictures.wanted()

    def fetched(self, key: str, data: bytes) -> list[Shown]:
        """The bytes of a wanted picture, as they came by its URL."""
        pictures = self._pictures.fetched(key, data)
        self._say_of_pictures()
        return list(pictures)

    # ---- what is said --------------------------------------------------------------------------------------------

    def ready(self, key: str, *, ok: bool = True, reason: str = "") -> None:
        """A picture is decoded, or cannot be."""
        self._ready[key] = wire.Ready(key, ok, reason)
        self._out.append(wire.encode(self._ready[key]))

    def painted(self, seq: int, t_ms: float, frame: int, *, visible: bool = True) -> None:
        """A frame that applied everything up to `seq` was painted."""
        self._out.append(wire.encode(wire.Painted(seq, t_ms, frame, visible)))

    def pause(self) -> None:
        """Ask the server to stop pulling text."""
        self._paused = True
        self._out.append(wire.encode(wire.Pause()))

    def resume(self) -> None:
        """Ask the server to go on."""
        self._paused = False
        self._out.append(wire.encode(wire.Resume()))

    def interrupt(self) -> None:
        """Leave the turn that is being told (V7); what comes next, if anything, is the application's or an `ask`'s."""
        self._leave(wire.Interrupt(self.epoch))

    def ask(self, text: str) -> None:
        """Leave the turn that is being told, and ask (V7).

        Raises:
            UsageError: the question is longer than `wire.ASK_LIMIT` characters.
        """
        if len(text) > wire.ASK_LIMIT:
            raise UsageError(f"a question of {len(text)} characters; the limit is {wire.ASK_LIMIT}")
        self._leave(wire.Ask(self.epoch, text))

    def _leave(self, turn: wire.Interrupt | wire.Ask) -> None:
        self._turns.append(turn)
        # Whoever leaves a turn wants to hear the next.
        self._paused = None if self._paused is None else False
        self._out.append(wire.encode(turn))
        self.epoch += 1

    def bye(self, reason: str = "") -> None:
        """Say goodbye."""
        self._out.append(wire.encode(wire.Bye(reason)))

    def outgoing(self) -> list[str]:
        """What to send now, in order; each message is given once."""
        messages = list(self._out)
        self._out.clear()
        return messages

    # ---- the clock -----------------------------------------------------------------------------------------------

    def next_timer(self) -> float:
        """When `handle_timer` has something to do."""
        due = (self._next_ping, self._ack_at, self._pictures.next_timer())
        return min(at for at in due if at is not None)

    def handle_timer(self, now: float) -> None:
        """Ack, ping, and ask for what is missing when it is due (V5, V6, V11)."""
        if self._ack_at is not None and now >= self._ack_at:
            self._ack()
        if now >= self._next_ping:
            self._ping_id += 1
            self._next_ping = now + _PING_INTERVAL
            self._out.append(wire.encode(wire.Ping(self._ping_id, now * 1000)))
        self._pictures.handle_timer(now)
        self._say_of_pictures()

    def quiet(self, now: float) -> float:
        """Seconds since the server was last heard."""
        return now - self._heard

    @property
    def silent_at(self) -> float:
        """When the server will have said nothing for `SERVER_SILENT` seconds: connect anew then (V6)."""
        return self._heard + SERVER_SILENT

    def silent(self, now: float) -> bool:
        """Whether it is time for that."""
        return now >= self.silent_at

    def _ack(self) -> None:
        self._ack_at = None
        self._acked_bytes = self.picture_bytes
        self._out.append(wire.encode(wire.Ack(self.seq, self.picture_bytes)))
