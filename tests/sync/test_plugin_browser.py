"""The fixture `browser_player`: a tour that is served and played on a real page, judged from all vantage points."""

from __future__ import annotations

import pytest

from tests.sync.test_plugin import project

__all__ = ["project"]
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.browser


def test_a_tour_on_a_real_page(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import asyncio
import pytest
from multimodal import UsageError
from multimodal.sync.kit import assert_all_mentions_shown, assert_in_sync

@pytest.mark.sync
def test_whole(browser_player):
    log = browser_player("--speed", "8").play()
    assert log.arrived and log.painted
    assert_all_mentions_shown(log)
    assert_in_sync(log, "strict", min_same_frame_share=0.9)

def test_driven_by_the_test(browser_player):
    async def some():
        async with browser_player("--speed", "4").open(viewport={"width": 390, "height": 844}) as player:
            await player.play()
            await player.until("playing")
            while await player.page.evaluate("document.querySelector('product-tour').log.length") < 20:
                await asyncio.sleep(0.05)
            return await player.log()
    log = asyncio.run(some())
    assert log.events and log.painted and log.end is None

def test_options_that_the_server_refuses(browser_player):
    with pytest.raises(UsageError, match="speed"):
        browser_player("--speed", "-1").play()
"""
    )
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
