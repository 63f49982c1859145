"""Where sessions are kept, so that a viewer who was away gets every event once: the contract, and what keeps it.

journal_base      what a journal promises (J1-J6), and what all of them are made of
journal_memory    in this process: the default
journal_redis     on Redis Streams: outlives the process
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from multimodal.errors import UsageError
from multimodal.journal_base import KEEP_EVENTS, KEEP_SECONDS, LEASE_SECONDS, TTL, Entry, Journal, Lease, Mark
from multimodal.journal_memory import MemoryJournal

__all__ = [
    "KEEP_EVENTS",
    "KEEP_SECONDS",
    "LEASE_SECONDS",
    "TTL",
    "Entry",
    "Journal",
    "Lease",
    "Mark",
    "MemoryJournal",
    "journal_from_url",
]


def journal_from_url(
    url: str, *, keep_events: int = KEEP_EVENTS, keep_seconds: float = KEEP_SECONDS, ttl: float = TTL
) -> Journal:
    """The journal that a setting names.

    Args:
        url: "memory:", or "redis://[[user]:password@]host[:port][/db]", "rediss://..." (TLS), "unix://path".
        keep_events: events kept of each session.
        keep_seconds: seconds for which each is kept.
        ttl: seconds for which a session is kept after its writer did anything.

    Raises:
        UsageError: another kind of URL, a bound that keeps nothing, or the package `redis` is missing.
    """
    if not isinstance(url, str):
        raise UsageError(f"a journal's URL is text, not {type(url).__name__}; give memory: or redis://host:6379/0")
    scheme = url.partition(":")[0].lower()
    if url.lower().rstrip("/") in ("memory", "memory:"):
        return MemoryJournal(keep_events=keep_events, keep_seconds=keep_seconds, ttl=ttl)
    if scheme in ("redis", "rediss", "unix"):
        parts = urlsplit(url)
        whole = bool(parts.path.strip("/")) if scheme == "unix" else bool(parts.hostname)
        if not whole or (scheme != "unix" and not re.fullmatch(r"/?\d*/?", parts.path)):
            raise UsageError(f"this {scheme} URL names no server, or no database by number; give redis://host:6379/0")
        from multimodal.journal_redis import RedisJournal

        return RedisJournal(url, keep_events=keep_events, keep_seconds=keep_seconds, ttl=ttl)
    # The whole of it is not repeated: it may hold a password.
    raise UsageError(f"no journal is known by {scheme[:20]!r}; give memory: or redis://host:6379/0")
