"""What planning a tour's words needs in every language: families of sentences, clauses, and a seeded choice. Pure."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from multimodal.pipes.facts import Fact

__all__ = ["Clause", "Family", "Links", "Picker", "filled", "neat", "stopped", "words_of"]

_T = TypeVar("_T")

_SLOT = re.compile(r"\{(\w+)\}([.。]?)")
_ENDED = {".": re.compile("[.!?…][\"'”’]*$"), "。": re.compile("[。！？!?…][\"'”’」』]*$")}
"""By the stop that would follow: what has an end of its own. A full stop of Latin letters ends no Chinese sentence."""

Links = dict[str, tuple[str, Fact]]
"""Words that tie a product to the one before it, and the fact they say, by slot."""


class Family(msgspec.Struct, frozen=True):
    """One way to open a passage and name its product.

    Args:
        text: with slots; a sheet that cannot fill them all is opened in another way.
        place: where in a tour it fits.
    """

    text: str
    place: Literal["first", "last", ""] = ""


class Clause(msgspec.Struct, frozen=True):
    """One fact as a part of a sentence.

    Args:
        form: what it is: a verb phrase, a measured side, a clause with a subject of its own, a sentence of its own.
        text: its words, the first in small letters.
        fact: what it says.
    """

    form: Literal["verb", "side", "own", "alone"]
    text: str
    fact: Fact


class Picker:
    """Chooses by a seed, the least used first and never the same twice running where there is another.

    Args:
        seed: the same seed and the same questions give the same choices, on every machine.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"narrator {seed}")
        self._used: dict[str, Counter[object]] = {}
        self._last: dict[str, object] = {}

    def pick(self, slot: str, options: Sequence[_T]) -> _T:
        """One of the options.

        Args:
            slot: what is chosen; choices of one slot vary among themselves.
            options: at least one.
        """
        used = self._used.setdefault(slot, Counter())
        fresh = [option for option in options if option != self._last.get(slot)] or list(options)
        fewest = min(used[option] for option in fresh)
        chosen = self._random.choice([option for option in fresh if used[option] == fewest])
        used[chosen] += 1
        self._last[slot] = chosen
        return chosen

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return self._random.randint(low, high)

    def chance(self, share: float) -> bool:
        """True in that share of the cases."""
        return self._random.random() < share


def neat(text: str) -> str:
    """Our own words at the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def filled(form: str, slots: Mapping[str, str]) -> str:
    """A form with its slots filled; its stop behind a value that has one of its own ("N. N.") is left out."""

    def value(slot: re.Match[str]) -> str:
        name, stop = slot.groups()
        return stopped(slots[name], stop) if stop else slots[name]

    return _SLOT.sub(value, form)


def stopped(text: str, stop: str = ".") -> str:
    """Words as a sentence: with a stop, unless they end in one."""
    return text if _ENDED[stop].search(text) else text + stop


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())
