"""`multimodal bench stream` beside its peer: the envelope with a stand-in, and what a peer that cannot run does."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from multimodal.bench import stream
from multimodal.errors import UsageError

COUNT = 300
PICTURES = 100


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a moment."""
    monkeypatch.setattr(stream, "ROUNDS", 2)
    monkeypatch.setattr(stream, "COUNT", COUNT)
    monkeypatch.setattr(stream, "PEER_COUNT", COUNT)


def stand_in(folder: Path, answer: str) -> Path:
    """What answers like an interpreter that runs the peer: its version, then the same to every question."""
    python = folder / "python"
    python.write_text(f"""#!/bin/sh\necho '{{"version": "1.2.3"}}'\nwhile read line; do {answer}; done\n""")
    python.chmod(0o755)
    return python


def full(monkeypatch: pytest.MonkeyPatch, python: Path) -> dict[str, object]:
    monkeypatch.setattr(stream, "PEER_PYTHON", python)
    return stream.run(argparse.Namespace(quick=False))


def ratios(result: dict[str, object]) -> list[dict[str, object]]:
    figures = result["figures"]
    assert isinstance(figures, list)
    return [entry for entry in figures if entry["unit"] == "ratio"]


def test_both_play_the_same_script_and_are_held_against_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = f"""echo '{{"cpu_s": 300, "tokens": {COUNT}, "pictures": {PICTURES}}}'"""
    result = full(monkeypatch, stand_in(tmp_path, slow))
    peers = result["peers"]
    assert isinstance(peers, dict)
    assert peers["pipecat"]["version"] == "1.2.3"
    assert peers["pipecat"]["us_per_token"]["in bursts"] == {"min": 1e6, "median": 1e6, "max": 1e6}
    assert [entry["what"] for entry in ratios(result)] == [
        f"ours against pipecat, {way}: tokens per CPU second" for way in ("one by one", "in bursts")
    ]
    for entry in ratios(result):
        assert (entry["limit"], entry["better"], entry["ok"]) == (20.0, "higher", True)


def test_a_quick_peer_makes_it_not_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = f"""echo '{{"cpu_s": 0.0001, "tokens": {COUNT}, "pictures": {PICTURES}}}'"""
    result = full(monkeypatch, stand_in(tmp_path, quick))
    assert not ratios(result)[1]["ok"]
    assert not result["ok"]


def test_a_peer_that_is_missing_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    result = full(monkeypatch, tmp_path / "none")
    assert "make live" in str(result["peers"])
    assert "make live" in capfd.readouterr().err
    assert not any(entry["ok"] for entry in ratios(result))
    assert not result["ok"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("exit 3", "has ended"),
        ("""echo '{"cpu_s": 1, "tokens": 300, "pictures": 99}'""", "'pictures': 99"),
    ],
)
def test_a_peer_that_fails_on_the_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, said: str
) -> None:
    result = full(monkeypatch, stand_in(tmp_path, answer))
    assert said in str(result["peers"])
    assert not result["ok"]


def test_a_peer_that_does_not_start_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="has ended"):
        stream.Pipecat(python)


def test_a_quick_run_has_no_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PEER_PYTHON", tmp_path / "none")
    result = stream.run(argparse.Namespace(quick=True))
    assert result["peers"] == {}
    assert ratios(result) == []
