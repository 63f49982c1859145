"""What each id of a tokenizer is, found once and shared by all answers: its bytes, or its text. Pure.

Which of the two, and whether either, follows from the steps of the tokenizer's decoder (`detokenizer_sources`). What a
step does to a token is not computed here: the decoder itself is asked, for the token alone and behind another.
"""

from __future__ import annotations

import copy
import json
import re
import weakref
from collections.abc import Sequence
from typing import Any

__all__ = ["BYTE_OF", "BytePieces", "Pieces", "Strip", "pieces_for"]

Strip = tuple[str, int]
"""A character, and how many of it a decoder takes off the beginning of a text."""

_ANCHOR = "x"
"""A token whose text no decoder changes; what stands behind it is not the first."""
_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_LOCAL = frozenset({"Replace", "ByteFallback", "Metaspace", "WordPiece"})
"""Steps that look at one token, its place being first or not, or at one run of byte tokens."""


class _Vocabulary(dict[int, Any]):
    """What each id is, found once. Ids that the decoder never sees (unknown, or special and skipped) are None."""

    def __init__(self, tokenizer: Any, skipped: frozenset[str]) -> None:
        super().__init__()
        # Tables live as long as their tokenizer, so they must not keep it; whoever reads a table does.
        self._tokenizer = weakref.ref(tokenizer)
        self._skipped = skipped

    def __missing__(self, token_id: int) -> Any:
        tokenizer: Any = self._tokenizer()
        token = tokenizer.id_to_token(token_id)
        entry = self[token_id] = None if token is None or token in self._skipped else self.entry(token)
        return entry

    def entry(self, token: str) -> Any:
        raise NotImplementedError


class BytePieces(_Vocabulary):
    """S1's table: an id's text where its bytes are whole characters, else its bytes."""

    def entry(self, token: str) -> str | bytes:
        try:
            data = bytes(BYTE_OF[character] for character in token)
        except KeyError:
            return token  # an added token stands for itself
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data


class Pieces(_Vocabulary):
    """S2's table: an id's text as the first one and behind others; a byte token is an int."""

    def __init__(self, tokenizer: Any, skipped: frozenset[str], decoder: Any, bytes_too: bool) -> None:
        super().__init__(tokenizer, skipped)
        self._decoder, self._bytes_too = decoder, bytes_too

    def entry(self, token: str) -> tuple[str, str] | int:
        if self._bytes_too and (byte := _BYTE.fullmatch(token)):
            return int(byte[1], 16)
        return self.text([token], first=True), self.text([token], first=False)

    def text(self, tokens: list[str], *, first: bool) -> str:
        """What the decoder makes of tokens, as the first ones or behind others."""
        if self._decoder is None:
            return "" if not tokens else ("" if first else " ") + " ".join(tokens)
        if first:
            return str(self._decoder.decode(tokens))
        return str(self._decoder.decode([_ANCHOR, *tokens]))[len(_ANCHOR) :]


def pieces_for(tokenizer: Any, skipped: frozenset[str]) -> tuple[BytePieces | Pieces, Strip] | None:
    """The table for a `tokenizers.Tokenizer` and what its decoder strips; None = its decoder needs S3."""
    decoder = tokenizer.decoder
    if decoder is None:
        return Pieces(tokenizer, skipped, None, False), ("", 0)
    steps = _steps(json.loads(decoder.__getstate__()))
    kinds = [step["type"] for step in steps if step["type"] != "Fuse"]
    if kinds == ["ByteLevel"]:
        return BytePieces(tokenizer, skipped), ("", 0)
    strip = ("", 0)
    if kinds and kinds[-1] == "Strip" and steps[0]["type"] != "Strip":
        last = [step for step in steps if step["type"] != "Fuse"][-1]
        # Behind a Fuse it strips the whole text; before one, each token.
        if last["stop"] == 0 and any(step["type"] == "Fuse" for step in steps[: steps.index(last)]):
            strip = (last["content"], last["start"])
            steps.remove(last)
    if not _local(steps):
        return None
    if strip[1]:
        decoder = copy.deepcopy(decoder)
        decoder.__setstate__(json.dumps({"type": "Sequence", "decoders": steps}).encode())
    return Pieces(tokenizer, skipped, decoder, any(step["type"] == "ByteFallback" for step in steps)), strip


def _steps(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    """A decoder's steps, one after the other, sequences within sequences laid flat."""
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for inner in decoder["decoders"] for step in _steps(inner)]


def _local(steps: Sequence[dict[str, Any]]) -> bool:
    fused = False
    for step in steps:
        kind = step["type"]
        if kind == "Fuse":
            fused = True
        elif kind not in _LOCAL:
            return False
        elif fused and not (kind == "Replace" and len(step["pattern"].get("String", "")) == 1):
            return False  # it looks at the whole text
    return True


def _bytes_of_characters() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 stands for itself, the other bytes for the characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = _bytes_of_characters()
