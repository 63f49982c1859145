"""The ids of seats: signed, so that a server knows its own again after a restart, and nobody can guess one. Pure.

A4  What an id says about its seat it says by itself: session, viewer, role, and which token opened it.
A5  A seat that is somebody else's, one that was closed and one that never was get the same answer, and an id costs the
    same work whatever is wrong with it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from multimodal.errors import UsageError
from multimodal.serving.rights import ROLES, SECRET_BYTES, Grant, Role, Secret, secret_bytes
from multimodal.serving.signalling import Problem

__all__ = ["SEAT_TTL", "SeatPass", "Seats", "no_such_seat"]

SEAT_TTL = 43_200.0
"""Seconds for which a viewer can come back to a seat: twelve hours are longer than any show."""
_VIEWER_BYTES, _KEY_BYTES, _MAC_BYTES, _SESSION_BYTES = 12, 16, 16, 64
_HEAD = struct.Struct(f">B{_VIEWER_BYTES}s{_KEY_BYTES}sQ")
_PREFIX = "s1_"
_FORM = re.compile(r"s1_[A-Za-z0-9_-]{70,197}")
_NOBODY = bytes(_HEAD.size + 16)


@dataclass(frozen=True)
class SeatPass:
    """What a seat's id says.

    Args:
        id: as it stands in paths.
        tour: whose seat it is. It stands in the path beside the id, and not in the id.
        session: the session's name.
        role: of the token that opened it.
        viewer: which of the session's viewers.
        key: `Grant.key` of the token that opened it, "" = there was none.
        until: how long a viewer can come back to it, seconds since 1970.
    """

    id: str
    tour: str
    session: str
    role: Role
    viewer: str
    key: str
    until: float


class Seats:
    """Issues and reads the ids of seats (A4, A5).

    Args:
        secret: None = one of this process only: its seats are forgotten with it.
        older: secrets that were in use before: their seats are still known.
        ttl: seconds for which a viewer can come back.

    Raises:
        UsageError: a weak secret.
    """

    def __init__(self, secret: Secret | None = None, *, older: Sequence[Secret] = (), ttl: float = SEAT_TTL) -> None:
        given = secrets.token_bytes(SECRET_BYTES) if secret is None else secret_bytes(secret)
        # A key of their own, so that nothing that is signed as a token could ever pass for a seat.
        self._keys = [hmac.digest(key, b"multimodal seats 1", "sha256") for key in (given, *map(secret_bytes, older))]
        self._ttl = ttl

    @staticmethod
    def looks_like(name: str) -> bool:
        """Whether the last part of a path is a seat's id, and not of a tour's name."""
        return _FORM.fullmatch(name) is not None

    def issue(self, grant: Grant, *, tour: str, session: str, now: float) -> SeatPass:
        """A new seat.

        Args:
            grant: of the token that opens it.
            tour: whose seat it is.
            session: the session's name, 64 bytes at most.
            now: seconds since 1970.

        Raises:
            UsageError: the session's name is empty or too long.
        """
        name = session.encode()
        if not 0 < len(name) <= _SESSION_BYTES:
            raise UsageError(f"a session's name has 1 to {_SESSION_BYTES} bytes, not {len(name)}")
        viewer, key = secrets.token_bytes(_VIEWER_BYTES), bytes.fromhex(grant.key) or bytes(_KEY_BYTES)
        until = int(max(now + self._ttl, grant.expires))
        body = _HEAD.pack(ROLES.index(grant.role), viewer, key, until) + name
        seat_id = _PREFIX + _b64(body + _mac(self._keys[0], tour, body))
        return SeatPass(seat_id, tour, session, grant.role, viewer.hex(), grant.key, until)

    def read(self, seat_id: str, *, tour: str, now: float) -> SeatPass:
        """What a seat's id says.

        Args:
            seat_id: as it stood in the path.
            tour: as it stood in the path.
            now: seconds since 1970.

        Raises:
            Problem: 404 no_such_seat: it is none of ours, is another tour's, or its time is over.
        """
        raw = _unb64(seat_id[len(_PREFIX) :]) if self.looks_like(seat_id) else b""
        formed = len(raw) > _HEAD.size + _MAC_BYTES
        body, mac = (raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]) if formed else (_NOBODY, b"")
        signed = [hmac.compare_digest(_mac(key, tour, body), mac) for key in self._keys]  # with all of them, always
        role, viewer, key, until = _HEAD.unpack_from(body)
        # A last character has bits that no byte takes up: of the ids that read alike one is the right one.
        if not any(signed) or until <= now or _PREFIX + _b64(raw) != seat_id:
            raise no_such_seat()
        opened_by = "" if key == bytes(_KEY_BYTES) else key.hex()
        return SeatPass(seat_id, tour, body[_HEAD.size :].decode(), ROLES[role], viewer.hex(), opened_by, until)


def no_such_seat() -> Problem:
    """The one answer about seats that are not open to whoever asks (A5)."""
    return Problem(
        404, "no_such_seat", "this seat has been given up, or never was", "begin anew: POST an offer, or hello"
    )


def _mac(key: bytes, tour: str, body: bytes) -> bytes:
    name = tour.encode(errors="surrogatepass")
    return hmac.digest(key, struct.pack(">I", len(name)) + name + body, hashlib.sha256)[:_MAC_BYTES]


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
