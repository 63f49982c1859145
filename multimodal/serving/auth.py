"""Join tokens: issued by a shop for one viewer, checked at the door. Pure: time is an argument.

A1  A token is a JWT (RFC 7519) signed with HS256 and nothing else. It names its tour, its session ("" = one of the
    bearer's own), its role, and when it ends.
A2  A token opens one seat. While that is open the token leads there again; once it is closed the token opens nothing
    more (`serving.spent`).
A3  Whoever comes back to a seat shows the token that opened it; that it has ended meanwhile does not matter, since a
    tour may outlive a short token.
A4  What was not signed with the secret is refused in one sentence, whatever it is: which check it failed would only
    help whoever makes tokens up. Of a token that was, the claim that is wrong is named: its issuer has the secret, and
    has to learn what to correct. No refusal repeats the token.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated

import jwt
import msgspec
from jwt.types import Options

from multimodal.errors import UsageError
from multimodal.serving.rights import MAY, ROLES, Grant, Role, Secret, demand, secret_bytes, wrong_scope
from multimodal.serving.seats import SeatPass, Seats, no_such_seat
from multimodal.serving.signalling import Problem
from multimodal.serving.spent import Spent

__all__ = [
    "ANY_TOUR",
    "LEEWAY",
    "LONGEST",
    "MAY",
    "TOKEN_TTL",
    "Grant",
    "Role",
    "SeatPass",
    "Seats",
    "Spent",
    "Tokens",
    "bearer",
    "demand",
    "no_such_seat",
]

TOKEN_TTL = 300.0
"""Seconds: a page is loaded and its player clicked within five minutes, or asks its shop for a new token."""
LEEWAY = 10.0
"""Seconds by which the clocks of the shop and of this server may differ."""
LONGEST = 86_400.0
"""Seconds from `iat` to `exp`: a token that was closed is remembered to its end, so that end must not be far."""
ANY_TOUR = "*"
"""An operator's token for all tours."""

_ALGORITHM = "HS256"
_TOKEN_CHARS = 2048


class _Claims(msgspec.Struct):
    tour: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    exp: float
    iat: float
    jti: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    session: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._~-]{0,64}\Z")] = ""
    role: Role = "viewer"
    nbf: float = 0.0


