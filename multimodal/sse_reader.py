"""Server-sent events out of a stream of bytes, however it was split. Pure.

The rules are those of the HTML standard, section 9.2.6 (Interpreting an event stream): lines end with CR, LF or CRLF;
one byte order mark at the beginning is skipped; a line that begins with a colon is a comment; an event ends with an
empty line, and one that the stream's end cuts off is dropped, unless the reader asks for it (`finish`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from multimodal.errors import RemoteProtocolError, UsageError

__all__ = ["EVENT_LIMIT_BYTES", "SSEDecoder", "SSEEvent"]

EVENT_LIMIT_BYTES = 1024 * 1024
"""One event, and one line, may be so large: a server that never ends its line must not fill this side's memory."""

STRAY_BYTES = 4096
"""Of lines that are no field, as much is kept as anybody wants to read."""

_BOM = b"\xef\xbb\xbf"
_END = re.compile(rb"\r\n?|\n")


class SSEEvent(NamedTuple):
    """One event: the last `id` that the stream gave so far, its kind, and its data with lines joined by LF."""

    id: str
    event: str
    data: str


class SSEDecoder:
    """Takes the bytes of one response in pieces of any size, and gives its events.

    Args:
        last_id: the `id` that events have until the stream gives one.
        limit_bytes: bytes that one event, or one line, may have.

    Raises:
        UsageError: a limit below 1.
    """

    def __init__(self, last_id: str = "", *, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        if limit_bytes < 1:
            raise UsageError(f"limit_bytes={limit_bytes!r} must be 1 or more")
        self.last_id = last_id
        self.retry: float | None = None
        """Seconds that the server wants its clients to wait before they come back; None = it did not say."""
        self.comments = 0
        """Lines that carry nothing, and keep the road alive."""
        self.stray = b""
        """Lines of no field that the standard knows, which a server may have meant as its words; at most 4 KiB."""
        self._limit = limit_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._after_cr = False
        self._first = True
        self._data: list[str] = []
        self._data_bytes = 0
        self._event = ""

    def feed(self, data: bytes) -> list[SSEEvent]:
        """The events that these bytes complete.

        Raises:
            RemoteProtocolError: a line or an event above the limit; nothing can be read from this stream any more.
        """
        if not data:
            return []
        # A CR ended its line when it came; the LF behind it belongs to it, though it comes in another piece.
        at = 1 if self._after_cr and data.startswith(b"\n") else 0
        self._after_cr = data.endswith(b"\r")
        events: list[SSEEvent] = []
        for end in _END.finditer(data, at):
            self._keep(data[at : end.start()])
            line, self._tail, self._tail_bytes = b"".join(self._tail), [], 0
            event = self._line(line)
            if event is not None:
                events.append(event)
            at = end.end()
        self._keep(data[at:])
        return events

    def finish(self) -> list[SSEEvent]:
        """The stream has ended; gives the event that its end cut off, which the standard drops: it may not be whole.

        Raises:
            RemoteProtocolError: as for `feed`.
        """
        return self.feed(b"\n" if self._after_cr else b"") + self.feed(b"\n\n")

    def _keep(self, piece: bytes) -> None:
        self._tail_bytes += len(piece)
        if self._tail_bytes > self._limit:
            raise RemoteProtocolError(f"a line of more than {self._limit} bytes in a stream of server-sent events")
        if piece:
            self._tail.append(piece)

    def _line(self, line: bytes) -> SSEEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":
                self.comments += 1
            case b"data":
                self._data_bytes += len(value) + 1
                if self._data_bytes > self._limit + 1:
                    raise RemoteProtocolError(f"a server-sent event of more than {self._limit} bytes")
                self._data.append(value.decode(errors="replace"))
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self.last_id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = int(value) / 1000
            case _:
                self.stray = (self.stray + line + b"\n")[:STRAY_BYTES]
        return None

    def _dispatch(self) -> SSEEvent | None:
        data, event = self._data, self._event
        self._data, self._data_bytes, self._event = [], 0, ""
        return SSEEvent(self.last_id, event or "message", "\n".join(data)) if data else None
