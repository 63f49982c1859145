"""A server's half of ASGI without a server: what the peer does is told, what goes out is kept."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

Message = MutableMapping[str, Any]


class FakeServer:
    """Takes messages as fast as `blocked` allows."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.coming: asyncio.Queue[Message] = asyncio.Queue()
        self.open = asyncio.Event()
        self.open.set()
        self.gone: Exception | None = None

    async def receive(self) -> Message:
        return await self.coming.get()

    async def send(self, message: Message) -> None:
        await self.open.wait()
        if self.gone is not None:
            raise self.gone
        self.sent.append(message)

    def comes(self, **message: Any) -> None:
        self.coming.put_nowait(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)
