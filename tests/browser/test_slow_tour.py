"""`multimodal bench slow-tour` in little: two products, one of them with a clip, at 4 Mb/s in a real Chromium."""

from __future__ import annotations

import msgspec

from multimodal.bench.slow_tour import Results, judge, whole_tour, without_pictures
from multimodal.bench.slow_tour_stage import DESKTOP, first_words, play_tours
from multimodal.browser import launch
from multimodal.pipes.images import ImageStore
from tests.support import run


def test_two_tours_in_one_browser_are_judged() -> None:
    tour = msgspec.structs.replace(whole_tour(products=2), store=ImageStore())

    async def main() -> Results:
        async with launch() as browser:
            desktop, again = await play_tours(browser, tour, DESKTOP, speed=3.0, times=2)
            pressed, started = await first_words(browser, without_pictures(tour), DESKTOP)
        # A frame's time is that of its beginning, which may lie before the arrival of what it shows.
        assert pressed > max(0.0, started)
        names = ("desktop", "desktop, second tour", "phone", "phone, warmed")
        tours = dict(zip(names, (desktop, again, desktop, desktop), strict=True))
        times = {name: [pressed] for name in ("pictures", "no pictures", "opens with a product")}
        return Results(tours, {8: desktop, 1: again}, times, times)

    results = run(main(), limit=240)
    desktop, again = results.tours["desktop"], results.tours["desktop, second tour"]
    expected = {image.key for product in tour.catalog.products[:2] for image in product.images}
    assert {each.key for each in desktop.shown} == {each.key for each in again.shown} == expected
    assert any(each.media_type == "video/webm" for each in desktop.shown), "the page lets its clips play"
    assert all(each.full or each.swapped for each in (*desktop.shown, *again.shown))
    assert desktop.picture_bytes > sum(each.size_bytes for each in desktop.shown) * 0.99
    assert again.picture_bytes == 0, "the browser holds them"
    found = judge(results)
    assert {entry["unit"] for entry in found["figures"]} == {"share", "cues", "reveals", "bytes", "%", "ms"}
    assert found["bench"] == "slow-tour"
