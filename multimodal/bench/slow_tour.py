"""The whole demo catalogue on a slow link: is each picture there when its words come, and do words wait for it.

Chromium plays it behind a UDP relay of 4 Mb/s and 100 ms; server, relay and picture encoder share this process, so
every figure contains the work of all. The tour opens with a sentence of welcome, names each product once and shows all
of its pictures: the first at its name, further ones evenly until the next product. Nothing is encoded beforehand but
where it says so. Words start as they do without pictures because no picture belongs to the first of them; what it costs
to open with a product, whose picture the first word then waits for (`preroll`), is stated beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.bench.report import Figure, figure, report
from multimodal.bench.slow_tour_stage import DESKTOP, PHONE, TourSeen, first_words, looking_ahead, play_tours
from multimodal.browser import launch
from multimodal.demos.product_tour.tour import Tour, told
from multimodal.events import CueMissed
from multimodal.pictures import LOOK_AHEAD
from multimodal.pipes.catalog import Catalog, load_catalog
from multimodal.pipes.images import ImageStore
from multimodal.pipes.script import split_tokens
from multimodal.sync.cues import Segment, TourPlan, plan_tour
from multimodal.values import Cue

if TYPE_CHECKING:
    from playwright.async_api import Browser

SHARE_BAR, FIRST_TEXT_BAR = 0.95, 5.0
"""Least share of reveals with their full picture decoded; most percent by which pictures may delay the first text."""


_PAIR = ("pictures", "no pictures")
_OPENINGS = 5
"""Rounds that also play the tour which opens with a product: its first text is stated, not judged."""


class Lengths(msgspec.Struct, frozen=True):
    """How long a run is: speed of the tours that are judged, of those beside, and pairs of first words."""

    speed: float = 1.0
    beside: float = 1.0
    pairs: int = 21


QUICK = Lengths(speed=6.0, beside=6.0, pairs=2)


class Results(msgspec.Struct, frozen=True):
    """What a run gave.

    Args:
        tours: by name, those that are judged.
        beside: tours by how many pictures are asked for before they are due.
        first: milliseconds to the first text from the press of the button, by kind of tour.
        answered: the same from the arrival of `start`.
    """

    tours: dict[str, TourSeen]
    beside: dict[int, TourSeen]
    first: dict[str, list[float]]
    answered: dict[str, list[float]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About seven times as long as the tour; `--quick` about two minutes, and its figures judge nothing."""
    return judge(asyncio.run(play(QUICK if options.quick else Lengths())))


def whole_tour(*, welcome: bool = True, products: int | None = None) -> Tour:
    """The demo catalogue, every product and every picture.

    Args:
        welcome: a sentence of no product goes before the first.
        products: only so many of them; None = all.
    """
    catalog = load_catalog(Path(str(files("multimodal.assets"))) / "demo" / "catalog.json")
    shop = catalog.shop
    opening = [Segment(f"Welcome to {shop.name}. {shop.tagline}")] if welcome else []
    segments = [*opening, *(Segment(told(product), product.id) for product in catalog.products[:products])]
    plan = plan_tour(segments, catalog.products, split_tokens)
    return Tour(shop.name, shop.tagline, "en", catalog, _every_picture(catalog, plan))


def without_pictures(tour: Tour) -> Tour:
    """The same words on the same page, and no picture to them."""
    return msgspec.structs.replace(tour, plan=msgspec.structs.replace(tour.plan, cues=()))


def _every_picture(catalog: Catalog, plan: TourPlan) -> TourPlan:
    images = {product.id: product.images for product in catalog.products}
    ends = [*plan.starts[1:], len(plan.tokens)]
    cues: list[Cue] = []
    for cue in plan.cues:
        end = next(end for end in ends if end >= cue.anchor)
        more = images.get(cue.product, ())[1:]
        step = (end - cue.anchor) / (len(more) + 1)
        cues += [
            cue,
            *(Cue(cue.anchor + round(n * step), image.key, product=cue.product) for n, image in enumerate(more, 1)),
        ]
    return msgspec.structs.replace(plan, cues=tuple(sorted(cues, key=lambda cue: cue.anchor)))


