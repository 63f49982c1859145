"""Where the fuzzers begin: real messages to spoil, and the nastiest ones known, which always come first."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec

from multimodal import wire
from multimodal.events import (
    AnyEvent,
    AssetReserved,
    CueMissed,
    ErrorRaised,
    Gap,
    Interrupted,
    ProductBrief,
    Reveal,
    Snapshot,
    StreamEnd,
    StreamStart,
    Swap,
    SyncMark,
    Text,
)
from multimodal.values import Variant

__all__ = ["CLIENT", "DEPTH", "EVENTS", "NASTY_PARTS", "NASTY_TEXT", "PARTS", "SERVER", "VALUES"]

DEPTH = 3000
"""Three times as deep as Python's own limit of recursion."""

CLIENT: list[dict[str, Any]] = [
    msgspec.to_builtins(message)
    for message in (
        wire.Hello(cursor=3, formats=("image/webp", "image/jpeg"), viewport=(800, 600), dpr=2.0, have=("0" * 16,)),
        wire.Hello(cursor=-1, resume=True, join_token="a.b.c"),
        wire.Ready("kettle", False, "no decoder"),
        wire.Need("kettle"),
        wire.Resend("kettle", ((0, 8192), (16384, 24576))),
        wire.Painted(7, 16.7, 2, False),
        wire.Ack(7, 8192),
        wire.Pause(),
        wire.Resume(),
        wire.Interrupt(0),
        wire.Ask(3, "Is it loud? 它吵吗？"),
        wire.Skip(0),
        wire.Rewind(0, 3),
        wire.Ping(1, 2.0),
        wire.Pong(1, 2.0, 3.0),
        wire.Bye("seen enough"),
    )
]
"""One of each of a viewer's messages."""

_HEAD = (1, "s", 0)
_ASSET = AssetReserved(
    *_HEAD,
    1,
    0.0,
    0,
    key="kettle",
    product="k1",
    width_px=300,
    height_px=300,
    alt="a kettle",
    placeholder="data:image/webp;base64,AAAA",
    variants=(Variant("image/webp", 300, 1000, "0" * 64, None),),
    color="#ffeedd",
)
_REVEAL = Reveal(*_HEAD, 4, 40.0, 3, cue=0, key="kettle", product="k1", anchor=2, mark=3, preview=True)
_START = StreamStart(*_HEAD, 0, 0.0, 0, 3, (ProductBrief("k1", "Kettle", ("the kettle",), "29.90", "EUR"),))

_TYPED: list[AnyEvent] = [
    _START,
    _ASSET,
    Text(*_HEAD, 2, 20.0, 3, 0, 3, "This kettle boils "),
    SyncMark(*_HEAD, 3, 40.0, 3, 3, 18, 1),
    _REVEAL,
    Swap(*_HEAD, 5, 60.0, 3, 0, "kettle", True),
    CueMissed(*_HEAD, 6, 60.0, 3, 1, "lamp", 3, "late"),
    Interrupted(1, "s", 1, 7, 70.0, 3),
    ErrorRaised(*_HEAD, 8, 80.0, 3, "pipe_failed", "the source failed"),
    Gap(*_HEAD, 8, 80.0, 3, 2),
    Snapshot(*_HEAD, 8, 80.0, 3, start=_START, text="This kettle ", assets=(_ASSET,), shown=(_REVEAL,), previews=(0,)),
    StreamEnd(*_HEAD, 9, 90.0, 3, unused=("stool",)),
]
EVENTS: list[dict[str, Any]] = [msgspec.to_builtins(event) for event in _TYPED]
"""One of each event."""

SERVER: list[dict[str, Any]] = [
    {"type": "bundle", "v": 1, "events": EVENTS[:5], "more": False},
    {"type": "bundle", "v": 1, "events": EVENTS[2:3], "more": True},
    {"type": "bundle", "v": 1, "events": EVENTS[9:11], "more": False},
    {"type": "bundle", "v": 1, "events": [*EVENTS[:1], {**EVENTS[2], "kind": "weather", "seq": 1}, EVENTS[2]]},
    {"type": "seat", "path": "/whep/demo/abc"},
    {"type": "tick"},
    {"type": "ping", "id": 1, "t_ms": 2.0},
    {"type": "pong", "id": 1, "t_ms": 2.0, "at_ms": 3.0},
    {"type": "bye", "reason": "the server is stopping"},
]
"""One of each of a server's messages."""

PARTS = [
    wire.encode_part(wire.Part("kettle", 0, 2000, b"x" * 1000)),
    wire.encode_part(wire.Part("水壶", 1000, 2000, bytes(range(256)) * 3)),
    wire.encode_part(wire.Part("", 0, 1, b"x")),
]

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**32,
    2**53 - 1,
    2**53,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.0,
    -0.0,
    1.5,
    1e308,
    -1e308,
    5e-324,
    "",
    "x",
    "x" * 300,
    "\x00",
    "\u202e\u2028",
    "é" * 100,
    "😀",
    "../../etc/passwd",
    "<script>",
    "1",
    [],
    [[]],
    [None] * 100,
    [0, 0],
    [[0, 1]],
    [[5, 4]],
    {},
    {"type": "hello"},
    {"kind": "text"},
    {"": 0},
]
"""What stands in a field instead of what belongs there."""

