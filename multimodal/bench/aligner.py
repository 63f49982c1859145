"""Cost of the aligner alone: CPU microseconds per token with a cue every 3 tokens, and whether it stays flat."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.events import Reveal
from multimodal.sync.aligner import Aligner
from multimodal.values import Cue, EncodedImage, Token

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 7
PICTURES = 50


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Sizes are interleaved round by round, so that a busy moment of the machine hits them alike."""
    rounds = 3 if options.quick else ROUNDS
    cost: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            # Small sizes are repeated up to the largest: too short a run measures the clock.
            repeat = max(1, 20_000 // size)
            cost[size].append(statistics.median(_microseconds_per_token(size) for _ in range(repeat)))
    middle = {size: statistics.median(values) for size, values in cost.items()}
    ratio = middle[SIZES[-1]] / middle[SIZES[0]]
    figures = [
        figure(f"CPU per token, {SIZES[-1]:,} tokens", middle[SIZES[-1]], "us", 10.0, "lower"),
        figure(f"CPU per token, {SIZES[0]:,} tokens", middle[SIZES[0]], "us", 10.0, "lower"),
        figure("100,000 tokens against 1,000", ratio, "ratio", 1.2, "lower"),
    ]
    spread = {f"{size}": {"min": min(v), "median": middle[size], "max": max(v)} for size, v in cost.items()}
    return report("aligner", figures, ours={"us_per_token": spread, "rounds": rounds, "cue_every": 3})


def _microseconds_per_token(count: int) -> float:
    """Every token comes at a time of its own and is drained at once, as in a live stream."""
    pictures = [EncodedImage(f"k{i}", b"x", "image/webp", 4, 3) for i in range(PICTURES)]
    tokens = [Token("word ") for _ in range(count)]
    cues = [Cue(i, f"k{i // 3 % PICTURES}") for i in range(0, count, 3)]
    aligner = Aligner(3)
    shown = 0
    began = time.process_time()
    for picture in pictures:
        aligner.feed_image(picture, 0.0)
    for cue in cues:
        aligner.feed_cue(cue, 0.0)
    for i, token in enumerate(tokens):
        aligner.feed_token(token, i * 0.05)
        for event in aligner.events():
            if event.__class__ is Reveal:
                shown += 1
    aligner.feed_eof(count * 0.05)
    spent = time.process_time() - began
    if shown != len(cues) or not aligner.ended:
        raise AssertionError(f"the aligner showed {shown} of {len(cues)} pictures")
    return spent / count * 1e6
