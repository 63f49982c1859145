"""The viewer's side of the protocol without a browser: a pure state machine, and a driver for any link.

The machine takes messages and time and gives what to say and what to show; the player in JavaScript speaks
the same protocol, so a tour can be driven from Python over WebRTC or in memory.

    V1  `hello` is the first thing said.
    V2  A bundle split with `more` is shown whole, at its last piece.
    V3  `seq` has no gaps and repeats nothing: anything else is the server's fault and raises.
    V4  Picture parts may come in any order, twice, and before their `asset`; a picture is whole when all its
        bytes are there, and its sha256 must be what the `asset` said.
    V5  An ack goes out with every 16 KiB of pictures, and 50 ms after anything else that came.
    V6  A ping is answered at once; one of ours goes out every second. 3 s of silence: connect anew.
    V7  Who interrupts or asks names the epoch that it leaves, and is in the next one from then on: words and
        pictures of an older epoch are acknowledged and not shown, a bundle that still waits for its last piece
        included. What else they bring (assets, errors, the end) counts.
    V8  The hello names, by hash, the pictures held from earlier; one of them is whole as soon as its `asset`
        came, and its bytes are not waited for.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from multimodal import wire
from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.events import AnyEvent, AssetReserved, ErrorRaised, StreamEnd, StreamStart
from multimodal.transport.base import Inbound

__all__ = [
    "ACK_BYTES",
    "ACK_DELAY",
    "PENDING_BYTES",
    "SERVER_SILENT",
    "Farewell",
    "Picture",
    "ViewerProtocol",
]

ACK_BYTES = 16 * 1024
"""A quarter of the server's window, so that it never runs dry between two acks."""
ACK_DELAY = 0.050
SERVER_SILENT = 3.0
"""Silence after which a viewer connects anew (the server pauses one second later)."""
PENDING_BYTES = 32 * 1024 * 1024
"""Bytes of unfinished pictures that are kept; more is the server's fault."""
_PING_INTERVAL = 1.0


@dataclass(frozen=True)
class Picture:
    """A picture arrived whole."""

    key: str
    data: bytes


@dataclass(frozen=True)
class Farewell:
    """The server closes, and why."""

    reason: str


_NOT_SHOWN = (StreamStart, AssetReserved, ErrorRaised, StreamEnd)
"""Events that put no word or picture of the turn before the viewer: they count whatever their epoch (V7)."""

Shown = tuple[AnyEvent, ...] | Picture | Farewell
"""What a message makes to show: one bundle, a whole picture, or the server's goodbye."""


class _Seq(msgspec.Struct):
    seq: int


class _Seqs(msgspec.Struct):
    events: list[_Seq]


_seqs = msgspec.json.Decoder(_Seqs)


class _Assembly:
    def __init__(self, total: int) -> None:
        self.data = bytearray(total)
        self.pieces: dict[int, int] = {}

    def add(self, offset: int, payload: bytes) -> bool:
        """True when the picture is whole."""
        if offset not in self.pieces:
            self.pieces[offset] = len(payload)
            self.data[offset : offset + len(payload)] = payload
        return sum(self.pieces.values()) == len(self.data)


