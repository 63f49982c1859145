"""What the journal costs: an append of one bundle in memory and on Redis, a replay, and the bytes of an event.

Redis is a real redis-server of its own on loopback (`appendonly yes`, `appendfsync everysec`), so that the figures hold
the work of both. One session appends bundle after bundle; fifty append ten a second each, as narrations do, each at
times of its own. Beside ours, in the same run: a bare XADD of the same bundles, which leaves out lease, fencing, order
and bounds. The events are those of a stream: words, a mark after every third, a picture after every thirtieth.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from multimodal.bench.redis_stage import RedisServer
from multimodal.bench.report import figure, report
from multimodal.events import AnyEvent
from multimodal.journal import Entry, Journal, MemoryJournal
from multimodal.journal_redis import RedisJournal
from multimodal.stream import MultiModalStream
from multimodal.sync.virtual import VirtualClock
from multimodal.values import Cue, EncodedImage

AIM_MS = 5.0
"""An append on loopback, p95: as long as viewers wait for their words on its account."""
SESSIONS = 50
PACE = 10.0
"""Bundles a second of each of many sessions."""
REPLAY_EVENTS = 1000
CUE_EVERY = 30

Append = Callable[[int, Entry], Awaitable[object]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Half a minute, most of it fifty sessions at their pace; `--quick` a few seconds."""
    alone, seconds = (300, 1.0) if options.quick else (3000, 10.0)
    entries = _entries(max(alone, REPLAY_EVENTS))
    with tempfile.TemporaryDirectory(prefix="multimodal-redis-") as folder, RedisServer(folder) as server:
        memory = asyncio.run(_journal(MemoryJournal(), entries, alone, seconds))
        redis = asyncio.run(_journal(RedisJournal(server.url), entries, alone, seconds))
        redis |= asyncio.run(_size(server, entries))
        bare = asyncio.run(_bare(server, entries, alone, seconds))
    figures = []
    for name, measured, limit in (("memory", memory, None), ("Redis", redis, AIM_MS)):
        for sessions in ("1 session", f"{SESSIONS} sessions"):
            figures += [
                figure(f"append of a bundle, {name}, {sessions}, p50", measured[sessions]["p50_ms"], "ms"),
                figure(f"append of a bundle, {name}, {sessions}, p95", measured[sessions]["p95_ms"], "ms", limit),
            ]
        figures.append(figure(f"replay of {REPLAY_EVENTS} events, {name}", measured["replay_ms"], "ms"))
    json_bytes = sum(len(event) for entry in entries for event in entry.events) / _count(entries)
    figures += [
        figure("bytes per event, its JSON", json_bytes, "bytes"),
        figure("bytes per event, memory", _bytes_in_memory(entries), "bytes"),
        figure("bytes per event, Redis, in memory", redis["memory_bytes"], "bytes"),
        figure("bytes per event, Redis, appended to its file", redis["file_bytes"], "bytes"),
    ]
    ours = {"memory": memory, "redis": redis, "events": _count(entries), "bundles": len(entries)}
    return report("journal", figures, ours, {"bare XADD": bare}, ["redis"])


