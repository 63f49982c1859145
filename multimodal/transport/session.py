"""One viewer on one stream of its own, from hello to the end of the link: a live session that nobody comes back to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multimodal.errors import PipeError
from multimodal.transport.base import Link, Source
from multimodal.transport.connection import DRAIN_LIMIT, HELLO_LIMIT, LINGER, MALFORMED_LIMIT, Limits
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.scheduler import SendScheduler

__all__ = ["DRAIN_LIMIT", "HELLO_LIMIT", "LINGER", "MALFORMED_LIMIT", "Limits", "ViewerSession"]


class ViewerSession:
    """One viewer on one stream, from hello to the end.

    Args:
        stream: entered once the viewer said hello, closed at the end; nobody else may iterate it.
        link: the server's end of the road; closed at the end.
        limits: named waits and bounds.
        on_record: called with every line of a recording (`multimodal.sync.log`): emitted events, what arrived (by the
            viewer's acks), what was painted (by its receipts, on its clock), which pictures are ready, and the pings.
        scheduler: decides what leaves next; None = the usual one.
    """

    def __init__(
        self,
        stream: Source,
        link: Link,
        *,
        limits: Limits | None = None,
        on_record: Callable[[dict[str, Any]], None] | None = None,
        scheduler: SendScheduler | None = None,
    ) -> None:
        self.stream, self.link = stream, link
        self._live = LiveSession(stream, limits=limits, keep=0.0)
        self._connection = self._live.connect(self._live.sit(Seat(record=on_record)), link)
        if scheduler is not None:
            self._connection.scheduler = scheduler

    async def run(self) -> str:
        """Serve the viewer; returns why the session ended. Cancelling closes stream and link.

        Nothing that the viewer or the road does raises; a failed pipe is in `failure`, and its event has been sent.
        """
        await self._live.run()
        return self.reason

    def farewell(self, reason: str) -> None:
        """Tell the viewer, in this very call, that the session is about to be cancelled; it may not be heard."""
        self._live.farewell(reason)

    @property
    def reason(self) -> str:
        """Why it ended."""
        return self._connection.reason or self._live.reason

    @property
    def failure(self) -> PipeError | None:
        """The pipe's failure that ended the stream."""
        return self._live.failure

    @property
    def scheduler(self) -> SendScheduler:
        """What leaves next."""
        return self._connection.scheduler

    @property
    def malformed(self) -> int:
        """Messages that could not be read."""
        return self._connection.malformed

    @property
    def ignored(self) -> int:
        """Messages that this version does not know."""
        return self._connection.ignored

    @property
    def pictures_kept(self) -> int:
        """Pictures that the viewer held already, so that no byte of them was sent."""
        return self._connection.pictures_kept
