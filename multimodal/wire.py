"""Events, client messages and picture parts <-> messages. Pure: bytes in, values out, no sockets and no clock.

Two channels carry everything. `events` is ordered and reliable and carries JSON text, one object per message with a
`type`; `images` is reliable and unordered and carries binary picture parts that describe themselves.

    server -> viewer   bundle  {"type":"bundle","v":1,"events":[...],"more":false}
                       seat    where this viewer comes back to, on roads whose answer has no Location
                       tick    keeps the road warm after a reveal, a sentence end or a pause; no answer
    both ways          ping    answered at once by pong with the same id and t
                       bye     a clean close, with a reason
    viewer -> server   hello, ready, need, resend, painted, ack, pause, resume
                       interrupt, ask: leave the turn of the epoch they name, and answer this question
                       skip, rewind: go on with its next chapter, or again from one of its marks

A picture part is a 16-byte header (big-endian: magic "M", version, key length, offset, total, CRC-32 of the payload),
the key in UTF-8, and the payload.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from multimodal.errors import MessageTooLarge, RemoteProtocolError
from multimodal.events import VERSION, AnyEvent, Event

__all__ = [
    "ASK_LIMIT",
    "EVENTS_CHANNEL",
    "HAVE_CHARS",
    "HAVE_LIMIT",
    "IMAGES_CHANNEL",
    "MESSAGE_LIMIT_BYTES",
    "Ack",
    "Ask",
    "Bundle",
    "Bye",
    "ClientMessage",
    "Hello",
    "Interrupt",
    "Need",
    "Painted",
    "Part",
    "Pause",
    "Ping",
    "Pong",
    "Ready",
    "Resend",
    "Resume",
    "Rewind",
    "Seat",
    "ServerMessage",
    "Skip",
    "SpoiltPart",
    "Tick",
    "decode_client",
    "decode_event",
    "decode_part",
    "decode_server",
    "encode",
    "encode_bundle",
    "encode_event",
    "encode_part",
]

EVENTS_CHANNEL = (0, "events")
"""Negotiated id and label of the ordered JSON channel (ASCII: other labels never open in aiortc 1.16)."""
IMAGES_CHANNEL = (1, "images")
"""Negotiated id and label of the unordered binary channel."""

MESSAGE_LIMIT_BYTES = 60 * 1024
"""Nothing larger is ever sent: 64 KiB is the floor that every peer takes, and one SFU drops 65,536 silently."""


ASK_LIMIT = 2000
"""Characters of one question."""

HAVE_CHARS = 16
"""So many first hex digits of a picture's SHA-256 tell whether a viewer has it: that two among thousands begin alike is
less likely than one in 10^12, and the viewer compares the whole."""
HAVE_LIMIT = 512
"""Pictures that a hello may name, so that it stays a small message."""

RANGES_LIMIT = 64
"""Ranges that one resend may name: those of a picture of 500 KB, were every other part of it lost."""

_EXACT = 2**53 - 1
_Whole = Annotated[int, msgspec.Meta(ge=-_EXACT, le=_EXACT)]
"""What a viewer counts with: a browser has no larger whole numbers, and one of thousands of digits is no count."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=_EXACT)]
_Epoch = _Count


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    """The viewer's first message: the server says nothing before it.

    `cursor` is the last `seq` the viewer holds (-1 = none), `viewport` its width and height in CSS pixels, `have` the
    beginnings (`HAVE_CHARS`) of the SHA-256 of pictures that it holds from earlier: their bytes are not sent again.
    `resume`: it has been here before, and gets all that follows its cursor, from the first event on where that is -1;
    else one that comes when the stream is running gets a snapshot first.
    """

    v: _Whole = VERSION
    cursor: _Whole = -1
    formats: tuple[str, ...] = ()
    viewport: tuple[_Whole, _Whole] = (0, 0)
    dpr: float = 1.0
    save_data: bool = False
    reduced_motion: bool = False
    join_token: str = ""
    have: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=HAVE_LIMIT)] = ()
    resume: bool = False


class Ready(msgspec.Struct, frozen=True, tag_field="type", tag="ready"):
    """A picture is decoded and can be painted at once; `ok=False`: it cannot be, and why."""

    key: str
    ok: bool = True
    reason: str = ""


class Need(msgspec.Struct, frozen=True, tag_field="type", tag="need"):
    """A picture that the hello said to hold cannot be found any more: its bytes have to come after all."""

    key: str


class Resend(msgspec.Struct, frozen=True, tag_field="type", tag="resend"):
    """These byte ranges [from, to) of a picture did not come, or came spoilt: they have to be sent again."""

    key: str
    ranges: Annotated[
        tuple[tuple[_Count, Annotated[int, msgspec.Meta(ge=1, le=_EXACT)]], ...],
        msgspec.Meta(min_length=1, max_length=RANGES_LIMIT),
    ]


