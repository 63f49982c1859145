"""From token ids to text that no further id can change: three ways, chosen by what the tokenizer is. Pure.

S1. `ByteSource`: the decoder is ByteLevel (GPT-2, Llama 3, Qwen, DeepSeek, ...). An id is some bytes, whatever stands
    beside it; a table gives them, and what the bytes do not complete waits: 3 bytes at most. Bytes that cannot become
    a character are one U+FFFD for each longest part that might have, at once (Unicode chapter 3, "Substitution of
    Maximal Subparts"), which is what both Python and Rust's tokenizers do.
S2. `PieceSource`: the decoder's steps look at one token at a time and at whether it is the first (Metaspace, WordPiece,
    Replace, ...), and at runs of byte tokens (ByteFallback). A table gives an id's text. A run of byte tokens is text
    if all of it is UTF-8 and one U+FFFD for each byte if not, so that its text waits for its end, `LONGEST_RUN` bytes
    at most: text shown then stays, and if the run turns out to be broken only the rest of it becomes U+FFFD. A run
    that can no longer become UTF-8 does not wait.
S3. `WindowSource` (`detokenizer_window`): anything else that has `decode`. The last ids are decoded again with each
    new one.
"""

from __future__ import annotations

import codecs
from typing import Protocol

from multimodal.pipes.detokenizer_tables import BytePieces, Pieces, Strip

__all__ = ["LONGEST_RUN", "REPLACEMENT", "ByteSource", "PieceSource", "Source"]

LONGEST_RUN = 256
"""Bytes: some 85 Chinese characters in one breath, each unknown to the vocabulary."""
REPLACEMENT = "\ufffd"
_SURROGATE = tuple(bytes((0xED, second)) for second in range(0xA0, 0xC0))


class Source(Protocol):
    """Ids in, text out that stays."""

    def push(self, token_id: int) -> str: ...

    def flush(self) -> str: ...

    @property
    def waiting(self) -> int:
        """Characters, so far, of the ids whose text has not come out."""
        ...


class ByteSource:
    """S1."""

    def __init__(self, pieces: BytePieces) -> None:
        self._pieces = pieces
        self._partial = b""

    @property
    def waiting(self) -> int:
        return 1 if self._partial else 0

    def push(self, token_id: int) -> str:
        piece = self._pieces[token_id]
        if piece.__class__ is str:
            if self._partial and piece:
                self._partial = b""
                return REPLACEMENT + str(piece)
            return str(piece)
        if piece is None:
            return ""
        data = self._partial + piece
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._partial = data[used:]
        if self._partial.startswith(_SURROGATE):
            # Python waits for the third byte of a surrogate, which is no character with any.
            self._partial = b""
            return text + REPLACEMENT * 2
        return text

    def flush(self) -> str:
        partial, self._partial = self._partial, b""
        return REPLACEMENT if partial else ""


class PieceSource:
    """S2.

    Args:
        pieces: the table.
        strip: what is taken off the beginning of the text.
    """

    def __init__(self, pieces: Pieces, strip: Strip = ("", 0)) -> None:
        self._pieces = pieces
        self._strip, self._left = strip
        self._first = True
        self._run = bytearray()
        self._reader = codecs.getincrementaldecoder("utf-8")()
        self._broken = False
        self._out = 0  # bytes of the run whose text is out
        self._characters = 0  # of the run, begun and not out

    @property
    def waiting(self) -> int:
        return self._characters

    def push(self, token_id: int) -> str:
        piece = self._pieces[token_id]
        if piece is None:
            return ""
        if piece.__class__ is int:
            return self._stripped(self._byte(piece))
        text: str = self._end_of_run() if self._run else ""
        text += piece[0] if self._first else piece[1]
        self._first = False
        return self._stripped(text) if self._left else text

    def flush(self) -> str:
        return self._stripped(self._end_of_run())

    def _byte(self, byte: int) -> str:
        self._run.append(byte)
        if self._broken:
            self._out += 1
            return REPLACEMENT
        try:
            self._reader.decode(bytes((byte,)))
        except UnicodeDecodeError:
            self._broken, self._characters = True, 0
            missing, self._out = len(self._run) - self._out, len(self._run)
            return REPLACEMENT * missing
        # Each character begins with a byte that continues none.
        self._characters += byte & 0xC0 != 0x80
        if len(self._run) - self._out < LONGEST_RUN:
            return ""
        text, used = codecs.utf_8_decode(self._run[self._out :], "strict", False)
        self._out += used
        self._characters -= len(text)
        return text

    def _end_of_run(self) -> str:
        run, out, broken = bytes(self._run), self._out, self._broken
        self._run.clear()
        self._reader.reset()
        self._broken, self._out, self._characters = False, 0, 0
        if broken or not run:
            self._first = self._first and not run
            return ""
        first, self._first = self._first, False
        try:
            run.decode()
        except UnicodeDecodeError:
            return REPLACEMENT * (len(run) - out)
        if out:
            return run[out:].decode()
        return self._pieces.text([f"<0x{byte:02X}>" for byte in run], first=first)

    def _stripped(self, text: str) -> str:
        while self._left and text:
            if text[0] != self._strip:
                self._left = 0
                break
            text, self._left = text[1:], self._left - 1
        return text
