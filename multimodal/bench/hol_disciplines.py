"""How pictures may be sent beside words: ours, none, and what others do or recommend."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from multimodal.transport.scheduler import SendScheduler

__all__ = ["DISCIPLINES", "Discipline"]


class _Free(SendScheduler):
    """As a data channel does by itself: all that there is goes into `send()` at once, in messages of 16 KiB."""

    def _step_bytes(self) -> int:
        return 16 * 1024

    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return True


class _BufferedAmountLow(SendScheduler):
    """Small parts, the next one when the browser would say `bufferedamountlow`, at its default threshold of 0."""

    def _step_bytes(self) -> int:
        return 4 * 1024

    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return buffered_amount == 0


class _Unacked(SendScheduler):
    """Parts of 8 KiB, at most 64 KiB that the viewer has not acknowledged; what is buffered does not matter."""

    def _step_bytes(self) -> int:
        return 8 * 1024

    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return self.unacked_bytes + size_bytes <= 64 * 1024


class _Fixed(_Unacked):
    """The same, and only while nothing is buffered."""

    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return buffered_amount == 0 and super()._part_may_leave(buffered_amount, size_bytes, now)


class Discipline(msgspec.Struct, frozen=True):
    """How pictures are sent; `connections` = 2: on a second one of their own, over the same network."""

    scheduler: type[SendScheduler]
    connections: int = 1
    pictures: bool = True


DISCIPLINES: Mapping[str, Discipline] = {
    "no pictures": Discipline(SendScheduler, pictures=False),
    "ours": Discipline(SendScheduler),
    "free send()": Discipline(_Free),
    "4 KB on bufferedamountlow": Discipline(_BufferedAmountLow),
    "64 KiB un-acked": Discipline(_Unacked),
    "64 KiB un-acked, nothing buffered": Discipline(_Fixed),
    "second connection, free": Discipline(_Free, connections=2),
    "second connection, ours": Discipline(SendScheduler, connections=2),
}
