"""The HTTP client of `multimodal.pipes.remote`: one for each answer, without anything that stops the loop."""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache
from typing import Any

from multimodal.errors import UsageError

__all__ = ["beginning", "httpx2", "text_client"]

REFUSAL_BYTES = 4096
"""Of a refusal, as much as anybody wants to read."""

_trusted: ssl.SSLContext | None = None


def httpx2() -> Any:
    """The library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import httpx2
    except ImportError as error:
        raise UsageError(
            "asking a server needs httpx2: install it with `pip install 'multimodal-stream[remote]'`"
        ) from error
    return httpx2


async def text_client(url: str, connect_limit: float) -> Any:
    """A client for one answer; it waits as long as it is let to, but for the connection.

    Args:
        url: of the server.
        connect_limit: seconds in which it takes the connection.
    """
    library = httpx2()
    trusted = await _certificates() if url.startswith("https:") else _no_certificates()
    return library.AsyncClient(timeout=library.Timeout(None, connect=connect_limit), trust_env=False, verify=trusted)


async def beginning(response: Any, limit: int = REFUSAL_BYTES) -> bytes:
    """The first bytes of what is not streamed.

    Args:
        response: whose body is not read yet.
        limit: bytes after which no more is read.
    """
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) > limit:
            break
    return bytes(body)


async def _certificates() -> ssl.SSLContext:
    """Those this machine trusts; reading them takes a quarter of a second, so it is done once and in a thread."""
    global _trusted
    if _trusted is not None:
        return _trusted
    trusted: ssl.SSLContext = await asyncio.to_thread(httpx2().create_ssl_context, trust_env=False)
    _trusted = trusted
    return trusted


@lru_cache
def _no_certificates() -> ssl.SSLContext:
    """What httpx2 asks for where no certificate is looked at."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
