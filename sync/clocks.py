"""The viewer's clock beside the server's, out of pings. Pure; every figure carries how far it may be off.

A ping leaves at `sent_ms`, is answered at `viewer_ms` on the viewer's clock, and the answer is heard at `heard_ms`. The
answer was given somewhere between the two, so the offset of the viewer's clock is `viewer_ms - (sent_ms + heard_ms)/2`,
and it cannot be off by more than half the round trip, however unlike the two ways are. Of the pings within `WINDOW_MS`
of a moment the one with the least doubt counts: half its round trip, plus an allowance for every ms between ping and
moment, because no two clocks run at the same rate.

The rate is measured where that is possible: between the best pings of either half of the window. Its error is at most
the sum of both half round trips over their distance; if that is above `RATE_LIMIT`, the rate is taken as 0 and
`RATE_LIMIT` is the allowance. Pings that contradict the one nearest to the moment (a clock was set, or slept) are left
out. A recording without pings is aligned so that its fastest event took no time; such times carry no uncertainty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

__all__ = ["RATE_LIMIT", "WINDOW_MS", "ClockSample", "Instant", "Offset", "TimeBase", "ViewerClock"]

WINDOW_MS = 30_000.0
"""Pings further from a moment than this say nothing about it: thirty of them, one a second, are enough."""
RATE_LIMIT = 500e-6
"""How far the rates of two clocks are taken to differ while it is not measured: RFC 5905's limit, MAXFREQ."""


class ClockSample(msgspec.Struct, frozen=True, tag_field="vantage", tag="clock"):
    """One ping of the server and its answer.

    Args:
        sent_ms: when the ping left, on the server's clock, in milliseconds of the stream (`pts_ms`).
        viewer_ms: when the viewer answered, on the viewer's clock.
        heard_ms: when the answer came, on the server's clock.
    """

    sent_ms: float
    viewer_ms: float
    heard_ms: float

    @property
    def doubt_ms(self) -> float:
        """Half the round trip: what the offset may be off at the moment of the ping."""
        return (self.heard_ms - self.sent_ms) / 2

    @property
    def offset_ms(self) -> float:
        """The viewer's clock minus the server's."""
        return self.viewer_ms - (self.sent_ms + self.heard_ms) / 2


class Offset(msgspec.Struct, frozen=True):
    """What is known of the viewer's clock at one moment.

    Args:
        offset_ms: the viewer's clock minus the server's.
        uncertainty_ms: how far that may be off.
        rate_ppm: how much faster the viewer's clock runs, in millionths; None = not measured.
    """

    offset_ms: float
    uncertainty_ms: float
    rate_ppm: float | None = None


class Instant(msgspec.Struct, frozen=True):
    """A moment on the stream's time base (`pts_ms`), and how far it may be off; None = not known."""

    ms: float
    uncertainty_ms: float | None


class ViewerClock:
    """The viewer's clock, ping by ping.

    Args:
        samples: pings in the order of their answers.
        keep: how many are kept, the newest; None = all. A live stream keeps few, a recording has them all.
    """

    def __init__(self, samples: Iterable[ClockSample] = (), keep: int | None = None) -> None:
        self._keep = keep
        self._samples: list[ClockSample] = []
        self._at: list[float] = []
        for sample in samples:
            self.add(sample)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: ClockSample) -> None:
        """One more ping; an answer that came before its ping, or out of order, is ignored."""
        if sample.doubt_ms < 0 or (self._at and sample.viewer_ms < self._at[-1]):
            return
        self._samples.append(sample)
        self._at.append(sample.viewer_ms)
        if self._keep is not None and len(self._samples) > self._keep:
            del self._samples[0], self._at[0]

    def at(self, viewer_ms: float) -> Offset:
        """The offset at a moment of the viewer's clock.

        Raises:
            ValueError: no ping was answered.
        """
        if not self._samples:
            raise ValueError("no ping was answered, so the offset of the clock is not known")
        near = self._near(viewer_ms)
        rate, allowance = _rate(near)

        def doubt(sample: ClockSample) -> float:
            return sample.doubt_ms + allowance * abs(viewer_ms - sample.viewer_ms)

        best = min(near, key=doubt)
        offset = best.offset_ms + (rate or 0.0) * (viewer_ms - best.viewer_ms)
        return Offset(round(offset, 3), round(doubt(best), 3), None if rate is None else round(rate * 1e6, 1))

    def _near(self, viewer_ms: float) -> list[ClockSample]:
        """The pings that speak for a moment: those around it that do not contradict the nearest one."""
        place = bisect_left(self._at, viewer_ms)
        around = [at for at in (place - 1, place) if 0 <= at < len(self._at)]
        nearest = self._samples[min(around, key=lambda at: abs(self._at[at] - viewer_ms))]
        first = bisect_left(self._at, viewer_ms - WINDOW_MS)
        window = self._samples[first : bisect_right(self._at, viewer_ms + WINDOW_MS)] or [nearest]

        def agrees(sample: ClockSample) -> bool:
            away = RATE_LIMIT * abs(sample.viewer_ms - nearest.viewer_ms)
            return abs(sample.offset_ms - nearest.offset_ms) <= sample.doubt_ms + nearest.doubt_ms + away

        return [sample for sample in window if agrees(sample)]


def _rate(samples: Sequence[ClockSample]) -> tuple[float | None, float]:
    """How much faster the viewer's clock runs, and how far that may be off, both in ms per ms."""
    half = len(samples) // 2
    if not half:
        return None, RATE_LIMIT
    early = min(samples[:half], key=lambda sample: sample.doubt_ms)
    late = min(samples[half:], key=lambda sample: sample.doubt_ms)
    apart = late.viewer_ms - early.viewer_ms
    error = (early.doubt_ms + late.doubt_ms) / apart if apart > 0 else RATE_LIMIT
    if error >= RATE_LIMIT:
        return None, RATE_LIMIT
    return (late.offset_ms - early.offset_ms) / apart, error


class TimeBase:
    """Puts times of the viewer's clock on the stream's own base, `pts_ms`.

    Args:
        samples: the pings of a recording.
        arrivals: (`pts_ms`, arrival on the viewer's clock) of its events; they align the clocks where no ping does.
    """

    def __init__(self, samples: Iterable[ClockSample] = (), arrivals: Iterable[tuple[float, float]] = ()) -> None:
        self._clock = ViewerClock(samples)
        self._assumed = min((arrived - pts for pts, arrived in arrivals), default=None)

    @property
    def measured(self) -> bool:
        """True = there are pings; False = the fastest event is taken to have needed no time."""
        return len(self._clock) > 0

    def at(self, viewer_ms: float) -> Instant | None:
        """A moment of the viewer's clock; None where neither pings nor arrivals are known."""
        if self.measured:
            offset = self._clock.at(viewer_ms)
            return Instant(round(viewer_ms - offset.offset_ms, 3), offset.uncertainty_ms)
        if self._assumed is None:
            return None
        return Instant(round(viewer_ms - self._assumed, 3), None)

    def offset(self, viewer_ms: float) -> Offset | None:
        """What the pings say of the clock at a moment; None without pings."""
        return self._clock.at(viewer_ms) if self.measured else None
