"""Watts from a folder made like the kernel's; without one they are not measured, and it says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from multimodal.pipes.rapl import Rapl


def zone(root: Path, name: str, label: str, energy: str, range_: str = "1000000000") -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "name").write_text(label + "\n")
    (folder / "energy_uj").write_text(energy + "\n")
    (folder / "max_energy_range_uj").write_text(range_ + "\n")
    return folder


def test_all_packages_and_none_of_their_parts_are_counted(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", "5000000")
    second = zone(tmp_path, "intel-rapl:1", "package-1", "0")
    part = zone(tmp_path, "intel-rapl:0:0", "core", "0")
    rapl = Rapl(tmp_path)
    assert rapl.why_not == ""
    assert rapl.watts(10.0) is None
    (first / "energy_uj").write_text("25000000")
    (second / "energy_uj").write_text("10000000")
    (part / "energy_uj").write_text("99000000")
    assert rapl.watts(12.0) == pytest.approx(15.0)
    assert rapl.watts(12.0) is None
    assert rapl.watts(13.0) == 0.0


@pytest.mark.parametrize(("range_", "joules"), [("1000000000", 30.0), ("", 10.0)])
def test_a_counter_that_began_anew_is_followed(tmp_path: Path, range_: str, joules: float) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", "980000000", range_)
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    (folder / "energy_uj").write_text("10000000")
    assert rapl.watts(1.0) == pytest.approx(joules)


def test_without_a_counter_watts_are_not_measured(tmp_path: Path) -> None:
    rapl = Rapl(tmp_path / "none")
    assert (rapl.watts(0.0), rapl.watts(1.0)) == (None, None)
    assert "has no intel-rapl package" in rapl.why_not
    folder = zone(tmp_path, "intel-rapl:0", "package-0", "1")
    (folder / "energy_uj").unlink()
    closed = Rapl(tmp_path)
    assert (closed.watts(0.0), closed.watts(1.0)) == (None, None)
    assert "cannot be read" in closed.why_not


def test_a_counter_that_goes_away_is_no_longer_measured(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", "1")
    rapl = Rapl(tmp_path)
    rapl.watts(0.0)
    (folder / "energy_uj").unlink()
    assert rapl.watts(1.0) is None
    assert rapl.watts(2.0) is None
