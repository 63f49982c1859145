"""Whole characters, as readers see them, in a text that comes in pieces. Pure.

A reader's character is an extended grapheme cluster (Unicode Standard Annex 29, `\\X` of the regex package): a family
joined by zero-width joiners, a flag of two regional indicators, a thumb with its skin tone, a letter with its marks.
Whether two characters belong together depends on the text before them and on the first one after; so every border
but the last is certain, and only the last cluster of a text may still grow.

G1. Nothing is shown of a cluster before it is certain where it ends. Any character but a line break or another control
    may be followed by a mark, so that this costs the last cluster of every piece, until the next piece comes.
G2. `likely`: the last cluster is held only where ordinary writing continues it (emoji, flags, jamo, scripts that spell
    with marks, a lone digit that may become a keycap). A Latin, Greek, Cyrillic, Han, Kana or Hangul letter leaves at
    once; a bare mark behind it, which normalised text does not contain, would then come apart from it.
G3. A cluster of more than `LONGEST` code points is let go as it is: an endless run of marks would else be an endless
    wait. Tokens without text let nothing go: a mark may stand behind them.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import regex

__all__ = ["LONGEST", "Graphemes", "Wholeness"]

Wholeness = Literal["always", "likely"]

LONGEST = 32
"""Code points. Unicode Standard Annex 15 calls text stream-safe when no more than 30 marks follow a character; the
longest emoji sequence recommended for interchange has 10 code points, the longest subdivision flag 7."""

_CLUSTER = regex.compile(r"\X")
_SPELT_WITH_MARKS = "".join(
    rf"\p{{Script={name}}}"
    for name in (
        *("Arabic", "Hebrew", "Syriac", "Thaana", "Nko", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya"),
        *("Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Khmer"),
        *("Balinese", "Javanese", "Sundanese", "Meetei_Mayek", "Limbu", "Tai_Tham", "Cham", "Mongolian"),
    )
)
# The cancel tag ends a subdivision's flag, and so does the second regional indicator a country's (see `_may_grow`).
_GROWS = regex.compile(
    rf"""(?xV1)
    [\r\u200d\p{{M}}\p{{Extended_Pictographic}}\p{{Emoji_Modifier}}\U000E0020-\U000E007E]
    | \p{{Grapheme_Cluster_Break=Prepend}}
    | [\p{{Hangul_Syllable_Type=L}}\p{{Hangul_Syllable_Type=V}}\p{{Hangul_Syllable_Type=T}}]
    | [[{_SPELT_WITH_MARKS}]&&[\p{{L}}\p{{M}}]]
    """
)
_KEYCAPS = frozenset("0123456789#*")


class Graphemes:
    """Lets text through by whole clusters, by G1 or by G2.

    Args:
        wholeness: "always" (G1) or "likely" (G2).
    """

    def __init__(self, wholeness: Wholeness = "always") -> None:
        self.held = ""
        """The last cluster, while it may grow."""
        self._always = wholeness == "always"
        self._before = ""  # the last character let through

    def push(self, text: str) -> str:
        """The next piece; gives what may be shown now."""
        if not text:
            return ""
        whole = self.held + text
        last = whole[-1]
        if whole.isascii():
            # Among these only a carriage return and the line feed behind it belong together.
            start = len(whole) - 1
        else:
            start = 0
            for cluster in _CLUSTER.finditer(whole):
                start = cluster.start()
        if len(whole) - start > LONGEST or not self._may_grow(whole, start, last):
            start = len(whole)
        self.held = whole[start:]
        if start:
            self._before = whole[start - 1]
        return whole[:start]

    def flush(self) -> str:
        """The text is complete; gives what was held."""
        held, self.held = self.held, ""
        if held:
            self._before = held[-1]
        return held

    def _may_grow(self, whole: str, start: int, last: str) -> bool:
        if last < " ":
            return last == "\r"
        if self._always:
            return True
        if last in _KEYCAPS:
            before = whole[start - 1] if start else self._before
            return not before.isalnum()
        if last.isascii():
            return False
        if not start and unicodedata.category(whole[0])[0] == "M":
            return False  # it belongs to a character that is shown: the sooner it joins it, the better
        if "\U0001f1e6" <= last <= "\U0001f1ff":
            return len(whole) - start == 1
        return _GROWS.match(last) is not None
