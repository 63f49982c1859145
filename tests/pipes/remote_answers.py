"""What the tests of `RemoteTextPipe` ask of a server on loopback, and one that answers as it should."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from multimodal.pipes.remote import RemoteTextPipe
from tests.pipes.model_server import ModelServer, Play, sse
from tests.pipes.test_openai_stream import text

__all__ = ["GOOD", "TEXT", "WORDS", "closed_port", "good", "said", "until"]

WORDS = ["The ", "Halo ", "Kettle ", "costs ", "89 ", "euros."]
TEXT = "".join(WORDS)
GOOD = sse(*WORDS)


def good(server: ModelServer, name: str = "good") -> str:
    return server.url(name, Play([GOOD]))


async def said(base_url: Any, **more: Any) -> str:
    return text([token async for token in RemoteTextPipe(base_url, "m", "Hello", **more)])


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


async def until(seen: Callable[[], bool], what: str) -> None:
    for _ in range(3000):
        if seen():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"after 30 s, {what}")