class Painted(msgspec.Struct, frozen=True, tag_field="type", tag="painted"):
    """One per animation frame that applied something.

    Args:
        seq: the last `seq` applied in the frame.
        t_ms: the frame's own time on the viewer's clock, in milliseconds.
        frame: counts animation frames, so that two receipts of one frame can be told.
        visible: False = the page was hidden; such a frame proves nothing.
    """

    seq: _Whole
    t_ms: float
    frame: _Whole
    visible: bool = True


class Ack(msgspec.Struct, frozen=True, tag_field="type", tag="ack"):
    """Cumulative: the last contiguous `seq` that arrived, and the picture bytes (payload only) that arrived in all."""

    seq: _Whole = -1
    picture_bytes: _Whole = 0


class Pause(msgspec.Struct, frozen=True, tag_field="type", tag="pause"):
    """Stop pulling text; pictures go on being prepared."""


class Resume(msgspec.Struct, frozen=True, tag_field="type", tag="resume"):
    """Go on after a pause."""


class Interrupt(msgspec.Struct, frozen=True, tag_field="type", tag="interrupt"):
    """Stop the turn of this epoch (R9); one that is over already stays over, and nothing changes."""

    epoch: _Epoch


class Ask(msgspec.Struct, frozen=True, tag_field="type", tag="ask"):
    """Stop the turn of this epoch, and answer `text` in the next; one above `ASK_LIMIT` characters is refused."""

    epoch: _Epoch
    text: str


class Skip(msgspec.Struct, frozen=True, tag_field="type", tag="skip"):
    """Go on with the next chapter of the turn of this epoch (R9)."""

    epoch: _Epoch


class Rewind(msgspec.Struct, frozen=True, tag_field="type", tag="rewind"):
    """Tell the turn of this epoch again from `mark`, a boundary of the stream (R9)."""

    epoch: _Epoch
    mark: _Count


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    """Answered at once with a `Pong` of the same `id` and `t_ms` (the sender's clock)."""

    id: _Whole
    t_ms: float = 0.0


class Pong(msgspec.Struct, frozen=True, tag_field="type", tag="pong"):
    """The answer to a `Ping`; `at_ms` is the answering side's clock."""

    id: _Whole
    t_ms: float = 0.0
    at_ms: float = 0.0


class Bye(msgspec.Struct, frozen=True, tag_field="type", tag="bye"):
    """A clean close, from either side."""

    reason: str = ""


class Seat(msgspec.Struct, frozen=True, tag_field="type", tag="seat"):
    """The viewer's place in its session, as a path of the server: it comes back there after a lost connection, by
    whatever road. On the road of an offer this is the answer's `Location`."""

    path: str


class Tick(msgspec.Struct, frozen=True, tag_field="type", tag="tick"):
    """Carries nothing: a later packet makes a lost last one noticed before the 1 s retransmit timer."""


class Bundle(msgspec.Struct, frozen=True, tag_field="type", tag="bundle"):
    """What was emitted at one instant; `more=True`: the rest follows, apply at the last part."""

    events: tuple[AnyEvent, ...]
    more: bool = False
    v: int = VERSION


class Part(msgspec.Struct, frozen=True):
    """One piece of a picture: `payload` belongs at `offset` of `total` bytes of the picture `key`."""

    key: str
    offset: int
    total: int
    payload: bytes


ClientMessage = (
    Hello | Ready | Need | Resend | Painted | Ack | Pause | Resume | Interrupt | Ask | Skip | Rewind | Ping | Pong | Bye
)
ServerMessage = Bundle | Seat | Tick | Ping | Pong | Bye

_MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises over bytes that are no message: nested a thousand deep, or text that UTF-8 cannot hold, too."""

_QUOTED = 200
"""Characters of its reason that a refusal gives."""

_encoder = msgspec.json.Encoder()
_client_decoder: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)
_control_decoder: msgspec.json.Decoder[Seat | Tick | Ping | Pong | Bye] = msgspec.json.Decoder(
    Seat | Tick | Ping | Pong | Bye
)
_event_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_KNOWN_EVENTS = frozenset(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)


class _RawBundle(msgspec.Struct):
    """A bundle with its events still encoded, so that an unknown kind can be skipped and its neighbours kept."""

    events: list[msgspec.Raw]
    more: bool = False
    v: int = VERSION


class _Peek(msgspec.Struct):
    type: str = ""
    kind: str = ""
    v: int = VERSION


_raw_bundle_decoder = msgspec.json.Decoder(_RawBundle)
_peek_decoder = msgspec.json.Decoder(_Peek)


def encode(message: ClientMessage | Seat | Tick | Ping | Pong | Bye) -> str:
    """The JSON text of one message that is not a bundle."""
    return _encoder.encode(message).decode()


def encode_event(event: Event) -> bytes:
    """The JSON of one event, as it stands in bundles and in recordings."""
    return _encoder.encode(event)


def decode_event(data: bytes | str) -> AnyEvent | None:
    """One event; None for a kind that this version does not know (skipped, as section 5 of the contract says).

    Raises:
        RemoteProtocolError: not JSON, a malformed event, or another major version.
    """
    try:
        return _event_decoder.decode(data)
    except _MALFORMED as error:
        peek = _peek(data, "event")
        if peek.v != VERSION:
            raise RemoteProtocolError(f"event of version {peek.v}; this side speaks {VERSION}") from error
        if peek.kind and peek.kind not in _KNOWN_EVENTS:
            return None
        raise _malformed("event", error) from error


def encode_bundle(events: Sequence[Event], limit_bytes: int = MESSAGE_LIMIT_BYTES) -> Iterator[str]:
    """One bundle as one message, or as several of which all but the last say `more`.

    Args:
        events: what was emitted at one instant; empty yields nothing.
        limit_bytes: no message is larger, in UTF-8 bytes.

    Raises:
        MessageTooLarge: a single event does not fit.
    """
    room = limit_bytes - len(_HEAD) - len(_TAIL_MORE)
    pieces: list[bytes] = []
    used = 0
    for event in events:
        data = _encoder.encode(event)
        if len(data) > room:
            raise MessageTooLarge(len(data), room)
        if used + len(data) + 1 > room and pieces:
            yield (_HEAD + b",".join(pieces) + _TAIL_MORE).decode()
            pieces, used = [], 0
        pieces.append(data)
        used += len(data) + 1
    if pieces:
        yield (_HEAD + b",".join(pieces) + _TAIL_LAST).decode()


_HEAD = b'{"type":"bundle","v":%d,"events":[' % VERSION
_TAIL_MORE = b'],"more":true}'
_TAIL_LAST = b'],"more":false}'


def decode_client(data: str | bytes) -> ClientMessage:
    """A message of the viewer.

    Raises:
        RemoteProtocolError: not JSON, an unknown type, a missing or wrong field, another major version.
    """
    try:
        message = _client_decoder.decode(data)
    except _MALFORMED as error:
        raise _malformed("client message", error) from error
    if isinstance(message, Hello) and message.v != VERSION:
        raise RemoteProtocolError(f"hello of version {message.v}; this side speaks {VERSION}")
    return message


def decode_server(data: str | bytes) -> ServerMessage | None:
    """A message of the server; None for a type that this version does not know.

    Raises:
        RemoteProtocolError: not JSON, malformed, or another major version.
    """
    peek = _peek(data, "server message")
    try:
        if peek.type == "bundle":
            if peek.v != VERSION:
                raise RemoteProtocolError(f"bundle of version {peek.v}; this side speaks {VERSION}")
            raw = _raw_bundle_decoder.decode(data)
            decoded = (decode_event(bytes(item)) for item in raw.events)
            return Bundle(tuple(event for event in decoded if event is not None), raw.more, raw.v)
        if peek.type in {"seat", "tick", "ping", "pong", "bye"}:
            return _control_decoder.decode(data)
    except _MALFORMED as error:
        raise _malformed("server message", error) from error
    return None


def _peek(data: Any, what: str) -> _Peek:
    try:
        return _peek_decoder.decode(data)
    except _MALFORMED as error:
        raise _malformed(what, error) from error


def _malformed(what: str, error: Exception) -> RemoteProtocolError:
    # msgspec quotes a wrong tag whole, and a peer may send one of any length.
    return RemoteProtocolError(f"malformed {what}: {str(error)[:_QUOTED]}")


class SpoiltPart(RemoteProtocolError):  # noqa: N818 - it says what came
    """A picture part whose payload is not what left: the bytes [offset, offset + size_bytes) have to be sent again.

    Args:
        key, offset, total: as its header says, which nothing vouches for.
        size_bytes: of the payload.
    """

    def __init__(self, key: str, offset: int, total: int, size_bytes: int) -> None:
        super().__init__("picture part with a wrong checksum")
        self.key, self.offset, self.total, self.size_bytes = key, offset, total, size_bytes


_PART = struct.Struct(">BBHIII")
_PART_MAGIC, _PART_VERSION = 0x4D, 1


def encode_part(part: Part) -> bytes:
    """The binary message of one picture part."""
    key = part.key.encode()
    header = _PART.pack(_PART_MAGIC, _PART_VERSION, len(key), part.offset, part.total, zlib.crc32(part.payload))
    return header + key + part.payload


def decode_part(data: bytes) -> Part:
    """A picture part, verified.

    Raises:
        RemoteProtocolError: too short, another version, or out of bounds.
        SpoiltPart: a wrong checksum.
    """
    if len(data) < _PART.size:
        raise RemoteProtocolError(f"picture part of {len(data)} bytes is shorter than its header")
    magic, version, key_length, offset, total, checksum = _PART.unpack_from(data)
    if magic != _PART_MAGIC or version != _PART_VERSION:
        raise RemoteProtocolError(f"not a picture part of version {_PART_VERSION}")
    start = _PART.size + key_length
    payload = data[start:]
    if start > len(data) or not payload or offset + len(payload) > total:
        raise RemoteProtocolError(f"picture part reaches out of bounds ({offset}+{len(payload)} of {total})")
    try:
        key = data[_PART.size : start].decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("picture part with a key that is not UTF-8") from error
    if zlib.crc32(payload) != checksum:
        raise SpoiltPart(key, offset, total, len(payload))
    return Part(key, offset, total, payload)
