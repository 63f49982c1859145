"""A recorded tour gives the same outcomes on the same marks when its words, plan and pictures are fed once more."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings

from multimodal.events import Reveal, SyncMark
from multimodal.sync.log import SyncLog
from multimodal.sync.rerun import Outcome, outcomes, rerun
from multimodal.values import Cue, LatePolicy
from tests.sync.driving import Scenario, drive, scenarios
from tests.sync.tours import tour


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


def test_without_a_plan_the_outcomes_tell_it() -> None:
    log = tour()
    assert outcomes(rerun(msgspec.structs.replace(log, plan=None))) == outcomes(log)
    assert outcomes(rerun(SyncLog(()))) == []


@settings(deadline=None)
@given(scenarios())
def test_any_run_of_the_aligner_comes_out_the_same(scenario: Scenario) -> None:
    aligner = scenario.aligner()
    log = SyncLog(tuple(drive(aligner, scenario.schedule())), plan=aligner.plan)
    # A dwell is not in the recording: what it deferred comes sooner here.
    assume(not any(getattr(reveal, "deferred", False) for reveal in log.of(Reveal)))
    again = rerun(log)
    assert outcomes(again) == outcomes(log)
    assert again.text == log.text
    assert list(again.marks) == list(log.marks)
