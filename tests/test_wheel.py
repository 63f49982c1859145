"""The wheel with `[test]` in an empty environment, used from another folder: what a user has without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_readme import block

ROOT = Path(__file__).parents[1]
SIZE_LIMIT = 9_000_000

pytestmark = pytest.mark.slow


def run(words: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # Nothing of the checkout may help: no PYTHONPATH, and not its environment's programs.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        words, cwd=cwd, env={**clean, **environment}, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy: setuptools leaves its build folder beside the sources, and stale files in it would be packed.
    source = tmp_path_factory.mktemp("source") / "project"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, source, symlinks=True, ignore=ignored)
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    done = run(pip, source)
    assert done.returncode == 0, done.stderr
    return next(out.glob("multimodal_stream-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("environment")
    made = run([sys.executable, "-m", "venv", str(home)], home)
    assert made.returncode == 0, made.stderr
    installed = run([str(home / "bin/python"), "-m", "pip", "install", "--quiet", f"{wheel}[test]"], home)
    assert installed.returncode == 0, installed.stderr
    return home / "bin/python"


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert sum(info.file_size for info in archive.infolist() if "/assets/" in info.filename) < SIZE_LIMIT
    for expected in (
        *("multimodal/py.typed", "multimodal/pipes/script.py", "multimodal/sync/aligner.py"),
        *("multimodal/player/product-tour.js", "multimodal/player/product-tour-roads.js"),
        *("multimodal/player/product-tour.d.ts", "multimodal/demos/product_tour/page.js"),
        *("multimodal/demos/product_tour/index.html", "multimodal/assets/demo/tour.json"),
        *("multimodal/assets/demo/catalog.zh.json", "multimodal/assets/demo/clips/halo-kettle-turn.webm"),
        *("multimodal/assets/LICENSES.md", "multimodal/assets/samples/kettle/1-hero.jpg"),
        *("multimodal/assets/narrator/adapter.safetensors", "multimodal/assets/narrator/training/data.py"),
    ):
        assert expected in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"multimodal", next(name for name in tops if name.endswith(".dist-info"))}
    assert not [name for name in names if "/scene/" in name or "/tests/" in name]


def test_the_ten_lines(python: Path, tmp_path: Path) -> None:
    done = run([str(python), "-c", block("python", "async for event in stream")], tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(" reveal " in line for line in lines) == 3
    assert lines[-1].endswith(" end")


def test_pytest_finds_the_plugin(python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_promise.py").write_text(block("python", "def test_the_tour_never_drifts"), encoding="utf-8")
    done = run([str(python), "-m", "pytest", "-q", "-W", "error", "-o", "pythonpath=", "."], tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_check_passes(python: Path, tmp_path: Path) -> None:
    words = [str(python.with_name("multimodal")), "tour", "--check", "--json", "--speed", "4"]
    done = run(words, tmp_path)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert (result["reveals_shown"], result["wrong_products"], result["events_lost"]) == (16, 0, 0)
    assert result["token_drift_max"] <= 2


def test_without_a_chromium_the_command_is_named(python: Path, tmp_path: Path) -> None:
    words = [str(python.with_name("multimodal")), "tour", "--check", "--speed", "8"]
    done = run(words, tmp_path, PATH=str(tmp_path), MULTIMODAL_CHROMIUM="")
    assert done.returncode == 2
    assert "apt-get install chromium" in done.stderr
    assert "Traceback" not in done.stderr
