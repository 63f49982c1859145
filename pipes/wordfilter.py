"""Words that must not be seen, taken out of a text that comes in pieces: masked, or the text ends before them.

    W1  A word is found however the text was split, in any case, width or compatibility form, with accents as separate
        characters or not, and with invisible characters inside it.
    W2  Text is held back only while its end may be the beginning of a word: the longest such end, and no more.
    W3  What is masked keeps its length, so that character offsets stay; what is not a word passes unchanged.
    W4  A token whose text is held back is empty, and the text comes with the token that settled it: boundaries stay.

Normal form: every character by itself, compatibility-decomposed and case-folded (Unicode TR15, chapter 3.13 of the
standard); format characters and variation selectors fall out. What is equal under NFKC and casefold is equal under it.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.held_text import HeldText

__all__ = ["FilteredTextPipe", "WordFilter"]

log = logging.getLogger(__name__)

Action = Literal["mask", "stop"]


class WordFilter:
    """A list of words, ready to be looked for; share it among all texts.

    Args:
        words: what must not be seen.
        whole_words: True = a word in an alphabet counts only by itself, not within another ("ass" in "glass"). Words in
            scripts that write no spaces always count.

    Raises:
        UsageError: a word that is no text, or that holds nothing but invisible characters; pyahocorasick is not
            installed.
    """

    def __init__(self, words: Iterable[str], *, whole_words: bool = False) -> None:
        if isinstance(words, str):
            raise UsageError(f"words={words!r} is one string; give a list of words")
        self._automaton = _automaton()
        self.whole_words = whole_words
        self.longest = 0
        """Characters of the longest word, in normal form."""
        self._begins: set[str] = set()
        count = 0
        for word in words:
            if not isinstance(word, str) or not (normal := "".join(map(_normal, word))):
                raise UsageError(f"{word!r} in the list of words: give text with at least one visible character")
            self._automaton.add_word(normal, len(normal))
            self._begins.update(normal[:length] for length in range(1, len(normal)))
            self.longest = max(self.longest, len(normal))
            count += 1
        if count:
            self._automaton.make_automaton()
        self.count = count

    def begin(self, action: Action = "mask", *, mask: str = "*") -> Filtering:
        """Look through one text.

        Args:
            action: ``mask`` = put `mask` in the place of each character of a word; ``stop`` = end before it.
            mask: one character.

        Raises:
            UsageError: another action, or a mask that is not one character.
        """
        if action not in ("mask", "stop"):
            raise UsageError(f"action={action!r} is none; there are: mask, stop")
        if len(mask) != 1:
            raise UsageError(f"mask={mask!r} must be one character, so that the text keeps its length")
        return Filtering(self, action, mask)

    def ends(self, normal: str) -> list[tuple[int, int]]:
        """(begin, end) of every word in a normal form."""
        if not self.count:
            return []
        return [(end + 1 - length, end + 1) for end, length in _all_ends(self._automaton, normal)]

    def open_end(self, normal: str) -> int:
        """How many characters at the end of a normal form begin a word (W2)."""
        lengths = range(min(self.longest - 1, len(normal)), 0, -1)
        return next((length for length in lengths if normal[-length:] in self._begins), 0)


class Filtering:
    """One text on its way through a `WordFilter`, which makes it."""

    def __init__(self, words: WordFilter, action: Action, mask: str) -> None:
        self._words, self._action, self._mask = words, action, mask
        self.hits = 0
        """Words that were met."""
        self.stopped = False
        """A word ended the text."""
        self._text = ""  # held back
        self._veiled: list[bool] = []  # which of its characters belong to a word
        self._normal = ""  # its normal form, and for each character of that its place in the text
        self._places: list[int] = []
        self._before = ""  # the last visible character that was let out
        self._counted = 0  # up to here in the normal form, words were counted

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._text)

    def push(self, text: str) -> str:
        """The next piece; gives what may be seen of it and of what was held back."""
        if self.stopped:
            return ""
        for character in text:
            normal = _normal(character)
            self._places += [len(self._text)] * len(normal)
            self._normal += normal
            self._text += character
            self._veiled.append(False)
        return self._let_out(final=False)

    def flush(self) -> str:
        """The text has ended; gives what was held back."""
        return "" if self.stopped else self._let_out(final=True)

    def _let_out(self, *, final: bool) -> str:
        found = [span for span in self._words.ends(self._normal) if self._counts(span, final)]
        self.hits += sum(end > self._counted for _, end in found)
        self._counted = max([self._counted, *(end for _, end in found)])
        if found and self._action == "stop":
            self.stopped = True
            shown = self._text[: self._places[min(begin for begin, _ in found)]]
            self._text = self._normal = ""
            return shown
        keep = 0 if final else self._words.open_end(self._normal)
        if self._words.whole_words and not final:
            # Whether a word that ends here counts is seen by the character behind it.
            waiting = [begin for begin, end in self._words.ends(self._normal) if end == len(self._normal)]
            keep = max([keep, *(len(self._normal) - begin for begin in waiting)])
        cut = len(self._normal) - keep
        # A character's normal form is let out whole, and a word's beginning with its end.
        place = self._places[cut] if cut < len(self._normal) else len(self._text)
        for begin, end in found:
            first, last = self._places[begin], self._places[end - 1]
            self._veiled[first : last + 1] = [True] * (last + 1 - first)
        veiled = zip(self._text[:place], self._veiled, strict=False)
        shown = "".join(self._mask if hidden else character for character, hidden in veiled)
        self._forget(place)
        return shown

    def _forget(self, place: int) -> None:
        at = next((i for i, where in enumerate(self._places) if where >= place), len(self._places))
        if at:
            self._before = self._normal[at - 1]
        self._text, self._veiled = self._text[place:], self._veiled[place:]
        self._normal = self._normal[at:]
        self._places = [where - place for where in self._places[at:]]
        self._counted = max(0, self._counted - at)

    def _counts(self, span: tuple[int, int], final: bool) -> bool:
        if not self._words.whole_words:
            return True
        begin, end = span
        normal = self._normal
        before = normal[begin - 1] if begin else self._before
        if end == len(normal) and not final:
            return False
        after = normal[end] if end < len(normal) else ""
        return not (_joins(before, normal[begin]) or _joins(normal[end - 1], after))


class FilteredTextPipe(HeldText):
    """A text pipe whose words went through a `WordFilter`, with its tokens where they were (W4).

    Args:
        pipe: the text pipe (T1-T8).
        words: what must not be seen.
        action: as for `WordFilter.begin`; ``stop`` closes the pipe.
        mask: as for `WordFilter.begin`.
        on_hit: called with how many words were met so far, each time; it must not block.
    """

    def __init__(
        self,
        pipe: TextPipe,
        words: WordFilter,
        action: Action = "mask",
        *,
        mask: str = "*",
        on_hit: Callable[[int], object] | None = None,
    ) -> None:
        super().__init__(pipe)
        self._filtering = words.begin(action, mask=mask)
        self._on_hit, self._hits = on_hit, 0

    @property
    def _stopped(self) -> bool:
        return self._filtering.stopped

    def _push(self, text: str) -> str:
        return self._seen(self._filtering.push(text))

    def _flush(self) -> str:
        return self._seen(self._filtering.flush())

    def _seen(self, text: str) -> str:
        if self._filtering.hits > self._hits:
            self._hits = self._filtering.hits
            if self._on_hit is not None:
                try:
                    self._on_hit(self._hits)
                except Exception:
                    log.exception("on_hit failed; the narration goes on")
        return text


@lru_cache(maxsize=16_384)
def _normal(character: str) -> str:
    if unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f":
        return ""
    # Folding may make what decomposes again, and the other way round.
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())


def _joins(left: str, right: str) -> bool:
    """Both belong to one word of an alphabet: no space is written between words of Chinese, Japanese or Thai."""
    return bool(left and right and _spaced(left) and _spaced(right))


@lru_cache(maxsize=4096)
def _spaced(character: str) -> bool:
    if not (character.isalnum() or unicodedata.category(character).startswith("M")):
        return False
    name = unicodedata.name(character, "")
    return not name.startswith(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"))


def _all_ends(automaton: Any, normal: str) -> Any:
    return automaton.iter(normal)


def _automaton() -> Any:
    try:
        import ahocorasick
    except ImportError as error:
        raise UsageError(
            "filtering words needs pyahocorasick: install it with `pip install 'multimodal-stream[guard]'`"
        ) from error
    return ahocorasick.Automaton()