async def play(lengths: Lengths) -> Results:
    """Everything once, in one Chromium, one after the other."""
    tour = whole_tour()
    async with launch() as browser:
        first, answered = await _first_texts(browser, tour, lengths.pairs)
        _tell(f"{len(tour.plan.cues)} pictures, desktop, then again in the same browser")
        desktop, again = await play_tours(browser, _fresh(tour), DESKTOP, speed=lengths.speed, times=2)
        _tell("phone")
        phone = await play_tours(browser, _fresh(tour), PHONE, speed=lengths.beside)
        _tell("phone, pictures encoded beforehand")
        ready = _fresh(tour)
        await ready.image_pipe().warm()
        warmed = await play_tours(browser, ready, PHONE, speed=lengths.speed)
        beside = {LOOK_AHEAD: desktop}
        _tell("the same, one picture asked for ahead")
        with looking_ahead(1):
            beside[1] = (await play_tours(browser, _fresh(tour), DESKTOP, speed=lengths.beside))[0]
    tours = {"desktop": desktop, "desktop, second tour": again, "phone": phone[0], "phone, warmed": warmed[0]}
    return Results(tours, beside, first, answered)


async def _first_texts(
    browser: Browser, tour: Tour, pairs: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    kinds = {"pictures": tour, "no pictures": without_pictures(tour), "opens with a product": whole_tour(welcome=False)}
    first: dict[str, list[float]] = {name: [] for name in kinds}
    answered: dict[str, list[float]] = {name: [] for name in kinds}
    _tell("first text")
    for number in range(pairs + 1):
        order = list(kinds) if number % 2 else list(kinds)[::-1]
        for name in order if number <= _OPENINGS else [name for name in order if name in _PAIR]:
            pressed, started = await first_words(browser, _fresh(kinds[name]), DESKTOP)
            if number:  # the first round opens files and fills caches of the system
                first[name].append(round(pressed, 1))
                answered[name].append(round(started, 1))
    return first, answered


def _fresh(tour: Tour) -> Tour:
    """With a store of its own: nothing is encoded yet."""
    return msgspec.structs.replace(tour, store=ImageStore())


def _tell(what: str) -> None:
    print(f"slow-tour: {what} ...", file=sys.stderr, flush=True)


def judge(results: Results) -> dict[str, Any]:
    """What `play` gave, held against the bars."""
    figures: list[Figure] = []
    for name, seen in results.tours.items():
        left = sum(not (each.full or each.swapped) for each in seen.shown)
        figures += [
            figure(f"{name}: reveals whose full picture was decoded", seen.share, "share", SHARE_BAR, "higher"),
            figure(f"{name}: cues not revealed", len(seen.log.plan or ()) - len(seen.shown), "cues", 0),
            figure(f"{name}: placeholders that were never swapped", left, "reveals", 0),
        ]
    again = results.tours["desktop, second tour"].picture_bytes
    figures.append(figure("desktop, second tour: picture bytes sent", again, "bytes", 0))
    pictures, bare, opens = (statistics.median(results.first[name]) for name in results.first)
    figures += [
        figure("first text against a tour without pictures, medians", (pictures / bare - 1) * 100, "%", FIRST_TEXT_BAR),
        figure("first text from the press of the button, median", pictures, "ms"),
        figure("the same without pictures", bare, "ms"),
        figure("the same where a product is named at once", opens, "ms"),
    ]
    for count, seen in results.beside.items():
        figures.append(figure(f"{count} pictures asked for ahead: share decoded", seen.share, "share"))
    for name in ("desktop", "phone", "phone, warmed"):
        sizes = [each.size_bytes for each in results.tours[name].shown]
        figures.append(figure(f"{name}: bytes of a picture, median", statistics.median(sizes or [0]), "bytes"))
    ours = {
        "tours": {name: _details(seen) for name, seen in results.tours.items()},
        "asked_for_ahead": {str(count): _details(seen) for count, seen in results.beside.items()},
        "first_text_ms": results.first,
        "first_text_after_start_ms": results.answered,
    }
    return report("slow-tour", figures, ours, packages=("aiortc", "pillow", "playwright"))


def _details(seen: TourSeen) -> dict[str, Any]:
    rungs: dict[str, list[int]] = {}
    for each in seen.shown:
        rungs.setdefault(f"{each.media_type} {each.width_px} px wide", []).append(each.size_bytes)
    return {
        "reveals": len(seen.shown),
        "full": sum(each.full for each in seen.shown),
        "missed": {event.key: event.reason for event in seen.log.of(CueMissed)},
        "late": [each.key for each in seen.shown if not each.full],
        "picture_bytes": seen.picture_bytes,
        "rungs": {name: {"pictures": len(sizes), "bytes": sum(sizes)} for name, sizes in sorted(rungs.items())},
    }
