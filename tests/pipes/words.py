"""A tokenizer of whole words for tests without a model: one id for each word, its text always the same."""

from __future__ import annotations

from collections.abc import Sequence

from multimodal.pipes.script import split_tokens

__all__ = ["EOS", "Words"]

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
