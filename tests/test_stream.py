"""MultiModalStream on virtual time, with scripted pipes: order, timing, backpressure, failures, nothing left behind."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.events import AnyEvent, AssetReserved, CueMissed, ErrorRaised, Reveal, StreamEnd, StreamStart, Text
from multimodal.pipes.script import PlannedScriptImagePipe, ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, EncodedImage, ImageFailure, Product, Token, ViewerNeeds
from multimodal.wire import Bye, Hello, Ready
from tests.support import run, virtual

WORDS = [f"w{i} " for i in range(9)]


def picture(key: str, product: str = "") -> EncodedImage:
    return EncodedImage(key, b"bytes of " + key.encode(), "image/webp", 4, 3, product=product, alt=f"the {key}")


def pictures(*keys: str, delay: float = 0.0) -> ScriptImagePipe:
    return ScriptImagePipe([(picture(key), delay) for key in keys])


async def collect(stream: MultiModalStream) -> list[AnyEvent]:
    async with stream:
        return [event async for event in stream]


def play(text: Any, images: Any, **options: Any) -> list[AnyEvent]:
    return virtual(collect(MultiModalStream(text_pipe=text, image_pipe=images, **options)))


def kinds(log: list[AnyEvent]) -> list[str]:
    return [event.kind for event in log]


def reveals(log: list[AnyEvent]) -> dict[str, tuple[int, int]]:
    return {e.key: (e.anchor, e.mark) for e in log if isinstance(e, Reveal)}


def test_the_wished_for_call_works_with_exactly_these_names() -> None:
    async def main() -> list[AnyEvent]:
        text_stream, image_pipe = ScriptTextPipe(WORDS), pictures("a", "b")
        multi = MultiModalStream(text_pipe=text_stream, image_pipe=image_pipe, sync_interval=3)
        return await collect(multi)

    log = virtual(main())
    assert isinstance(log[0], StreamStart)
    assert log[0].token_unit == "token"
    assert reveals(log) == {"a": (0, 0), "b": (3, 3)}
    assert "".join(e.text for e in log if isinstance(e, Text)) == "".join(WORDS)
    assert kinds(log)[-1] == "end"


def test_any_async_iterator_is_a_pipe() -> None:
    async def text() -> AsyncIterator[Token | str]:
        yield "a "
        yield Token("b", last=True)
        raise AssertionError("pulled after its last token")

    async def images() -> AsyncIterator[EncodedImage]:
        yield picture("k")

    assert reveals(play(text(), images())) == {"k": (0, 0)}


@pytest.mark.parametrize("planned", [False, True])
def test_without_cues_pictures_stand_at_every_interval_and_the_rest_is_unused(planned: bool) -> None:
    keys = ["a", "b", "c", "d", "e"]
    images = PlannedScriptImagePipe([picture(key) for key in keys]) if planned else pictures(*keys)
    log = play(ScriptTextPipe(WORDS[:7]), images)
    assert reveals(log) == {"a": (0, 0), "b": (3, 3), "c": (6, 6)}
    assert isinstance(log[-1], StreamEnd)
    assert log[-1].unused == ("d", "e")
    assert not [e for e in log if isinstance(e, CueMissed)]


def test_a_picture_that_comes_late_in_order_of_the_pipe_keeps_its_anchor() -> None:
    images = ScriptImagePipe([(picture("a"), 0.0), (picture("b"), 0.3)])
    log = play(ScriptTextPipe(WORDS, gap=0.1), images, preroll=0)
    late = next(e for e in log if isinstance(e, Reveal) and e.key == "b")
    assert (late.anchor, late.mark, late.declared_late) == (3, 6, True)


def test_preroll_waits_for_the_first_pictures_and_no_longer() -> None:
    def first_text(delay: float, preroll: float) -> float:
        images = PlannedScriptImagePipe([(picture("a"), delay), (picture("b"), delay), (picture("c"), 9.0)])
        log = play(ScriptTextPipe(WORDS), images, preroll=preroll)
        return next(e.pts_ms for e in log if isinstance(e, Text)) / 1000

    assert first_text(0.4, 1.0) == pytest.approx(0.4)
    assert first_text(5.0, 1.0) == pytest.approx(1.0)
    assert first_text(5.0, 0.0) == 0.0


def test_slots_are_reserved_before_the_bytes() -> None:
    images = PlannedScriptImagePipe([(picture("a"), 0.5)])
    log = play(ScriptTextPipe(WORDS), images)
    assets = [e for e in log if isinstance(e, AssetReserved)]
    assert [(e.width_px, bool(e.variants), e.pts_ms) for e in assets] == [(4, False, 0.0), (4, True, 500.0)]


def test_the_plan_drives_the_pipe_soonest_first() -> None:
    images = PlannedScriptImagePipe([picture(key) for key in "abc"])
    play(ScriptTextPipe(WORDS), images, cues=[Cue(6, "b"), Cue(1, "c"), Cue(8, "c")])
    assert images.wanted == ["c", "b"]


def test_products_are_told_at_the_start() -> None:
    images = PlannedScriptImagePipe([picture("a", "kettle")], products=[Product("kettle", "Halo Kettle", ("Halo",))])
    log = play(ScriptTextPipe(WORDS), images)
    assert isinstance(log[0], StreamStart)
    assert [(p.id, p.title, p.aliases) for p in log[0].products] == [("kettle", "Halo Kettle", ("Halo",))]


def test_a_text_pipe_that_fails_ends_the_stream_with_its_reason() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        text = ScriptTextPipe(WORDS, fail_at=(4, "the model was unplugged"))
        async with MultiModalStream(text, pictures("a", "b", "c"), cues=[Cue(2, "a"), Cue(8, "b")]) as stream:
            with pytest.raises(PipeError, match="after 4 tokens: the model was unplugged"):  # noqa: PT012
                async for event in stream:
                    log.append(event)
        return log

    log = virtual(main())
    assert "".join(e.text for e in log if isinstance(e, Text)) == "".join(WORDS[:4])
    error = next(e for e in log if isinstance(e, ErrorRaised))
    assert (error.code, error.tok) == ("text_pipe", 4)
    assert [(e.key, e.reason) for e in log if isinstance(e, CueMissed)] == [("b", "beyond_end")]
    assert isinstance(log[-1], StreamEnd)
    assert log[-1].reason == "error"


def test_an_image_pipe_that_fails_costs_its_pictures_and_no_words() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        images = ScriptImagePipe([picture("a"), picture("b")], fail_after=(1, ValueError("disk on fire")))
        async with MultiModalStream(ScriptTextPipe(WORDS), images, cues=[Cue(1, "a"), Cue(5, "b")]) as stream:
            with pytest.raises(PipeError, match="failed after 1 pictures: ValueError: disk on fire"):  # noqa: PT012
                async for event in stream:
                    log.append(event)
        return log

    log = virtual(main())
    assert "".join(e.text for e in log if isinstance(e, Text)) == "".join(WORDS)
    assert [(e.key, e.reason) for e in log if isinstance(e, CueMissed)] == [("b", "image_pipe_failed")]
    assert reveals(log) == {"a": (1, 3)}


def test_an_image_pipe_that_hangs_hinders_nothing() -> None:
    images = ScriptImagePipe([picture("a"), (picture("b"), math.inf)])
    log = play(ScriptTextPipe(WORDS), images, cues=[Cue(1, "a"), Cue(5, "b")])
    assert [(e.kind, e.key) for e in log if e.kind in {"reveal", "swap"}] == [  # type: ignore[union-attr]
        ("reveal", "a"),
        ("reveal", "b"),
        ("swap", "b"),
    ]
    assert kinds(log)[-1] == "end"


def test_one_failed_picture_is_missed_with_its_reason_and_one_never_given_with_not_found() -> None:
    images = ScriptImagePipe([ImageFailure("a", "truncated"), picture("b")])
    log = play(ScriptTextPipe(WORDS), images, cues=[Cue(1, "a"), Cue(2, "b"), Cue(3, "c")])
    assert [(e.key, e.reason) for e in log if isinstance(e, CueMissed)] == [("a", "truncated"), ("c", "not_found")]


def test_cues_may_be_declared_while_it_runs() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        images = PlannedScriptImagePipe([picture("a"), picture("b")])
        async with MultiModalStream(ScriptTextPipe(WORDS), images, cues=[Cue(1, "a")]) as stream:
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 3:
                    stream.cue(5, "b")
            with pytest.raises(UsageError, match="ended"):
                stream.cue(7, "a")
        return log

    assert reveals(virtual(main())) == {"a": (1, 3), "b": (5, 6)}


def test_a_picture_is_ready_when_the_viewer_says_so() -> None:
    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        stream = MultiModalStream(ScriptTextPipe(WORDS), pictures("a"), cues=[Cue(1, "a")], preroll=0.1)
        async with stream:
            stream.ack(Hello())
            async for event in stream:
                log.append(event)
                if isinstance(event, Text) and event.token_index == 5:
                    stream.ack(Ready("a"))
            stream.ack(Bye())
        return log

    log = virtual(main())
    assert [(e.kind, e.tok) for e in log if e.kind in {"reveal", "swap"}] == [("reveal", 3), ("swap", 6)]


def test_pause_stops_pulling_and_resume_goes_on() -> None:
    async def main() -> tuple[int, list[AnyEvent]]:
        log: list[AnyEvent] = []
        text = ScriptTextPipe([f"w{i} " for i in range(200)], gap=0.1)
        async with MultiModalStream(text, pictures("a")) as stream:

            async def read() -> None:
                async for event in stream:
                    log.append(event)

            async with asyncio.TaskGroup() as group:
                group.create_task(read())
                await asyncio.sleep(2.05)
                stream.pause()
                said = sum(isinstance(e, Text) for e in log)
                await asyncio.sleep(60)
                silent = sum(isinstance(e, Text) for e in log) - said
                stream.resume()
        return silent, log

    silent, log = virtual(main())
    assert silent == 0
    words = [e for e in log if isinstance(e, Text)]
    assert len(words) == 200
    assert max(b.pts_ms - a.pts_ms for a, b in pairwise(words)) == pytest.approx(60_000, abs=200)


def test_a_consumer_that_stops_stops_the_pipes() -> None:
    pulled = {"text": 0, "images": 0}

    async def text() -> AsyncIterator[str]:
        while True:
            pulled["text"] += 1
            yield "word "

    async def images() -> AsyncIterator[EncodedImage]:
        while True:
            pulled["images"] += 1
            yield picture(f"k{pulled['images']}")

    async def main() -> dict[str, int]:
        async with MultiModalStream(text(), images(), cues=[]) as stream:
            async for _ in stream:
                break
            await asyncio.sleep(10)
            return dict(pulled)

    counts = virtual(main())
    assert counts["text"] <= 200
    assert counts["images"] <= 64


def test_a_hold_with_many_tokens_stops_pulling_at_high_water() -> None:
    pulled = 0

    async def text() -> AsyncIterator[str]:
        nonlocal pulled
        for _ in range(5000):
            pulled += 1
            yield "word "

    async def main() -> int:
        seen = 0
        images = ScriptImagePipe([(picture("a"), 30.0)])
        cues = [Cue(1, "a", "hold", 60.0)]
        async with MultiModalStream(text(), images, cues=cues, preroll=0) as stream:
            async for event in stream:
                if isinstance(event, Reveal):
                    seen = pulled
        return seen

    assert virtual(main()) < 600
    assert pulled == 5000


@pytest.mark.parametrize("how", ["leave", "cancel", "raise", "aclose"])
def test_nothing_is_left_running(how: str) -> None:
    closed: list[str] = []

    async def text() -> AsyncIterator[str]:
        try:
            while True:
                await asyncio.sleep(0.1)
                yield "word "
        finally:
            closed.append("text")

    async def images() -> AsyncIterator[EncodedImage]:
        try:
            yield picture("a")
            await asyncio.Event().wait()
        finally:
            closed.append("images")

    async def consume() -> None:
        async with MultiModalStream(text(), images()) as stream:
            count = 0
            async for _ in stream:
                count += 1
                if how == "leave" and count > 5:
                    break
                if how == "raise" and count > 5:
                    raise LookupError("the application's own")
                if how == "aclose" and count > 5:
                    await stream.aclose()
                    await stream.aclose()

    async def main() -> None:
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(consume())
        if how == "cancel":
            await asyncio.sleep(1.0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "raise":
            with pytest.raises(LookupError, match="own"):
                await task
        else:
            await task
        assert asyncio.all_tasks() == before

    virtual(main())
    assert sorted(closed) == ["images", "text"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text_pipe": "just text"}, "text_pipe is str.*ScriptTextPipe"),
        ({"image_pipe": "folder"}, "image_pipe is str.*FolderImagePipe"),
        ({"sync_interval": 0}, "at least 1"),
        ({"sync_interval": 1.5}, "whole number"),
        ({"late": "sometimes"}, "placeholder, hold, skip"),
        ({"min_dwell": -1.0}, "0 or more"),
        ({"lead": 2}, "neither mentions nor embed is on"),
        ({"lead": -1, "mentions": [Product("k", "Kettle")]}, "0 or more"),
        ({"mentions": True}, "need to know the products"),
        ({"markers": True}, "need to know the products"),
        ({"preroll": -1}, "0 or more"),
        ({"preroll": "soon"}, "preroll='soon' must be 0 or more seconds"),
        ({"max_hold": None}, "max_hold=None must be"),
        ({"sync_interval": True}, "whole number"),
        ({"cues": [(2, "a")]}, "no list of Cue"),
        ({"cues": "a"}, "no list of Cue"),
        ({"cues": {2: "a"}}, "no list of Cue"),
        ({"cues": Cue(1, "a")}, "no list of Cue"),
        ({"slow_images": -1}, "0 or more"),
        ({"max_hold": -1}, "0 or more"),
    ],
)
def test_wrong_arguments_are_refused_with_what_to_do(arguments: dict[str, Any], says: str) -> None:
    async def main() -> None:
        MultiModalStream(**{"text_pipe": ScriptTextPipe("a"), "image_pipe": pictures("a"), **arguments})

    with pytest.raises(UsageError, match=says):
        virtual(main())


def test_misuse_is_refused() -> None:
    async def main() -> None:
        stream = MultiModalStream(ScriptTextPipe("a"), pictures("a"))
        with pytest.raises(UsageError, match="async with"):
            await stream.__anext__()
        async with stream:
            with pytest.raises(UsageError, match="runs once"):
                await stream.__aenter__()

    virtual(main())


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([42], "it gave int"),
        (["x" * 9000], "of 9000 characters"),
        ([None], "it gave NoneType"),
        (["bad \ud800 text"], "a lone surrogate at 4"),
    ],
)
def test_a_pipe_that_gives_the_wrong_thing_is_named(items: list[Any], says: str) -> None:
    async def text() -> AsyncIterator[Any]:
        for item in items:
            yield item

    async def images() -> AsyncIterator[Any]:
        yield items[0]

    with pytest.raises(PipeError, match=says):
        play(text(), pictures("a"))
    if not isinstance(items[0], str):
        with pytest.raises(PipeError, match="it gave"):
            play(ScriptTextPipe("a b c"), images())


def test_a_stream_has_one_reader() -> None:
    async def read(stream: MultiModalStream) -> int:
        return len([event async for event in stream])

    async def main() -> tuple[int | BaseException, int | BaseException]:
        async with MultiModalStream(ScriptTextPipe(WORDS), pictures("a")) as stream:
            return await asyncio.gather(read(stream), read(stream), return_exceptions=True)

    first, second = virtual(main())
    assert isinstance(first, int)
    assert first > len(WORDS)
    assert isinstance(second, UsageError)
    assert "one reader" in str(second)


def test_what_an_exception_says_is_not_told_to_viewers() -> None:
    async def text() -> AsyncIterator[str]:
        yield "a "
        raise RuntimeError("secret db password")

    async def main() -> list[AnyEvent]:
        log: list[AnyEvent] = []
        async with MultiModalStream(text(), pictures("a")) as stream:
            with pytest.raises(PipeError, match="secret db password"):  # noqa: PT012
                async for event in stream:
                    log.append(event)
        return log

    assert [e.message for e in virtual(main()) if isinstance(e, ErrorRaised)] == ["the text pipe failed after 1 tokens"]


def test_a_pipe_that_never_gives_way_is_shown_word_by_word() -> None:
    async def text() -> AsyncIterator[str]:
        for word in WORDS:
            time.sleep(0.01)  # noqa: ASYNC251 - the fault that is tested
            yield word

    async def main() -> int:
        async with MultiModalStream(text(), pictures("a"), preroll=0) as stream:
            bundles = [bundle async for bundle in stream.bundles()]
        return max(sum(isinstance(event, Text) for event in bundle) for bundle in bundles)

    assert run(main()) <= 2


def test_slow_images_delay_readiness_and_nothing_else() -> None:
    def run(slow: float) -> tuple[float, float, int]:
        images = PlannedScriptImagePipe([picture(key) for key in "abc"])
        log = play(ScriptTextPipe([*WORDS, *WORDS, *WORDS], gap=0.1), images, slow_images=slow)
        words = [e.pts_ms for e in log if isinstance(e, Text)]
        return words[0], words[-1], sum(isinstance(e, Reveal) and e.preview for e in log)

    assert run(0.0) == (0.0, 2600.0, 0)
    assert run(0.8) == (0.0, 2600.0, 3)


def test_a_picture_stays_for_its_dwell() -> None:
    log = play(ScriptTextPipe(WORDS, gap=0.1), pictures("a", "b", "c"), min_dwell=0.5)
    shown = {e.key: (e.pts_ms, e.mark, e.deferred) for e in log if isinstance(e, Reveal)}
    assert shown == {"a": (0.0, 0, False), "b": (500.0, 6, True), "c": (800.0, 9, True)}


def test_a_picture_given_twice_is_kept_once() -> None:
    async def images() -> AsyncIterator[EncodedImage]:
        yield picture("a")
        yield EncodedImage("a", b"other", "image/webp", 1, 1)

    async def main() -> bytes:
        async with MultiModalStream(ScriptTextPipe(WORDS), images()) as stream:
            async for _ in stream:
                pass
            kept = stream.picture("a")
            assert stream.due("a") == 0
            assert stream.picture("z") is None
            assert stream.due("z") is None
        assert kept is not None
        return kept.data

    assert virtual(main()) == b"bytes of a"


def test_the_image_pipe_is_told_what_the_viewer_can_show() -> None:
    class Fitted(ScriptImagePipe):
        told: ViewerNeeds | None = None
        pulled_before = False

        def fit(self, viewer: ViewerNeeds) -> None:
            self.told = viewer

        async def __anext__(self) -> EncodedImage | ImageFailure:
            self.pulled_before |= self.told is None
            return await super().__anext__()

    async def scenario() -> None:
        pipe = Fitted([])
        async with MultiModalStream(ScriptTextPipe("a b"), pipe) as stream:
            stream.ack(Hello(formats=("image/avif",), viewport=(390, 844), dpr=3.0, save_data=True))
            assert [event async for event in stream]
            assert pipe.told == ViewerNeeds(("image/avif",), 1170, True)
            stream.ack(Hello(viewport=(390, 844), dpr=1e308))
            assert pipe.told == ViewerNeeds((), 16_384, False)
            for reduced, formats in ((False, ("video/webm", "image/webp")), (True, ("image/webp",))):
                stream.ack(Hello(formats=("video/webm", "image/webp"), reduced_motion=reduced))
                assert pipe.told is not None
                assert pipe.told.formats == formats
        assert not pipe.pulled_before

    virtual(scenario())
