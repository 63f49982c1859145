"""`bench local-tour` without a browser and without the model: what it makes of what it is told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from multimodal.bench import local_tour
from multimodal.demos.product_tour.narrators import Narrator, Voice
from multimodal.demos.product_tour.tour import Tour, demo_tour
from multimodal.pipes.script import ScriptTextPipe
from multimodal.values import Product

GOOD: dict[str, Any] = {
    "reveals_expected": 8,
    "reveals_shown": 8,
    "wrong_products": 0,
    "token_drift_max": 0,
    "guard_told": 1,
    "first_text_ms": 200.0,
    "ok": True,
}


class Narrated:
    """Two passages and a greeting; a first sentence of the second comes after 0.1 s."""

    def __init__(self, products: Sequence[Product], *, shop: str) -> None:
        assert (len(products), shop) == (8, "Larkmoor")
        self.asked = ["greeting", "one", "two"]

    async def ready(self) -> None:
        pass

    def answer(self, asked: str) -> ScriptTextPipe:
        assert asked != "greeting"
        return ScriptTextPipe(["It", " is", ".", " It", " is", "."], gap=0.0, stalls={2: 0.1})


def figures(monkeypatch: pytest.MonkeyPatch, quick: bool = True, **result: Any) -> tuple[dict[str, Any], list[str]]:
    asked: list[str] = []

    async def check(words: Sequence[str]) -> dict[str, Any]:
        asked.append(" ".join(words))
        return {**GOOD, **result}

    def tour(narrator: Narrator) -> Tour:
        # The third word comes 0.1 s later than its pace.
        script = lambda: ScriptTextPipe(["Well", " then", " and", " on", "."], gap=0.0, stalls={2: 0.225})  # noqa: E731
        return msgspec.structs.replace(demo_tour(narrator), voice=Voice(script, lambda: None))

    monkeypatch.setattr(local_tour, "check_tour", check)
    monkeypatch.setattr(local_tour, "demo_tour", tour)
    monkeypatch.setattr(local_tour, "LocalNarrator", Narrated)
    monkeypatch.setattr(local_tour, "RUNS", 2)
    found = local_tour.run(argparse.Namespace(quick=quick))
    return {entry["what"]: entry for entry in found["figures"]} | {"ok": found["ok"]}, asked


def test_it_plays_the_local_narrator_s_tour_and_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = figures(monkeypatch, quick=False)
    assert asked == ["--narrator local --sync-interval 1 --speed 1"] * 2
    assert found["ok"]
    assert (found["first text, median"]["value"], found["first text, median"]["limit"]) == (200.0, 300.0)
    token, sentence = (
        found[f"a passage made while one waits: first {what}, median"]["value"] for what in ("token", "sentence")
    )
    assert sentence >= token + 90
    for viewers in local_tour.VIEWERS:
        assert 50 < found[f"{viewers} viewers: a word's wait beyond its pace, 99th percentile"]["value"] < 1000
        assert found[f"{viewers} viewers: first text, longest"]["value"] < 1000


@pytest.mark.parametrize(
    "bad",
    [{"reveals_shown": 7}, {"reveals_expected": 7, "reveals_shown": 7}, {"wrong_products": 1}, {"token_drift_max": 1}],
)
def test_what_the_glass_did_not_show_fails_it(monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any]) -> None:
    found, _ = figures(monkeypatch, **bad)
    assert not found["ok"]


def test_a_late_first_text_fails_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not figures(monkeypatch, quick=False, first_text_ms=301.0)[0]["ok"]
    assert figures(monkeypatch, first_text_ms=301.0)[0]["ok"], "a quick run judges no time"
