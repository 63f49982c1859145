"""How many in how much time: a token bucket without a clock. Pure.

A bucket is one number, the instant at which it will be full again (the generic cell rate algorithm of ITU-T I.371,
where it is called TAT): nothing has to be filled up as time passes, and one whose instant is past remembers nothing.
"""

from __future__ import annotations

import math

from multimodal.errors import UsageError

__all__ = ["Bucket", "Rate"]


class Rate:
    """So many a second in the long run, and so many at once.

    Args:
        per_second: refilled so fast; infinite = no limit.
        burst: the most that may be taken at once.

    Raises:
        UsageError: a rate that is not above 0, or a burst that is no whole number of 1 or more.
    """

    __slots__ = ("burst", "interval", "per_second")

    def __init__(self, per_second: float, burst: int) -> None:
        if isinstance(per_second, bool) or not isinstance(per_second, int | float) or not per_second > 0:
            raise UsageError(f"a rate of {per_second!r} a second must be a number above 0 (math.inf = no limit)")
        if isinstance(burst, bool) or not isinstance(burst, int) or burst < 1:
            raise UsageError(f"a burst of {burst!r} must be a whole number, 1 or more")
        self.per_second, self.burst = per_second, burst
        self.interval = 0.0 if per_second == math.inf else 1.0 / per_second

    def take(self, full_at: float, now: float) -> tuple[float, float]:
        """Take one out of a bucket that is full at `full_at`.

        Returns:
            When it is full now, and the seconds after which one could have been taken: 0 = it was taken.
        """
        after = max(full_at, now) + self.interval
        wait = after - now - self.burst * self.interval
        # Each of the sums that led here may be off by a unit of the last place: 0.2 us on a clock that began in 1970.
        return (full_at, wait) if wait > math.ulp(after) * (self.burst + 1) + 1e-9 else (after, 0.0)


class Bucket:
    """One bucket, full at first.

    Args:
        rate: how it fills, and how much it holds.
    """

    __slots__ = ("_full_at", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._full_at = -math.inf

    def take(self, now: float) -> float:
        """Take one: 0 = taken; else the seconds after which there is one, and nothing was taken."""
        self._full_at, wait = self.rate.take(self._full_at, now)
        return wait
