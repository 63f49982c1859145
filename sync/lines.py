"""The lines of a recording; their format stands at the head of `multimodal.sync.log`. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from multimodal.events import AnyEvent
from multimodal.sync.clocks import ClockSample
from multimodal.values import Cue
from multimodal.wire import decode_event, encode_event

__all__ = ["ACK_MS", "Arrived", "Painted", "Planned", "Ready", "Receipt", "decode_line", "record_line"]

ACK_MS = 50.0
"""A viewer acknowledges what came at the latest after this long: so coarse are arrivals that its acks tell of."""


class Arrived(msgspec.Struct, frozen=True, tag_field="vantage", tag="arrived", omit_defaults=True):
    """The event `seq` reached the viewer at `t_ms` on the viewer's clock, in milliseconds.

    `clock` = ``server``: told by the viewer's acknowledgement, and `t_ms` is when that came, in `pts_ms`.
    """

    t_ms: float
    seq: int
    clock: Literal["viewer", "server"] = "viewer"


class Painted(msgspec.Struct, frozen=True, tag_field="vantage", tag="painted"):
    """An animation frame, `frame` by number and `t_ms` by the viewer's clock, applied everything up to `seq`.

    `visible` = False: the page was hidden; such a frame proves nothing.
    """

    t_ms: float
    frame: int
    seq: int
    visible: bool = True


class Ready(msgspec.Struct, frozen=True, tag_field="vantage", tag="ready"):
    """The viewer said at `t_ms`, in `pts_ms`, that a picture can be painted at once, or (`ok` = False) why not."""

    t_ms: float
    key: str
    ok: bool = True
    reason: str = ""


Receipt = Arrived | Painted | Ready | ClockSample
"""Lines that tell of the viewer."""


class _Emitted(msgspec.Struct, tag_field="vantage", tag="emitted"):
    event: msgspec.Raw


class Planned(Cue, frozen=True, tag_field="vantage", tag="planned", kw_only=True):
    """A cue as declared; `cue` is its number."""

    cue: int


class _Peek(msgspec.Struct):
    vantage: str


class _Seq(msgspec.Struct):
    seq: int = -1


_line_decoder: msgspec.json.Decoder[_Emitted | Planned | Receipt] = msgspec.json.Decoder(_Emitted | Planned | Receipt)
_peek_decoder = msgspec.json.Decoder(_Peek)
_VANTAGES = frozenset({"planned", "emitted", "arrived", "painted", "ready", "clock"})


def record_line(item: AnyEvent | Receipt) -> bytes:
    """One line of a recording, with its newline: what a recorder appends as things happen."""
    if isinstance(item, Receipt):
        return msgspec.json.encode(item) + b"\n"
    return b'{"vantage":"emitted","event":' + encode_event(item) + b"}\n"


def decode_line(line: bytes) -> AnyEvent | Planned | Receipt | int | None:
    """One line; an int = the `seq` of an event of an unknown kind, None = a vantage that is not known."""
    try:
        item = _line_decoder.decode(line)
    except msgspec.ValidationError:
        if _peek_decoder.decode(line).vantage not in _VANTAGES:
            return None
        raise
    if not isinstance(item, _Emitted):
        return item
    event = decode_event(bytes(item.event))
    return event if event is not None else msgspec.json.decode(item.event, type=_Seq).seq
