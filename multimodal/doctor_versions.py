"""The libraries half of `multimodal doctor`: is each there, of a version we can work with, and does it load."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata

import msgspec

__all__ = ["LIBRARIES", "Library", "allowed", "examine_libraries", "load_order"]

LIBRARIES = {
    "numpy": "",
    "av": "",
    "aiortc": "",
    "torch": "llm",
    "tokenizers": "llm",
    "transformers": "llm",
}
"""What is examined, in the order in which this package loads them, and the extra that brings it ("" = always there)."""

_TIMEOUT = 120.0
_ADVICE = "pip install 'multimodal-stream{extra}'"
_TORCH_FIRST = "pip install torch==2.13.0 first (the build you want: by itself pip may take CUDA's), then "


class Library(msgspec.Struct, frozen=True):
    """One library.

    Args:
        name: what it is called.
        version: what is installed ("" = nothing).
        wanted: the versions we work with, as pip writes them ("" = not known).
        fault: what is wrong ("" = nothing).
        advice: what to do about it.
    """

    name: str
    version: str
    wanted: str
    fault: str = ""
    advice: str = ""


def examine_libraries(*, text_engine: bool = False) -> list[Library]:
    """Look at every library; where all those of an extra are missing and nobody needs it, that is no fault.

    Args:
        text_engine: whether the text engine is needed.
    """
    wanted = _wanted()
    versions = {name: _version(name) for name in LIBRARIES}
    needed = text_engine or any(versions[name] for name, extra in LIBRARIES.items() if extra)
    return [
        _library(name, versions[name], wanted.get(name, ""), needed or not extra, torch=bool(versions["torch"]))
        for name, extra in LIBRARIES.items()
    ]


def load_order() -> Library | None:
    """Whether the libraries load in either order in one process; None = they do.

    Native libraries that bring copies of the same runtime may work alone and fail together, or in one order only.
    """
    names = [name for name in LIBRARIES if _version(name)]
    for order, opposite in ((names, "the other way round"), (names[::-1], "first those that this package loads first")):
        fault = _load(order)
        if fault:
            advice = f"import them {opposite}, or reinstall the one that is named"
            return Library("import order", "", "", f"{', '.join(order)}: {fault}", advice)
    return None


def allowed(version: str, wanted: str) -> bool:
    """Whether a version is within `>=a,<b`, the only form that this package's own metadata uses."""
    have = _numbers(version)
    for part in filter(None, wanted.split(",")):
        match = re.fullmatch(r"\s*(>=|<=|==|!=|<|>)\s*([\d.]+)\S*\s*", part)
        if match is None:
            continue
        sign, bound = match[1], _numbers(match[2])
        width = max(len(have), len(bound))
        left, right = have + (0,) * (width - len(have)), bound + (0,) * (width - len(bound))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[sign]:
            return False
    return True


def _library(name: str, version: str, wanted: str, needed: bool, *, torch: bool) -> Library:
    extra = f"[{LIBRARIES[name]}]" if LIBRARIES[name] else ""
    advice = _ADVICE.format(extra=extra)
    if LIBRARIES[name] == "llm" and not torch:
        advice = _TORCH_FIRST + advice
    if not version:
        fault = f"{name} is not installed" if needed else ""
        return Library(name, "", wanted, fault, advice if needed else f"for the text engine: {advice}")
    if not allowed(version, wanted):
        return Library(name, version, wanted, f"{name} {version} is installed; {wanted} is needed", advice)
    fault = _load([name])
    if fault:
        again = f"pip install --force-reinstall '{name}{wanted}'"
        return Library(name, version, wanted, f"{name} {version} does not load: {fault}", again)
    return Library(name, version, wanted)


def _load(names: list[str]) -> str:
    """Import in a new process; what went wrong, in one line."""
    script = f"import {', '.join(names)}"
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"the process was ended by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _wanted() -> dict[str, str]:
    try:
        lines = metadata.requires("multimodal-stream") or []
    except metadata.PackageNotFoundError:  # a bare checkout
        return {}
    found: dict[str, str] = {}
    for line in lines:
        match = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;]*)", line)
        if match is not None and match[1].lower() in LIBRARIES:
            found[match[1].lower()] = match[2].strip().strip("()")
    return found


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)