_SECONDS = "a number, seconds since 1970"
_FORMS = {
    "tour": "text of 1 to 200 characters, the name of the tour",
    "exp": f"{_SECONDS}, when it ends",
    "iat": f"{_SECONDS}, when it was issued",
    "jti": "text of 1 to 128 characters, different in every token",
    "session": "letters, digits and ._~-, 64 at most",
    "role": f"one of {', '.join(ROLES)}",
    "nbf": _SECONDS,
}
_SIGNATURE_ONLY: Options = {
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""The claims are judged here: in our own words, and on the clock that is given."""


class Tokens:
    """Issues and checks join tokens (A1). A shop's own server may issue them as well, with any JWT library.

    Args:
        secret: 32 bytes or more, shared by whoever issues and whoever checks.
        ttl: seconds for which a token is good, unless `issue` says otherwise.
        leeway: seconds by which clocks may differ.
        older: secrets that were in use before: their tokens are still good.

    Raises:
        UsageError: a weak secret, or a time that is not allowed.
    """

    def __init__(
        self, secret: Secret, *, ttl: float = TOKEN_TTL, leeway: float = LEEWAY, older: Sequence[Secret] = ()
    ) -> None:
        self._keys = [secret_bytes(entry) for entry in (secret, *older)]
        self._ttl, self._leeway = _ttl(ttl), leeway

    def issue(
        self, *, tour: str, now: float, session: str = "", role: Role = "viewer", ttl: float | None = None
    ) -> str:
        """A new token.

        Args:
            tour: the tour it is for.
            now: seconds since 1970.
            session: the session it is for, "" = one of the bearer's own; letters, digits and ``._~-``, 64 at most.
            role: viewer, host or operator.
            ttl: seconds for which it is good; None = as the class was told.

        Raises:
            UsageError: one of these is not allowed.
        """
        if role not in ROLES:
            raise UsageError(f"role={role!r} is none; there are: {', '.join(ROLES)}")
        if tour == ANY_TOUR and role != "operator":
            raise UsageError(f"tour={tour!r} is for operators; a {role} needs the name of a tour")
        begun = int(now)
        ends = begun + _ttl(self._ttl if ttl is None else ttl)
        claims = {"tour": tour, "session": session, "role": role, "iat": begun, "exp": ends}
        claims["jti"] = secrets.token_urlsafe(16)
        if fault := _fault(claims):
            raise UsageError(f"a token for tour={str(tour)[:80]!r}, session={str(session)[:80]!r}: {fault}")
        return jwt.encode(claims, self._keys[0], _ALGORITHM)

    def check(self, token: str, *, tour: str, now: float, ended: bool = False) -> Grant:
        """What a token allows on this tour.

        Args:
            token: as it came; "" = none did.
            tour: the tour that is asked for.
            now: seconds since 1970.
            ended: True = also one whose time is over, which its seat still answers to (A3).

        Raises:
            Problem: 401 token_missing, token_invalid, token_expired; 403 wrong_scope.
        """
        claims = self._claims(token)
        if max(claims.iat, claims.nbf) > now + self._leeway:
            raise _misissued("its claim iat or nbf lies in the future; compare the issuer's clock with this server's")
        if not 0 <= claims.exp - claims.iat <= LONGEST:
            raise _misissued(f"its claim exp must lie after iat, and at most {LONGEST:g} s after it")
        if not ended and claims.exp + self._leeway <= now:
            raise _unauthorised("token_expired", "the token's time is over")
        if claims.tour != tour and not (claims.tour == ANY_TOUR and claims.role == "operator"):
            raise wrong_scope("the token is for another tour", "ask for a token for this one")
        return Grant(claims.tour, claims.session, claims.role, claims.jti, claims.exp + self._leeway)

    def _claims(self, token: str) -> _Claims:
        if not token:
            raise _unauthorised("token_missing", "this server asks for a join token")
        if len(token) > _TOKEN_CHARS:
            raise _unauthorised("token_invalid", f"the token has more than {_TOKEN_CHARS} characters")
        for key in self._keys:
            try:
                claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_SIGNATURE_ONLY)
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                break
            if fault := _fault(claims):
                raise _misissued(fault)
            return msgspec.convert(claims, _Claims)
        raise _unauthorised("token_invalid", "the token was not signed with this server's secret by HS256, or is none")


def _fault(claims: Mapping[str, object]) -> str:
    """Which claim is wrong, and how it should be; "" = none."""
    if "aud" in claims:
        return "its claim aud names a service, and this server has no such name; leave it out"
    for field in msgspec.structs.fields(_Claims):
        name, form = field.name, _FORMS[field.name]
        if name not in claims:
            if field.required:
                return f"its claim {name} is missing; it is {form}"
            continue
        try:
            value = msgspec.convert(claims[name], field.type)
        except (msgspec.ValidationError, OverflowError):
            value = math.nan
        if isinstance(value, float) and not math.isfinite(value):
            return f"its claim {name} must be {form}"
    return ""


def bearer(header: str) -> str:
    """The token of an `Authorization` header; "" where it has none (RFC 6750, 2.1)."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _ttl(seconds: float) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= LONGEST:
        raise UsageError(f"ttl={seconds!r} must be 1 to {LONGEST:g} seconds")
    return int(seconds)


def _misissued(fault: str) -> Problem:
    return _unauthorised("token_invalid", f"the token was issued with this server's secret, but {fault}")


def _unauthorised(code: str, message: str) -> Problem:
    challenge = "Bearer" if code == "token_missing" else 'Bearer error="invalid_token"'
    hint = "ask whoever sent you here for a new token; it goes into Authorization: Bearer ..., or into hello.join_token"
    return Problem(401, code, message, hint, {"WWW-Authenticate": challenge})
