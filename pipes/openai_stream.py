"""What an OpenAI-compatible server streams -> tokens. Pure: events of its response in, tokens out.

O1  An event without data, a chunk without choices, with fields nobody knows, without `finish_reason`, or of another
    choice than the first adds nothing and is no fault; a role with empty content is no token.
O2  Text is taken from a chunk of a chat (`delta.content`, as a string or in parts) as from one of a completion
    (`text`), also from the chunk that finishes.
O3  Where a chunk brings token ids, it is as many tokens; all but the last are empty. Else it is one (a delta).
O4  An error within the stream is an error, whatever form it has: an object that says so, a bare string, text that is
    not JSON. A message that does not say so is none.
O5  The stream has ended where a `finish_reason` came, or `[DONE]`. Ending without either is a lost connection.
O6  Stop sequences end it here too: some servers let them through.
O7  A `finish_reason` that names a failure (`FAILED`) is an error; one that says that the model came to its own end
    (`WHOLE`) is an end; any other, such as ``length`` or ``content_filter``, is an end too, and the answer was cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.stops import StopSequences
from multimodal.sse_reader import SSEEvent
from multimodal.values import Token

__all__ = ["FAILED", "WHOLE", "AnswerStream", "Usage", "bearer", "error_words", "payload"]

ERROR_CHARS = 300
"""Of a server's own words, so many are repeated."""
WHOLE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"})
"""The model came to its own end, or to a stop sequence: OpenAI's word, and what other servers say for it."""
FAILED = frozenset({"abort", "aborted", "cancelled", "canceled", "error", "failed"})
"""The server gave the answer up: vLLM and SGLang say ``abort``, routers ``error``."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the server counted them; 0 = it did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Part(msgspec.Struct):
    content: str | list[Any] | None = None


class _Choice(msgspec.Struct):
    index: int | None = 0
    delta: _Part | None = None
    text: str | None = None
    finish_reason: str | None = None
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
    """One answer (O1-O6 above).

    Args:
        server: named in errors.
        stop: sequences that end it and are not shown.
    """

    def __init__(self, server: str, stop: Sequence[str] = ()) -> None:
        self.server = server
        self.finish_reason = ""
        """Why the server ended it, in its word; "" = not yet."""
        self.usage = Usage()
        self.tokens = 0
        self.by_ids = False
        """Its chunks bring token ids: a token is a token, not a delta."""
        self._stops = StopSequences(stop)
        self._done = False

    @property
    def ended(self) -> bool:
        """Nothing more can come."""
        return self._done or self._stops.hit is not None

    @property
    def cut(self) -> bool:
        """The server ended it before the model came to its own end (O7)."""
        return bool(self.finish_reason) and self.finish_reason.casefold() not in WHOLE

    def feed(self, event: SSEEvent) -> list[Token]:
        """The tokens of one event.

        Raises:
            PipeError: the server says that it failed, or what it says cannot be read (O4, O7).
        """
        if self.ended:
            return []
        data = event.data.strip()
        if data == "[DONE]":
            return self._end()
        if not data and event.event != "error":
            return []
        try:
            chunk = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise PipeError(
                f"{self.server} failed in the middle of its answer: it sent {error_words(data)!r}", retryable=True
            ) from error
        if event.event == "error" or _says_error(chunk):
            raise PipeError(
                f"{self.server} failed in the middle of its answer: {error_words(chunk.error or data)}", retryable=True
            )
        if isinstance(chunk.usage, dict):
            self.usage = Usage(_count(chunk.usage, "prompt_tokens"), _count(chunk.usage, "completion_tokens"))
        tokens: list[Token] = []
        for choice in chunk.choices or ():
            if not choice.index:
                tokens += self._choice(choice)
        return tokens

    def close(self) -> list[Token]:
        """The response has ended; gives what was held back.

        Raises:
            PipeError: it was cut off (O5).
        """
        if self.ended:
            return []
        if not self.finish_reason:
            raise PipeError(
                f"the connection to {self.server} was lost in the middle of its answer, after {self.tokens} tokens:"
                " it sent neither a finish_reason nor [DONE]",
                retryable=True,
            )
        return self._end()

    def _choice(self, choice: _Choice) -> list[Token]:
        text = (_text(choice.delta.content) if choice.delta is not None else "") or choice.text or ""
        ids = [each for each in choice.token_ids or () if each is not None]
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
            if choice.finish_reason.casefold() in FAILED:
                raise PipeError(
                    f"{self.server} gave its answer up after {self.tokens} tokens: it ended with"
                    f" finish_reason={choice.finish_reason!r}",
                    retryable=True,
                )
        if not text and not ids:
            return []
        self.by_ids = self.by_ids or bool(ids)
        count = max(1, len(ids))
        self.tokens += count
        shown = self._stops.push(text)
        if self._stops.hit is not None:
            self.finish_reason = "stop"
        return [Token("")] * (count - 1) + [Token(shown)]

    def _end(self) -> list[Token]:
        self._done = True
        self.finish_reason = self.finish_reason or "stop"
        rest = self._stops.flush()
        # It belongs to tokens that were counted when they came, and is one more only as an item of the pipe.
        return [Token(rest)] if rest else []


def _text(content: str | list[Any] | None) -> str:
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


def payload(
    model: str,
    prompt: str | Sequence[Mapping[str, Any]],
    *,
    system: str = "",
    chat: bool = True,
    settings: Mapping[str, Any],
) -> bytes:
    """The JSON body of a request for a streamed answer.

    Args:
        model: as the server calls it.
        prompt: a user's words, or the messages of a chat.
        system: a system message before them.
        chat: False = a completion of `prompt` as it stands.
        settings: further fields; None = left out.

    Raises:
        UsageError: messages that are no mappings, or something in it that JSON has no form for.
    """
    body: dict[str, Any] = {"model": model, "stream": True}
    if not chat:
        body["prompt"] = prompt
    else:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _messages(prompt)
        body["messages"] = [{"role": "system", "content": system}, *messages] if system else messages
    body.update({name: value for name, value in settings.items() if value is not None})
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a request to a server cannot hold this: {error}") from error


def _messages(prompt: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not isinstance(prompt, Sequence) or not all(isinstance(each, Mapping) for each in prompt):
        raise UsageError(
            f"prompt={error_words(prompt)} is neither words nor the messages of a chat; give a string, or a list like"
            ' [{"role": "user", "content": "..."}]'
        )
    return [dict(each) for each in prompt]


def bearer(key: str, named: str = "api_key") -> str:
    """The header `Authorization` for a key; "" = none.

    Args:
        key: as the server gave it; never repeated in an error.
        named: what an error calls it.

    Raises:
        UsageError: a key that no header can carry.
    """
    if not isinstance(key, str) or not all("!" <= letter <= "~" for letter in key):
        raise UsageError(
            f"{named} holds something that an HTTP header cannot carry; give the key alone, in ASCII, without spaces or"
            " a line's end"
        )
    return f"Bearer {key}" if key else ""


def error_words(found: Any) -> str:
    """What a server says of its failure, short, from whichever form it has (O4)."""
    if isinstance(found, str):
        try:
            found = msgspec.json.decode(found)
        except (msgspec.DecodeError, RecursionError):
            return " ".join(found.split())[:ERROR_CHARS] or "it said nothing"
    for name in ("error", "message", "detail"):
        if isinstance(found, Mapping) and found.get(name):
            return error_words(found[name])
    return " ".join(str(found).split())[:ERROR_CHARS] or "it said nothing"
