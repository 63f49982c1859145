"""The user's cache: what was fetched or made once, outside the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from multimodal.errors import UsageError

__all__ = ["alone", "user_cache"]


def user_cache() -> Path:
    """The folder of this package in the user's cache, by `XDG_CACHE_HOME`; it need not exist yet.

    Raises:
        UsageError: the variable is not set, and this user has no home.
    """
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "multimodal-stream"
    except RuntimeError as error:
        raise UsageError(
            "this user has no home folder; set XDG_CACHE_HOME to a folder that can be written to"
        ) from error


@contextmanager
def alone(home: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the making of `home` for this process: another that wants to make it waits until this one is done.

    The hold ends with the process, however that ends.

    Args:
        home: what is made; beside it lies the file that is held.
        waits: called once where another process holds it, before the wait.

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
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
