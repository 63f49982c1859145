"""Cost of a whole in-process stream, pipes and event loop included: CPU microseconds per token."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.events import Reveal, Text
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, EncodedImage

ROUNDS = 5
PICTURES = 50


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Two ways of coming: one token per turn of the event loop (as a live model gives them), and all at once."""
    rounds, count = (2, 4_000) if options.quick else (ROUNDS, 20_000)
    cost: dict[str, list[float]] = {"one by one": [], "in bursts": []}
    for _ in range(rounds):
        for name, values in cost.items():
            values.append(asyncio.run(_microseconds_per_token(count, name == "one by one")))
    middle = {name: statistics.median(values) for name, values in cost.items()}
    figures = [figure(f"CPU per token, {name}", value, "us", 25.0, "lower") for name, value in middle.items()]
    spread = {name: {"min": min(v), "median": middle[name], "max": max(v)} for name, v in cost.items()}
    return report("stream", figures, ours={"us_per_token": spread, "tokens": count, "cue_every": 3, "rounds": rounds})


async def _microseconds_per_token(count: int, one_by_one: bool) -> float:
    async def text() -> AsyncIterator[str]:
        for _ in range(count):
            if one_by_one:
                await asyncio.sleep(0)
            yield "word "

    async def images() -> AsyncIterator[EncodedImage]:
        for i in range(PICTURES):
            yield EncodedImage(f"k{i}", b"x", "image/webp", 4, 3)

    cues = [Cue(i, f"k{i // 3 % PICTURES}") for i in range(0, count, 3)]
    words = shown = 0
    began = time.process_time()
    async with MultiModalStream(text(), images(), 3, cues=cues) as stream:
        async for event in stream:
            if isinstance(event, Text):
                words += event.token_count
            elif isinstance(event, Reveal):
                shown += 1
    spent = time.process_time() - began
    if (words, shown) != (count, len(cues)):
        raise AssertionError(f"the stream gave {words} of {count} tokens and {shown} of {len(cues)} pictures")
    return spent / count * 1e6
