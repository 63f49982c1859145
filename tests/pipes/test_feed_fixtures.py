"""The demo catalogue in every import format, as it is committed."""

from __future__ import annotations

import pytest

from multimodal.bench.catalog_files import WRITERS
from multimodal.demos.product_tour.tour import shop_tour
from multimodal.pipes.catalog import load_catalog
from tests.pipes.feeds.make import DEMO, FOLDER, demo_products, written
from tests.pipes.test_catalog_round_trip import said


@pytest.mark.parametrize("kind", WRITERS)
def test_the_demo_comes_back_from_every_format(kind: str) -> None:
    name, recognised, _ = WRITERS[kind]
    assert (FOLDER / name).read_bytes() == written(kind), "the demo has changed: run python -m tests.pipes.feeds.make"
    catalog = load_catalog(FOLDER / name, DEMO, currency="EUR")
    assert (catalog.format, catalog.rejected, catalog.warnings) == (recognised, (), ())
    assert all(picture.path is not None for picture in catalog.pictures)
    for ours, theirs in zip(demo_products(), catalog.products, strict=True):
        expected = said(ours, kind)
        # Keys of pictures are our own, and only our own formats say them.
        assert [image.source for image in theirs.images] == [image.source for image in expected.images]
        assert [image.alt for image in theirs.images] == [image.alt for image in expected.images]
        same = ("id", "title", "aliases", "description", "brand", "price", "availability", "url", "variants")
        assert {name: getattr(theirs, name) for name in same} == {name: getattr(expected, name) for name in same}
        assert theirs.currency == "EUR"
        assert theirs.facts == (expected.facts[:3] if kind == "woocommerce-csv" else expected.facts)


@pytest.mark.parametrize("kind", ["google-rss", "json-ld-page", "shopify", "yaml"])
def test_a_tour_can_be_made_of_every_kind_of_file(kind: str) -> None:
    tour = shop_tour(FOLDER / WRITERS[kind][0], DEMO / "pictures")
    assert len(tour.plan.starts) == len(demo_products())
    assert {cue.key for cue in tour.plan.cues} <= {picture.key for picture in tour.catalog.pictures}
    assert tour.plan.cues
