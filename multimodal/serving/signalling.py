"""What an offer over HTTP must look like, and what the answers to wrong ones say. Pure: no server, no sockets.

The exchange follows WHEP (POST an offer, 201 with the answer and the `Location` of the session, DELETE it), with one
difference: the specification wants a media section, our sessions carry data channels only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

__all__ = [
    "CANDIDATES_LIMIT",
    "OFFER_LIMIT_BYTES",
    "SDP_TYPE",
    "Problem",
    "check_content_type",
    "check_offer",
    "session_path",
]

OFFER_LIMIT_BYTES = 64 * 1024
"""A browser's offer for data channels is about 1 KB; with every candidate of a laptop, 5."""
CANDIDATES_LIMIT = 64
"""Addresses in an offer: each is sent several packets, so a long list would make us knock at strangers' doors."""
SDP_TYPE = "application/sdp"


_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d{2}|6[0-4]\d{3}|[1-5]?\d{1,4})"

_FORMS = {
    "c=": r"c=IN IP[46] \S+",
    "a=group": r"a=group:\S+( \S+)*",
    "a=msid-semantic": r"a=msid-semantic: ?\S+( \S+)*",
    "a=mid": r"a=mid:\S+",
    "a=sctp-port": rf"a=sctp-port:{_PORT}",
    "a=max-message-size": r"a=max-message-size:\d{1,18}",
    "a=candidate": rf"a=candidate:\S+ \d+ \S+ \d+ \S+ {_PORT} typ \S+( \S+)*",
    "a=fingerprint": r"a=fingerprint:\S+ [0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})*",
    "a=setup": r"a=setup:(actpass|active|passive)",
}
"""The lines that the answering side reads, and their form (RFC 8866, 8839, 8841, 8842)."""


class Problem(Exception):  # noqa: N818 - what HTTP calls it (RFC 9457)
    """A request that cannot be served.

    Args:
        status: the HTTP status.
        code: for programs.
        message: what is wrong, for people.
        hint: what to do.
        headers: to send along.
    """

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def check_content_type(value: str) -> None:
    """The Content-Type of an offer.

    Raises:
        Problem: 415, when it is not ``application/sdp``.
    """
    if value.split(";", 1)[0].strip().lower() != SDP_TYPE:
        raise Problem(
            415,
            "unsupported_media_type",
            f"an offer has Content-Type {SDP_TYPE}, not {value[:80] or 'none'}",
            f"POST the SDP offer itself, with the header Content-Type: {SDP_TYPE}",
            {"Accept-Post": SDP_TYPE},
        )


def check_offer(body: bytes) -> str:
    """The SDP text of an offer for data channels.

    Args:
        body: the request's body; more than `OFFER_LIMIT_BYTES` need not be read to the end.

    Raises:
        Problem: 413 too large, 400 not an offer for data channels.
    """
    if len(body) > OFFER_LIMIT_BYTES:
        raise Problem(
            413,
            "offer_too_large",
            f"the offer is larger than {OFFER_LIMIT_BYTES} bytes",
            "an offer for data channels has about 1,000 bytes",
        )
    try:
        sdp = body.decode()
    except UnicodeDecodeError:
        raise _bad("it is not UTF-8") from None
    if not sdp.startswith("v=0"):
        raise _bad("it does not start with v=0")
    kinds = re.findall(r"^m=(\w+) ", sdp, re.MULTILINE)
    if kinds != ["application"]:
        found = ", ".join(kinds) or "none"
        raise _bad(f"it needs exactly one m=application section (found: {found})")
    if not re.search(r"^m=application \d+ \S*DTLS/SCTP ", sdp, re.MULTILINE):
        raise _bad("its m=application section is not DTLS/SCTP")
    for line in ("a=ice-ufrag:", "a=ice-pwd:", "a=fingerprint:", "a=setup:"):
        if not re.search(f"^{line}\\S+", sdp, re.MULTILINE):
            raise _bad(f"it has no {line[:-1]} line")
    for line in sdp.splitlines():
        name = re.match(r"a=[^:]*|\w=", line)
        form = _FORMS.get(name[0]) if name is not None else None
        if form is not None and not re.fullmatch(form, line.rstrip(), re.ASCII):
            raise _bad(f"its line {line[:80]!r} is malformed")
    mids = re.findall(r"^a=mid:(\S+)", sdp, re.MULTILINE)
    for group in re.findall(r"^a=group:BUNDLE([^\r\n]*)", sdp, re.MULTILINE):
        # The answering side takes a section that is not there for its only one, and is left without a transport.
        if group.split() not in ([], mids):
            raise _bad("its BUNDLE group does not name its one section")
    if sdp.count("a=candidate:") > CANDIDATES_LIMIT:
        raise _bad(f"it lists more than {CANDIDATES_LIMIT} candidates")
    return sdp


def session_path(root_path: str, tour: str, session: str) -> str:
    """The absolute path of a session's resource, under whatever prefix the application is mounted.

    Args:
        root_path: the prefix, as ASGI's scope gives it.
        tour: the tour's name, not escaped.
        session: the session's id.
    """
    return f"{quote(root_path.rstrip('/'))}/whep/{quote(tour, safe='')}/{quote(session, safe='')}"


def _bad(why: str) -> Problem:
    return Problem(
        400,
        "bad_offer",
        f"the body is not an SDP offer for data channels: {why}",
        "create the negotiated channels 0 `events` and 1 `images` before createOffer, and add no tracks",
    )
