"""The pool against a model of its rules, under any interleaving; planted faults; and which policy pays."""

from __future__ import annotations

import math
import random
import threading
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from multimodal.errors import UsageError
from multimodal.pipes.pool import BytePool, Policy, PoolStats
from multimodal.pipes.pool_sweep import headroom, hit_rates, zipf
from multimodal.pipes.reclaim import Entry

Pool = BytePool[str, int]
KEYS = [f"k{number}" for number in range(8)]
SIZES = st.integers(1, 60)


class Life(RuleBasedStateMachine):
    """Puts, uses, pins, work and settings in any order; the model knows what is held, what is pinned and why."""

    make: ClassVar[type[Pool]] = BytePool

    def __init__(self) -> None:
        super().__init__()
        self.evicted: list[tuple[str, int]] = []
        self.pool = self.make(100, on_evict=lambda key, value: self.evicted.append((key, value)))
        self.limit, self.free = 100, 0.3
        self.held: dict[str, int] = {}
        self.values: dict[str, int] = {}
        self.pins: dict[str, int] = {}
        self.reserved = 0
        self.serial = 0
        self.hits = self.misses = 0
        self.over = False  # a limit fell below what is in use

    @property
    def pinned(self) -> int:
        return sum(self.held[key] for key in self.pins)

    @property
    def total(self) -> int:
        return sum(self.held.values()) + self.reserved

    def gave_up(self, gone: list[tuple[str, int]]) -> None:
        for key, value in gone:
            assert key not in self.pins, "P2: a pinned entry was given up"
            assert self.values.pop(key, None) == value, "P4: what came back was not held"
            del self.held[key]

    def others_gave_up(self) -> None:
        self.gave_up(self.evicted)
        self.evicted.clear()

    @rule(key=st.sampled_from(KEYS), size=SIZES, pinned=st.booleans())
    def put(self, key: str, size: int, pinned: bool) -> None:
        self.serial += 1
        before = dict(self.values)
        gone = self.pool.put(key, self.serial, size, pinned=pinned)
        assert not self.evicted, "P4: put returns what it gives up"
        own = [item for item in gone if item[1] == self.serial]
        self.gave_up([item for item in gone if item[1] != self.serial])
        if key in self.pins:
            assert own == gone == [(key, self.serial)], "a pinned entry stays as it is"
            return
        assert key not in self.values, "P4: the one replaced comes back"
        soft = math.floor(self.limit * (1 - self.free))
        room = min(self.limit if pinned else soft, self.limit - self.reserved) - self.pinned
        if own:
            assert size > room, "it would have fitted"
            assert self.values == {k: v for k, v in before.items() if k != key}, "evicted in vain"
            return
        assert size <= room, "P1, P3: it does not fit"
        self.held[key], self.values[key] = size, self.serial
        if pinned:
            self.pins[key] = 1
        else:
            assert sum(self.held.values()) <= soft, "P3"

    @rule(key=st.sampled_from(KEYS))
    def get(self, key: str) -> None:
        assert self.pool.get(key, 5) == self.values.get(key)
        self.hits += key in self.held
        self.misses += key not in self.held

    @rule(key=st.sampled_from(KEYS))
    def pin(self, key: str) -> None:
        assert self.pool.pin(key) == self.values.get(key)
        if key in self.held:
            self.pins[key] = self.pins.get(key, 0) + 1

    @rule(key=st.sampled_from(KEYS))
    def unpin(self, key: str) -> None:
        if key not in self.pins:
            with pytest.raises(UsageError, match="not pinned"):
                self.pool.unpin(key)
            return
        self.pool.unpin(key)
        self.pins[key] -= 1
        if not self.pins[key]:
            del self.pins[key]
            self.others_gave_up()
            self.settled()

    @rule(key=st.sampled_from(KEYS))
    def remove(self, key: str) -> None:
        if key in self.pins:
            with pytest.raises(UsageError, match="in use"):
                self.pool.remove(key)
            return
        assert self.pool.remove(key) == self.values.pop(key, None)
        self.held.pop(key, None)

    @rule(size=SIZES)
    def reserve(self, size: int) -> None:
        before = dict(self.values)
        had_room = self.total + size <= self.limit
        stalls = self.pool.stats().stalls
        got = self.pool.reserve(size)
        assert got == (self.pinned + self.reserved + size <= self.limit), "work gets what is not in use"
        self.others_gave_up()
        if got:
            self.reserved += size
        if had_room or not got:
            assert self.values == before, "P3: work evicted though there was room, or in vain"
        assert self.pool.stats().stalls - stalls == (got and not had_room)

    @rule(size=SIZES)
    def release(self, size: int) -> None:
        if size > self.reserved:
            with pytest.raises(UsageError, match="more than"):
                self.pool.release(size)
            return
        self.pool.release(size)
        self.reserved -= size

    @rule(
        limit=st.sampled_from([60, 100, 150]),
        free=st.sampled_from([0.0, 0.3, 0.8]),
        policy=st.sampled_from(["lru", "size", "hybrid"]),
    )
    def configure(self, limit: int, free: float, policy: Policy) -> None:
        self.pool.configure(limit_bytes=limit, keep_free=free, policy=policy)
        self.limit, self.free = limit, free
        self.others_gave_up()
        self.settled()

    def settled(self) -> None:
        soft = math.floor(self.limit * (1 - self.free))
        loose = sum(size for key, size in self.held.items() if key not in self.pins)
        assert not loose or loose + self.pinned <= soft, "P3: more is kept than keep_free allows"

    @invariant()
    def it_holds_what_the_model_holds(self) -> None:
        stats = self.pool.stats()
        assert (stats.bytes, stats.pinned_bytes, stats.reserved_bytes) == (self.total, self.pinned, self.reserved)
        assert {key for key in KEYS if key in self.pool} == set(self.held) == set(self.pool.keys())
        assert stats.entries == len(self.pool) == len(self.held)
        assert (stats.hits, stats.misses) == (self.hits, self.misses)
        in_use = self.pinned + self.reserved
        assert stats.bytes <= max(self.limit, in_use), "P1: above the limit"
        assert stats.low_bytes <= stats.bytes <= stats.high_bytes
        assert self.pool.free_bytes == max(0, self.limit - self.total)


