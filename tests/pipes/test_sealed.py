"""A folder that is kept: what it was sealed with it must hold, whole and nothing else, and what is wrong is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from multimodal.pipes.sealed import LIST, fault_of, seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.json").write_text("{}")
    (tmp_path / "large.bin").write_bytes(os.urandom(200_000))
    (tmp_path / "empty").touch()
    seal(tmp_path, "clay")
    return tmp_path


def test_a_sealed_folder_is_whole_wherever_it_goes(folder: Path) -> None:
    assert fault_of(folder, "clay") is None
    (folder / ".hidden").write_text("the system's")
    os.utime(folder / "large.bin", (0, 0))
    assert fault_of(folder.rename(folder.with_name("elsewhere")), "clay") is None


def test_sealed_again_it_is_what_it_is_now(folder: Path) -> None:
    (folder / "small.json").write_text("[1]")
    assert fault_of(folder, "clay") is not None
    seal(folder, "tin")
    assert fault_of(folder, "tin") is None


def _zero(folder: Path) -> None:
    with open(folder / "large.bin", "r+b") as file:
        file.seek(123_456)
        file.write(bytes(64))


SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: (folder / LIST).unlink(), f"it has no {LIST}"),
    (lambda folder: (folder / LIST).write_text(""), f"its {LIST} is broken"),
    (lambda folder: (folder / LIST).write_text('{"files": {}}'), f"its {LIST} is broken"),
    (lambda folder: (folder / LIST).write_bytes(b"\xff"), f"its {LIST} is broken"),
    (lambda folder: seal(folder, "tin"), "it was made of something else"),
    (lambda folder: (folder / "small.json").unlink(), "its small.json is missing"),
    (lambda folder: (folder / "more.json").touch(), "its more.json does not belong there"),
    (lambda folder: (folder / "more").mkdir(), "its more does not belong there"),
    (lambda folder: (folder / "large.bin").write_bytes(b"cut"), "its large.bin has 3 bytes instead of 200,000"),
    (lambda folder: (folder / "small.json").write_text("[]"), "its small.json does not hold what was written to it"),
    (lambda folder: (folder / "empty").write_text(" "), "its empty has 1 bytes instead of 0"),
    (_zero, "its large.bin does not hold what was written to it"),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILT, ids=[says for _, says in SPOILT])
def test_what_is_wrong_is_named(folder: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(folder)
    assert (fault_of(folder, "clay") or "whole").startswith(says)


def test_a_folder_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    assert (fault_of(tmp_path / "gone", "clay") or "whole").startswith("it cannot be read")
