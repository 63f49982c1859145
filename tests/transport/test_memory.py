"""The link in memory keeps L1-L4 on virtual time."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge, UsageError
from multimodal.sync.link import LinkProfile, Network
from multimodal.transport.base import Inbound
from multimodal.transport.inbox import INBOX_MESSAGES
from multimodal.transport.memory import DATAGRAM_BYTES, RETRANSMISSIONS, MemoryLink, memory_link
from multimodal.wire import MESSAGE_LIMIT_BYTES
from tests.support import virtual


def test_messages_keep_their_order_and_their_channel() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(delay=0.03))
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
        server, client = memory_link(LinkProfile(delay=0.1, bytes_per_s=1000))
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
        server, client = memory_link(LinkProfile(delay=0.05))
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


async def arrivals(client: MemoryLink, count: int) -> list[tuple[str | bytes, float]]:
    """The next messages, each with its time."""
    loop = asyncio.get_running_loop()
    found = []
    for _ in range(count):
        inbound = await client.receive()
        found.append((inbound.data[:2], round(loop.time(), 6)))
    return found


async def send_each(server: MemoryLink, messages: list[str], gap: float) -> None:
    for message in messages:
        server.send_event(message)
        await asyncio.sleep(gap)


def test_a_loss_is_repaired_by_three_later_messages_in_order(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server, client = memory_link(Network(LinkProfile(delay=0.03, lose=(1,)), LinkProfile(delay=0.02)))
        async with asyncio.TaskGroup() as group:
            group.create_task(send_each(server, ["0", "1", "2", "3", "4", "5", "6"], 0.01))
            reading = group.create_task(arrivals(client, 7))
        # Datagram 4 arrives at 0.07 and is acknowledged at 0.09; then 1 takes 0.03 and all behind it have waited.
        expected = [("0", 0.03), *((str(number), 0.12) for number in range(1, 7))]
        assert reading.result() == expected
        assert server.network.counters.lost == 1
        await asyncio.sleep(10)
        assert server.network.counters.sent == 8, "its timer went with it"

    virtual(scenario())
    assert caplog.records == []


def test_a_datagram_is_hastened_once_and_then_waits_for_its_timer() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(delay=0.01, lose=(0, 4)))
        async with asyncio.TaskGroup() as group:
            group.create_task(send_each(server, [str(number) for number in range(9)], 0.1))
            reading = group.create_task(arrivals(client, 9))
        # Sent again at 0.32, when the third later one was acknowledged, and lost once more: a second from there.
        assert reading.result() == [(str(number), 1.33) for number in range(9)]

    virtual(scenario())


@pytest.mark.parametrize(("delay", "rto"), [(0.03, 1.0), (0.25, 1.5)])
def test_a_lost_end_waits_for_the_timer_which_doubles(delay: float, rto: float) -> None:
    async def scenario() -> None:
        server, client = memory_link(Network(LinkProfile(delay=delay, lose=(1, 2)), LinkProfile(delay=delay)))
        server.send_event("0")
        server.send_event("1")
        assert await arrivals(client, 2) == [("0", delay), ("1", pytest.approx(rto + 2 * rto + delay))]

    virtual(scenario())


def test_pictures_do_not_wait_for_a_lost_word() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(delay=0.01, lose=(0,)))
        server.send_event("w0")
        server.send_image(b"p0")
        server.send_event("w1")
        await server.aclose()
        # The picture, the second word and the close are the three later datagrams.
        assert await arrivals(client, 3) == [(b"p0", 0.01), ("w0", 0.03), ("w1", 0.03)]
        with pytest.raises(ChannelClosedOK):
            await client.receive()

    virtual(scenario())


def test_the_close_waits_for_a_lost_picture() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(delay=0.01, lose=(0,)))
        server.send_image(b"p0")
        await server.aclose()
        assert await arrivals(client, 1) == [(b"p0", 1.01)]
        with pytest.raises(ChannelClosedOK):
            await client.receive()

    virtual(scenario())


def test_nothing_is_sent_again_to_a_peer_that_closed() -> None:
    async def scenario() -> None:
        server, client = memory_link(Network(LinkProfile(loss=1.0), LinkProfile()))
        server.send_event("lost")
        await client.aclose()
        with pytest.raises(ChannelClosedOK, match="the peer closed"):
            await server.receive()
        await asyncio.sleep(100)
        assert server.network.counters.sent == 1

    virtual(scenario())


def test_a_large_message_arrives_whole_or_not_yet() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(lose=(3,), reorder=0.2, duplicate=0.2, bytes_per_s=12_000), seed=3)
        data = bytes(range(250)) * 40
        server.send_image(data)
        server.send_event("behind")
        received = [await client.receive() for _ in range(2)]
        assert sorted(received) == [Inbound("events", "behind"), Inbound("images", data)]
        assert server.network.counters.sent == -(-len(data) // DATAGRAM_BYTES) + 2
        assert server.buffered_amount == 0

    virtual(scenario())


def test_a_small_mtu_makes_more_datagrams() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(mtu_bytes=500))
        server.send_event("x" * 1001)
        await client.receive()
        assert server.network.counters.sent == 3

    virtual(scenario())


def test_nothing_is_lost_or_disordered_on_a_bad_road() -> None:
    async def scenario() -> list[tuple[str | bytes, float]]:
        bad = LinkProfile(delay=0.05, jitter=0.1, loss=0.2, reorder=0.2, duplicate=0.1, freeze=((1, 2),), cut=((3, 4),))
        server, client = memory_link(bad, seed=7)
        async with asyncio.TaskGroup() as group:
            group.create_task(send_each(server, [f"{number:02}" for number in range(100)], 0.05))
            reading = group.create_task(arrivals(client, 100))
        return reading.result()

    found = virtual(scenario())
    assert [data for data, _ in found] == [f"{number:02}" for number in range(100)]
    assert found == virtual(scenario()), "the same seed gives the same times"


bad_roads = st.builds(
    LinkProfile,
    delay=st.floats(0, 0.5),
    jitter=st.sampled_from([0.0, 0.3]),
    bytes_per_s=st.one_of(st.none(), st.floats(2000, 1e6)),
    loss=st.floats(0, 0.3),
    lose=st.lists(st.integers(0, 20), max_size=3).map(tuple),
    reorder=st.floats(0, 0.5),
    duplicate=st.floats(0, 0.5),
    mtu_bytes=st.one_of(st.none(), st.integers(200, 1500)),
    freeze=st.sampled_from([(), ((0.1, 3.0),)]),
    cut=st.sampled_from([(), ((0.1, 3.0),)]),
)
sends = st.lists(
    st.tuples(st.sampled_from(["events", "images"]), st.integers(8, 5000), st.sampled_from([0.0, 0.01, 0.3])),
    max_size=20,
)


@given(bad_roads, sends, st.integers(0, 2**32))
def test_every_message_arrives_once_and_words_in_order(
    road: LinkProfile, messages: list[tuple[str, int, float]], seed: int
) -> None:
    async def scenario() -> list[Inbound]:
        server, client = memory_link(road, seed=seed)
        for number, (channel, size, gap) in enumerate(messages):
            data = str(number).rjust(size)
            if channel == "events":
                server.send_event(data)
            else:
                server.send_image(data.encode())
            await asyncio.sleep(gap)
        await server.aclose()
        received = []
        with suppress(ChannelClosedOK):
            while True:
                received.append(await client.receive())
        assert server.buffered_amount == 0
        return received

    received = virtual(scenario())
    expected = list(enumerate(channel for channel, _, _ in messages))
    assert sorted((int(data), channel) for channel, data in received) == expected
    words = [int(data) for channel, data in received if channel == "events"]
    assert words == sorted(words)


def test_a_road_that_is_cut_for_ever_is_lost_after_ten_timers() -> None:
    async def scenario() -> None:
        server, client = memory_link(LinkProfile(cut=((0, math.inf),)))
        server.send_event("lost")
        with pytest.raises(ChannelClosedError, match="unanswered 10 times"):
            await server.receive()
        assert asyncio.get_running_loop().time() == pytest.approx(2 ** (RETRANSMISSIONS + 1) - 1)
        await client.aclose()

    virtual(scenario())


def test_bounds_are_checked() -> None:
    async def scenario() -> None:
        server, _ = memory_link()
        with pytest.raises(MessageTooLarge):
            server.send_image(bytes(MESSAGE_LIMIT_BYTES + 1))
        with pytest.raises(MessageTooLarge):
            server.send_event("é" * (MESSAGE_LIMIT_BYTES // 2 + 1))
        with pytest.raises(UsageError, match="no network profile 'dial-up'; there are: good, 4g"):
            memory_link("dial-up")

    virtual(scenario())
