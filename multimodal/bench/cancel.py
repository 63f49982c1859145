"""Answers that are given up: at random steps, and twice 100 started and given up a second for half a minute.

For each engine: after a mailbox is closed at most one further token is made for it; afterwards no thread is left over,
no object of Python is, memory is what it was, the pool has what it had, and the next answer's first token comes as soon
as before. A model of 110 million random weights, prompts of 16 tokens, answers of up to 400 tokens. `--quick` uses a
tiny model.

Memory is judged over the second storm. In the first one the allocator finds its size: of four storms in a row the
process grew by 16.7, 1.8, 6.7 and 0.4 MiB, where 3,000 answers each left no object behind. What leaks leaks in every
storm.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from multimodal.bench.batch_load import one_thread, prompts, resident_bytes, save_model
from multimodal.bench.report import Figure, figure, report
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest

CANCELS = 200
STORM_S = 30.0
STORM_RATE = 100.0
ROWS = 8
POOL_BYTES = 64 * 2**20
GROWTH_MIB = 16.0
"""What allocators keep between one moment and another; what 3,000 answers leave behind would be far more."""
LEFT_OBJECTS = 0.1
"""Objects for each answer given up; one dictionary's entry that is forgotten leaves one or more."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Four minutes; `--quick` half a minute."""
    one_thread()
    from multimodal.pipes.local_loading import LocalModel

    figures: list[Figure] = []
    ours: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        save_model(Path(scratch), options.quick)
        local = LocalModel.load(scratch)
        for kind in ("manager", "steps"):
            found = _engine(local, kind, options.quick)
            # A tiny model's answers do not fill the pool before the storms: it fills meanwhile.
            memory, objects = (None, None) if options.quick else (GROWTH_MIB, LEFT_OBJECTS)
            ours[kind] = found
            figures += [
                figure(f"{kind}: further tokens after a cancel, most of {found['cancels']}", found["late_max"], "", 1),
                figure(f"{kind}: answers that were neither cancelled nor ended", found["unsettled"], "", 0),
                figure(f"{kind}: threads left over", found["threads_left"], "", 0),
                figure(f"{kind}: memory growth over the second storm", found["growth_mib"], "MiB", memory),
                figure(f"{kind}: memory growth over the first storm", found["first_growth_mib"], "MiB"),
                figure(f"{kind}: objects left per answer of the second storm", found["objects"], "", objects),
                figure(f"{kind}: an answer that needs most of the pool is served", found["pool_back"], "", 1, "higher"),
                figure(
                    f"{kind}: next TTFT against an engine where nothing was given up",
                    found["ttft_after_ms"] / found["ttft_fresh_ms"],
                    "ratio",
                    None if options.quick else 1.1,
                ),
            ]
    return report("cancel", figures, ours=ours, packages=("torch", "transformers"))


