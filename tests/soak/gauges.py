"""What grows: resident memory along a line, objects by class, and how full every queue was at most."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from multimodal.bench.batch_load import resident_bytes

__all__ = ["HighWater", "growth_bytes", "handles", "objects", "resident_bytes", "waited_s"]


class HighWater:
    """The most that each of some measures showed, sampled as often as `look` is called."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self._measures: dict[str, Callable[[], int]] = {}

    def add(self, name: str, measure: Callable[[], int]) -> None:
        """Watch something."""
        self._measures[name] = measure

    def look(self) -> None:
        """Sample everything."""
        for name, measure in self._measures.items():
            self.most[name] = max(self.most.get(name, 0), measure())


def objects(*packages: str) -> Counter[str]:
    """Objects that the garbage collector knows, of classes of these packages, by class."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    names = (f"{kind.__module__}.{kind.__name__}" for kind in kinds if isinstance(kind.__module__, str))
    return Counter(name for name in names if name.split(".")[0] in packages)


def handles() -> int:
    """Open file handles, sockets included."""
    return len(os.listdir("/proc/self/fd"))


def waited_s() -> float:
    """Seconds for which this thread was ready to run so far, and the machine ran others; 0 where it does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def growth_bytes(samples: Sequence[int]) -> float:
    """From the first sample to the last, along the line of least squares."""
    count = len(samples)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(samples) / count
    above = sum((place - middle) * (value - mean) for place, value in enumerate(samples))
    below = sum((place - middle) ** 2 for place in range(count))
    return above / below * (count - 1)
