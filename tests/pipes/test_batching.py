"""Admission against a model of its rules, planted faults, and a server whose times are arithmetic."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from multimodal.errors import UsageError
from multimodal.pipes.batching import PATIENCE, SHARED_TOKENS, Admission, _Waiting
from multimodal.pipes.batching_sweep import mixed, serve

WINDOW = 0.05


class Queue(RuleBasedStateMachine):
    """Requests of a few families, of contexts and of none; steps that end at any time; settings that change."""

    make: ClassVar[type[Admission]] = Admission

    def __init__(self) -> None:
        super().__init__()
        self.admission = self.make(1000 * WINDOW, True, False, max_rows=6)
        self.grouping = True
        self.now = 0.0
        self.serial = 0
        self.waiting: dict[int, tuple[float, int]] = {}  # when it came, how often it was passed over
        self.gone: set[int] = set()

    @rule(family=st.integers(0, 3), context=st.sampled_from([None, None, "kettle", "mug"]))
    def offer(self, family: int, context: str | None) -> None:
        self.serial += 1
        self.admission.offer(self.serial, [family] * SHARED_TOKENS + [self.serial], self.now, context)
        self.waiting[self.serial] = self.now, 0

    @rule(families=st.lists(st.integers(0, 3), min_size=2, max_size=6))
    def crowd(self, families: list[int]) -> None:
        for family in families:
            self.offer(family, None)

    @rule()
    def take_one(self) -> None:
        self.take(0, 1, True)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, self.serial + 1))
        assert self.admission.withdraw(number) == (number in self.waiting), "A6"
        self.waiting.pop(number, None)
        self.gone.add(number)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.02, 0.06]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def time_passes_to_the_timer(self) -> None:
        timer = self.admission.next_timer()
        if timer is not None:
            self.now = max(self.now, timer)

    @rule(grouping=st.booleans())
    def configure(self, grouping: bool) -> None:
        self.admission.configure(semantic_cluster=grouping)
        self.grouping = grouping

    @rule(running=st.integers(0, 6), free=st.integers(0, 4), idle=st.booleans())
    def take(self, running: int, free: int, idle: bool) -> None:
        taken = [int(str(each)) for each in self.admission.take(self.now, running, free, idle)]
        room = max(0, min(free, 6 - running))
        assert len(taken) <= room, "A3"
        assert len(set(taken)) == len(taken), "A6"
        assert set(taken) <= set(self.waiting), "A6"
        first = min(self.waiting.values())[0] if self.waiting else self.now
        due = idle or self.now >= first + WINDOW or len(self.waiting) >= room
        assert len(taken) == (min(room, len(self.waiting)) if due else 0), "A1, A2"
        if not self.grouping:
            assert taken == sorted(self.waiting)[: len(taken)], "A4"
        for each in taken:
            del self.waiting[each]
            self.gone.add(each)
        for number, (came, passed) in self.waiting.items():
            passed += bool(taken) and number < max(taken)
            assert passed <= PATIENCE, "A5: passed over too often"
            self.waiting[number] = came, passed
        timer = self.admission.next_timer()
        assert timer is None or timer > self.now, "the timer would fire for ever"
        if self.waiting and room > 0 and not taken:
            assert timer == first + WINDOW, "A2: the end of the window is missed"

    @invariant()
    def it_counts_what_waits(self) -> None:
        assert self.admission.waiting == len(self.waiting)
        timer = self.admission.next_timer()
        if not self.waiting:
            assert timer is None
        elif timer is not None:
            assert timer == min(self.waiting.values())[0] + WINDOW


QUEUE = settings(max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))
PLANTED = settings(QUEUE, max_examples=1000, database=None, phases=[Phase.generate], derandomize=True)


def test_the_rules_hold_under_any_interleaving() -> None:
    run_state_machine_as_test(Queue, settings=QUEUE)


class AlwaysSleeps(Admission):
    def take(self, now: float, running: int, free_rows: int, idle: bool) -> list[Hashable]:
        return super().take(now, running, free_rows, False)


class NeverWakes(Admission):
    def next_timer(self) -> float | None:
        return None


class Spins(Admission):
    def next_timer(self) -> float | None:
        return next((each.offered + WINDOW for each in self._waiting.values()), None)


class IgnoresRoom(Admission):
    def _choose(self, room: int) -> list[_Waiting]:
        return super()._choose(room + 1)


class Starves(Admission):
    def _choose(self, room: int) -> list[_Waiting]:
        if not self.semantic_cluster:
            return super()._choose(room)
        late = sorted(self._waiting.values(), key=lambda each: -each.serial)[:room]
        for each in late:
            self._leave(each)
        return late


@pytest.mark.parametrize("fault", [AlwaysSleeps, NeverWakes, Spins, IgnoresRoom])
def test_planted_faults_are_found(fault: type[Admission]) -> None:
    machine = type("Planted", (Queue,), {"make": fault})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=PLANTED)


@pytest.mark.parametrize("make", [Admission, Starves])
def test_a_queue_that_never_empties_finds_whoever_starves(make: type[Admission]) -> None:
    def life() -> None:
        machine = type("Planted", (Queue,), {"make": make})()
        machine.crowd([0, 1, 2])
        for number in range(3 * PATIENCE):
            machine.offer(number % 3, None)
            machine.take_one()

    if make is Admission:
        life()
    else:
        with pytest.raises(AssertionError, match="A5"):
            life()


# ---- order


def offered(*prompts: tuple[int, list[int]] | tuple[int, list[int], str], **setting: bool) -> Admission:
    admission = Admission(0, dynamic_batch=False, **setting)
    for name, prompt, *context in prompts:
        admission.offer(name, prompt, 0.0, *context)
    return admission


def test_those_that_share_most_follow_each_other() -> None:
    system, kettle, mug = [9] * 20, [1] * 30, [2] * 30
    requests = (
        (1, [*system, *kettle, 1]),
        (2, [*system, *mug, 2]),
        (3, [*system, *kettle, 3]),
        (4, [8] * 5),
        (5, [*system, *mug, 5]),
        (6, [*system, *kettle, 6]),
    )
    # After the kettles the rest shares the system prompt alone, and the first that came goes on.
    assert offered(*requests).take(0, 0, 9, True) == [1, 3, 6, 2, 5, 4]
    assert offered(*requests, semantic_cluster=False).take(0, 0, 9, True) == [1, 2, 3, 4, 5, 6]


def test_a_short_beginning_in_common_is_no_group() -> None:
    short = [7] * (SHARED_TOKENS - 1)
    assert offered((1, [*short, 1]), (2, [5]), (3, [*short, 3])).take(0, 0, 9, True) == [1, 2, 3]
    assert offered((1, [7, *short, 1]), (2, [5]), (3, [7, *short, 3])).take(0, 0, 9, True) == [1, 3, 2]


def test_the_context_decides_where_it_is_given() -> None:
    long = [7] * 40
    admission = offered((1, [*long, 1], "kettle"), (2, [*long, 2], "mug"), (3, [3], "kettle"), (4, long))
    assert admission.take(0, 0, 9, True) == [1, 3, 2, 4]
    assert admission.grouped == 1


def test_a_group_goes_on_in_the_next_take() -> None:
    kettle, mug = [1] * 30, [2] * 30
    admission = offered((1, kettle), (2, mug), (3, kettle), (4, mug), (5, kettle))
    assert admission.take(0, 0, 2, True) == [1, 3]
    assert admission.take(0, 0, 2, True) == [5, 2]


def test_a_lone_request_among_a_stream_of_one_group_waits_its_patience_and_no_longer() -> None:
    admission = offered((0, [1] * 30), (1, [2] * 30))
    took = []
    for number in range(2, 12):
        admission.offer(number, [1] * 30, 0.0)
        took.append(admission.take(0, 0, 1, True)[0])
    assert took.index(1) == PATIENCE + 1  # passed over in the second take to the fifth
    assert admission.most_passed == PATIENCE


def test_settings_change_from_the_next_take_on() -> None:
    admission = Admission(50, dynamic_batch=False, max_rows=4)
    admission.offer("a", [1], 0.0)
    assert admission.take(0.01, 1, 3, False) == []
    assert admission.next_timer() == 0.05
    admission.configure(window_size=5)
    assert admission.next_timer() == 0.005
    assert admission.take(0.01, 1, 3, False) == ["a"]
    admission.configure(max_rows=1)
    admission.offer("b", [1], 0.02)
    assert admission.take(0.1, 1, 3, False) == []
    assert admission.next_timer() is None  # only room is awaited
    assert admission.take(0.1, 0, 3, False) == ["b"]


def test_a_name_that_waits_is_taken_and_wrong_settings_change_nothing() -> None:
    admission = Admission()
    admission.offer("a", [1], 0.0)
    with pytest.raises(UsageError, match="'a' waits already"):
        admission.offer("a", [1], 0.0)
    for wrong in ({"window_size": -1}, {"window_size": True}, {"semantic_cluster": 1}, {"max_rows": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            admission.configure(**{"target_itl": 0.5, **wrong})  # type: ignore[arg-type]
    assert admission.rows.target == 0.1
    assert admission.window_size == 50


# ---- a server whose times are arithmetic


def test_the_window_costs_an_idle_server_nothing_and_makes_one_prefill_of_a_burst() -> None:
    alone = [(float(number * 10), [number] * 70) for number in range(3)]
    burst = [(0.0, [0] * 70), *((0.2 + 0.02 * number, [number] * 70) for number in range(1, 8))]
    with_window, without = (
        (serve(Admission(window, False, False), alone), serve(Admission(window, False, False), burst))
        for window in (150, 0)
    )
    assert with_window[0].first == without[0].first
    assert with_window[1].prefills == 2  # the first finds an idle server
    assert without[1].prefills > 2
    assert max(with_window[1].first.values()) <= max(without[1].first.values()) + 0.15


def test_grouping_reads_fewer_tokens_and_serves_more_of_a_mixed_trace() -> None:
    trace = mixed(3)
    plain, grouped = Admission(50, False, False), Admission(50, True, False)
    before, after = serve(plain, trace), serve(grouped, trace)
    assert after.cached_tokens >= 1.5 * before.cached_tokens
    assert after.seconds < 0.9 * before.seconds
    assert plain.most_passed == 0
    assert 0 < grouped.most_passed <= PATIENCE
    assert len(after.first) == len(before.first) == len(trace)


def test_the_batch_keeps_to_the_target() -> None:
    trace = mixed(4, requests=200)
    for target, rows in ((0.06, 5), (0.1, 15)):
        admission = Admission(0, False, True, target_itl=target)
        serve(admission, trace, rows=32, tokens=60)
        assert abs(admission.limit - rows) <= 2, (target, admission.limit)
    fixed = Admission(0, False, False, max_rows=20)
    serve(fixed, trace, rows=32)
    assert fixed.limit == 20
