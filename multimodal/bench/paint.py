"""Does the picture appear in the frame of its words? Judged on captured pixels, with planted faults in the same run.

The real server narrates to the real player in headless Chromium, a picture every three words, at normal speed and with
the page's processor slowed down fourfold. A method that cannot fail proves nothing: the same eye looks at players with
a fault planted in them, and must flag each.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from multimodal.bench.paint_stage import FAULTS, HONEST, UNHURRIED, Fault, Played, play, serving
from multimodal.bench.report import Figure, figure, report
from multimodal.browser import launch
from multimodal.glass import Pair, same_frame_share

__all__ = ["run"]

PAIRS = 300
"""Word/picture pairs at each speed: a share of 0.99 then stands on more than one miss."""
PLANTED = 54
PER_TOUR = 18
"""A tour of 18 pairs takes about 5 s: it fits into one trace, so that no frame is lost in the middle."""
THROTTLE = 4.0
SHARE_BAR, FLAG_BAR, DISAGREE_BAR, SHIFT_BAR = 0.99, 0.99, 0.01, 0.001


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Play, film and judge; about five minutes, or half a minute where `options.quick` is set.

    Raises:
        UsageError: no Chromium or no Playwright, or a planted fault that no longer fits the player.
        SyncError: a tour did not come to its end.
    """
    return asyncio.run(_run(options.quick))


async def _run(quick: bool) -> dict[str, Any]:
    figures: list[Figure] = []
    ours: dict[str, Any] = {}
    async with serving() as (url, shop), launch() as browser:

        async def several(pairs: int, fault: Fault, throttle: float = 1.0) -> list[Played]:
            played: list[Played] = []
            # A pair shown as a preview first is counted apart; further tours make up for such pairs.
            for _ in range(2 * -(-pairs // PER_TOUR)):
                if sum(len(_pairs([tour])) for tour in played) >= pairs:
                    break
                tour = await play(browser, url, shop, min(pairs, PER_TOUR), fault, throttle=throttle)
                if tour.report.frames:
                    played.append(tour)
                else:  # the camera's failure, not the player's: nothing was judged, so nothing is left out
                    print("bench paint: a tour was not filmed at all; played again", file=sys.stderr, flush=True)
            print(f"bench paint: {fault.name} at {throttle:g}x: {_verdicts(played)}", file=sys.stderr, flush=True)
            return played

        for throttle, honest in ((1.0, HONEST), (THROTTLE, UNHURRIED)):
            played = await several(10 if quick else PAIRS, honest, throttle)
            figures += _honest(played, throttle, 10 if quick else PAIRS)
            ours[f"{throttle:g}x"] = _summary(played)
        for fault in FAULTS:
            played = await several(10 if quick else PLANTED, fault)
            flagged = [fault.flagged(pair, tour.claimed) for tour in played for pair in _pairs([tour])]
            share = sum(flagged) / len(flagged) if flagged else 0.0
            figures.append(figure(f"planted fault flagged: {fault.name}", share, "share", FLAG_BAR, "higher"))
            ours[fault.name] = {"what": fault.what, **_summary(played)}
        ours["chromium"] = browser.version
    return report("paint", figures, ours=ours, packages=("playwright", "aiortc"))


def _pairs(played: Iterable[Played]) -> list[Pair]:
    """Those that count: a reveal that had only a preview to show is another matter."""
    return [pair for tour in played for pair in tour.report.pairs if not pair.preview]


def _honest(played: list[Played], throttle: float, least: int) -> list[Figure]:
    pairs = _pairs(played)
    judged = [
        tour.claimed.get(pair.cue) == (pair.verdict == "same")
        for tour in played
        for pair in _pairs([tour])
        if pair.verdict in ("same", "apart")
    ]
    at = f" at {throttle:g}x CPU throttle" if throttle > 1 else ""
    disagree = 1 - sum(judged) / len(judged) if judged else 1.0
    shift = max((tour.report.layout_shift for tour in played), default=1.0)
    return [
        figure(f"pixel same-frame share{at}", same_frame_share(pairs), "share", SHARE_BAR, "higher"),
        figure(f"pairs{at}", len(pairs), "pairs", least, "higher"),
        figure(f"receipts disagree with pixels{at}", disagree, "share", DISAGREE_BAR, "lower"),
        figure(f"layout shift{at}", shift, "CLS", SHIFT_BAR, "lower"),
    ]


def _verdicts(played: Iterable[Played]) -> dict[str, int]:
    return dict(Counter(pair.verdict for pair in _pairs(played)))


def _summary(played: list[Played]) -> dict[str, Any]:
    gaps = [gap for tour in played for gap in tour.report.raf_gaps_ms]
    apart = [pair.apart_frames for pair in _pairs(played) if pair.apart_frames]
    reasons = Counter(pair.why for pair in _pairs(played) if pair.why)
    return {
        "pairs": len(_pairs(played)),
        "verdicts": _verdicts(played),
        "reasons": dict(reasons.most_common(5)),
        "apart_frames": {"min": min(apart), "median": statistics.median(apart), "max": max(apart)} if apart else None,
        "previews": sum(pair.preview for tour in played for pair in tour.report.pairs),
        "raf_gaps_ms": {"count": len(gaps), "max": max(gaps, default=0.0)},
        "frames": sum(tour.report.frames for tour in played),
        "frames_lost": sum(tour.report.frames_lost for tour in played),
    }
