"""Running an application on loopback for a person: a port that is free, the URL when it is ready, a clean stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from multimodal.errors import UsageError
from multimodal.stream import MultiModalStream
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["UNSENT_BYTES", "Recordings", "SmallBuffers", "listening", "serve"]

UNSENT_BYTES = 16 * 1024
"""Bytes of one connection that the kernel takes before it has sent them. It would take megabytes on a slow road, and
words would wait behind them where nothing can overtake any more."""


def serve(app: ASGIApp, port: int, what: str) -> int:
    """Serve on 127.0.0.1 until interrupted; gives the exit code.

    Args:
        app: the application.
        port: 0 = any free one.
        what: named in the line that prints the URL.

    Raises:
        UsageError: the port is taken or not allowed.
    """
    listener = listening(port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        timeout_graceful_shutdown=3,
        ws=SmallBuffers,
        ws_max_size=MESSAGE_LIMIT_BYTES,
        # Viewers ping by themselves, and pictures are compressed already.
        ws_ping_interval=None,
        ws_per_message_deflate=False,
    )
    config.load()  # imports the protocols: in the loop it would be a stop of a tenth of a second
    server = _Server(config)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(sockets=[listener]))
            while not server.started and not server.should_exit:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            if server.started:
                print(f"Ready: {what} at {url}  (Ctrl-C stops it)", flush=True)

    try:
        with _stopped_by_signals(server):
            asyncio.run(run())
    finally:
        listener.close()
    return 0


def listening(port: int) -> socket.socket:
    """A listener on 127.0.0.1, whose connections keep little for themselves.

    Raises:
        UsageError: the port is taken or not allowed.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # What is accepted here inherits it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"port {port} on 127.0.0.1 cannot be had ({reason}); choose another with --port") from error
    return listener


class SmallBuffers(WebSocketsSansIOProtocol):
    """A WebSocket whose transport keeps nothing for itself, so that what has not left shows where it can be paced.

    What strangers may do as often as they like is no error in its log: text that is no UTF-8 ends the connection with
    1007, and an upgrade may be refused with an answer of its own.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)

    def send_receive_event_to_app(self) -> None:
        """One whole message; uvicorn logs a traceback where its text is none."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """See ASGI. uvicorn takes an upgrade that was refused in full for one that nobody answered, and says so."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the sessions first: viewers hear why, and event streams, which else would be waited for, end."""
        for listening_server in self.servers:
            listening_server.close()
        await self.lifespan.shutdown()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `_stopped_by_signals`: here they would be handed on while the loop still has to end."""
        yield


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Ctrl-C, however often, asks for one stop in order; all that is waited for then has a limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Recordings:
    """Writes the recording of each session: the first to the path given, further ones to `path.2`, `path.3`, ...

    Args:
        path: a file that can be written.

    Raises:
        UsageError: it cannot.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0
        try:
            with path.open("w"):
                pass
        except OSError as error:
            raise UsageError(f"cannot write the recording {path}: {error.strerror or error}") from error

    def begin(self, stream: MultiModalStream) -> Callable[[dict[str, Any]], None]:
        """A recorder for one session; every line is in the file when it returns, so that a killed server loses none."""
        self._count += 1
        path = self._path if self._count == 1 else Path(f"{self._path}.{self._count}")
        path.write_bytes(b"")
        for number, cue in stream.plan.items():
            _append(path, {"vantage": "planned", "cue": number, **msgspec.to_builtins(cue)})
        return partial(_append, path)


def _append(path: Path, line: dict[str, Any]) -> None:
    # Opened for each line: nobody tells a recorder when its session is over, and an open file would leak.
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
