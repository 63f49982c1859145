"""Tokens whose seat was closed: they open nothing more. In memory, or in a Redis that several servers share.

P1  What `close` was told holds on this server at once, whatever becomes of the shared memory.
P2  A token is remembered for as long as it could be shown with success: to its own end, and for as long as its seat
    could be come back to.
P3  Memory is bounded; what makes room is the token that would have been forgotten soonest.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from typing import Any, Protocol

from multimodal.errors import UsageError
from multimodal.serving.rights import Grant
from multimodal.serving.seats import SEAT_TTL
from multimodal.serving.signalling import Problem

__all__ = ["REDIS_WAIT", "SPENT_LIMIT", "RedisSpent", "Spent", "SpentTokens"]

log = logging.getLogger(__name__)

SPENT_LIMIT = 100_000
"""Tokens remembered: 20 MB. More than two viewers a second would have to leave, twelve hours long, to fill it."""
REDIS_WAIT = 2.0
"""Seconds that Redis has for one answer."""


class SpentTokens(Protocol):
    """What the door asks about tokens (P1-P3)."""

    def close(self, grant: Grant) -> None:
        """The token's seat was closed. Never raises, never waits."""

    async def is_spent(self, grant: Grant) -> bool:
        """Whether the token's seat was closed.

        Raises:
            Problem: 503, it cannot be said just now.
        """
        ...

    async def aclose(self) -> None:
        """Write what is still to be written. Twice is once."""


class Spent:
    """In memory: one process, until it ends.

    Args:
        limit: tokens remembered.
        seat_ttl: as for `Seats`.
    """

    def __init__(self, *, limit: int = SPENT_LIMIT, seat_ttl: float = SEAT_TTL) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit={limit!r} must be a whole number, 1 or more")
        self.forgotten = 0
        """Tokens that had to make room before their time (P3)."""
        self._limit, self._seat_ttl = limit, seat_ttl
        self._until: dict[str, float] = {}
        self._soonest: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._until)

    def close(self, grant: Grant, *, now: float | None = None) -> None:
        """As in `SpentTokens`; `now` is in seconds since 1970, None = the clock's."""
        now = time.time() if now is None else now
        if not grant.jti or grant.key in self._until:
            return
        while self._soonest and (self._soonest[0][0] <= now or len(self._until) >= self._limit):
            until, key = heapq.heappop(self._soonest)
            del self._until[key]
            self.forgotten += until > now
        until = self.until(grant, now)
        self._until[grant.key] = until
        heapq.heappush(self._soonest, (until, grant.key))

    async def is_spent(self, grant: Grant, *, now: float | None = None) -> bool:
        """As in `SpentTokens`."""
        return self._until.get(grant.key, 0.0) > (time.time() if now is None else now)

    async def aclose(self) -> None:
        """Nothing is left to do."""

    def until(self, grant: Grant, now: float) -> float:
        """How long a token that is closed now has to be remembered (P2), seconds since 1970."""
        return max(grant.expires, now + self._seat_ttl)


class _Redis(Protocol):
    def set(self, name: str, value: str, *, ex: int, nx: bool) -> Any: ...

    def exists(self, name: str) -> Any: ...


class RedisSpent:
    """In Redis: all servers with the same one agree, and a restart forgets nothing.

    What Redis does not take at once is offered again with every further token, and at the end (`aclose`).

    Args:
        client: a `redis.asyncio.Redis`; it stays yours to close.
        prefix: before every key.
        limit: tokens remembered here beside Redis.
        seat_ttl: as for `Seats`.
    """

    def __init__(
        self,
        client: _Redis,
        *,
        prefix: str = "multimodal:spent:",
        limit: int = SPENT_LIMIT,
        seat_ttl: float = SEAT_TTL,
    ) -> None:
        self._client, self._prefix = client, prefix
        self._here = Spent(limit=limit, seat_ttl=seat_ttl)
        self._unwritten: dict[str, float] = {}
        self._limit = limit
        self._writing: asyncio.Task[None] | None = None

    def close(self, grant: Grant) -> None:
        """As in `SpentTokens`; to be called in a running loop."""
        if not grant.jti:
            return
        now = time.time()
        self._here.close(grant, now=now)
        if len(self._unwritten) < self._limit:
            self._unwritten[grant.key] = self._here.until(grant, now)
        # Whoever closes a seat must not wait for Redis; the one task is kept here and ended by `aclose`.
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="multimodal spent tokens")

    async def is_spent(self, grant: Grant) -> bool:
        """As in `SpentTokens`."""
        if not grant.jti:
            return False
        if await self._here.is_spent(grant):
            return True
        try:
            async with asyncio.timeout(REDIS_WAIT):
                return bool(await self._client.exists(self._prefix + grant.key))
        except Exception as error:
            # The client's errors have their own tree; letting somebody in unasked is the one thing not to do.
            log.warning("Redis does not say whether a token was used: %s: %s", type(error).__name__, error)
            raise Problem(
                503,
                "tokens_away",
                "it cannot be said just now whether this token was used",
                "try again in a few seconds",
                {"Retry-After": "2"},
            ) from None

    async def aclose(self) -> None:
        """As in `SpentTokens`; what Redis does not take within `REDIS_WAIT` is lost, and logged."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._unwritten:
            await self._write()
        if self._unwritten:
            log.error("%d tokens that were used are not in Redis: other servers take them until they end", len(self))
            self._unwritten.clear()

    def __len__(self) -> int:
        """Tokens that Redis has still to take."""
        return len(self._unwritten)

    async def _write(self) -> None:
        try:
            while self._unwritten:
                key, until = next(iter(self._unwritten.items()))
                seconds = max(1, int(until - time.time()) + 1)
                async with asyncio.timeout(REDIS_WAIT):
                    await self._client.set(self._prefix + key, "1", ex=seconds, nx=True)
                self._unwritten.pop(key, None)
        except Exception as error:
            log.warning("Redis does not take a used token, later again: %s: %s", type(error).__name__, error)
