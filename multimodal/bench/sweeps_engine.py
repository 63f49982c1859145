"""The settings that act inside an engine, each swept through a real `StreamProcessor` over a tiny real model.

The model has random weights; what is counted is what the engine did with the same requests: prompts read, prefixes
kept and met again, answers that had to wait for memory. Beside the pool's two settings stand longer traces on the pool
alone.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from multimodal.bench.report import Figure, figure
from multimodal.bench.text_stage import random_llama, rises
from multimodal.pipes.pool_sweep import headroom, hit_rates, zipf
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.reclaim import Policy

__all__ = ["sweep_engine"]

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
POLICIES: tuple[Policy, ...] = ("lru", "size", "hybrid")
WINDOWS = (0.0, 12.0, 25.0, 50.0, 100.0, 200.0)
BURST, BURST_S = 8, 0.04
"""Requests that come in so many seconds, evenly, while another answer runs."""
VOCABULARY = 512
TOKEN_BYTES = 2 * 2 * 64 * 4
"""Keys and values of one token: two layers of 64 float32 numbers each."""


def sweep_engine(quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """keep_free, reclaim_policy and window_size: figures, and tables."""
    import torch

    torch.set_num_threads(1)
    model = random_llama(VOCABULARY, width=64, layers=2)
    parts = [_headroom(model, quick), _policies(model, quick), _windows(model, quick)]
    return [each for part, _ in parts for each in part], {
        name: table for _, each in parts for name, table in each.items()
    }


# ---- keep_free -------------------------------------------------------------------------------------------------------


def _headroom(model: Any, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    answers = 60 if quick else 240
    shares = SHARES[::3] if quick else SHARES
    real = {f"{share:g}": asyncio.run(_kept(model, share, answers)) for share in shares}
    alone = {f"{share:g}": headroom(share) for share in SHARES}
    stalls = [row["stalls"] for row in real.values()]
    cached = [row["cached_share"] for row in real.values()]
    figures = [
        figure("keep_free: steps on which more answers wait for memory", rises(stalls, 0.02), "steps", 0),
        figure("keep_free: such answers at 0.3 against 0", real["0.3"]["stalls"] / max(stalls[0], 1e-9), "ratio", 0.5),
        figure(
            "keep_free: share of prompts' tokens kept at 0, against 0.3", cached[0] - real["0.3"]["cached_share"], ""
        ),
        figure(
            "keep_free, pool alone: steps with more stalls", rises([row.stalls for row in alone.values()]), "steps", 0
        ),
        figure("keep_free, pool alone: steps with less free", rises([-row.free for row in alone.values()]), "steps", 0),
    ]
    plain = {
        name: {"stalls": row.stalls, "refused": row.refused, "hits": row.hits, "free": row.free}
        for name, row in alone.items()
    }
    return figures, {"keep_free": real, "keep_free, pool alone": plain}


async def _kept(model: Any, share: float, answers: int) -> dict[str, float]:
    """Three clients whose prompts are of 60 kinds by Zipf's law; each answer needs about a tenth of the pool."""
    draw = random.Random(3)
    kinds = _prompts(draw, [draw.randint(60, 110) for _ in range(60)])
    asked = draw.choices(kinds, [1 / (rank + 1) for rank in range(len(kinds))], k=answers)
    waiting = list(asked)
    with StreamProcessor(model, max_rows=4, pool_bytes=1000 * TOKEN_BYTES) as processor:
        processor.mempool_config(warmup_samples=0, keep_free=share)

        async def client() -> None:
            while waiting:
                await processor.generate(waiting.pop(), max_new_tokens=8)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(client())
        engine = processor.metrics.engine
        assert engine is not None
    return {
        "stalls": engine.pool_stalls / answers,
        "cached_share": engine.cached_tokens / sum(map(len, asked)),
        "pool_high_kib": engine.pool_high_bytes / 1024,
        "left_at_rest": 1 - engine.pool_bytes / (1000 * TOKEN_BYTES),
    }


# ---- reclaim_policy --------------------------------------------------------------------------------------------------


