"""The benchmark of the text layer, short: its tables have every setting, and what it counts is right."""

from __future__ import annotations

import argparse

import pytest

from multimodal.bench import text_layer


def test_a_short_run_has_its_tables_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_layer, "LONG", 500)
    monkeypatch.setattr(text_layer, "SHORT", 250)
    told = text_layer.run(argparse.Namespace(quick=True))
    assert told["bench"] == "text-layer"
    assert list(told["ours"]["chunk_size"]) == ["1", "8", "16", "32", "64"]
    assert list(told["ours"]["priority_threshold"]) == ["0", "0.1", "0.2", "0.3", "0.5", "0.7", "1"]
    every = told["ours"]["priority_threshold"]["0"]
    assert every["chunks"] == 500, "with size 1 and threshold 0 every token leaves at once"
    assert every["mean_wait_ms"] == 0
    timed = {"us", "ratio"}
    assert [entry["what"] for entry in told["figures"] if entry["unit"] not in timed and not entry["ok"]] == []
