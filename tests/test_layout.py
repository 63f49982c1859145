"""The house: links, guards, lazy import, exports, and imports that run downwards only."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import multimodal

ROOT = Path(__file__).parents[1]
LINKS = ("assets", "demos", "pipes", "sync")
HEAVY = ("torch", "transformers", "aiortc", "av", "PIL", "numpy", "starlette", "uvicorn", "playwright")

# Each layer may import itself and those before it; a module may sit in one layer only.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("values", "events", "errors", "loops", "_version"),
    ("wire", "sse_reader", "memory", "weights", "estimate"),
    ("pipes", "sync"),
    ("tape", "turn", "pumps", "shelf", "pictures", "conversation", "stream"),
    ("journal_base", "journal_memory", "journal_scripts", "journal_redis", "journal", "transport"),
    ("serving", "browser", "glass"),
    ("player", "assets"),
    ("demos", "bench", "check", "recordings"),
    ("replay", "plan", "doctor"),
    (
        "picture_options",
        "narrator_options",
        "catalog_command",
        "token_command",
        "commands",
        "network_options",
        "model_commands",
    ),
    ("cli", "__main__"),
)
LAZY_UPWARDS = {("sync", "stream"), ("sync", "transport"), ("sync", "browser"), ("sync", "check")}
"""Runners and fixtures of the kit import these inside functions (the contract allows it)."""


def modules() -> dict[str, Path]:
    found = {}
    for folder, prefix in [("multimodal", "multimodal"), *((name, f"multimodal.{name}") for name in LINKS)]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "multimodal" and parts[0] in LINKS:
                continue  # the same files through a link
            if "scene" in parts:
                continue  # tools of their own, outside the package
            found[".".join((prefix, *parts)).removesuffix(".__init__")] = path
    return found


def layer(name: str) -> int | None:
    parts = name.split(".")
    if len(parts) == 1:
        return None
    head = next((whole for whole in ("glass", "doctor") if parts[1].startswith(f"{whole}_")), parts[1])
    return next((i for i, heads in enumerate(LAYERS) if head in heads), None)


def imports(path: Path) -> set[tuple[str, bool]]:
    """(module, at the top of the file) for everything of ours that a file imports."""
    tree = ast.parse(path.read_text())
    inner = {
        id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)
    }
    typing_only = {
        id(n)
        for i in ast.walk(tree)
        if isinstance(i, ast.If) and ast.unparse(i.test) == "TYPE_CHECKING"
        for n in ast.walk(i)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {(name, id(node) not in inner) for name in names if name.split(".")[0] == "multimodal"}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
    return found


@pytest.mark.parametrize("name", LINKS)
def test_links_are_relative_and_guarded(name: str) -> None:
    link = ROOT / "multimodal" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import importlib.util as u, sys; s=u.spec_from_file_location({name!r}, "
            f"{str(ROOT / name / '__init__.py')!r}); m=u.module_from_spec(s); s.loader.exec_module(m)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"import multimodal.{name}, not {name}" in done.stderr
    assert importlib.import_module(f"multimodal.{name}").__name__ == f"multimodal.{name}"


@pytest.mark.parametrize("name", [n for n in modules() if n != "multimodal"])
def test_imports_run_downwards(name: str) -> None:
    own = layer(name)
    assert own is not None, f"{name} belongs to no layer; name it in LAYERS"
    for target, top in imports(modules()[name]):
        other = layer(target)
        if other is None or target == "multimodal._version":
            continue
        heads = (name.split(".")[1], target.split(".")[1])
        if not top and heads in LAZY_UPWARDS:
            continue
        assert other <= own, f"{name} imports {target}, which stands above it"
        assert heads != ("sync", "pipes"), f"{name}: sync never imports pipes"
        if heads[0] == "transport" and not target.startswith(
            "multimodal.sync.link"
        ):  # the network of the link in memory
            allowed = {"wire", "sse_reader", "events", "errors", "loops", "values", "transport", "stream", "journal"}
            assert heads[1] in allowed, f"{name} imports {target}"


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = f"import sys, multimodal; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_core_loads_nothing_heavy() -> None:
    script = (
        "import sys, multimodal.stream, multimodal.sync.kit, multimodal.sync.plugin, multimodal.pipes.script; "
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def heavy_imports(path: Path, wanted: set[str]) -> list[tuple[str, int, bool]]:
    """(module, line, at the top of the file) for every import of `wanted`, those for type checkers left out."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(n)
        for i in ast.walk(tree)
        if isinstance(i, ast.If) and ast.unparse(i.test) == "TYPE_CHECKING"
        for n in ast.walk(i)
    }
    inner = {
        id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)
    }
    found = []
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert isinstance(node, ast.Import | ast.ImportFrom)
            if name.split(".")[0] in wanted and id(node) not in skipped:
                found.append((name, node.lineno, id(node) not in inner))
    return found


@pytest.mark.parametrize("name", [n for n in modules() if n != "multimodal"])
def test_the_language_model_stands_behind_one_door(name: str) -> None:
    """torch and transformers: at the top of `pipes/local.py`, `pipes/local_*.py` and the training only."""
    found = heavy_imports(modules()[name], {"torch", "transformers"})
    if name.startswith(("multimodal.pipes.local", "multimodal.assets.narrator.training.train")):
        return
    assert [entry for entry in found if entry[2]] == [], f"{name} loads it with its own import"
    measuring = name.startswith(("multimodal.bench.", "multimodal.doctor", "multimodal.estimate"))
    assert not found or measuring, f"{name} has no business with it: {found}"


@pytest.mark.parametrize("name", multimodal.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(multimodal, name) is not None
    assert name in dir(multimodal)


def test_the_list_of_names_and_their_homes_agree() -> None:
    assert set(multimodal.__all__) == {*multimodal._HOMES, "__version__"}


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        multimodal.nothing  # noqa: B018


@pytest.mark.parametrize("name", [n for n in modules() if "." in n and not n.endswith("__main__")])
def test_all_lists_what_a_module_has(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert [n for n in exported if not hasattr(module, n)] == []


def test_every_package_is_installed() -> None:
    listed = set(__import__("tomllib").loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    real = {n for n, path in modules().items() if path.name == "__init__.py"}
    assert listed == real
