"""A tour in a page with its peer, and what is asked of it by the tests of roads and returns."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.player.conftest import Opened

__all__ = ["KETTLE", "ROADS", "SEEN", "WORDS", "begun"]

WORDS = "root.querySelector('[part=text] div').textContent"
SEEN = "tour.log.filter((e) => e.vantage === 'arrived').map((e) => e.seq)"
ROADS = "tour.addEventListener('tour-road', ({detail}) => (window.roads ??= []).push(detail))"
KETTLE = "{id: 'k', title: 'Halo Kettle', price: '89.00', currency: 'EUR', aliases: [], url: ''}"


def begun(opened: Opened, set_up: str, attributes: str = "") -> Page:
    """A tour that is being begun, after `set_up`."""
    page = opened(attributes)
    page.evaluate(f"() => {{ {ROADS}; {set_up}; tour.play(); }}")
    return page
