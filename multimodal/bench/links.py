"""Bad networks in front of a real browser: does a tour stay in sync, and how long does a lost last word take.

Chromium plays the demo tour behind a UDP relay of each network; the tour and the relay share this process, so every
figure contains the work of both. Then once more with its tab hidden for a minute, and last short turns whose last
datagram with words is lost, once each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from typing import Any

import msgspec

from multimodal.bench.links_stage import ROUND_TRIP, Hidden, Played, hide_behind, lost_end, play_behind
from multimodal.bench.report import Figure, figure, report
from multimodal.browser import launch
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.sync.drift import drift_report, pairs
from multimodal.sync.growth import Growth, growth_of
from multimodal.sync.log import SyncLog

NETWORKS = {
    "lossy": "60 ms, 2 % loss",
    "slow": "4 Mb/s, 100 ms",
    "jittery": "300 ms jitter",
}
HIDDEN_NETWORK = "lossy"
HIDDEN_TITLE = "hidden tab"


class Lengths(msgspec.Struct, frozen=True):
    """How long a run is: how fast tours play, when a tab is hidden and for how long (seconds), how many ends are lost.

    The tour with the hidden tab is the slowest, so that it is longer than the tab is hidden.
    """

    speed: float = 1.25
    hidden_speed: float = 0.8
    hide_after: float = 12.0
    hidden: float = 60.0
    turns: int = 10


QUICK = Lengths(speed=12.0, hidden_speed=8.0, hide_after=2.0, hidden=3.0, turns=1)


class Results(msgspec.Struct, frozen=True):
    """What a run gave: tours by the name of their network, the one with a hidden tab, milliseconds of lost ends."""

    tours: dict[str, Played]
    hidden: Hidden
    ends: list[float]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About five minutes; `--quick` half of one."""
    return judge(asyncio.run(play(QUICK if options.quick else Lengths())))


async def play(lengths: Lengths) -> Results:
    """Everything once, in one Chromium, one after the other."""
    tour = demo_tour()
    tours = {}
    async with launch() as browser:
        for name, title in NETWORKS.items():
            _tell(title)
            tours[name] = await play_behind(browser, tour, name, speed=lengths.speed)
        _tell(HIDDEN_TITLE)
        hidden = await hide_behind(
            browser,
            tour,
            HIDDEN_NETWORK,
            speed=lengths.hidden_speed,
            after=lengths.hide_after,
            hidden=lengths.hidden,
        )
        _tell("lost ends")
        return Results(tours, hidden, [round(await lost_end(browser), 1) for _ in range(lengths.turns)])


def _tell(what: str) -> None:
    print(f"links: {what} ...", file=sys.stderr, flush=True)


def judge(results: Results) -> dict[str, Any]:
    """What `play` gave, held against the bars."""
    figures: list[Figure] = []
    for name, played in results.tours.items():
        figures += _bars(NETWORKS[name], played.log)
        growth = skew_growth(played.log)
        what = f"{NETWORKS[name]}: growth of skew (limit: what its noise explains)"
        figures.append(figure(what, abs(growth.slope) * 60_000, "ms/min", growth.bound * 60_000))
    hidden = results.hidden
    figures += _bars(HIDDEN_TITLE, hidden.log)
    figures.append(figure(f"{HIDDEN_TITLE}: events missing one frame after the return", hidden.missing, "events", 0))
    wrong = sum(shown != expected for shown, expected in zip(hidden.shown, hidden.expected, strict=True))
    figures.append(figure(f"{HIDDEN_TITLE}: words or picture not current one frame after the return", wrong, "of 2", 0))
    lost = f"lost last word, {ROUND_TRIP * 1000:g} ms: until painted"
    figures.append(figure(f"{lost}, median", statistics.median(results.ends), "ms", 300))
    figures.append(figure(f"{lost}, most", max(results.ends), "ms", 300))
    ours: dict[str, Any] = {NETWORKS[name]: _details(played) for name, played in results.tours.items()}
    ours[HIDDEN_TITLE] = {"network": NETWORKS[HIDDEN_NETWORK], **_in_short(hidden.log)}
    ours["lost_end_ms"] = results.ends
    return report("links", figures, ours, packages=("aiortc", "aioice", "playwright"))


def skew_growth(log: SyncLog) -> Growth:
    """The line through the skews as painted.

    Raises:
        UsageError: too few reveals were painted to judge.
    """
    measured = [pair for pair in pairs(log) if "painted" in pair.skew_ms and pair.apart != "held"]
    times = [pair.frames[0].t_ms for pair in measured if pair.frames[0] is not None]
    return growth_of(times, [pair.skew_ms["painted"] for pair in measured])


def _bars(title: str, log: SyncLog) -> list[Figure]:
    drift = drift_report(log)
    interval = log.start.sync_interval if log.start else 0
    share = float("nan") if drift.same_frame_share is None else drift.same_frame_share
    drifted = float("nan") if drift.token_drift_max is None else drift.token_drift_max
    return [
        figure(f"{title}: cues not revealed", drift.reveals_expected - drift.reveals_shown, "cues", 0),
        figure(f"{title}: events lost", drift.events_lost, "events", 0),
        figure(f"{title}: events duplicated", drift.events_duplicated, "events", 0),
        figure(f"{title}: token drift", drifted, "tokens", interval - 1),
        figure(f"{title}: same-frame share", share, "share", 0.99, "higher"),
    ]


def _details(played: Played) -> dict[str, Any]:
    counters = {"down": msgspec.to_builtins(played.down), "up": msgspec.to_builtins(played.up)}
    return {**_in_short(played.log), "words_wait_ms": _words_wait(played.log), **counters}


def _in_short(log: SyncLog) -> dict[str, Any]:
    drift = drift_report(log)
    skew = drift.skew_ms.get("painted")
    return {
        "reveals": drift.reveals_shown,
        "judged": drift.judged,
        "apart": drift.apart,
        "previews": drift.previews,
        "skew_ms": {"p50": skew.p50, "p95": skew.p95, "max": skew.max} if skew else None,
    }


def _words_wait(log: SyncLog) -> dict[str, float]:
    """Milliseconds from emission to paint, more than those of the quickest: what the network adds to a quiet moment."""
    frames = [(text.pts_ms, log.frame_of(text.seq)) for text in log.texts]
    waits = sorted(frame.t_ms - pts_ms for pts_ms, frame in frames if frame is not None)
    middle, high = waits[len(waits) // 2], waits[len(waits) * 95 // 100]
    return {name: round(at - waits[0], 1) for name, at in (("p50", middle), ("p95", high), ("max", waits[-1]))}
