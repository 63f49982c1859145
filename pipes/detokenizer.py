"""Text of token ids that come one by one: whole characters, each as soon as nothing can change it. Pure.

D1. All that `push` gave and then `flush` gives is what `tokenizer.decode` makes of all the ids, byte for byte.
D2. What was given stays: no later id takes anything back.
D3. No text but that of the ids pushed, so none of the prompt: the text begins as `decode` of these ids alone does.
D4. U+FFFD comes only where `decode` of all the ids has it, and no text given so far ends within a reader's character
    of the whole (`detokenizer_graphemes` has the rules and their bounds).
D5. An id costs the same, however many came before.
D6. What is held is bounded: 3 bytes that may become a character, one cluster, one run of byte tokens, one clean-up.

Ids go through a source (`detokenizer_sources` has the three kinds, `detokenizer_tables` what two of them know) and
through what follows it: the clean-up of spaces, where the tokenizer does that, and the hold of the last cluster.
"""

from __future__ import annotations

import operator
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, cast

from multimodal.errors import UsageError
from multimodal.pipes.detokenizer_graphemes import Graphemes
from multimodal.pipes.detokenizer_sources import ByteSource, PieceSource, Source
from multimodal.pipes.detokenizer_tables import BytePieces, Pieces, Strip, pieces_for
from multimodal.pipes.detokenizer_window import CleanUp, WindowSource

__all__ = ["Detokenizer"]

_BASE = ("transformers.tokenization_utils_tokenizers", "transformers.tokenization_utils_base")
"""Where transformers defines how a fast tokenizer decodes; a class that does so itself goes by its `decode` only."""
_SAMPLE = 48
"""Ids that are decoded both ways before a table is trusted with a tokenizer."""

_Found = tuple[BytePieces | Pieces, Strip] | None
_KNOWN: weakref.WeakKeyDictionary[Any, dict[Any, _Found]] = weakref.WeakKeyDictionary()


