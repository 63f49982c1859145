"""A tokenizer of whole words for tests without a model: one id for each word, its text always the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from multimodal.pipes.generation import Finish, Step
from multimodal.pipes.script import split_tokens
from multimodal.values import Token

__all__ = ["EOS", "PlainFlow", "Words"]

EOS = 0
"""The id of the end token, which has no text."""


class Words:
    """Ids for the words of a text, and back; whatever is encoded joins the vocabulary."""

    def __init__(self, text: str = "") -> None:
        self._known: list[str] = [""]
        self.ids = self.encode(text)
        """The ids of the text it was made with."""

    def encode(self, text: str) -> list[int]:
        """One id for each word."""
        ids = []
        for word in split_tokens(text):
            if word not in self._known:
                self._known.append(word)
            ids.append(self._known.index(word))
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The words side by side."""
        return "".join(self._known[each] for each in ids)


class PlainFlow:
    """A flow that holds nothing, or so many seconds: for what is read, and when, without what a text engine adds."""

    def __init__(self, words: Words, hold: float = 0.0) -> None:
        self.finished: Finish = ""
        self._words, self._hold = words, hold
        self._held: list[tuple[float, Token]] = []
        self._ready: list[Token] = []

    def feed(self, step: Step, now: float) -> None:
        text = self._words.decode([step.token_id]) if step.token_id >= 0 else ""
        self._held.append((now + self._hold, Token(text, last=bool(step.finish))))
        self.finished = step.finish
        self.handle_timer(math.inf if step.finish or not self._hold else now)

    def next_timer(self) -> float | None:
        return self._held[0][0] if self._held else None

    def handle_timer(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            self._ready.append(self._held.pop(0)[1])

    def flush(self) -> None:
        self.handle_timer(math.inf)

    def take(self) -> list[Token]:
        ready, self._ready = self._ready, []
        return ready
