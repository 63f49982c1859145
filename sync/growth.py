"""Whether skew grows: the slope of a least-squares line, held against its own noise. Pure.

For pairs (t, skew) the slope is b = Sxy / Sxx and its standard error s / sqrt(Sxx), where s^2 is the sum of squared
residuals over n - 2 (N. Draper, H. Smith, Applied Regression Analysis, chapter 1). If the true slope is 0 and the
residuals are independent and normal, b over its standard error follows Student's t with n - 2 degrees of freedom, so a
slope counts as growth where that ratio leaves the central `confidence` of that distribution. Its quantile is the
Cornish-Fisher expansion of Abramowitz and Stegun, 26.7.5, within 1 % from 6 degrees of freedom on.

Skews of frames that were painted late one after the other are not independent: the noise is then underrated, and a
longer tour judges better than a lower `confidence`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist, linear_regression

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.drift import Pair, pairs, words_at
from multimodal.sync.faults import Cause, Fault, tokens
from multimodal.sync.log import SyncLog
from multimodal.sync.report import VANTAGES, Vantage

__all__ = ["Growth", "growth_faults", "growth_of"]

LEAST = 8
"""Pairs below which the noise of a slope is itself not known well enough."""
QUANTUM_MS = 0.001 / math.sqrt(12)
"""The noise that rounding alone gives: times in a log are multiples of 0.001 ms (uniform error, variance q^2 / 12)."""

BLAMED: dict[Vantage, Cause] = {"emitted": "queue", "arrived": "network", "painted": "client"}


class Growth(msgspec.Struct, frozen=True):
    """A line through skews.

    Args:
        slope: ms of skew per ms of tour.
        error: the slope's standard error.
        bound: the largest slope, either way, that noise explains.
        count: pairs that it is drawn through.
    """

    slope: float
    error: float
    bound: float
    count: int

    @property
    def grows(self) -> bool:
        """Noise does not explain the slope."""
        return abs(self.slope) > self.bound


def growth_of(times_ms: Sequence[float], skews_ms: Sequence[float], confidence: float = 0.999) -> Growth:
    """The line through (time, skew), and what noise explains of it.

    Args:
        times_ms: when the words came.
        skews_ms: how much later their picture came.
        confidence: 1 - the share of tours without growth that are called growing.

    Raises:
        UsageError: fewer than `LEAST` pairs, all at one time, or a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise UsageError(f"confidence={confidence} must lie between 0 and 1, such as 0.999")
    count = len(times_ms)
    if count < LEAST or len(set(times_ms)) < 2:
        raise UsageError(
            f"a trend cannot be judged by {count} reveals at {len(set(times_ms))} times;"
            f" play a longer tour, with at least {LEAST} reveals behind words"
        )
    line = linear_regression(times_ms, skews_ms)
    mean = math.fsum(times_ms) / count
    spread = math.fsum((at - mean) ** 2 for at in times_ms)
    residuals = (skew - line.intercept - line.slope * at for at, skew in zip(times_ms, skews_ms, strict=True))
    noise = max(math.sqrt(math.fsum(gap**2 for gap in residuals) / (count - 2)), QUANTUM_MS)
    error = noise / math.sqrt(spread)
    return Growth(line.slope, error, _student(0.5 + confidence / 2, count - 2) * error, count)


def growth_faults(log: SyncLog, confidence: float) -> Iterator[Fault]:
    """One fault per vantage point whose skew grows; a hold's length, asked for, is no skew here.

    Raises:
        UsageError: too few reveals to judge.
    """
    measured = [pair for pair in pairs(log) if pair.skew_ms and pair.apart != "held"]
    for vantage in VANTAGES:
        those = [pair for pair in measured if vantage in pair.skew_ms]
        if not those and vantage != "emitted":
            continue
        times_ms = [words_at(log, pair, vantage) for pair in those]
        growth = growth_of(times_ms, [pair.skew_ms[vantage] for pair in those], confidence)
        if growth.grows:
            yield _fault(those[-1], vantage, growth, max(times_ms) - min(times_ms))


def _fault(last: Pair, vantage: Vantage, growth: Growth, length_ms: float) -> Fault:
    grown = growth.slope * length_ms
    verdict = (
        f"skew grows, as {vantage}: {grown:+.0f} ms over {tokens(last.reveal.mark)} and {length_ms:.0f} ms,"
        f" {growth.slope * 60_000:+.1f} ms per minute (noise explains {growth.bound * 60_000:.1f})"
    )
    why = f"a line through {growth.count} reveals, standard error {growth.error * 60_000:.1f} ms per minute"
    return Fault(
        verdict, BLAMED[vantage], why, last.reveal.anchor, f"cue {last.reveal.cue}, seq {last.reveal.seq}, the last one"
    )


def _student(share: float, freedom: int) -> float:
    """The quantile of Student's t."""
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4