class ViewerProtocol:
    """What a viewer says and shows (rules V1-V8 above).

    Args:
        hello: the first message; its cursor is the last `seq` already held.
        now: seconds, monotonic.
        held: the bytes of pictures from earlier tours; at most `wire.HAVE_LIMIT` of them are named in the hello.
    """

    def __init__(self, hello: wire.Hello | None = None, *, now: float = 0.0, held: Iterable[bytes] = ()) -> None:
        hello = wire.Hello() if hello is None else hello
        by_hash = [(hashlib.sha256(data).hexdigest(), data) for data in held]
        self._held = dict(by_hash[-wire.HAVE_LIMIT :])
        if self._held:
            have = tuple(digest[: wire.HAVE_CHARS] for digest in self._held)
            hello = msgspec.structs.replace(hello, have=have)
        self.seq = hello.cursor
        self.epoch = 0
        self.picture_bytes = 0
        self._out: deque[str] = deque([wire.encode(hello)])
        self._split: list[AnyEvent] = []
        self._assemblies: dict[str, _Assembly] = {}
        self._sha256: dict[str, str] = {}
        self._whole: dict[str, bytes] = {}
        self._acked_bytes = 0
        self._ack_at: float | None = None
        self._next_ping = now + _PING_INTERVAL
        self._ping_id = 0
        self._heard = now

    def receive(self, inbound: Inbound, now: float) -> list[Shown]:
        """One message of the server; what it makes to show, in order.

        Raises:
            RemoteProtocolError: malformed, a gap in `seq`, or a picture that is not what its asset said.
        """
        self._heard = now
        if inbound.channel == "images":
            return list(self._part(inbound.data, now))
        message = wire.decode_server(inbound.data)
        if isinstance(message, wire.Bundle):
            return self._bundle(message, inbound.data, now)
        if isinstance(message, wire.Ping):
            self._out.append(wire.encode(wire.Pong(message.id, message.t_ms, now * 1000)))
        elif isinstance(message, wire.Bye):
            return [Farewell(message.reason)]
        return []

    def ready(self, key: str, *, ok: bool = True, reason: str = "") -> None:
        """A picture is decoded, or cannot be."""
        self._out.append(wire.encode(wire.Ready(key, ok, reason)))

    def painted(self, seq: int, t_ms: float, frame: int, *, visible: bool = True) -> None:
        """A frame that applied everything up to `seq` was painted."""
        self._out.append(wire.encode(wire.Painted(seq, t_ms, frame, visible)))

    def pause(self) -> None:
        """Ask the server to stop pulling text."""
        self._out.append(wire.encode(wire.Pause()))

    def resume(self) -> None:
        """Ask the server to go on."""
        self._out.append(wire.encode(wire.Resume()))

    def interrupt(self) -> None:
        """Leave the turn that is being told (V7)."""
        self._out.append(wire.encode(wire.Interrupt(self.epoch)))
        self.epoch += 1

    def ask(self, text: str) -> None:
        """Leave the turn that is being told, and ask (V7).

        Raises:
            UsageError: the question is longer than `wire.ASK_LIMIT` characters.
        """
        if len(text) > wire.ASK_LIMIT:
            raise UsageError(f"a question of {len(text)} characters; the limit is {wire.ASK_LIMIT}")
        self._out.append(wire.encode(wire.Ask(self.epoch, text)))
        self.epoch += 1

    def bye(self, reason: str = "") -> None:
        """Say goodbye."""
        self._out.append(wire.encode(wire.Bye(reason)))

    def outgoing(self) -> list[str]:
        """What to send now, in order; each message is given once."""
        messages = list(self._out)
        self._out.clear()
        return messages

    def next_timer(self) -> float:
        """When `handle_timer` has something to do."""
        return self._next_ping if self._ack_at is None else min(self._next_ping, self._ack_at)

    def handle_timer(self, now: float) -> None:
        """Ack and ping when they are due (V5, V6)."""
        if self._ack_at is not None and now >= self._ack_at:
            self._ack()
        if now >= self._next_ping:
            self._ping_id += 1
            self._next_ping = now + _PING_INTERVAL
            self._out.append(wire.encode(wire.Ping(self._ping_id, now * 1000)))

    def silent(self, now: float) -> bool:
        """The server has said nothing for `SERVER_SILENT` seconds: connect anew (V6)."""
        return now - self._heard >= SERVER_SILENT

    def _bundle(self, bundle: wire.Bundle, data: str | bytes, now: float) -> list[Shown]:
        # From the message itself: kinds that this version does not know are skipped, but they have their place.
        try:
            numbers = _seqs.decode(data).events
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"a bundle with an event that has no place: {error}") from error
        for number in numbers:
            if number.seq != self.seq + 1:
                raise RemoteProtocolError(f"event {number.seq} follows {self.seq}: something was lost or doubled")
            self.seq = number.seq
        for event in bundle.events:
            if isinstance(event, AssetReserved) and event.variants:
                digest = self._sha256[event.key] = event.variants[0].sha256
                if digest in self._held:
                    self._whole[event.key] = self._held[digest]
        self._split += bundle.events
        self._ack_at = now + ACK_DELAY if self._ack_at is None else self._ack_at
        if bundle.more:
            return []
        events = tuple(event for event in self._split if event.epoch >= self.epoch or isinstance(event, _NOT_SHOWN))
        self._split = []
        if events:
            self.epoch = max(self.epoch, events[-1].epoch)
        shown: list[Shown] = [events] if events else []
        for key in [key for key in self._whole if key in self._sha256]:
            shown.append(self._verified(key, self._whole.pop(key)))
        return shown

    def _part(self, data: str | bytes, now: float) -> list[Picture]:
        if isinstance(data, str):
            raise RemoteProtocolError("text on the images channel")
        part = wire.decode_part(data)
        self.picture_bytes += len(part.payload)
        if self.picture_bytes - self._acked_bytes >= ACK_BYTES:
            self._ack()
        elif self._ack_at is None:
            self._ack_at = now + ACK_DELAY
        assembly = self._assemblies.get(part.key)
        if assembly is None:
            held = sum(len(other.data) for other in self._assemblies.values())
            held += sum(len(whole) for whole in self._whole.values())
            if held + part.total > PENDING_BYTES:
                raise RemoteProtocolError(f"more than {PENDING_BYTES} bytes of unfinished pictures")
            assembly = self._assemblies[part.key] = _Assembly(part.total)
        if part.total != len(assembly.data):
            raise RemoteProtocolError(f"picture {part.key!r} changed its size to {part.total} bytes")
        if not assembly.add(part.offset, part.payload):
            return []
        del self._assemblies[part.key]
        whole = bytes(assembly.data)
        if part.key not in self._sha256:
            # The two channels are not ordered against each other: the asset may still be on its way (V4).
            self._whole[part.key] = whole
            return []
        return [self._verified(part.key, whole)]

    def _verified(self, key: str, data: bytes) -> Picture:
        if hashlib.sha256(data).hexdigest() != self._sha256[key]:
            raise RemoteProtocolError(f"picture {key!r} is not what its asset said (sha256)")
        return Picture(key, data)

    def _ack(self) -> None:
        self._ack_at = None
        self._acked_bytes = self.picture_bytes
        self._out.append(wire.encode(wire.Ack(self.seq, self.picture_bytes)))