def _entries(count: int) -> list[Entry]:
    """So many bundles of a stream."""

    async def text() -> AsyncIterator[str]:
        for index in range(count):
            await asyncio.sleep(0.1)
            yield f"word{index % 97} "

    async def images() -> AsyncIterator[EncodedImage]:
        for index in range(count // CUE_EVERY):
            yield EncodedImage(f"product-{index}", bytes(30_000), "image/webp", 800, 800)

    async def told() -> list[tuple[AnyEvent, ...]]:
        cues = [Cue(index * CUE_EVERY, f"product-{index}") for index in range(count // CUE_EVERY)]
        async with MultiModalStream(text(), images(), cues=cues) as stream:
            return [bundle async for bundle in stream.bundles()]

    with VirtualClock() as clock:
        return [Entry.of(bundle) for bundle in clock.run(told())[:count]]


async def _journal(journal: Journal, entries: Sequence[Entry], alone: int, seconds: float) -> dict[str, Any]:
    try:
        lease = await journal.open("alone", "bench")
        leases = [await journal.open(f"s{number}", "bench") for number in range(SESSIONS)]
        measured = {
            "1 session": await _alone(lambda _, entry: journal.append(lease, (entry,)), entries[:alone]),
            f"{SESSIONS} sessions": await _many(
                lambda number, entry: journal.append(leases[number], (entry,)), entries, seconds
            ),
        }
        whole = await journal.open("replay", "bench")
        await journal.append(whole, entries)
        replays = [await _replay(journal) for _ in range(5)]
        return {**measured, "replay_ms": min(replays), "replays_ms": replays}
    finally:
        await journal.aclose()


async def _replay(journal: Journal) -> float:
    began, held = time.perf_counter(), -1
    while held < REPLAY_EVENTS - 1:
        held = (await journal.read("replay", held))[-1].last
    return _ms(time.perf_counter() - began)


async def _alone(append: Append, entries: Sequence[Entry]) -> dict[str, float]:
    taken = []
    for entry in entries:
        began = time.perf_counter()
        await append(0, entry)
        taken.append(time.perf_counter() - began)
    return _spread(taken)


async def _many(append: Append, entries: Sequence[Entry], seconds: float) -> dict[str, float]:
    """Each session at its pace, from a start of its own."""
    loop = asyncio.get_running_loop()
    begin = loop.time() + 0.1
    taken: list[float] = []

    async def write(number: int) -> None:
        for index in range(int(seconds * PACE)):
            await asyncio.sleep(begin + (index + number / SESSIONS) / PACE - loop.time())
            began = time.perf_counter()
            await append(number, entries[index])
            taken.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(write(number))
    return _spread(taken)


async def _size(server: RedisServer, entries: Sequence[Entry]) -> dict[str, float]:
    """Bytes of an event of one session in Redis' memory, and what its appends add to Redis' file."""
    from redis.asyncio import Redis

    journal = RedisJournal(server.url, prefix="size")
    async with Redis.from_url(server.url) as redis:
        before = server.log_bytes()
        lease = await journal.open("s", "bench")
        for entry in entries:
            await journal.append(lease, (entry,))
        used = await redis.memory_usage("size:{s}:events", samples=0)
        await journal.aclose()
        written = server.log_bytes() - before
    return {"memory_bytes": (used or 0) / _count(entries), "file_bytes": written / _count(entries)}


async def _bare(server: RedisServer, entries: Sequence[Entry], alone: int, seconds: float) -> dict[str, Any]:
    from redis.asyncio import Redis

    async with Redis.from_url(server.url) as redis:

        async def append(number: int, entry: Entry) -> None:
            await redis.xadd(f"bare:{number}", {"e": msgspec.msgpack.encode(entry.events)})

        return {
            "1 session": await _alone(append, entries[:alone]),
            f"{SESSIONS} sessions": await _many(append, entries, seconds),
        }


def _bytes_in_memory(entries: Sequence[Entry]) -> float:
    """What the bundles' own objects take, and their places in two lists."""
    size = sum(
        sys.getsizeof(entry) + sys.getsizeof(entry.events) + sum(map(sys.getsizeof, entry.events)) + 2 * 8 + 24
        for entry in entries
    )
    return size / _count(entries)


def _count(entries: Sequence[Entry]) -> int:
    return sum(len(entry.events) for entry in entries)


def _spread(taken: Sequence[float]) -> dict[str, float]:
    ordered = sorted(taken)
    at = {f"p{share}_ms": _ms(ordered[min(len(ordered) * share // 100, len(ordered) - 1)]) for share in (50, 95, 99)}
    return {**at, "max_ms": _ms(ordered[-1]), "appends": len(ordered)}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 4)
