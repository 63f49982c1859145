"""Bad networks in front of a real browser: does a tour stay in sync, and how long does a lost last word take.

Chromium plays the demo tour behind a UDP relay of each network; the tour and the relay share this process, so every
figure contains the work of both. Then short turns whose last datagram with words is lost, once each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from typing import Any

import msgspec

from multimodal.bench.links_stage import ROUND_TRIP, Played, lost_end, play_behind
from multimodal.bench.report import Figure, figure, report
from multimodal.browser import launch
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.sync.drift import drift_report, pairs
from multimodal.sync.growth import Growth, growth_of

NETWORKS = {
    "lossy": "60 ms, 2 % loss",
    "slow": "4 Mb/s, 100 ms",
    "jittery": "300 ms jitter",
}
SPEED = 1.25
TURNS = 10


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About four minutes; `--quick` plays eight times as fast and loses one end."""
    speed, turns = (8.0, 1) if options.quick else (SPEED, TURNS)
    return judge(*asyncio.run(play(speed, turns)))


async def play(speed: float, turns: int) -> tuple[dict[str, Played], list[float]]:
    """The demo tour behind each network, and the milliseconds that each of `turns` lost ends took."""
    tour = demo_tour()
    tours = {}
    async with launch() as browser:
        for name, title in NETWORKS.items():
            print(f"links: {title} ...", file=sys.stderr, flush=True)
            tours[name] = await play_behind(browser, tour, name, speed=speed)
        print("links: lost ends ...", file=sys.stderr, flush=True)
        return tours, [round(await lost_end(browser), 1) for _ in range(turns)]


def judge(tours: dict[str, Played], ends: list[float]) -> dict[str, Any]:
    """What `play` gave, held against the bars."""
    figures = [bar for name, played in tours.items() for bar in _bars(NETWORKS[name], played)]
    lost = f"lost last word, {ROUND_TRIP * 1000:g} ms: until painted"
    figures.append(figure(f"{lost}, median", statistics.median(ends), "ms", 300))
    figures.append(figure(f"{lost}, most", max(ends), "ms", 300))
    ours: dict[str, Any] = {NETWORKS[name]: _details(played) for name, played in tours.items()}
    return report("links", figures, {**ours, "lost_end_ms": ends}, packages=("aiortc", "aioice", "playwright"))


def skew_growth(played: Played) -> Growth:
    """The line through the skews as painted.

    Raises:
        UsageError: too few reveals were painted to judge.
    """
    measured = [pair for pair in pairs(played.log) if "painted" in pair.skew_ms and pair.apart != "held"]
    times = [pair.frames[0].t_ms for pair in measured if pair.frames[0] is not None]
    return growth_of(times, [pair.skew_ms["painted"] for pair in measured])


def _bars(title: str, played: Played) -> list[Figure]:
    drift = drift_report(played.log)
    growth = skew_growth(played)
    start = played.log.start
    interval = start.sync_interval if start else 0
    share = float("nan") if drift.same_frame_share is None else drift.same_frame_share
    drifted = float("nan") if drift.token_drift_max is None else drift.token_drift_max
    return [
        figure(f"{title}: cues not revealed", drift.reveals_expected - drift.reveals_shown, "cues", 0),
        figure(f"{title}: events lost", drift.events_lost, "events", 0),
        figure(f"{title}: events duplicated", drift.events_duplicated, "events", 0),
        figure(f"{title}: token drift", drifted, "tokens", interval - 1),
        figure(f"{title}: same-frame share", share, "share", 0.99, "higher"),
        figure(
            f"{title}: growth of skew (limit: what its noise explains)",
            abs(growth.slope) * 60_000,
            "ms/min",
            growth.bound * 60_000,
        ),
    ]


def _details(played: Played) -> dict[str, Any]:
    drift = drift_report(played.log)
    skew = drift.skew_ms.get("painted")
    return {
        "reveals": drift.reveals_shown,
        "judged": drift.judged,
        "apart": drift.apart,
        "previews": drift.previews,
        "words_wait_ms": _words_wait(played),
        "skew_ms": {"p50": skew.p50, "p95": skew.p95, "max": skew.max} if skew else None,
        "down": msgspec.to_builtins(played.down),
        "up": msgspec.to_builtins(played.up),
    }


def _words_wait(played: Played) -> dict[str, float]:
    """Milliseconds from emission to paint, more than those of the quickest: what the network adds to a quiet moment."""
    frames = [(text.pts_ms, played.log.frame_of(text.seq)) for text in played.log.texts]
    waits = sorted(frame.t_ms - pts_ms for pts_ms, frame in frames if frame is not None)
    middle, high = waits[len(waits) // 2], waits[len(waits) * 95 // 100]
    return {name: round(at - waits[0], 1) for name, at in (("p50", middle), ("p95", high), ("max", waits[-1]))}
