"""A small HTTP proxy that misbehaves in one way at a time, as those between viewers and servers do."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate

__all__ = ["Proxy", "proxying"]

_HEAD_LIMIT = 64 * 1024
_CONNECTION = re.compile(rb"^connection:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)
_DATE = re.compile(rb"^date:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


@dataclass
class Proxy:
    """What it does; may be changed while it runs.

    Args:
        port: where it listens, on the host given to `proxying`.
        refuse_upgrades: answers 426 itself; "strip" = passes the request on as a plain one; "hang" = says nothing.
        hold_sse: keeps event streams back until they end (True), or as many seconds.
        clock: seconds by which the `Date` of answers is wrong.
        seen: the first line of every request.
    """

    port: int = 0
    refuse_upgrades: bool | str = False
    hold_sse: bool | float = False
    clock: float = 0.0
    seen: list[str] = field(default_factory=list)


@asynccontextmanager
async def proxying(
    target: tuple[str, int], host: str = "127.0.0.1", port: int = 0, **faults: bool | float | str
) -> AsyncIterator[Proxy]:
    """Run one in front of `target` until the block ends; all its connections then end, too.

    Args:
        target: address of the server.
        host, port: where to listen.
        faults: as for `Proxy`.
    """
    proxy = Proxy(**faults)  # type: ignore[arg-type]
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await _one(proxy, target, reader, writer)
        except asyncio.CancelledError:
            pass  # asyncio would report it as a fault of the server
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, port, limit=_HEAD_LIMIT)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tuple(tasks))
        await server.wait_closed()


async def _one(
    proxy: Proxy, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One request on one connection; what follows it, such as a body or frames, goes through as it is."""
    head = await reader.readuntil(b"\r\n\r\n")
    first = head.split(b"\r\n", 1)[0].decode("latin-1")
    proxy.seen.append(first)
    upgrade = b"\r\nupgrade:" in head.lower()
    if upgrade and proxy.refuse_upgrades == "hang":
        await reader.read()
        return
    if upgrade and proxy.refuse_upgrades == "strip":
        head, upgrade = re.sub(rb"(?im)^upgrade:[^\r\n]*\r\n", b"", head), False
    elif upgrade and proxy.refuse_upgrades:
        writer.write(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    if not upgrade:
        # One request for each connection: then the end of the answer is the end of the connection.
        head = _CONNECTION.sub(b"", head).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    up_reader, up_writer = await asyncio.open_connection(*target)
    try:
        up_writer.write(head)
        await up_writer.drain()
        held = proxy.hold_sse if "/sse/" in first and "/messages" not in first else False
        async with asyncio.TaskGroup() as group:
            going = group.create_task(_pipe(reader, up_writer))
            await _answer(proxy, up_reader, writer, held)
            going.cancel()
    finally:
        up_writer.close()


async def _answer(proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: bool | float) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        if proxy.clock:
            date = b"date: " + formatdate(time.time() + proxy.clock, usegmt=True).encode() + b"\r\n"
            head = _DATE.sub(date, head)
        if held is True:
            head += await reader.read()
        writer.write(head)
        await writer.drain()
        await _pipe(reader, writer, 0.0 if held is True else float(held))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hold: float = 0.0) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            if hold:
                await asyncio.sleep(hold)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
