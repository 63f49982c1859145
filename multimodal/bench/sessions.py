"""10,000 sessions with callbacks of every kind through real processors: what they leave behind, whom they delay.

Each session reads an answer of a scripted engine, registers a bound method, a lambda over a large object, two partials,
`list.append`, a coroutine function and a callback with an owner, and goes away: half of them have a processor of their
own, which is closed or just dropped, half come and go on one that stays, and take their handles with them or leave what
their objects hold. Counted at the end: objects of this package and of the applications that are still alive, callbacks
still registered, threads, and the slope of the memory over the sessions.

Then, in real time: the gaps between deliveries of a stream while nobody listens, while callbacks are slow, and while
they raise, in turns. Callbacks run off the token path, so the gaps are the same; what a callback run in the loop of the
tokens would do stands beside, so that it is seen that the measure can see it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from itertools import pairwise
from typing import Any

from multimodal.bench.report import Figure, figure, report
from multimodal.bench.sessions_churn import churn
from multimodal.bench.text_layer import ENGLISH
from multimodal.bench.text_stage import byte_tokenizer, spread
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.script_engine import ScriptEngine

SESSIONS = 10_000
GROWTH_MIB = 8.0
"""What allocators keep between one moment and another; a session keeps objects of 64 KiB, 640 MiB in all."""
ROUNDS, GAP, SLOW, DRAIN = 15, 0.02, 0.2, 30.0
ITL_BAR = 1.1
WAYS = ("nobody", "slow", "raising")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """One to three minutes; `--quick` some seconds."""
    sessions, rounds = (400, 1) if options.quick else (SESSIONS, ROUNDS)
    tokenizer = byte_tokenizer([ENGLISH], 400)
    left = churn(sessions, tokenizer)
    figures = [
        figure(f"objects of ours still alive, of {sessions} sessions", sum(left.ours.values()), "objects", 0),
        figure("objects of applications still alive", left.theirs, "objects", 0),
        figure("callbacks still registered on the processor that stayed", left.registered, "callbacks", 0),
        figure("events that never reached a callback that lived", left.missing, "events", 0),
        figure("callbacks whose object went away", left.expired, "callbacks", 1, "higher"),
        figure("threads left over", left.threads, "threads", 0),
        figure("memory growth over the later nine tenths", left.growth_mib, "MiB", GROWTH_MIB),
    ]
    gaps = _gaps(tokenizer, rounds)
    figures += _delays(gaps, not options.quick)
    ours = {
        "alive": left.ours,
        "delivered": left.delivered,
        "resident_mib": left.resident_mib,
        "itl_ms": {way: {name: spread(values) for name, values in found.items()} for way, found in gaps.items()},
    }
    return report("sessions", figures, ours=ours, packages=("tokenizers",))


# ---- whom a callback delays ------------------------------------------------------------------------------------------


def _delays(gaps: dict[str, dict[str, list[float]]], judges: bool) -> list[Figure]:
    quiet = gaps["nobody"]["p95"]
    figures: list[Figure] = []
    for way in ("slow", "raising"):
        ratio = statistics.median(each / other for each, other in zip(gaps[way]["p95"], quiet, strict=True))
        figures.append(figure(f"ITL p95, {way} callbacks against none", ratio, "ratio", ITL_BAR if judges else None))
    inline = statistics.median(gaps["in the loop"]["p95"]) / statistics.median(quiet)
    figures.append(
        figure(
            "ITL p95, the same slow callback in the loop of the tokens",
            inline,
            "ratio",
            2.0 if judges else None,
            "higher",
        )
    )
    return figures


def _gaps(tokenizer: Any, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds between deliveries, p50 and p95 of each round."""
    ids = tokenizer.encode(ENGLISH).ids[:100]
    found: dict[str, dict[str, list[float]]] = {way: {"p50": [], "p95": []} for way in (*WAYS, "in the loop")}
    for number in range(rounds):
        ways = list(found)
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            gaps = sorted(asyncio.run(_streamed(tokenizer, ids, way)))
            found[way]["p50"].append(1000 * gaps[len(gaps) // 2])
            found[way]["p95"].append(1000 * gaps[int(0.95 * len(gaps))])
    return found


async def _streamed(tokenizer: Any, ids: list[int], way: str) -> list[float]:
    """Seconds between the tokens of one answer."""
    over = threading.Event()

    def slow(event: object) -> None:
        over.wait(SLOW)  # at its end nobody measures any more, and the next answer is not to wait for what is left

    times: list[float] = []
    with StreamProcessor(ScriptEngine(ids, gap=GAP), tokenizer, chunk_size=1, priority_threshold=0.0) as processor:
        if way in ("slow", "raising"):
            for _ in range(2):
                processor.register_callback("update", slow if way == "slow" else _raises)
        pipe: AnswerPipe = processor.prompt("tell me", max_new_tokens=len(ids))
        async for _ in pipe:
            times.append(time.monotonic())
            if way == "in the loop" and len(times) % 5 == 0:
                slow(None)
        over.set()
    await asyncio.to_thread(processor._callbacks.drain, DRAIN)
    return [after - before for before, after in pairwise(times)]


def _raises(event: object) -> None:
    raise ValueError("what an application's callback may do")
