"""Faults that nobody raises: what was logged as an error, and what the loop was left with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Faults", "watched"]


class Faults(logging.Handler):
    """Keeps every line logged as an error; asyncio tells of exceptions that nobody fetched in the same way."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage())


@contextmanager
def watched() -> Iterator[Faults]:
    """Collects while the block runs, and fails behind it if there was anything."""
    faults = Faults()
    logging.getLogger().addHandler(faults)
    try:
        yield faults
    finally:
        logging.getLogger().removeHandler(faults)
    assert not faults.lines, "\n".join(faults.lines[:5])
