"""The addresses of a tour on each road, and what a server's refusal says. Pure.

/whep/{tour}   /whep/{tour}/{seat}     offers by POST
/ws/{tour}     /ws/{tour}/{seat}       a WebSocket
/sse/{tour}    /sse/{tour}/{seat}      an event stream; messages to /sse/{tour}/{seat}/messages
/pictures/{tour}/{seat}/{sha256}       a picture
"""

from __future__ import annotations

import json
from typing import Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from multimodal.errors import JoinRefused, UsageError

__all__ = ["ROADS", "Road", "picture_url", "refusal", "seat_url", "tour_url"]

Road = Literal["whep", "ws", "sse"]
ROADS: tuple[Road, ...] = ("whep", "ws", "sse")


def tour_url(url: str, road: Road) -> str:
    """Where a tour is joined by a road, given where it is joined by any of them.

    Raises:
        UsageError: the URL is none of these.
    """
    split = urlsplit(url)
    parts = split.path.split("/")
    # A tour's name may hold slashes, and any prefix may come before.
    places = [at for at, part in enumerate(parts[:-1]) if part in ROADS]
    if split.scheme not in {"http", "https", "ws", "wss"} or not _host(split) or not places:
        raise UsageError(f"{url[:200]!r} is no tour's address; give http://host/whep/tour, as the player's src is")
    return _with(url, parts, places[-1], road)


def seat_url(url: str, road: Road) -> str:
    """Where a seat is come back to by a road, given its address on any of them.

    Raises:
        UsageError: the URL is none of these.
    """
    parts = urlsplit(url).path.split("/")
    if len(parts) < 4 or parts[-3] not in ROADS or not parts[-1] or not _host(urlsplit(url)):
        raise UsageError(f"{url[:200]!r} is no seat's address; give what joining gave, http://host/whep/tour/seat")
    return _with(url, parts, len(parts) - 3, road)


def picture_url(seat: str, sha256: str) -> str:
    """Where a picture of a tour is, given the address of a seat in it."""
    split = urlsplit(seat_url(seat, "sse"))
    parts = split.path.split("/")
    parts[-3] = "pictures"
    return urlunsplit((split.scheme, split.netloc, "/".join([*parts, sha256]), "", ""))


def refusal(url: str, status: int, body: bytes, retry_after: str | None = None) -> JoinRefused:
    """What a server's answer means, in its own words where it has some."""
    code, message = "", body[:300].decode(errors="replace").strip() or "it gave no reason"
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"])[:80], f"{error['message']} ({error['hint']})"[:500]
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # a proxy's page, or another server
    wait = float(retry_after) if retry_after is not None and retry_after.isdecimal() and len(retry_after) < 6 else None
    return JoinRefused(url, status, code, message, wait)


def _host(split: SplitResult) -> bool:
    """Whether it names a host, and a port that there can be, if any."""
    try:
        return bool(split.hostname) and split.port != 0
    except ValueError:
        return False


def _with(url: str, parts: list[str], place: int, road: Road) -> str:
    split = urlsplit(url)
    secure = split.scheme in {"https", "wss"}
    scheme = ("wss" if secure else "ws") if road == "ws" else ("https" if secure else "http")
    path = "/".join([*parts[:place], road, *parts[place + 1 :]])
    return urlunsplit((scheme, split.netloc, path, split.query, ""))
