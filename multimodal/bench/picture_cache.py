"""Which pictures a full memory gives up: lru, size and hybrid on one trace; and what room kept free costs and buys.

The trace: 2,000 pictures whose sizes are log-normal (median 45 KiB, as 800-px WebP are, sigma 0.8), asked for by Zipf's
law with three exponents, whatever their size; a pool of 10 % of all bytes; the first fifth of the requests fills it and
is not counted. Every policy sees the same requests; each exponent has several traces, and their median counts.

The load: an open loop on a real `ImageStore`. Requests come by a Poisson process whether or not earlier ones were
answered, and each is timed from when it came. The two settings take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

from multimodal.bench.report import figure, report
from multimodal.pipes.pool import BytePool, Policy

__all__ = ["run"]

PICTURES, SHARE = 2_000, 0.10
REQUESTS = 100_000
EXPONENTS = (0.7, 0.9, 1.1)
TRACES = 5
LEAST_BYTES = 0.95
MEDIAN_KIB, SIGMA = 45.0, 0.8

STORE_PICTURES = 400
PER_SECOND, SECONDS, ROUNDS = 60.0, 6.0, 5
KEEP_FREE = (0.0, 0.3)

POLICIES: tuple[Policy, ...] = get_args(Policy)
Rates = dict[Policy, dict[str, float]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Hit rates of each policy on the traces, then the store under load."""
    requests, traces = (20_000, 2) if options.quick else (REQUESTS, TRACES)
    figures, rates = [], {}
    for exponent in EXPONENTS:
        runs = [_replayed(exponent, requests, seed) for seed in range(traces)]
        middle: Rates = {
            policy: {
                kind: round(statistics.median(each[policy][kind] for each in runs), 4) for kind in ("requests", "bytes")
            }
            for policy in POLICIES
        }
        rates[f"zipf {exponent}"] = middle
        best = max(middle["lru"]["requests"], middle["size"]["requests"])
        hybrid = middle["hybrid"]
        name = f"zipf {exponent}: hybrid"
        figures += [
            figure(f"{name}, hits of requests", hybrid["requests"], "share", best, "higher"),
            figure(
                f"{name}, hits of bytes against lru",
                hybrid["bytes"] / middle["lru"]["bytes"],
                "ratio",
                LEAST_BYTES,
                "higher",
            ),
        ]
        print(f"zipf {exponent}: {middle}", file=sys.stderr)
    load = asyncio.run(_under_load(*((2.0, 2) if options.quick else (SECONDS, ROUNDS))))
    for keep_free in KEEP_FREE:
        found = load[f"{keep_free:g}"]
        figures.append(figure(f"keep_free {keep_free:g}: p95 of prepare()", found["p95_ms"], "ms"))
    ours = {"pictures": PICTURES, "requests": requests, "hit_rates": rates, "keep_free": load}
    return report("picture-cache", figures, ours=ours, packages=("pillow",))


# ---- the trace


def _replayed(exponent: float, requests: int, seed: int) -> Rates:
    chance = random.Random(f"{exponent} {seed}")
    sizes = [max(1024, round(chance.lognormvariate(0.0, SIGMA) * MEDIAN_KIB * 1024)) for _ in range(PICTURES)]
    trace = chance.choices(range(PICTURES), cum_weights=_popularity(PICTURES, exponent), k=requests)
    return {policy: _hits(policy, sizes, trace) for policy in POLICIES}


def _popularity(count: int, exponent: float) -> list[float]:
    return list(accumulate((rank + 1) ** -exponent for rank in range(count)))


def _hits(policy: Policy, sizes: list[int], trace: list[int]) -> dict[str, float]:
    pool: BytePool[int, int] = BytePool(round(SHARE * sum(sizes)), keep_free=0.0, policy=policy)
    counted = len(trace) // 5
    before = pool.stats()
    for number, picture in enumerate(trace):
        if number == counted:
            before = pool.stats()
        if pool.get(picture, sizes[picture]) is None:
            pool.put(picture, picture, sizes[picture])
    after = pool.stats()
    hits, misses = after.hits - before.hits, after.misses - before.misses
    hit_bytes, miss_bytes = after.hit_bytes - before.hit_bytes, after.miss_bytes - before.miss_bytes
    return {"requests": hits / (hits + misses), "bytes": hit_bytes / (hit_bytes + miss_bytes)}


