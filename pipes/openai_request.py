"""The request for a streamed answer of an OpenAI-compatible server: its body, and the header of its key. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.server_words import error_words

__all__ = ["bearer", "payload"]


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
