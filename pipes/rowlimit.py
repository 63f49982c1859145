"""How many rows a batch may have, from measured step times: additive increase, multiplicative decrease. Pure.

L1. While the 95th percentile of the steps is below `CALM` of the target and the limit is what holds rows back, the
    limit grows by one.
L2. Above the target it falls by the share by which the steps were too long, to `CUT` of the rows at most and by one
    row at least; after a step up that failed, by that one row.
L3. A number of rows that was too many is tried again only after a pause, which doubles with each failure, or when
    steps have become faster since. So it settles instead of swinging.
L4. Rows above the limit, which were there before it fell and leave as they finish, say nothing about it.
L5. Where steps are so long that even one row alone misses the target, or two of its falls foretell that it will by far,
    fewer rows buy nothing and cost the throughput of those left out: the limit goes back to where its fall began, and
    stays for a while.

The classic rule (Chiu and Jain, 1989) is L1 and L2; it swings for ever, as it must where nobody knows what the others
do. Here one batch is alone with its target and may remember (L3).
"""

from __future__ import annotations

import math

from multimodal.errors import UsageError

__all__ = ["RowLimit"]

START_ROWS = 8
EVERY = 20
"""Steps to a judgement: the fewest of which a 95th percentile can be told."""
ALARM = 5
"""Steps above the target in a row after which judgement is not awaited."""
CALM = 0.9
"""Share of the target below which there is room for one row more: from ten rows on one adds a tenth at most."""
CUT = 0.75
"""Least share of the rows that one judgement leaves."""
FASTER = 0.8
"""Share of its earlier step time at which a batch is held to be another matter (L3)."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 64.0
"""Seconds before what was too many is tried again (L3)."""
BY_FAR = 1.25
"""Times the target that one row alone is foretold to take: with steps that vary by 2 % the forecast errs by a tenth."""


class RowLimit:
    """L1-L4.

    Args:
        max_rows: most rows ever.
        target: seconds a step may take.

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(self, max_rows: int, target: float) -> None:
        self.max_rows, self.target = 1, 0.0
        self.raised = self.lowered = 0
        """How often the limit went up and down."""
        self.limit = START_ROWS
        self._steps: list[float] = []
        self._most = self._late = 0
        self._tried: float | None = None
        self._bad = self._until = self._was = 0.0
        self._pause = FIRST_PAUSE
        self._fell: tuple[int, float] | None = None
        self._top = 1
        self._vain_until = -math.inf
        self.configure(max_rows, target)

    def configure(self, max_rows: int | None = None, target: float | None = None) -> None:
        """Other bounds, from now on; what was learnt under another target is forgotten.

        Raises:
            UsageError: a value out of its range; nothing is changed then.
        """
        if max_rows is not None and (isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1):
            raise UsageError(f"max_rows={max_rows!r} is no number of rows; give 1 or more")
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, (int, float)) or not 0 < target < math.inf
        ):
            raise UsageError(f"target_itl={target!r} is no time between tokens; give seconds above 0, such as 0.1")
        if target is not None and target != self.target:
            self.target = float(target)
            self._begin()
        if max_rows is not None:
            self.max_rows = max_rows
        self.limit = min(self.limit, self.max_rows)

    def measured(self, step_seconds: float, rows: int, now: float) -> None:
        """A step took so long; `now` in seconds, monotonic."""
        if rows > self.limit:
            self._forget()
            return
        self._steps.append(step_seconds)
        self._most = max(self._most, rows)
        self._late = self._late + 1 if step_seconds > self.target else 0
        if self._late < ALARM and len(self._steps) < EVERY:
            return
        # The second of twenty is the 95th percentile; of the few before an alarm the second is late, too.
        slow, most = sorted(self._steps)[-2], self._most
        self._forget()
        if slow > self.target:
            if now >= self._vain_until and not self._in_vain(most, slow, now):
                self._lower(most, slow, now)
        elif most >= self.limit:
            self._passed(slow, now)

    def _in_vain(self, rows: int, slow: float, now: float) -> bool:
        """L5: a step costs a fixed time and some for each row, which two points tell."""
        fell, self._fell = self._fell, (rows, slow)
        if fell is None:
            self._top = self.limit
        alone = slow if rows == 1 else 0.0
        if fell is not None and fell[0] > rows:
            each = max(0.0, (fell[1] - slow) / (fell[0] - rows))
            alone = max(alone, (slow - each * (rows - 1)) / BY_FAR)
        if alone <= self.target:
            return False
        self._fell, self._vain_until = None, now + LONGEST_PAUSE
        self._begin()
        self.limit = min(self._top, self.max_rows)
        self.raised += 1
        return True

    def _lower(self, rows: int, slow: float, now: float) -> None:
        if self._tried is not None and rows == self.limit:
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            self._was = self._tried
            limit = rows - 1
        else:
            self._pause, self._was = FIRST_PAUSE, self.target
            limit = min(rows - 1, math.floor(rows * max(CUT, self.target / slow)))
        self._bad, self._until, self._tried = rows, now + self._pause, None
        self.lowered += self.limit > max(1, limit)
        self.limit = max(1, limit)

    def _passed(self, slow: float, now: float) -> None:
        self._tried = self._fell = None
        self._vain_until = -math.inf
        if self.limit >= self._bad:
            self._bad, self._pause = math.inf, FIRST_PAUSE
        if slow > self.target * CALM or self.limit >= self.max_rows:
            return
        if self.limit + 1 >= self._bad and now < self._until and slow > FASTER * self._was:
            return
        self.limit += 1
        self.raised += 1
        self._tried = slow

    def _begin(self) -> None:
        self._bad, self._until, self._was = math.inf, -math.inf, self.target
        self._pause, self._tried = FIRST_PAUSE, None
        self._forget()

    def _forget(self) -> None:
        self._steps.clear()
        self._most = self._late = 0
