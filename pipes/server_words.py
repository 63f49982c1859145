"""What servers say of themselves, fit for an error or a log: short, with nothing that a terminal obeys. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["ERROR_CHARS", "error_words", "harmless", "why"]

ERROR_CHARS = 300
"""Of a server's own words, so many are repeated."""
DEPTH = 8
"""An error within an error within ...: so deep its words are looked for."""


def harmless(text: str) -> str:
    """The text on one line, at most `ERROR_CHARS` long; what cannot be printed is escaped, as ``\\x1b``.

    Args:
        text: of a server: it may hold what clears a terminal, or forges a line of a log.
    """
    line = " ".join(text[: 10 * ERROR_CHARS].split())
    if not line.isprintable():
        line = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)
    return line[:ERROR_CHARS]


def error_words(found: Any) -> str:
    """What a server says of its failure, from whichever form it has: text, JSON, or an object with a message.

    Args:
        found: the text of it, or what was decoded of it.
    """
    for _ in range(DEPTH):
        if isinstance(found, str):
            try:
                found = json.loads(found, strict=False)
            except (ValueError, RecursionError):
                break
        named = [
            found[name] for name in ("error", "message", "detail") if isinstance(found, Mapping) and found.get(name)
        ]
        if not named:
            break
        found = named[0]
    try:
        return harmless(str(found)) or "it said nothing"
    except RecursionError:
        return "it said something that is nested too deep to read"


def why(error: BaseException) -> str:
    """The reason that an error of any library gives, the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return harmless(str(error)) or type(error).__name__