# ---- the store


async def _under_load(seconds: float, rounds: int) -> dict[str, dict[str, Any]]:
    """Both settings in turn, a fresh store each time, asked for the same pictures at the same moments."""
    waits: dict[float, list[list[float]]] = {keep_free: [] for keep_free in KEEP_FREE}
    shares: dict[float, list[float]] = {keep_free: [] for keep_free in KEEP_FREE}
    stalls: dict[float, int] = dict.fromkeys(KEEP_FREE, 0)
    late: dict[float, list[float]] = {keep_free: [] for keep_free in KEEP_FREE}
    with tempfile.TemporaryDirectory() as folder:
        paths = _small_pictures(Path(folder))
        limit = await _tenth(paths)
        for number in range(rounds):
            for keep_free in KEEP_FREE if number % 2 == 0 else KEEP_FREE[::-1]:
                taken, stats, behind = await _load(paths, keep_free, limit, seconds, number)
                waits[keep_free].append(taken)
                shares[keep_free].append(stats.hits / (stats.hits + stats.misses))
                stalls[keep_free] += stats.stalls
                late[keep_free].append(behind)
    return {
        f"{keep_free:g}": {
            "requests": sum(len(each) for each in waits[keep_free]),
            "cache_kib": limit // 1024,
            "per_second": PER_SECOND,
            "p50_ms": round(statistics.median(_percentile(each, 0.50) for each in waits[keep_free]) * 1000, 2),
            "p95_ms": round(statistics.median(_percentile(each, 0.95) for each in waits[keep_free]) * 1000, 2),
            "p95_ms_of_each_round": [round(_percentile(each, 0.95) * 1000, 2) for each in waits[keep_free]],
            "hits": round(statistics.median(shares[keep_free]), 4),
            "stalls": stalls[keep_free],
            "load_generator_late_ms": round(max(late[keep_free]) * 1000, 2),
        }
        for keep_free in KEEP_FREE
    }


def _small_pictures(folder: Path) -> list[Path]:
    """Pictures of a few sizes and much detail, 320 px at most, so that one takes milliseconds."""
    from multimodal.bench.images import photograph

    chance = random.Random(2)
    paths = []
    for number in range(STORE_PICTURES):
        path = folder / f"{number}.jpg"
        path.write_bytes(photograph(chance.choice((200, 260, 320)), seed=number))
        paths.append(path)
    return paths


async def _tenth(paths: list[Path]) -> int:
    """A tenth of all bytes as they are kept, and room for two that are being made."""
    store = _store(256 * 2**20, 0.0)
    await store.warm(paths)
    await store.settle()
    held: int = store.pool.bytes
    return round(held * SHARE) + 2 * 3 * 320**2


def _store(limit: int, keep_free: float) -> Any:
    from multimodal.pipes.images import ImageStore
    from multimodal.pipes.intake import ImageSettings

    return ImageStore(ImageSettings(max_px=320), cache_bytes=limit, keep_free=keep_free)


async def _load(
    paths: list[Path], keep_free: float, limit: int, seconds: float, seed: int
) -> tuple[list[float], Any, float]:
    """Seconds that each request took from when it was due, the pool's counts, and how late the latest was made."""
    chance = random.Random(seed)
    cumulative = _popularity(len(paths), 0.9)
    order = list(range(len(paths)))
    chance.shuffle(order)
    due, moments = 0.0, []
    while due < seconds:
        due += chance.expovariate(PER_SECOND)
        moments.append((due, paths[order[chance.choices(range(len(paths)), cum_weights=cumulative)[0]]]))
    store = _store(limit, keep_free)
    await store.warm([paths[number] for number in order[: len(paths) // 5]])
    began, taken, latest = time.perf_counter(), [], 0.0

    async def ask(due: float, path: Path) -> None:
        await store.prepare(path)
        taken.append(time.perf_counter() - began - due)

    async with asyncio.TaskGroup() as group:
        for due, path in moments:
            await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
            latest = max(latest, time.perf_counter() - began - due)
            group.create_task(ask(due, path))
    await store.settle()
    return taken, store.pool.stats(), latest


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
