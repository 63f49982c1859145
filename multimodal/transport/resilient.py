"""A viewer that loses its road and not its place: it connects anew by itself, by whatever road there is.

F1  WebRTC first. The next road is begun beside it when it has not come to stand within `FALLBACK_AFTER`, or at once
    when it failed; the first to stand is taken, the others are dropped. A new connection begins with the road that
    stood last; the time in which that one was silent before counts, but for `HEAD_START`.
F2  One seat and one cursor on all roads: each connection goes on where the one before ended, and nothing is shown
    twice.
F3  Between two connections `BACKOFF` passes, from its start again after any that brought something.
F4  What the server refuses for good (a token, a tour, a seat that has ended), and a goodbye that does not say that
    it will be back, ends the viewing. So does `give_up` without anything new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

import msgspec

from multimodal import wire
from multimodal.errors import ChannelClosedError, JoinRefused, RemoteProtocolError, TransportError, UsageError
from multimodal.events import AnyEvent
from multimodal.transport.base import Inbound, Link
from multimodal.transport.roads import ROADS, Road, seat_url, tour_url
from multimodal.transport.viewer import FetchesPictures, Seen, Viewer

__all__ = [
    "BACKOFF",
    "FALLBACK_AFTER",
    "FINAL",
    "GIVE_UP",
    "HEAD_START",
    "WILL_BE_BACK",
    "Connector",
    "ResilientViewer",
    "connectors",
]

FALLBACK_AFTER = 4.0
"""Seconds that a road has to itself. On a bad one WebRTC takes two; where UDP is blocked it never stands."""
HEAD_START = 1.0
"""Seconds that the road which stood last has to itself in any case, so that a short outage does not change the road:
WebRTC stands again within half a second where it can."""
BACKOFF = (0.25, 0.5, 1.0)
"""Seconds before the first, the second and each further attempt."""
GIVE_UP = 60.0
"""Seconds without anything new after which it ends: a session is kept no longer."""
FINAL = frozenset(
    {
        *("token_missing", "token_invalid", "token_expired", "token_used", "wrong_scope", "origin_not_allowed"),
        *("no_such_tour", "no_such_seat"),
    }
)
"""Codes of refusals that no other road and no later attempt would change."""
WILL_BE_BACK = ("the server is stopping", "another server has taken over")
"""How goodbyes begin after which it is worth to come back."""
_FAULTS = 3
"""Connections in a row that may end with a broken protocol: one is an accident."""

Connector = Callable[[str, str, str], Awaitable[tuple[Link, str]]]
"""From a tour's URL, the seat's ("" = none yet) and a token to a link that stands, and the seat's URL, where the road
tells it."""


def connectors(**webrtc: Any) -> dict[Road, Connector]:
    """How the roads are taken; the libraries of each load when it is.

    Args:
        webrtc: settings of `WebRTCLink`.
    """

    async def by_webrtc(url: str, seat: str, token: str) -> tuple[Link, str]:
        from multimodal.transport.whep import join, rejoin

        if seat:
            link = await rejoin(seat, token=token, **webrtc)
        else:
            link, seat = await join(url, token=token, **webrtc)
        try:
            await link.opened()
        except BaseException:
            await link.aclose()
            raise
        return link, seat

    async def by_websocket(url: str, seat: str, token: str) -> tuple[Link, str]:
        from multimodal.transport.websocket_client import join_websocket, rejoin_websocket

        return await (rejoin_websocket(seat, token=token) if seat else join_websocket(url, token=token)), seat

    async def by_sse(url: str, seat: str, token: str) -> tuple[Link, str]:
        from multimodal.transport.sse_client import join_sse, rejoin_sse

        return await (rejoin_sse(seat, token=token) if seat else join_sse(url, token=token)), seat

    return {"whep": by_webrtc, "ws": by_websocket, "sse": by_sse}


class ResilientViewer(Viewer):
    """One viewer of a tour over one connection after another (F1-F4 above).

    Args:
        url: the tour's address on any road, such as ``http://127.0.0.1:8080/tour/whep/demo``.
        token: the join token, where the server asks for one.
        seat: the URL of a seat to come back to; "" = a new one.
        roads: those that may be taken, in the order of preference.
        take: how each is taken; None = `connectors()`.
        fallback_after: seconds, see F1.
        give_up: seconds, see F4.
        hello, held, decode, on_show, leave_at_end: as for `Viewer`.

    Raises:
        UsageError: the URL is no tour's, there is no road, or no event loop runs here.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        seat: str = "",
        roads: Sequence[Road] = ROADS,
        take: Mapping[Road, Connector] | None = None,
        fallback_after: float = FALLBACK_AFTER,
        give_up: float = GIVE_UP,
        hello: wire.Hello | None = None,
        held: Iterable[bytes] = (),
        decode: float | Callable[[str], float | None] | None = 0.0,
        on_show: Callable[[tuple[AnyEvent, ...]], None] | None = None,
        leave_at_end: bool = True,
    ) -> None:
        self.url = tour_url(url, "whep")
        if not roads or not set(roads) <= set(ROADS):
            raise UsageError(f"roads={list(roads)!r}: name at least one of {', '.join(ROADS)}")
        greeting = msgspec.structs.replace(hello or wire.Hello(), join_token=token)
        super().__init__(
            _NoLink(), hello=greeting, held=held, decode=decode, on_show=on_show, leave_at_end=leave_at_end
        )
        self.seat = seat and seat_url(seat, "whep")
        """The URL of this viewer's seat; "" = not known yet."""
        self.connections: list[Road] = []
        """The road of each connection that stood, in order."""
        self.failures: list[str] = []
        """Why each attempt and each connection failed; the last 100."""
        self._token, self._roads, self._take = token, tuple(roads), take or connectors()
        self._fallback_after, self._give_up = fallback_after, give_up
        self._greeted, self._found_seat = bool(seat), not seat

    async def watch(self) -> Seen:
        """View to the end of the stream. Cancelling closes the connection.

        Raises:
            JoinRefused: the server refused for good (F4).
            ChannelClosedError: nothing new came for `give_up` seconds; it says what failed last.
            RemoteProtocolError: the server broke the protocol, again and again.
            UsageError: what the only road needs is not installed.
        """
        since, waits, faults = self._loop.time(), 0, 0
        while True:
            before = (self.protocol.cursor, len(self.seen.pictures))
            error = await self._once()
            if error is None:
                return self.seen
            if (self.protocol.cursor, len(self.seen.pictures)) != before:
                since, waits, faults = self._loop.time(), 0, 0
            faults = faults + 1 if isinstance(error, RemoteProtocolError) else 0
            self._note(str(error))
            if isinstance(error, JoinRefused) and error.code in FINAL:
                found = self.seat if self._found_seat else ""
                if error.code != "no_such_seat" or self.protocol.cursor >= 0 or not found:
                    raise error
                # The hello did not arrive, so the server has not kept the seat, and nothing was missed.
                self.seat = self.protocol.seat = ""
                self._greeted = False
            if faults >= _FAULTS or (isinstance(error, UsageError) and not isinstance(error, JoinRefused)):
                raise error
            if self._loop.time() - since >= self._give_up:
                raise ChannelClosedError(
                    f"nothing new came for {self._give_up:g} s by {', '.join(self._roads)}; the last failure: {error}"
                ) from error
            wait = BACKOFF[min(waits, len(BACKOFF) - 1)]
            waits += 1
            if isinstance(error, JoinRefused) and error.retry_after is not None:
                wait = max(wait, error.retry_after)
            await asyncio.sleep(wait)

    async def _once(self) -> Exception | None:
        """One connection; why another is needed, or None at the end."""
        self.seen.ended = ""
        try:
            road, self.link = await self._open()
            self.connections.append(road)
            by_url = isinstance(self.link, FetchesPictures)
            self.protocol.rejoin(self._loop.time(), by_url=by_url, resume=self._greeted)
            self._greeted = True
            await self._view()
        except (TransportError, RemoteProtocolError, UsageError) as error:
            return error
        finally:
            self._learn_seat()
        if self.seen.ended == "closed" and not self.seen.outcome:
            return ChannelClosedError("the server closed the connection without a goodbye")
        if self.seen.ended.startswith(WILL_BE_BACK):
            return ChannelClosedError(f"the server said goodbye: {self.seen.ended}")
        return None

    def _learn_seat(self) -> None:
        if self.protocol.seat:
            self.seat = seat_url(urljoin(self.url, self.protocol.seat), "whep")

    # ---- which road ----------------------------------------------------------------------------------------------

    async def _open(self) -> tuple[Road, Link]:
        """The first road that stands (F1)."""
        last = self.connections[-1] if self.connections else self._roads[0]
        waiting: list[Road] = [last, *(road for road in self._roads if road != last)]
        errors: list[Exception] = []
        attempts: dict[asyncio.Task[Link | Exception], Road] = {}
        stand: list[tuple[Road, Link]] = []
        patience = self._fallback_after
        if self.connections:
            patience = max(min(HEAD_START, patience), patience - self.protocol.quiet(self._loop.time()))
        try:
            async with asyncio.TaskGroup() as group:
                while not stand and (waiting or attempts):
                    if waiting:
                        road = waiting.pop(0)
                        attempts[group.create_task(self._attempt(road))] = road
                    done, _ = await asyncio.wait(
                        attempts, timeout=patience if waiting else None, return_when=asyncio.FIRST_COMPLETED
                    )
                    patience = self._fallback_after
                    for task in done:
                        road, made = attempts.pop(task), task.result()
                        if not isinstance(made, Exception):
                            stand.append((road, made))
                            continue
                        errors.append(made)
                        if isinstance(made, JoinRefused) and made.code in FINAL:
                            waiting.clear()
                for task in attempts:
                    task.cancel()
        except BaseException:
            await _drop([link for _, link in stand], attempts)
            raise
        await _drop([link for _, link in stand[1:]], attempts)
        if not stand:
            raise _telling(errors)
        return stand[0]

    async def _attempt(self, road: Road) -> Link | Exception:
        try:
            link, seat = await self._take[road](self.url, self.seat, self._token)
        except (TransportError, RemoteProtocolError, UsageError) as error:
            # UsageError: what a road needs is not installed; others may do without it.
            self._note(f"{road}: {error}")
            return error
        self.seat = self.seat or seat
        return link

    def _note(self, failure: str) -> None:
        """For logs too, so without the seat: who has its URL has the seat."""
        seat = self.seat.rsplit("/", 1)[-1]
        self.failures = [*self.failures[-99:], failure.replace(seat, "(seat)") if seat else failure]


