"""Words that must not be seen, taken out of a text that comes in pieces: masked, or the text ends before them.

    W1  A word is found however the text was split, in any case, width or compatibility form, with accents as separate
        characters or not and in any order, with more spaces than one, and with invisible characters inside it.
    W2  Text is held back only while what follows may make it part of a word: from where the longest such word begins.
        A run of more than `RUN` marks, spaces and invisible characters ends that wait: what stands before it is let
        out, and of a word that goes on behind it the rest is masked. So no word is seen whole, whatever is in it.
    W3  What is masked keeps its length, so that character offsets stay; what is not a word passes unchanged.
    W4  A token whose text is held back is empty, and the text comes with the token that settled it: boundaries stay.
    W5  The same text gives the same, however it was split. Ended at a word, it ends before the one that is complete
        first; of those that are complete with the same character, before the longest.

Normal form: `multimodal.pipes.word_forms`. A word that ends in a mark is certain with the next character that is none,
as a mark of a lower class may come before.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.held_text import HeldText
from multimodal.pipes.word_forms import WordForm, becomes, joins, spaced, word_form
from multimodal.sync.folding import RUN

__all__ = ["Action", "FilteredTextPipe", "Filtering", "WordFilter"]

log = logging.getLogger(__name__)

Action = Literal["mask", "stop"]
PART = 256
"""Characters of a piece that are looked through at once."""


class WordFilter:
    """A list of words, ready to be looked for; share it among all texts.

    Args:
        words: what must not be seen.
        whole_words: True = a word in an alphabet counts only by itself, not within another ("ass" in "glass"). Words in
            scripts that write no spaces always count.

    Raises:
        UsageError: a word that is no text, holds nothing but invisible characters, begins with a mark, or holds more
            than `RUN` of them in one run; pyahocorasick is not installed.
    """

    def __init__(self, words: Iterable[str], *, whole_words: bool = False) -> None:
        if isinstance(words, str):
            raise UsageError(f"words={words!r} is one string; give a list of words")
        self._automaton = _automaton()
        self.whole_words = whole_words
        self.longest = 0
        """Characters of the longest word, in normal form."""
        self._begins: set[str] = set()
        # What stands before a run of marks -> the runs, and whether a word ends with them.
        self._runs: dict[str, set[tuple[str, bool]]] = {}
        self.count = 0
        for word in words:
            normal = word_form(word)
            self._automaton.add_word(normal, len(normal))
            self._begins.update(normal[:length] for length in range(1, len(normal)))
            self._add_runs(normal)
            self.longest = max(self.longest, len(normal))
            self.count += 1
        if self.count:
            self._automaton.make_automaton()

    def begin(self, action: Action = "mask", *, mask: str = "*") -> Filtering:
        """Look through one text.

        Args:
            action: ``mask`` = put `mask` in the place of each character of a word; ``stop`` = end before it.
            mask: one character.

        Raises:
            UsageError: another action, or a mask that is not one character.
        """
        if action not in get_args(Action):
            raise UsageError(f"action={action!r} is none; there are: {', '.join(get_args(Action))}")
        if len(mask) != 1:
            raise UsageError(f"mask={mask!r} must be one character, so that the text keeps its length")
        return Filtering(self, action, mask)

    def seen(self, text: str, action: Action = "mask", *, mask: str = "*") -> str:
        """What may be seen of a whole text.

        Args:
            text: the text.
            action, mask: as for `begin`.

        Raises:
            UsageError: as `begin`.
        """
        filtering = self.begin(action, mask=mask)
        return filtering.push(text) + filtering.flush()

    def ends(self, normal: str) -> list[tuple[int, int]]:
        """(begin, end) of every word in a normal form, by their ends; of one end the longest first."""
        if not self.count:
            return []
        return [(end + 1 - length, end + 1) for end, length in self._automaton.iter(normal)]

    def open_ends(self, normal: str, marks: Sequence[str]) -> Iterator[int]:
        """Where in a normal form a word may begin that is not complete, given the marks behind it so far (W2)."""
        for begin in range(max(0, len(normal) - self.longest + 1), len(normal)):
            end = normal[begin:]
            if any(becomes(marks, *run) for run in self._runs.get(end, ())) if marks else end in self._begins:
                yield begin

    def _add_runs(self, normal: str) -> None:
        at = 0
        while at < len(normal):
            end = at
            while end < len(normal) and unicodedata.combining(normal[end]):
                end += 1
            if end > at:
                self._runs.setdefault(normal[:at], set()).add((normal[at:end], end == len(normal)))
            at = end + 1


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
        self._form = WordForm()
        self._before = ""  # the last visible character that is done with
        self._counted = 0  # up to here in the normal form, words were counted

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._text)

    def push(self, text: str) -> str:
        """The next piece; gives what may be seen of it and of what was held back."""
        # In parts: how a text is split changes nothing (W5), and what is held does not grow with it.
        return "".join([self._push(text[at : at + PART]) for at in range(0, len(text), PART)])

    def _push(self, part: str) -> str:
        shown = ""
        for character in part:
            if self.stopped:
                return shown
            self._form.add(character, len(self._text))
            self._text += character
            self._veiled.append(False)
            if self._form.run > RUN:
                shown += self._let_out(all_of_it=True)
        return shown if self.stopped else shown + self._let_out(all_of_it=False)

    def flush(self) -> str:
        """The text has ended; gives what was held back."""
        return "" if self.stopped else self._let_out(all_of_it=True)

    def _let_out(self, *, all_of_it: bool) -> str:
        """What need not wait, or all of it: then a word at its end is judged as at the end of the text."""
        form = self._form
        if all_of_it:
            form.settle()
        found = self._words.ends(form.text)
        cut = next(
            filter(self._opens, self._words.open_ends(form.text, [mark for mark, _ in form.marks])), len(form.text)
        )
        if self._words.whole_words:
            judged = [(span, self._counts(span, all_of_it)) for span in found]
            found = [span for span, counts in judged if counts]
            cut = min([cut, *(begin for (begin, _), counts in judged if counts is None)])
        if found and self._action == "stop":
            self.hits, self.stopped = 1, True
            shown = self._text[: max(0, form.places[found[0][0]])]
            self._text = ""
            return shown
        for begin, end in found:
            self.hits += end > self._counted
            # Marks stand in canonical order, which need not be that of the text; some of it may have been let out.
            for at in range(max(0, form.places[begin]), max(form.places[begin:end]) + 1):
                self._veiled[at] = True
        self._counted = max(self._counted, found[-1][1] if found else 0)
        # A character's normal form is let out whole, and a word's beginning with its end.
        place = max(0, form.places[cut]) if cut < len(form.text) and not all_of_it else len(self._text)
        while place < len(self._text) and self._veiled[place]:
            place += 1  # masked whatever follows
        veiled = zip(self._text[:place], self._veiled, strict=False)
        shown = "".join(self._mask if hidden else character for character, hidden in veiled)
        self._text, self._veiled = self._text[place:], self._veiled[place:]
        self._before = form.text[cut - 1] if cut else self._before
        self._counted = max(0, self._counted - cut)
        form.forget(cut, place)
        return shown

    def _opens(self, begin: int) -> bool:
        """Whether a word that begins there may count."""
        normal = self._form.text
        before = normal[begin - 1] if begin else self._before
        return not (self._words.whole_words and joins(before, normal[begin]))

    def _counts(self, span: tuple[int, int], at_end: bool) -> bool | None:
        """Whether a word is whole; None = the character behind it says."""
        begin, end = span
        normal = self._form.text
        if not self._opens(begin):
            return False
        marks = [mark for mark, _ in self._form.marks]
        for after in [*normal[end : end + 1], *marks][:1]:
            # No word ends between a letter and its marks.
            return not (spaced(normal[end - 1]) and (spaced(after) or unicodedata.combining(after)))
        return True if at_end or not spaced(normal[end - 1]) else None


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
    def cut(self) -> bool:
        """A word ended it, or the pipe says that it was cut (T10)."""
        return self._filtering.stopped or super().cut

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


def _automaton() -> Any:
    try:
        import ahocorasick
    except ImportError as error:
        raise UsageError(
            "filtering words needs pyahocorasick: install it with `pip install 'multimodal-stream[guard]'`"
        ) from error
    return ahocorasick.Automaton()
