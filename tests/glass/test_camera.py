"""The camera's parts that need no browser: reading a trace, asking again after a failed read."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.glass_camera import Camera, screenshots
from multimodal.glass_world import BINDING
from tests.support import run

JPEG = b"\xff\xd8\xff\xe0" + bytes(range(200))


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _packet(picture: bytes) -> bytes:
    text = b'"' + base64.b64encode(picture) + b'"'
    noise = _varint(8 << 3) + _varint(123456789) + _varint(9 << 3 | 1) + bytes(8) + _varint(7 << 3 | 5) + bytes(4)
    other = _field(4, _field(9, b'{"frame_sequence": 3}'))
    return _field(1, noise + _field(11, other + _field(4, _varint(1 << 3) + _varint(5) + _field(9, text))))


def test_pictures_come_out_of_a_trace_in_order() -> None:
    trace = b"".join(_packet(JPEG + bytes([n])) for n in range(3)) + _field(1, b"") + _field(2, b"other")
    assert screenshots(trace) == [JPEG + bytes([n]) for n in range(3)]


def test_a_truncated_trace_gives_what_is_whole() -> None:
    trace = _packet(JPEG) + _packet(JPEG)
    for cut in range(len(trace)):
        assert screenshots(trace[:cut]) == [JPEG] * (cut // len(_packet(JPEG)))


@given(st.binary(max_size=200))
def test_garbage_is_no_trace_and_no_error(garbage: bytes) -> None:
    assert screenshots(garbage) == []


class _Cdp:
    """A browser that fails some reads and hands out a trace in small pieces."""

    def __init__(self, trace: bytes, failures: int) -> None:
        self.trace, self.failures = trace, failures
        self.handlers: dict[str, Any] = {}
        self.sent: list[str] = []

    def on(self, name: str, handler: Any) -> None:
        self.handlers[name] = handler

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.sent.append(method)
        if method == "Tracing.end":
            self.handlers["Tracing.tracingComplete"]({"stream": "1"})
        if method != "IO.read":
            return {}
        if self.failures:
            self.failures -= 1
            raise RuntimeError("Read failed")
        assert params is not None
        start = params["offset"]
        piece = self.trace[start : start + 100]
        return {"data": base64.b64encode(piece).decode(), "base64Encoded": True, "eof": start + 100 >= len(self.trace)}


def _camera(cdp: Any) -> tuple[Camera, list[dict[str, Any]], list[bytes]]:
    notes: list[dict[str, Any]] = []
    shots: list[bytes] = []
    return Camera(cdp, notes, shots), notes, shots


def test_a_failed_read_is_tried_again() -> None:
    cdp = _Cdp(_packet(JPEG) + _packet(JPEG), failures=2)

    async def scenario() -> list[bytes]:
        camera, _, shots = _camera(cdp)
        await camera.start()
        await camera.stop()
        return shots

    assert run(scenario()) == [JPEG, JPEG]
    assert cdp.sent[0] == "Tracing.start"
    assert cdp.sent[-1] == "IO.close"


def test_a_read_that_goes_on_failing_is_an_error() -> None:
    async def scenario() -> None:
        camera, _, _ = _camera(_Cdp(b"", failures=99))
        await camera.start()
        await camera.stop()

    with pytest.raises(RuntimeError, match="Read failed"):
        run(scenario())


def test_only_its_own_notes_are_taken() -> None:
    camera, notes, _ = _camera(_Cdp(b"", 0))
    camera.noted({"name": "somebodyElse", "payload": "[1]"})
    camera.noted({"name": BINDING, "payload": '[{"kind": "gap", "n": 1, "ms": 60}]'})
    assert notes == [{"kind": "gap", "n": 1, "ms": 60}]
