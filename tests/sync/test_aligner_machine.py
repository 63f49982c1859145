"""The aligner against an independent reading of its rules, in order AND time; and planted faults to test that test."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import NoSuchExample

from multimodal.errors import UsageError
from multimodal.events import SyncMark
from multimodal.sync.aligner import Aligner
from multimodal.values import Token
from tests.sync.driving import Scenario, drive, scenarios
from tests.sync.oracle import check_order, check_times

EXAMPLES = int(os.environ.get("MULTIMODAL_ALIGNMENTS", "600"))
"""Random runs; `make soak` asks for more."""


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_order_and_time_are_those_of_the_rules(run: Scenario) -> None:
    log = drive(run.aligner(), run.schedule())
    check_order(run, log)
    check_times(run, log)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(late_cues=True))
def test_order_holds_when_cues_come_at_any_time(run: Scenario) -> None:
    aligner = run.aligner()
    try:
        log = drive(aligner, run.schedule())
    except UsageError:  # a cue after the end: refused, because no outcome could be told (R3, R6)
        assert aligner.ended
        return
    check_order(run, log)


@settings(max_examples=100, deadline=None)
@given(scenarios(late_cues=True))
def test_r8_the_same_items_give_the_same_log(run: Scenario) -> None:
    def once() -> object:
        try:
            return drive(run.aligner(), run.schedule())
        except UsageError as error:
            return str(error)

    assert once() == once()


class DeadlineNeverSet(Aligner):
    """The fault of an early prototype: every order rule holds, and the text waits for ever."""

    def next_timer(self) -> float | None:
        return None if self._hold_until is not None else super().next_timer()

    def feed_eof(self, now: float) -> None:
        # Without this the run would only hang; the old fault let the next item end the hold.
        if self._hold_until is not None:
            self._hold_until = 0.0
        super().feed_eof(now)


class HoldEndsAtNextToken(Aligner):
    def feed_token(self, token: Token, now: float) -> None:
        if self._hold_until is not None:
            self._mark_at = -1e9
            self._flow()
        super().feed_token(token, now)


class HoldEndsLate(Aligner):
    def next_timer(self) -> float | None:
        timer = super().next_timer()
        return None if timer is None else timer + (0.02 if self._hold_until is not None else 0)


class ForgetsTheSwap(Aligner):
    def _swap(self, key: str, reason: str = "") -> None:
        self._swaps.pop(key)


class SwapsOnlyAtMarks(Aligner):
    def _reconsider(self, keys: object) -> None:
        super()._reconsider(())

    def _open_mark(self) -> None:
        super()._open_mark()
        super()._reconsider(tuple(self._swaps))


class RevealsAtTheNextMark(Aligner):
    def _ready(self, key: str) -> bool:
        return self._now > self._mark_at and super()._ready(key)


class SettlesTwice(Aligner):
    def _settle(self) -> None:
        due = list(self._due)
        super()._settle()
        if due and self._hold_until is None and len(due) > 2:
            self._due = due[:1]
            super()._settle()


class IgnoresTheViewer(Aligner):
    def _ready(self, key: str) -> bool:
        return key in self._images


class MarksTwice(Aligner):
    def _close(self) -> None:
        self._emit(SyncMark, self._tokens_out, self._chars_out, 0)
        super()._close()


class WrongOrderOnAMark(Aligner):
    def _settle(self) -> None:
        self._due.reverse()
        super()._settle()


class EndsWithoutWaiting(Aligner):
    def _close(self) -> None:
        self._swap_wait = 0.0
        super()._close()


class IgnoresTheDwell(Aligner):
    def _crowds(self, declared: object) -> bool:
        return False


class CrowdsWithinOneMark(Aligner):
    def _crowds(self, declared: object) -> bool:
        return not self._ending and self._mark_at < self._current_until


class ForgetsTheDeferredAtTheEnd(Aligner):
    def _close(self) -> None:
        self._due = []
        super()._close()


class NeverSkips(Aligner):
    def _miss(self, declared: object, reason: str) -> None:
        if reason == "late":
            self._reveal(declared, preview=False)  # type: ignore[arg-type]
        else:
            super()._miss(declared, reason)  # type: ignore[arg-type]


_NO_SHRINK = [phase for phase in settings().phases if phase.name == "generate"]

FAULTS = [
    CrowdsWithinOneMark,
    DeadlineNeverSet,
    EndsWithoutWaiting,
    ForgetsTheDeferredAtTheEnd,
    ForgetsTheSwap,
    HoldEndsAtNextToken,
    HoldEndsLate,
    IgnoresTheDwell,
    IgnoresTheViewer,
    MarksTwice,
    NeverSkips,
    RevealsAtTheNextMark,
    SettlesTwice,
    SwapsOnlyAtMarks,
    WrongOrderOnAMark,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda kind: kind.__name__)
def test_a_planted_fault_is_found(fault: type[Aligner]) -> None:
    def caught(run: Scenario) -> bool:
        log = drive(run.aligner(fault), run.schedule())
        try:
            check_order(run, log)
            check_times(run, log)
        except (AssertionError, IndexError):
            return True
        return False

    try:
        find(scenarios(), caught, settings=settings(max_examples=2000, deadline=None, database=None, phases=_NO_SHRINK))
    except NoSuchExample:
        pytest.fail(f"{fault.__name__} passes every check")
