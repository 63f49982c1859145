"""A link over a WebSocket: what it owes to L1-L4, against a server that takes what the test lets it take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from multimodal import wire
from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge
from multimodal.transport import outgoing
from multimodal.transport.inbox import INBOX_MESSAGES
from multimodal.transport.outgoing import OUT_LIMIT_BYTES
from multimodal.transport.websocket import WebSocketLink
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import run
from tests.transport.asgi import FakeServer
from tests.transport.leaks import nothing_left, until


@asynccontextmanager
async def running() -> AsyncIterator[tuple[WebSocketLink, FakeServer]]:
    server = FakeServer()
    link = WebSocketLink(server.receive, server.send)
    task = asyncio.ensure_future(link.run())
    try:
        await link.opened()
        yield link, server
    finally:
        await link.aclose()
        await task


def scenario(act: Callable[[WebSocketLink, FakeServer], Awaitable[None]]) -> None:
    async def checked() -> None:
        async with nothing_left(), running() as (link, server):
            await act(link, server)

    run(checked())


def test_l4_text_is_events_and_bytes_are_images_both_ways() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        link.send_event("one")
        link.send_image(b"two")
        link.send_event("three")
        assert server.sent == []
        await until(lambda: len(server.sent) == 3)
        assert [message.get("text") or message.get("bytes") for message in server.sent] == ["one", b"two", "three"]
        server.comes(type="websocket.receive", text="hello")
        server.comes(type="websocket.receive", bytes=b"picture", text=None)
        assert await link.receive() == ("events", "hello")
        assert await link.receive() == ("images", b"picture")

    scenario(act)


def test_l1_what_the_transport_has_not_taken_is_buffered() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        free: list[int] = []
        link.on_writable(lambda: free.append(link.buffered_amount))
        server.open.clear()
        link.send_event("é" * 10)
        link.send_image(bytes(100))
        assert link.buffered_amount == 120
        await asyncio.sleep(0.01)
        assert (link.buffered_amount, free, server.sent) == (120, [], [])
        server.open.set()
        await until(lambda: len(server.sent) == 2)
        assert (link.buffered_amount, free, link.high_water_bytes) == (0, [0], 120)

    scenario(act)


def test_messages_up_to_the_limit_pass_and_larger_ones_are_refused() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        link.send_event("x" * MESSAGE_LIMIT_BYTES)
        link.send_image(bytes(MESSAGE_LIMIT_BYTES))
        with pytest.raises(MessageTooLarge):
            link.send_event("é" * (MESSAGE_LIMIT_BYTES // 2 + 1))
        with pytest.raises(MessageTooLarge):
            link.send_image(bytes(MESSAGE_LIMIT_BYTES + 1))
        assert link.buffered_amount == 2 * MESSAGE_LIMIT_BYTES

    scenario(act)


def test_what_waits_is_bounded() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.open.clear()
        for _ in range(OUT_LIMIT_BYTES // MESSAGE_LIMIT_BYTES):
            link.send_image(bytes(MESSAGE_LIMIT_BYTES))
        with pytest.raises(ChannelClosedError, match="takes nothing"):
            link.send_image(bytes(MESSAGE_LIMIT_BYTES))
        with pytest.raises(ChannelClosedError, match="takes nothing"):
            await link.receive()
        assert link.buffered_amount <= MESSAGE_LIMIT_BYTES
        server.open.set()

    scenario(act)


def test_l3_a_flood_is_cut_off() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        for number in range(INBOX_MESSAGES + 1):
            server.comes(type="websocket.receive", text=str(number))
        await until(lambda: bool(server.sent))
        assert (server.sent[-1]["type"], server.sent[-1]["code"]) == ("websocket.close", 1008)
        with pytest.raises(ChannelClosedError, match="flooded"):
            await link.receive()

    scenario(act)


@pytest.mark.parametrize("message", [{"text": "x" * (MESSAGE_LIMIT_BYTES + 1)}, {"bytes": bytes(10**6)}])
def test_a_message_above_the_limit_is_cut_off(message: dict[str, str | bytes]) -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.comes(type="websocket.receive", **message)
        await until(lambda: bool(server.sent))
        assert server.sent[-1]["code"] == 1009
        assert len(server.sent[-1]["reason"].encode()) <= 123
        with pytest.raises(ChannelClosedError, match=f"the limit is {MESSAGE_LIMIT_BYTES}"):
            await link.receive()

    scenario(act)


@pytest.mark.parametrize(
    ("code", "error"),
    [(1000, ChannelClosedOK), (1001, ChannelClosedOK), (1005, ChannelClosedError), (1006, ChannelClosedError)],
)
def test_the_peer_leaves(code: int, error: type[Exception]) -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.comes(type="websocket.receive", text="last")
        server.comes(type="websocket.disconnect", code=code, reason="why")
        assert await link.receive() == ("events", "last")
        with pytest.raises(error, match="why"):
            await link.receive()
        with pytest.raises(error):
            link.send_event("late")

    scenario(act)


def test_a_send_that_fails_ends_the_link() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.gone = RuntimeError("Unexpected ASGI message")
        link.send_event("one")
        with pytest.raises(ChannelClosedError, match="lost: Unexpected"):
            await link.receive()

    scenario(act)


def test_a_receive_that_fails_ends_the_link() -> None:
    async def act() -> None:
        server = FakeServer()

        async def receive() -> dict[str, object]:
            raise RuntimeError('Cannot call "receive"')

        link = WebSocketLink(receive, server.send)
        await link.run()
        with pytest.raises(ChannelClosedError, match="lost: Cannot call"):
            await link.receive()
        with pytest.raises(ChannelClosedError, match="lost: Cannot call"):
            await link.opened()

    run(act())


def test_a_close_waits_for_what_was_sent_before_it() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.open.clear()
        link.send_event("last words")
        closing = asyncio.ensure_future(link.aclose())
        await asyncio.sleep(0)
        with pytest.raises(ChannelClosedOK):
            link.send_event("late")
        server.open.set()
        await closing
        assert [message["type"] for message in server.sent] == ["websocket.send", "websocket.close"]
        assert server.sent[-1]["code"] == 1000
        await link.aclose()

    scenario(act)


def test_a_close_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "CLOSE_LIMIT", 0.05)

    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.open.clear()
        link.send_event("never read")
        await link.aclose()
        assert (server.sent, link.buffered_amount) == ([], 0)

    scenario(act)


def test_the_last_words_leave_in_the_call_that_says_them() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        link.send_event("one")
        link.send_last(wire.encode(wire.Bye("the server is stopping")))
        assert [message["text"] for message in server.sent] == [
            "one",
            '{"type":"bye","reason":"the server is stopping"}',
        ]
        assert link.buffered_amount == 0

    scenario(act)


def test_the_last_words_wait_where_nothing_is_taken() -> None:
    async def act(link: WebSocketLink, server: FakeServer) -> None:
        server.open.clear()
        link.send_last("bye")
        assert (server.sent, link.buffered_amount) == ([], 3)
        server.open.set()
        await until(lambda: len(server.sent) == 1)

    scenario(act)


def test_cancelling_the_run_ends_the_link() -> None:
    async def act() -> None:
        server = FakeServer()
        link = WebSocketLink(server.receive, server.send)
        task = asyncio.ensure_future(link.run())
        await link.opened()
        task.cancel()
        await asyncio.wait((task,))
        with pytest.raises(ChannelClosedError, match="given up"):
            await link.receive()
        await link.aclose()

    run(act())


def test_a_link_that_never_ran_closes_at_once() -> None:
    async def act() -> None:
        server = FakeServer()
        link = WebSocketLink(server.receive, server.send)
        link.send_event("never")
        await link.aclose()
        await link.aclose()
        assert server.sent == []

    run(act())
