"""What is prepared next (F1-F4): soonest first, foreseen where it can be, guesses last, nothing of a turn gone by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from multimodal.events import AnyEvent, AssetReserved, CueMissed, Reveal
from multimodal.pictures import LIKELY_AHEAD, LOOK_AHEAD
from multimodal.pipes.folder import FolderImagePipe
from multimodal.pipes.images import ImageStore
from multimodal.pipes.script import ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.conformance import check_image_pipe
from multimodal.values import Cue, EncodedImage, ImageFailure, Product, ProductImage
from multimodal.wire import Hello, Ready
from tests.pipes.pictures import quarters, write
from tests.support import run, virtual

SHOP = [Product(f"p{n}", f"Thing {chr(65 + n)}", images=(ProductImage(f"k{n}", f"k{n}.jpg"),)) for n in range(26)]


class Album:
    """An image pipe that notes what it is asked for and gives a picture some time after; forgets what it is told to."""

    def __init__(self, products: Sequence[Product] = SHOP, seconds: float = 0.0) -> None:
        self.products = tuple(products)
        self.asked: list[str] = []
        self.forgotten: list[str] = []
        self.seconds = seconds
        self._queue: list[str] = []
        self._wake = asyncio.Event()

    def want(self, keys: Sequence[str], *, final: bool = False) -> None:
        fresh = [key for key in keys if key not in self._queue]
        self.asked += keys
        self._queue = fresh + self._queue
        self._wake.set()

    def forget(self, keys: Sequence[str]) -> None:
        self.forgotten += keys
        self._queue = [key for key in self._queue if key not in set(keys)]

    def __aiter__(self) -> AsyncIterator[EncodedImage | ImageFailure]:
        return self

    async def __anext__(self) -> EncodedImage | ImageFailure:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(self.seconds)
            if self._queue:
                key = self._queue.pop(0)
                return EncodedImage(key, b"x", "image/webp", 4, 3, product=f"p{key[1:]}")


def said(*numbers: int, pause: str = "and then some more words ") -> str:
    return pause + "".join(f"{SHOP[number].title} {pause}" for number in numbers)


async def told(stream: MultiModalStream) -> list[AnyEvent]:
    async with stream:
        return [event async for event in stream]


def test_what_the_script_will_name_is_asked_for_in_that_order_and_not_all_at_once() -> None:
    async def scenario() -> None:
        album = Album(seconds=0.001)
        order = [20, 3, 17, 9, 1, 25, 11, 6, 14, 2]
        stream = MultiModalStream(ScriptTextPipe(said(*order), gap=0.1), album, mentions=True, preroll=0)
        async with stream:
            first: list[str] = []
            reveals: list[Reveal] = []
            async for event in stream:
                first = first or list(album.asked)
                if isinstance(event, Reveal):
                    reveals.append(event)
        assert first == [f"k{number}" for number in order[:LOOK_AHEAD]], "26 products: too many to ask for all (F1)"
        assert album.asked == [f"k{number}" for number in order], "each once, in the order of the words (F2)"
        assert [reveal.key for reveal in reveals] == album.asked
        assert not any(reveal.preview for reveal in reveals)

    virtual(scenario())


def test_what_nobody_foresaw_goes_before_what_is_only_planned() -> None:
    async def speak() -> AsyncIterator[str]:
        for word in said(7).split():
            yield f"{word} "
            await asyncio.sleep(0.1)

    async def scenario() -> None:
        album = Album(seconds=0.05)
        cues = [Cue(anchor, f"k{anchor}") for anchor in range(6, 26)]
        events = await told(MultiModalStream(speak(), album, mentions=True, cues=cues, preroll=0))
        assert album.asked[:LOOK_AHEAD] == [f"k{anchor}" for anchor in range(6, 6 + LOOK_AHEAD)]
        shown = [event.key for event in events if isinstance(event, Reveal)]
        assert "k7" in shown

    virtual(scenario())


def test_guesses_wait_until_the_viewer_has_what_is_planned_and_give_way() -> None:
    """F3, with a viewer that says what it has decoded."""

    async def speak() -> AsyncIterator[str]:
        for word in ("one two three four five six " * 4 + "Thing Z is here and that is all").split():
            yield f"{word} "
            await asyncio.sleep(0.1)

    async def scenario() -> None:
        album = Album(seconds=0.3)
        stream = MultiModalStream(speak(), album, mentions=True, cues=[Cue(1, "k0")], preroll=0)
        loop = asyncio.get_running_loop()
        async with stream:
            began = loop.time()
            stream.ack(Hello())
            stream.expect(["k10", "k11", "k12", "k13", "k10"])
            acked = False
            async for event in stream:
                if not acked and loop.time() - began > 1.0:
                    acked, album.seconds = True, 2.5
                    assert album.asked == ["k0"], "it has come and the viewer has not decoded it yet"
                    stream.ack(Ready("k0"))
                    assert album.asked == ["k0", "k10", "k11", "k12"][: 1 + LIKELY_AHEAD]
                if isinstance(event, Reveal) and event.key == "k25":
                    assert event.preview
                if isinstance(event, AssetReserved) and event.key == "k25":
                    assert album.asked[-1] == "k25"
                    stream.ack(Ready("k25"))
        # Named while guesses were in work: they were taken back, it came first, and then they were asked for again.
        assert album.forgotten == ["k10", "k11", "k12"]
        assert album.asked[4:] == ["k25", "k10", "k11", "k12"]

    virtual(scenario())


def test_an_interruption_takes_back_what_the_turn_wanted() -> None:
    """F4: the answer's pictures do not stand behind those of the tour."""

    async def scenario() -> None:
        album = Album(seconds=1.0)
        stream = MultiModalStream(ScriptTextPipe(said(*range(10)), gap=0.2), album, mentions=True, preroll=0)
        async with stream:
            heard = False
            events: list[AnyEvent] = []
            async for event in stream:
                events.append(event)
                if not heard and len(events) > 4:
                    heard = True
                    stream.interrupt()
                    waiting = list(album.forgotten)
                    stream.say(ScriptTextPipe(said(22), gap=0.5))
        assert waiting, "what had not come was taken back"
        assert album.asked[-1] == "k22"
        later = album.asked[album.asked.index("k22") :]
        assert later == ["k22"], "nothing of the tour is asked for any more"
        assert [event.key for event in events if isinstance(event, Reveal)][-1] == "k22"

    virtual(scenario())


