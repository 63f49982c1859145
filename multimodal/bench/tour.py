"""The whole matrix of `multimodal tour --check`: two catalogues, three sync intervals, and slow pictures.

Every row is the median of three runs, each a server of its own and a Chromium of its own on loopback. The demo tour
plays at natural speed; the real-world catalogue has four times its words and plays at eight times that. Slow pictures
are compared with an undelayed run of the same round, so that a busy moment of the machine hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from typing import Any

from multimodal.bench.real_catalogue import MAPPING, real_catalogue
from multimodal.bench.report import Figure, figure, report
from multimodal.check import check_tour
from multimodal.errors import TransportError

INTERVALS = (1, 3, 8)
SLOW_MS = 800
RUNS = 3
PACKAGES = ("aiortc", "av", "playwright", "starlette", "uvicorn")

Result = dict[str, Any]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About half an hour; `--quick` plays everything once, four times as fast."""
    runs, natural = (1, "4") if options.quick else (RUNS, "1")
    table, pictures = real_catalogue()
    mapping = ",".join(f"{ours}={theirs}" for ours, theirs in MAPPING.items())
    catalogues = {
        "demo": ["--speed", natural],
        "real-world": ["--speed", "8", "--catalog", str(table), "--images", str(pictures), "--map", mapping],
    }
    figures: list[Figure] = []
    rows: dict[str, list[Result]] = {}
    for interval in INTERVALS:
        for name, words in catalogues.items():
            title = f"{name}, sync_interval {interval}"
            rows[title] = [_check(title, [*words, "--sync-interval", str(interval)]) for _ in range(runs)]
            figures += _plain_bars(title, rows[title], interval)
    figures += _slow_bars(rows, runs, natural)
    return report("tour", figures, ours={"runs": rows}, packages=PACKAGES)


def _check(title: str, words: list[str]) -> Result:
    print(f"tour: {title} ...", file=sys.stderr, flush=True)
    try:
        result = asyncio.run(check_tour(words))
    except TransportError as error:
        # A trace that Chromium lost says nothing about the tour; half an hour of runs is not thrown away for it.
        print(f"tour: {title}: {error}; once more", file=sys.stderr, flush=True)
        result = asyncio.run(check_tour(words)) | {"repeated": str(error)}
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def _plain_bars(title: str, results: list[Result], interval: int) -> list[Figure]:
    return [
        figure(f"{title}: cues not revealed", _most(results, _unrevealed), "cues", 0),
        figure(f"{title}: wrong products", _most(results, lambda r: r["wrong_products"]), "products", 0),
        figure(f"{title}: token drift", _most(results, lambda r: r["token_drift_max"]), "tokens", interval - 1),
        figure(f"{title}: same-frame share, median", _middle(results, "same_frame_share"), "share", 0.99, "higher"),
        figure(f"{title}: pixel same-frame share, median", _middle(results, "pixel_same_frame_share"), "share", None),
        figure(f"{title}: layout shift", _most(results, lambda r: r["layout_shift"]), "CLS", 0),
        figure(f"{title}: events lost", _most(results, lambda r: r["events_lost"]), "events", 0),
        figure(f"{title}: events duplicated", _most(results, lambda r: r["events_duplicated"]), "events", 0),
        figure(f"{title}: runs with receipts not confirmed", sum(not r["receipts_agree"] for r in results), "runs", 0),
    ]


def _slow_bars(rows: dict[str, list[Result]], runs: int, natural: str) -> list[Figure]:
    by_policy: dict[str, list[Result]] = {"undelayed": [], "placeholder": [], "hold": [], "skip": []}
    for _ in range(runs):
        for policy, results in by_policy.items():
            slow = [] if policy == "undelayed" else ["--slow-images", str(SLOW_MS), "--late", policy]
            results.append(_check(f"slow pictures, {policy}", ["--speed", natural, *slow]))
    rows |= {f"slow pictures, {policy}": results for policy, results in by_policy.items()}
    figures = []
    for policy in ("placeholder", "skip"):
        first = _middle(by_policy[policy], "first_text_ms") - _middle(by_policy["undelayed"], "first_text_ms")
        total = _middle(by_policy[policy], "total_ms") / _middle(by_policy["undelayed"], "total_ms")
        figures += [
            figure(f"{policy}: first text against undelayed, medians", abs(first), "ms", 20),
            figure(f"{policy}: time to the last text against undelayed, medians", abs(total - 1) * 100, "%", 2),
        ]
    for policy in ("placeholder", "hold", "skip"):
        results = by_policy[policy]
        figures += [
            figure(f"{policy}: reveals off their mark", _most(results, lambda r: r["off_mark"]), "reveals", 0),
            figure(f"{policy}: cues without their outcome", _most(results, _unsettled), "cues", 0),
        ]
    early = _most(by_policy["hold"], lambda r: r["holds_broken"])
    held = min(r["held"] for r in by_policy["hold"])
    figures.append(figure("hold: holds that ended early or ran over", early, "holds", 0))
    figures.append(figure("hold: reveals that were held", held, "reveals", 1, "higher"))
    return figures


def _unrevealed(result: Result) -> int:
    return int(result["reveals_expected"] - result["reveals_shown"])


def _unsettled(result: Result) -> int:
    return int(result["reveals_expected"] - result["reveals_shown"] - sum(result["missed"].values()))


def _most(results: list[Result], what: Any) -> float:
    return float(max(what(result) for result in results))


def _middle(results: list[Result], field: str) -> float:
    values = [result[field] for result in results]
    return float("nan") if None in values else statistics.median(values)
