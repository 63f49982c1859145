"""`multimodal bench hol` and `connect`: what is measured, and that each bar can fail."""

from __future__ import annotations

from typing import Any

import pytest

from multimodal.bench import connect, hol
from multimodal.bench.hol import CORE, FREE, OURS, QUIET, VIEWERS, judge
from multimodal.bench.hol_disciplines import DISCIPLINES
from multimodal.bench.hol_page import play_in
from multimodal.bench.hol_stage import LIMITED, LOOPBACK, ROADS, Run, Shape, play
from multimodal.browser import launch
from tests.support import run

SHORT = Shape(words=25, picture_bytes=40_000)


def made(discipline: str, road: str, **changes: Any) -> Run:
    """What a good run may give."""
    fields: dict[str, Any] = {"waits_ms": [10.0] * 99, "pictures_ms": [300.0, 100.0, 100.0], "bytes_per_s": 5e6}
    fields |= {"resent": 0, "datagrams": {"overflowed": 0, "lost": 0}}
    if discipline == QUIET:
        fields |= {"pictures_ms": [], "bytes_per_s": 0.0}
    return Run(**fields | changes)


def everything(**changes: Any) -> dict[str, Any]:
    keys = [(viewer, road, name) for viewer in VIEWERS for road in ROADS for name in DISCIPLINES]
    runs = {(v, r, name): [made(name, r, **(changes if name == OURS else {}))] for v, r, name in keys}
    rates = {OURS: changes.get("bytes_per_s", 5e6), FREE: 5e6}
    bulk = {
        (v, LOOPBACK, name): [made(name, LOOPBACK, bytes_per_s=rate)] for v in VIEWERS for name, rate in rates.items()
    }
    return judge(runs, bulk)


def test_every_bar_is_a_figure() -> None:
    result = everything()
    assert result["ok"]
    whats = [entry["what"] for entry in result["figures"] if entry["limit"] is not None]
    for viewer in VIEWERS:
        mine = [what.removeprefix(f"{viewer}, ") for what in whats if what.startswith(viewer)]
        assert sum("words, p95" in what for what in mine) == 3
        assert sum("words, p99" in what for what in mine) == len(ROADS)
        assert [what for what in mine if "picture" in what and "p99" not in what] == [
            f"{road}: picture, of free sending" for road in LIMITED
        ]
        assert sum("packets sent again" in what for what in mine) == len(ROADS) - 1
        assert "bulk on loopback: of free sending" in mine
    assert set(result["peers"]) == set(DISCIPLINES) - {OURS}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"waits_ms": [10.0] * 90 + [250.0] * 10}, "words, p95"),
        ({"waits_ms": [10.0] * 98 + [41.0] * 2}, "words, p99"),
        ({"pictures_ms": [100.0, 121.0]}, "picture, of free"),
        ({"resent": 1}, "packets sent again"),
        ({"bytes_per_s": 2.4e6}, "bulk"),
    ],
)
def test_every_bar_can_fail(changes: dict[str, Any], what: str) -> None:
    failed = [entry["what"] for entry in everything(**changes)["figures"] if not entry["ok"]]
    assert any(what in each for each in failed)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_each_discipline_tells_all_and_brings_pictures(discipline: str) -> None:
    seen = run(play(LOOPBACK, discipline, SHORT))
    assert seen.waits_ms
    assert bool(seen.pictures_ms) is (discipline != QUIET)
    if discipline == OURS:
        assert seen.resent == 0


def test_a_picture_takes_the_time_of_its_road_on_two_connections_too() -> None:
    for discipline in ("ours", "second connection, free"):
        seen = run(play("100 ms, 4 Mb/s", discipline, Shape(words=20, picture_bytes=100_000)))
        assert seen.pictures_ms[0] > 100_000 / 500_000 * 1000 + 50
        assert seen.datagrams["sent"] > 100


@pytest.mark.browser
def test_a_browser_sees_the_same() -> None:
    async def scenario() -> list[Run]:
        async with launch() as browser:
            return [await play_in(browser, LOOPBACK, name, SHORT) for name in (QUIET, OURS, "second connection, ours")]

    quiet, *others = run(scenario())
    assert len(quiet.waits_ms) == SHORT.words
    for seen in others:
        assert seen.pictures_ms
        assert min(seen.waits_ms) > -1, "the two clocks disagree"


def test_connect_is_judged_by_its_slowest_twentieth() -> None:
    times = {
        road: {connect.OURS: [50.0] * 29 + [limit], connect.GATHERING: [200.0] * 30}
        for road, limit in connect.LIMITS_MS.items()
    }
    assert connect.judge(times)["ok"]
    times["loopback"][connect.OURS] = [50.0] * 27 + [101.0] * 3
    assert not connect.judge(times)["ok"]


def test_quick_is_a_part_of_the_whole() -> None:
    assert set(hol.QUICK.roads) < set(ROADS)
    assert set(CORE) < set(DISCIPLINES)
