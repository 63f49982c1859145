"""Join a tour over HTTP from Python, as the player does from a page: POST an offer, take the answer."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urljoin

from multimodal.errors import ChannelClosedError, UsageError
from multimodal.transport.webrtc import WebRTCLink

__all__ = ["SIGNALLING_LIMIT", "join", "leave"]

SIGNALLING_LIMIT = 10.0
"""Seconds that the server has for its answer."""


async def join(url: str, **settings: Any) -> tuple[WebRTCLink, str]:
    """A link to the tour at `url`, for a `Viewer`, and the URL of the session.

    Args:
        url: where offers are posted, such as ``http://127.0.0.1:8080/tour/whep/demo``.
        settings: as for `WebRTCLink`.

    Raises:
        UsageError: the server refused; its message says why.
        ChannelClosedError: the server could not be reached.
        RemoteProtocolError: its answer does not fit.
    """
    link, offer = await WebRTCLink.offering(**settings)
    try:
        answer, location = await asyncio.to_thread(_post, url, offer)
        await link.accept(answer)
    except BaseException:
        await link.aclose()
        raise
    return link, urljoin(url, location)


async def leave(session_url: str) -> bool:
    """End the session at the URL that `join` gave; False = it had ended already.

    Raises:
        ChannelClosedError: the server could not be reached.
    """
    request = urllib.request.Request(session_url, method="DELETE")
    try:
        await asyncio.to_thread(_fetch, request)
    except UsageError:
        return False
    return True


def _post(url: str, offer: str) -> tuple[str, str]:
    headers = {"Content-Type": "application/sdp"}
    return _fetch(urllib.request.Request(url, offer.encode(), headers, method="POST"))


def _fetch(request: urllib.request.Request) -> tuple[str, str]:
    try:
        with urllib.request.urlopen(request, timeout=SIGNALLING_LIMIT) as response:
            return response.read().decode(), response.headers.get("Location", "")
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(4096).decode(errors="replace")
        raise UsageError(f"{request.full_url} answered {error.code}: {body}") from None
    except OSError as error:
        raise ChannelClosedError(f"{request.full_url} could not be reached: {error}") from error
