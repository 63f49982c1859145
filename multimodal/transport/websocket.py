"""A link over one WebSocket: text frames are the events channel, binary frames are the images channel.

One ordered byte stream carries both, so a picture's bytes delay the words behind them as long as they take to leave.
What holds that down is the scheduler's pacing, and that it is told honestly what has not left (`transport.outgoing`).
"""

from __future__ import annotations

from multimodal.errors import ChannelClosedError, ChannelClosedOK, JoinRefused, TransportError
from multimodal.transport.outgoing import Message, QueuedLink
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["REFUSED", "WebSocketLink"]

REFUSED = 4000
"""A refusal closes with this and the HTTP status: the range that RFC 6455, section 7.4.2, leaves to applications. A
page learns nothing of an upgrade that is refused."""

_CLEAN = (1000, 1001)
"""RFC 6455, section 7.4.1: the purpose is fulfilled; the page, or the server, goes away."""
_POLICY, _TOO_BIG = 1008, 1009
_SPOILT = frozenset({1002, 1003, 1007, _TOO_BIG})
"""The same section: frames against the protocol, text that is no UTF-8, a message that is too large. The server below
has ended it by itself, and nobody here has seen the bytes."""


class WebSocketLink(QueuedLink):
    """One end of a WebSocket that was accepted; a `Link`. `run` carries its messages until either side closes.

    Args:
        receive: ASGI's: gives ``websocket.receive`` and ``websocket.disconnect``.
        send: ASGI's: takes ``websocket.send`` and ``websocket.close``.
        inbox: None = one for what a viewer says.
    """

    spoilt = 0
    """The code with which it ended where the bytes that came could not be read; 0 = they could."""

    async def refuse(self, status: int, code: str) -> None:
        """Close it before anything was said.

        Args:
            status: as HTTP would have it.
            code: for programs.
        """
        self._close_code, self._close_reason = REFUSED + status, code
        await self.aclose()

    def _event(self, text: str) -> Message:
        return {"type": "websocket.send", "text": text}

    def _image(self, data: bytes) -> Message:
        return {"type": "websocket.send", "bytes": data}

    async def _begin(self) -> None:
        """It was accepted before this link was made."""

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self.spoilt = code if (code := message.get("code", 0)) in _SPOILT else 0
                self._end(_farewell(message))
                return
            text = message.get("text")
            data: str | bytes = text if text is not None else message.get("bytes") or b""
            if len(data) > MESSAGE_LIMIT_BYTES:
                reason = f"the peer sent a message of {len(data)} bytes; the limit is {MESSAGE_LIMIT_BYTES}"
                self._drop(ChannelClosedError(reason), _TOO_BIG)
            elif not self._inbox.put("events" if isinstance(data, str) else "images", data):
                self._drop(ChannelClosedError("the peer flooded the link"), _POLICY)

    async def _finish(self) -> None:
        reason = self._close_reason or ("" if self._close_code in _CLEAN else str(self._inbox.ended))
        # More than 123 bytes would not fit into the frame (RFC 6455, section 5.5).
        reason = reason.encode()[:120].decode(errors="ignore")
        await self._send_asgi({"type": "websocket.close", "code": self._close_code, "reason": reason})


def _farewell(message: Message) -> TransportError:
    code, reason = message.get("code", 1005), str(message.get("reason") or "")[:200]
    if REFUSED + 400 <= code < REFUSED + 600:
        return JoinRefused("the WebSocket", code - REFUSED, reason, "the viewer was not let in")
    if code in _CLEAN:
        return ChannelClosedOK("the peer closed the connection" + (f": {reason}" if reason else ""))
    return ChannelClosedError(f"the connection was lost (code {code}{': ' + reason if reason else ''})")
