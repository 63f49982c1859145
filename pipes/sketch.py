"""Quantiles and spread of a stream of numbers that never ends, in bounded memory. Pure."""

from __future__ import annotations

import math

__all__ = ["Quantiles", "Spread"]

ERROR = 0.01
"""Relative error of a quantile, whatever the distribution and however long the stream."""
SMALLEST = 1e-6
"""Everything below a microsecond is one bucket: no clock of ours tells such times apart."""

_GROWTH = math.log((1 + ERROR) / (1 - ERROR))
_MOST = math.ceil(math.log(1e6 / SMALLEST) / _GROWTH)


class Quantiles:
    """DDSketch (Masson, Rim and Lee, VLDB 2019): counts in buckets that grow by 2 %, so that each quantile is within
    1 % of the true one. P-square keeps less, but its error has no bound; a sample of fixed size is worst at the tail,
    where p99 is. Times from 1 us to 11 days take 1,400 buckets at most.
    """

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, int] = {}

    def add(self, value: float, times: int = 1) -> None:
        """One more number, 0 or above."""
        place = 0 if value <= SMALLEST else min(_MOST, math.ceil(math.log(value / SMALLEST) / _GROWTH))
        self._buckets[place] = self._buckets.get(place, 0) + times
        self.count += times

    def merge(self, other: Quantiles) -> None:
        """Add everything that another one saw; no error is added."""
        for place, times in other._buckets.items():
            self._buckets[place] = self._buckets.get(place, 0) + times
        self.count += other.count

    def at(self, *shares: float) -> list[float]:
        """The numbers below which these rising shares of all lie, such as 0.5, 0.95; nan without any number."""
        # A copy, as another thread may add meanwhile.
        buckets = sorted(self._buckets.copy().items())
        count = sum(times for _, times in buckets)
        if not count:
            return [math.nan] * len(shares)
        found: list[float] = []
        seen, places = 0, iter(buckets)
        place, times = next(places)
        for share in shares:
            rank = min(count - 1, math.floor(share * count))
            while seen + times <= rank:
                seen += times
                place, times = next(places)
            # The middle of the bucket, by ratio: equally far from both of its ends.
            found.append(0.0 if place == 0 else SMALLEST * math.exp((place - 1) * _GROWTH) * (1 + ERROR))
        return found


class Spread:
    """Mean and standard deviation by Welford's method (1962), which loses no digits on long streams."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.most = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """One more number."""
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)
        self.most = max(self.most, value)

    @property
    def stddev(self) -> float:
        """Of the numbers themselves, not of a sample; 0 for one, nan for none."""
        return math.sqrt(max(0.0, self._squares) / self.count) if self.count else math.nan
