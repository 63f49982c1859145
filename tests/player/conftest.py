"""A real Chromium per test module, and pages on which the player meets a peer that the test drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from multimodal.browser import CHROMIUM_ARGS, find_chromium

_HERE = Path(__file__).parent
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><body>
<script src="/peer.js"></script><script type="module" src="/product-tour.js"></script>
<main><product-tour src="/tour/whep/demo" {attributes}>{inside}</product-tour><p>below</p></main>
</body></html>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module: starting it takes longer than most of the tests."""
    with sync_playwright() as playwright:
        # Both peers live in one page: their mDNS names would need a resolver that a plain machine lacks.
        arguments = [*CHROMIUM_ARGS, "--disable-features=WebRtcHideLocalIpsWithMdns"]
        running = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield running
        running.close()


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens a page with the player on it: `opened(attributes='token="x"', inside="", **context_options)`.

    Errors that the page does not catch fail the test.
    """
    contexts = []
    errors: list[str] = []

    def open_page(attributes: str = "", inside: str = "", **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.route("**/*", lambda route: _answer(route, _PAGE.format(attributes=attributes, inside=inside)))
        # localhost: a secure context, as a shop's https page is; nothing listens there, every request is answered here.
        page.goto("http://localhost/")
        page.wait_for_function("() => !!customElements.get('product-tour')")
        page.evaluate("() => { window.tour = document.querySelector('product-tour'); window.root = tour.shadowRoot; }")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def _answer(route: Route, page: str) -> None:
    path = route.request.url.removeprefix("http://localhost")
    if path == "/":
        route.fulfill(body=page, content_type="text/html")
    elif path in {"/product-tour.js", "/product-tour-roads.js"}:
        script = resources.files("multimodal.player").joinpath(path[1:]).read_text(encoding="utf-8")
        route.fulfill(body=script, content_type="text/javascript")
    elif path == "/peer.js":
        route.fulfill(body=(_HERE / "peer.js").read_text(encoding="utf-8"), content_type="text/javascript")
    elif route.request.method == "DELETE":
        route.fulfill(status=200)
    else:
        route.fulfill(status=404)


@pytest.fixture
def playing(opened: Opened) -> Opened:
    """As `opened`, and the tour has begun: `start` was applied, and the module that finds roads is there."""

    def play(attributes: str = "", **options: Any) -> Page:
        page = opened(attributes, **options)
        page.evaluate(
            """async () => {
              let road;
              tour.addEventListener('tour-road', () => road = true, {once: true});
              tour.play();
              await until(() => peer.of('hello').length === 1);
              const kettle = {id: 'k', title: 'Halo Kettle', price: '89.00', currency: 'EUR', aliases: [], url: ''};
              peer.bundle(peer.start([kettle]));
              await until(() => peer.of('painted').length === 1 && road);
            }"""
        )
        return page

    return play
