"""A tour with realistic pictures on 4 Mb/s and 100 ms: prefetch is what has them there when their words come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from multimodal.bench.slow_tour_stage import looking_ahead
from multimodal.events import Reveal, Swap
from multimodal.pictures import LOOK_AHEAD
from multimodal.pipes.script import ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.memory import memory_link
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from multimodal.values import Cue, EncodedImage, ImageFailure, ViewerNeeds
from multimodal.wire import Hello
from tests.support import virtual

COUNT, WORDS = 40, 2  # 40 pictures, one every two words: half of what the road carries
SIZES = (28_000, 45_000, 96_000, 61_000, 160_000)
ENCODING = 0.06


class Studio:
    """Pictures of stated sizes, encoded one after the other as they are wanted; notes what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._queue: list[str] = []
        self._wake = asyncio.Event()

    def fit(self, viewer: ViewerNeeds) -> None:
        self.told.append(f"fit {viewer.width_px}")

    def want(self, keys: Sequence[str], *, final: bool = False) -> None:
        self.told.append("want")
        self._queue += [key for key in keys if key not in self._queue]
        self._wake.set()

    def __aiter__(self) -> AsyncIterator[EncodedImage | ImageFailure]:
        return self

    async def __anext__(self) -> EncodedImage | ImageFailure:
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        await asyncio.sleep(ENCODING)
        key = self._queue.pop(0)
        return EncodedImage(key, bytes(SIZES[int(key) % len(SIZES)]), "image/webp", 960, 720)


async def play(studio: Studio) -> Seen:
    cues = [Cue(WORDS * number + 8, str(number)) for number in range(COUNT)]
    text = ScriptTextPipe([f"word{number} " for number in range(WORDS * COUNT + 8)], gap=0.15)
    server, client = memory_link("slow")
    viewer = Viewer(client, hello=Hello(viewport=(400, 800), dpr=2.0))
    async with asyncio.TaskGroup() as group:
        group.create_task(ViewerSession(MultiModalStream(text, studio, cues=cues), server).run())
        watching = group.create_task(viewer.watch())
    return watching.result()


@pytest.mark.parametrize(("ahead", "least", "most"), [(LOOK_AHEAD, 0.95, 1.0), (1, 0.0, 0.9)])
def test_full_pictures_are_there_with_prefetch_and_the_rest_is_swapped_in(
    ahead: int, least: float, most: float
) -> None:
    async def scenario() -> None:
        with looking_ahead(ahead):
            seen = await play(Studio())
        reveals = [event for event in seen.events if isinstance(event, Reveal)]
        assert len(reveals) == COUNT
        share = sum(not reveal.preview for reveal in reveals) / COUNT
        assert least <= share <= most, share
        swapped = {event.cue for event in seen.events if isinstance(event, Swap) and event.ok}
        assert swapped == {reveal.cue for reveal in reveals if reveal.preview}

    virtual(scenario())


def test_pictures_do_not_delay_the_first_word() -> None:
    async def first(cues: bool) -> float:
        studio = Studio()
        server, client = memory_link("slow")
        words = ScriptTextPipe([f"word{number} " for number in range(30)], gap=0.15)
        planned = [Cue(4 + 6 * number, str(number)) for number in range(4 if cues else 0)]
        viewer = Viewer(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(ViewerSession(MultiModalStream(words, studio, cues=planned), server).run())
            watching = group.create_task(viewer.watch())
        seen = watching.result()
        return next(at for event, at in zip(seen.events, seen.at, strict=True) if event.kind == "text")

    async def scenario() -> None:
        began = asyncio.get_running_loop().time()
        bare = await first(False) - began
        began = asyncio.get_running_loop().time()
        assert await first(True) - began <= 1.05 * bare

    virtual(scenario())


def test_what_the_viewer_needs_is_known_before_the_first_picture_is_wanted() -> None:
    async def scenario() -> None:
        studio = Studio()
        await play(studio)
        assert studio.told[:2] == ["fit 800", "want"]

    virtual(scenario())
