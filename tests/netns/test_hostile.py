"""Where UDP is dropped, upgrades are refused or packets are small, a tour finds its way, whole and in time."""

from __future__ import annotations

import os

import pytest

from tests.netns.hostile import cannot
from tests.netns.hostile_tour import BUSY_LIMIT, SCENES, SWITCH_LIMIT, Results, tours

NAMES = tuple(name for name, scene in SCENES.items() if not scene.relay)
EVERY = os.environ.get("MULTIMODAL_NETWORKS") == "all"
IN_A_BROWSER = NAMES if EVERY else ("udp-lost", "no-upgrade", "small-mtu")
"""A Chromium costs four seconds of a core in each; `make soak` has one in all of them."""
PAIRS = [*((name, "watch") for name in NAMES), *((name, "look") for name in IN_A_BROWSER)]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def results() -> Results:
    """Every network, a Python viewer and a Chromium in each."""
    why = cannot()
    if why:
        pytest.skip(why)
    return {
        **tours(IN_A_BROWSER, "watch", "look"),
        **tours([name for name in NAMES if name not in IN_A_BROWSER], "watch"),
    }


@pytest.mark.parametrize(("name", "role"), PAIRS)
def test_a_tour_finds_its_way(results: Results, name: str, role: str) -> None:
    tour = results[name, role]
    assert not isinstance(tour, str), tour
    tour.check()
    assert tour.seen["connections"] == list(SCENES[name].roads)
    limit = SWITCH_LIMIT if EVERY else BUSY_LIMIT
    assert tour.seen["first"] <= limit
    assert tour.seen["gap"] <= limit
    if role == "look":
        assert tour.seen["screen"].split() == tour.seen["text"].split()
        assert tour.seen["pictures"] == 3
    else:
        assert tour.seen["pictures"] == ["1-hero", "2-spout", "3-handle"]
