"""Join a tour over HTTP from Python, as the player does from a page: POST an offer, take the answer."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urljoin

from multimodal.errors import ChannelClosedError, JoinRefused
from multimodal.transport.roads import refusal, seat_url, tour_url
from multimodal.transport.webrtc import WebRTCLink

__all__ = ["SIGNALLING_LIMIT", "join", "leave", "rejoin"]

SIGNALLING_LIMIT = 10.0
"""Seconds that the server has for its answer."""


async def join(url: str, *, token: str = "", **settings: Any) -> tuple[WebRTCLink, str]:
    """A link to the tour at `url`, for a `Viewer`, and the URL of the seat, for `rejoin` and `leave`.

    Args:
        url: where offers are posted, such as ``http://127.0.0.1:8080/tour/whep/demo``.
        token: the join token, where the server asks for one.
        settings: as for `WebRTCLink`.

    Raises:
        JoinRefused: the server refused; its message says why.
        ChannelClosedError: the server could not be reached.
        RemoteProtocolError: its answer does not fit.
        UsageError: the URL is no tour's.
    """
    url = tour_url(url, "whep")
    link, location = await _offer(url, token, settings)
    return link, urljoin(url, location)


async def rejoin(seat: str, *, token: str = "", **settings: Any) -> WebRTCLink:
    """A new link to the seat at this URL, as any road gave it. Args and errors as for `join`.

    Raises:
        JoinRefused: with the code ``no_such_seat``, the seat's session has ended.
    """
    link, _ = await _offer(seat_url(seat, "whep"), token, settings)
    return link


async def leave(seat: str, *, token: str = "") -> bool:
    """Give up the seat at the URL that `join` gave; False = it is gone already.

    Raises:
        ChannelClosedError: the server could not be reached.
        JoinRefused: the token does not allow it.
    """
    request = urllib.request.Request(seat_url(seat, "whep"), headers=_bearer(token), method="DELETE")
    try:
        await asyncio.to_thread(_fetch, request)
    except JoinRefused as error:
        if error.status == 404:
            return False
        raise
    return True


async def _offer(url: str, token: str, settings: dict[str, Any]) -> tuple[WebRTCLink, str]:
    link, offer = await WebRTCLink.offering(**settings)
    try:
        headers = {"Content-Type": "application/sdp", **_bearer(token)}
        request = urllib.request.Request(url, offer.encode(), headers, method="POST")
        answer, location = await asyncio.to_thread(_fetch, request)
        await link.accept(answer)
    except BaseException:
        await link.aclose()
        raise
    return link, location


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _fetch(request: urllib.request.Request) -> tuple[str, str]:
    try:
        with urllib.request.urlopen(request, timeout=SIGNALLING_LIMIT) as response:
            return response.read().decode(), response.headers.get("Location", "")
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(request.full_url, error.code, error.read(4096), error.headers.get("Retry-After")) from None
    except (OSError, ValueError) as error:
        raise ChannelClosedError(f"{request.full_url} could not be reached: {error}") from error
