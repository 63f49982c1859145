"""The user's cache: what was fetched or made once, outside the package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alone", "user_cache"]


def user_cache() -> Path:
    """The folder of this package in the user's cache, by `XDG_CACHE_HOME`; it need not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multimodal-stream"


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Hold the making of `home` for this process: another that wants to make it waits until this one is done.

    The hold ends with the process, however that ends.

    Args:
        home: what is made; beside it lies the file that is held.

    Raises:
        OSError: the folder cannot be written to.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.with_name(f"{home.name}.lock"), "w") as held:
        try:
            import fcntl
        except ImportError:  # no such thing here: two may make it, and the later one finds it made
            yield
            return
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
