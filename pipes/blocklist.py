"""A list of words that a narration must not show, from a file.

UTF-8, one word or phrase a line; empty lines, and lines that begin with ``#``, say nothing. A word in an alphabet
counts by itself and not within another, so that "ass" leaves a glass alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.word_forms import word_form
from multimodal.pipes.wordfilter import Action, FilteredTextPipe, WordFilter

__all__ = ["Blocklist"]

COMMENT = "#"


class Blocklist:
    """Words, and what is done at one of them.

    Args:
        words: what must not be seen.
        action: as for `WordFilter.begin`.

    Raises:
        UsageError: as for `WordFilter`.
    """

    def __init__(self, words: Iterable[str], action: Action = "mask") -> None:
        self.words = WordFilter(words, whole_words=True)
        self.action: Action = action

    @classmethod
    def read(cls, path: Path, action: Action = "mask") -> Self:
        """The words of a file.

        Args:
            path: the file.
            action: as for `WordFilter.begin`.

        Raises:
            UsageError: it cannot be read, is not UTF-8, or holds no word, or one that cannot be looked for, with its
                line; pyahocorasick is not installed.
        """
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            number = error.object.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{path}, line {number}: not UTF-8 text; save the list of words as UTF-8") from error
        except OSError as error:
            raise UsageError(f"cannot read the list of words {path}: {error.strerror}") from error
        words: list[str] = []
        for number, line in enumerate(text.split("\n"), 1):
            word = line.strip()
            if not word or word.startswith(COMMENT):
                continue
            try:
                word_form(word)
            except UsageError as error:
                raise UsageError(f"{path}, line {number}: {error}") from error
            words.append(word)
        if not words:
            raise UsageError(f"{path} holds no word; write one word or phrase a line")
        return cls(words, action)

    def around(self, pipe: TextPipe) -> TextPipe:
        """A text pipe that shows none of them."""
        return FilteredTextPipe(pipe, self.words, self.action)

    def tokens(self, tokens: Sequence[str]) -> list[str]:
        """Tokens that are known beforehand, without what must not be seen: none waits, and none changes its place.

        At least one comes back, as a text pipe has to say something.
        """
        whole = "".join(tokens)
        shown = self.words.seen(whole, self.action)
        out: list[str] = []
        at = 0
        for token in tokens:
            if out and at >= len(shown) < len(whole):
                break
            out.append(shown[at : at + len(token)])
            at += len(token)
        return out

    def hides(self, text: str) -> bool:
        """Whether some of a text must not be seen."""
        return self.words.seen(text) != text
