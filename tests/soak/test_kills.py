"""kill -9, of the server, of Redis, of both: viewers go on, and see every event once."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from multimodal.events import AnyEvent, CueMissed, Interrupted, Snapshot, StreamEnd, Swap, Text
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.roads import Road
from tests.fuzz.mutator import count
from tests.redis_server import RedisServer, own_redis_server  # noqa: F401 - a fixture
from tests.soak.tour_server import PICTURES, SHARED, WORDS
from tests.support import run

START = 60.0
"""Seconds in which a server comes up; it takes two."""
CHECKOUT = Path(__file__).parents[2]
ROADS: tuple[tuple[str, Road], ...] = (
    ("own", "whep"),
    ("own", "ws"),
    ("own", "sse"),
    (SHARED, "whep"),
    (SHARED, "ws"),
)
"""Five viewers: what they watch, and by which road."""
SESSIONS = sum(tour != SHARED for tour, _ in ROADS) + 1


class Server:
    """One server process after another on one port."""

    def __init__(self, redis_url: str) -> None:
        self.redis_url = redis_url
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start, and wait until it answers."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.soak.tour_server", str(self.port), self.redis_url, cwd=CHECKOUT
        )
        async with asyncio.timeout(START):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                await writer.wait_closed()
                return

    async def kill(self) -> None:
        """SIGKILL: nothing is said to anybody."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self.process = None


@asynccontextmanager
async def serving(redis: RedisServer) -> AsyncIterator[Server]:
    server = Server(redis.url)
    await server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            await server.kill()


class Watching:
    """Five viewers, and when each saw what."""

    def __init__(self, port: int) -> None:
        self.viewers = [
            ResilientViewer(f"http://127.0.0.1:{port}/{road}/{tour}", roads=[road], give_up=40.0)
            for tour, road in ROADS
        ]

    async def reach(self, seq: int) -> None:
        """Until every viewer has seen that event."""
        while any(viewer.protocol.cursor < seq for viewer in self.viewers):  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(0.01)

    async def written(self, redis: RedisServer) -> None:
        """Until all that they have seen is in the journal: a server that is killed before takes the rest along."""
        seen = max(viewer.protocol.cursor for viewer in self.viewers)
        client: Any = Redis.from_url(redis.url)
        async with client, asyncio.timeout(START):
            while True:
                streams = [key async for key in client.scan_iter(match="*:events")]
                last = [await client.xrevrange(key, count=1) for key in streams]
                # An entry's id is 0-<seq + 1>.
                if sum(int(entry[0][0].partition(b"-")[2]) > seen for entry in last if entry) >= SESSIONS:
                    return
                await asyncio.sleep(0.02)

    def pauses(self) -> list[float]:
        """Seconds without anything new, the longest of each viewer."""
        times = [viewer.seen.at for viewer in self.viewers]
        return [max(later - sooner for sooner, later in itertools.pairwise(at)) for at in times]

    def check(self) -> None:
        """Every word once and in order, every picture, and what is watched together is the same."""
        for (tour, _), viewer in zip(ROADS, self.viewers, strict=True):
            events = viewer.seen.events
            assert viewer.seen.ended == "end", (viewer.seen.ended, viewer.failures)
            snapshots = [event for event in events if isinstance(event, Snapshot)]
            assert len(snapshots) <= (tour == SHARED)
            rest = [event for event in events if not isinstance(event, Snapshot)]
            assert [event.seq for event in rest] == list(range(rest[0].seq, rest[-1].seq + 1))
            assert isinstance(rest[-1], StreamEnd)
            assert rest[-1].reason == "complete"
            # A server that was started again learns what its viewers hold.
            assert not [
                event for event in rest if isinstance(event, CueMissed) or (isinstance(event, Swap) and not event.ok)
            ]
            before = snapshots[0].text if snapshots else ""
            assert before + "".join(event.text for event in rest if isinstance(event, Text)) == "".join(WORDS)
            assert viewer.seen.pictures == {each.key: each.data for each in PICTURES} or snapshots
        together = [viewer.seen.events for (tour, _), viewer in zip(ROADS, self.viewers, strict=True) if tour == SHARED]
        assert _same(together)


def _same(logs: Sequence[Sequence[AnyEvent]]) -> bool:
    """What two saw of one session is the same, from where the later one began."""
    first, second = ({event.seq: event for event in log if not isinstance(event, Snapshot)} for log in logs)
    return all(first[seq] == second[seq] for seq in first.keys() & second.keys())


KILLS = [("redis", "server"), ("server",), ("redis",), ("server", "server"), ("server", "redis", "server")]


@pytest.mark.parametrize("kills", KILLS[: count("MULTIMODAL_KILLS", 2)], ids="-".join)
def test_five_viewers_outlive(
    kills: tuple[str, ...],
    own_redis_server: RedisServer,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    redis = own_redis_server

    async def scenario() -> None:
        async with serving(redis) as server:
            watching = Watching(server.port)
            async with asyncio.TaskGroup() as group:
                for viewer in watching.viewers:
                    group.create_task(viewer.watch())
                for number, what in enumerate(kills, 1):
                    await watching.reach(40 * number)
                    if what == "server":
                        await server.kill()
                        await server.start()
                    else:
                        redis.kill()
                        await asyncio.sleep(1.0)
                        await asyncio.to_thread(redis.start)
                        await watching.written(redis)
            watching.check()
            for viewer in watching.viewers:
                again = sum(isinstance(event, Interrupted) for event in viewer.seen.events)
                assert again == kills.count("server")
            with capsys.disabled():
                pauses = zip(ROADS, watching.pauses(), strict=True)
                paused = ", ".join(f"{road} {seconds:.1f}" for (_, road), seconds in pauses)
                print(f"\nkill -9 of {' and '.join(kills)}: 0 lost, 0 doubled; the longest pause, s: {paused}")

    run(scenario(), 240.0)
