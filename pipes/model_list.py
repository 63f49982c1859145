"""Whether servers are there, let us in and have the model, asked before anybody waits for an answer of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from multimodal.pipes.openai_request import bearer
from multimodal.pipes.server_words import error_words, harmless, why
from multimodal.pipes.text_client import beginning, text_client

__all__ = ["LIST_LIMIT", "model_faults"]

LIST_LIMIT = 3.0
"""Seconds in which a server lists its models: it need not think for that."""
LIST_BYTES = 4 * 1024 * 1024
"""A router of 400 models sends a tenth of it."""
NAMED = 5
"""So many of the models that are there are named."""


class _Model(msgspec.Struct):
    id: str = ""


class _Models(msgspec.Struct):
    data: list[_Model]


async def model_faults(servers: Iterable[str], model: str, key: str = "") -> list[str]:
    """What is wrong with which server, each in a line; all are asked at once, for `LIST_LIMIT` seconds.

    Args:
        servers: base URLs, up to ``/v1``; their ``/models`` are asked for.
        model: as the servers call it.
        key: sent as Bearer; "" = none.

    Raises:
        UsageError: a key that no header can carry; httpx2 is not installed.
    """
    authorization = bearer(key)
    headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
    found = await asyncio.gather(*(_asked(server, model, headers) for server in servers))
    return [fault for fault in found if fault]


async def _asked(server: str, model: str, headers: dict[str, str]) -> str:
    # Outside the limit: reading certificates is this machine's own time.
    client = await text_client(server, LIST_LIMIT)
    try:
        async with asyncio.timeout(LIST_LIMIT), client.stream("GET", f"{server}/models", headers=headers) as response:
            fault = _fault(response, await beginning(response, LIST_BYTES), model, keyed="Authorization" in headers)
    except TimeoutError:
        fault = f"gave no answer within {LIST_LIMIT:g} s"
    except Exception as error:  # the library's own errors, and those of all that it stands on
        fault = f"cannot be reached: {why(error)}"
    finally:
        await client.aclose()
    return f"{server} {fault}" if fault else ""


def _fault(response: Any, body: bytes, model: str, *, keyed: bool) -> str:
    status: int = response.status_code
    if status in (401, 403):
        words = error_words(body.decode(errors="replace"))
        return f"{'refuses the key' if keyed else 'asks for a key'} ({status}): {words}"
    if 300 <= status < 400:
        return (
            f"sends elsewhere ({status}): {harmless(response.headers.get('location', '')) or 'it does not say where'}"
        )
    if status == 404:
        return "has no list of models (404): see that the URL goes up to /v1"
    if status != 200:
        return f"does not list its models ({status}): {error_words(body.decode(errors='replace'))}"
    try:
        names = [each.id for each in msgspec.json.decode(body, type=_Models).data]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return f"sent something else than a list of models: {error_words(body.decode(errors='replace'))}"
    # Ollama lists a model with its tag, and takes it without.
    if model in names or f"{model}:latest" in names:
        return ""
    there = ", ".join(map(harmless, names[:NAMED])) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"has models, and {model!r} is not among them: {there}" if names else "has no model"
