"""The whole method in a real Chromium: an honest page, and pages with one fault each.

The limits are wide, because a busy machine drops frames and those come out undetermined; what may never happen is that
an honest page is called apart, or a split one the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from multimodal.browser import launch, open_page
from multimodal.errors import UsageError
from multimodal.glass import GlassReport, watch
from tests.glass.stage import FAULTS, film, reveals
from tests.support import run

pytestmark = pytest.mark.browser

Reports = dict[str, GlassReport]


@pytest.fixture(scope="module")
def reports() -> Reports:
    """One Chromium plays the honest page (20 pairs), each fault (6), and the honest page in a larger viewport (6)."""

    async def scenario() -> Reports:
        found: Reports = {}
        async with launch() as browser:
            for name, pairs in {"": 20, **dict.fromkeys(FAULTS, 6)}.items():
                seen, log = await film(browser, pairs, name)
                found[name] = seen.report(reveals(pairs), log)
            seen, log = await film(browser, 6, viewport={"width": 1000, "height": 700})
            found["large"] = seen.report(reveals(6), log)
        return found

    return run(scenario(), limit=180)


def verdicts(report: GlassReport) -> Counter[Any]:
    return Counter(pair.verdict for pair in report.pairs)


@pytest.mark.parametrize("page", ["", "large"])
def test_an_honest_page_is_same(reports: Reports, page: str) -> None:
    found = verdicts(reports[page])
    assert found["apart"] == 0, reports[page].pairs
    assert found["same"] >= 0.5 * found.total(), reports[page].pairs
    assert reports[page].layout_shift <= 0.001
    assert reports[page].disagreements == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(reports: Reports, fault: str) -> None:
    found = verdicts(reports[fault])
    if fault != "undecoded":  # a decoder that is quicker than a starved compositor is in time after all
        assert found["same"] == 0, reports[fault].pairs
    assert found["apart"] >= 0.5 * found.total(), reports[fault].pairs


@pytest.mark.parametrize("fault", ["late", "early", "never", "undecoded"])
def test_receipts_that_lie_are_found_out(reports: Reports, fault: str) -> None:
    assert reports[fault].disagreements == verdicts(reports[fault])["apart"]


def test_true_receipts_of_a_split_agree(reports: Reports) -> None:
    assert reports["split"].disagreements == 0


def test_distances_are_in_frames(reports: Reports) -> None:
    for fault, frames in {"split": 1, "late": 3, "early": -2}.items():
        apart = [pair.apart_frames for pair in reports[fault].pairs if pair.apart_frames is not None]
        assert frames in apart, (fault, apart)


def test_what_the_block_raises_comes_out_as_it_is() -> None:
    async def scenario() -> None:
        async with launch() as browser, open_page(browser, viewport={"width": 300, "height": 300}) as page:
            with pytest.raises(ZeroDivisionError):
                async with watch(page):
                    raise ZeroDivisionError
            async with watch(page) as again:
                await page.goto("about:blank")
            assert again.report([]).pairs == ()
            async with watch(page):
                await page.close()

    run(scenario())


def test_a_page_without_a_size_is_refused() -> None:
    async def scenario() -> None:
        async with launch() as browser, open_page(browser, no_viewport=True) as page:
            with pytest.raises(UsageError, match="viewport"):
                async with watch(page):
                    pass

    run(scenario())
