"""Which of several equal servers to ask: the least loaded of those that are well. Pure: time is an argument.

U1  Of the servers that are well, the one with the fewest answers under way is asked; of equals, the one that was
    asked least recently.
U2  One that fails `EJECT_AFTER` times in a row is left out for `EJECT_SECONDS`, twice as long after each further
    failure, at most `EJECT_LIMIT`. Then one request may try it; its success makes it well again.
U3  Where none is well, the one whose time is up first is asked all the same: a wrong guess must not turn all away.
U4  One that refuses what another of them takes, or answers it without a word, has failed. Where all do, the request is
    wrong, and none has.
U5  One that says when to ask again (Retry-After) is left out until then, `REST_LIMIT` at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from multimodal.errors import PipeError, UsageError

__all__ = [
    "EJECT_AFTER",
    "EJECT_LIMIT",
    "EJECT_SECONDS",
    "REST_LIMIT",
    "RefusedError",
    "Server",
    "Upstreams",
    "refusal",
    "retry_after",
    "together",
]

EJECT_AFTER = 2
EJECT_SECONDS = 5.0
EJECT_LIMIT = 120.0
REST_LIMIT = 60.0
BUSY = frozenset({408, 425, 429})
"""Statuses that say no more than that this server does not now, as all from 500 on do."""
WRONG_REQUEST = frozenset({400, 411, 413, 414, 415, 422, 431})
"""Statuses that say that the request is wrong, whoever is asked."""


@dataclass
class Server:
    """One server and how it does."""

    url: str
    active: int = 0
    """Answers under way."""
    failures: int = 0
    """In a row."""
    asked: int = 0
    """The turn in which it was asked last."""
    out_until: float = 0.0
    rest_until: float = 0.0
    """It asked to be left alone so long."""
    trying: bool = False

    def well(self, now: float) -> bool:
        """It may be asked."""
        rested = now >= self.rest_until
        return rested and (self.failures < EJECT_AFTER or (now >= self.out_until and not self.trying))


class Upstreams:
    """Several servers of one model (U1-U5 above); share one among all pipes that use them.

    Args:
        urls: base URLs, each with the path up to and including ``/v1``.

    Raises:
        UsageError: none, one that is no http or https URL that a path can be added to, or one twice.
    """

    def __init__(self, urls: str | Iterable[str]) -> None:
        given = [urls] if isinstance(urls, str) or not isinstance(urls, Iterable) else list(urls)
        checked = [_checked(url) for url in given]
        if not checked or len(set(checked)) < len(checked):
            raise UsageError(f"base_url={given!r}: give one URL, or several different ones")
        self.servers: Sequence[Server] = [Server(url) for url in checked]
        self._turn = 0

    def pick(self, now: float, avoid: Iterable[str] = ()) -> Server | None:
        """The server to ask next, marked as asked; None = all were tried.

        Args:
            now: seconds, monotonic.
            avoid: URLs that this request has tried already.
        """
        tried = set(avoid)
        left = [server for server in self.servers if server.url not in tried]
        well = [server for server in left if server.well(now)]
        if well:
            chosen = min(well, key=lambda server: (server.active, server.asked))
        elif left:
            chosen = min(left, key=lambda server: max(server.out_until, server.rest_until))
        else:
            return None
        chosen.active += 1
        self._turn += 1
        chosen.asked = self._turn
        chosen.trying = chosen.failures >= EJECT_AFTER
        return chosen

    def done(self, server: Server, now: float, *, ok: bool | None) -> None:
        """An answer has ended.

        Args:
            server: which `pick` gave.
            now: seconds, monotonic.
            ok: False = the server's failure; None = neither: the reader left before the first token, or the server
                refused.
        """
        server.active -= 1
        server.trying = False
        if ok:
            server.failures, server.out_until, server.rest_until = 0, 0.0, 0.0
        elif ok is False:
            self.failed(server, now)

    def failed(self, server: Server, now: float) -> None:
        """Hold a failure against a server; `done` does for an answer's, U4 for a refusal that another contradicted.

        Args:
            server: which `pick` gave.
            now: seconds, monotonic.
        """
        server.failures += 1
        if server.failures >= EJECT_AFTER:
            wait = EJECT_SECONDS * 2 ** min(server.failures - EJECT_AFTER, 16)
            server.out_until = now + min(wait, EJECT_LIMIT)

    def rest(self, server: Server, now: float, seconds: float) -> None:
        """Leave a server alone, as it asked (U5).

        Args:
            server: which `pick` gave.
            now: seconds, monotonic.
            seconds: as `retry_after` reads them.
        """
        server.rest_until = max(server.rest_until, now + min(seconds, REST_LIMIT))


class RefusedError(Exception):
    """A server refused for what may be a reason of its own: a model that is not there, a key it does not know."""


def refusal(status: int, words: str) -> PipeError | UsageError | RefusedError:
    """What a status other than 200 means for this server and the others.

    Args:
        status: HTTP's.
        words: who refused what, for the error.
    """
    if status in BUSY or status >= 500:
        return PipeError(words, retryable=True)
    return UsageError(words) if status in WRONG_REQUEST else RefusedError(words)


def retry_after(value: str, now: float) -> float:
    """Seconds that a header Retry-After asks for; 0 = none, or it cannot be read.

    Args:
        value: seconds or a date, as RFC 9110 has it in 10.2.3.
        now: seconds since 1970.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:10])
    try:
        when = parsedate_to_datetime(value)
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError, IndexError, TypeError):
        return 0.0


def together(failures: Sequence[PipeError | RefusedError]) -> PipeError | UsageError:
    """One error for the failures of all servers: it is the caller's only where every one of them refused (U4)."""
    words = "; ".join(map(str, failures))
    failed = [each for each in failures if isinstance(each, PipeError)]
    return PipeError(words, retryable=any(each.retryable for each in failed)) if failed else UsageError(words)


def _checked(url: str) -> str:
    if isinstance(url, str) and "@" in (url.partition("://")[2] or url).partition("/")[0]:
        raise UsageError(
            "base_url holds a user or a password, which would be in every log; give api_key=..., or --api-key-env NAME"
        )
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        good = parts is not None and parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are no IPv6 address, a port that is none
        good = False
    # `urlsplit` passes over line ends and tabs, which a client does not.
    if not good or not url.isprintable() or " " in url:
        raise UsageError(f"base_url={url!r} is no http(s) URL; give one like http://127.0.0.1:8000/v1")
    if "?" in url or "#" in url:
        raise UsageError(f"base_url={url!r} has a query or a fragment; a path follows it, so give it up to /v1")
    return url.rstrip("/")
