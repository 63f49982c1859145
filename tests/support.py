"""What tests share: running coroutines in real time under a limit, and on a virtual clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from multimodal.sync.virtual import LIMIT, VirtualClock

T = TypeVar("T")

TINY_LLAMA = Path(__file__).parent / "fixtures" / "tiny_llama"
"""A trained model of 3.5 MB that has the demo catalogue by heart; see tests/fixtures/README.md."""


def run(coroutine: Coroutine[Any, Any, T], limit: float = 120.0) -> T:
    """Run to the end in real time; fail instead of hanging.

    Raises:
        TimeoutError: it took longer than `limit` seconds.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit):
            return await coroutine

    return asyncio.run(limited())


def virtual(coroutine: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Run on a clock that jumps to the next deadline: hours of sleeps in milliseconds.

    For scripted pipes only: while a thread or a socket is busy, timeouts would fire at once.

    Raises:
        TimeoutError: it took longer than `limit` virtual seconds.
    """
    with VirtualClock() as clock:
        return clock.run(coroutine, limit)
