"""A whole tour in a real Chromium over a link that takes no more than 1,280 bytes at once."""

from __future__ import annotations

import pytest

from multimodal.bench.links_stage import play_behind
from multimodal.browser import launch
from multimodal.demos.product_tour.tour import demo_tour
from multimodal.sync.drift import drift_report
from multimodal.sync.link import LinkProfile
from tests.support import run

pytestmark = pytest.mark.browser

MTU_BYTES = 1232
"""What IPv6 leaves of 1,280 bytes to UDP; IPv4 leaves more."""


def test_a_tour_comes_complete_in_small_packets() -> None:
    async def scenario() -> None:
        async with launch() as browser:
            played = await play_behind(browser, demo_tour(), LinkProfile(delay=0.01, mtu_bytes=MTU_BYTES), speed=12.0)
        report = drift_report(played.log)
        assert played.log.text == "".join(demo_tour().plan.tokens)
        assert report.reveals_shown == report.reveals_expected == 16
        assert (report.events_lost, report.events_duplicated, report.events_out_of_order) == (0, 0, 0)
        assert played.down.too_large == 0, "the server sends what the link cannot take"
        assert played.down.delivered_bytes > 300_000

    run(scenario(), limit=120)
