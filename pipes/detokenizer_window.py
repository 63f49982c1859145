"""Text of a tokenizer of which nothing is known but `decode`: the last ids are decoded again with each new one. Pure.

W1. It is taken that further ids change a decoded text only at its end: up to `PARTIAL` U+FFFD (bytes that may yet
    become a character), and what `clean_up_tokenization_spaces` may still draw together. That much waits.
W2. The window is shortened to ids whose text is the end of the longer window's text, so that both say the same of what
    follows; the cost of an id does not depend on how many came before.
W3. `flush` decodes everything once. A tokenizer that breaks W1 is noticed at the next id: nothing more is shown before
    the end, and then what the whole text has beyond the characters shown.
"""

from __future__ import annotations

from collections.abc import Callable

import regex

from multimodal.errors import UsageError
from multimodal.pipes.detokenizer_sources import REPLACEMENT

__all__ = ["CleanUp", "WindowSource"]

PARTIAL = 3
"""A character is 4 bytes at most, so that no more than 3 wait for others."""
SHORT, LONG = 12, 24
"""Ids to which the window is shortened, and from which on: a character takes 4, a clean-up no more."""

_OPEN = r"[ ]{1,2}(?:n[ ]{0,2})?(?:'[ ]{0,2})?[vr]?[ ]{0,2}\Z"
_QUOTES = regex.compile(r"[ ]{1,2}(?:n[ ]{0,2})?(?:'[ ]{0,2})*[vr]?[ ]{0,2}\Z")
# What it replaces begins with a space and goes on with one of . ? ! , ' n't 'm 's 've 're, and one replacement may
# bring the parts of a later one together. Of quotes between spaces it takes every other space, counted from the first.
_CERTAIN = regex.compile(rf"(?s)(?>[ ]'[ ]|.)*?(?={_OPEN})")


class WindowSource:
    """S3.

    Args:
        decode: ids to text; the same ids give the same text.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._begin = 0
        self._text = ""  # of the window
        self._out = 0  # characters of it that are out
        self._shown: list[str] = []
        self._lost = False
        self._next_cut = LONG

    @property
    def waiting(self) -> int:
        return len(self._text) - self._out

    def push(self, token_id: int) -> str:
        self._ids.append(token_id)
        if self._lost:
            return ""
        try:
            text = self._decode(self._ids[self._begin :])
        except Exception as error:
            self._ids.pop()
            raise UsageError(f"the tokenizer cannot decode token id {token_id}: {error!r}") from error
        if not text.startswith(self._text[: self._out]):
            self._lost = True
            return ""
        self._text = text
        end = max(self._out, _settled(text))
        new, self._out = text[self._out : end], end
        if new:
            self._shown.append(new)
        if len(self._ids) - self._begin >= self._next_cut:
            self._cut()
        return new

    def flush(self) -> str:
        whole = self._decode(self._ids) if self._ids else ""
        shown = "".join(self._shown)
        if whole.startswith(shown) or self._lost:
            return whole[len(shown) :]
        return self._text[self._out :]

    def _cut(self) -> None:
        # Where one id begins within a character, the one before it may not.
        for begin in range(len(self._ids) - SHORT, len(self._ids) - SHORT - 4, -1):
            text = self._decode(self._ids[begin:])
            out = self._out - (len(self._text) - len(text))
            # Some of what is out must stand in it: an id behind nothing would be taken for the first.
            if self._text.endswith(text) and text[: max(0, out)].strip():
                self._begin, self._text, self._out = begin, text, out
                self._next_cut = LONG
                return
        # Fewer and fewer attempts, so that ids without any text cost no more for it.
        self._next_cut = (len(self._ids) - self._begin) * 5 // 4


def _settled(text: str) -> int:
    """How much of a text no further id changes, by W1."""
    partial = min(PARTIAL, len(text) - len(text.rstrip(REPLACEMENT)))
    end = len(text) - partial
    spaces = _QUOTES.search(text, max(0, end - LONG), end)
    return spaces.start() if spaces else end


class CleanUp:
    """transformers' `clean_up_tokenization_spaces` for a text that comes in pieces.

    Args:
        clean_up: the function for a whole text.
    """

    def __init__(self, clean_up: Callable[[str], str]) -> None:
        self._clean_up = clean_up
        self.held = ""

    def push(self, text: str) -> str:
        text = self.held + text
        certain = _CERTAIN.match(text)
        end = certain.end() if certain else len(text)
        self.held = text[end:]
        return self._clean_up(text[:end])

    def flush(self) -> str:
        held, self.held = self.held, ""
        return self._clean_up(held)
