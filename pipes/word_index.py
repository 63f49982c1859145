"""How many of a text's words are a document's, the rare ones counting more. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import regex

__all__ = ["WordIndex"]

_K1, _B = 1.2, 0.75
"""BM25's usual settings: how soon a word said again adds nothing, and how much long documents are discounted."""
_WORD = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+|[\p{L}\p{N}]+")
_SPACELESS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


class WordIndex:
    """An index over a catalogue's texts.

    Args:
        documents: one text each.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        counts = [Counter(_terms(document)) for document in documents]
        self._count = len(documents)
        lengths = [sum(count.values()) for count in counts]
        usual = sum(lengths) / len(lengths) if lengths else 0.0
        self._found: dict[str, dict[int, float]] = defaultdict(dict)
        for number, count in enumerate(counts):
            long = _K1 * (1 - _B + _B * lengths[number] / usual) if usual else _K1
            for term, times in count.items():
                # Divided by what endless repetition would give, so that a share is a share.
                self._found[term][number] = times / (times + long)

    def shares(self, text: str) -> list[float]:
        """For each document, how much of the text's words is in it, weighted by rarity: 0 = none, 1 = all of it."""
        terms = set(_terms(text))
        shares = [0.0] * self._count
        total = 0.0
        for term in terms:
            found = self._found.get(term, {})
            rare = math.log(1 + (self._count - len(found) + 0.5) / (len(found) + 0.5))
            total += rare
            for number, weight in found.items():
                shares[number] += rare * weight
        return [share / total for share in shares] if total else shares


def _terms(text: str) -> list[str]:
    """Words in lower case; of scripts without spaces every pair of neighbours, and a character that stands alone."""
    terms: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if _SPACELESS.match(word):
            terms += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        else:
            terms.append(_stem(word))
    return terms


def _stem(word: str) -> str:
    """A plural or a genitive is the same word; no more than that, as other endings carry meaning or are another's."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
