"""What a buffer's factor buys and costs: a producer and a consumer of arithmetic. Pure."""

from __future__ import annotations

import math
import random
from bisect import bisect_right

import msgspec

from multimodal.pipes.buffer import AdaptiveBuffer

__all__ = ["CONSUMERS", "Simulated", "simulate"]

CONSUMERS = ("slow", "bursty", "fast")
PACE = 0.02
"""Seconds the producer takes for a token."""
STAY = 0.4
"""Seconds a bursty consumer is there before it goes away again."""
DRAIN = {"slow": 0.03, "bursty": 0.007, "fast": 0.0}
"""Seconds a consumer takes for a token while it is there."""


class Simulated(msgspec.Struct, frozen=True):
    """What came of one run.

    Args:
        underruns: times the buffer was too small (`BufferStats`).
        held_back: seconds for which the producer had to wait.
        tokens_held: tokens that waited, on the average over time.
        peak: the most that did.
        age_mean, age_p95: seconds that a token waited.
        high: the mark at the end, tokens.
        seconds: in all.
    """

    underruns: int
    held_back: float
    tokens_held: float
    peak: int
    age_mean: float
    age_p95: float
    high: int
    seconds: float


def simulate(factor: float, consumer: str, *, tokens: int = 6000, seed: int = 1) -> Simulated:
    """A producer of one token each 20 ms before a consumer of that kind.

    Args:
        factor: of the buffer.
        consumer: slow takes one token each 30 ms; bursty is there for 0.4 s, taking one each 7 ms, and away for a time
            that is log-normal around 0.5 s, at the same times whatever the factor; fast is always there.
        tokens: how many are made.
        seed: of the absences.
    """
    buffer = AdaptiveBuffer(factor)
    there = _presences(consumer, tokens, seed)
    drain = DRAIN[consumer]
    made = taken = 0
    now = comes = 0.0
    ready = PACE  # when the producer's next token is done, unless it is held back
    asked = False
    while taken < tokens:
        makes = ready if made < tokens and not buffer.full else math.inf
        # Whoever waits is handed the next token even if it turns away meanwhile: only to come it must be there.
        acts = _next_there(there, max(now, comes)) if not asked else now if buffer.level else math.inf
        now = min(makes, acts)
        if makes <= acts:
            buffer.put(1, now)
            made += 1
            ready = now + PACE
        elif not asked:
            buffer.ask(now)
            asked = True
        else:
            held = buffer.full
            buffer.take(1, now)
            taken += 1
            asked, comes = False, now + drain
            if held and not buffer.full:
                ready = now + PACE
    stats = buffer.stats()
    return Simulated(
        underruns=stats.underruns,
        held_back=stats.held_back,
        tokens_held=stats.age_mean * tokens / now,
        peak=stats.peak,
        age_mean=stats.age_mean,
        age_p95=stats.age_p95,
        high=stats.high,
        seconds=now,
    )


def _presences(consumer: str, tokens: int, seed: int) -> list[float]:
    """When the consumer comes and goes, alternately; at fixed times, so that factors are compared on the same ones."""
    if consumer != "bursty":
        return [0.0, math.inf]
    draw = random.Random(seed)
    times = [0.0]
    while times[-1] < 10 * tokens * PACE:
        times += [times[-1] + STAY, times[-1] + STAY + 0.5 * draw.lognormvariate(0, 0.5)]
    return times


def _next_there(there: list[float], now: float) -> float:
    place = bisect_right(there, now)
    return now if place % 2 else there[place]
