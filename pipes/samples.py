"""The sample pictures that ship with the package, for a first try without a catalogue."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from multimodal.errors import UsageError

__all__ = ["samples"]


def samples(name: str) -> Path:
    """The folder of a set of small sample pictures.

    Args:
        name: the set, such as ``kettle``.

    Raises:
        UsageError: there is no such set; the message lists those there are.
    """
    root = Path(str(files("multimodal.assets"))) / "samples"
    sets = sorted(path.name for path in root.iterdir() if path.is_dir())
    if name not in sets:
        raise UsageError(f"no sample pictures called {name!r}; there are: {', '.join(sets)}")
    return root / name
