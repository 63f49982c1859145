"""TURN credentials that end: made from a secret that this server shares with the relay, and told to viewers. Pure.

The form is the one that coturn calls `use-auth-secret` (draft-uberti-behave-turn-rest-00): the username is the time at
which it ends, the password an HMAC of it. The relay judges it when a viewer begins to use it; what is running goes on.
A viewer learns of them with the answer to its offer, in `Link` headers (RFC 9725, 4.6).
"""

from __future__ import annotations

import base64
import hmac
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from multimodal.errors import UsageError

__all__ = ["TURN_TTL", "Credentials", "Turn", "turn_credentials"]

TURN_TTL = 600.0
"""Seconds in which a viewer must have begun to use the relay: ten minutes cover the reconnects of a bad ride without a
new offer, and a leaked password serves nobody tomorrow."""

_URL = re.compile(r"(stuns?|turns?):(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?(\?transport=(udp|tcp))?")
_USER = re.compile(r"[A-Za-z0-9._~-]{0,64}")


class Credentials(NamedTuple):
    """What a relay asks for."""

    username: str
    password: str


def turn_credentials(secret: str | bytes, *, user: str = "", ttl: float = TURN_TTL, now: float) -> Credentials:
    """A username and a password that a relay with the same secret takes until `ttl` seconds from now.

    Args:
        secret: coturn's `static-auth-secret`.
        user: told apart in the relay's log; letters, digits and ``._~-``, 64 at most.
        ttl: seconds.
        now: seconds since 1970.

    Raises:
        UsageError: an empty secret, a user or a time that is not allowed.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    if not key:
        raise UsageError("the TURN secret is empty; it is coturn's static-auth-secret")
    if not _USER.fullmatch(user):
        raise UsageError(f"user={user[:80]!r}: letters, digits and ._~- only, 64 at most")
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 1 <= ttl < math.inf:
        raise UsageError(f"ttl={ttl!r} must be 1 second or more")
    ends = int(now + ttl)
    username = f"{ends}:{user}" if user else str(ends)
    # SHA-1 is what the relay computes; in an HMAC nothing is known against it.
    return Credentials(username, base64.b64encode(hmac.digest(key, username.encode(), "sha1")).decode())


@dataclass(frozen=True)
class Turn:
    """The relay that viewers are told of.

    Args:
        urls: such as ``turn:turn.example.org``, ``turns:turn.example.org?transport=tcp``; ``stun:`` too, which needs no
            credentials.
        secret: shared with the relay.
        ttl: seconds for which a credential is good.

    Raises:
        UsageError: no URL, one of another form, an empty secret, or a time that is not allowed.
    """

    urls: Sequence[str]
    secret: str | bytes = field(repr=False)
    ttl: float = TURN_TTL

    def __post_init__(self) -> None:
        if isinstance(self.urls, str) or not self.urls:
            raise UsageError(f"Turn: urls={self.urls!r} must be a list of one URL or more")
        for url in self.urls:
            if not isinstance(url, str) or not _URL.fullmatch(url):
                raise UsageError(f"Turn: {url!r} is no URL such as turn:turn.example.org:3478?transport=udp (RFC 7065)")
            if url.startswith("turns:") and url.endswith("=udp"):
                raise UsageError(f"Turn: {url!r} is TURN over DTLS, which no viewer speaks; leave ?transport=udp out")
        turn_credentials(self.secret, ttl=self.ttl, now=0.0)

    def links(self, *, user: str, now: float) -> list[str]:
        """The values of the `Link` headers, one for each URL.

        Args:
            user: told apart in the relay's log.
            now: seconds since 1970.
        """
        found = turn_credentials(self.secret, user=user, ttl=self.ttl, now=now)
        access = f'; username="{found.username}"; credential="{found.password}"; credential-type="password"'
        return [f'<{url}>; rel="ice-server"{access if url.startswith("turn") else ""}' for url in self.urls]
