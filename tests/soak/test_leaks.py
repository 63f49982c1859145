"""Thousands of short sessions, over every road, ended in every way: nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import pytest

from multimodal.errors import TransportError
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.limits import Quotas
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Link
from multimodal.transport.connection import Limits
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import memory_link
from multimodal.transport.viewer import Viewer
from multimodal.transport.websocket_client import join_websocket
from multimodal.transport.whep import join
from tests.fuzz.faults import watched
from tests.fuzz.mutator import count
from tests.serving.test_app import Served, serving
from tests.soak.gauges import growth_bytes, handles, objects, resident_bytes
from tests.support import run, virtual
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

SESSIONS = count("MULTIMODAL_SESSIONS", 300)
"""In all, eight of ten in memory, the rest over WebRTC and WebSocket; `make soak` asks for 10,000."""
IN_MEMORY, EACH_ROAD = SESSIONS * 8 // 10, SESSIONS // 10
BATCH = max(10, SESSIONS // 40)
"""Sessions between two looks."""
BESIDE = 10
"""Of them at one time on a real road."""
WARM = 0.2
"""Of the sessions, before the first look counts: caches fill, and the allocator finds its size."""
KEPT = 1024
"""Bytes of resident memory that one session may leave, along the line: an allocator's noise. One seat is more."""
NOISE = 4 * 2**20
"""Resident bytes that come and go with the sessions of one batch; a leak of any size exceeds it in a long run."""
OURS = ("multimodal", "aiortc", "aioice", "pyee", "websockets", "starlette", "uvicorn")


def make_stream(tour: str = "demo") -> MultiModalStream:
    text = ScriptTextPipe(["one ", "two ", "three ", "four "], gap=0.01)
    return MultiModalStream(text, ScriptImagePipe([picture("p0", 5000), picture("p1", 5000)]))


async def view(link: Link, way: int) -> None:
    """To the end, or to an end of another kind."""
    # Before the road stands, the server would wait ten seconds for it.
    with suppress(TransportError):
        await link.opened()
    if way == 0:
        return await link.aclose()
    watching = asyncio.ensure_future(Viewer(link).watch())
    if way == 1:
        await asyncio.sleep(0.02)
        watching.cancel()
    with suppress(TransportError, asyncio.CancelledError):
        await watching


class Line:
    """Looks at what is left, and at memory, as sessions go by."""

    def __init__(self, sessions: int) -> None:
        self._from = int(sessions * WARM)
        self.memory: list[int] = []
        self.first = Counter[str]()
        self.handles = self.threads = 0

    def look(self, done: int) -> None:
        if done < self._from:
            return
        gc.collect()
        self.memory.append(resident_bytes())
        if len(self.memory) == 1:
            self.first = objects(*OURS)
            self.handles, self.threads = handles(), threading.active_count()

    def left(self) -> Counter[str]:
        """Objects beyond those of the first look."""
        left = objects(*OURS)
        left.subtract(self.first)
        return +left

    def told(self, sessions: int, capsys: pytest.CaptureFixture[str], road: str) -> Left:
        """What these sessions have left behind; printed, too."""
        first, last = self.memory[0], self.memory[-1]
        slope = growth_bytes(self.memory) / max(1, sessions - self._from)
        with capsys.disabled():
            memory = f"{first / 2**20:.1f} -> {last / 2**20:.1f} MB"
            print(f"\n{sessions} sessions {road}: memory {memory}, {slope:+.0f} bytes a session")
        more = max(0, handles() - self.handles), max(0, threading.active_count() - self.threads)
        return Left(self.left(), *more, slope, last - first)


@dataclass(frozen=True)
class Left:
    """Objects of `OURS`, open files, threads; bytes of memory a session, along the line, and in all."""

    objects: Counter[str]
    handles: int
    threads: int
    slope: float
    growth: int

    @property
    def memory_stays(self) -> bool:
        """It does not grow with the sessions, but for an allocator's noise."""
        return self.slope < KEPT or self.growth < NOISE


def test_sessions_in_memory_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = Line(IN_MEMORY)
    chance = random.Random(1)

    async def session(number: int) -> None:
        server, client = memory_link("lossy" if number % 7 == 0 else None, seed=number)
        live = LiveSession(make_stream(), limits=Limits(hello=1.0, linger=1.0), keep=chance.choice((0.0, 2.0)))
        live.connect(live.sit(Seat()), server)
        running = asyncio.ensure_future(live.run())
        await view(client, number % 6)
        if number % 6 == 2:
            running.cancel()
        elif number % 6 == 3 and not live.reason:
            # It comes back, and the network dies.
            again, other = memory_link()
            with suppress(TransportError):
                live.connect(live.sit(Seat()), again)
                other.send_event('{"type":"hello","v":1,"resume":true}')
            again.sever()
        with suppress(asyncio.CancelledError):
            await running

    async def scenario() -> None:
        for done in range(0, IN_MEMORY, BATCH):
            await asyncio.gather(*(session(done + place) for place in range(BATCH)))
            # What comes too late for its session is still on its way.
            await asyncio.sleep(60.0)
            line.look(done + BATCH)
        assert len(asyncio.all_tasks()) == 1

    with watched():
        virtual(scenario(), 10_000_000)
    left = line.told(IN_MEMORY, capsys, "in memory")
    assert (left.objects, left.handles, left.threads) == (Counter(), 0, 0)
    assert left.memory_stays, left


@pytest.mark.parametrize("road", ["whep", "ws"])
def test_sessions_on_real_roads_leave_nothing(road: str, capsys: pytest.CaptureFixture[str]) -> None:
    line, told = Line(EACH_ROAD), list[Left]()

    async def session(served: Served, number: int) -> None:
        url = f"{served.base}/tour/{road}/demo"
        link: Link
        if road == "whep":
            link, _ = await join(url, bind_addresses=["127.0.0.1"])
        else:
            link = await join_websocket(url)
        await view(link, number % 6)

    async def scenario() -> None:
        app = asgi(
            make_stream,
            bind_addresses=["127.0.0.1"],
            limits=Limits(hello=1.0, linger=1.0),
            keep=0.2,
            quotas=Quotas.unlimited(),
        )
        async with nothing_left(), serving(app) as served:
            for done in range(0, EACH_ROAD, BESIDE):
                await asyncio.gather(*(session(served, done + place) for place in range(BESIDE)))
                await until(lambda: not served.sessions)
                line.look(done + BESIDE)
            with suppress(TimeoutError):
                # What closes may take a moment more.
                await until(lambda: not line.left())
            # The server still stands, as it did at the first look.
            told.append(line.told(EACH_ROAD, capsys, f"by {road}"))

    with watched():
        run(scenario(), 60.0 + EACH_ROAD)
    (left,) = told
    assert (left.objects, left.handles, left.threads) == (Counter(), 0, 0)
    assert left.memory_stays, left
