"""A child that ends with its parent, however that ends, and that is an ordinary program otherwise."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from multimodal.pipes.bound_child import run_module

BUSY = """
import sys
door = open(sys.argv[1], "w")
print("begun", file=door, flush=True)
while True:  # as busy as a conversion
    sum(range(10_000))
"""
PARENT = "import sys; from multimodal.pipes.bound_child import run_module; run_module(*sys.argv[1:], timeout=60)"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a test's programs lie; children find them too."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def said(door: int) -> bytes:
    """What comes next through a pipe; nothing = nobody holds its other end any more."""
    ready, _, _ = select.select([door], [], [], 60)
    assert ready, "nothing came, and nobody let go"
    return os.read(door, 100)


def test_a_killed_parent_takes_its_child_with_it(folder: Path) -> None:
    (folder / "busy.py").write_text(BUSY)
    os.mkfifo(folder / "door")
    door = os.open(folder / "door", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with subprocess.Popen([sys.executable, "-c", PARENT, "busy", str(folder / "door")]) as parent:
            try:
                assert said(door) == b"begun\n"
            finally:
                parent.kill()
        assert said(door) == b""
    finally:
        os.close(door)


def test_a_child_is_given_its_arguments_and_gives_back_what_it_said(folder: Path) -> None:
    (folder / "speaks.py").write_text(
        "import sys; print(sys.argv[1:], __name__); print('oh', file=sys.stderr); exit(3)"
    )
    done = run_module("speaks", "a", "b c", timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "['a', 'b c'] __main__\n", "oh\n")


def test_one_that_takes_too_long_is_killed(folder: Path) -> None:
    (folder / "busy.py").write_text(BUSY)
    with pytest.raises(subprocess.TimeoutExpired):
        run_module("busy", os.devnull, timeout=0.5)