LIFE = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
PLANTED = settings(LIFE, max_examples=400, database=None, phases=[Phase.generate], derandomize=True)


def test_the_rules_hold_under_any_interleaving() -> None:
    run_state_machine_as_test(Life, settings=LIFE)


class TakesPins(Pool):
    def unpin(self, key: str) -> None:
        for entry in self._entries.values():  # every pin goes, not one
            if entry.pins and entry.key != key:
                self._pinned -= entry.size
                entry.pins = 0
                self._order.used(entry)
        super().unpin(key)


class IgnoresWork(Pool):
    def _room(self) -> int:
        return self.limit_bytes


class EatsTheHeadroom(Pool):
    def _soft(self) -> int:
        return self.limit_bytes


class Forgets(Pool):
    def _tell(self, gone: list[Entry[str, int]]) -> None:
        super()._tell(gone[1:])


class WorksAnyway(Pool):
    def reserve(self, size_bytes: int) -> bool:
        self._reserved += size_bytes
        return True


@pytest.mark.parametrize("fault", [TakesPins, IgnoresWork, EatsTheHeadroom, Forgets, WorksAnyway])
def test_planted_faults_are_found(fault: type[Pool]) -> None:
    machine = type("Planted", (Life,), {"make": fault})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=PLANTED)


# ---- order


def filled(policy: Policy, sizes: dict[str, int], limit: int = 100) -> Pool:
    pool = Pool(limit, keep_free=0, policy=policy)
    for number, (key, size) in enumerate(sizes.items()):
        assert pool.put(key, number, size) == []
    return pool


def order(pool: Pool) -> list[str]:
    """In which order it gives its entries up."""
    gone: list[str] = []
    pool.on_evict = lambda key, _: gone.append(key)
    while pool.reserve(1):
        pass
    return gone


def test_lru_gives_up_what_was_longest_not_used() -> None:
    pool = filled("lru", {"a": 50, "b": 10, "c": 40})
    pool.get("a")
    assert order(pool) == ["b", "c", "a"]


def test_size_gives_up_the_largest_and_of_equals_the_oldest() -> None:
    pool = filled("size", {"a": 10, "b": 50, "c": 10, "d": 30})
    pool.get("a")
    assert order(pool) == ["b", "d", "c", "a"]


def test_hybrid_weighs_use_against_room() -> None:
    pool = filled("hybrid", {"large, used much": 50, "large": 40, "small": 10})
    for _ in range(5):
        pool.get("large, used much")
    assert order(pool) == ["large", "small", "large, used much"]


def test_with_hybrid_what_was_once_popular_fades() -> None:
    pool = filled("hybrid", {"once": 10})
    for _ in range(20):
        pool.get("once")
    for number in range(400):
        pool.put(f"new {number}", number, 10)
    assert "once" not in pool
    lately = filled("hybrid", {"still": 10})
    for number in range(400):
        lately.put(f"new {number}", number, 10)
        lately.get("still")
    assert "still" in lately


def test_an_unpinned_entry_counts_as_used_when_it_was_let_go() -> None:
    pool = filled("lru", {"a": 50, "b": 50})
    pool.pin("a")
    pool.get("b")
    pool.unpin("a")
    assert order(pool) == ["b", "a"]


def test_another_policy_orders_what_is_there() -> None:
    pool = filled("lru", {"a": 10, "b": 60, "c": 30})
    pool.configure(policy="size")
    assert order(pool) == ["b", "c", "a"]


