"""Head of line: how long words wait while pictures flow, and what the pictures pay for it.

Pictures of 200 KiB follow each other while a word is told every 20 ms, over loopback and four networks (a UDP relay;
the times in their names are round trips), to an aiortc viewer and to a Chromium. Beside ours, in turns in the same run:
the narration without pictures, free `send()`, and the disciplines that others recommend, a second connection for the
pictures included. Sender, relay and aiortc viewer share this process: every figure contains the work of all.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from multimodal.bench.hol_disciplines import DISCIPLINES
from multimodal.bench.hol_page import play_in
from multimodal.bench.hol_stage import CLEAN, LIMITED, LOOPBACK, ROADS, Run, Shape, play
from multimodal.bench.report import Figure, figure, report
from multimodal.browser import launch

OURS, FREE, QUIET = "ours", "free send()", "no pictures"
CORE = (QUIET, OURS, FREE)
P95_LIMITS = {LOOPBACK: 20.0, "60 ms, 5 Mb/s": 150.0, "60 ms, 2 % loss": 200.0}
VIEWERS = ("aiortc", "Chromium")

Play = Callable[[str, str, Shape, int], Awaitable[Run]]
Key = tuple[str, str, str]


class Lengths(msgspec.Struct, frozen=True):
    """How long a run is: words of each narration, rounds of ours and what it is judged by, of the others, of bulk."""

    words: int = 250
    rounds: int = 3
    others: int = 1
    bulk_pictures: int = 8
    roads: tuple[str, ...] = tuple(ROADS)


QUICK = Lengths(words=60, rounds=1, others=0, bulk_pictures=3, roads=(LOOPBACK, "60 ms, 5 Mb/s"))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About 15 minutes; `--quick` one."""
    return judge(*asyncio.run(measure(QUICK if options.quick else Lengths())))


async def measure(lengths: Lengths) -> tuple[dict[Key, list[Run]], dict[Key, list[Run]]]:
    """Every run, by viewer, road and discipline; and those of bulk on loopback."""
    runs: dict[Key, list[Run]] = {}
    bulk: dict[Key, list[Run]] = {}
    async with launch() as browser:

        async def chromium(road: str, discipline: str, shape: Shape, seed: int) -> Run:
            return await play_in(browser, road, discipline, shape, seed)

        viewers: dict[str, Play] = dict(zip(VIEWERS, (play, chromium), strict=True))
        for road in lengths.roads:
            for turn in range(lengths.rounds):
                for name, viewer in viewers.items():
                    for discipline in DISCIPLINES if turn < lengths.others else CORE:
                        print(f"hol: {road}, {name}, {discipline} ...", file=sys.stderr, flush=True)
                        shape = Shape(words=lengths.words)
                        run = await viewer(road, discipline, shape, turn)
                        runs.setdefault((name, road, discipline), []).append(run)
        count = lengths.bulk_pictures
        for turn in range(lengths.rounds):
            for name, viewer in viewers.items():
                for discipline in (OURS, FREE):
                    print(f"hol: bulk, {name}, {discipline} ...", file=sys.stderr, flush=True)
                    shape = Shape(picture_bytes=1_000_000, at_once=count, until=count)
                    run = await viewer(LOOPBACK, discipline, shape, turn)
                    bulk.setdefault((name, LOOPBACK, discipline), []).append(run)
    return runs, bulk


def judge(runs: dict[Key, list[Run]], bulk: dict[Key, list[Run]]) -> dict[str, Any]:
    """What `measure` gave, held against the bars."""
    rows = {key: _row(each) for key, each in runs.items()}
    figures: list[Figure] = []
    for viewer, road, discipline in rows:
        if discipline == OURS:
            figures += _bars(viewer, road, {name: rows[viewer, road, name] for name in CORE})
    for viewer in VIEWERS:
        ours, free = (
            statistics.median(run.bytes_per_s for run in bulk[viewer, LOOPBACK, name]) for name in (OURS, FREE)
        )
        figures.append(figure(f"{viewer}, bulk on loopback: of free sending", ours / free, "ratio", 0.5, "higher"))
    print(table(rows), file=sys.stderr)
    nested: dict[str, Any] = {}
    for (viewer, road, discipline), row in rows.items():
        nested.setdefault(discipline, {}).setdefault(viewer, {})[road] = row
    for (viewer, road, discipline), each in bulk.items():
        rate = statistics.median(run.bytes_per_s for run in each) / 1e6
        nested[discipline][viewer][f"bulk, {road}"] = {
            "mb_per_s": round(rate, 2),
            "resent": sum(r.resent for r in each),
        }
    return report("hol", figures, nested.pop(OURS), nested, ("aiortc", "aioice", "playwright"))


def _bars(viewer: str, road: str, rows: dict[str, dict[str, Any]]) -> list[Figure]:
    title = f"{viewer}, {road}"
    ours, free, quiet = rows[OURS], rows[FREE], rows[QUIET]
    figures = [
        figure(f"{title}: words, p95", ours["p95_ms"], "ms", P95_LIMITS.get(road)),
        figure(
            f"{title}: words, p99 (limit: 2x without pictures + 20)", ours["p99_ms"], "ms", 2 * quiet["p99_ms"] + 20
        ),
    ]
    slower = ours["picture_ms"] / free["picture_ms"]
    limited = road in LIMITED
    figures.append(figure(f"{title}: picture, of free sending", slower, "ratio", 1.2 if limited else None))
    if road in CLEAN:
        figures.append(figure(f"{title}: packets sent again", ours["resent"], "packets", 0))
    return figures


def _row(runs: list[Run]) -> dict[str, Any]:
    waits = sorted(wait for run in runs for wait in run.waits_ms)
    # The first picture of a connection pays for finding out what the road takes, whoever sends it.
    later = [took for run in runs for took in run.pictures_ms[1:] or run.pictures_ms]
    first = [run.pictures_ms[0] for run in runs if run.pictures_ms]
    return {
        "words": len(waits),
        **{f"p{percent}_ms": round(_share(waits, percent), 1) for percent in (50, 95, 99)},
        "max_ms": round(waits[-1], 1) if waits else float("nan"),
        "picture_ms": round(statistics.median(later), 1) if later else None,
        "first_picture_ms": round(statistics.median(first), 1) if first else None,
        "pictures": sum(len(run.pictures_ms) for run in runs),
        "resent": sum(run.resent for run in runs),
        "overflowed": sum(run.datagrams.get("overflowed", 0) for run in runs),
        "lost": sum(run.datagrams.get("lost", 0) for run in runs),
    }


def _share(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("nan")


def table(rows: dict[Key, dict[str, Any]]) -> str:
    """For people: a line for each discipline on each road."""
    lines = [f"{'viewer':9}{'road':17}{'discipline':34}{'p50':>7}{'p95':>8}{'p99':>8}{'picture':>9}{'again':>7}"]
    for (viewer, road, discipline), row in rows.items():
        picture = "-" if row["picture_ms"] is None else f"{row['picture_ms']:.0f}"
        words = f"{row['p50_ms']:7.1f}{row['p95_ms']:8.1f}{row['p99_ms']:8.1f}"
        lines.append(f"{viewer:9}{road:17}{discipline:34}{words}{picture:>9}{row['resent']:7}")
    return "\n".join(lines)
