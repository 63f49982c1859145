"""What an OpenAI-compatible server streams -> tokens. Pure: events of its response in, tokens out.

O1  An event without data, a chunk without choices, with fields nobody knows, without `finish_reason`, or of another
    choice than the first adds nothing and is no fault; a role with empty content is no token.
O2  Text is taken from a chunk of a chat (`delta.content`, as a string or in parts) as from one of a completion
    (`text`), also from the chunk that finishes; from a whole `message` only where no text came before it.
O3  Where a chunk brings token ids, it is as many tokens; all but the last are empty. Else it is one (a delta).
O4  An error within the stream is an error, whatever form it has: an object that says so, a bare string, text that is
    not JSON, JSON on a line that is no event. A message that does not say so is none.
O5  The stream has ended where a `finish_reason` came, or `[DONE]`. Ending without either is a lost connection. A last
    event counts without the empty line behind it, if it is whole.
O6  Stop sequences end it here too: some servers let them through.
O7  A `finish_reason` that names a failure (`FAILED`) is an error; one that says that the model came to its own end
    (`WHOLE`) is an end; any other, such as ``length`` or ``content_filter``, is an end too, and the answer was cut.
O8  What a model thinks is no text: fields and parts of its own, and in a chat ``<think>...</think>`` within the content
    (`thoughts`). A closing tag alone, behind text, is an error: that text was thought.
O9  An answer that ends without any text is an error, in the words of what came in its place.
O10 JSON that is not quite JSON is read as far as it can be: NaN, bare control characters, and halves of a surrogate
    pair, which are joined also over chunks; a half alone is one U+FFFD.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from multimodal.errors import PipeError
from multimodal.pipes.server_words import ERROR_CHARS, error_words, harmless
from multimodal.pipes.stops import StopSequences
from multimodal.pipes.thoughts import Thoughts
from multimodal.sse_reader import SSEEvent
from multimodal.values import Token

__all__ = ["FAILED", "WHOLE", "AnswerStream", "EmptyAnswerError", "Usage"]

WHOLE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"})
"""The model came to its own end, or to a stop sequence: OpenAI's word, and what other servers say for it."""
FAILED = frozenset({"abort", "aborted", "cancelled", "canceled", "error", "failed"})
"""The server gave the answer up: vLLM and SGLang say ``abort``, routers ``error``."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the server counted them; 0 = it did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class EmptyAnswerError(PipeError):
    """The answer has ended, and there was no text in it (O9)."""


class _Part(msgspec.Struct):
    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    index: Any = 0
    delta: _Part | None = None
    message: _Part | None = None
    text: str | None = None
    finish_reason: Any = None
    token_ids: list[Any] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    detail: Any = None
    message: Any = None
    object: Any = None
    type: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


class AnswerStream:
    """One answer (O1-O10 above).

    Args:
        server: named in errors.
        stop: sequences that end it and are not shown.
        chat: of a chat, in whose content a model may think (O8).
    """

    def __init__(self, server: str, stop: Sequence[str] = (), *, chat: bool = True) -> None:
        self.server = server
        self.finish_reason = ""
        """Why the server ended it, in its word; "" = not yet."""
        self.usage = Usage()
        self.tokens = 0
        self.thoughts = 0
        """Chunks in which the model thought."""
        self.by_ids = False
        """Its chunks bring token ids: a token is a token, not a delta."""
        self.failure: PipeError | None = None
        """Why it failed, where that came behind tokens."""
        self._halves = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._thinking = Thoughts() if chat else None
        self._stops = StopSequences(stop)
        self._waiting = 0  # tokens whose text waits for what follows
        self._text = self._done = self._called = False
        self._refusal = self._stray = ""

    @property
    def ended(self) -> bool:
        """Nothing more can come."""
        return self.failure is None and (self._done or self._stops.hit is not None)

    @property
    def cut(self) -> bool:
        """The server ended it before the model came to its own end (O7), or a thought of it has no end."""
        thinks = self._thinking is not None and self._thinking.inside
        return bool(self.finish_reason) and (thinks or self.finish_reason.casefold() not in WHOLE)

    @property
    def place(self) -> str:
        """How far it has come, for an error."""
        return f"in the middle of its answer, after {self.tokens} tokens" if self.tokens else "before its first token"

    def feed(self, event: SSEEvent) -> list[Token]:
        """The tokens of one event.

        Raises:
            PipeError: the server says that it failed, or what it says cannot be read (O4, O7, O8), or it has ended and
                said nothing (O9). Behind tokens of the same event the next call raises it.
        """
        if self.failure is not None:
            raise self.failure
        if self.ended:
            return []
        data = event.data.strip()
        if data == "[DONE]":
            return self._end()
        if not data and event.event != "error":
            return []
        try:
            chunk = _read(data)
        except (ValueError, RecursionError) as error:
            raise self._failed(f"it sent: {error_words(data)}") from error
        if event.event == "error" or _says_error(chunk):
            raise self._failed(error_words(chunk.error or data))
        if isinstance(chunk.usage, dict):
            self.usage = Usage(_count(chunk.usage, "prompt_tokens"), _count(chunk.usage, "completion_tokens"))
        tokens: list[Token] = []
        for choice in chunk.choices or ():
            if choice.index in (None, 0, "0", ""):
                tokens += self._choice(choice)
        if self.failure is not None and not tokens:
            raise self.failure
        return tokens

    def last(self, event: SSEEvent) -> list[Token]:
        """The tokens of an event that the end of the response cut off, if it is whole all the same (O5).

        Raises:
            PipeError: as for `feed`.
        """
        data = event.data.strip()
        if data.startswith(("{", "[")) and data != "[DONE]":
            try:
                _read(data)
            except (ValueError, RecursionError):
                return []
        return self.feed(event)

    def overhear(self, line: str) -> None:
        """What the server sent and is no event: its words, should it fail.

        Raises:
            PipeError: they are JSON, and say so (O4).
        """
        self._stray = line
        try:
            chunk = _read(line)
        except (ValueError, RecursionError):
            return
        if _says_error(chunk) and not self.ended:
            raise self._failed(error_words(chunk.error or line))

    def close(self, lost: str = "") -> list[Token]:
        """The response has ended; gives what was held back.

        Args:
            lost: why, where its connection was lost; "" = it ended as responses do.

        Raises:
            PipeError: it was cut off (O5), or had no text (O9).
        """
        if self.failure is not None:
            raise self.failure
        if self.ended:
            return []
        if not self.finish_reason:
            reason = lost or "it sent neither a finish_reason nor [DONE]"
            if self._stray:
                reason += f", but this: {harmless(self._stray)}"
            raise PipeError(f"the connection to {self.server} was lost {self.place}: {reason}", retryable=True)
        return self._end()

    def give_up(self) -> list[Token]:
        """What was held back of an answer that failed: text behind tokens that were given must not be lost."""
        return self._rest() if self.tokens and not self.ended else []

    def _choice(self, choice: _Choice) -> list[Token]:
        part = choice.delta or _Part()
        said = _said(part.content) or choice.text or ""
        if choice.message is not None and not said and not self._text:
            part, said = choice.message, _said(choice.message.content)
        self._called = self._called or bool(part.tool_calls or part.function_call)
        if isinstance(part.refusal, str):
            self._refusal = (self._refusal + part.refusal)[:1000]
        thinks = bool(part.reasoning_content or part.reasoning) or (isinstance(part.content, list) and not said)
        ids = [each for each in choice.token_ids or () if each is not None]
        tags = self._thinking.begun if self._thinking is not None else 0
        tokens = self._tokens(said, len(ids)) if said or ids else []
        self.by_ids = self.by_ids or bool(ids)
        if self._thinking is not None and said:
            thinks = thinks or self._thinking.inside or self._thinking.begun > tags
        self.thoughts += thinks
        if choice.finish_reason:
            # Of a stop sequence that was found here, the reason is that.
            self.finish_reason = self.finish_reason if self._stops.hit else str(choice.finish_reason)
            if self.finish_reason.casefold() in FAILED:
                self.failure = PipeError(
                    f"{self.server} gave its answer up after {self.tokens} tokens: it ended with"
                    f" finish_reason={self.finish_reason[:ERROR_CHARS]!r}",
                    retryable=True,
                )
        return tokens

    def _tokens(self, said: str, ids: int) -> list[Token]:
        text = self._halves.decode(said.encode("utf-16-le", "surrogatepass"))
        thinking = self._thinking
        if thinking is not None:
            thought, begun = thinking.inside, thinking.begun
            text = thinking.push(text)
            if thinking.unopened:
                self.failure = self._failed(
                    "it sent what its model thinks as its answer, up to a </think>; start it with the reasoning parser"
                    " of that model, or ask it not to think"
                )
                return []
            if thinking.begun > begun:
                self._waiting = 0  # what waited was a tag
            if not text and (thought or thinking.begun > begun):
                return []
        self._waiting += max(1, ids)
        if said and not text:
            return []
        count, self._waiting = self._waiting, 0
        self.tokens += count
        shown = self._stops.push(text)
        self._text = self._text or bool(shown.strip())
        if self._stops.hit is not None:
            self.finish_reason = "stop"
            if not self._text:
                self.failure = self._empty()
                return []
        return [Token("")] * (count - 1) + [Token(shown)]

    def _end(self) -> list[Token]:
        self.finish_reason = self.finish_reason or "stop"
        tokens = self._rest()
        if not self._text:
            self.failure = self._empty()
            raise self.failure
        self._done = True
        return tokens

    def _rest(self) -> list[Token]:
        text = self._halves.decode(b"", final=True)
        if self._thinking is not None:
            text = self._thinking.push(text) + self._thinking.flush()
        rest = self._stops.push(text) + self._stops.flush()
        self._text = self._text or bool(rest.strip())
        self.tokens += self._waiting
        count, self._waiting = max(self._waiting, 1), 0
        # What a stop sequence held belongs to tokens that were counted when they came, and is one more only as an item
        # of the pipe.
        return [Token("")] * (count - 1) + [Token(rest)] if rest else []

    def _failed(self, words: str) -> PipeError:
        return PipeError(f"{self.server} failed {self.place}: {words}", retryable=True)

    def _empty(self) -> EmptyAnswerError:
        if self._refusal:
            words = f"its model refused: {harmless(self._refusal)}"
        elif self._called:
            words = "its model called a tool"
        elif self.thoughts:
            words = "its model only thought; allow it more max_tokens, or ask it not to think"
        else:
            words = "nothing came that could be said"
        reason = f"finish_reason={self.finish_reason[:ERROR_CHARS]!r}"
        return EmptyAnswerError(f"{self.server} ended its answer without any text ({reason}): {words}")


def _read(data: str) -> _Chunk:
    """A chunk of JSON, or of what a lenient reader takes for it (O10).

    Raises:
        ValueError, RecursionError: it is none.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        try:
            return msgspec.convert(json.loads(data, strict=False), _Chunk)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


def _said(content: str | list[Any] | None) -> str:
    """A message's text; of parts, those that are text and not what the model thought or drew."""
    if not isinstance(content, list):
        return content or ""
    parts = [each for each in content if isinstance(each, Mapping) and each.get("type", "text") == "text"]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _says_error(chunk: _Chunk) -> bool:
    if chunk.error:
        return True
    # A chunk may have any field beside its choices. `detail` alone is how FastAPI's servers tell a failure.
    named = any(isinstance(kind, str) and kind.casefold().endswith("error") for kind in (chunk.object, chunk.type))
    return (named and not chunk.choices) or (chunk.choices is None and bool(chunk.detail))


def _count(usage: Mapping[str, Any], name: str) -> int:
    found = usage.get(name)
    return found if type(found) is int else 0
