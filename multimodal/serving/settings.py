"""The settings of an application, judged before the first viewer comes."""

from __future__ import annotations

import ipaddress
import logging
import math
from collections.abc import Mapping
from typing import Any

from multimodal.errors import UsageError
from multimodal.journal import MemoryJournal

__all__ = ["check_settings"]

log = logging.getLogger(__name__)

_NEEDS: dict[str, tuple[str, str]] = {
    "journal": ("append", "give MemoryJournal(), RedisJournal(url) or journal_from_url(url)"),
    "spent": ("is_spent", "give Spent() or RedisSpent(client)"),
    "quotas": ("seats_per_address", "give Quotas(...)"),
    "turn": ("urls", "give Turn([url], secret)"),
    "limits": ("malformed", "give Limits(...)"),
}
_CALLED = ("resume_stream", "recorder")


def check_settings(given: Mapping[str, Any]) -> None:
    """Refuse what would fail at the first viewer, or let strangers share a tour.

    Args:
        given: arguments of `multimodal.asgi` by name; None = not given.

    Raises:
        UsageError: one that cannot be used; which, and what to give.
    """
    for name, (part, hint) in _NEEDS.items():
        if given[name] is not None and not hasattr(given[name], part):
            raise UsageError(f"{name}={given[name]!r} cannot be used; {hint}")
    for name in _CALLED:
        if given[name] is not None and not callable(given[name]):
            raise UsageError(f"{name}={given[name]!r} cannot be called; give a function")
    shared = given["shared"]
    if isinstance(shared, str | bytes) or not hasattr(shared, "__contains__"):
        raise UsageError(f"shared={shared!r}: give the names of the shared tours, such as {{'live'}}")
    keep = given["keep"]
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 <= keep < math.inf:
        raise UsageError(f"keep={keep!r} must be a number of seconds, 0 or more")
    if given["tokens"] not in (None, True, False):
        raise UsageError(f"tokens={given['tokens']!r}: give True, False or None")
    _check_addresses(given["bind_addresses"])
    servers = given["ice_servers"]
    if isinstance(servers, str) or not all(hasattr(server, "urls") for server in servers):
        raise UsageError(f"ice_servers={servers!r}: give [IceServer('stun:stun.example.org')]")
    if given["secret"] is None and not isinstance(given["journal"], MemoryJournal | None):
        log.warning(
            "a journal that outlives the process, and no secret: after a restart no viewer finds its seat again"
        )


def _check_addresses(addresses: Any) -> None:
    if addresses is None:
        return
    if isinstance(addresses, str | bytes):
        raise UsageError(f"bind_addresses={addresses!r}: give a list of addresses")
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise UsageError(f"bind_addresses: {address!r} is no IP address") from None