def test_what_was_taken_back_comes_when_it_is_wanted_again() -> None:
    async def scenario() -> None:
        album = Album(seconds=0.5)
        stream = MultiModalStream(ScriptTextPipe(said(0, 1, 2), gap=0.1), album, mentions=True, preroll=0)
        async with stream:
            events: list[AnyEvent] = []
            moved = False
            async for event in stream:
                events.append(event)
                if not moved and event.tok >= 4:
                    moved = True
                    stream.rewind(0)
        assert not [event for event in events if isinstance(event, CueMissed)]
        last = events[-1].epoch
        assert last == 1
        shown = [event.key for event in events if isinstance(event, Reveal) and event.epoch == last]
        assert shown == ["k0", "k1", "k2"]

    virtual(scenario())


def test_a_folder_forgets_and_gives_again(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    for name in "abcdef":
        write(folder / f"{name}.jpg", quarters(400, 300))
    check_image_pipe(lambda: FolderImagePipe(folder))

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=1), ahead=2)
        pipe.want(["a", "b", "c", "d"])
        pipe.forget(["b", "c", "nobody"])
        pipe.want(["e"])
        got = [(await anext(pipe)).key for _ in range(3)]
        assert sorted(got) == ["a", "d", "e"]
        pipe.want(["c"], final=True)
        assert [item.key async for item in pipe] == ["c"]

    run(scenario())