_DEEP_LIST, _DEEP_OBJECT = "[" * DEPTH, '{"a":' * DEPTH

NASTY_TEXT: list[str | bytes] = [
    "",
    b"",
    " ",
    "\x00",
    "\ufeff{}",
    "\ud800",
    "{}",
    "[]",
    "null",
    "0",
    '"hello"',
    '{"type":null}',
    '{"type":"hello"',
    '{"type":"hello","type":"bye"}',
    '{"type":"hello","v":2}',
    '{"type":"hello","v":1.0}',
    '{"type":"hello","cursor":1e400}',
    '{"type":"hello","cursor":' + "9" * 5000 + "}",
    '{"type":"hello","cursor":' + "9" * 60_000 + "}",
    '{"type":"hello","dpr":NaN}',
    '{"type":"hello","dpr":1e-400}',
    '{"type":"hello","viewport":[1]}',
    '{"type":"hello","viewport":[1,2,3]}',
    '{"type":"hello","formats":["' + "x" * 60_000 + '"]}',
    '{"type":"hello","formats":[' + '"",' * 20_000 + '""]}',
    '{"type":"hello","have":[' + '"0",' * 600 + '"0"]}',
    '{"type":"hello","x":' + _DEEP_LIST,
    '{"type":"hello","x":' + _DEEP_LIST + "]" * DEPTH + "}",
    '{"type":"hello","x":' + _DEEP_OBJECT,
    _DEEP_LIST,
    _DEEP_OBJECT,
    '{"type":"bundle","v":1,"events":' + _DEEP_LIST,
    '{"type":"bundle","v":1,"events":[' + '{"kind":"weather","x":' + _DEEP_OBJECT,
    '{"type":"bundle","v":1,"events":[{"kind":"weather"}]}',
    '{"type":"bundle","v":1,"events":[{"kind":"weather","seq":"0"}]}',
    '{"type":"bundle","v":1,"events":[{"kind":"weather","seq":0,"v":"1"}]}',
    '{"type":"bundle","v":1,"events":[null]}',
    '{"type":"bundle","v":1,"events":[0,1]}',
    '{"type":"bundle","v":1,"events":[' + "{}," * 20_000 + "{}]}",
    '{"type":"bundle","v":1e400,"events":[]}',
    '{"type":"bundle","v":1,"events":[],"more":true}',
    '{"type":"bye","reason":"\ud800"}',
    '{"type":"bye","reason":"\\ud800"}',
    '{"type":"bye","reason":"\\u0000"}',
    '{"type":"bye","reason":"' + "x" * 65_000 + '"}',
    b'{"type":"bye","reason":"\xff"}',
    b'{"type":"bye","reason":"\xed\xa0\x80"}',
    b'{"type":"bye","reason":"\xf4\x90\x80\x80"}',
    b'\xff\xfe{\x00"\x00',
    '{"type":"ping","id":' + "9" * 4000 + "}",
    '{"type":"ping","id":9223372036854775808}',
    '{"type":"ping","id":-9223372036854775809,"t_ms":-1e308}',
    '{"type":"pong","id":0,"t_ms":-1e308,"at_ms":1e308}',
    '{"type":"painted","seq":9007199254740993,"t_ms":1,"frame":1}',
    '{"type":"ack","seq":-9007199254740991,"picture_bytes":-9007199254740991}',
    '{"type":"resend","key":"kettle","ranges":[]}',
    '{"type":"resend","key":"kettle","ranges":[[4,4]]}',
    '{"type":"resend","key":"kettle","ranges":[[9007199254740991,1]]}',
    '{"type":"resend","key":"kettle","ranges":[' + "[0,1]," * 64 + "[0,1]]}",
    '{"type":"rewind","epoch":0,"mark":9007199254740991}',
    '{"type":"ask","epoch":0,"text":"' + "é" * 2001 + '"}',
    '{"type":"snapshot","assets":' + _DEEP_LIST,
]
"""Known offenders, and their like. Each made some decoder raise what nobody documented, or might have."""


def _part(key: bytes, offset: int, total: int, payload: bytes, *, magic: int = 0x4D, version: int = 1) -> bytes:
    return struct.pack(">BBHIII", magic, version, len(key), offset, total, zlib.crc32(payload)) + key + payload


NASTY_PARTS: list[bytes] = [
    b"",
    b"M",
    bytes(15),
    bytes(16),
    b"\xff" * 16,
    b"\xff" * 60_000,
    _part(b"k", 0, 1, b"x", magic=0),
    _part(b"k", 0, 1, b"x", version=2),
    _part(b"k", 0, 0, b""),
    _part(b"k", 0, 0, b"x"),
    _part(b"k", 1, 1, b"x"),
    _part(b"k", 2**32 - 1, 2**32 - 1, b"x"),
    _part(b"k", 2**32 - 2, 2**32 - 1, b"x"),
    _part(b"k", 0, 2**32 - 1, b"x"),
    _part(b"\xff\xfe", 0, 1, b"x"),
    _part(b"k" * 65_535, 0, 1, b"x"),
    _part(b"k" * 65_535, 0, 1, b"x")[:100],
    _part(b"k", 0, 1, b"x")[:-1],
    _part(b"k", 0, 1, b"x")[:16],
]
