"""Rehearse slow pictures: an aligner for which a picture is ready only some time after its first mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from multimodal.errors import UsageError
from multimodal.sync.aligner import Aligner

__all__ = ["SlowPictureAligner"]


class SlowPictureAligner(Aligner):
    """An `Aligner` whose pictures become ready `delay` s after the mark of their first cue, at the earliest.

    The bytes travel as ever and a preroll sees them arrive, so a run with and one without the delay start alike and
    differ only in what late pictures do to them.

    Args:
        delay: seconds after the mark's emission, above 0.
        sync_interval, settings: as for `Aligner`.

    Raises:
        UsageError: a delay that is not above 0.
    """

    def __init__(self, delay: float, sync_interval: int = 3, **settings: Any) -> None:
        super().__init__(sync_interval, **settings)
        if not delay > 0:
            raise UsageError(f"slow_images={delay} must be above 0 seconds")
        self._delay = delay
        self._release_at: dict[str, float] = {}
        self._released: set[str] = set()

    def unready(self, keys: Iterable[str]) -> list[str]:
        """As for `Aligner`, blind to the delay."""
        arrived = super()._ready
        return [key for key in keys if not arrived(key) and key not in self._failed]

    def next_timer(self) -> float | None:
        """As for `Aligner`, or the time of the next release."""
        timers = [*self._release_at.values()]
        own = super().next_timer()
        if own is not None:
            timers.append(own)
        return min(timers) if timers and not self.ended else None

    def handle_timer(self, now: float) -> None:
        """Release what is due, then as for `Aligner`: at one `now`, a picture goes before a deadline."""
        due = [key for key, at in self._release_at.items() if at <= now]
        self._enter(now)
        for key in due:
            del self._release_at[key]
            self._released.add(key)
        self._reconsider(due)
        super().handle_timer(now)

    def _ready(self, key: str) -> bool:
        return key in self._released and super()._ready(key)

    def _open_mark(self) -> None:
        for item in self._waiting:
            key = item.cue.key
            if item.anchor <= self._tokens_out and key not in self._released and key not in self._release_at:
                self._release_at[key] = self._now + self._delay
        super()._open_mark()