# ---- counts


def test_everything_is_counted() -> None:
    pool = Pool(100, keep_free=0.5)
    pool.put("a", 1, 40)
    assert pool.get("a") == 1
    assert pool.get("b", 7) is None
    assert pool.put("c", 2, 60) == [("c", 2)]
    assert pool.reserve(30)
    assert pool.reserve(50)
    assert not pool.reserve(90)
    assert pool.put("d", 3, 20, pinned=True) == []
    pool.release(80)
    assert pool.stats() == PoolStats(
        limit_bytes=100,
        bytes=20,
        pinned_bytes=20,
        reserved_bytes=0,
        entries=1,
        high_bytes=100,
        low_bytes=20,
        hits=1,
        misses=1,
        hit_bytes=40,
        miss_bytes=7,
        evictions=1,
        evicted_bytes=40,
        rejected=1,
        stalls=1,
        refused=1,
    )
    pool.reset_marks()
    assert (pool.stats().high_bytes, pool.stats().low_bytes) == (20, 20)


def test_a_pinned_entry_that_had_to_evict_is_a_stall() -> None:
    pool = filled("lru", {"a": 60, "b": 40})
    assert pool.put("c", 9, 30, pinned=True) == [("a", 0)]
    assert pool.stats().stalls == 1


def test_a_limit_below_what_is_in_use_lets_nothing_new_in_until_it_has_gone() -> None:
    pool = Pool(100)
    pool.put("a", 1, 60, pinned=True)
    pool.configure(limit_bytes=50)
    assert pool.bytes == 60
    assert pool.free_bytes == 0
    assert not pool.reserve(1)
    assert pool.put("b", 2, 1) == [("b", 2)]
    pool.unpin("a")
    assert pool.bytes == 0
    assert pool.reserve(50)


def test_an_observer_may_call_the_pool() -> None:
    pool = Pool(100, keep_free=0)
    pool.on_evict = lambda key, value: pool.get(key)
    pool.put("a", 1, 100)
    assert pool.reserve(10)
    assert pool.stats().misses == 1


@pytest.mark.parametrize("policy", ["lru", "size", "hybrid"])
def test_what_it_remembers_of_removed_entries_is_bounded(policy: Policy) -> None:
    pool = Pool(1000, policy=policy)
    for number in range(3000):
        pool.put(f"k{number}", number, 10)
        pool.remove(f"k{number}")
    assert len(pool._order._heap) <= 65


def test_threads_share_it() -> None:
    pool: BytePool[int, int] = BytePool(10_000)

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(2000):
            key = draw.randrange(50)
            if pool.get(key) is None:
                pool.put(key, key, draw.randrange(1, 800))
            if pool.reserve(100):
                pool.release(100)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = pool.stats()
    assert stats.hits + stats.misses == 8000
    assert stats.reserved_bytes == 0
    assert 0 < stats.bytes <= 7000


# ---- which policy pays


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("exponent", [0.7, 0.9, 1.1])
def test_hybrid_hits_most_and_costs_no_bytes(share: float, exponent: float) -> None:
    trace = zipf(7, exponent)
    lru, size, hybrid = (hit_rates(trace, policy, share) for policy in ("lru", "size", "hybrid"))
    assert hybrid.requests >= max(lru.requests, size.requests)
    assert hybrid.bytes >= 0.95 * lru.bytes


def test_headroom_spares_work_the_evicting_and_costs_hits() -> None:
    runs = [headroom(keep_free) for keep_free in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)]
    for before, after in pairwise(runs):
        assert after.stalls <= before.stalls
        assert after.hits <= before.hits
        assert after.free >= before.free
    assert runs[0].stalls > 2 * runs[3].stalls > 0
    assert runs[5].stalls == 0
    assert runs[3].hits > 0.95 * runs[0].hits


@pytest.mark.parametrize("setting", [{"limit_bytes": 0}, {"keep_free": 1.0}, {"keep_free": -0.1}, {"policy": "fifo"}])
def test_wrong_settings_are_refused_and_change_nothing(setting: dict[str, object]) -> None:
    name = next(iter(setting))
    with pytest.raises(UsageError, match=name):
        BytePool(**{"limit_bytes": 10, **setting})  # type: ignore[arg-type]
    pool = filled("lru", {"a": 10})
    with pytest.raises(UsageError, match=name):
        pool.configure(**setting)  # type: ignore[arg-type]
    assert (pool.limit_bytes, pool.keep_free, pool.policy) == (100, 0, "lru")


def test_sizes_are_whole_numbers() -> None:
    pool = Pool(10)
    for call in (pool.reserve, pool.release, lambda size: pool.put("a", 1, size)):
        with pytest.raises(UsageError, match="size_bytes"):
            call(0)
