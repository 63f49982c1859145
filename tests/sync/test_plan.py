"""A rehearsed tour stands where the real one will, and the lint finds what was planted."""

from __future__ import annotations

import pytest

from multimodal.errors import UsageError
from multimodal.events import ProductBrief, Reveal
from multimodal.sync.log import SyncLog
from multimodal.sync.plan import lint, planned, rehearse
from multimodal.sync.verdict import faults_of
from multimodal.values import Cue
from tests.sync.tours import PRODUCTS, STEP, TOKENS, cues, tour

TIMED = [(number * STEP, text) for number, text in enumerate(TOKENS)]


def rehearsed(*plan: Cue, products: tuple[ProductBrief, ...] = PRODUCTS, step: float = 1.0) -> SyncLog:
    timed = [(number * step, text) for number, text in enumerate(TOKENS)]
    return rehearse(timed, plan or cues(), products=products)


def codes(log: SyncLog, **settings: object) -> list[str]:
    return [finding.code for finding in lint(log, **settings)]  # type: ignore[arg-type]


def test_it_stands_where_the_tour_with_every_picture_ready_stands() -> None:
    log = rehearse(TIMED, cues(), products=PRODUCTS)
    real = tour(viewer=False)
    assert [(e.key, e.mark, e.pts_ms) for e in log.of(Reveal)] == [(e.key, e.mark, e.pts_ms) for e in real.of(Reveal)]
    assert log.text == real.text
    assert faults_of(log) == []
    places = planned(log, {"mug-1": 2048})
    assert [(place.key, place.at, place.mark) for place in places] == [
        ("kettle-1", 0.25, 6),
        ("mug-1", 0.85, 18),
        ("lamp-1", 1.15, 24),
    ]
    assert places[0].words == "…the Halo Kettle,| which boils a…"
    assert [place.size_bytes for place in places] == [None, 2048, None]


def test_a_tour_without_fault_has_nothing_to_remark() -> None:
    assert codes(rehearsed()) == []


def test_a_picture_whose_product_is_never_named() -> None:
    (finding,) = lint(rehearsed(*cues(), Cue(9, "mini-1", product="mini")))
    assert (finding.code, finding.key, finding.token) == ("not_mentioned", "mini-1", 9)
    assert "'Halo Kettle Mini'" in finding.message


def test_a_mention_without_picture() -> None:
    (finding,) = lint(rehearsed(*cues()[:2]))
    assert (finding.code, finding.token) == ("no_picture", 24)
    assert "…the Ember Lamp| glows" in finding.message


def test_a_picture_that_no_cue_names() -> None:
    (finding,) = lint(rehearsed(), pictures=["kettle-1", "mug-1", "lamp-1", "lamp-2"])
    assert (finding.code, finding.key, finding.token) == ("not_shown", "lamp-2", None)


def test_two_products_within_the_dwell_time_or_on_one_mark() -> None:
    assert codes(rehearsed(step=0.05)) == ["crowded", "crowded"]
    assert codes(rehearsed(step=0.05), min_dwell=0.4) == ["crowded"]
    assert codes(rehearsed(step=0.05), min_dwell=0) == []
    beside = rehearsed(*cues(), Cue(18, "lamp-2", product="lamp"))
    (finding,) = [finding for finding in lint(beside, min_dwell=0) if finding.code == "crowded"]
    assert "share mark 18" in finding.message
    # Two pictures of one product are a closer look, not a crowd.
    assert codes(rehearsed(*cues(), Cue(17, "mug-2", product="mug"))) == []


def test_a_picture_too_large_for_the_link() -> None:
    sizes = {"kettle-1": 50_000, "mug-1": 50_000, "lamp-1": 50_000}
    # Marks at 5, 17 and 23 s and a preroll of 1 s; at 100 kbit/s each picture takes 4 s.
    assert codes(rehearsed(), sizes=sizes, link_kbps=100) == []
    assert codes(rehearsed(), sizes={**sizes, "mug-1": 300_000}, link_kbps=100) == ["too_large", "too_large"]
    (finding,) = lint(rehearsed(), sizes={"kettle-1": 100_000}, link_kbps=100)
    assert finding.message == (
        "'kettle-1' (98 KiB) takes 8.0 s at 100 kbit/s behind those before it: 2.0 s after its words"
    )
    assert codes(rehearsed(), sizes={"kettle-1": 100_000}, link_kbps=100, preroll=3.0) == []
    twice = rehearsed(*cues(), Cue(10, "kettle-1", product="kettle"))
    assert codes(twice, sizes=sizes, link_kbps=100) == []


def test_a_cue_behind_the_end() -> None:
    (finding,) = lint(rehearsed(*cues(), Cue(99, "mug-1", product="mug")))
    assert (finding.code, finding.token) == ("beyond_end", 99)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="min_dwell=-1"):
        lint(rehearsed(), min_dwell=-1)
    with pytest.raises(UsageError, match="link_kbps=0"):
        lint(rehearsed(), link_kbps=0)
    assert lint(rehearse([], [])) == []
