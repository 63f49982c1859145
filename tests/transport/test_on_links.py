"""Whole tours over simulated networks, on virtual time: what a bad road may do to a tour, and what it may not."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import ChannelClosedError
from multimodal.events import Text
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.drift import drift_report
from multimodal.sync.link import PROFILES, LinkProfile, Network
from multimodal.sync.log import SyncLog
from multimodal.transport import scheduler
from multimodal.transport.memory import memory_link
from multimodal.transport.scheduler import PEER_GONE, PEER_QUIET
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from tests.support import virtual
from tests.transport.events import picture

WORDS = [f"w{number} " for number in range(60)]


class Tour:
    """Sixty words, ten pictures of 30 KB, a session and a viewer, with a network between them."""

    def __init__(self, profile: str | LinkProfile | Network, seed: int = 0, gap: float = 0.1) -> None:
        images = ScriptImagePipe([picture(f"p{number}", 30_000) for number in range(10)])
        self.stream = MultiModalStream(ScriptTextPipe(WORDS, gap=gap), images, cues=None)
        self.server, self.client = memory_link(profile, seed=seed)
        self.records: list[dict[str, Any]] = []
        self.emitted: dict[int, float] = {}
        self.session = ViewerSession(self.stream, self.server, on_record=self.record)
        self.viewer = Viewer(self.client)

    def record(self, line: dict[str, Any]) -> None:
        self.records.append(line)
        if line["vantage"] == "emitted":
            self.emitted[line["event"]["seq"]] = asyncio.get_running_loop().time()

    async def play(self) -> Seen:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.session.run())
            watching = group.create_task(self.viewer.watch())
        return watching.result()

    def waits(self) -> list[float]:
        """Seconds from emission to the viewer's eyes of each text, in order."""
        seen = self.viewer.seen
        texts = [(event.seq, at) for event, at in zip(seen.events, seen.at, strict=True) if isinstance(event, Text)]
        return [at - self.emitted[seq] for seq, at in texts]

    def log(self, path: Path) -> SyncLog:
        path.write_text("".join(json.dumps(line) + "\n" for line in self.records), encoding="utf-8")
        return SyncLog.read(path)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_a_tour_keeps_its_sync_on_every_network(name: str, seed: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        tour = Tour(name, seed)
        seen = await tour.play()
        assert seen.text == "".join(WORDS)
        assert seen.revealed == [f"p{number}" for number in range(10)]
        assert len(seen.pictures) == 10
        assert [event.seq for event in seen.events] == list(range(len(seen.events)))
        assert tour.session.reason == "end"
        report = drift_report(tour.log(tmp_path / "tour.jsonl"))
        assert report.reveals_shown == report.reveals_expected == 10
        assert (report.events_lost, report.events_duplicated, report.events_out_of_order) == (0, 0, 0)
        assert report.token_drift_max is not None
        assert report.token_drift_max <= 2
        assert report.same_frame_share == 1.0, "what is one bundle is painted in one frame, however late it comes"
        assert report.drift_ms_per_minute == pytest.approx(0.0)

    virtual(scenario())


def test_the_same_seed_gives_the_same_tour() -> None:
    def play(seed: int) -> list[float]:
        async def scenario() -> list[float]:
            return [round(at, 6) for at in (await Tour("jittery", seed).play()).at]

        return virtual(scenario())

    assert play(1) == play(1) != play(2)


@pytest.mark.parametrize(
    ("profile", "limit"),
    [("good", 0.01), ("4g", 0.15), ("lossy", 0.4), ("slow", 0.15), ("jittery", 0.35)],
)
def test_words_wait_little_while_pictures_flow(profile: str, limit: float) -> None:
    async def scenario() -> None:
        tour = Tour(profile, seed=1)
        await tour.play()
        waits = sorted(tour.waits())
        assert waits[len(waits) * 95 // 100] < limit

    virtual(scenario())


async def wait_for_the_end() -> float:
    tour = Tour(LinkProfile(delay=0.03))
    record = tour.record

    def armed(line: dict[str, Any]) -> None:
        record(line)
        if line["vantage"] == "emitted" and line["event"].get("token_index") == len(WORDS) - 1:
            tour.server.network.lose_next(200)

    tour.session._connection.seat.record = armed
    await tour.play()
    assert tour.server.network.counters.lost == 1
    return tour.waits()[-1]


def test_a_lost_end_is_repaired_by_ticks() -> None:
    # Three ticks, the last at 60 ms; their news takes 60 ms, and the word 30 again.
    assert virtual(wait_for_the_end()) == pytest.approx(0.15)


def test_without_ticks_a_lost_end_waits_for_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "URGENT_TICKS", ())
    monkeypatch.setattr(scheduler, "PAUSE_TICKS", ())
    assert virtual(wait_for_the_end()) > 0.5


def test_a_frozen_network_pauses_the_tour_and_loses_nothing() -> None:
    async def scenario() -> None:
        frozen = LinkProfile(delay=0.02, freeze=((3.0, 3.0 + PEER_QUIET + 2),))
        tour = Tour(Network(LinkProfile(delay=0.02), frozen), gap=0.3)
        paused: list[float] = []
        pause = tour.stream.pause

        def noting() -> None:
            paused.append(asyncio.get_running_loop().time())
            pause()

        tour.stream.pause = noting  # type: ignore[method-assign]
        seen = await tour.play()
        assert seen.text == "".join(WORDS)
        assert tour.session.reason == "end"
        # The last sign of life came within the second before the freeze: the viewer pings each second.
        assert PEER_QUIET + 2 <= paused[0] <= PEER_QUIET + 3.1

    virtual(scenario())


def test_a_cut_ends_both_sides_in_their_own_time() -> None:
    async def scenario() -> None:
        tour = Tour(LinkProfile(delay=0.02, cut=((2.0, math.inf),)))
        loop = asyncio.get_running_loop()
        session = asyncio.ensure_future(tour.session.run())
        with pytest.raises(ChannelClosedError, match="said nothing for 3 s"):
            await tour.viewer.watch()
        assert 4.9 <= loop.time() <= 5.1
        await session
        assert PEER_GONE + 1 <= loop.time() <= PEER_GONE + 2.1
        assert "silent" in tour.session.reason or "said nothing" in tour.session.reason

    virtual(scenario())
