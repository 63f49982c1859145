"""A consumer slower than the engine: text whole, previews shed and counted, memory bounded, the engine held back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.overflow import Gap, Item, Outbox, OverflowView, Sheddable, TextItem
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script_engine import ScriptEngine
from tests.pipes.words import Words
from tests.support import virtual

TEXT = "one two three four five six seven eight nine ten " * 40
WORDS = Words(TEXT)


def processor(**settings: Any) -> StreamProcessor:
    return StreamProcessor(ScriptEngine(WORDS.ids, gap=0.01, **settings), WORDS)


class Consumer:
    """Takes `seconds` for each item."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.items: list[Item] = []

    async def __call__(self, item: Item) -> None:
        await asyncio.sleep(self.seconds)
        self.items.append(item)

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.items if isinstance(item, TextItem))


async def with_previews(stream: StreamProcessor, consumer: Consumer, outbox: Outbox) -> None:
    """An answer, and a preview of 1 KiB every 20 ms, until the answer ends."""

    async def previews() -> None:
        while True:
            await asyncio.sleep(0.02)
            outbox.put(Sheddable("preview", 1024), asyncio.get_running_loop().time())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(previews())
        await stream.deliver(stream.prompt("count", max_new_tokens=1000), consumer, outbox)
        task.cancel()


def test_a_slow_consumer_gets_all_the_text_and_fewer_previews() -> None:
    async def scenario() -> None:
        stream, consumer = processor(), Consumer(0.02)
        outbox = stream.outbox(16 * 1024)
        await with_previews(stream, consumer, outbox)
        assert consumer.text == TEXT
        assert outbox.shed > 0
        assert outbox.peak_bytes <= outbox.limit_bytes
        gaps = [item for item in (*consumer.items, *iter(outbox.take, None)) if isinstance(item, Gap)]
        assert sum(gap.count for gap in gaps) == outbox.shed
        assert len([item for item in consumer.items if isinstance(item, Sheddable)]) > 0

    virtual(scenario())


def test_text_alone_holds_the_engine_back() -> None:
    async def scenario() -> None:
        stream, consumer = processor(), Consumer(3.0)
        outbox = await stream.deliver(stream.prompt("count", max_new_tokens=1000), consumer, stream.outbox(1024))
        assert consumer.text == TEXT
        assert outbox.held_back > 0
        assert outbox.peak_bytes <= outbox.limit_bytes
        assert len(consumer.items) < len(WORDS.ids) / 2  # joined while they waited

    virtual(scenario())


def test_the_applications_handler_decides_and_may_change_live() -> None:
    async def scenario() -> None:
        asked: list[int] = []

        def clears(view: OverflowView) -> None:
            asked.append(view.sheddable)
            view.shed(1.0)

        stream, consumer = processor(), Consumer(0.02)
        outbox = stream.outbox(16 * 1024)
        stream.set_overflow_handler(clears)
        await with_previews(stream, consumer, outbox)
        assert consumer.text == TEXT
        assert asked
        shed_by_all = outbox.shed / outbox.overflows
        stream.set_overflow_handler(None)
        default = stream.outbox(16 * 1024)
        await with_previews(stream, Consumer(0.02), default)
        assert default.shed / default.overflows < shed_by_all
        for wrong in (3, with_previews):
            with pytest.raises(UsageError, match="plain function"):
                stream.set_overflow_handler(wrong)  # type: ignore[arg-type]

    virtual(scenario())


def test_a_handler_that_raises_loses_nothing() -> None:
    def breaks(view: OverflowView) -> None:
        raise RuntimeError("not mine")

    async def scenario() -> None:
        stream, consumer = processor(), Consumer(0.02)
        stream.set_overflow_handler(breaks)
        outbox = stream.outbox(16 * 1024)
        await with_previews(stream, consumer, outbox)
        assert consumer.text == TEXT
        assert outbox.failures > 0

    virtual(scenario())


def test_failures_come_out_as_they_are_and_free_the_row() -> None:
    async def scenario() -> None:
        stream, consumer = processor(fail_at=(30, "it fell")), Consumer(0.02)
        with pytest.raises(PipeError, match="it fell"):
            await stream.deliver(stream.prompt("count"), consumer)
        assert consumer.text == "".join(WORDS.decode([each]) for each in WORDS.ids[:30])

        async def breaks(item: Item) -> None:
            raise ConnectionResetError("gone")

        stream = processor()
        pipe = stream.prompt("count")
        with pytest.raises(ConnectionResetError):
            await stream.deliver(pipe, breaks)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.deliver(stream.prompt("count"), Consumer(1.0)), 2.0)
        await asyncio.sleep(1.0)
        assert (stream.metrics.running, stream.metrics.cancelled) == (0, 2)

    virtual(scenario())


def test_what_cannot_be_delivered_is_refused() -> None:
    async def scenario() -> None:
        stream, taken = processor(), list[Item]()

        async def send(item: Item) -> None:
            taken.append(item)

        wrong: list[tuple[Any, Any, Any, str]] = [
            (stream.prompt("x"), None, None, "send=None"),
            (stream.prompt("x"), "send", None, "send='send'"),
            ("x", send, None, "a str is no text pipe"),
            (None, send, None, "a NoneType is no text pipe"),
            (stream.prompt("x"), send, "box", "outbox is a str"),
            (stream.prompt("x"), taken.append, None, "send gave a NoneType and nothing to await"),
        ]
        for pipe, function, outbox, says in wrong:
            with pytest.raises(UsageError, match=says):
                await stream.deliver(pipe, function, outbox)
            if says != "a str is no text pipe" and says != "a NoneType is no text pipe":
                await pipe.aclose()
        assert stream.metrics.engine is None or stream.metrics.engine.running == 0

    virtual(scenario())
