"""A link over WebRTC data channels. The only module that imports aiortc.

Both ends create the same two negotiated channels before anything is exchanged, so no message can come before its
listener, and no `open` event is needed: the first message proves that the road stands. What aiortc does not offer:

- bind addresses: aioice skips 127.0.0.1, so a machine with no other interface has no candidate. `_adapt_ice` wraps
  two public calls of this connection's own ICE agent; nothing global is changed.
- a limit for connecting: `closed` may come instead of `failed`, or nothing at all. `CONNECT_LIMIT` is ours.
- an end of its timers with the connection: what they send then is dropped.
- a first flight of ten packets (`_FIRST_FLIGHT`): its three make the first picture wait two round trips more.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from aioice.ice import get_host_addresses
from aiortc import (
    InvalidStateError,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCIceTransportPolicy,
    RTCPeerConnection,
    RTCSctpTransport,
    RTCSessionDescription,
)
from aiortc.rtcsctptransport import REMOTE_DEFAULT_MAX_MESSAGE_SIZE, USERDATA_MAX_LENGTH

from multimodal.errors import (
    ChannelClosedError,
    ChannelClosedOK,
    MessageTooLarge,
    RemoteProtocolError,
    TransportError,
)
from multimodal.loops import loop_here
from multimodal.transport.base import Channel, Inbound
from multimodal.transport.inbox import Inbox
from multimodal.wire import EVENTS_CHANNEL, IMAGES_CHANNEL, MESSAGE_LIMIT_BYTES

log = logging.getLogger(__name__)

__all__ = [
    "CLOSE_LIMIT",
    "CONNECT_LIMIT",
    "MESSAGE_FLOOR_BYTES",
    "SETTLE_LIMIT",
    "IceServer",
    "WebRTCLink",
    "host_addresses",
]

CONNECT_LIMIT = 10.0
"""Seconds from the answer (or the offer) to open channels; on a bad road ICE and DTLS take two."""
CLOSE_LIMIT = 5.0
"""Seconds that closing a peer connection may take before its remains are left to the loop."""
SETTLE_LIMIT = 0.5
"""Seconds that a close waits for channels which are just being opened."""
MESSAGE_FLOOR_BYTES = 4096
"""A peer that takes less is refused: one event with its preview, or the reason of a goodbye, has to fit."""
_FIRST_FLIGHT = 10
"""Packets: RFC 6928, section 2, and what Chromium's own SCTP begins with."""
_RTO_INITIAL = 1.0
"""RFC 9260, section 16, in seconds. aiortc has the 3 s of the RFC before it: where all of the first flight is lost,
nothing else tells of it (a road away for 0.5 s at its first event came back 3.4 s later, and now 0.6)."""
_FREED_LIMIT = 0.1
"""Seconds that a close goes on once the sockets are closed. Where the loop is ending it would wait for ever then, for
tasks of aiortc that the loop has cancelled."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError)
"""What aiortc raises over a description that it cannot parse: no class of its own, and no words for people."""

IceServer = RTCIceServer
"""A STUN or TURN server: ``IceServer("turn:turn.example.org", username=..., credential=...)``."""


class WebRTCLink:
    """One peer connection with two channels; a `Link`. Made by `answering` or `offering`.

    Args:
        ice_servers: STUN and TURN servers; none by default, because an unreachable one costs 5 s.
        bind_addresses: the addresses to offer; None = those of all interfaces, or loopback where there is no other.
        connect_limit: seconds from the exchange of descriptions to open channels.
        relay_only: go through a TURN server of `ice_servers`, and no other way.
    """

    def __init__(
        self,
        *,
        ice_servers: Sequence[IceServer] = (),
        bind_addresses: Sequence[str] | None = None,
        connect_limit: float = CONNECT_LIMIT,
        relay_only: bool = False,
    ) -> None:
        policy = RTCIceTransportPolicy.RELAY if relay_only else RTCIceTransportPolicy.ALL
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=list(ice_servers), iceTransportPolicy=policy))
        self._inbox = Inbox()
        self._open = asyncio.Event()
        self._settled = asyncio.Event()
        self._writable: Callable[[], None] = _nothing
        self._connect_limit = connect_limit
        self._limit_handle: asyncio.TimerHandle | None = None
        self._freed = False
        self._relay_only, self._no_relay = relay_only, ""
        self._patience: asyncio.Timeout | None = None
        self._closing: asyncio.Task[None] | None = None
        self._events = self._channel("events", *EVENTS_CHANNEL, ordered=True)
        self._images = self._channel("images", *IMAGES_CHANNEL, ordered=False)
        self._message_limit_bytes = MESSAGE_LIMIT_BYTES
        self._pc.add_listener("connectionstatechange", self._on_state)
        self._sctp._rto = _RTO_INITIAL
        self._sctp._cwnd = _FIRST_FLIGHT * USERDATA_MAX_LENGTH
        self._adapt_sctp()
        if relay_only:
            bind_addresses = ()
        self._adapt_ice(host_addresses() if bind_addresses is None else list(bind_addresses))

    @classmethod
    async def answering(cls, offer: str, **settings: Any) -> tuple[WebRTCLink, str]:
        """The server's end: an SDP offer in, the link and the SDP answer out. Settings as for the class.

        The answer lists our candidates; gathering them takes milliseconds without ICE servers. Cancelling frees all.

        Raises:
            RemoteProtocolError: the offer cannot be answered.
        """
        link = cls(**settings)
        try:
            try:
                await link._pc.setRemoteDescription(RTCSessionDescription(strip_candidates(offer), "offer"))
                if "m=application" not in link._pc.remoteDescription.sdp:
                    raise RemoteProtocolError("the offer cannot be answered: it has no section for data channels")
                await link._pc.setLocalDescription()
            except _UNREADABLE as error:
                raise RemoteProtocolError("the offer cannot be answered: one of its lines is malformed") from error
            link._message_limit_bytes = _message_limit(offer, "offer")
        except BaseException:
            await link.aclose()
            raise
        link._await_peer()
        return link, link._pc.localDescription.sdp

    @classmethod
    async def offering(cls, **settings: Any) -> tuple[WebRTCLink, str]:
        """The client's end: the link and its SDP offer; then `accept` the answer. Settings as for the class.

        Raises:
            ChannelClosedError: it may go through a TURN server only, and that gave no address.
        """
        link = cls(**settings)
        try:
            await link._pc.setLocalDescription()
            if link._relay_only and link._no_relay:
                raise ChannelClosedError(link._no_relay)
        except BaseException:
            await link.aclose()
            raise
        return link, link._pc.localDescription.sdp

    async def accept(self, answer: str) -> None:
        """The server's SDP answer to our offer.

        Raises:
            RemoteProtocolError: it does not fit the offer.
        """
        try:
            await self._pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        except _UNREADABLE as error:
            raise RemoteProtocolError(
                "the answer does not fit the offer: one of its lines is malformed, or it answers another offer"
            ) from error
        self._message_limit_bytes = _message_limit(answer, "answer")
        self._await_peer()

    async def opened(self) -> None:
        """See `Link.opened`; the limit is `connect_limit`."""
        await self._open.wait()
        if self._inbox.ended is not None:
            raise self._inbox.ended.with_traceback(None)

    def send_event(self, text: str) -> None:
        """See `Link.send_event`."""
        self._send(self._events, text, len(text.encode()))

    def send_last(self, text: str) -> None:
        """See `Link.send_last`."""
        self.send_event(text)
        # A task of aiortc's would do this, after the loop has taken apart what it needs; it does not wait for anything.
        flush = self._sctp._data_channel_flush()
        with suppress(StopIteration, ConnectionError):
            flush.send(None)
        flush.close()

    def send_image(self, data: bytes) -> None:
        """See `Link.send_image`."""
        self._send(self._images, data, len(data))

    @property
    def buffered_amount(self) -> int:
        """See `Link.buffered_amount`."""
        return self._events.bufferedAmount + self._images.bufferedAmount

    @property
    def message_limit_bytes(self) -> int:
        """The largest message that may be sent: what the peer says that it takes, or `wire.MESSAGE_LIMIT_BYTES`."""
        return self._message_limit_bytes

    async def receive(self) -> Inbound:
        """See `Link.receive`."""
        return await self._inbox.get()

    def on_writable(self, callback: Callable[[], None]) -> None:
        """See `Link.on_writable`."""
        self._writable = callback

    async def aclose(self) -> None:
        """See `Link.aclose`. Cancelling leaves the closing to its own task."""
        self._end(ChannelClosedOK("this side closed the connection"))
        if self._closing is None:
            # A task of its own, and shielded: half a close would leave sockets behind.
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    @property
    def _sctp(self) -> RTCSctpTransport:
        """What carries the channels; it is there once they are, from the constructor on."""
        sctp = self._pc.sctp
        assert sctp is not None
        return sctp

    async def _close(self) -> None:
        # A description that was refused half-way may have left it without a transport.
        dtls: Any = self._sctp.transport
        if dtls is not None and dtls.transport.state == "completed" and self._events.readyState == "connecting":
            # The peer is there and the channels are about to open. Closing now would leave aiortc's own task
            # connecting on closed sockets, to fail where nobody listens.
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_LIMIT):
                    await self._settled.wait()
        # aiortc closes by itself, too, in a task, when the peer did. Who comes first closes, the other waits for it.
        theirs: asyncio.Future[bool] | None = getattr(self._pc, "_RTCPeerConnection__isClosed", None)
        try:
            async with asyncio.timeout(_FREED_LIMIT if self._freed else CLOSE_LIMIT) as self._patience:
                # Shielded: what runs out of patience here must not cancel what aiortc's task is going to set.
                await (self._pc.close() if theirs is None else asyncio.shield(theirs))
        except TimeoutError:
            if not self._freed:
                log.warning("closing a peer connection took more than %g s; its sockets may be open", CLOSE_LIMIT)
        finally:
            self._patience = None
            ours: asyncio.Future[bool] | None = getattr(self._pc, "_RTCPeerConnection__isClosed", None)
            if theirs is None and ours is not None and not ours.done():
                ours.set_result(True)

    def _adapt_sctp(self) -> None:
        sctp = self._sctp
        send = sctp._send_chunk

        async def send_unless_closed(chunk: Any) -> None:
            # aiortc's timers send in tasks of their own, and one may come behind the close. Nobody hears it fail, but
            # for the log, with a traceback.
            dtls = sctp.transport
            if dtls.state == "connected" and dtls._ssl is not None and not dtls._ssl.get_shutdown():
                await send(chunk)

        sctp._send_chunk = send_unless_closed  # type: ignore[method-assign]

    def _adapt_ice(self, addresses: list[str]) -> None:
        # aiortc keeps aioice's connection to itself.
        ice = self._sctp.transport.transport.iceGatherer._connection
        gather, connect, close, chosen = ice.get_component_candidates, ice.connect, ice.close, addresses

        async def gather_bound(component: int, addresses: list[str]) -> Any:
            candidates = await gather(component, chosen)
            bound = sum(candidate.type == "host" for candidate in candidates)
            if bound < len(chosen):
                # aioice leaves an address out without a word, and with none left nobody ever finds this end.
                named = ", ".join(chosen)
                log.warning("%d of the addresses %s can be bound to; are all of them this machine's?", bound, named)
            if ice.turn_server is not None and not any(candidate.type == "relay" for candidate in candidates):
                # Nor does it say why: it would take its word for a network without a way through.
                server = f"{ice.turn_server[0]} port {ice.turn_server[1]}"
                self._no_relay = (
                    f"the TURN server {server} gave no address; `multimodal doctor --network --ice URL` says why"
                )
                log.warning("%s", self._no_relay)
            return candidates

        async def connect_unless_closed() -> None:
            await connect()
            if self._closing is not None:
                # Closed while connecting: aioice starts its consent checks all the same, and they have no owner.
                await ice.close()
                raise ConnectionError("closed while connecting")

        async def close_and_tell() -> None:
            await close()
            self._freed = True
            if self._patience is not None:
                self._patience.reschedule(asyncio.get_running_loop().time() + _FREED_LIMIT)

        ice.close = close_and_tell  # type: ignore[method-assign]
        ice.get_component_candidates = gather_bound  # type: ignore[method-assign,assignment]
        ice.connect = connect_unless_closed  # type: ignore[method-assign]

    # Listeners: they only enqueue or set flags, and never raise (an exception would kill the connection silently).

    def _channel(self, name: Channel, number: int, label: str, *, ordered: bool) -> RTCDataChannel:
        channel = self._pc.createDataChannel(label, ordered=ordered, negotiated=True, id=number)
        channel.add_listener("message", partial(self._on_message, name))
        channel.add_listener("open", self._on_open)
        channel.add_listener("open", self._settled.set)
        channel.add_listener("close", self._on_close)
        channel.add_listener("bufferedamountlow", self._on_low)
        return channel

    def _on_message(self, name: Channel, data: str | bytes) -> None:
        self._on_open()
        if not self._inbox.put(name, data) and self._closing is None:
            # The reader may be stuck elsewhere: a peer that floods is cut off here.
            self._closing = loop_here("a link").create_task(self._close())

    def _on_open(self) -> None:
        self._open.set()
        if self._limit_handle is not None:
            self._limit_handle.cancel()
            self._limit_handle = None

    def _on_low(self) -> None:
        if self.buffered_amount == 0:
            self._writable()

    def _on_close(self) -> None:
        self._end(ChannelClosedOK("the peer closed the channel"))

    def _on_state(self) -> None:
        state = self._pc.connectionState
        if state in {"failed", "closed"}:
            self._settled.set()
        if state == "failed":
            self._end(ChannelClosedError("the connection was lost (ICE or DTLS failed)"))
        elif state == "closed":
            self._end(ChannelClosedOK("the peer closed the connection"))

    def _await_peer(self) -> None:
        if not self._open.is_set():
            self._limit_handle = loop_here("a link").call_later(self._connect_limit, self._on_limit)

    def _on_limit(self) -> None:
        self._end(
            ChannelClosedError(
                f"no connection within {self._connect_limit:g} s: the peer's UDP packets did not arrive; "
                "check that one of the offered addresses can be reached, or set ICE servers"
            )
        )

    def _end(self, reason: TransportError) -> None:
        self._inbox.end(reason)
        self._on_open()

    def _send(self, channel: RTCDataChannel, data: str | bytes, size_bytes: int) -> None:
        ended = self._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        if size_bytes > self._message_limit_bytes:
            raise MessageTooLarge(size_bytes, self._message_limit_bytes)
        try:
            channel.send(data)
        except InvalidStateError as error:
            raise ChannelClosedError(f"cannot send on {channel.label!r} ({channel.readyState}): {error}") from error


def host_addresses() -> list[str]:
    """This machine's addresses, loopback only where there is no other."""
    addresses: list[str] = get_host_addresses(use_ipv4=True, use_ipv6=True)
    return addresses or ["127.0.0.1"]


