"""The settings that act between an engine and a consumer, each swept through a real `StreamProcessor` on virtual time.

The engine is scripted, so that what comes out depends on the setting alone: the same token ids at the same instants.
The consumer is that of a `MultiModalStream`, or, for the buffer, somebody who comes and goes.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from itertools import pairwise
from typing import Any

import msgspec

from multimodal.bench.report import Figure, figure
from multimodal.bench.text_layer import CHINESE, ENGLISH
from multimodal.bench.text_stage import byte_tokenizer, rises
from multimodal.events import Text
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script import ScriptImagePipe
from multimodal.pipes.script_engine import ScriptEngine
from multimodal.pipes.stages import STAGES
from multimodal.stream import MultiModalStream
from multimodal.sync.virtual import VirtualClock
from multimodal.wire import encode_bundle

__all__ = ["Told", "sweep_text"]

SIZES = (1, 8, 16, 32, 64)
FACTORS = (1.0, 1.2, 1.5, 1.8, 2.0)
THRESHOLDS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
FAST, USUAL = 0.005, 0.02
"""Seconds between two tokens. Chunks are swept on a fast model: on a slow one `max_wait` ends them sooner."""
TTFT = 0.3
CONTENT = "let"
"""The first word of the script that is no filler."""
STAY, CATCH_UP = 0.4, 0.007
"""Seconds that a consumer who comes and goes is there, and that it takes for a token meanwhile."""
GREETS = [{"role": "user", "content": "Hello!"}]
ASKS = [
    *GREETS,
    {"role": "assistant", "content": "Hello! How can I help you?"},
    {"role": "user", "content": "Which kettle boils water fastest in a small kitchen?"},
]
CLOSES = [*ASKS, {"role": "assistant", "content": "The Halo does."}, {"role": "user", "content": "Thank you, goodbye!"}]
SAYS = {
    "greeting": "Hello, and welcome to our shop of kettles and lamps and everything for a small kitchen",
    "answer": ENGLISH,
    "closing": "Thank you for your visit, and enjoy the new kettle in your kitchen for many years to come",
}
"""No sentence ends inside the first and the last, so that the stage's chunk_size alone cuts them."""
DIALOGUES: dict[str, list[dict[str, str]]] = {"greeting": GREETS, "answer": ASKS, "closing": CLOSES}


class Told(msgspec.Struct):
    """What a consumer got of one answer; seconds since it asked."""

    text: str = ""
    tokens: int = 0
    low: int = 0
    messages: int = 0
    sent_bytes: int = 0
    first: float = -1.0
    content: float = -1.0
    """The first word that is no filler."""
    figures: Any = None


