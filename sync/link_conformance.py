"""Whether a road between server and viewer keeps its contract, by the numbers of `multimodal.transport.base`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from multimodal.errors import ChannelClosedError, ChannelClosedOK, MessageTooLarge
from multimodal.sync.findings import QUIET, Findings, TookTooLongError, in_time, made_by, nothing_left
from multimodal.wire import MESSAGE_LIMIT_BYTES

__all__ = ["check_link_pair"]

MANY = 200
"""Messages whose order is looked at: more than any window or buffer that joins them."""
FLOOD_PIECE = 512
CLOSED = (ChannelClosedOK, ChannelClosedError)


async def check_link_pair(make_link_pair: Callable[[], Any], flood_bytes: int, limit: float) -> Findings:
    """Play through the contract of a link, each part on a pair of its own."""
    found = Findings("the link")
    async with nothing_left(found, "close"):
        for part in (_both_ways, _pictures, _limits, _cancelled, _writable, _closing, _flood):
            if found.has("L1") or (part is _flood and not flood_bytes):
                continue  # a link whose sending has to be awaited can be asked nothing more
            server, client = await made_by(make_link_pair)
            name = part.__name__.strip("_")
            try:
                await _opened((server, client), limit)
                if part is _flood:
                    await _flood(server, client, found, limit, flood_bytes)
                else:
                    await part(server, client, found, limit)
            except TookTooLongError:
                found.add("open", f"{name}: nothing came for {limit:g} s", "open, and deliver what was sent")
            except CLOSED as error:
                found.add("open", f"{name}: {error!r}", "keep the road open until it is closed")
            finally:
                for link in (server, client):
                    await _close(link, found, limit)
    return found


async def _opened(pair: Any, limit: float) -> None:
    for link in pair:
        await in_time(link.opened(), limit)


async def _both_ways(server: Any, client: Any, found: Findings, limit: float) -> None:
    """L1, L2, L4: what is sent before anybody reads arrives, in order, as it was sent."""
    for sender, receiver in ((server, client), (client, server)):
        texts = [f"{number} é 水 👩\u200d👧 " + "x" * (number % 7) for number in range(MANY)]
        for text in texts:
            answer = sender.send_event(text)
            if isawaitable(answer):
                answer.close()  # type: ignore[attr-defined]
                return found.add("L1", "send_event has to be awaited", "only enqueue, and return at once")
        got = [await in_time(receiver.receive(), limit) for _ in texts]
        if any(channel != "events" for channel, _ in got):
            found.add("L4", f"text came on {got[0][0]!r}", "give channel 'events' with what send_event sent")
        elif any(not isinstance(data, str) for _, data in got):
            found.add("L4", f"text came as {type(got[0][1]).__name__}", "give str for what send_event sent")
        elif [data for _, data in got] != texts:
            place = next(at for at, (one, other) in enumerate(zip(got, texts, strict=True)) if one[1] != other)
            seen = f"message {place} of {MANY} is {got[place][1]!r}, sent was {texts[place]!r}"
            found.add("L2", seen, "attach listeners before the first byte can come, and keep the order")


async def _pictures(server: Any, client: Any, found: Findings, limit: float) -> None:
    """L4: bytes arrive as bytes, whole, in any order."""
    parts = [bytes([number]) * (1 + 977 * number % 8192) for number in range(40)]
    for part in parts:
        server.send_image(part)
    got = [await in_time(client.receive(), limit) for _ in parts]
    if any(channel != "images" or not isinstance(data, bytes) for channel, data in got):
        odd = next(item for item in got if item[0] != "images" or not isinstance(item[1], bytes))
        seen = f"a picture came as {type(odd[1]).__name__} on {odd[0]!r}"
        found.add("L4", seen, "give channel 'images' and bytes for what send_image sent")
    elif sorted(data for _, data in got) != sorted(parts):
        found.add("L4", "picture parts came damaged", "deliver each message whole, and as it was sent")


async def _limits(server: Any, client: Any, found: Findings, limit: float) -> None:
    """The largest message passes, a larger one is refused here and now, and nothing of it leaves."""
    server.send_image(bytes(MESSAGE_LIMIT_BYTES))
    _, data = await in_time(client.receive(), limit)
    if len(data) != MESSAGE_LIMIT_BYTES:
        found.add("limit", f"of {MESSAGE_LIMIT_BYTES} bytes {len(data)} came", "carry messages up to the limit whole")
    for send, large in (
        (server.send_event, "é" * (MESSAGE_LIMIT_BYTES // 2 + 1)),
        (server.send_image, bytes(MESSAGE_LIMIT_BYTES + 1)),
    ):
        try:
            send(large)
        except MessageTooLarge:
            continue
        except Exception as error:
            found.add("limit", f"a message above the limit raised {error!r}", "raise MessageTooLarge")
        else:
            seen = f"a message above {MESSAGE_LIMIT_BYTES} bytes (in UTF-8) was taken"
            found.add("limit", seen, "raise MessageTooLarge before anything leaves: peers drop it, or the connection")
            return
    server.send_event("after")
    _, data = await in_time(client.receive(), limit)
    if data != "after":
        found.add("limit", "something of a refused message arrived", "send nothing of it")


async def _cancelled(server: Any, client: Any, found: Findings, limit: float) -> None:
    """Cancelling a receive loses nothing."""
    got: list[Any] = []
    for number in range(20):
        waiting = asyncio.ensure_future(client.receive())
        await asyncio.sleep(0)
        server.send_event(str(number))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        if not waiting.cancelled():
            got.append(waiting.result())
    while len(got) < 20:
        try:
            got.append(await in_time(client.receive(), limit))
        except TookTooLongError:
            break
    if [data for _, data in got] != [str(number) for number in range(20)]:
        seen = f"with each receive cancelled, {len(got)} of 20 messages came: {[data for _, data in got]}"
        found.add("L2", seen, "take a message out of the inbox only when it is handed over")


async def _writable(server: Any, client: Any, found: Findings, limit: float) -> None:
    """L1: what could not leave shows in buffered_amount, and its fall to 0 is told."""
    told = asyncio.Event()
    server.on_writable(told.set)
    for _ in range(32):
        server.send_image(bytes(8192))
        if not isinstance(server.buffered_amount, int) or server.buffered_amount < 0:
            return found.add("L1", f"buffered_amount is {server.buffered_amount!r}", "count bytes, 0 or more")
    waited = server.buffered_amount
    for _ in range(32):
        await in_time(client.receive(), limit)
    try:
        if waited:
            await in_time(told.wait(), limit)
    except TookTooLongError:
        found.add(
            "L1", f"of {waited} bytes waiting, nobody told that they had left", "call on_writable's callback at 0"
        )
    if server.buffered_amount:
        await asyncio.sleep(QUIET)
    if server.buffered_amount:
        seen = f"everything arrived and buffered_amount is still {server.buffered_amount}"
        found.add("L1", seen, "count down what has left")


async def _closing(server: Any, client: Any, found: Findings, limit: float) -> None:
    """What was sent before a close arrives before it does; then both sides know, and twice is once."""
    for number in range(5):
        server.send_event(str(number))
    await _close(server, found, limit)
    await _close(server, found, limit)
    got: list[Any] = []
    try:
        while True:
            got.append(await in_time(client.receive(), limit))
    except ChannelClosedOK:
        pass
    except ChannelClosedError as error:
        found.add("close", f"a clean close came to the peer as {error!r}", "tell it apart: ChannelClosedOK")
    except TookTooLongError:
        found.add("close", f"{limit:g} s after a close the peer still waits", "end its receive with ChannelClosedOK")
    if [data for _, data in got] != [str(number) for number in range(5)]:
        seen = f"of 5 messages sent before the close {len(got)} arrived"
        found.add("close", seen, "let what was sent leave before closing")
    for name, link in (("the closed side", server), ("its peer", client)):
        try:
            link.send_event("too late")
        except CLOSED:
            pass
        except Exception as error:
            found.add("close", f"sending on {name} raised {error!r}", "raise ChannelClosedOK or ChannelClosedError")
        else:
            found.add("close", f"sending on {name} was taken without a word", "raise ChannelClosedOK")
        try:
            await in_time(link.receive(), limit)
        except CLOSED:
            pass
        except TookTooLongError:
            found.add("close", f"receive on {name} waits for ever", "raise ChannelClosedOK once all is read")


async def _flood(server: Any, client: Any, found: Findings, limit: float, flood_bytes: int = 0) -> None:
    """L3: nobody reads. Either the road holds back, or the peer is dropped; never does a piece go out of the middle."""
    sent = 0
    try:
        for number in range(flood_bytes // FLOOD_PIECE):
            client.send_event(f"{number} ".ljust(FLOOD_PIECE, "x"))
            sent += 1
            if number % 64 == 0:
                await asyncio.sleep(0)
    except CLOSED:
        pass  # dropped while it was sending
    await asyncio.sleep(QUIET)
    clock = asyncio.get_running_loop().time
    until = clock() + limit
    while client.buffered_amount and clock() < until:
        before = client.buffered_amount
        await asyncio.sleep(QUIET)
        if client.buffered_amount >= before:
            break
    held_back = client.buffered_amount
    numbers: list[int] = []
    dropped = False
    try:
        while len(numbers) < sent:
            _, data = await in_time(server.receive(), limit)
            numbers.append(int(str(data).split()[0]))
    except CLOSED:
        dropped = True
    except TookTooLongError:
        pass
    if numbers != list(range(len(numbers))):
        found.add("L3", "a flooded inbox lost messages from the middle", "drop the peer with a reason, or hold it back")
    elif not dropped and len(numbers) < sent:
        seen = f"of {sent} messages that nobody read at once, {len(numbers)} came and no reason why"
        found.add("L3", seen, "drop the peer with ChannelClosedError that says so")
    elif not dropped and not held_back:
        seen = f"{sent * FLOOD_PIECE} bytes that nobody read were all kept"
        found.add("L3", seen, "bound the inbox, and drop a peer that floods it")


async def _close(link: Any, found: Findings, limit: float) -> None:
    try:
        await in_time(link.aclose(), limit)
    except TookTooLongError:
        found.add("close", f"aclose() took more than {limit:g} s", "free what it holds, and wait for nothing else")
    except Exception as error:
        found.add("close", f"aclose() raised {error!r}", "close quietly; twice is once")
