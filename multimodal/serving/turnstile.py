"""What stands between a viewer and a seat: its token, what became of it, and the quotas. The door asks it.

T1  The token is judged before the seat, so that nobody without one learns which seats there are.
T2  A token opens one seat, also when it is shown twice at the same instant, or to two servers that share a Redis.
T3  What costs nothing is asked first: the address' quota, the token, the token's own quota, and then what it opens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from multimodal.serving.auth import Tokens
from multimodal.serving.limits import Quotas, Traffic
from multimodal.serving.rights import Action, Grant, demand, wrong_scope
from multimodal.serving.seats import SeatPass, no_such_seat
from multimodal.serving.spent import Spent, SpentTokens

__all__ = ["Turnstile"]


class Turnstile:
    """Tokens and quotas (T1-T3 above).

    Args:
        tokens: judges join tokens; None = none is asked for.
        spent: None = in memory.
        traffic: None = no quotas.
    """

    def __init__(
        self, tokens: Tokens | None = None, *, spent: SpentTokens | None = None, traffic: Traffic | None = None
    ) -> None:
        self.tokens = tokens
        self.spent: SpentTokens = Spent() if spent is None else spent
        self.traffic = Traffic(Quotas.unlimited()) if traffic is None else traffic
        self._entering: dict[str, _Queue] = {}

    def admit(self, tour: str, token: str, address: str) -> Grant:
        """What a token allows that would open a seat.

        Args:
            tour: the tour.
            token: as it came.
            address: who asks (`Proxies.client`); "" = not counted.

        Raises:
            Problem: 401, 403, 429.
        """
        if address:
            self.traffic.join(address, time.monotonic())
        if self.tokens is None:
            return Grant(tour)
        grant = demand(self.tokens.check(token, tour=tour, now=time.time()), "watch")
        self.traffic.come_back(grant.key, time.monotonic())
        return grant

    def owner(self, tour: str, token: str) -> Grant:
        """Whose token this is, for a seat that it may have opened; its own time may be over.

        Raises:
            Problem: 401, 403.
        """
        if self.tokens is None:
            return Grant(tour)
        return demand(self.tokens.check(token, tour=tour, now=time.time(), ended=True), "watch")

    def same(self, grant: Grant, seat: SeatPass) -> Grant:
        """What the seat's owner may do there.

        Raises:
            Problem: 404, it is somebody else's.
        """
        if self.tokens is None:
            return Grant(seat.tour, role=seat.role)
        if grant.key != seat.key:
            raise no_such_seat()
        return grant

    def count_return(self, grant: Grant, seat: SeatPass) -> None:
        """A connection at a seat.

        Raises:
            Problem: 429.
        """
        self.traffic.come_back(grant.key or seat.viewer, time.monotonic())

    def operator(self, tour: str, token: str, action: Action) -> Grant:
        """Whoever lists or ends sessions.

        Raises:
            Problem: 401, 403; without tokens nobody may.
        """
        if self.tokens is None:
            raise wrong_scope("this server asks for no tokens, so it has no operators", "give asgi(...) a secret")
        return demand(self.tokens.check(token, tour=tour, now=time.time()), action)

    @asynccontextmanager
    async def alone(self, grant: Grant) -> AsyncIterator[None]:
        """One at a time for each token (T2)."""
        if not grant.key:
            yield
            return
        queue = self._entering.setdefault(grant.key, _Queue())
        queue.length += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                self._entering.pop(grant.key, None)

    def sit(self, address: str) -> None:
        """Count an open seat.

        Raises:
            Problem: 429.
        """
        if address:
            self.traffic.sit(address)

    def stand(self, address: str) -> None:
        """A seat has been given up."""
        if address:
            self.traffic.stand(address)


class _Queue:
    __slots__ = ("length", "lock")

    def __init__(self) -> None:
        self.lock, self.length = asyncio.Lock(), 0
