"""The link in memory keeps L1-L4 on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge, UsageError
from multimodal.transport.base import Inbound
from multimodal.transport.inbox import INBOX_MESSAGES
from multimodal.transport.memory import memory_link
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import virtual


def test_messages_keep_their_order_and_their_channel() -> None:
    async def scenario() -> None:
        server, client = memory_link(latency=0.03)
        await server.opened()
        for number in range(50):
            server.send_event(str(number))
            server.send_image(bytes([number]))
        received = [await client.receive() for _ in range(100)]
        assert received[::2] == [Inbound("events", str(number)) for number in range(50)]
        assert received[1::2] == [Inbound("images", bytes([number])) for number in range(50)]
        assert asyncio.get_running_loop().time() == pytest.approx(0.03)

    virtual(scenario())


def test_the_rate_delays_and_shows_in_the_buffered_amount() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server, client = memory_link(latency=0.1, bytes_per_s=1000)
        empty: list[float] = []
        server.on_writable(lambda: empty.append(loop.time()))
        server.send_image(bytes(500))
        server.send_event("x" * 100)
        assert server.buffered_amount == 600
        await client.receive()
        assert loop.time() == pytest.approx(0.6)
        await client.receive()
        assert loop.time() == pytest.approx(0.7)
        assert server.buffered_amount == 0
        assert empty == [pytest.approx(0.6)]

    virtual(scenario())


def test_closing_lets_what_is_under_way_arrive() -> None:
    async def scenario() -> None:
        server, client = memory_link(latency=0.05)
        server.send_event("last words")
        await server.aclose()
        await server.aclose()
        assert await client.receive() == Inbound("events", "last words")
        for link in (client, server):
            with pytest.raises(ChannelClosedOK):
                await link.receive()
            with pytest.raises(ChannelClosedOK):
                link.send_event("too late")

    virtual(scenario())


def test_a_cut_road_says_nothing() -> None:
    async def scenario() -> None:
        server, client = memory_link()
        client.sever()
        server.send_event("lost")
        await client.aclose()
        for link in (server,):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(60):
                    await link.receive()

    virtual(scenario())


def test_a_flood_drops_the_peer_with_a_reason() -> None:
    async def scenario() -> None:
        server, client = memory_link()
        for _ in range(INBOX_MESSAGES + 1):
            client.send_event("x")
        await asyncio.sleep(0.1)
        with pytest.raises(ChannelClosedError, match="flooded the link"):
            await server.receive()
        with pytest.raises(ChannelClosedError, match="flooded"):
            await client.receive()

    virtual(scenario())


def test_cancelling_receive_loses_nothing() -> None:
    async def scenario() -> None:
        server, client = memory_link()
        for number in range(20):
            waiting = asyncio.ensure_future(client.receive())
            await asyncio.sleep(0)
            server.send_event(str(number))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            message = await client.receive() if waiting.cancelled() else waiting.result()
            assert message == Inbound("events", str(number))

    virtual(scenario())


def test_bounds_are_checked() -> None:
    async def scenario() -> None:
        server, _ = memory_link()
        with pytest.raises(MessageTooLarge):
            server.send_image(bytes(MESSAGE_LIMIT_BYTES + 1))
        with pytest.raises(MessageTooLarge):
            server.send_event("é" * (MESSAGE_LIMIT_BYTES // 2 + 1))
        with pytest.raises(UsageError, match="latency"):
            memory_link(latency=-1)
        with pytest.raises(UsageError, match="bytes_per_s"):
            memory_link(bytes_per_s=0)

    virtual(scenario())
