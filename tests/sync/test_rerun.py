"""A recorded tour gives the same outcomes on the same marks when its words, plan and pictures are fed once more."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings

from multimodal.events import SyncMark
from multimodal.sync.aligner import Aligner
from multimodal.sync.log import SyncLog
from multimodal.sync.rerun import Outcome, outcomes, rerun
from multimodal.values import Cue, Lane, LatePolicy, Token
from tests.sync.driving import Scenario, drive, image, scenarios
from tests.sync.tours import tour

LANES: list[tuple[str, Lane]] = [("Um, ", "low"), ("the ", "main"), ("mug.", "main")]


@pytest.mark.parametrize("late", ["placeholder", "hold", "skip"])
def test_each_policy_comes_out_the_same(late: LatePolicy) -> None:
    log = tour(late=late, ready={"mug-1": 0.9, "lamp-1": 9.0})
    again = rerun(log)
    assert outcomes(again) == outcomes(log)
    assert again.text == log.text
    assert [(mark.mark, mark.char) for mark in again.of(SyncMark)] == [(m.mark, m.char) for m in log.of(SyncMark)]


def test_another_plan_comes_out_otherwise() -> None:
    log = tour()
    moved = msgspec.structs.replace(log, plan={**(log.plan or {}), 0: Cue(7, "kettle-1")})
    assert outcomes(rerun(moved))[0] == Outcome("reveal", "kettle-1", 7, 9)
    assert outcomes(rerun(log))[0] == Outcome("reveal", "kettle-1", 4, 6)


def test_a_dwell_defers_the_same_pictures() -> None:
    aligner = Aligner(2, min_dwell=0.3, sid="dwell")
    for key, anchor in (("a", 2), ("b", 4), ("c", 12)):
        aligner.feed_image(image(key), 0.0)
        aligner.feed_cue(Cue(anchor, key), 0.0)
    for number in range(16):
        aligner.feed_token(Token(f"t{number} "), number * 0.1)
    aligner.feed_eof(1.5)
    log = SyncLog(tuple(aligner.events()), plan=aligner.plan)
    assert [(outcome.key, outcome.mark) for outcome in outcomes(log)] == [("a", 2), ("b", 6), ("c", 12)]
    assert outcomes(rerun(log)) == outcomes(log)


def test_lanes_come_out_the_same() -> None:
    aligner = Aligner(3)
    for text, lane in LANES:
        aligner.feed_token(Token(text, lane=lane), 0.0)
    aligner.feed_eof(0.1)
    log = SyncLog(tuple(aligner.events()), plan=aligner.plan)
    assert [text.lane for text in log.texts] == ["low", "main", "main"]
    assert rerun(log).texts == log.texts


def test_without_a_plan_the_outcomes_tell_it() -> None:
    log = tour()
    assert outcomes(rerun(msgspec.structs.replace(log, plan=None))) == outcomes(log)
    assert outcomes(rerun(SyncLog(()))) == []


@settings(deadline=None)
@given(scenarios())
def test_any_run_of_the_aligner_comes_out_the_same(scenario: Scenario) -> None:
    scenario = replace(scenario, min_dwell_ms=0)
    aligner = scenario.aligner()
    log = SyncLog(tuple(drive(aligner, scenario.schedule())), plan=aligner.plan)
    again = rerun(log)
    assert outcomes(again) == outcomes(log)
    assert again.text == log.text
    assert list(again.marks) == list(log.marks)
