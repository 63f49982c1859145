"""Parts that come spoilt, or not at all, over a running session: every picture comes whole, and none is ever wrong."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Inbound
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.viewer import Viewer
from multimodal.values import EncodedImage
from tests.support import virtual

CHANCE = random.Random(6)
PICTURES = [EncodedImage(f"p{i}", CHANCE.randbytes(100_000), "image/webp", 300, 300) for i in range(4)]


class BadRoad:
    """A viewer's link, between which and its reader something happens to parts of pictures."""

    def __init__(self, link: MemoryLink, spoil: float, drop: float) -> None:
        self._link, self._spoil, self._drop = link, spoil, drop
        self._chance = random.Random(6)
        self.spoilt = self.dropped = 0

    async def opened(self) -> None:
        await self._link.opened()

    def send_event(self, text: str) -> None:
        self._link.send_event(text)

    async def receive(self) -> Inbound:
        while True:
            inbound = await self._link.receive()
            if inbound.channel == "events" or not isinstance(inbound.data, bytes):
                return inbound
            if self._chance.random() < self._drop:
                self.dropped += 1
                continue
            if self._chance.random() < self._spoil:
                self.spoilt += 1
                data = bytearray(inbound.data)
                data[-1 - self._chance.randrange(100)] ^= 1 << self._chance.randrange(8)
                return Inbound("images", bytes(data))
            return inbound

    async def aclose(self) -> None:
        await self._link.aclose()


@pytest.mark.parametrize(("spoil", "drop"), [(0.2, 0.0), (0.0, 0.1), (0.1, 0.05)])
def test_pictures_come_whole_over_a_road_that_spoils_and_swallows(spoil: float, drop: float) -> None:
    async def act() -> None:
        words = [f"w{number} " for number in range(120)]
        live = LiveSession(MultiModalStream(ScriptTextPipe(words, gap=0.5), ScriptImagePipe(PICTURES)))
        server, client = memory_link()
        connection = live.connect(live.sit(Seat()), server)
        running = asyncio.ensure_future(live.run())
        road = BadRoad(client, spoil, drop)
        viewer = Viewer(road)  # type: ignore[arg-type]
        seen = await viewer.watch()
        assert seen.text == "".join(words)
        assert seen.pictures == {image.key: image.data for image in PICTURES}
        assert road.spoilt + road.dropped >= 10
        assert (connection.malformed, viewer.protocol.doubled) == (0, 0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    virtual(act())
