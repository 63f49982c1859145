"""A real coturn between viewer and server, and no other way: by UDP, and by TCP where all UDP is dropped."""

from __future__ import annotations

import shutil

import pytest

from tests.coturn import MISSING
from tests.netns.hostile import cannot
from tests.netns.hostile_tour import Results, tours

SCENES = ("relay-udp", "relay-tcp")
ROLES = ("relayed", "look")

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def results() -> Results:
    """Both ways, an aiortc client and a Chromium in each."""
    if shutil.which("turnserver") is None:
        pytest.skip(MISSING)
    why = cannot()
    if why:
        pytest.skip(why)
    return tours(SCENES, *ROLES)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("scene", SCENES)
def test_a_tour_is_told_through_a_relay_alone(results: Results, scene: str, role: str) -> None:
    tour = results[scene, role]
    assert not isinstance(tour, str), tour
    tour.check()
    assert tour.allocations >= tour.viewers, "the relay gave no address: the tour went another way"
    if role == "relayed":
        assert tour.seen["kinds"] == ["relay"]
        assert tour.seen["pictures"] == ["1-hero", "2-spout", "3-handle"]
    else:
        assert tour.seen["connections"] == ["whep"]
        assert tour.seen["screen"].split() == tour.seen["text"].split()
        assert tour.seen["pictures"] == 3
