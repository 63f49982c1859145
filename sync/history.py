"""The bounded memory of a stream: what was emitted, and so what a viewer had really seen when it interrupted. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from multimodal.errors import UsageError
from multimodal.events import AnyEvent, Reveal, Text

__all__ = ["Heard", "History"]

HISTORY_EVENTS = 20_000
"""Events kept: half an hour of narration at ten tokens a second, in a few megabytes."""


class Heard(msgspec.Struct, frozen=True):
    """What a viewer had seen of the turn that was interrupted.

    Args:
        epoch: the interrupted epoch.
        text: the words painted; without a viewer's receipts, the words emitted.
        pictures: keys of the pictures revealed among them, in order.
        tokens: how many tokens that was.
        seq: the last event counted (-1 = none).
        complete: False = the turn is older than what is kept, and its beginning is missing.
    """

    epoch: int
    text: str
    pictures: tuple[str, ...]
    tokens: int
    seq: int
    complete: bool = True


class History:
    """The last events of a stream.

    Args:
        limit: events kept; older ones are forgotten, and counted.

    Raises:
        UsageError: a limit below 1.
    """

    def __init__(self, limit: int = HISTORY_EVENTS) -> None:
        if limit < 1:
            raise UsageError(f"a history of {limit} events keeps nothing; give 1 or more")
        self._events: deque[AnyEvent] = deque(maxlen=limit)
        self.forgotten = 0

    def append(self, events: Iterable[AnyEvent]) -> None:
        """What was emitted, in order."""
        kept = self._events
        for event in events:
            if len(kept) == kept.maxlen:
                self.forgotten += 1
            kept.append(event)

    def heard(self, epoch: int, seq: int | None = None) -> Heard:
        """What was seen of an epoch.

        Args:
            epoch: which.
            seq: the last event that the viewer painted; None = all that was emitted counts as seen.
        """
        turn = [event for event in self._events if event.epoch == epoch and (seq is None or event.seq <= seq)]
        texts = [event for event in turn if isinstance(event, Text)]
        first = self._events[0] if self._events else None
        return Heard(
            epoch,
            "".join(event.text for event in texts),
            tuple(event.key for event in turn if isinstance(event, Reveal)),
            sum(event.token_count for event in texts),
            turn[-1].seq if turn else -1,
            complete=not self.forgotten or (first is not None and first.epoch < epoch),
        )
