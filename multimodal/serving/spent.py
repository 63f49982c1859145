"""What became of tokens: which seat each has opened, and those whose seat was closed, which open nothing more.

In memory, or in a Redis that several servers share.

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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.serving.rights import Grant
from multimodal.serving.seats import SEAT_TTL
from multimodal.serving.signalling import Problem

__all__ = ["REDIS_WAIT", "SPENT_LIMIT", "RedisSpent", "Spent", "SpentTokens", "token_used"]

log = logging.getLogger(__name__)

SPENT_LIMIT = 100_000
"""Tokens remembered: 20 MB. More than two viewers a second would have to leave, twelve hours long, to fill it."""
REDIS_WAIT = 2.0
"""Seconds that Redis has for one answer."""


class SpentTokens(Protocol):
    """What the door asks about tokens (P1-P3)."""

    async def claim(self, grant: Grant, seat_id: str) -> str:
        """The token opens this seat: "" = it does; else the seat that it opened before, on another server.

        Raises:
            Problem: 401 token_used, its seat was closed; 503, it cannot be said just now.
        """
        ...

    async def is_spent(self, grant: Grant) -> bool:
        """Whether the token's seat was closed.

        Raises:
            Problem: 503, it cannot be said just now.
        """
        ...

    def close(self, grant: Grant) -> None:
        """The token's seat was closed. Never raises, never waits."""

    def release(self, grant: Grant) -> None:
        """Nobody ever came to the token's seat: it may open another. Never raises, never waits."""

    async def aclose(self) -> None:
        """Write what is still to be written. Twice is once."""


def token_used() -> Problem:
    """The answer to a token whose seat was closed (RFC 6750, 3.1)."""
    return Problem(
        401,
        "token_used",
        "the seat that this token opened has been given up",
        "ask whoever sent you here for a new token",
        {"WWW-Authenticate": 'Bearer error="invalid_token"'},
    )


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

    async def claim(self, grant: Grant, seat_id: str) -> str:
        """As in `SpentTokens`; which seats are open on this server the door knows by itself."""
        if await self.is_spent(grant):
            raise token_used()
        return ""

    def release(self, grant: Grant) -> None:
        """As in `SpentTokens`: nothing is held."""

    async def is_spent(self, grant: Grant, *, now: float | None = None) -> bool:
        """As in `SpentTokens`."""
        return self._until.get(grant.key, 0.0) > (time.time() if now is None else now)

    async def aclose(self) -> None:
        """Nothing is left to do."""

    def until(self, grant: Grant, now: float) -> float:
        """How long a token that is closed now has to be remembered (P2), seconds since 1970."""
        return max(grant.expires, now + self._seat_ttl)


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
        client: Any,
        *,
        prefix: str = "multimodal:token:",
        limit: int = SPENT_LIMIT,
        seat_ttl: float = SEAT_TTL,
    ) -> None:
        self._client, self._prefix = client, prefix
        self._here = Spent(limit=limit, seat_ttl=seat_ttl)
        self._unwritten: dict[str, float] = {}
        """Keys, and until when each is to be remembered as spent; 0 = not at all."""
        self._limit = limit
        self._writing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Tokens of which Redis has still to be told."""
        return len(self._unwritten)

    async def claim(self, grant: Grant, seat_id: str) -> str:
        """As in `SpentTokens`."""
        if not grant.jti:
            return ""
        if await self._here.is_spent(grant):
            raise token_used()
        # A seat that was released a moment ago would else be found again.
        await self._written()
        name, now = self._prefix + grant.key, time.time()
        seconds = _seconds(self._here.until(grant, now), now)
        async with _asking():
            if await self._client.set(name, seat_id, ex=seconds, nx=True):
                return ""
            held = await self._client.get(name)
        if held is None:
            raise _away()  # it ended between two answers: the next attempt finds it so
        found = held.decode() if isinstance(held, bytes) else str(held)
        if found == _SPENT:
            raise token_used()
        return "" if found == seat_id else found

    async def is_spent(self, grant: Grant) -> bool:
        """As in `SpentTokens`."""
        if not grant.jti:
            return False
        if await self._here.is_spent(grant):
            return True
        async with _asking():
            return await self._client.get(self._prefix + grant.key) in (_SPENT, _SPENT.encode())

    def close(self, grant: Grant) -> None:
        """As in `SpentTokens`; to be called in a running loop."""
        if grant.jti:
            now = time.time()
            self._here.close(grant, now=now)
            self._tell(grant.key, self._here.until(grant, now))

    def release(self, grant: Grant) -> None:
        """As in `SpentTokens`; to be called in a running loop."""
        if grant.jti and self._unwritten.get(grant.key, 0.0) == 0:
            self._tell(grant.key, 0.0)

    async def aclose(self) -> None:
        """As in `SpentTokens`; what Redis does not take within `REDIS_WAIT` is lost, and logged."""
        await self._written()
        if self._unwritten:
            await self._write()
        if self._unwritten:
            log.error("%d tokens that were used are not in Redis: other servers take them until they end", len(self))
            self._unwritten.clear()

    def _tell(self, key: str, until: float) -> None:
        if len(self._unwritten) < self._limit:
            self._unwritten[key] = until
        # Whoever closes a seat must not wait for Redis; the one task is kept here and ended by `aclose`.
        if self._writing is None or self._writing.done():
            self._writing = loop_here("closing a token").create_task(self._write(), name="multimodal spent tokens")

    async def _written(self) -> None:
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    async def _write(self) -> None:
        try:
            while self._unwritten:
                key, until = next(iter(self._unwritten.items()))
                name = self._prefix + key
                async with asyncio.timeout(REDIS_WAIT):
                    if until:
                        await self._client.set(name, _SPENT, ex=_seconds(until, time.time()))
                    else:
                        await self._client.delete(name)
                if self._unwritten.get(key) == until:
                    del self._unwritten[key]
        except Exception as error:
            log.warning("Redis does not take what became of a token, later again: %s: %s", type(error).__name__, error)


_SPENT = "spent"


def _seconds(until: float, now: float) -> int:
    return max(1, int(until - now) + 1)


def _away() -> Problem:
    message = "it cannot be said just now whether this token was used"
    return Problem(503, "tokens_away", message, "try again in a few seconds", {"Retry-After": "2"})


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(REDIS_WAIT):
            yield
    except Exception as error:
        # The client's errors have a tree of their own; letting somebody in unasked is the one thing not to do.
        log.warning("Redis does not say what became of a token: %s: %s", type(error).__name__, error)
        raise _away() from None
