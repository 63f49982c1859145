"""WebSockets whose bytes are none: at a real uvicorn they end with a code, are counted, and are no error in its log."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import struct
from contextlib import suppress
from functools import partial

import pytest
import uvicorn

from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas, Traffic
from multimodal.serving.run import SmallBuffers
from multimodal.transport.viewer import Viewer
from multimodal.transport.websocket_client import join_websocket
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.serving.test_app import WORDS, make_stream
from tests.support import run
from tests.transport.leaks import nothing_left, until

TEXT, CONTINUED, CLOSE, PING = 1, 0, 8, 9


def frame(opcode: int, data: bytes, *, last: bool = True, masked: bool = True) -> bytes:
    """RFC 6455, section 5.2; the mask is zero, so that the bytes stay as they are."""
    mask = 0x80 if masked else 0
    size = bytes([mask | len(data)]) if len(data) < 126 else bytes([mask | 127]) + struct.pack(">Q", len(data))
    return bytes([last << 7 | opcode]) + size + (bytes(4) if masked else b"") + data


def upgrade(headers: bytes = b"") -> bytes:
    return (
        b"GET /ws/demo HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        + base64.b64encode(os.urandom(16))
        + b"\r\n"
        + headers
        + b"\r\n"
    )


SPOILT = {
    "no UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "no UTF-8, over fragments": (frame(TEXT, b"\xe2", last=False) + frame(CONTINUED, b"\x28"), 1007),
    "half a character": (frame(TEXT, b'{"type":"\xe2'), 1007),
    "no mask": (frame(TEXT, b"{}", masked=False), 1002),
    "an unknown kind of frame": (frame(3, b"x"), 1002),
    "the end of nothing": (frame(CONTINUED, b"x"), 1002),
    "a long ping": (frame(PING, b"x" * 130), 1002),
    "a close whose reason is no UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "too large": (frame(TEXT, b"x" * (MESSAGE_LIMIT_BYTES + 1)), 1009),
}


async def sent(port: int, data: bytes) -> bytes:
    """What a server answers, up to where it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        head, body = data.split(b"\r\n\r\n", 1)
        writer.write(head + b"\r\n\r\n")
        if body:
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.write(body)
        with suppress(OSError):  # it closes over what it has not read
            while more := await reader.read(65536):
                answer += more
        return answer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _counted(traffic: Traffic, number: int) -> bool:
    return traffic.spoilt == number


@pytest.mark.parametrize("protocol", [SmallBuffers, "auto"], ids=["ours", "uvicorn's own"])
def test_spoilt_frames_end_quietly_and_are_counted(
    protocol: type[SmallBuffers] | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "multimodal.serving")

    async def scenario() -> None:
        app = asgi(make_stream, bind_addresses=["127.0.0.1"], quotas=Quotas.unlimited())
        # ASGI's other frameworks and this one are served alike: `log_config=None` leaves the loggers to this test.
        config = uvicorn.Config(
            app, port=0, log_level="warning", log_config=None, ws=protocol, ws_max_size=MESSAGE_LIMIT_BYTES
        )
        server = uvicorn.Server(config)
        async with nothing_left():
            running = asyncio.ensure_future(server.serve())
            await until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            watching = asyncio.ensure_future(
                Viewer(await join_websocket(f"http://127.0.0.1:{port}/ws/demo"), leave_at_end=True).watch()
            )
            traffic = app.state.door.turnstile.traffic
            for number, (name, (data, code)) in enumerate(SPOILT.items(), 1):
                answer = await sent(port, upgrade() + data)
                assert answer.startswith(b"HTTP/1.1 101 "), name
                if code != 1009:  # of which nothing may be left behind a reset
                    assert struct.pack(">H", code) in answer.split(b"\r\n\r\n", 1)[1], (name, answer)
                await until(partial(_counted, traffic, number))
            assert (await sent(port, upgrade(b"Origin: https://other.example\r\n"))).startswith(b"HTTP/1.1 403 ")
            assert traffic.spoilt == len(SPOILT)
            assert (await watching).text == "".join(WORDS)
            server.should_exit = True
            await running

    run(scenario())
    ours = [record.getMessage() for record in caplog.records if record.name == "multimodal.serving.roads"]
    assert [line.rsplit(" ", 1)[1] for line in ours] == [str(code) for _, code in SPOILT.values()]
    loud = [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]
    if protocol is SmallBuffers:
        assert [record.getMessage() for record in loud] == []
    else:  # one line, of a refused upgrade, which only uvicorn itself could leave out
        assert [record.getMessage() for record in loud] == ["ASGI callable returned without completing handshake."]
        assert not any(record.exc_info for record in loud)
