"""The envelope that every benchmark prints: where it ran, with which versions, and each bar as one figure."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, Literal, TypedDict

from multimodal.errors import UsageError

__all__ = ["Figure", "figure", "machine", "report", "versions"]

Better = Literal["lower", "higher"]


class Figure(TypedDict):
    """One measured value and its bar; `limit` None = reported, not judged."""

    what: str
    value: float
    unit: str
    limit: float | None
    better: Better
    ok: bool


def figure(what: str, value: float, unit: str, limit: float | None = None, better: Better = "lower") -> Figure:
    """One entry of a report.

    Args:
        what: the name of the measure, stable between runs.
        value: what was measured; nan and infinity are failures, written as -1 because JSON has neither.
        unit: the unit of `value` and `limit`.
        limit: the bar: the largest good value, or the smallest where `better` is higher; None = no bar.
        better: which direction is better.
    """
    if not math.isfinite(value):
        return Figure(what=what, value=-1, unit=unit, limit=limit, better=better, ok=False)
    held = limit is None or (value <= limit if better == "lower" else value >= limit)
    return Figure(what=what, value=value, unit=unit, limit=limit, better=better, ok=held)


def report(
    bench: str,
    figures: Sequence[Figure],
    ours: Mapping[str, Any] | None = None,
    peers: Mapping[str, Mapping[str, Any]] | None = None,
    packages: Iterable[str] = (),
) -> dict[str, Any]:
    """The one object that `multimodal bench NAME --json` prints.

    Args:
        bench: the benchmark's name.
        figures: one entry per bar, from `figure`.
        ours: further measurements of this package.
        peers: the same for others; a peer that could not run is `{"error": why}` and makes the report not ok.
        packages: distributions whose versions matter for the figures.

    Raises:
        UsageError: no figures: a report that judges nothing would always be ok.
    """
    if not figures:
        raise UsageError(f"bench {bench} reports no figures; give one entry per bar")
    peers = peers or {}
    ok = all(entry["ok"] for entry in figures) and not any("error" in peer for peer in peers.values())
    return {
        "bench": bench,
        "machine": machine(),
        "versions": versions(packages),
        "ours": dict(ours or {}),
        "peers": {name: dict(peer) for name, peer in peers.items()},
        "figures": list(figures),
        "ok": ok,
    }


def machine() -> dict[str, Any]:
    """What the figures depend on; memory is in MiB, 0 where it is unknown."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        cores = os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (AttributeError, ValueError, OSError):
        memory = 0
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": cores,
        "memory_mib": memory,
        "load_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Python's version, ours, and those of `packages` ("not installed" where one is missing)."""
    found = {"python": sys.version.split()[0]}
    for name in ("multimodal-stream", *packages):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
