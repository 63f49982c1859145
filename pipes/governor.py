"""A budget of CPU time for generation: after each step, how long to rest before the next. Pure.

G1. The budget is CPU-seconds per minute of wall time, everywhere: 15 is a quarter of one core, 120 are two cores. It
    is never watts: few machines measure them, and none attributes them to a process. Where they are measured
    (`multimodal.pipes.rapl`) they are reported beside the budget; elsewhere they are None, "not measured".
G2. While there is work, CPU time over `SPAN` seconds keeps within 10 % of the budget, or one step where that is more.
G3. A rest is no longer than `LONGEST`, unless ordinary steps call for it: a long prefill is paid for by many longer
    rests, not by one silence.
G4. What was not used is not saved up, but for `CREDIT` seconds' worth, which makes good for sleeping too long.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from multimodal.errors import UsageError

__all__ = ["Governor", "GovernorStats"]

SPAN = 10.0
LONGEST = 0.5
"""Seconds after which a viewer takes a pause for a fault rather than for thinking."""
CREDIT = 0.25
REPAY = 1.25
"""What a rest may be of an ordinary step's due where that alone is above `LONGEST`: debts must shrink even then."""
ORDINARY = 9
"""Steps whose median is ordinary: four prefills among them change nothing."""
_SLOT = 0.1


class GovernorStats(msgspec.Struct, frozen=True):
    """How the budget was kept.

    Args:
        max_budget: CPU-seconds per minute that are allowed.
        used: CPU-seconds per minute over the last `SPAN` seconds; nan = not measured for a second yet.
        debt: CPU-seconds by which the budget is overdrawn now.
        waits, waited, longest_wait: rests that were asked for: how many, seconds in all, and the longest.
        watts: what the machine's packages draw; None = not measured.
    """

    max_budget: float
    used: float
    debt: float
    waits: int
    waited: float
    longest_wait: float
    watts: float | None


class Governor:
    """G1-G4.

    Args:
        max_budget: CPU-seconds per minute of wall time.

    Raises:
        UsageError: it is not above 0.
    """

    def __init__(self, max_budget: float) -> None:
        self.watts: float | None = None
        """Set by whoever measures them (G1)."""
        self._debt = 0.0
        self._steps: deque[float] = deque([0.0], ORDINARY)
        self._cpu = self._now = math.nan
        self._waits = 0
        self._waited = self._longest = 0.0
        self._past: deque[tuple[float, float]] = deque()
        self._used = 0.0
        self.configure(max_budget)

    def configure(self, max_budget: float) -> None:
        """Another budget from now on; debts are forgotten, as they were made under another one.

        Raises:
            UsageError: it is not above 0.
        """
        if isinstance(max_budget, bool) or not isinstance(max_budget, (int, float)) or not 0 < max_budget < math.inf:
            raise UsageError(
                f"max_budget={max_budget!r} is no budget; give CPU-seconds a minute above 0: 15 is a quarter of a core"
            )
        self.max_budget = float(max_budget)
        self._debt = 0.0

    def pace(self, cpu_seconds_used: float, now: float) -> float:
        """How many seconds to rest before the next step.

        Args:
            cpu_seconds_used: reading of the CPU clock of what is governed, ever rising (`time.process_time`, or an
                engine's `stats().cpu`). One that fell back, as of a new engine, begins anew.
            now: seconds, monotonic.
        """
        if not (cpu_seconds_used >= self._cpu and now >= self._now):
            self._cpu, self._now = cpu_seconds_used, now
            self._past.clear()
            self._remember(now)
            return 0.0
        used, passed = cpu_seconds_used - self._cpu, now - self._now
        self._cpu, self._now = cpu_seconds_used, now
        self._used += used
        self._steps.append(used)
        self._remember(now)
        rate = self.max_budget / 60
        self._debt = max(self._debt + used - rate * passed, -rate * CREDIT)
        if self._debt <= 0:
            return 0.0
        wait = min(self._debt / rate, max(LONGEST, REPAY * sorted(self._steps)[(len(self._steps) - 1) // 2] / rate))
        self._waits += 1
        self._waited += wait
        self._longest = max(self._longest, wait)
        return wait

    def stats(self) -> GovernorStats:
        """How the budget was kept so far."""
        (first, before), (last, after) = (self._past[0], self._past[-1]) if self._past else ((0.0, 0.0), (0.0, 0.0))
        return GovernorStats(
            max_budget=self.max_budget,
            used=60 * (after - before) / (last - first) if last - first >= 1 else math.nan,
            debt=max(0.0, self._debt),
            waits=self._waits,
            waited=self._waited,
            longest_wait=self._longest,
            watts=self.watts,
        )

    def _remember(self, now: float) -> None:
        # The first reading of each slot stays, the last is replaced: at most 100 for any number of steps.
        if len(self._past) > 1 and now - self._past[-2][0] < _SLOT:
            self._past.pop()
        self._past.append((now, self._used))
        while len(self._past) > 2 and self._past[1][0] <= now - SPAN:
            self._past.popleft()
