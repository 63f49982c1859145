"""The road on loopback: how long until the first event, and how long words wait while pictures flow.

Both peers run in this process, so every figure contains the work of both. The same pictures handed over at once,
without the scheduler's window, are measured beside ours: that is what a data channel does by itself. And what the
scheduler itself costs, for an event and for a picture part, from the queue to the message and its ack.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.events import AnyEvent, Text
from multimodal.stream import MultiModalStream
from multimodal.transport.scheduler import PART_BYTES, SendScheduler
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.values import EncodedImage

GAP = 0.02
PICTURE_BYTES = 1_000_000


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Ten set-ups, then one tour with ours and one with an unpaced scheduler."""
    setups, tokens, pictures = (3, 50, 3) if options.quick else (10, 200, 12)
    first = [asyncio.run(_tour(3, 1, SendScheduler()))["first_event_ms"] for _ in range(setups)]
    ours = asyncio.run(_tour(tokens, pictures, SendScheduler()))
    unpaced = asyncio.run(_tour(tokens, pictures, _Unpaced()))
    figures = [
        figure("offer to first event, median", statistics.median(first), "ms"),
        figure("words during pictures, p95", ours["words_p95_ms"], "ms", 100.0),
        figure("words during pictures, p95, of unpaced", ours["words_p95_ms"] / unpaced["words_p95_ms"], "ratio", 0.5),
    ]
    cost = min((_cost(2_000 if options.quick else 20_000) for _ in range(3)), key=lambda each: each["event_us"])
    figures += [
        figure("scheduler's work for an event", cost["event_us"], "us"),
        figure("scheduler's work for a part of 4 KiB", cost["part_us"], "us"),
    ]
    first_ms = {"min": min(first), "median": statistics.median(first), "max": max(first)}
    return report(
        "transport",
        figures,
        {**ours, "first_event_ms": first_ms, "scheduler": cost},
        {"unpaced": unpaced},
        ["aiortc", "aioice"],
    )


class _Unpaced(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return True


def _cost(count: int) -> dict[str, float]:
    """Microseconds of one viewer's scheduler, alone: encoding included, the link and its encryption left out."""
    scheduler = SendScheduler()
    scheduler.start(0.0)
    began = time.perf_counter()
    for seq in range(count):
        now = seq * GAP
        scheduler.queue_bundle([Text(1, "s", 0, seq, now * 1000, seq, token_index=seq, token_count=1, text="word ")])
        while scheduler.next_message(0, now) is not None:
            pass
        scheduler.acked(seq, 0, now)
        scheduler.next_timer(now)
    event = time.perf_counter() - began
    scheduler.queue_picture("p", bytes(count * PART_BYTES), 0)
    now, sent = count * GAP, scheduler.counters.parts_sent
    began = time.perf_counter()
    while scheduler.waiting_pictures:
        now += 0.001
        while scheduler.next_message(0, now) is not None:
            pass
        scheduler.acked(count - 1, scheduler.acked_bytes + scheduler.unacked_bytes, now)
        scheduler.next_timer(now)
    part = time.perf_counter() - began
    parts = scheduler.counters.parts_sent - sent
    return {"event_us": round(event / count * 1e6, 2), "part_us": round(part / parts * 1e6, 2), "parts": parts}


async def _tour(tokens: int, pictures: int, scheduler: SendScheduler) -> dict[str, Any]:
    loop = asyncio.get_running_loop()

    async def text() -> AsyncIterator[str]:
        for index in range(tokens):
            await asyncio.sleep(GAP)
            yield f"w{index} "

    async def images() -> AsyncIterator[EncodedImage]:
        for index in range(pictures):
            yield EncodedImage(f"p{index}", os.urandom(PICTURE_BYTES), "image/webp", 800, 800)

    emitted: dict[int, float] = {}
    shown: dict[int, float] = {}

    def on_record(line: dict[str, Any]) -> None:
        if line["vantage"] == "emitted" and line["event"]["kind"] == "text":
            emitted[line["event"]["seq"]] = loop.time()

    def on_show(events: Sequence[AnyEvent]) -> None:
        shown.setdefault(-1, loop.time())
        shown.update({event.seq: loop.time() for event in events if isinstance(event, Text)})

    began = loop.time()
    client, offer = await WebRTCLink.offering()
    server, answer = await WebRTCLink.answering(offer)
    await client.accept(answer)
    stream = MultiModalStream(text(), images(), preroll=0.0)
    session = ViewerSession(stream, server, on_record=on_record, scheduler=scheduler)
    viewer = Viewer(client, on_show=on_show)
    async with asyncio.TaskGroup() as group:
        group.create_task(session.run())
        group.create_task(viewer.watch())
    waits = sorted((shown[seq] - at) * 1000 for seq, at in emitted.items())
    return {
        "first_event_ms": round((shown[-1] - began) * 1000, 1),
        "words_p50_ms": round(waits[len(waits) // 2], 2),
        "words_p95_ms": round(waits[int(len(waits) * 0.95)], 2),
        "words_max_ms": round(waits[-1], 2),
        "words": len(waits),
        "picture_bytes": scheduler.unacked_bytes + scheduler.acked_bytes,
    }
