"""The benchmark of the fact guard and the word filter judges what it says it judges, in a short run."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from multimodal.bench import guard
from multimodal.errors import UsageError
from multimodal.pipes.guard import FactGuard


def test_a_short_run_measures_every_layer_and_judges_the_sentences() -> None:
    told = guard.run(argparse.Namespace(quick=True))
    values = {entry["what"]: entry["value"] for entry in told["figures"]}
    for language in ("en", "zh"):
        assert values[f"both, {language}: CPU per token"] > 0
        assert values[f"guard, {language}: longest hold-back"] > 3
        assert values[f"filter, {language}: longest hold-back"] < told["ours"]["longest_word"]
    assert values["a sentence among 1,600 products beside 50"] > 0
    assert told["ours"]["make_s"].keys() == {"50", "1600"}
    assert values["recall, first 200 false sentences"] >= 0.98
    assert values["false alarms, first 200 true sentences"] <= 0.02
    assert told["ours"]["words"] == guard.WORDS


def test_a_guard_that_finds_nothing_fails_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactGuard, "violations", lambda *_: [])
    figures = guard._judged(guard._sentences())
    assert [entry["ok"] for entry in figures] == [False, True, False, True]


def test_without_a_checkout_it_says_where_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guard, "SENTENCES", tmp_path / "none.py")
    with pytest.raises(UsageError, match="in a checkout"):
        guard._sentences()
