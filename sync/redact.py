"""A recording without its words: what may be shown to others. Pure.

Every text is replaced by characters of the same number: letters by x (of scripts that need no spaces: 某), digits by 0,
symbols by *; white space and punctuation stay, so that lengths, tokens, sentences and every figure stay. Titles, alt
texts and messages are replaced likewise, with z, so that no name is found among the words by accident; previews and
addresses are left out. What ties the lines together stays: keys, ids, numbers, times, reasons and settings.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

from multimodal.events import AnyEvent, Text
from multimodal.sync.log import SyncLog
from multimodal.wire import decode_event

__all__ = ["redacted"]

_KEPT = {
    "kind",
    "sid",
    "key",
    "product",
    "id",
    "reason",
    "code",
    "lane",
    "late",
    "token_unit",
    "narrator",
    "currency",
} | {
    *("media_type", "sha256", "formats", "unused", "stage"),
}
"""Fields whose text is an identifier or a word of the format; all other text is taken to be somebody's own."""
_LEFT_OUT = frozenset({"placeholder", "url"})


def redacted(log: SyncLog) -> SyncLog:
    """The same recording without its words; figures and verdicts stay, but for those that compare names with words."""
    return msgspec.structs.replace(log, events=tuple(_event(event) for event in log.events))


def _event(event: AnyEvent) -> AnyEvent:
    letter = "x" if isinstance(event, Text) else "z"
    masked = decode_event(msgspec.json.encode(_masked(msgspec.to_builtins(event), letter)))
    assert masked is not None  # of a known kind: it was decoded before
    return masked


def _masked(value: Any, letter: str) -> Any:
    if isinstance(value, str):
        return "".join(_mask(char, letter) for char in value)
    if isinstance(value, list | tuple):
        return [_masked(item, letter) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _field(name, item, letter) for name, item in value.items()}


def _field(name: str, value: Any, letter: str) -> Any:
    if name in _KEPT:
        return value
    if name in _LEFT_OUT:
        return None if value is None else ""
    return _masked(value, letter)


def _mask(char: str, letter: str) -> str:
    kind = unicodedata.category(char)[0]
    if kind in "LM":
        if char >= "⺀":
            return "某"
        return letter.upper() if char.isupper() else letter
    if kind == "N":
        return "0"
    # Joiners and selectors are format characters (Cf) and would tell which emoji stood there.
    return "*" if kind in "SC" and not char.isspace() else char
