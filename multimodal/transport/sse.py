"""A link over one response of server-sent events: words down here, messages up by POST, pictures by their URL.

The last road: it passes wherever a web page does, and a person reads it with curl. Each message is one event, the
`data` of which is the same JSON as on every road; a bundle has the `id` of its last event, from which the page goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from multimodal import wire
from multimodal.errors import ChannelClosedError, UsageError
from multimodal.transport.outgoing import Message, QueuedLink, Receive, Send
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["RETRY", "SSELink", "format_event"]

RETRY = 0.5
"""Seconds after which an EventSource comes back."""

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # A proxy that compresses or keeps the stream would hold words back until its buffer is full.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class _Named(msgspec.Struct):
    kind: str = ""
    seq: int = -1
    key: str = ""
    variants: list[msgspec.Raw] = []
    assets: list[_Named] = []


class _Sent(msgspec.Struct):
    type: str = ""
    more: bool = False
    events: list[_Named] = []


_messages = msgspec.json.Decoder(_Sent)


class SSELink(QueuedLink):
    """The server's end of an event stream; a `Link`. `run` answers the request and carries until either side closes.

    Args:
        receive: ASGI's, of a request whose body was read.
        send: ASGI's.
        vouch: True = a viewer that only reads, such as curl: what the transport has taken counts as arrived, and
            pictures as ready. From the first message that it posts, it speaks for itself.
        headers: of the response, beside its own.
    """

    pictures_by_url = True

    def __init__(
        self, receive: Receive, send: Send, *, vouch: bool = False, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(receive, send)
        self.vouch = vouch
        self._headers = [*_HEADERS, *headers]
        self._seq = -1

    def deliver(self, text: str | bytes) -> bool:
        """A message that the viewer posted; False = the link is closed, or the viewer has flooded it and is dropped."""
        self.vouch = False
        if self._inbox.ended is not None:
            return False
        if len(text) > MESSAGE_LIMIT_BYTES:
            reason = f"the viewer posted a message of {len(text)} bytes; the limit is {MESSAGE_LIMIT_BYTES}"
            self._drop(ChannelClosedError(reason))
            return False
        if not self._inbox.put("events", text):
            self._drop(ChannelClosedError("the viewer flooded the link"))
            return False
        return True

    def send_image(self, data: bytes) -> None:
        """Refused: pictures go by their URL on this road.

        Raises:
            UsageError: always.
        """
        raise UsageError("no picture goes over an event stream; the viewer fetches it by its URL")

    def _event(self, text: str) -> Message | None:
        sent = _messages.decode(text)
        if sent.type == "tick":
            return None  # it makes a lost datagram noticed, and there are none here
        last = str(sent.events[-1].seq) if sent.events and not sent.more else ""
        return {"type": "http.response.body", "body": format_event(text, last), "more_body": True}

    async def _begin(self) -> None:
        await self._send_asgi({"type": "http.response.start", "status": 200, "headers": self._headers})
        # Bytes at once: until some came, a page cannot tell a stream from a server that hangs.
        first = f"retry: {RETRY * 1000:.0f}\n\n".encode()
        await self._send_asgi({"type": "http.response.body", "body": first, "more_body": True})

    async def _read(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._end(ChannelClosedError("the viewer closed its event stream, or was lost"))

    async def _finish(self) -> None:
        await self._send_asgi({"type": "http.response.body", "body": b"", "more_body": False})

    def _sent(self, text: str) -> None:
        if not self.vouch:
            return
        sent = _messages.decode(text)
        for event in sent.events:
            self._seq = event.seq
            for asset in (event, *event.assets):
                if asset.variants:
                    self._inbox.put("events", wire.encode(wire.Ready(asset.key)))
        # The answer to a ping is an ack too: a clock that nobody reads would only mislead.
        self._inbox.put("events", wire.encode(wire.Ack(self._seq)))


def format_event(data: str, last_id: str = "", kind: str = "") -> bytes:
    """One server-sent event.

    Args:
        data: its text, of any number of lines.
        last_id: what a client that comes back names; "" = the one before stays.
        kind: "" = message.
    """
    lines = [f"id: {last_id}"] if last_id else []
    lines += [f"event: {kind}"] if kind else []
    lines += [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()
