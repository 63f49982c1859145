"""How a text and the words that must not be seen are compared. Pure.

The form is that of names (`multimodal.sync.folding`), with marks in canonical order. What is equal under NFKC, casefold
and without Default_Ignorable_Code_Point (Unicode TR15; chapters 3.13 and 5.21 of the standard) is equal under it, but
for the iota subscript (U+0345) with a mark behind it. It is made character by character, so that each knows its place
in the text, and a text that comes in pieces has the form of the whole.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from multimodal.errors import UsageError
from multimodal.sync.folding import FOLD, NOTHING, RUN

__all__ = ["WordForm", "becomes", "joins", "spaced", "word_form"]


class WordForm:
    """The normal form of a text, character by character, and for each of its characters its place in the text."""

    def __init__(self) -> None:
        self.text = ""
        """What no later mark can change."""
        self.places: list[int] = []
        """Where each of its characters stands in the text."""
        self.marks: list[tuple[str, int]] = []
        """Those of the run at the end, whose canonical order is not known yet, with their places."""
        self.run = 0
        """Marks, further spaces and invisible characters since the last character that is none of these."""
        self._spaced = False

    def add(self, character: str, place: int) -> None:
        """The next character of the text, and its place."""
        kind, plain = FOLD[character]
        if kind == NOTHING:
            self.run += 1
        for each in plain:
            self._each(each, place)

    def settle(self) -> None:
        """No mark follows that belongs to the run."""
        if self.marks:
            self.marks.sort(key=lambda mark: unicodedata.combining(mark[0]))
            self.text += "".join(mark for mark, _ in self.marks)
            self.places += [place for _, place in self.marks]
            self.marks = []

    def forget(self, count: int, place: int) -> None:
        """The first characters of the form are done with, and those of the text before a place were let out."""
        self.text = self.text[count:]
        self.places = [where - place for where in self.places[count:]]
        self.marks = [(mark, where - place) for mark, where in self.marks]

    def _each(self, plain: str, place: int) -> None:
        if unicodedata.combining(plain):
            self.marks.append((plain, place))
            self.run, self._spaced = self.run + 1, False
        elif plain == " " and self._spaced:
            self.run += 1
        else:
            self.settle()
            self.text += plain
            self.places.append(place)
            self.run, self._spaced = 0, plain == " "


def word_form(word: str) -> str:
    """The normal form of a word.

    Raises:
        UsageError: it cannot be looked for, as for `WordFilter`.
    """
    form = WordForm()
    for character in word if isinstance(word, str) else "":
        form.add(character, 0)
        if len(form.marks) > RUN:
            raise UsageError(f"{word!r} in the list of words holds more than {RUN} marks in one run")
    form.settle()
    if not form.text.strip():
        raise UsageError(f"{word!r} in the list of words: give text with at least one visible character")
    if unicodedata.combining(form.text[0]):
        raise UsageError(f"{word!r} in the list of words begins with a mark; give the letter that it stands on")
    return form.text


def becomes(marks: Sequence[str], run: str, ends: bool) -> bool:
    """Whether marks, and more that may follow, can come to be a run in canonical order; `ends` = or to begin with it.

    Those of one class keep their order (Unicode 3.11), so that what follows stands behind those of its class.
    """
    top = unicodedata.combining(run[-1])
    for kind in set(map(unicodedata.combining, marks)):
        if ends and kind > top:
            continue
        given = "".join(mark for mark in marks if unicodedata.combining(mark) == kind)
        wanted = "".join(mark for mark in run if unicodedata.combining(mark) == kind)
        if not (wanted.startswith(given) or (ends and kind == top and given.startswith(wanted))):
            return False
    return True


def joins(left: str, right: str) -> bool:
    """Both belong to one word of an alphabet: no space is written between words of Chinese, Japanese or Thai."""
    return bool(left and right and spaced(left) and spaced(right))


@lru_cache(maxsize=4096)
def spaced(character: str) -> bool:
    """It belongs to words that are set apart by spaces."""
    if not (character.isalnum() or unicodedata.category(character).startswith("M")):
        return False
    name = unicodedata.name(character, "")
    return not name.startswith(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"))
