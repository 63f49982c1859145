"""Cost of the aligner, alone and behind a scanner for 5,000 product names: CPU per token, and whether it stays flat.

Alone it has a cue every 3 tokens. With the scanner, the narration names one of 50 products every 20 tokens or so, holds
a marker every 100, and says the first word of a product's name, any of 5,000, as often as it names one.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.events import Reveal
from multimodal.sync.aligner import Aligner
from multimodal.sync.matcher import ProductNames
from multimodal.sync.scanner import Scanner
from multimodal.values import Cue, EncodedImage, Product, Token

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 7
PICTURES = 50
CATALOGUES = (50, 5_000)
NARRATION = 10_000
"""Tokens of the narration that is scanned."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Sizes are interleaved round by round, so that a busy moment of the machine hits them alike."""
    rounds = 3 if options.quick else ROUNDS
    cost: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            # Small sizes are repeated up to the largest: too short a run measures the clock.
            repeat = max(1, 20_000 // size)
            cost[size].append(statistics.median(_microseconds_per_token(size) for _ in range(repeat)))
    scanned = _scanned(rounds)
    named = {size: statistics.median(values) for size, values in scanned.items()}
    # Round by round: what another process takes from the caches in a round, it takes from both.
    growth = [large / small for small, large in zip(*scanned.values(), strict=True)]
    middle = {size: statistics.median(values) for size, values in cost.items()}
    ratio = middle[SIZES[-1]] / middle[SIZES[0]]
    figures = [
        figure(f"CPU per token, {SIZES[-1]:,} tokens", middle[SIZES[-1]], "us", 10.0, "lower"),
        figure(f"CPU per token, {SIZES[0]:,} tokens", middle[SIZES[0]], "us", 10.0, "lower"),
        figure("100,000 tokens against 1,000", ratio, "ratio", 1.2, "lower"),
        figure("CPU per token, 5,000 names matched", named[CATALOGUES[-1]], "us", 15.0, "lower"),
        figure("5,000 names against 50", statistics.median(growth), "ratio", 1.2, "lower"),
    ]
    ours = {"us_per_token": _spread(cost), "us_per_token_by_names": _spread(scanned), "rounds": rounds, "cue_every": 3}
    return report("aligner", figures, ours=ours)


def _spread(cost: dict[int, list[float]]) -> dict[str, dict[str, float]]:
    return {
        f"{size}": {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for size, values in cost.items()
    }


def _scanned(rounds: int) -> dict[int, list[float]]:
    """Both catalogues read the same narration, round by round in turn."""
    chance = random.Random(1)
    names = _names(chance, CATALOGUES[-1])
    tokens = _narration(chance, names)
    catalogues = {
        size: ProductNames(Product(f"sku-{number}", name) for number, name in enumerate(names[:size]))
        for size in CATALOGUES
    }
    cost: dict[int, list[float]] = {size: [] for size in CATALOGUES}
    for _ in range(rounds):
        for size, catalogue in catalogues.items():
            cost[size].append(_microseconds_per_scanned_token(catalogue, tokens))
    return cost


def _names(chance: random.Random, count: int) -> list[str]:
    """Names of two invented words, all different."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[f"{_word(chance, 3).title()} {_word(chance, 2).title()}"] = None
    return list(found)


def _word(chance: random.Random, syllables: int) -> str:
    return "".join(
        chance.choice("bdfgklmnprstv") + chance.choice("aeiou") + chance.choice(["", "n", "r"])
        for _ in range(syllables)
    )


def _narration(chance: random.Random, names: list[str]) -> list[Token]:
    words: list[str] = []
    while len(words) < NARRATION:
        what = chance.random()
        if what < 0.01:
            words.append(f"[[show:sku-{chance.randrange(PICTURES)}]]")
        elif what < 0.06:
            words += names[chance.randrange(PICTURES)].split()
        elif what < 0.11:
            words.append(chance.choice(names).split()[0])
        else:
            words.append(_word(chance, chance.randint(1, 3)))
    return [Token(f"{word} ") for word in words[:NARRATION]]


def _microseconds_per_scanned_token(names: ProductNames, tokens: list[Token]) -> float:
    scanner, aligner = Scanner(names, markers=True, repeat="every"), Aligner(3)
    for number in range(PICTURES):
        aligner.feed_image(EncodedImage(f"sku-{number}", b"x", "image/webp", 4, 3), 0.0)
    shown = declared = 0
    began = time.process_time()
    for i, token in enumerate(tokens):
        scanned = scanner.feed(token)
        for cue in scanned.cues:
            aligner.feed_cue(cue, i * 0.05)
            declared += 1
        for ready in scanned.tokens:
            aligner.feed_token(ready, i * 0.05)
        for event in aligner.events():
            if event.__class__ is Reveal:
                shown += 1
    spent = time.process_time() - began
    if scanner.held or not declared - 1 <= shown <= declared or declared < len(tokens) // 40:
        raise AssertionError(f"the aligner showed {shown} of {declared} pictures; {scanner.held} tokens are held")
    return spent / len(tokens) * 1e6


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
