"""What a pool's policy and headroom buy: a Zipf trace of mixed sizes, and work that comes and goes. Pure."""

from __future__ import annotations

import heapq
import math
import random

import msgspec

from multimodal.pipes.pool import BytePool
from multimodal.pipes.reclaim import Policy

__all__ = ["Headroom", "HitRates", "headroom", "hit_rates", "zipf"]


class HitRates(msgspec.Struct, frozen=True):
    """Shares of the requests and of their bytes that a pool had."""

    requests: float
    bytes: float


class Headroom(msgspec.Struct, frozen=True):
    """What headroom cost and bought.

    Args:
        stalls: share of the reservations that had to evict first.
        refused: share of them for which there was no room at all.
        hits: share of the look-ups that found their entry.
        free: bytes that were free when a reservation came, as a share of the limit, on the average.
    """

    stalls: float
    refused: float
    hits: float
    free: float


def zipf(seed: int, exponent: float = 0.9, keys: int = 1000, requests: int = 20_000) -> list[tuple[int, int]]:
    """(key, size) of requests whose popularity follows Zipf's law and moves in five steps, sizes log-normal."""
    draw = random.Random(seed)
    sizes = [max(1, int(math.exp(draw.gauss(10, 1.2)))) for _ in range(keys)]
    weights = [1 / (rank + 1) ** exponent for rank in range(keys)]
    names = list(range(keys))
    draw.shuffle(names)
    trace: list[tuple[int, int]] = []
    for _ in range(5):
        trace += [(key, sizes[key]) for key in draw.choices(names, weights, k=requests // 5)]
        for _ in range(keys // 20):
            one, other = draw.randrange(keys), draw.randrange(keys)
            names[one], names[other] = names[other], names[one]
    return trace


def hit_rates(trace: list[tuple[int, int]], policy: Policy, share: float) -> HitRates:
    """Of a pool that holds this share of all bytes and makes what it misses."""
    pool: BytePool[int, int] = BytePool(int(share * sum(dict(trace).values())), keep_free=0, policy=policy)
    for key, size in trace:
        if pool.get(key, size) is None:
            pool.put(key, key, size)
    stats = pool.stats()
    return HitRates(stats.hits / len(trace), stats.hit_bytes / (stats.hit_bytes + stats.miss_bytes))


def headroom(keep_free: float, *, answers: int = 4000, seed: int = 1) -> Headroom:
    """Answers that come at random, reserve what they need while they run, and leave what they read as an entry.

    Three run at a time on the average, each with 4 % of the pool or so; their prompts are of 200 kinds by Zipf's law.

    Args:
        keep_free: of the pool.
        answers: how many.
        seed: of arrivals, sizes and kinds.
    """
    draw = random.Random(seed)
    limit = 1_000_000
    pool: BytePool[int, int] = BytePool(limit, keep_free=keep_free)
    kinds = draw.choices(range(200), [1 / (rank + 1) for rank in range(200)], k=answers)
    running: list[tuple[float, int, int]] = []
    now = free = 0.0
    for kind in kinds:
        now += draw.expovariate(3.0)
        needs, takes = int(limit * draw.uniform(0.02, 0.06)), draw.uniform(0.5, 1.5)
        while running and running[0][0] <= now:
            _, reserved, done = heapq.heappop(running)
            pool.release(reserved)
            pool.put(done, done, limit // 100)
        pool.get(kind)
        free += pool.free_bytes / limit
        if pool.reserve(needs):
            heapq.heappush(running, (now + takes, needs, kind))
    stats = pool.stats()
    return Headroom(stats.stalls / answers, stats.refused / answers, stats.hits / answers, free / answers)
