"""A real Chromium whose network is gone for a while, and nobody is told: every word once, and soon after its return."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from multimodal.browser import launch, open_page
from tests.fuzz.mutator import count
from tests.player.stage import EVENTS, READY, Shop, all_of_it, open_shop
from tests.support import run

pytestmark = pytest.mark.browser

AWAY = (0.5, 2.0, 3.5)
"""Seconds: the road outlives the first two, and is given up in the third, half a second before the return."""
PLACES = count("MULTIMODAL_CUTS", 10) // 10
"""Events at which it goes, for each length; `make soak` asks for twelve."""
BAR_MS = 2000.0
"""From the network's return to the next event that is painted."""


async def _play(shop: Shop, browser: Any, at: int, away: float) -> tuple[float, list[str]]:
    """Milliseconds from the return to the next painted event, and the roads of the tour."""
    async with open_page(browser) as page:
        shop.begin_outage(at, away)
        await page.goto(shop.url)
        await page.evaluate(READY)
        await page.evaluate("tour.play()")
        found = await all_of_it(shop, page)
        assert len(found["seqs"]) >= EVENTS
        painted: list[float] = await page.evaluate(
            "tour.log.filter((line) => line.vantage === 'painted').map((line) => performance.timeOrigin + line.t_ms)"
        )
        roads = [detail["road"] for name, detail, _ in found["heard"] if name == "road"]
        return min(at_ms for at_ms in painted if at_ms > shop.restored_at_ms) - shop.restored_at_ms, roads


def test_the_next_event_comes_soon_after_the_networks_return(capsys: pytest.CaptureFixture[str]) -> None:
    took: dict[float, list[tuple[float, int, list[str]]]] = {away: [] for away in AWAY}
    todo: Iterator[tuple[int, float]] = iter(
        [(EVENTS * (2 * number + 1) // (2 * PLACES), away) for number in range(PLACES) for away in AWAY]
    )

    async def work(browser: Any) -> None:
        async with open_shop(gap=0.05, far=True) as shop:
            for at, away in todo:
                back_ms, roads = await _play(shop, browser, at, away)
                took[away].append((back_ms, at, roads))

    async def scenario() -> None:
        async with launch() as browser, asyncio.TaskGroup() as group:
            for _ in AWAY:
                group.create_task(work(browser))

    run(scenario(), limit=90.0 + 20.0 * PLACES)
    with capsys.disabled():
        print()
        for away, each in took.items():
            worst, at, roads = max(each)
            print(
                f"{len(each)} silent outages of {away:g} s in Chromium: 0 lost, 0 doubled; the next event is painted "
                f"{worst:.0f} ms after the return at most (event {at}, {'-'.join(roads)}); bar {BAR_MS:g} ms, "
                f"{sum(back_ms > BAR_MS for back_ms, _, _ in each)} above"
            )
    # Wide: other work on this machine must not fail it. The bar is two seconds, and what was measured stands above.
    assert max(back_ms for each in took.values() for back_ms, _, _ in each) < 3 * BAR_MS
