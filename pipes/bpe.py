"""A byte-level BPE read from a `tokenizer.json`: text -> ids -> the text of each token. Pure; no library to install.

The package `tokenizers` does the same for millions of tokens a second, and brings the client of a model hub along; a
narrator that speaks a few hundred tokens has no use for either. `tests/pipes/test_bpe.py` compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

import regex

from multimodal.errors import UsageError

__all__ = ["Bpe", "narrator_tokenizer"]

_WORDS = 4096
"""Words whose tokens are remembered."""


class Bpe:
    """A tokenizer of the kind GPT-2 brought up: words by a pattern, then merges of bytes, most frequent first.

    Args:
        text: a `tokenizer.json` with one Split pattern, a ByteLevel and a BPE model.

    Raises:
        UsageError: another kind of tokenizer.
    """

    def __init__(self, text: str) -> None:
        try:
            found = json.loads(text)
            split = found["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
            model = found["model"]
            self._ids: dict[str, int] = dict(model["vocab"])
            self._ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise UsageError(f"this tokenizer.json is no byte-level BPE with one Split pattern: {error!r}") from error
        self._pattern = regex.compile(split)
        letters = _letters()
        self._letters = dict(enumerate(letters))
        back = {letter: byte for byte, letter in enumerate(letters)}
        self._bytes = {index: bytes(back[letter] for letter in piece) for piece, index in self._ids.items()}
        self._word = lru_cache(_WORDS)(self._merged)

    def __len__(self) -> int:
        return len(self._ids)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [index for word in self._pattern.findall(text) for index in self._word(word)]

    def decode(self, ids: list[int]) -> str:
        """The text of ids; bytes that are no character come as U+FFFD."""
        return b"".join(self._bytes[index] for index in ids).decode("utf-8", "replace")

    def split(self, text: str) -> list[str]:
        """One text for each token; they make up the whole. A token that ends within a character is empty, and its
        bytes come with the token that completes the character."""
        return list(self._texts(text))

    def _texts(self, text: str) -> Iterator[str]:
        waiting = b""
        for index in self.encode(text):
            waiting += self._bytes[index]
            whole = _whole(waiting)
            yield waiting[:whole].decode()
            waiting = waiting[whole:]

    def _merged(self, word: str) -> tuple[int, ...]:
        parts = [self._letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            pairs = range(len(parts) - 1)
            at = min(pairs, key=lambda i: self._ranks.get((parts[i], parts[i + 1]), len(self._ranks)))
            if (parts[at], parts[at + 1]) not in self._ranks:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(self._ids[part] for part in parts)


@lru_cache(1)
def narrator_tokenizer() -> Bpe:
    """The tokenizer of the extractive narrator, made by `assets/narrator/make_tokenizer.py`."""
    path = files("multimodal.assets").joinpath("narrator", "tokenizer.json")
    return Bpe(path.read_text(encoding="utf-8"))


def _whole(data: bytes) -> int:
    """Bytes up to the last whole character."""
    for back in range(1, min(4, len(data) + 1)):
        lead = data[-back]
        if lead < 0x80:
            return len(data) - back + 1
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) if back >= length else len(data) - back
    return len(data)


def _letters() -> list[str]:
    """The letter that stands for each byte in such a vocabulary: itself if it can be seen, else one from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters, extra = [""] * 256, 0
    for byte in range(256):
        if byte in seen:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(0x100 + extra)
            extra += 1
    return letters
