"""Whose pages may act here. CORS headers do not say: they keep answers from a page, not its requests from us. Pure.

O1  A request that acts (an offer, a socket, a stream, a goodbye) comes from the page's own origin, from one of the
    list, or from no page at all, such as curl.
O2  A browser says where a page is from in `Sec-Fetch-Site` and `Origin`, and no page can change them. The first is
    right behind any proxy; the second is compared with `Host`, for browsers and plain http that do not send the first.
O3  A page without an origin of its own (`Origin: null`: a file, a sandbox) is on no list but ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from multimodal.errors import UsageError
from multimodal.serving.signalling import Problem

__all__ = ["Origins"]

_FORM = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(:\d{1,5})?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Origins:
    """The list of origins, beside the page's own.

    Args:
        allowed: such as ``https://shop.example``; ``*`` = all.

    Raises:
        UsageError: one is no origin: it has a path, or no scheme.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        if isinstance(allowed, str):
            raise UsageError(f"cors_origins={allowed!r} is one string; give a list of origins")
        self.allowed = tuple(entry if entry == "*" else _origin(entry) for entry in allowed)

    def check(self, *, origin: str, site: str, host: str) -> None:
        """A request that acts (O1).

        Args:
            origin: its `Origin` header, "" = none.
            site: its `Sec-Fetch-Site` header, "" = none.
            host: its `Host` header.

        Raises:
            Problem: 403 origin_not_allowed.
        """
        if "*" in self.allowed or site == "same-origin":
            return
        if origin:
            if origin.lower() in self.allowed or (not site and _same_host(origin, host)):
                return
        elif site in ("", "none"):
            return
        raise Problem(
            403,
            "origin_not_allowed",
            f"pages of {origin[:80] or 'another site'} may not play tours from here",
            "the server's cors_origins list who may",
        )


def _origin(entry: str) -> str:
    lower = str(entry).lower()
    if not _FORM.fullmatch(lower):
        raise UsageError(
            f"cors_origins: {entry!r} is no origin; one is scheme://host[:port], such as https://shop.example"
        )
    scheme, _, rest = lower.partition("://")
    # As browsers write it: the port that goes without saying is left out.
    return f"{scheme}://{rest.removesuffix(':' + _DEFAULT_PORTS.get(scheme, '-'))}"


def _same_host(origin: str, host: str) -> bool:
    """The scheme is not compared: behind a proxy that ends TLS ours is another than the page's."""
    try:
        parts = urlsplit(origin.lower())
        ours = urlsplit(f"//{host.strip().lower()}")
        default = _DEFAULT_PORTS.get(parts.scheme, "")
        theirs = (parts.hostname, str(parts.port or default))
        return bool(parts.hostname) and theirs == (ours.hostname, str(ours.port or default))
    except ValueError:
        return False
