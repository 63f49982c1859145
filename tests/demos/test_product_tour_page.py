"""The shop's page around the player: what it says, what it loads, and that it stands still."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route
from starlette.routing import Route as HttpRoute

from multimodal.demos.product_tour import PRODUCTS_LISTED, build_routes, render
from multimodal.values import Product
from tests.support import run

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf50cf000003860181f3b8e7980000000049454e44ae426082"
)
PRODUCTS = (
    Product("kettle", "Halo Kettle", description="Pours slowly.", price=Decimal("89.00"), currency="EUR"),
    Product("mug", "Mug <b>&</b>", price=Decimal("24.50"), currency="CHF"),
    Product("vase", "Vase"),
)


def _get(routes: list[Any], path: str) -> tuple[dict[str, str], bytes]:
    """What a route answers, without a server or a client library."""
    route = next(route for route in routes if isinstance(route, HttpRoute) and route.path == path)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    run(route.handle(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert sent[0]["status"] == 200
    return headers, b"".join(message.get("body", b"") for message in sent[1:])


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.urls += [value for name, value in attrs if name in {"src", "href", "poster"} and value]
        self.inline += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


def test_it_loads_nothing_from_elsewhere_and_holds_no_inline_script() -> None:
    page = render("Larkmoor", "Well made", products=PRODUCTS, poster=True)
    links = _Links()
    links.feed(page)
    assert links.inline == []
    assert [url for url in links.urls if not url.startswith(("#", "/tour/", "./", "data:,"))] == [
        "style.css",
        "page.js",
        "poster",
    ]
    styles = resources.files("multimodal.demos.product_tour").joinpath("style.css").read_text(encoding="utf-8")
    assert "url(" not in styles
    assert "@import" not in styles


def test_what_a_catalogue_says_is_escaped() -> None:
    bad = '"><script>alert(1)</script>'
    product = Product(bad, bad, description=bad, currency=bad, price=Decimal(1))
    page = render(bad, bad, language=bad, products=[product], tour=bad, player=bad)
    assert "<script>alert" not in page
    assert page.count("<script") == render("a").count("<script")
    assert "$name" in render("$name costs $5"), "a dollar in a catalogue is only a dollar"


def test_prices_and_titles_are_listed_in_order() -> None:
    page = render("Shop", products=PRODUCTS)
    titles = re.findall(r'<h3>(.*?)</h3><span class="price">(.*?)</span>', page)
    assert titles == [("Halo Kettle", "€89.00"), ("Mug &lt;b&gt;&amp;&lt;/b&gt;", "CHF 24.50"), ("Vase", "")]
    many = [Product(str(i), str(i)) for i in range(PRODUCTS_LISTED + 5)]
    assert render("Shop", products=many).count("<li data-product") == PRODUCTS_LISTED
    assert "29 things" in render("Shop", products=many)


def test_every_route_answers_with_its_type_and_a_strict_policy() -> None:
    routes = build_routes("Shop", products=PRODUCTS, poster=_PNG)
    types = {}
    for path in ("/", "/style.css", "/page.js", "/poster"):
        headers, body = _get(routes, path)
        types[path] = headers["content-type"].partition(";")[0]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert body
    assert types == {"/": "text/html", "/style.css": "text/css", "/page.js": "text/javascript", "/poster": "image/png"}
    assert not any(getattr(route, "path", "") == "/poster" for route in build_routes("Shop"))


def test_the_shop_is_there_for_programs_too() -> None:
    headers, body = _get(build_routes("Shop", "Line", language="de", products=PRODUCTS[:1]), "/api/shop")
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {
        "name": "Shop",
        "tagline": "Line",
        "language": "de",
        "narrator": "",
        "tour": "/tour/whep/demo",
        "products": [{"id": "kettle", "title": "Halo Kettle", "price": "89.00", "currency": "EUR", "url": ""}],
    }


@pytest.fixture
def visit(browser: Browser) -> Iterator[Any]:
    """Opens the page with a peer in it, under its own content security policy."""
    contexts = []
    routes = build_routes("Larkmoor", "Well-made things", products=PRODUCTS, poster=_PNG)
    peer = (Path(__file__).parents[1] / "player" / "peer.js").read_text(encoding="utf-8")
    player = resources.files("multimodal.player")
    outside: list[str] = []
    errors: list[str] = []
    answers = {path: _answers(routes, path) for path in ("/", "/style.css", "/page.js", "/poster")}

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix("http://localhost")
        if path.startswith("/tour/player/"):
            script = player.joinpath(path.rpartition("/")[2]).read_text(encoding="utf-8")
            route.fulfill(body=script, content_type="text/javascript")
        elif path.startswith("/tour/whep/"):
            route.fulfill(status=200)
        elif path in answers:
            headers, body = answers[path]
            route.fulfill(body=body, headers=headers)
        else:
            outside.append(route.request.url)
            route.abort()

    def open_page(**options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.add_init_script(peer)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.route("**/*", answer)
        page.goto("http://localhost/")
        page.evaluate("() => { window.tour = document.querySelector('product-tour'); window.root = tour.shadowRoot; }")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert outside == []
    assert errors == []


def _answers(routes: list[Any], path: str) -> tuple[dict[str, str], bytes]:
    """As `_get`, in a thread: sync Playwright keeps a loop running in this one."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_get, routes, path).result()


