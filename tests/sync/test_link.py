"""The simulated network: one table for each property, and laws that hold for all of them together."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.sync.link import PROFILES, LinkProfile, Network, SimulatedLink, network

Sends = list[tuple[int, float]]


def play(profile: LinkProfile, sends: Sends, seed: int = 0) -> list[list[float]]:
    link = SimulatedLink(profile, seed)
    return [link.send(size, now) for size, now in sends]


def rounded(times: list[list[float]]) -> list[list[float]]:
    return [[round(at, 6) for at in each] for each in times]


EVERY_10_MS: Sends = [(100, number / 100) for number in range(5)]


@pytest.mark.parametrize(
    ("profile", "sends", "expected"),
    [
        pytest.param({}, EVERY_10_MS, [[0.0], [0.01], [0.02], [0.03], [0.04]], id="nothing"),
        pytest.param({"delay": 0.5}, EVERY_10_MS, [[0.5], [0.51], [0.52], [0.53], [0.54]], id="delay"),
        pytest.param({"lose": (1, 3)}, EVERY_10_MS, [[0.0], [], [0.02], [], [0.04]], id="chosen datagrams"),
        pytest.param({"loss": 1.0}, EVERY_10_MS, [[], [], [], [], []], id="all lost"),
        pytest.param({"duplicate": 1.0}, EVERY_10_MS[:2], [[0.0, 0.0], [0.01, 0.01]], id="all doubled"),
        pytest.param(
            {"bytes_per_s": 1000},
            [(100, 0.0), (50, 0.0), (100, 1.0)],
            [[0.1], [0.15], [1.1]],
            id="rate, first in first",
        ),
        pytest.param(
            {"bytes_per_s": 1000, "queue_bytes": 200},
            [(100, 0.0), (100, 0.0), (1, 0.0), (1, 0.1), (100, 0.1)],
            [[0.1], [0.2], [], [0.201], []],
            id="queue: what does not fit is dropped, what was served makes room",
        ),
        pytest.param(
            {"bytes_per_s": 1000, "duplicate": 1.0}, [(100, 0.0), (100, 0.0)], [[0.1, 0.2], [0.3, 0.4]], id="copies pay"
        ),
        pytest.param(
            {"bytes_per_s": 1000, "duplicate": 1.0, "queue_bytes": 150}, [(100, 0.0)], [[0.1]], id="no room for a copy"
        ),
        pytest.param(
            {"bytes_per_s": 1000, "lose": (0,)}, [(100, 0.0), (100, 0.0)], [[], [0.2]], id="the lost have used the rate"
        ),
        pytest.param({"mtu_bytes": 1280}, [(1280, 0.0), (1281, 0.0)], [[0.0], []], id="mtu"),
        pytest.param(
            {"reorder": 1.0, "reorder_by": 0.015}, EVERY_10_MS[:2], [[0.015], [0.025]], id="all late, none waits"
        ),
        pytest.param(
            {"freeze": ((0.015, 0.035),)}, EVERY_10_MS, [[0.0], [0.01], [0.035], [0.035], [0.04]], id="freeze: held"
        ),
        pytest.param(
            {"freeze": ((0.05, 0.15),), "bytes_per_s": 1000},
            [(100, 0.0), (100, 0.0)],
            [[0.2], [0.3]],
            id="freeze, rate",
        ),
        pytest.param(
            {"freeze": ((0.1, 0.2), (0.25, 0.3)), "bytes_per_s": 1000}, [(200, 0.0)], [[0.35]], id="served between two"
        ),
        pytest.param(
            {"freeze": ((0.0, 1.0),), "queue_bytes": 250}, EVERY_10_MS, [[1.0], [1.0], [], [], []], id="freeze, queue"
        ),
        pytest.param({"cut": ((0.01, 0.03),)}, EVERY_10_MS, [[0.0], [], [], [0.03], [0.04]], id="cut: dropped"),
        pytest.param({"cut": ((0.02, math.inf),)}, EVERY_10_MS, [[0.0], [0.01], [], [], []], id="cut for ever"),
        pytest.param(
            {"cut": ((0.0, 0.5),), "delay": 1.0}, [(1, 0.4), (1, 0.5)], [[], [1.5]], id="a cut counts when sending"
        ),
    ],
)
def test_one_property(profile: dict[str, Any], sends: Sends, expected: list[list[float]]) -> None:
    assert rounded(play(LinkProfile(**profile), sends)) == expected


def test_jitter_is_uniform_and_keeps_order() -> None:
    # A second apart nothing waits for the one in front, so the draws show.
    late = [times[0] - now for times, (_, now) in zip(*spread(LinkProfile(jitter=0.3), 2000, 1.0), strict=True)]
    assert 0 <= min(late) < 0.003
    assert 0.297 < max(late) <= 0.3
    assert sum(late) / len(late) == pytest.approx(0.15, abs=0.01)
    dense, _ = spread(LinkProfile(jitter=0.3), 2000, 0.01)
    assert dense == sorted(dense)


def spread(profile: LinkProfile, count: int, gap: float) -> tuple[list[list[float]], Sends]:
    sends = [(100, number * gap) for number in range(count)]
    return play(profile, sends, seed=5), sends


@pytest.mark.parametrize("name", ["loss", "duplicate", "reorder"])
def test_a_probability_is_one(name: str) -> None:
    link = SimulatedLink(msgspec.convert({name: 0.2}, LinkProfile), 11)
    for number in range(5000):
        link.send(100, float(number))
    found = {"loss": link.counters.lost, "duplicate": link.counters.duplicated, "reorder": link.counters.reordered}
    assert found.pop(name) == pytest.approx(1000, abs=100)
    assert set(found.values()) == {0}


def test_a_reordered_datagram_is_overtaken() -> None:
    times, _ = spread(LinkProfile(reorder=0.1, reorder_by=0.05), 500, 0.01)
    overtaken = sum(later < earlier for (earlier,), (later,) in pairwise(times))
    assert 20 < overtaken < 80


def test_changing_one_property_leaves_the_draws_of_the_others() -> None:
    plain, _ = spread(LinkProfile(jitter=0.3, reorder=0.1), 500, 1.0)
    lossy, _ = spread(LinkProfile(jitter=0.3, reorder=0.1, loss=0.3, lose=(0,), cut=((100, 110),)), 500, 1.0)
    assert sum(not times for times in lossy) > 100
    assert all(times in ([], plain[number]) for number, times in enumerate(lossy))


def test_the_next_datagram_of_a_size_is_lost_once() -> None:
    link = SimulatedLink(LinkProfile())
    link.lose_next(200)
    assert [bool(link.send(size, 0.0)) for size in (50, 199, 200, 300)] == [True, True, False, True]
    assert link.counters.lost == 1


def test_windows_count_from_the_beginning() -> None:
    link = SimulatedLink(LinkProfile(cut=((1.0, 2.0),), freeze=((3.0, 4.0),)), began=100.0)
    assert [link.send(1, now) for now in (100.0, 101.5, 102.0, 103.5)] == [[100.0], [], [102.0], [104.0]]


def test_the_bottleneck_tells_when_it_is_free() -> None:
    link = SimulatedLink(LinkProfile(delay=5.0, bytes_per_s=1000))
    assert link.free_at == -math.inf
    link.send(500, 1.0)
    link.send(500, 1.0)
    assert link.free_at == 2.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delay": -1}, "delay=-1"),
        ({"jitter": math.nan}, "jitter=nan"),
        ({"reorder_by": math.inf}, "reorder_by=inf"),
        ({"loss": 1.5}, "loss=1.5 must be a probability"),
        ({"duplicate": -0.1}, "duplicate=-0.1"),
        ({"reorder": 2}, "reorder=2"),
        ({"bytes_per_s": 0}, "bytes_per_s=0"),
        ({"queue_bytes": 0}, "queue_bytes=0"),
        ({"mtu_bytes": 0}, "mtu_bytes=0"),
        ({"lose": (-1,)}, "counted from 0"),
        ({"freeze": ((2, 1),)}, r"freeze window \(2, 1\)"),
        ({"freeze": ((1, math.inf),)}, "what never goes on is a cut"),
        ({"cut": ((-1, 1),)}, "cut window"),
    ],
)
def test_a_figure_that_makes_no_sense_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LinkProfile(**wrong)


def test_time_never_goes_back() -> None:
    link = SimulatedLink(LinkProfile())
    link.send(1, 2.0)
    with pytest.raises(UsageError, match="time never goes back"):
        link.send(1, 1.0)


def test_networks_by_name_and_by_profile() -> None:
    assert {"good", "4g", "lossy", "slow", "jittery"} == set(PROFILES)
    assert network("slow") is PROFILES["slow"]
    one = LinkProfile(delay=0.1, jitter=0.02)
    assert network(one) == Network(one, one)
    assert network(one).round_trip == pytest.approx(0.22)
    with pytest.raises(UsageError, match="there is no network profile '5g'; there are: good, 4g, lossy, slow, jittery"):
        network("5g")


def test_a_profile_is_data() -> None:
    profile = LinkProfile(delay=0.1, loss=0.02, lose=(3,), freeze=((1.0, 2.0),))
    assert msgspec.json.decode(msgspec.json.encode(profile), type=LinkProfile) == profile


probability = st.sampled_from([0.0, 0.0, 0.1, 0.5])
windows = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0.01, 2)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=2
).map(tuple)
profiles = st.builds(
    LinkProfile,
    delay=st.floats(0, 1),
    jitter=st.sampled_from([0.0, 0.0, 0.3]),
    bytes_per_s=st.one_of(st.none(), st.floats(100, 1e6)),
    queue_bytes=st.integers(1, 20_000),
    loss=probability,
    lose=st.lists(st.integers(0, 40), max_size=3).map(tuple),
    reorder=probability,
    reorder_by=st.floats(0, 0.1),
    duplicate=probability,
    mtu_bytes=st.one_of(st.none(), st.integers(1, 2000)),
    freeze=windows,
    cut=windows,
)
gaps = st.lists(st.tuples(st.integers(0, 1500), st.sampled_from([0.0, 0.001, 0.02, 0.5])), max_size=60)
seeds = st.integers(0, 2**32)


def sent(each: list[tuple[int, float]]) -> Sends:
    now, found = 0.0, []
    for size, gap in each:
        now += gap
        found.append((size, now))
    return found


@given(profiles, gaps, seeds)
def test_laws_of_every_profile(profile: LinkProfile, each: list[tuple[int, float]], seed: int) -> None:
    link = SimulatedLink(profile, seed)
    sends = sent(each)
    times = [link.send(size, now) for size, now in sends]
    # The same seed and the same calls: the same log, byte for byte.
    assert msgspec.json.encode(play(profile, sends, seed)) == msgspec.json.encode(times)
    counters = link.counters
    assert (
        counters.sent
        == len(sends)
        == sum(
            (
                counters.delivered - counters.duplicated,
                counters.lost,
                counters.overflowed,
                counters.cut,
                counters.too_large,
            )
        )
    )
    assert counters.delivered == sum(map(len, times))
    assert counters.delivered_bytes == sum(size * len(at) for at, (size, _) in zip(times, sends, strict=True))
    assert all(len(at) <= 2 for at in times)
    for at, (size, now) in zip(times, sends, strict=True):
        work = size / profile.bytes_per_s if profile.bytes_per_s else 0.0
        assert all(arrival >= now + work + profile.delay - 1e-9 for arrival in at), "nothing arrives before its delay"
        if at:
            assert profile.mtu_bytes is None or size <= profile.mtu_bytes
            assert not any(begin <= now < end for begin, end in profile.cut)
    arrivals = [arrival for at in times for arrival in at]
    if not profile.reorder:
        assert arrivals == sorted(arrivals), "order is kept"
    if not (profile.reorder or profile.jitter):
        for arrival in arrivals:
            left = arrival - profile.delay
            assert not any(begin + 1e-9 < left < end - 1e-9 for begin, end in profile.freeze), "frozen is frozen"


@given(profiles, gaps, seeds)
def test_the_rate_is_never_exceeded_over_any_window(
    profile: LinkProfile, each: list[tuple[int, float]], seed: int
) -> None:
    rate = profile.bytes_per_s or 5000.0
    profile = msgspec.structs.replace(profile, bytes_per_s=rate, jitter=0.0, reorder=0.0)
    sends = sent(each)
    served = [(at, size) for times, (size, _) in zip(play(profile, sends, seed), sends, strict=True) for at in times]
    for number, (begin, _) in enumerate(served):
        taken = 0
        for end, size in served[number + 1 :]:
            # From the end of one datagram to the end of a later one, all between have been served.
            taken += size
            assert taken <= rate * (end - begin) + 1e-6 * rate


@given(profiles, gaps, seeds)
def test_the_queue_never_holds_more_than_its_bound(
    profile: LinkProfile, each: list[tuple[int, float]], seed: int
) -> None:
    profile = msgspec.structs.replace(
        profile, bytes_per_s=2000.0, jitter=0.0, reorder=0.0, loss=0.0, lose=(), delay=0.0
    )
    sends = sent(each)
    times = play(profile, sends, seed)
    for number, (_, now) in enumerate(sends):
        waiting = sum(
            size for at, (size, _) in zip(times[: number + 1], sends, strict=False) for leaves in at if leaves > now
        )
        assert waiting <= profile.queue_bytes
