"""The benchmark of the detokenizer judges what it says it judges, in a short run."""

from __future__ import annotations

import argparse
import importlib.util

import pytest

from multimodal.bench import detok


def test_a_short_run_measures_both_sizes_and_the_peer() -> None:
    told = detok.run(argparse.Namespace(quick=True))
    assert [(entry["what"], entry["limit"]) for entry in told["figures"]] == [
        ("CPU per token, 250 tokens", 5.0),
        ("CPU per token, 1,000 tokens", 5.0),
        ("1,000 tokens against 250", 1.2),
    ]
    assert all(entry["value"] > 0 for entry in told["figures"])
    assert set(told["peers"]["TextStreamer"]["us_per_token"]) == {"250", "1000"}
    held = told["ours"]["held"]["English"]
    assert held["False"]["tokens_whose_last_character_is_late"] == 0
    assert held["True"]["tokens_whose_last_character_is_late"] > 0.9


def test_the_small_tokenizer_stands_in_where_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tokenizer, name = detok._tokenizer()
    assert name == "trained here"
    for text in detok.TEXTS.values():
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