def strip_candidates(sdp: str) -> str:
    """The description without candidates that only cost time.

    A `.local` name that cannot be resolved costs 1 s, and checks find such a peer anyway. The end-of-candidates line
    goes too: with it, ICE fails at once where every candidate was such a name, instead of waiting for the checks.
    """
    return _USELESS.sub("", sdp)


def _message_limit(sdp: str, what: str) -> int:
    """What the peer takes in one message, by its description (RFC 8841, section 6: 0 = any size)."""
    found = _MAX_MESSAGE.search(sdp)
    announced = int(found[1]) if found else REMOTE_DEFAULT_MAX_MESSAGE_SIZE
    if announced and announced < MESSAGE_FLOOR_BYTES:
        raise RemoteProtocolError(
            f"the {what} says a=max-message-size:{announced}, and a tour cannot do with less than {MESSAGE_FLOOR_BYTES}"
        )
    return min(announced or MESSAGE_LIMIT_BYTES, MESSAGE_LIMIT_BYTES)


_MAX_MESSAGE = re.compile(r"^a=max-message-size:\s*([+-]?\d{1,18})\s*$", re.MULTILINE)
_USELESS = re.compile(r"^a=(?:candidate:[^\r\n]*\.local [^\r\n]*|end-of-candidates)\r?\n?", re.MULTILINE)


def _nothing() -> None:
    return None
