"""What the window, the groups and the limit of rows buy, on a server whose times are arithmetic. Pure."""

from __future__ import annotations

import random

import msgspec

from multimodal.pipes.batching import Admission
from multimodal.pipes.pool import BytePool

__all__ = ["Served", "mixed", "serve"]


class Served(msgspec.Struct):
    """What came of a trace.

    Args:
        first: seconds from each request to its first token.
        prefills: how often prompts were read, one or many at once.
        cached_tokens: tokens of prompts that a kept prefix made unnecessary to read.
        seconds: until the last token.
    """

    first: dict[int, float]
    prefills: int
    cached_tokens: int
    seconds: float


def serve(
    admission: Admission, arrivals: list[tuple[float, list[int]]], *, tokens: int = 20, rows: int = 8, kept: int = 4
) -> Served:
    """Serve a trace: reading takes 2 ms a token and 5 ms a call, a step 40 ms and 4 ms a row.

    Args:
        admission: who joins when.
        arrivals: (seconds, prompt) in order of time.
        tokens: of each answer.
        rows: that the engine has room for.
        kept: prefixes of 64 tokens that are kept, the latest used.
    """
    pool: BytePool[tuple[int, ...], bool] = BytePool(kept, keep_free=0, policy="lru")
    queue = list(enumerate(arrivals))
    prompts = {number: prompt for number, (_, prompt) in queue}
    done = Served({}, 0, 0, 0.0)
    running: dict[int, int] = {}
    now = 0.0
    while queue or running or admission.waiting:
        if not running and not admission.waiting:
            now = max(now, queue[0][1][0])
        while queue and queue[0][1][0] <= now:
            number, (came, prompt) = queue.pop(0)
            admission.offer(number, prompt, came)
        joined = [int(str(each)) for each in admission.take(now, len(running), rows - len(running), not running)]
        if joined:
            done.prefills += 1
            now += 0.005
            for number in joined:
                prefix = tuple(prompts[number][:64])
                shared = 64 if pool.get(prefix) is not None else 0
                done.cached_tokens += shared
                now += 0.002 * (len(prompts[number]) - shared)
                pool.put(prefix, True, 1)
        running |= dict.fromkeys(joined, tokens)
        if running:
            took = 0.04 + 0.004 * len(running)
            now += took
            admission.measured(took, len(running), now)
        for number in list(running):
            done.first.setdefault(number, now - arrivals[number][0])
            running[number] -= 1
            if not running[number]:
                del running[number]
    done.seconds = now
    return done


def mixed(seed: int, products: int = 12, requests: int = 120) -> list[tuple[float, list[int]]]:
    """Requests about one of many products, at random, faster than `serve` can answer them.

    Args:
        seed: of the order of products.
        products: how many; a prompt begins with 64 tokens of its product's.
        requests: how many, 50 ms apart.
    """
    draw = random.Random(seed)
    return [(number * 0.05, [draw.randrange(products)] * 64 + [number] * 6) for number in range(requests)]
