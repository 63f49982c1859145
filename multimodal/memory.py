"""What this machine's memory has to spare and how fast it gives it, and sizes as people write them."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import time
from pathlib import Path

from multimodal.errors import UsageError

__all__ = ["available_memory", "memory_bandwidth", "parse_count", "parse_memory", "release_memory"]


def memory_bandwidth(size: int = 128 * 2**20, rounds: int = 5) -> float:
    """Bytes a second that one thread moves from memory to memory: reads and writes of a copy, the best of some rounds.

    Args:
        size: bytes of each of the two buffers; several times the processor's last cache, or the cache is measured.
        rounds: copies; others on the machine only ever make one slower, so the fastest counts.

    Raises:
        UsageError: no room for two buffers, or no rounds.
    """
    if size < 1 or rounds < 1:
        raise UsageError(f"size={size}, rounds={rounds}: give 1 byte or more, and 1 copy or more")
    if 2 * size > available_memory():
        raise UsageError(f"two buffers of {size:,} bytes do not fit into memory; give a smaller size")
    import numpy as np

    source, target = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
    best = math.inf
    for _ in range(rounds):
        begun = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - begun)
    return 2 * size / best


def available_memory() -> int:
    """Bytes that this process may have in all: what it holds, and what the machine or its container has to spare."""
    facts = _fields(Path("/proc/meminfo"))
    spare = facts.get("MemAvailable", 0)
    if not spare:  # not Linux
        spare = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = int((Path("/sys/fs/cgroup") / limit).read_text())
            spare = min(spare, max(0, most - int((Path("/sys/fs/cgroup") / used).read_text())))
        except (OSError, ValueError):  # no container, or one without a limit ("max")
            continue
    return spare + _fields(Path("/proc/self/status")).get("VmRSS", 0)


def parse_memory(text: str) -> int:
    """Bytes of "4G", "512M", "1.5 GiB" or a plain number of bytes; K, M, G and T are powers of 1,024.

    Raises:
        UsageError: it is none of these.
    """
    return _parse(text, "memory", {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}, ("iB", "B"), "4G")


def parse_count(text: str) -> int:
    """The number in "7B", "135M" or "1_771_200"; K, M and B are powers of 1,000.

    Raises:
        UsageError: it is none of these.
    """
    return _parse(text, "params", {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}, (), "7B")


def _parse(text: str, what: str, units: dict[str, int], endings: tuple[str, ...], example: str) -> int:
    number = text.strip()
    number = next((number.removesuffix(end) for end in endings if number.endswith(end)), number).strip()
    unit = number[-1:].upper() if number[-1:].upper() in units else ""
    try:
        value = float(number.removesuffix(number[-1:]) if unit else number) * units[unit]
        if not 1 <= value < math.inf:
            raise ValueError
    except ValueError as error:
        raise UsageError(f"{what} {text!r} is no size above 0; write it like {example}") from error
    return int(value)


def _fields(path: Path) -> dict[str, int]:
    """The `Name: N kB` lines of a file of /proc, in bytes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    parts = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in parts if len(words) == 3 and words[2] == "kB"}


def release_memory() -> None:
    """Collect garbage, and give memory that the allocator keeps for later back to the system (glibc only).

    Loading a model leaves some hundred megabytes there that nothing will use again.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
