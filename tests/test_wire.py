"""What viewers may say, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multimodal import wire
from multimodal.errors import RemoteProtocolError

MESSAGES: list[wire.ClientMessage] = [
    wire.Hello(cursor=3, formats=("image/webp",), viewport=(800, 600)),
    wire.Ready("kettle", False, "no decoder"),
    wire.Painted(7, 16.7, 2, False),
    wire.Ack(7, 8192),
    wire.Pause(),
    wire.Resume(),
    wire.Interrupt(0),
    wire.Ask(3, "Is it loud? 它吵吗？"),
    wire.Ask(3, "x" * wire.ASK_LIMIT),
    wire.Ping(1, 2.0),
    wire.Pong(1, 2.0, 3.0),
    wire.Bye("seen enough"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_client_message_survives_the_wire(message: wire.ClientMessage) -> None:
    assert wire.decode_client(wire.encode(message)) == message
    assert wire.decode_client(wire.encode(message).encode()) == message


@pytest.mark.parametrize(
    "data",
    [
        '{"type":"interrupt"}',
        '{"type":"interrupt","epoch":-1}',
        '{"type":"interrupt","epoch":"0"}',
        '{"type":"interrupt","epoch":null}',
        '{"type":"interrupt","epoch":1.5}',
        '{"type":"ask","epoch":0}',
        '{"type":"ask","text":"Is it loud?"}',
        '{"type":"ask","epoch":-1,"text":"Is it loud?"}',
        '{"type":"ask","epoch":0,"text":7}',
        b'{"type":"ask","epoch":0,"text":"\xff"}',
    ],
)
def test_a_malformed_turn_is_refused(data: str | bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed client message"):
        wire.decode_client(data)


@pytest.mark.parametrize(
    "data",
    [
        '{"a":' * 5000,
        '{"type":"hello","x":' + "[" * 5000,
        '{"type":"bundle","v":1,"events":[' + "[" * 5000,
        "\ud800",
        '{"type":"bye","reason":"\ud800"}',
        b'{"type":"bye","kind":"text","reason":"\xed\xa0\x80"}',
        b"\xff\xfe{",
        "",
    ],
    ids=range(8),
)
def test_no_message_makes_another_fault_than_a_malformed_one(data: str | bytes) -> None:
    for decode in (wire.decode_client, wire.decode_server, wire.decode_event):
        with pytest.raises(RemoteProtocolError):
            decode(data)


@pytest.mark.parametrize("field", ['"ack","seq":', '"ping","id":', '"hello","cursor":', '"interrupt","epoch":'])
@pytest.mark.parametrize("number", [2**53, 10**4000])
def test_a_number_that_no_browser_counts_to_is_refused(field: str, number: int) -> None:
    with pytest.raises(RemoteProtocolError, match="malformed client message"):
        wire.decode_client('{"type":' + field + str(number) + "}")


@pytest.mark.parametrize("decode", [wire.decode_client, wire.decode_server, wire.decode_event])
def test_a_refusal_does_not_repeat_what_it_refuses(decode: Callable[[str], object]) -> None:
    for data in ('{"type":"%s"}', '{"kind":7,"type":"%s"}', '{"type":"ready","key":"%s"', '"%s"'):
        said = ""
        try:
            decode(data % ("x" * 60_000))
        except RemoteProtocolError as error:
            said = str(error)
        assert len(said) < 300
