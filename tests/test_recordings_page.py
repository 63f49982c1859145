"""A recording in a real Chromium: its timeline without scripts, in both schemes, and its replay in the player."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser

from multimodal.events import AssetReserved, Reveal
from multimodal.sync.timeline import timeline_html
from tests.player.conftest import browser as browser
from tests.sync.tours import changed, index, tour

pytestmark = pytest.mark.browser
LONG = [f"word{number} " for number in range(400)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_long_timeline_is_drawn_without_scripts_and_loads_nothing(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    log = tour(tokens=LONG)
    page_file = tmp_path / "timeline.html"
    page_file.write_text(timeline_html(changed(log, index(log, Reveal, 2), product="mug")), encoding="utf-8")
    context = browser.new_context(
        java_script_enabled=False, color_scheme=scheme, viewport={"width": 1280, "height": 900}
    )
    try:
        page = context.new_page()
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto(page_file.as_uri())
        assert asked == [page_file.as_uri()]
        assert said == []
        assert page.locator("svg .words text").count() == 400
        # The page itself never scrolls sideways; the drawing in it does, and a link finds its place there.
        scroll = page.locator(".scroll").bounding_box()
        body = page.locator("body").bounding_box()
        assert scroll is not None
        assert body is not None
        assert body["width"] <= 1280
        page.locator("td a").nth(2).click()
        place = page.locator("#cue-2").bounding_box()
        assert place is not None
        assert scroll["x"] + 100 < place["x"] < scroll["x"] + scroll["width"]
        page.locator(".faults a").first.click()
        flag = page.locator("#flag-1").bounding_box()
        assert flag is not None
        assert scroll["x"] < flag["x"] < scroll["x"] + scroll["width"]
    finally:
        context.close()


def test_a_recording_plays_in_the_player_as_it_was_emitted(browser: Browser, tmp_path: Path) -> None:
    log = tour(late="placeholder", ready={"mug-1": 0.95})
    sized = [
        msgspec.structs.replace(event, width_px=640, height_px=480) if isinstance(event, AssetReserved) else event
        for event in log.events
    ]
    msgspec.structs.replace(log, events=tuple(sized), plan=None).write(tmp_path / "tour.jsonl")
    command = [sys.executable, "-m", "multimodal", "replay", str(tmp_path / "tour.jsonl"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    page = browser.new_page()
    try:
        assert server.stdout is not None
        page.goto(next(word for word in server.stdout.readline().split() if word.startswith("http")))
        page.evaluate("document.querySelector('product-tour').play()")
        page.wait_for_selector("product-tour[state=ended]")
        seen = page.evaluate(
            """(() => {
              const player = document.querySelector('product-tour');
              const words = [...player.shadowRoot.querySelectorAll('[part=word]')].map((word) => word.textContent);
              const arrived = player.log.filter((line) => line.vantage === 'arrived');
              return {state: player.state, words, kinds: arrived.map((line) => line.event.kind),
                      width: player.shadowRoot.querySelector('img[data-current]').naturalWidth};
            })()"""
        )
        assert seen["state"] == "ended"
        assert " ".join(seen["words"]) == " ".join(log.text.split())
        assert seen["kinds"] == [event.kind for event in log.events]
        assert seen["width"] == 640  # the drawn sheet, decoded and of the picture's size
    finally:
        page.close()
        server.kill()
        server.communicate()