def sweep_text(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """chunk_size, buffer_factor, priority_threshold and stages: figures, and a table each."""
    tokenizer = byte_tokenizer([ENGLISH, CHINESE], 600)
    ids = tokenizer.encode((ENGLISH + CHINESE) * (1 if quick else 4)).ids
    with VirtualClock() as clock:
        parts = [
            _chunks(clock, tokenizer, ids),
            _lanes(clock, tokenizer, ids),
            _buffers(clock, tokenizer, ids, quick),
            _stages(clock, tokenizer),
        ]
    return [each for part, _ in parts for each in part], {
        name: table for _, each in parts for name, table in each.items()
    }


def _chunks(clock: VirtualClock, tokenizer: Any, ids: list[int]) -> tuple[list[Figure], dict[str, Any]]:
    told = {
        size: clock.run(_told(_processor(tokenizer, ids, FAST, chunk_size=size, priority_threshold=0.0)))
        for size in SIZES
    }
    messages = [each.messages for each in told.values()]
    figures = [
        figure("chunk_size: steps that send more messages", rises(messages), "steps", 0),
        figure("chunk_size: values that send as many as another", len(SIZES) - len(set(messages)), "values", 0),
        figure(
            "chunk_size: steps that send more bytes", rises([each.sent_bytes for each in told.values()]), "steps", 0
        ),
        figure("chunk_size: instants of the first text", len({each.first for each in told.values()}), "instants", 1),
        figure("chunk_size: different texts", len({each.text for each in told.values()}), "texts", 1),
    ]
    return figures, {"chunk_size": {f"{size}": _row(each) for size, each in told.items()}}


def _lanes(clock: VirtualClock, tokenizer: Any, ids: list[int]) -> tuple[list[Figure], dict[str, Any]]:
    told = {
        each: clock.run(_told(_processor(tokenizer, ids, USUAL, chunk_size=1, priority_threshold=each)))
        for each in THRESHOLDS
    }
    low = [each.low for each in told.values()]
    contents = [each.content for each in told.values()]
    figures = [
        figure("priority_threshold: steps with less on the low lane", rises(low[::-1]), "steps", 0),
        figure("priority_threshold: tokens on the low lane at 0", low[0], "tokens", 0),
        figure("priority_threshold: different shares of the low lane", len(set(low)), "shares", 3, "higher"),
        figure("priority_threshold: steps that send more messages", rises([e.messages for e in told.values()]), "", 0),
        figure("priority_threshold: first content later than at 0", max(contents) - contents[0], "s", 0),
        figure("priority_threshold: different texts", len({each.text for each in told.values()}), "texts", 1),
    ]
    return figures, {"priority_threshold": {f"{threshold:g}": _row(each) for threshold, each in told.items()}}


def _row(told: Told) -> dict[str, float]:
    return {
        "messages": told.messages,
        "tokens_per_message": round(told.tokens / told.messages, 2),
        "bytes": told.sent_bytes,
        "low_share": round(told.low / told.tokens, 4),
        "first_text_ms": round(1000 * told.first, 1),
        "first_content_ms": round(1000 * told.content, 1),
    }


def _processor(tokenizer: Any, ids: list[int], gap: float, **settings: Any) -> StreamProcessor:
    return StreamProcessor(ScriptEngine(ids, ttft=TTFT, gap=gap), tokenizer, **settings)


async def _told(processor: StreamProcessor, prompt: Any = "tell me", sync_interval: int = 100_000) -> Told:
    """An answer at the consumer of a stream. With marks far apart: each mark would empty the low lane and the chunk."""
    told, clock = Told(), asyncio.get_running_loop().time
    began = clock()
    pipe = processor.prompt(prompt, max_new_tokens=100_000)
    async with MultiModalStream(pipe, ScriptImagePipe([]), sync_interval) as stream:
        async for bundle in stream.bundles():
            texts = [event for event in bundle if isinstance(event, Text)]
            now = round(clock() - began, 9)
            for event in texts:
                told.text += event.text
                told.tokens += event.token_count
                told.low += event.token_count * (event.lane == "low")
                told.first = now if told.first < 0 and event.text.strip() else told.first
                told.content = now if told.content < 0 and CONTENT in told.text else told.content
            told.messages += bool(texts)
            told.sent_bytes += sum(len(part.encode()) for part in encode_bundle(list(texts)))
    told.figures = pipe.metrics
    processor.close()
    return told


# ---- the buffer ------------------------------------------------------------------------------------------------------


def _buffers(clock: VirtualClock, tokenizer: Any, ids: list[int], quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    many = (ids * 12)[: 1_500 if quick else 4_000]
    table: dict[str, dict[str, float]] = {}
    for factor in FACTORS:
        runs = [clock.run(_bursty(tokenizer, many, factor, seed)) for seed in range(2 if quick else 6)]
        table[f"{factor:g}"] = {name: round(statistics.mean(run[name] for run in runs), 4) for name in runs[0]}
    rows = list(table.values())
    under, ages, ahead = ([row[name] for row in rows] for name in ("underruns", "age_mean_ms", "made_ahead"))
    figures = [
        figure("buffer_factor: steps with more underruns", rises(under), "steps", 0),
        figure("buffer_factor: underruns at 2 against 1", under[-1] / max(1e-9, under[0]), "ratio", 0.7),
        figure("buffer_factor: steps on which tokens wait shorter", rises(ages[::-1]), "steps", 0),
        figure("buffer_factor: waiting at 2 against 1", ages[-1] / ages[0], "ratio", 1.05, "higher"),
        figure("buffer_factor: steps that make less ahead", rises(ahead[::-1]), "steps", 0),
    ]
    return figures, {"buffer_factor": table}


async def _bursty(tokenizer: Any, ids: list[int], factor: float, seed: int) -> dict[str, float]:
    """A consumer who is there for 0.4 s, and away for a time that is log-normal around 0.5 s, at the same instants
    whatever the factor."""
    processor = _processor(tokenizer, ids, USUAL, buffer_factor=factor, chunk_size=1, priority_threshold=0.0)
    pipe, loop, draw = (
        processor.prompt("tell me", max_new_tokens=len(ids)),
        asyncio.get_running_loop(),
        random.Random(seed),
    )
    began = leaves = loop.time()
    ages: list[float] = []
    taken = ahead = 0
    leaves += STAY
    async for _ in pipe:
        assert pipe.reader is not None
        ages.append(loop.time() - pipe.reader.steps[taken].at)
        ahead = max(ahead, pipe.reader.mailbox.delivered - taken)
        taken += 1
        await asyncio.sleep(CATCH_UP)
        while loop.time() >= leaves:
            comes = leaves + 0.5 * draw.lognormvariate(0, 0.5)
            leaves = comes + STAY
            await asyncio.sleep(max(0.0, comes - loop.time()))
    told = pipe.metrics
    processor.close()
    return {
        "underruns": told.underruns,
        "age_mean_ms": 1000 * statistics.mean(ages),
        "age_p95_ms": 1000 * sorted(ages)[int(0.95 * len(ages))],
        "made_ahead": ahead,
        "mark": told.buffer_high,
        "seconds": loop.time() - began,
    }


# ---- stages ----------------------------------------------------------------------------------------------------------


def _stages(clock: VirtualClock, tokenizer: Any) -> tuple[list[Figure], dict[str, Any]]:
    table: dict[str, dict[str, float]] = {}
    wrong = tokens = 0
    for name, stage in STAGES.items():
        ids = tokenizer.encode(SAYS[name]).ids
        processor = _processor(tokenizer, ids, FAST, priority_threshold=0.0)
        told = clock.run(_told(processor, DIALOGUES[name]))
        borders = [*(each.token_index for each in told.figures.in_force), told.tokens]
        for each, (first, behind) in zip(told.figures.in_force, pairwise(borders), strict=True):
            tokens += behind - first
            held = (each.stage, each.settings.chunk_size, each.settings.buffer_factor)
            wrong += (behind - first) * (held != (name, stage.chunk_size, stage.buffer_factor))
        table[name] = {**_row(told), "chunk_size": stage.chunk_size, "made_ahead_mark": told.figures.buffer_high}
    sizes = [table[name]["tokens_per_message"] for name in ("greeting", "closing", "answer")]
    firsts = [row["first_text_ms"] for row in table.values()]
    figures = [
        figure(f"stages: tokens under other settings than the table's, of {tokens}", wrong, "tokens", 0),
        figure(
            "stages: steps from greeting to closing to answer with smaller messages", rises(sizes[::-1]), "steps", 0
        ),
        figure("stages: sizes of messages that are alike", 3 - len(set(sizes)), "stages", 0),
        figure("stages: first text of a greeting against an answer's", firsts[0] / firsts[1], "ratio", 1.0),
    ]
    return figures, {"stages": table}
