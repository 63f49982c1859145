"""The local narrator, live: its tour in a real Chromium, and how many viewers one model serves.

The tour is `multimodal tour --narrator local --check` at natural speed and a sync mark at every token, a server and a
Chromium of its own for every run; first text counts from the answer to the viewer's hello, the model read and warm. It
is the greeting, which was made when the model was read. How long a passage takes that is made while one waits stands
apart; in a tour it is made ahead. The viewers are in this process, each with a tour of its own at a narrator's pace:
how much later than that a word came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from typing import Any

from multimodal.bench.report import Figure, figure, report
from multimodal.check import check_tour
from multimodal.demos.product_tour.narrators import LOCAL, Narrator
from multimodal.demos.product_tour.tour import Settings, Tour, demo_tour
from multimodal.pipes.guard import sentences as borders
from multimodal.pipes.local_narrator import LocalNarrator
from multimodal.pipes.spoken import BREATH, breathes, spoken

__all__ = ["run"]

RUNS = 5
VIEWERS = (1, 4, 8)
FIRST_TEXT_BAR_MS = 300.0
HEARD = 60.0
"""Seconds that each viewer listens."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About ten minutes; `--quick` plays one tour, four times as fast, and lets viewers listen for six seconds."""
    runs, speed, heard = (1, "4", HEARD / 10) if options.quick else (RUNS, "1", HEARD)
    results = [_check(["--narrator", LOCAL, "--sync-interval", "1", "--speed", speed]) for _ in range(runs)]
    first = [result["first_text_ms"] for result in results]
    unrevealed = [result["reveals_expected"] - result["reveals_shown"] for result in results]
    # Pictures that no word called for are no cue at all: a product without its picture shows here.
    lost = [len(demo_tour(Narrator(LOCAL)).shown) - result["reveals_shown"] for result in results]
    judged = not options.quick
    figures: list[Figure] = [
        figure("first text, median", statistics.median(first), "ms", FIRST_TEXT_BAR_MS if judged else None),
        figure("first text, longest", max(first), "ms"),
        figure("cues not revealed", max(unrevealed), "cues", 0),
        figure("products without their picture", max(lost), "products", 0),
        figure("wrong products", max(result["wrong_products"] for result in results), "products", 0),
        figure("token drift", max(result["token_drift_max"] for result in results), "tokens", 0),
        figure("sentences that the fact guard told of", max(result["guard_told"] for result in results), "sentences"),
        figure("runs that were not ok", sum(not result["ok"] for result in results), "runs", 0),
    ]
    tour = demo_tour(Narrator(LOCAL))
    tour.prepare()
    own = asyncio.run(_passages(LocalNarrator(tour.shown, shop=tour.name)))
    figures.append(figure("a passage made while one waits: first token, median", own["token_ms"], "ms"))
    figures.append(figure("a passage made while one waits: first sentence, median", own["sentence_ms"], "ms"))
    shared = {str(count): asyncio.run(_shared(tour, count, heard)) for count in VIEWERS}
    for count, late in shared.items():
        figures.append(figure(f"{count} viewers: a word's wait beyond its pace, 99th percentile", late["p99_ms"], "ms"))
        figures.append(figure(f"{count} viewers: first text, longest", late["first_ms"], "ms"))
    ours = {"runs": results, "passages": own, "viewers": shared, "load": round(os.getloadavg()[0], 2)}
    return report("local-tour", figures, ours, packages=("torch", "transformers", "playwright"))


def _check(words: list[str]) -> dict[str, Any]:
    result = asyncio.run(check_tour(words))
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


async def _passages(narrator: LocalNarrator) -> dict[str, float]:
    """Milliseconds to a passage's first token and to its first sentence, which the guard waits for."""
    await narrator.ready()
    tokens, sentences = list[float](), list[float]()
    for asked in narrator.asked[1:]:
        pipe: Any = narrator.answer(asked)
        text, began = "", time.monotonic()
        async for token in pipe:
            text += token.text
            spent = (time.monotonic() - began) * 1000
            if len(tokens) == len(sentences):
                tokens.append(spent)
            if len(borders(text)) > 1 or token.last:
                sentences.append(spent)
                break
        await pipe.aclose()
    return {"token_ms": round(statistics.median(tokens), 1), "sentence_ms": round(statistics.median(sentences), 1)}


async def _shared(tour: Tour, viewers: int, heard: float) -> dict[str, float]:
    """So many viewers who come at once, for so many seconds."""
    found = await asyncio.gather(*(_viewer(tour, heard) for _ in range(viewers)))
    first, late = [each[0] for each in found], sorted(wait for each in found for wait in each[1])
    print(f"{viewers} viewers: first text {max(first) * 1000:.0f} ms, {len(late)} words", file=sys.stderr, flush=True)
    return {
        "first_ms": round(max(first) * 1000, 1),
        "p99_ms": round(late[int(len(late) * 0.99)] * 1000, 1),
        "max_ms": round(late[-1] * 1000, 1),
    }


async def _viewer(tour: Tour, heard: float) -> tuple[float, list[float]]:
    """Seconds to the first word, and of each further one how much later than its pace it came."""
    began, before, due = time.monotonic(), "", 0.0
    first, late = 0.0, list[float]()
    pipe: Any = tour.text_pipe(Settings())
    async for token in pipe:
        now = time.monotonic()
        if now - began > heard:
            break
        if not token.text:
            continue
        if not before:
            first = now - began
        else:
            late.append(max(0.0, now - due - (BREATH if breathes(before, token.text) else 0.0)))
        before, due = token.text, now + spoken(token.text)
    await pipe.aclose()
    return first, late