class Detokenizer:
    """The text of one answer, id by id (D1-D6).

    Args:
        tokenizer: a fast tokenizer of transformers, a `tokenizers.Tokenizer`, or anything with
            `decode(ids, skip_special_tokens=...)`. The first two go by a table that all answers share.
        skip_special_tokens: leave them out, as `decode` does; which ones are special is asked when the tokenizer is
            first used, and again when its vocabulary has grown.
        whole_graphemes: True = give no part of a reader's character, whatever follows (G1), which holds the last one
            until the next token; "likely" = hold it only where ordinary writing goes on (G2); False = give
            whole code points only.

    Raises:
        UsageError: no such tokenizer, or another `whole_graphemes`.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        skip_special_tokens: bool = True,
        whole_graphemes: bool | Literal["likely"] = True,
    ) -> None:
        if whole_graphemes not in (True, False, "likely"):
            raise UsageError(f'whole_graphemes={whole_graphemes!r} is unknown; give True, False or "likely"')
        self._tokenizer = tokenizer  # kept for the table, which does not keep it
        self._source, self._clean_up = _source(tokenizer, skip_special_tokens)
        self._graphemes: Graphemes | None = None
        if whole_graphemes:
            self._graphemes = Graphemes("likely" if whole_graphemes == "likely" else "always")
        self._settled = self._shown = 0  # characters out of the source, and given
        self._ends: deque[int] = deque()  # for each token that is held, the character with which its text is out

    @property
    def held(self) -> int:
        """Tokens whose text is not out yet, the whole of it."""
        return len(self._ends)

    def push(self, token_id: int) -> str:
        """The next token; gives the text that is safe to show now, "" while it is held.

        Raises:
            UsageError: no token id, one below 0, or the detokenizer was flushed. An id beyond the vocabulary has no
                text, as in `decode`, unless `decode` itself refuses it.
        """
        try:
            text = self._source.push(token_id)
        except (OverflowError, TypeError) as error:
            raise _wrong(token_id) from error
        open_ = self._source.waiting
        if self._clean_up is not None:
            text = self._clean_up.push(text)
            open_ += len(self._clean_up.held)
        self._settled += len(text)
        if self._graphemes is not None:
            text = self._graphemes.push(text)
        self._shown = shown = self._shown + len(text)
        ends = self._ends
        while ends and ends[0] <= shown:
            ends.popleft()
        end = self._settled + open_
        if end > shown:
            ends.append(end)
        return text

    def flush(self) -> str:
        """The answer is complete; gives the rest of its text. A second time gives ""."""
        text = self._source.flush()
        if self._clean_up is not None:
            text = self._clean_up.push(text) + self._clean_up.flush()
        if self._graphemes is not None:
            text = self._graphemes.push(text) + self._graphemes.flush()
        self._ends.clear()
        self._source = _Flushed()
        return text


class _Flushed:
    """The source of an answer that is complete."""

    waiting = 0

    def push(self, token_id: int) -> str:
        raise UsageError(f"token id {token_id} after flush(): the text is complete; make a Detokenizer for each answer")

    def flush(self) -> str:
        return ""


def _source(tokenizer: Any, skip_special_tokens: bool) -> tuple[Source, CleanUp | None]:
    if not callable(getattr(tokenizer, "decode", None)):
        raise UsageError(
            f"{type(tokenizer).__name__} is no tokenizer; give one with decode(ids, skip_special_tokens=...)"
        )
    backend, clean_up = _backend(tokenizer)
    if backend is not None:
        found = _table(tokenizer, backend, clean_up, skip_special_tokens)
        if found is not None:
            return _from(found), CleanUp(clean_up) if clean_up else None

    def decode(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    return WindowSource(decode), None


def _from(found: tuple[BytePieces | Pieces, Strip]) -> Source:
    pieces, strip = found
    return ByteSource(pieces) if isinstance(pieces, BytePieces) else PieceSource(pieces, strip)


def _backend(tokenizer: Any) -> tuple[Any, Callable[[str], str] | None]:
    """The `tokenizers.Tokenizer` whose `decode` is all of this one's, and the clean-up behind it; (None, None) = it
    has none, or does something of its own."""
    kind = type(tokenizer)
    if kind.__module__.partition(".")[0] == "tokenizers" and kind.__name__ == "Tokenizer":
        return tokenizer, None
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    own = (_home(tokenizer, name) not in _BASE for name in ("decode", "_decode", "clean_up_tokenization"))
    if type(backend).__name__ != "Tokenizer" or any(own):
        return None, None
    cleans = bool(tokenizer.clean_up_tokenization_spaces)
    if cleans and type(backend.model).__name__ == "BPE":
        cleans = bool(getattr(tokenizer, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", 0))
    return backend, cast(Callable[[str], str], tokenizer.clean_up_tokenization) if cleans else None


def _home(tokenizer: Any, method: str) -> str:
    """The module of the class that defines a method; "" where the object itself does."""
    if method in vars(tokenizer):
        return ""
    return next((base.__module__ for base in type(tokenizer).__mro__ if method in vars(base)), "")


def _table(tokenizer: Any, backend: Any, clean_up: Callable[[str], str] | None, skip_special_tokens: bool) -> _Found:
    """The table for a tokenizer, made once; None = it cannot go by one."""
    decoder = None if backend.decoder is None else backend.decoder.__getstate__()
    # Tokens may be added and decoders changed between two answers. To ask each time which tokens are special would
    # take a millisecond with a thousand of them: one that becomes special later, without being new, is not noticed.
    key = skip_special_tokens, backend.get_vocab_size(True), decoder, clean_up is None
    known = _KNOWN.setdefault(tokenizer, {})
    if key not in known:
        added = backend.get_added_tokens_decoder().values() if skip_special_tokens else ()
        found = pieces_for(backend, frozenset(token.content for token in added if token.special))
        known[key] = found if found and _agrees(tokenizer, found, clean_up, skip_special_tokens) else None
    return known[key]


def _agrees(tokenizer: Any, found: Any, clean_up: Callable[[str], str] | None, skip_special_tokens: bool) -> bool:
    """Whether a table says what `decode` says, for ids from all over the vocabulary."""
    size = max(1, len(tokenizer) if hasattr(tokenizer, "__len__") else tokenizer.get_vocab_size())
    # A step of about the golden section visits all parts of a vocabulary of any size, whatever its order.
    ids = [int(size * (0.618034 * number % 1.0)) for number in range(_SAMPLE)]
    source = _from(found)
    text = "".join(source.push(token_id) for token_id in ids) + source.flush()
    whole: str = tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
    return (clean_up(text) if clean_up else text) == whole


def _wrong(token_id: object) -> UsageError:
    try:
        number = operator.index(token_id)  # type: ignore[arg-type]
    except TypeError:
        return UsageError(f"{token_id!r} is no token id; push one int at a time")
    return UsageError(f"token id {number} is out of range; ids count from 0")
