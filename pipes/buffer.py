"""How many tokens may wait between a producer and its consumer: the bandwidth-delay product, measured. Pure.

B1. `high` is `factor` times what the producer makes while the consumer is away; `low` is half of it. A producer that
    met `high` is held back until `low`.
B2. The consumer's absence is the one in which tokens wait: the mean of absences weighted by the waiting that each
    causes, its length squared. Of one absence of a second after each hundred of 10 ms it is a second, where the plain
    mean would be 20 ms.
B3. The producer's pace leaves out the time for which it was held back.
B4. Both are forgotten over `MEMORY` seconds, so that the marks follow a consumer that changes.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.sketch import Quantiles

__all__ = ["AdaptiveBuffer", "BufferStats"]

MEMORY = 30.0
FLOOR = 8.0
"""Tokens that wait for a consumer who is never away: as many as arrive together after a hiccup of the loop."""
START = 32.0
"""Tokens before anything was measured."""
PACE_SHARE = 0.1
"""What one gap counts in the producer's pace."""


class BufferStats(msgspec.Struct, frozen=True):
    """What waited, how long, and whom it cost time.

    Args:
        high, low: the marks now, tokens.
        level, peak: tokens that wait now, and the most that ever did.
        pace: seconds the producer takes for a token; nan = not measured.
        absence: seconds the consumer is away (B2); nan = not measured.
        underruns: times the consumer came, found nothing, and the producer had been held back since it last did.
        held_back: seconds for which the producer was.
        age_mean, age_p95: seconds that tokens had waited when they were taken; nan = none was.
    """

    high: int
    low: int
    level: int
    peak: int
    pace: float
    absence: float
    underruns: int
    held_back: float
    age_mean: float
    age_p95: float


class AdaptiveBuffer:
    """B1-B4. `now` is seconds of one clock throughout.

    Args:
        factor: what the marks are of the measured need; 1.2 to 1.8 is sensible, 1 has no reserve.
        most: tokens that `high` never exceeds.

    Raises:
        UsageError: a factor that is not above 0, or `most` below 2.
    """

    def __init__(self, factor: float = 1.5, *, most: int = 1024) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 2:
            raise UsageError(f"most={most!r} is no number of tokens; give 2 or more")
        self.most = most
        self.factor = 1.0
        self.level = self.peak = self.underruns = 0
        self.full = False
        """B1: do not make more now."""
        self.ages = Quantiles()
        self._waiting: deque[tuple[float, int]] = deque()
        self._pace = self._made = self._left = math.nan
        self._squares = self._cubes = self._forgotten = self._waited = 0.0
        self._came = False
        self._full_since = math.nan
        self._held_back = 0.0
        self._was_held = self._held_since_empty = False
        self.configure(factor)

    def configure(self, factor: float) -> None:
        """Another factor, at once.

        Raises:
            UsageError: it is not above 0.
        """
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < math.inf:
            raise UsageError(f"buffer_factor={factor!r} is no factor; give a number above 0, sensibly 1.2 to 1.8")
        self.factor = float(factor)
        self._set_marks()

    # ---- the producer's side

    def put(self, tokens: int, now: float, *, held: bool = False) -> None:
        """So many tokens were made; `held` = the producer had been kept waiting, by whatever else (B3)."""
        if not (held or self._was_held or math.isnan(self._made)) and now > self._made:
            gap = (now - self._made) / tokens
            self._pace = gap if math.isnan(self._pace) else self._pace + PACE_SHARE * (gap - self._pace)
        self._made, self._was_held = now, False
        self._waiting.append((now, tokens))
        self.level += tokens
        self.peak = max(self.peak, self.level)
        self._look(now)

    # ---- the consumer's side

    def ask(self, now: float) -> None:
        """The consumer came for tokens, whether or not there are any."""
        if not math.isnan(self._left):
            self._absent(now - self._left, now)
            self._left = math.nan
        if not self.level:
            self.underruns += self._held_since_empty
            self._held_since_empty = False

    def take(self, tokens: int, now: float) -> None:
        """It has so many, and is away until it asks again.

        Raises:
            UsageError: more than there are.
        """
        if tokens > self.level:
            raise UsageError(f"take({tokens}) is more than the {self.level} tokens that wait")
        self.level -= tokens
        while tokens:
            made, count = self._waiting[0]
            taken = min(count, tokens)
            self.ages.add(max(0.0, now - made), taken)
            self._waited += max(0.0, now - made) * taken
            tokens -= taken
            if taken == count:
                self._waiting.popleft()
            else:
                self._waiting[0] = made, count - taken
        self._left = now
        self._look(now)

    def stats(self) -> BufferStats:
        """The marks and the counts."""
        return BufferStats(
            high=self.high,
            low=self.low,
            level=self.level,
            peak=self.peak,
            pace=self._pace,
            absence=self.absence,
            underruns=self.underruns,
            held_back=self._held_back,
            age_mean=self._waited / self.ages.count if self.ages.count else math.nan,
            age_p95=self.ages.at(0.95)[0],
        )

    @property
    def absence(self) -> float:
        """Seconds the consumer is away (B2); nan = it has not come back yet."""
        if not self._squares:
            return 0.0 if self._came else math.nan
        return self._cubes / self._squares

    def _absent(self, seconds: float, now: float) -> None:
        kept = math.exp((self._forgotten - now) / MEMORY) if self._squares else 0.0
        self._forgotten, self._came = now, True
        self._squares = self._squares * kept + max(0.0, seconds) ** 2
        self._cubes = self._cubes * kept + max(0.0, seconds) ** 3
        self._set_marks()

    def _set_marks(self) -> None:
        need = START if math.isnan(self.absence + self._pace) else max(FLOOR, self.absence / self._pace)
        self.high = min(self.most, max(2, round(self.factor * need)))
        self.low = self.high // 2

    def _look(self, now: float) -> None:
        if not self.full and self.level >= self.high:
            self.full, self._full_since = True, now
        elif self.full and self.level <= self.low:
            self.full = False
            self._held_back += now - self._full_since
            self._was_held = self._held_since_empty = True
