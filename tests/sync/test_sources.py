"""Which sources a stream has, and what is refused."""

from __future__ import annotations

import pytest

from multimodal.errors import UsageError
from multimodal.sync.matcher import ProductNames
from multimodal.sync.meaning import Meaning
from multimodal.sync.sources import Sources
from multimodal.values import Product, Token
from tests.sync.scanning import product

AIR, BARE = product("air", "Air"), Product("bare", "Bare Bowl")


def embed(text: str) -> list[float]:
    return [1.0, 0.0] if "Air" in text or "fly" in text else [0.0, 1.0]


def said(sources: Sources, text: str) -> list[str]:
    return [cue.key for cue in sources.scanner().feed(Token(text, last=True)).cues]


def test_nothing_is_on_by_itself() -> None:
    sources = Sources([AIR])
    assert not sources.active
    assert sources.pictures == []
    assert said(sources, "Air [[show:air]]") == []


@pytest.mark.parametrize("mentions", [True, [AIR, BARE], ProductNames([AIR, BARE])])
def test_mentions_of_the_streams_products_or_of_others(mentions: object) -> None:
    sources = Sources([AIR, BARE], mentions=mentions)  # type: ignore[arg-type]
    assert sources.active
    assert sources.pictures == ["air-hero", "bare"]
    assert said(sources, "a Bare Bowl, Air") == ["bare", "air-hero"]


def test_markers_alone() -> None:
    assert said(Sources([AIR], markers=True), "Air [[show:air]] is") == ["air-hero"]
    assert said(Sources([AIR], markers=True), "Air is") == []


@pytest.mark.parametrize("given", [embed, Meaning([AIR, BARE], embed)])
def test_meaning_alone(given: object) -> None:
    sources = Sources([AIR, BARE], embed=given)  # type: ignore[arg-type]
    assert said(sources, "they fly") == ["air-hero"]


def test_each_narration_has_a_scanner_of_its_own() -> None:
    sources = Sources([AIR], mentions=True)
    assert said(sources, "Air") == said(sources, "Air") == ["air-hero"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mentions": True}, "need to know the products"),
        ({"markers": True}, "need to know the products"),
        ({"mentions": []}, "need to know the products"),
        ({"embed": embed}, "need to know the products"),
        ({"mentions": [AIR], "lead": -1}, "lead=-1"),
        ({"lead": 2}, "neither mentions nor embed is on"),
        ({"mentions": [AIR], "repeat": "no"}, "repeat='no'"),
        ({"mentions": [AIR, product("b", "air")]}, "names both 'air' and 'b'"),
        ({"mentions": [AIR], "embed": Meaning([BARE], embed)}, "that the catalogue does not: bare"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Sources([], **settings)  # type: ignore[arg-type]
