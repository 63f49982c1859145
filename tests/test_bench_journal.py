"""`multimodal bench journal`: a short run against a real redis-server gives every figure."""

from __future__ import annotations

import argparse
import math

import pytest

from multimodal.bench import journal
from multimodal.errors import UsageError


def test_a_short_run_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SESSIONS", 5)
    result = journal.run(argparse.Namespace(quick=True))
    figures = {entry["what"]: entry for entry in result["figures"]}
    assert list(figures) == [
        *(
            f"append of a bundle, {where}, {sessions}, {share}" if share else f"replay of 1000 events, {where}"
            for where in ("memory", "Redis")
            for sessions, share in (
                ("1 session", "p50"),
                ("1 session", "p95"),
                ("5 sessions", "p50"),
                ("5 sessions", "p95"),
                ("", ""),
            )
        ),
        "bytes per event, its JSON",
        "bytes per event, memory",
        "bytes per event, Redis, in memory",
        "bytes per event, Redis, appended to its file",
    ]
    for entry in figures.values():
        assert math.isfinite(entry["value"])
        assert entry["value"] > 0
    limits = {what: entry["limit"] for what, entry in figures.items() if entry["limit"] is not None}
    assert limits == {f"append of a bundle, Redis, {sessions}, p95": 5.0 for sessions in ("1 session", "5 sessions")}
    assert result["peers"]["bare XADD"]["5 sessions"]["appends"] == 50
    json_bytes = figures["bytes per event, its JSON"]["value"]
    assert json_bytes < figures["bytes per event, Redis, in memory"]["value"] < 3 * json_bytes


def test_without_a_redis_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=r"redis-server is not installed; `\.ci/setup dev` does it"):
        journal.run(argparse.Namespace(quick=True))
