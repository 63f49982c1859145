"""The road of a real Chromium lost at every event of a tour: every word once, in order, and soon back."""

from __future__ import annotations

import pytest

from multimodal.browser import launch, open_page
from tests.fuzz.mutator import count
from tests.player.stage import EVENTS, READY, all_of_it, open_shop
from tests.support import run

pytestmark = pytest.mark.browser

CUTS = count("MULTIMODAL_CUTS", 10)


def test_the_road_is_cut_at_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    places = range(0, EVENTS, max(1, EVENTS // CUTS))
    closed: list[float] = []
    silent: list[float] = []

    async def scenario() -> None:
        async with open_shop(gap=0.015) as shop, launch() as browser:
            for number, at in enumerate(places):
                hole = number % 10 == 9  # it is noticed after three seconds only, so there are fewer of them
                async with open_page(browser) as page:
                    shop.begin(at, silent=hole)
                    await page.goto(shop.url)
                    await page.evaluate(READY)
                    await page.evaluate("tour.play()")
                    found = await all_of_it(shop, page)
                    assert len(found["seqs"]) >= EVENTS
                    roads = [(detail["road"], at_ms) for name, detail, at_ms in found["heard"] if name == "road"]
                    assert {road for road, _ in roads} == {"webrtc"}
                    if len(roads) > 1:
                        (silent if hole else closed).append(roads[-1][1] - shop.cut_at_ms)

    run(scenario(), limit=60 + 10 * len(places))
    assert len(closed) + len(silent) > len(places) * 0.9
    with capsys.disabled():
        print(
            f"\n{len(places)} cuts in Chromium: 0 lost, 0 doubled; back after {max(closed):.0f} ms at most where the "
            f"road was closed, {max(silent, default=0):.0f} ms where it fell silent"
        )
    assert max(closed) < 10_000