def _policies(model: Any, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    real: dict[str, dict[str, float]] = {
        each: asyncio.run(_reused(model, each, 60 if quick else 400)) for each in POLICIES
    }
    runs = [zipf(seed) for seed in range(1 if quick else 4)]
    alone: dict[str, dict[str, float]] = {}
    for each in POLICIES:
        found = [hit_rates(trace, each, 0.1) for trace in runs]
        alone[each] = {
            "requests": statistics.mean(rates.requests for rates in found),
            "bytes": statistics.mean(rates.bytes for rates in found),
        }
    figures = [figure("reclaim_policy: policies that do what another does", _alike(real), "", 0)]
    for name, table in (("", real), (", pool alone", alone)):
        best = max(table["lru"]["requests"], table["size"]["requests"])
        figures += [
            figure(
                f"reclaim_policy{name}: requests hit, hybrid over the better",
                table["hybrid"]["requests"] / best,
                "ratio",
                1.0,
                "higher",
            ),
            figure(
                f"reclaim_policy{name}: bytes hit, hybrid over lru",
                table["hybrid"]["bytes"] / table["lru"]["bytes"],
                "ratio",
                0.95,
                "higher",
            ),
        ]
    return figures, {"reclaim_policy": real, "reclaim_policy, pool alone": alone}


def _alike(table: dict[str, dict[str, float]]) -> int:
    return len(table) - len({tuple(row.values()) for row in table.values()})


async def _reused(model: Any, policy: Policy, answers: int) -> dict[str, float]:
    """One client whose prompts, of log-normal lengths, come by Zipf's law, and a pool for a fifth of them."""
    draw = random.Random(4)
    lengths = [min(600, max(24, int(math.exp(draw.gauss(4.2, 0.9))))) for _ in range(80)]
    kinds = _prompts(draw, lengths)
    asked = draw.choices(kinds, [1 / (rank + 1) ** 0.9 for rank in range(len(kinds))], k=answers)
    size = int(0.2 * sum(lengths)) * TOKEN_BYTES
    met = 0
    with StreamProcessor(model, max_rows=1, pool_bytes=max(size, 700 * TOKEN_BYTES)) as processor:
        processor.mempool_config(warmup_samples=0, keep_free=0.0, reclaim_policy=policy)
        for prompt in asked:
            told = await processor.generate(prompt, max_new_tokens=1)
            met += told.metrics[0].cached_tokens > 0
        engine = processor.metrics.engine
        assert engine is not None
    return {"requests": met / answers, "bytes": engine.cached_tokens / sum(map(len, asked))}


# ---- window_size -----------------------------------------------------------------------------------------------------


def _windows(model: Any, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    table = asyncio.run(_gathered(model, 2 if quick else 8, 3 if quick else 40))
    reads = [row["prefills"] for row in table.values()]
    idle = table[f"{WINDOWS[-1]:g}"]["idle_first_ms"] / table["0"]["idle_first_ms"]
    judges = not quick
    figures = [
        figure("window_size: steps that read prompts more often", rises(reads, 0.05), "steps", 0 if judges else None),
        figure("window_size: reads of a burst of 8 at 50 ms", table["50"]["prefills"], "reads"),
        figure("window_size: reads at 50 ms against none", table["50"]["prefills"] / reads[0], "ratio", 0.7),
        figure("window_size: reads at the longest against none", reads[-1] / reads[0], "ratio", 0.4),
        figure("window_size: first token when idle, longest against none", idle, "ratio", 1.1 if judges else None),
    ]
    return figures, {"window_size": table}


async def _gathered(model: Any, rounds: int, samples: int) -> dict[str, dict[str, float]]:
    """Bursts behind an answer that runs, and requests to an idle engine; windows take turns, set live."""
    from multimodal.pipes.local_loading import LocalModel
    from multimodal.pipes.local_steps import StepEngine

    draw = random.Random(5)
    reads, behind, idle = ({window: list[float]() for window in WINDOWS} for _ in range(3))
    # Prompts are read whole: their share of a step, which follows its time, would split them as the machine is busy.
    engine = StepEngine(LocalModel.load(model), max_rows=BURST + 2, prefill_slowdown=0)
    processor = StreamProcessor(engine)

    async def first(sink: list[float]) -> None:
        began = time.monotonic()
        told = processor.generate(_prompts(draw, [16])[0], max_new_tokens=2)
        async for _ in told:
            sink.append(1000 * (time.monotonic() - began))
            break
        await told

    async def burst(window: float) -> None:
        processor.enable_hybrid_mode(window, semantic_cluster=False, dynamic_batch=False)
        running = processor.generate(_prompts(draw, [16])[0], max_new_tokens=1800)
        aloud = aiter(running)
        await anext(aloud)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(_read(aloud))
            before = engine.stats().prefills
            asks = []
            for _ in range(BURST):
                asks.append(group.create_task(first(behind[window])))
                await asyncio.sleep(BURST_S / BURST)
            await asyncio.wait(asks)
            reads[window].append(engine.stats().prefills - before)
            running.cancel()
            await reader

    try:
        for _ in range(rounds):
            for window in WINDOWS:
                await burst(window)
        for _ in range(samples):
            for window in WINDOWS:
                processor.enable_hybrid_mode(window, semantic_cluster=False, dynamic_batch=False)
                await first(idle[window])
    finally:
        processor.close()
        engine.close()
    return {
        f"{window:g}": {
            "prefills": statistics.mean(reads[window]),
            "burst_first_ms": statistics.median(behind[window]),
            # A window that an idle engine waited for would be in every one of them.
            "idle_first_ms": sorted(idle[window])[len(idle[window]) // 4],
        }
        for window in WINDOWS
    }


async def _read(tokens: AsyncIterator[Any]) -> None:
    async for _ in tokens:
        pass


def _prompts(draw: random.Random, lengths: Sequence[int]) -> list[list[int]]:
    return [[draw.randrange(1, VOCABULARY) for _ in range(length)] for length in lengths]
