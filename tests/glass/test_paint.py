"""`bench paint`: its faults fit the player as it is, and each is flagged on the real player over the real server."""

from __future__ import annotations

import argparse
from importlib import resources
from typing import Any

import pytest

from multimodal.bench.paint import run as bench
from multimodal.bench.paint_stage import FAULTS, HONEST, PLAYER, Fault, planted
from multimodal.errors import UsageError
from multimodal.glass import Pair

SOURCE = resources.files("multimodal.player").joinpath(PLAYER).read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_player(fault: Fault) -> None:
    changed = planted(SOURCE, fault)
    assert changed != SOURCE
    assert all(new in changed for _, new in fault.patches)


def test_the_honest_player_is_unchanged() -> None:
    assert planted(SOURCE, HONEST) == SOURCE


@pytest.mark.parametrize("source", ["", "x(); x();"])
def test_a_fault_that_no_longer_fits_says_so(source: str) -> None:
    with pytest.raises(UsageError, match="no longer fits"):
        planted(source, Fault("f", "", (("x();", "y();"),)))


def test_a_lie_is_flagged_only_where_the_receipt_lies() -> None:
    lie, split = Fault("lie", "", deceives=True), Fault("split", "")
    apart, same, unknown = (Pair(0, "k", 3, verdict) for verdict in ("apart", "same", "undetermined"))
    assert lie.flagged(apart, {0: True})
    assert not lie.flagged(apart, {0: False})
    assert not lie.flagged(apart, {})
    assert split.flagged(apart, {0: False})
    for fault in (lie, split):
        assert not fault.flagged(same, {0: True})
        assert not fault.flagged(unknown, {0: True}), "not to know is not to have found out"


@pytest.mark.browser
@pytest.mark.slow
def test_a_short_run_on_the_real_player(capsys: pytest.CaptureFixture[str]) -> None:
    """Wide limits: a busy machine costs frames, and a stalled page may skip a picture for good."""
    found: dict[str, Any] = bench(argparse.Namespace(quick=True))
    assert capsys.readouterr().out == "", "the one object on stdout is the command's to print"
    figures = {entry["what"]: entry for entry in found["figures"]}
    assert len(figures) == 8 + len(FAULTS)
    assert all(entry["limit"] is not None for entry in figures.values())
    for what, entry in figures.items():
        planted = found["ours"].get(what.removeprefix("planted fault flagged: "), {})
        # Pictures that came too late for their words are no pairs; of the few that are left, what is asked last holds.
        if entry["better"] == "higher" and entry["unit"] == "share" and planted.get("pairs", 10) >= 5:
            assert entry["value"] >= 0.5, (what, found["ours"])
        if what.startswith("layout shift"):
            assert entry["value"] <= 0.001, what
    for name in ("1x", "4x"):
        assert found["ours"][name]["verdicts"].get("same", 0) >= 5, found["ours"]
    for name in ("split", "lie"):
        assert "same" not in found["ours"][name]["verdicts"], found["ours"]
