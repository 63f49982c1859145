"""Answers on their way to consumers that are slower than their engine: through a real processor, stream and outbox.

A session is an answer about products, its pictures by mention, in a `MultiModalStream`; what the stream emits waits for
the consumer in an outbox, or in the queue of somebody who clears it, or drops a tenth of it, when it is too long.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from multimodal.bench.batch_load import resident_bytes
from multimodal.bench.text_stage import byte_tokenizer
from multimodal.events import AnyEvent, CueMissed, Reveal, SyncMark, Text
from multimodal.pipes.overflow import Fixed, Gap, Item, Outbox, Sheddable, TextItem
from multimodal.pipes.overflow_sweep import clear_all, drop_oldest
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script import ScriptImagePipe
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.stream import MultiModalStream
from multimodal.values import EncodedImage, Product, ProductImage
from multimodal.wire import encode_bundle

__all__ = ["LIMIT", "WORDS_LIMIT", "Came", "Sessions"]

GAP = 0.02
LIMIT, WORDS_LIMIT = 16 * 1024, 4 * 1024
"""Of the queue with previews, and of words and cues alone, which are less."""
PRODUCTS = [
    Product(f"p{number}", name, images=(ProductImage(f"k{number}", f"k{number}.webp"),))
    for number, name in enumerate(
        ["Halo kettle", "Luna lamp", "Orbit stool", "Brisk broom", "Tide bowl", "Cinder pan", "Fern vase", "Pebble cup"]
    )
]
PHRASES = (
    "Um, let us look at the {}, which boils 1.5 litres in 90 seconds. ",
    "The {} costs $1,299.00 with its base, and stays cool to the touch. ",
    "You know, most guests take the {}, because it is the quietest we have. ",
)


class Came(msgspec.Struct):
    """What one consumer got, and what that took.

    Args:
        text: everything that it read.
        cues: (picture, anchor, mark, characters before it) of each reveal, and of each cue that was missed.
        tokens, previews, gaps: read, come, and said by gaps to have been shed.
        put: previews that were put for it.
        sent_bytes: all that came.
        peak_bytes: the most that waited.
        shed: previews given up, as the outbox counts.
        held_back: times its engine was.
        ahead: most tokens that were made and not read yet.
        seconds: until it had everything.
        aborted: the session ended before its end.
    """

    text: str = ""
    cues: list[tuple[str, int, int, int]] = []
    tokens: int = 0
    previews: int = 0
    gaps: int = 0
    put: int = 0
    sent_bytes: int = 0
    peak_bytes: int = 0
    shed: int = 0
    held_back: int = 0
    ahead: int = 0
    seconds: float = 0.0
    aborted: bool = False


class Queue(Protocol):
    """What an `Outbox` is to a session."""

    full: bool
    peak_bytes: int
    shed: int
    held_back: int

    def put(self, item: TextItem | Fixed | Sheddable, now: float) -> None: ...

    def take(self) -> Item | None: ...


class QueueFullError(Exception):
    """A queue in which nothing can be dropped any more."""


class Foolish:
    """A queue that is cut when it is too long, whatever is in it, and knows nothing of backpressure."""

    full = False

    def __init__(self, cut: Callable[[list[Item]], list[Item]]) -> None:
        self._cut = cut
        self._waiting: list[Item] = []
        self.peak_bytes = self.shed = self.held_back = 0

    def put(self, item: TextItem | Fixed | Sheddable, now: float) -> None:
        """Raises `QueueFullError` where cutting makes no room."""
        self._waiting.append(item)
        size = sum(each.size_bytes for each in self._waiting)
        self.peak_bytes = max(self.peak_bytes, size)
        if size > LIMIT * 3 // 4:
            lost = self._cut(self._waiting)
            self.shed += sum(isinstance(each, Sheddable) for each in lost)
            if not lost:
                raise QueueFullError

    def take(self) -> Item | None:
        """The next for the consumer."""
        return self._waiting.pop(0) if self._waiting else None


class Sessions:
    """So many answers at once, each with a text of its own, again and again under other consumers.

    Args:
        count: how many sessions.
        phrases: of each answer; a phrase is some 20 tokens, with a product in it.
    """

    def __init__(self, count: int, phrases: int) -> None:
        self._tokenizer = byte_tokenizer([each.format(product.title) for each in PHRASES for product in PRODUCTS], 500)
        draw = random.Random(7)
        self.texts = [
            "".join(draw.choice(PHRASES).format(draw.choice(PRODUCTS).title) for _ in range(phrases))
            for _ in range(count)
        ]
        self._ids = {
            tuple(self._tokenizer.encode(f"session {number}").ids): self._tokenizer.encode(text).ids
            for number, text in enumerate(self.texts)
        }
        self.most_resident = 0

    async def play(self, way: str, rates: list[float] | None = None) -> list[Came]:
        """All sessions at once.

        Args:
            way: "outbox", "words alone" (an outbox, but no previews), "clear all" or "drop a tenth".
            rates: bytes a second of each consumer; None = as fast as it comes.
        """
        engine = ScriptEngine(lambda request: self._ids[request.prompt_ids], gap=GAP, max_rows=len(self.texts))
        with StreamProcessor(engine, self._tokenizer) as processor:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._one(processor, number, way, rates[number] if rates else 0.0))
                    for number in range(len(self.texts))
                ]
                watch = group.create_task(self._watch(tasks))
            watch.cancel()
        return [task.result() for task in tasks]

    async def _watch(self, tasks: list[asyncio.Task[Came]]) -> None:
        while not all(task.done() for task in tasks):
            self.most_resident = max(self.most_resident, resident_bytes())
            await asyncio.sleep(0.5)

    async def _one(self, processor: StreamProcessor, number: int, way: str, rate: float) -> Came:
        queue: Queue = Foolish(clear_all if way == "clear all" else drop_oldest)
        words = way == "words alone"
        if words or way == "outbox":
            # A consumer without limits is not to be shed for: it is what the others are held against.
            queue = processor.outbox(WORDS_LIMIT if words else LIMIT) if rate else Outbox(1 << 30)
        pipe = processor.prompt(f"session {number}", max_new_tokens=100_000)
        images = ScriptImagePipe([EncodedImage(f"k{each}", b"x", "image/webp", 4, 3) for each in range(len(PRODUCTS))])
        stream = MultiModalStream(pipe, images, 3, mentions=PRODUCTS, repeat="every")
        session = _Session(queue, stream, pipe, rate, None if words else random.Random(number))
        await session.play()
        came = session.came
        came.peak_bytes, came.shed, came.held_back = queue.peak_bytes, queue.shed, queue.held_back
        return came


class _Session:
    def __init__(
        self, queue: Queue, stream: MultiModalStream, pipe: Any, rate: float, draw: random.Random | None
    ) -> None:
        self.came = Came()
        self._queue, self._stream, self._pipe, self._rate, self._draw = queue, stream, pipe, rate, draw
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._over = False

    async def play(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fill())
            while True:
                item = self._queue.take()
                if item is not None:
                    if not self._queue.full:
                        self._room.set()
                    if self._rate:
                        await asyncio.sleep(item.size_bytes / self._rate)
                    self._read(item)
                elif self._over:
                    break
                else:
                    self._arrived.clear()
                    await self._arrived.wait()
        self.came.seconds = loop.time() - began

    async def _fill(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            async with self._stream as stream:
                async for event in stream:
                    self._put(event, clock())
                    self._arrived.set()
                    while self._queue.full:
                        self._room.clear()
                        await self._room.wait()
        except* QueueFullError:
            self.came.aborted = True
        finally:
            self._over = True
            self._arrived.set()

    def _put(self, event: AnyEvent, now: float) -> None:
        came, queue = self.came, self._queue
        if isinstance(event, Text):
            queue.put(TextItem(event.text, event.token_index, event.token_count, event.lane), now)
        else:
            queue.put(Fixed(event, sum(len(part.encode()) for part in encode_bundle([event]))), now)
        if isinstance(event, SyncMark) and self._draw is not None:
            came.put += 1
            queue.put(Sheddable("preview", self._draw.randint(200, 3000)), now)
        if self._pipe.reader is not None:
            came.ahead = max(came.ahead, self._pipe.reader.mailbox.delivered - came.tokens)

    def _read(self, item: Item) -> None:
        came = self.came
        came.sent_bytes += item.size_bytes
        if isinstance(item, TextItem):
            came.text += item.text
            came.tokens += item.token_count
        elif isinstance(item, Gap):
            came.gaps += item.count
        elif isinstance(item, Sheddable):
            came.previews += 1
        elif isinstance(item.payload, Reveal):
            seen = item.payload
            came.cues.append((seen.key, seen.anchor, seen.mark, len(came.text)))
        elif isinstance(item.payload, CueMissed):
            came.cues.append((f"missed {item.payload.key}", item.payload.anchor, -1, len(came.text)))
