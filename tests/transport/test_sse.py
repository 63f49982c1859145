"""A link over an event stream: what is on the wire, what a viewer that only reads is vouched for, and its ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from multimodal import wire
from multimodal.errors import ChannelClosedError, UsageError
from multimodal.events import Event, Snapshot
from multimodal.sse_reader import SSEDecoder, SSEEvent
from multimodal.transport.inbox import INBOX_MESSAGES
from multimodal.transport.sse import SSELink, format_event
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import run
from tests.transport.asgi import FakeServer
from tests.transport.events import picture, reserved, reveal, text
from tests.transport.leaks import nothing_left, until


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[tuple[SSELink, FakeServer]]:
    server = FakeServer()
    link = SSELink(server.receive, server.send, **settings)
    task = asyncio.ensure_future(link.run())
    try:
        await link.opened()
        yield link, server
    finally:
        await link.aclose()
        await task


def scenario(act: Callable[[SSELink, FakeServer], Awaitable[None]], **settings: Any) -> None:
    async def checked() -> None:
        async with nothing_left(), running(**settings) as (link, server):
            await act(link, server)

    run(checked())


def bundle(*events: Event, more: bool = False) -> str:
    message = next(iter(wire.encode_bundle(events)))
    return message.replace('"more":false', '"more":true') if more else message


async def said(link: SSELink, count: int) -> list[dict[str, Any]]:
    return [json.loads((await link.receive()).data) for _ in range(count)]


def test_the_first_bytes_come_at_once_and_no_proxy_keeps_them() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        headers = dict(server.sent[0]["headers"])
        assert server.sent[0]["status"] == 200
        assert headers[b"content-type"].startswith(b"text/event-stream")
        assert (headers[b"cache-control"], headers[b"x-accel-buffering"]) == (b"no-cache, no-transform", b"no")
        assert headers[b"location"] == b"/sse/demo/seat"
        assert server.body == b"retry: 500\n\n"

    scenario(act, headers=[(b"location", b"/sse/demo/seat")])


def test_messages_are_events_and_whole_bundles_have_an_id() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        snapshot = Snapshot(1, "s", 0, 40, 0.0, 40, assets=(reserved(7, picture("p")),), shown=(reveal(39),))
        messages = [
            wire.encode(wire.Seat("/whep/demo/abc")),
            bundle(text(0), text(1, '中文\n"seq":99\u2028')),
            wire.encode(wire.Ping(1, 2.0)),
            bundle(text(2), more=True),
            bundle(text(3)),
            bundle(snapshot),
        ]
        for message in messages:
            link.send_event(message)
        link.send_event(wire.encode(wire.Tick()))
        await until(lambda: link.buffered_amount == 0)
        await link.aclose()
        events = SSEDecoder().feed(server.body)
        assert [event.data for event in events] == messages
        assert [event.id for event in events] == ["", "1", "1", "1", "3", "40"]
        assert [wire.decode_server(event.data) is not None for event in events] == [True] * 6
        assert server.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}

    scenario(act)


def test_what_is_posted_comes_in_order() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        assert link.deliver('{"type":"pause"}')
        assert link.deliver(b'{"type":"resume"}')
        assert [(await link.receive()).data for _ in range(2)] == ['{"type":"pause"}', b'{"type":"resume"}']

    scenario(act)


def test_pictures_are_refused() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        assert link.pictures_by_url
        with pytest.raises(UsageError, match="by its URL"):
            link.send_image(b"picture")

    scenario(act)


def test_a_flood_and_a_message_above_the_limit_are_cut_off() -> None:
    async def flood(link: SSELink, server: FakeServer) -> None:
        assert [link.deliver("{}") for _ in range(INBOX_MESSAGES + 2)] == [True] * INBOX_MESSAGES + [False] * 2
        with pytest.raises(ChannelClosedError, match="flooded"):
            await link.receive()

    async def large(link: SSELink, server: FakeServer) -> None:
        assert not link.deliver("x" * (MESSAGE_LIMIT_BYTES + 1))
        with pytest.raises(ChannelClosedError, match="the limit is"):
            await link.receive()

    scenario(flood)
    scenario(large)


def test_a_client_that_has_gone_is_noticed() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        server.comes(type="http.disconnect")
        with pytest.raises(ChannelClosedError, match="closed its event stream, or was lost"):
            await link.receive()
        assert not link.deliver("{}")

    scenario(act)


def test_a_response_that_cannot_begin_ends_the_link() -> None:
    async def act() -> None:
        server = FakeServer()
        server.gone = OSError("Broken pipe")
        link = SSELink(server.receive, server.send)
        await link.run()
        with pytest.raises(ChannelClosedError, match="lost: Broken pipe"):
            await link.opened()
        await link.aclose()

    run(act())


def test_a_viewer_that_only_reads_is_vouched_for_by_what_the_transport_took() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        server.open.clear()
        link.send_event(bundle(text(0), reserved(1, picture("p")), text(2)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await link.receive()
        server.open.set()
        assert await said(link, 2) == [
            {"type": "ready", "key": "p", "ok": True, "reason": ""},
            {"type": "ack", "seq": 2, "picture_bytes": 0},
        ]
        link.send_event(wire.encode(wire.Ping(1)))
        assert await said(link, 1) == [{"type": "ack", "seq": 2, "picture_bytes": 0}]
        link.send_event(bundle(Snapshot(1, "s", 0, 9, 0.0, 9, assets=(reserved(7, picture("q")),))))
        assert [message["type"] for message in await said(link, 2)] == ["ready", "ack"]
        assert link.deliver('{"type":"pause"}')
        link.send_event(bundle(text(10)))
        await until(lambda: link.buffered_amount == 0)
        assert await said(link, 1) == [{"type": "pause"}]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await link.receive()

    scenario(act, vouch=True)


def test_one_that_speaks_for_itself_is_not() -> None:
    async def act(link: SSELink, server: FakeServer) -> None:
        link.send_event(bundle(text(0)))
        await until(lambda: link.buffered_amount == 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await link.receive()

    scenario(act)


def test_the_form_of_an_event() -> None:
    written = format_event("a\nb", "7", "add") + format_event("") + format_event("c")
    assert SSEDecoder().feed(written) == [
        SSEEvent("7", "add", "a\nb"),
        SSEEvent("7", "message", ""),
        SSEEvent("7", "message", "c"),
    ]
