"""Who may do what: one table, and everything asks it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from multimodal.errors import UsageError
from multimodal.serving.signalling import Problem

__all__ = [
    "MAY",
    "ROLES",
    "SECRET_BYTES",
    "Action",
    "Grant",
    "Role",
    "Secret",
    "demand",
    "secret_bytes",
    "wrong_scope",
]

Role = Literal["viewer", "host", "operator"]
Action = Literal["watch", "turn_own", "turn_shared", "list", "end"]
Secret = str | bytes

ROLES: tuple[Role, ...] = get_args(Role)
MAY: Mapping[Role, frozenset[Action]] = MappingProxyType(
    {
        "viewer": frozenset({"watch", "turn_own"}),
        "host": frozenset({"watch", "turn_own", "turn_shared"}),
        # Its token belongs to a back office and not into a page, so it opens no seat.
        "operator": frozenset({"list", "end"}),
    }
)
"""What each role may do. Watch: take a seat. Turn (pause, interrupt, ask, skip, rewind): a session of one's own, or one
that is shared. List: see which sessions there are. End: end any of them."""

SECRET_BYTES = 32
"""The least that a secret may have: as long as the hash of HS256 (RFC 7518, 3.2)."""

_MAKE_ONE = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"
_LEAST_DIFFERENT = 8
"""Different bytes in a secret: of 10^9 that were drawn as 32 hex digits about one has fewer, and a password typed four
times has hardly more."""


@dataclass(frozen=True)
class Grant:
    """What a token allows.

    Args:
        tour: the tour's name; `auth.ANY_TOUR` for some operators.
        session: the session's name, "" = one of the bearer's own.
        role: what `MAY` lists.
        jti: the token's own name; "" = no tokens are asked for.
        expires: when it ends, seconds since 1970.
    """

    tour: str
    session: str = ""
    role: Role = "viewer"
    jti: str = ""
    expires: float = 0.0

    @property
    def key(self) -> str:
        """What stands for the token in tables, seats and logs: 16 bytes of a hash of its `jti`, in hex; "" for none."""
        return hashlib.sha256(b"jti " + self.jti.encode(errors="surrogatepass")).hexdigest()[:32] if self.jti else ""

    def may(self, action: Action) -> bool:
        """Whether its role may do this."""
        return action in MAY[self.role]


def demand(grant: Grant, action: Action) -> Grant:
    """The grant again, if it allows this.

    Raises:
        Problem: 403 wrong_scope.
    """
    if not grant.may(action):
        can = " or ".join(role for role in ROLES if action in MAY[role])
        raise wrong_scope(f"a token of the role {grant.role} does not allow this", f"it takes one of: {can}")
    return grant


def secret_bytes(secret: Secret) -> bytes:
    """A secret, as bytes.

    Raises:
        UsageError: it is too short, or a few characters over and over.
    """
    if not isinstance(secret, str | bytes):
        raise UsageError(f"a secret of type {type(secret).__name__}: give text or bytes; {_MAKE_ONE}")
    key = secret.encode() if isinstance(secret, str) else secret
    if len(key) < SECRET_BYTES:
        raise UsageError(f"the secret has {len(key)} bytes and needs {SECRET_BYTES} or more; {_MAKE_ONE}")
    if len(set(key)) < _LEAST_DIFFERENT:
        raise UsageError(f"the secret is {len(set(key))} different characters over and over; {_MAKE_ONE}")
    return key


def wrong_scope(message: str, hint: str) -> Problem:
    """The answer to a good token that does not allow this."""
    return Problem(403, "wrong_scope", message, hint, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'})
