"""One stream of words and pictures, parted: order, bounds, failures and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.events import AnyEvent, Reveal, StreamEnd, Swap, Text
from multimodal.pipes.interleaved import PICTURES_AHEAD, Interleaved, Part, split_interleaved
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, EncodedImage, ImageFailure, Token
from tests.support import run, virtual


def picture(key: str, data: bytes = b"x") -> EncodedImage:
    return EncodedImage(key, data, "image/webp", 4, 3, product=f"of {key}")


class Source:
    """Plays parts; an exception among them is raised. Knows how far it was read, and whether it was closed."""

    def __init__(self, *parts: object, gap: float = 0.0) -> None:
        self._parts, self._gap = parts, gap
        self.read, self.closed = 0, 0

    async def play(self) -> AsyncIterator[Part]:
        try:
            for part in self._parts:
                await asyncio.sleep(self._gap)
                self.read += 1
                if isinstance(part, Exception):
                    raise part
                yield part  # type: ignore[misc]
        finally:
            self.closed += 1


async def drained(parts: Interleaved) -> tuple[list[Token], list[str], list[Cue]]:
    """What both pipes give when they are pulled side by side, and the cues."""
    cues: list[Cue] = []
    parts.cues.connect(cues.append)

    async def pictures() -> list[str]:
        return [item.key async for item in parts.images]

    async with asyncio.TaskGroup() as group:
        task = group.create_task(pictures())
        tokens = [token async for token in parts.text]
    return tokens, task.result(), cues


def test_pictures_are_tied_to_where_they_stood() -> None:
    source = Source(picture("a"), "one ", Token("two "), picture("b"), picture("c"), "three", picture("d"))
    tokens, keys, cues = run(drained(split_interleaved(source.play(), late="hold")))
    assert tokens == [Token("one "), Token("two "), Token("three", last=True)]
    assert keys == ["a", "b", "c", "d"]
    assert cues == [
        Cue(0, "a", "hold", product="of a"),
        Cue(2, "b", "hold", product="of b"),
        Cue(2, "c", "hold", product="of c"),
        Cue(3, "d", "hold", product="of d"),
    ]
    assert source.closed == 1


def test_a_cue_is_told_before_its_token_comes_out() -> None:
    async def interleaved() -> list[str]:
        parts = split_interleaved(Source("one ", picture("a"), "two ", "three ", picture("b")).play())
        said: list[str] = []
        parts.cues.connect(lambda cue: said.append(f"{cue.key}@{cue.anchor}"))
        async for token in parts.text:
            said.append(token.text)
        return said

    assert run(interleaved()) == ["a@1", "one ", "two ", "b@3", "three "]


def test_cues_wait_until_somebody_is_connected() -> None:
    async def late() -> list[str]:
        parts = split_interleaved(Source(picture("a"), "one ", "two ").play())
        await anext(parts.text)
        told: list[str] = []
        parts.cues.connect(lambda cue: told.append(cue.key))
        with pytest.raises(UsageError, match="connected already"):
            parts.cues.connect(print)
        return told

    assert run(late()) == ["a"]


def test_a_picture_that_comes_again_is_tied_again_and_sent_once() -> None:
    source = Source(picture("a"), "one ", picture("a"), "two ", ImageFailure("b", "truncated"))
    _, keys, cues = run(drained(split_interleaved(source.play())))
    assert keys == ["a", "b"]
    assert [(cue.anchor, cue.key) for cue in cues] == [(0, "a"), (1, "a"), (2, "b")]


def test_the_text_alone_is_no_more_than_a_part_ahead() -> None:
    async def pull() -> list[int]:
        source = Source(*"abcdef")
        parts = split_interleaved(source.play())
        read = []
        for _ in range(3):
            await anext(parts.text)
            read.append(source.read)
        return read

    assert run(pull()) == [2, 3, 4]


def test_pictures_that_nobody_takes_stop_the_text() -> None:
    async def pull() -> None:
        source = Source("one ", *(picture(f"k{number}") for number in range(PICTURES_AHEAD + 4)), "two ", "three ")
        parts = split_interleaved(source.play())
        pull = asyncio.ensure_future(anext(parts.text))
        await asyncio.sleep(1)
        assert not pull.done()
        assert source.read == 1 + PICTURES_AHEAD
        for number in range(5):
            assert (await anext(parts.images)).key == f"k{number}"
            await asyncio.sleep(1)
        assert await pull == Token("one ")

    virtual(pull())


@pytest.mark.parametrize("which", ["text", "images"])
def test_closing_one_ends_both_and_the_stream(which: str) -> None:
    async def close() -> None:
        source = Source("one ", picture("a"), "two ", "three ")
        parts = split_interleaved(source.play())
        await anext(parts.text)
        for _ in range(2):
            await getattr(parts, which).aclose()
        assert source.closed == 1
        assert [token async for token in parts.text] == []
        assert [item async for item in parts.images] == []

    run(close())


def test_closing_ends_a_reader_of_pictures_that_waits() -> None:
    async def close() -> None:
        parts = split_interleaved(Source("one ").play())
        waiting = asyncio.ensure_future(anext(parts.images, None))
        await asyncio.sleep(0)
        await parts.text.aclose()
        assert await waiting is None

    run(close())


def test_closing_while_the_text_is_pulled_closes_the_stream_behind_the_pull() -> None:
    async def close() -> None:
        source = Source("one ", "two ", gap=1)
        parts = split_interleaved(source.play())
        pull = asyncio.ensure_future(anext(parts.text, None))
        await asyncio.sleep(0.5)
        await parts.images.aclose()
        assert source.closed == 0
        assert await pull is None
        assert source.closed == 1

    virtual(close())


def test_pictures_behind_the_last_word_are_still_taken_when_the_text_is_closed() -> None:
    async def end() -> list[str]:
        parts = split_interleaved(Source("one ", picture("a"), picture("b")).play())
        assert await anext(parts.text) == Token("one ", last=True)
        await parts.text.aclose()
        return [item.key async for item in parts.images]

    assert run(end()) == ["a", "b"]


def test_a_failure_comes_out_of_both_behind_what_came_before() -> None:
    async def fail() -> None:
        parts = split_interleaved(Source(picture("a"), "one ", PipeError("gone", retryable=True)).play())
        assert await anext(parts.text) == Token("one ")
        with pytest.raises(PipeError, match=r"^gone$"):
            await anext(parts.text)
        assert (await anext(parts.images)).key == "a"
        with pytest.raises(PipeError, match="the interleaved stream failed: gone") as caught:
            await anext(parts.images)
        assert caught.value.retryable

    run(fail())


@pytest.mark.parametrize(
    ("second", "says"),
    [(picture("a", b"y"), "two different pictures the key 'a'"), (b"raw", "it gave bytes; give str")],
)
def test_what_cannot_be_parted_is_a_failure(second: object, says: str) -> None:
    async def fail() -> None:
        source = Source(picture("a"), "one ", second, "two ")
        parts = split_interleaved(source.play())
        assert await anext(parts.text) == Token("one ")
        with pytest.raises(PipeError, match=says):
            await anext(parts.text)
        await parts.text.aclose()
        assert source.closed == 1

    run(fail())


def test_two_readers_and_wrong_sources_are_refused() -> None:
    with pytest.raises(UsageError, match="parts is list"):
        split_interleaved([])  # type: ignore[arg-type]

    async def twice() -> None:
        parts = split_interleaved(Source("one ", gap=1).play())
        first = asyncio.ensure_future(anext(parts.text))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="pulled twice"):
            await anext(parts.text)
        assert await first == Token("one ", last=True)

    virtual(twice())


@pytest.mark.parametrize("interval", [1, 3])
def test_a_tour_shows_each_picture_where_it_stood_and_without_a_preview(interval: int) -> None:
    async def tour() -> list[AnyEvent]:
        words = [f"w{number} " for number in range(7)]
        source = Source(
            picture("a"), *words[:2], picture("b"), *words[2:6], picture("c"), words[6], picture("d"), gap=0.01
        )
        parts = split_interleaved(source.play())
        stream = MultiModalStream(parts.text, parts.images, interval, cues=())
        parts.cues.connect(lambda cue: stream.cue(cue.anchor, cue.key, late=cue.late, product=cue.product))
        async with stream:
            return [event async for event in stream]

    events = run(tour())
    text = "".join(event.text for event in events if isinstance(event, Text))
    assert text == "w0 w1 w2 w3 w4 w5 w6 "
    reveals = [event for event in events if isinstance(event, Reveal)]
    assert [(event.key, event.anchor, event.preview, event.declared_late) for event in reveals] == [
        ("a", 0, False, False),
        ("b", 2, False, False),
        ("c", 6, False, False),
        ("d", 7, False, False),
    ]
    assert all(event.mark - event.anchor < interval for event in reveals)
    assert not [event for event in events if isinstance(event, Swap)]
    assert isinstance(events[-1], StreamEnd)