def _engine(local: Any, kind: Any, quick: bool) -> dict[str, Any]:
    from multimodal.pipes.local_engines import make_engine

    gc.collect()
    threads = set(threading.enumerate())
    engine: Any = make_engine(local, kind, max_rows=ROWS, pool_bytes=POOL_BYTES)
    engine.warm_up(2 * ROWS)
    _fill(engine)
    found: dict[str, Any] = {}
    samples = 5 if quick else 20
    _say(f"{kind}: first tokens of {samples} answers")
    found["ttft_before_ms"] = asyncio.run(_ttft(engine, samples, seed=1))
    _say(f"{kind}: {CANCELS} cancels at random steps")
    late, cancels = asyncio.run(_random_steps(engine, CANCELS // (4 if quick else 1)))
    for name, seed in (("first_growth_mib", 6), ("growth_mib", 7)):
        before, objects = _held(engine)
        _say(f"{kind}: {STORM_RATE:g} a second")
        more, stormed = asyncio.run(_storm(engine, STORM_S / (10 if quick else 1), seed))
        _settled(engine)
        after, left = _held(engine)
        late, cancels = late + more, cancels + stormed
        found |= {name: (after - before) / 2**20, "objects": (left - objects) / stormed}
    found |= _beside_a_fresh_one(engine, local, kind, samples)
    found["pool_back"] = int(_fill(engine))
    stats = _settled(engine)
    found |= {
        "late_max": max(late),
        "cancels": cancels,
        "unsettled": stats.running + stats.waiting + stats.failed,
        "pool_mib": stats.pool_bytes / 2**20,
        "pool_high_mib": stats.pool_high_bytes / 2**20,
        "cancelled": stats.cancelled,
    }
    engine.close()
    found["threads_left"] = sum(each.is_alive() for each in threading.enumerate() if each not in threads)
    return found


def _held(engine: Any) -> tuple[int, int]:
    """Bytes in memory but for the beginnings of answers that the pool keeps within its bound, and objects."""
    gc.collect()
    # The manager's pool was filled before: all of it is in memory, whoever has it.
    kept = 0 if engine.kind == "manager" else engine.stats().pool_bytes
    return resident_bytes() - kept, len(gc.get_objects())


def _beside_a_fresh_one(engine: Any, local: Any, kind: Any, samples: int) -> dict[str, float]:
    """Both asked in turn: what the machine does minutes apart is no measure of what a storm leaves behind."""
    from multimodal.pipes.local_engines import make_engine

    fresh: Any = make_engine(local, kind, max_rows=ROWS, pool_bytes=POOL_BYTES)
    fresh.warm_up(2 * ROWS)
    _fill(fresh)
    times: dict[str, list[float]] = {"ttft_fresh_ms": [], "ttft_after_ms": []}
    cpu: dict[str, list[float]] = {"ttft_fresh_cpu_ms": [], "ttft_after_cpu_ms": []}
    for number, ids in enumerate(prompts(2 * samples, 16, 16, seed=2)):
        pairs = [(fresh, "ttft_fresh"), (engine, "ttft_after")]
        for each, name in pairs if number % 2 else pairs[::-1]:
            worked = each.stats().cpu
            times[f"{name}_ms"].append(asyncio.run(_first(each, ids)))
            _settled(each)
            cpu[f"{name}_cpu_ms"].append(1000 * (each.stats().cpu - worked))
    fresh.close()
    return {name: statistics.median(values) for name, values in (times | cpu).items()}


def _fill(engine: Any) -> bool:
    """An answer that needs most of the pool: it comes only if others have given back what they had."""
    tokens = min(2000, POOL_BYTES // (_token_bytes(engine)) * 8 // 10)
    mailbox = Mailbox(16)
    (ids,) = prompts(1, tokens - 8, tokens - 8, seed=tokens)
    engine.submit(GenerationRequest(tuple(ids), max_new_tokens=2), mailbox)
    while not mailbox.ended and mailbox.wait_blocking(120):
        mailbox.take()
    return mailbox.ended


def _token_bytes(engine: Any) -> int:
    config = engine._core.local.model.config
    return int(config.num_hidden_layers * 2 * config.hidden_size * 4)


async def _ttft(engine: Any, samples: int, seed: int) -> float:
    """Milliseconds to the first token of an answer that is alone, the median."""
    return statistics.median([await _first(engine, ids) for ids in prompts(samples, 16, 16, seed=seed)])


async def _first(engine: Any, ids: list[int]) -> float:
    mailbox, asked = Mailbox(), time.monotonic()
    engine.submit(GenerationRequest(tuple(ids), max_new_tokens=1), mailbox)
    await mailbox.wait()
    return 1000 * (time.monotonic() - asked)


async def _random_steps(engine: Any, cancels: int) -> tuple[list[int], int]:
    """Eight answers at a time, each given up after 0 to 12 tokens."""
    dice, late = random.Random(3), []

    async def one(ids: list[int]) -> None:
        mailbox = Mailbox()
        engine.submit(GenerationRequest(tuple(ids), max_new_tokens=400), mailbox)
        wanted, seen = dice.randrange(13), 0
        while seen < wanted:
            await mailbox.wait()
            seen += len(mailbox.take())
        mailbox.close()
        count = mailbox.delivered
        await asyncio.sleep(1.0)
        late.append(mailbox.delivered - count)

    waiting = prompts(cancels, 16, 16, seed=4)

    async def worker() -> None:
        while waiting:
            await one(waiting.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(2 * ROWS):
            group.create_task(worker())
    return late, cancels


async def _storm(engine: Any, seconds: float, seed: int) -> tuple[list[int], int]:
    """Answers begun at a steady rate, each given up within 200 ms, wherever it is by then."""
    dice, late = random.Random(seed), []

    async def one(ids: list[int]) -> None:
        mailbox = Mailbox()
        engine.submit(GenerationRequest(tuple(ids), max_new_tokens=400), mailbox)
        await asyncio.sleep(0.2 * dice.random())
        mailbox.close()
        count = mailbox.delivered
        await asyncio.sleep(1.0)
        late.append(mailbox.delivered - count)

    asked = prompts(int(seconds * STORM_RATE), 16, 16, seed=seed)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, ids in enumerate(asked):
            await asyncio.sleep(max(0.0, began + number / STORM_RATE - time.monotonic()))
            group.create_task(one(ids))
    return late, len(asked)


def _settled(engine: Any) -> Any:
    """Once the last step that was under way is over."""
    end = time.monotonic() + 10
    while engine.stats().running + engine.stats().waiting and time.monotonic() < end:
        time.sleep(0.05)
    return engine.stats()


def _say(words: str) -> None:
    print(f"cancel {time.strftime('%H:%M:%S')}: {words}", file=sys.stderr)
