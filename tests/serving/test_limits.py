"""Buckets, quotas and addresses, on a clock that is an argument."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.serving.limits import Buckets, Proxies, Quotas, Traffic, network_of
from multimodal.serving.signalling import Problem
from multimodal.transport.bucket import Bucket, Rate

NOW = 1_800_000_000.0


# ---- one bucket ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "burst"), [(1.0, 1), (20 / 60, 10), (200.0, 400), (1000.0, 1)])
@pytest.mark.parametrize("begin", [0.0, NOW])
def test_a_burst_at_once_and_then_one_each_interval(rate: float, burst: int, begin: float) -> None:
    bucket = Bucket(Rate(rate, burst))
    assert [bucket.take(begin) for _ in range(burst)] == [0.0] * burst
    wait = bucket.take(begin)
    assert wait == pytest.approx(1 / rate, rel=0.02)
    assert bucket.take(begin + wait * 0.9) > 0
    now = begin
    for number in range(1, 50):
        now = begin + number / rate
        assert bucket.take(now) == 0, number
        assert bucket.take(now) > 0, number
    assert [bucket.take(now + 2 * burst / rate) for _ in range(burst + 1)].count(0.0) == burst


def test_a_refusal_takes_nothing_and_a_clock_that_steps_back_gives_nothing() -> None:
    bucket = Bucket(Rate(1, 2))
    assert bucket.take(10) == bucket.take(10) == 0
    waits = {bucket.take(10) for _ in range(100)}
    assert waits == {1.0}
    assert bucket.take(5) == pytest.approx(6.0)
    assert bucket.take(11) == 0


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5), st.sampled_from([0.5, 1.0, 4.0]))
def test_no_more_than_rate_and_burst_in_any_stretch(gaps: list[float], burst: int, rate: float) -> None:
    bucket, now, taken = Bucket(Rate(rate, burst)), NOW, []
    for gap in gaps:
        now += gap
        if bucket.take(now) == 0:
            taken.append(now)
    for first, begin in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + rate * (taken[last] - begin) + 0.01


@pytest.mark.parametrize(
    ("rate", "burst"), [(0, 1), (-1, 1), (math.nan, 1), ("1", 1), (True, 1), (1, 0), (1, 1.5), (1, True)]
)
def test_rates_that_are_none(rate: Any, burst: Any) -> None:
    with pytest.raises(UsageError, match="must be"):
        Rate(rate, burst)


# ---- many buckets ----------------------------------------------------------------------------------------------------


def test_keys_do_not_know_of_each_other() -> None:
    buckets = Buckets(Rate(1, 1))
    assert buckets.take("a", NOW) == 0
    assert buckets.take("a", NOW) > 0
    assert buckets.take("b", NOW) == 0


def test_nobody_resets_his_own_bucket_by_filling_the_table() -> None:
    buckets = Buckets(Rate(1 / 60, 1), limit=100)
    assert buckets.take("attacker", NOW) == 0
    for number in range(10_000):
        buckets.take(f"helper {number}", NOW + number / 1000)
    assert buckets.take("attacker", NOW + 20) == pytest.approx(40, abs=1)
    assert len(buckets) <= 100
    assert buckets.shared >= 9_900


def test_no_entry_is_dropped_before_its_time() -> None:
    buckets = Buckets(Rate(1, 1), limit=100)
    for number in range(50):
        assert buckets.take(f"{number}", NOW) == 0
    for number in range(1000):
        buckets.take(f"helper {number}", NOW + 0.9)
    assert all(buckets.take(f"{number}", NOW + 0.95) > 0 for number in range(50))
    assert all(buckets.take(f"{number}", NOW + 1.01) == 0 for number in range(50))


def test_a_full_table_still_lets_few_through() -> None:
    buckets = Buckets(Rate(1 / 60, 1), limit=10)
    through = sum(buckets.take(f"helper {number}", NOW) == 0 for number in range(10_000))
    assert through <= 10 + 64


def test_what_remembers_nothing_is_dropped_and_the_table_serves_again() -> None:
    buckets = Buckets(Rate(1, 1), limit=100)
    for number in range(100):
        assert buckets.take(f"early {number}", NOW) == 0
    assert all(buckets.take(f"late {number}", NOW + 5 + number) == 0 for number in range(1000))
    assert buckets.shared == 0
    assert len(buckets) <= 100


def test_no_limit_remembers_nobody() -> None:
    buckets = Buckets(Rate(math.inf, 1))
    assert {buckets.take(f"{number % 3}", NOW) for number in range(1000)} == {0.0}
    assert len(buckets) == 0


# ---- quotas ----------------------------------------------------------------------------------------------------------


def refused(call: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        call()
    assert caught.value.status == 429
    assert int(caught.value.headers["Retry-After"]) >= 1
    return caught.value


def test_the_defaults_are_what_the_documentation_says() -> None:
    traffic = Traffic()
    for _ in range(10):
        traffic.join("a", NOW)
    problem = refused(lambda: traffic.join("a", NOW))
    assert (problem.code, problem.headers["Retry-After"]) == ("too_many_requests", "3")
    traffic.join("a", NOW + 3)
    for _ in range(8):
        traffic.sit("a")
    assert refused(lambda: traffic.sit("a")).code == "too_many_sessions"
    traffic.sit("b")
    traffic.stand("a")
    traffic.sit("a")
    assert traffic.seats("a") == 8
    assert traffic.refused == 2


def test_each_kind_has_its_own_bucket() -> None:
    traffic = Traffic(Quotas(1, 1, 1, 1, 1, 1, 1, 1))
    traffic.open("a")
    assert refused(lambda: traffic.open("a")).code == "too_many_requests"
    traffic.open("b")
    traffic.close("a")
    traffic.open("a")
    for ask in (traffic.request, traffic.join, traffic.come_back):
        ask("a", NOW)
        assert refused(lambda ask=ask: ask("a", NOW)).code == "too_many_requests"


def test_a_player_that_tries_once_a_second_on_two_roads_is_never_refused() -> None:
    traffic = Traffic()
    for second in range(600):
        traffic.come_back("seat", NOW + second)
        traffic.come_back("seat", NOW + second)
    assert traffic.refused == 0


def test_seats_that_nobody_counted_do_no_harm() -> None:
    traffic = Traffic()
    traffic.stand("never here")
    traffic.close("never here")
    assert traffic.seats("never here") == 0


def test_no_limits() -> None:
    traffic = Traffic(Quotas.unlimited())
    for _ in range(2000):
        traffic.request("a", NOW)
        traffic.join("a", NOW)
        traffic.come_back("a", NOW)
        traffic.sit("a")
    assert traffic.refused == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"joins_per_minute": 0},
        {"joins_burst": 1.5},
        {"seats_per_address": 0},
        {"seats_per_address": math.inf},
        {"returns_per_minute": "many"},
        {"requests_burst": True},
        {"requests_per_second": math.nan},
    ],
)
def test_quotas_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Quotas(**wrong)


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("testclient", "testclient"),
        ("", "unknown"),
    ],
)
def test_who_an_address_stands_for(address: str, key: str) -> None:
    assert network_of(address) == key


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        # Not from a proxy: whatever it says.
        ("192.0.2.7", ["203.0.113.1"], "192.0.2.7"),
        ("10.0.0.1", ["203.0.113.1"], "203.0.113.1"),
        ("10.0.0.1", ["198.51.100.9, 203.0.113.1"], "203.0.113.1"),
        ("10.0.0.1", ["198.51.100.9", "203.0.113.1"], "203.0.113.1"),
        ("10.0.0.1", ["203.0.113.1, 10.0.0.2"], "203.0.113.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.1:4711"], "203.0.113.1"),
        ("10.0.0.1", ["[2001:db8:1:2::5]:4711"], "2001:db8:1:2::/64"),
        ("10.0.0.1", ["2001:db8:1:2::5"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["203.0.113.1"], "203.0.113.1"),
        ("2001:db8:ffff::9", ["203.0.113.1"], "203.0.113.1"),
        # What is no address cannot be believed, nor can what stands before it.
        ("10.0.0.1", ["203.0.113.1, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [",,,"], "10.0.0.1"),
        ("10.0.0.1", ["127.1"], "10.0.0.1"),
        ("", ["203.0.113.1"], "unknown"),
        ("/run/socket", ["203.0.113.1"], "/run/socket"),
    ],
)
def test_only_proxies_that_are_trusted_may_name_another_address(peer: str, forwarded: list[str], client: str) -> None:
    assert Proxies(["10.0.0.0/8", "2001:db8:ffff::/48"]).client(peer, forwarded) == client


def test_without_trusted_proxies_the_header_says_nothing() -> None:
    assert Proxies().client("127.0.0.1", ["203.0.113.1"]) == "127.0.0.1"


@pytest.mark.parametrize("trusted", [["proxy.example"], ["10.0.0.0/99"], [""], "10.0.0.0/8", [None]])
def test_proxies_that_are_no_addresses(trusted: Any) -> None:
    with pytest.raises(UsageError, match="trusted_proxies"):
        Proxies(trusted)
