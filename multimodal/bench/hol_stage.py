"""One narration with pictures over one road, sent by one of several disciplines, and what it cost the words."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from multimodal.bench.hol_disciplines import DISCIPLINES, Discipline
from multimodal.events import AnyEvent, Text
from multimodal.stream import MultiModalStream
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import UdpRelay
from multimodal.transport.base import Inbound
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.values import EncodedImage

__all__ = [
    "CLEAN",
    "LIMITED",
    "LOOPBACK",
    "ROADS",
    "Run",
    "Server",
    "Shape",
    "answer_behind",
    "joined",
    "play",
    "relays_for",
]

LOOPBACK = "loopback"
ROADS: Mapping[str, LinkProfile | None] = {
    LOOPBACK: None,
    "50 ms, 10 Mb/s": LinkProfile(delay=0.025, bytes_per_s=1_250_000),
    "100 ms, 4 Mb/s": LinkProfile(delay=0.050, bytes_per_s=500_000),
    "60 ms, 5 Mb/s": LinkProfile(delay=0.030, bytes_per_s=625_000),
    "60 ms, 2 % loss": LinkProfile(delay=0.030, loss=0.02),
}
"""Each way; the times in the names are round trips. A queue of 128 KiB before each rate."""
LIMITED = tuple(name for name, road in ROADS.items() if road is not None and road.bytes_per_s)
CLEAN = (LOOPBACK, *LIMITED)
LOCAL = {"bind_addresses": ["127.0.0.1"]}
_CLOSED_WITHIN = 90.0


class Shape(msgspec.Struct, frozen=True):
    """What is told: words, one every `gap` seconds, and pictures of `picture_bytes`.

    A picture is handed over when the one before it has arrived and was decoded; `at_once` of them together at first.
    With `until` the words go on until so many pictures have arrived.
    """

    words: int = 200
    gap: float = 0.020
    picture_bytes: int = 200 * 1024
    at_once: int = 1
    until: int = 0


class Run(msgspec.Struct, frozen=True):
    """What one run gave.

    Args:
        waits_ms: of each word that was emitted while a picture was under way (of every word where there are none),
            from its emission to its arrival.
        pictures_ms: of each picture, from the bundle that describes it to its last byte.
        bytes_per_s: of all pictures together, first to last.
        resent: SCTP packets of the server that were sent again.
        datagrams: what became of the datagrams to the viewer.
    """

    waits_ms: list[float]
    pictures_ms: list[float]
    bytes_per_s: float
    resent: int
    datagrams: dict[str, int]


class _Split:
    """Words on one connection, pictures on another."""

    def __init__(self, words: WebRTCLink, pictures: WebRTCLink) -> None:
        self._words, self._pictures = words, pictures
        # One reader for both.
        pictures._inbox = words._inbox

    async def opened(self) -> None:
        await self._words.opened()
        await self._pictures.opened()

    def send_event(self, text: str) -> None:
        self._words.send_event(text)

    def send_last(self, text: str) -> None:
        self._words.send_last(text)

    def send_image(self, data: bytes) -> None:
        self._pictures.send_image(data)

    @property
    def buffered_amount(self) -> int:
        return self._words.buffered_amount + self._pictures.buffered_amount

    async def receive(self) -> Inbound:
        return await self._words.receive()

    def on_writable(self, callback: Callable[[], None]) -> None:
        self._words.on_writable(callback)
        self._pictures.on_writable(callback)

    async def aclose(self) -> None:
        await self._words.aclose()
        await self._pictures.aclose()


def joined(links: Sequence[WebRTCLink]) -> WebRTCLink | _Split:
    """One link of one or two connections."""
    return links[0] if len(links) == 1 else _Split(*links)


class Server:
    """The server's end of one run: a stream, a session, and the times of what it emitted, on `clock`."""

    def __init__(self, discipline: Discipline, shape: Shape, clock: Callable[[], float]) -> None:
        self._discipline, self._shape, self._clock = discipline, shape, clock
        self._ready = 0
        self._resent = 0
        self._texts: dict[int, float] = {}
        self._assets: dict[str, float] = {}

    async def serve(self, link: Any, wires: Sequence[WebRTCLink]) -> None:
        """To the end of the narration, when the viewer leaves."""
        for each in wires:
            self._count_resent(each)
        stream = MultiModalStream(self._words(), self._images())
        scheduler = self._discipline.scheduler()
        session = ViewerSession(stream, link, on_record=self._record, scheduler=scheduler)
        async with asyncio.timeout(_CLOSED_WITHIN):
            await session.run()

    def result(self, words: Mapping[int, float], pictures: Mapping[str, float], relay: UdpRelay | None) -> Run:
        """With what the viewer saw: when each word's event and each whole picture arrived, on the same clock."""
        under_way = [(at, pictures.get(key, at)) for key, at in self._assets.items()]
        waits = [
            (words[seq] - at) * 1000
            for seq, at in self._texts.items()
            if not under_way or any(begin <= at <= end for begin, end in under_way)
        ]
        whole = {key: at for key, at in pictures.items() if key in self._assets}
        took = max(whole.values()) - min(self._assets.values()) if whole else 0.0
        counters = {} if relay is None else msgspec.to_builtins(relay.down.counters)
        return Run(
            waits,
            [(at - self._assets[key]) * 1000 for key, at in whole.items()],
            len(whole) * self._shape.picture_bytes / took if whole else 0.0,
            self._resent,
            {name: counters[name] for name in ("sent", "lost", "overflowed") if name in counters},
        )

    def _count_resent(self, link: WebRTCLink) -> None:
        # aiortc keeps no such figure, but each of its chunks knows how often it was sent.
        assert link._pc.sctp is not None
        sctp: Any = link._pc.sctp
        send = sctp._send_chunk

        async def counting(chunk: Any) -> None:
            self._resent += getattr(chunk, "_sent_count", 1) > 1
            await send(chunk)

        sctp._send_chunk = counting

    def _record(self, line: dict[str, Any]) -> None:
        if line["vantage"] == "ready":
            self._ready += 1
        elif line["vantage"] == "emitted" and line["event"]["kind"] == "text":
            self._texts[line["event"]["seq"]] = self._clock()
        elif line["vantage"] == "emitted" and line["event"]["kind"] == "asset":
            self._assets[line["event"]["key"]] = self._clock()

    async def _words(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        while self._discipline.pictures and not self._ready and not self._shape.until:  # noqa: ASYNC110 - as below
            # A stream waits for its first pictures: what comes while the road finds its speed is no narration.
            await asyncio.sleep(0.005)
        due = loop.time()
        index = 0
        while self._ready < self._shape.until if self._shape.until else index < self._shape.words:
            # On a grid, so that a slow machine is not an easier test.
            due += self._shape.gap
            await asyncio.sleep(due - loop.time())
            yield f"word{index} "
            index += 1

    async def _images(self) -> AsyncIterator[EncodedImage]:
        number = 0
        while self._discipline.pictures:
            while number >= self._ready + self._shape.at_once:  # noqa: ASYNC110 - a receipt has no event to wait for
                await asyncio.sleep(0.002)
            yield EncodedImage(f"p{number}", os.urandom(self._shape.picture_bytes), "image/webp", 800, 800)
            number += 1


async def play(road: str, discipline: str, shape: Shape, seed: int = 0) -> Run:
    """With an aiortc viewer, in this process: every figure contains its work too."""
    plan = DISCIPLINES[discipline]
    server = Server(plan, shape, time.monotonic)
    words: dict[int, float] = {}
    pictures: dict[str, float] = {}

    def on_show(events: tuple[AnyEvent, ...]) -> None:
        words.update({event.seq: time.monotonic() for event in events if isinstance(event, Text)})

    def decode(key: str) -> float:
        pictures[key] = time.monotonic()
        return 0.0

    async with AsyncExitStack() as stack:
        relays = await relays_for(stack, road, plan.connections, seed)
        servers, clients = [], []
        for number in range(plan.connections):
            client, offer = await WebRTCLink.offering(**LOCAL)
            link, answer = await answer_behind(relays, number, offer)
            await client.accept(answer)
            servers.append(link)
            clients.append(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(joined(servers), servers))
            group.create_task(Viewer(joined(clients), decode=decode, on_show=on_show).watch())
        return server.result(words, pictures, relays[0] if relays else None)


async def relays_for(stack: AsyncExitStack, road: str, count: int, seed: int) -> list[UdpRelay]:
    """A relay for each connection, all on one network; none on loopback."""
    profile = ROADS[road]
    relays: list[UdpRelay] = []
    if profile is not None:
        for _ in range(count):
            relay = UdpRelay(profile, seed=seed, beside=relays[0] if relays else None)
            relays.append(await stack.enter_async_context(relay))
    return relays


async def answer_behind(relays: Sequence[UdpRelay], number: int, offer: str) -> tuple[WebRTCLink, str]:
    """The server's end for an offer, and the answer as the viewer gets it."""
    if not relays:
        return await WebRTCLink.answering(offer, **LOCAL)
    link, answer = await WebRTCLink.answering(UdpRelay.rewrite_offer(offer), **LOCAL)
    return link, await relays[number].rewrite_answer(answer)