_TOUR = """async () => {
  root.querySelector('.start').click();
  await until(() => peer.of('hello').length);
  const products = [{id: 'kettle', title: 'Halo Kettle', price: '89.00', currency: 'EUR', aliases: [], url: ''}];
  peer.bundle(peer.start(products));
  await peer.give('k', {product: 'kettle'});
  for (let i = 0; i < 41; i++) {
    peer.bundle(peer.text('a few more words '), peer.mark());
    if (i % 10 === 9) await frames2();
  }
  peer.bundle(peer.text('the kettle '), peer.mark(), peer.reveal('k', {product: 'kettle', anchor: peer.tok - 1}));
  await until(() => document.querySelector('[data-live=reveals]').textContent === '1');
}"""


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_it_plays_stands_still_and_shows_its_own_measurements(visit: Any, width: int, height: int) -> None:
    page = visit(viewport={"width": width, "height": height})
    page.evaluate(_TOUR)
    result = page.evaluate(
        """async () => ({live: Object.fromEntries(
                     Array.from(document.querySelectorAll('[data-live]'), (e) => [e.dataset.live, e.textContent])),
                   current: document.querySelector('.range [aria-current]').dataset.product,
                   wide: document.documentElement.scrollWidth - innerWidth, shift: await shifted(),
                   stage: root.querySelector('[part=stage]').getBoundingClientRect().bottom <= innerHeight,
                   words: root.querySelector('[part=text]').getBoundingClientRect().bottom <= innerHeight,
                   focus: root.activeElement?.className})"""
    )
    assert result == {
        "live": {"reveals": "1", "drift": "1 of 2 allowed", "skew": "0 ms / 0 ms", "same": "1 of 1"},
        "current": "kettle",
        "wide": 0,
        "shift": 0,
        "stage": True,
        "words": True,
        "focus": "button play",
    }


def test_the_list_follows_the_words_also_where_no_picture_comes(visit: Any) -> None:
    page = visit()
    page.evaluate(_TOUR)
    marks = page.evaluate(
        """async () => {
          const current = () => document.querySelector('.range [aria-current]')?.dataset.product ?? '', marks = [];
          const vase = peer.event('missed', {cue: 1, key: 'v', anchor: peer.tok, reason: 'not_found', product: 'vase'});
          for (const [event, expected] of [[vase, 'vase'], [peer.interrupt(), '']]) {
            peer.bundle(event);
            await until(() => current() === expected);
            marks.push(current());
          }
          return marks;
        }"""
    )
    assert marks == ["vase", ""]


def test_the_poster_stands_until_the_first_picture(visit: Any) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    poster = page.locator("product-tour > img")
    page.evaluate("tour.play()")
    assert poster.is_visible()
    page.evaluate(_TOUR)
    assert not poster.is_visible()


def test_a_page_from_right_to_left_does_not_scroll_sideways(visit: Any) -> None:
    page = visit(viewport={"width": 390, "height": 844})
    page.evaluate("document.documentElement.dir = 'rtl'")
    page.evaluate(_TOUR)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0


def test_dark_and_light_have_readable_words(visit: Any) -> None:
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        ink, soft, paper = page.evaluate(
            """() => {
              const colour = (element, name) => getComputedStyle(element)[name].match(/\\d+/g).slice(0, 3).map(Number);
              return [colour(document.body, 'color'), colour(document.querySelector('.tagline'), 'color'),
                      colour(document.body, 'backgroundColor')];
            }"""
        )
        assert _contrast(ink, paper) > 7
        assert _contrast(soft, paper) > 4.5


def _contrast(first: list[int], second: list[int]) -> float:
    """The contrast ratio of WCAG 2.2."""

    def light(colour: list[int]) -> float:
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bright, dark = sorted((light(first), light(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