async def _drop(spare: Sequence[Link], attempts: Iterable[asyncio.Task[Link | Exception]]) -> None:
    """Close what came to stand all the same; the attempts are over."""
    links = list(spare)
    for task in attempts:
        if not task.cancelled() and task.exception() is None and not isinstance(made := task.result(), Exception):
            links.append(made)
    for link in links:
        await link.aclose()


def _telling(errors: Sequence[Exception]) -> Exception:
    """Of several failures the one that says most: a refusal for good, any refusal, else the first road's."""

    def order(error: Exception) -> int:
        return 0 if isinstance(error, JoinRefused) and error.code in FINAL else 1 + (not isinstance(error, JoinRefused))

    return min(errors, key=order)


class _NoLink:
    """Before the first connection: nothing can be said."""

    async def opened(self) -> None:
        raise _no_link()

    def send_event(self, text: str) -> None:
        raise _no_link()

    def send_image(self, data: bytes) -> None:
        raise _no_link()

    def send_last(self, text: str) -> None:
        raise _no_link()

    @property
    def buffered_amount(self) -> int:
        return 0

    async def receive(self) -> Inbound:
        raise _no_link()

    def on_writable(self, callback: Callable[[], None]) -> None:
        return None

    async def aclose(self) -> None:
        return None


def _no_link() -> ChannelClosedError:
    return ChannelClosedError("there is no connection yet")
