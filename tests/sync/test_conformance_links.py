"""The check of links passes ours, over simulated networks too, and catches each broken one by its rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge, SyncError
from multimodal.sync.conformance import check_transport
from multimodal.sync.link import PROFILES
from multimodal.transport.base import Inbound
from multimodal.transport.memory import memory_link
from multimodal.transport.webrtc import WebRTCLink
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import virtual


@pytest.mark.parametrize("profile", [None, *PROFILES])
def test_the_link_in_memory_conforms_on_every_network(profile: str | None) -> None:
    flood = 8 * 1024 * 1024 if profile is None else 0
    check_transport(lambda: memory_link(profile, seed=7), flood_bytes=flood, limit=60, run=virtual)


async def connected() -> tuple[WebRTCLink, WebRTCLink]:
    client, offer = await WebRTCLink.offering()
    server, answer = await WebRTCLink.answering(offer)
    await client.accept(answer)
    return server, client


def test_the_link_over_webrtc_conforms() -> None:
    check_transport(connected, flood_bytes=2 * 1024 * 1024, limit=20)


# ---- links to break --------------------------------------------------------------------------------------------------


class Pipe:
    """One end of the plainest road there is: a queue on the other side. Subclasses break one thing."""

    limit = 1024

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Inbound | None] = asyncio.Queue()
        self.peer: Pipe = self
        self.closed = self.ended = False

    async def opened(self) -> None:
        return None

    def send_event(self, text: str) -> Any:
        self.send("events", text, len(text.encode()))

    def send_image(self, data: bytes) -> Any:
        self.send("images", data, len(data))

    def send(self, channel: Any, data: Any, size: int) -> None:
        if self.closed or self.ended:
            raise ChannelClosedOK("closed")
        if size > MESSAGE_LIMIT_BYTES:
            raise MessageTooLarge(size, MESSAGE_LIMIT_BYTES)
        self.deliver(Inbound(channel, data))

    def deliver(self, message: Inbound) -> None:
        if self.peer.inbox.qsize() >= self.peer.limit:
            self.peer.ended = self.ended = True
            self.peer.inbox = asyncio.Queue()
            self.peer.inbox.put_nowait(None)
            return
        self.peer.inbox.put_nowait(message)

    buffered_amount: Any = 0

    async def receive(self) -> Inbound:
        if self.closed or (self.ended and self.inbox.empty()):
            raise ChannelClosedOK("closed")
        message = await self.inbox.get()
        if message is None:
            self.ended = True
            raise self.reason()
        return message

    def reason(self) -> Exception:
        return ChannelClosedOK("the peer closed")

    def on_writable(self, callback: Callable[[], None]) -> None:
        return None

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            self.peer.inbox.put_nowait(None)


class Awaited(Pipe):
    async def send_event(self, text: str) -> Any:
        return None


class Reversed(Pipe):
    def deliver(self, message: Inbound) -> None:
        waiting = self.peer.inbox
        if waiting.qsize() == 1:
            first = waiting.get_nowait()
            waiting.put_nowait(message)
            waiting.put_nowait(first)
        else:
            super().deliver(message)


class TextAsBytes(Pipe):
    def send_event(self, text: str) -> Any:
        self.send("events", text.encode(), len(text.encode()))


class OneChannel(Pipe):
    def send_image(self, data: bytes) -> Any:
        self.send("events", data, len(data))


class CutsPictures(Pipe):
    def send_image(self, data: bytes) -> Any:
        self.send("images", data[:4096] if len(data) < 9000 else data, len(data))


class CountsCharacters(Pipe):
    def send_event(self, text: str) -> Any:
        self.send("events", text, len(text))


class LosesOnCancel(Pipe):
    async def receive(self) -> Inbound:
        message = await super().receive()
        await asyncio.sleep(0)
        return message


class NeverEmpty(Pipe):
    buffered_amount = 17


class Endless(Pipe):
    limit = 1 << 40


class DropsFromTheMiddle(Pipe):
    def deliver(self, message: Inbound) -> None:
        if self.peer.inbox.qsize() < 1000 or str(message.data).startswith("4090 "):
            self.peer.inbox.put_nowait(message)


class DropsTheRest(Pipe):
    def deliver(self, message: Inbound) -> None:
        if self.peer.inbox.qsize() < 1000:
            self.peer.inbox.put_nowait(message)


class ClosesRudely(Pipe):
    def reason(self) -> Exception:
        return ChannelClosedError("lost")


class ClosesWithoutAWord(Pipe):
    async def aclose(self) -> None:
        self.closed = True


class ForgetsWhatWasSent(Pipe):
    async def aclose(self) -> None:
        if not self.closed:
            self.peer.inbox = asyncio.Queue()
        await super().aclose()


class TakesAfterClosing(Pipe):
    def send(self, channel: Any, data: Any, size: int) -> None:
        if not self.closed:
            super().send(channel, data, size)


class ClosingFails(Pipe):
    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        await super().aclose()


class NeverOpens(Pipe):
    async def opened(self) -> None:
        await asyncio.Event().wait()


def pair_of(kind: type[Pipe]) -> Callable[[], tuple[Pipe, Pipe]]:
    def make() -> tuple[Pipe, Pipe]:
        server, client = kind(), kind()
        server.peer, client.peer = client, server
        return server, client

    return make


def test_the_link_to_break_is_whole() -> None:
    check_transport(pair_of(Pipe), limit=2, run=virtual)


@pytest.mark.parametrize(
    ("broken", "rule", "told"),
    [
        (Awaited, "L1", "send_event has to be awaited; only enqueue"),
        (NeverEmpty, "L1", "of 17 bytes waiting, nobody told that they had left"),
        (Reversed, "L2", "message 0 of 200 is '1 "),
        (LosesOnCancel, "L2", "with each receive cancelled"),
        (Endless, "L3", "8388608 bytes that nobody read were all kept"),
        (DropsFromTheMiddle, "L3", "lost messages from the middle"),
        (DropsTheRest, "L3", "1000 came and no reason why"),
        (TextAsBytes, "L4", "text came as bytes"),
        (OneChannel, "L4", "a picture came as bytes on 'events'"),
        (CutsPictures, "L4", "picture parts came damaged"),
        (CountsCharacters, "limit", "was taken; raise MessageTooLarge"),
        (ClosesRudely, "close", "a clean close came to the peer as ChannelClosedError"),
        (ClosesWithoutAWord, "close", "the peer still waits"),
        (ForgetsWhatWasSent, "close", "of 5 messages sent before the close 0 arrived"),
        (TakesAfterClosing, "close", "sending on the closed side was taken without a word"),
        (ClosingFails, "close", "aclose() raised RuntimeError"),
        (NeverOpens, "open", "nothing came for 2 s"),
    ],
)
def test_a_broken_link_is_caught_by_its_rule(broken: type[Pipe], rule: str, told: str) -> None:
    with pytest.raises(SyncError) as caught:
        check_transport(pair_of(broken), limit=2, run=virtual)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the link breaks its contract:"
    (line,) = [line for line in lines if line.startswith(f"  {rule}: ")]
    assert told in line
