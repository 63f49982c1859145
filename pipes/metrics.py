"""What one stream cost and how it felt: time to the first text by its parts, gaps, rates, lanes, memory. Pure.

M1. The parts of the time to the first text add up to it: each gate that was passed ends one part and begins the next,
    and a gate of which nobody told leaves its part 0 and its time to the next one.
M2. The first text is the first that is not empty, at the consumer, and a gap lies between two deliveries of such text:
    tokens that arrive together are one delivery.
M3. Memory is bounded, however long the stream (`sketch`: quantiles within 1 %).
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from multimodal.pipes.generation import RequestTimes
from multimodal.pipes.sketch import Quantiles, Spread

__all__ = ["MetricsSnapshot", "StreamMetrics", "TtftParts"]

SLOT = 0.1
"""Seconds over which the busy share of an engine is taken: shorter than what a viewer sees as a stall."""

PAUSE = 10.0
"""Seconds without a step after which a stream is held to be paused; a pause says nothing about how even the load is."""


class TtftParts(msgspec.Struct, frozen=True):
    """Where the time to the first text went (M1), seconds.

    Args:
        queue: from the request to its place in the batch.
        prefill: reading the prompt.
        first_step: until the first token was made.
        hold_back: until there was text that might be shown: a character in pieces, a stop sequence, a chunk.
        send: until the consumer had it.
    """

    queue: float = 0.0
    prefill: float = 0.0
    first_step: float = 0.0
    hold_back: float = 0.0
    send: float = 0.0


class MetricsSnapshot(msgspec.Struct, frozen=True):
    """A stream's figures at one instant; nan = there is none yet.

    Args:
        ttft: seconds from the request to the first text at the consumer.
        ttft_parts: the same by parts.
        itl_p50, itl_p95, itl_p99, gap_max: seconds between deliveries (M2), each percentile within 1 %.
        gap_stddev: standard deviation of the same, exact.
        tokens: tokens that the consumer has.
        tokens_per_s: the rate since the first delivery.
        deliveries: how often text arrived.
        steps: steps of the engine that made a token of this stream.
        batch_mean, batch_max: rows in those steps.
        busy_mean, busy_stddev: share of each `SLOT` in which a step ran.
        lanes: tokens by lane.
        pool_high_bytes, pool_low_bytes: most and least bytes seen in the pool.
    """

    ttft: float
    ttft_parts: TtftParts
    itl_p50: float
    itl_p95: float
    itl_p99: float
    gap_max: float
    gap_stddev: float
    tokens: int
    tokens_per_s: float
    deliveries: int
    steps: int
    batch_mean: float
    batch_max: int
    busy_mean: float
    busy_stddev: float
    lanes: dict[str, int]
    pool_high_bytes: int
    pool_low_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: times rounded to microseconds, None for nan."""
        return {name: _plain(value) for name, value in msgspec.structs.asdict(self).items()}


class StreamMetrics:
    """M1-M3. Fed by whoever sees a gate passed; `now` is seconds of one clock throughout.

    Args:
        times: where the engine writes the gates before the first token; None = the calls below say them.
    """

    def __init__(self, times: RequestTimes | None = None) -> None:
        self.times = RequestTimes() if times is None else times
        self.gaps = Quantiles()
        """Of the gaps, to `merge` with those of other streams."""
        self._gaps = Spread()
        self._rows = Spread()
        self._busy = Spread()
        self._slot = -1
        self._slot_busy = 0.0
        self._first_step = self._first_shown = self._first_sent = self._last_sent = math.nan
        self._tokens = self._tokens_first = 0
        self._lanes = {"main": 0, "low": 0}
        self._high = 0
        self._low: int | None = None

    def submitted(self, now: float) -> None:
        """The request was made. Kept where the engine wrote nothing earlier."""
        if not self.times.submitted <= now:
            self.times.submitted = now

    def step(self, now: float, rows: int = 1, seconds: float = 0.0) -> None:
        """The engine made a token of this stream.

        Args:
            now: when the step ended.
            rows: in its batch.
            seconds: how long it took; 0 = not known.
        """
        if math.isnan(self._first_step):
            self._first_step = now
        self._rows.add(rows)
        if seconds > 0:
            self._ran(now - seconds, now)

    def shown(self, now: float, tokens: int = 1, lane: str = "main", *, text: bool = True) -> None:
        """Tokens left the text layer, `text` = with something to read."""
        if text and math.isnan(self._first_shown):
            self._first_shown = now
        self._lanes[lane] = self._lanes.get(lane, 0) + tokens

    def sent(self, now: float, tokens: int = 1, *, text: bool = True) -> None:
        """The consumer has them."""
        self._tokens += tokens
        if not text:
            return
        if math.isnan(self._first_sent):
            self._first_sent, self._tokens_first = now, self._tokens
        else:
            gap = max(0.0, now - self._last_sent)
            self.gaps.add(gap)
            self._gaps.add(gap)
        self._last_sent = now

    def pool(self, held_bytes: int) -> None:
        """So many bytes are held in the pool now."""
        self._high = max(self._high, held_bytes)
        self._low = held_bytes if self._low is None else min(self._low, held_bytes)

    def snapshot(self) -> MetricsSnapshot:
        """The figures so far."""
        itl = self.gaps.at(0.5, 0.95, 0.99)
        seconds = self._last_sent - self._first_sent
        return MetricsSnapshot(
            ttft=self._first_sent - self.times.submitted,
            ttft_parts=self._parts(),
            itl_p50=itl[0],
            itl_p95=itl[1],
            itl_p99=itl[2],
            gap_max=self._gaps.most if self._gaps.count else math.nan,
            gap_stddev=self._gaps.stddev,
            tokens=self._tokens,
            tokens_per_s=(self._tokens - self._tokens_first) / seconds if seconds > 0 else math.nan,
            deliveries=self._gaps.count + (not math.isnan(self._first_sent)),
            steps=self._rows.count,
            batch_mean=self._rows.mean if self._rows.count else math.nan,
            batch_max=int(self._rows.most),
            busy_mean=self._busy.mean if self._busy.count else math.nan,
            busy_stddev=self._busy.stddev,
            lanes=dict(self._lanes),
            pool_high_bytes=self._high,
            pool_low_bytes=self._low or 0,
        )

    def _parts(self) -> TtftParts:
        times = self.times
        if math.isnan(self._first_sent - times.submitted):
            return TtftParts(*[math.nan] * 5)
        gates = (times.admitted, times.prefilled, self._first_step, self._first_shown, self._first_sent)
        parts: list[float] = []
        before = times.submitted
        for gate in gates:
            # A gate that is told too late, or never, must not make a part negative: the sum would still be right, but
            # no part would mean anything.
            passed = before if math.isnan(gate) else min(max(gate, before), self._first_sent)
            parts.append(passed - before)
            before = passed
        return TtftParts(*parts)

    def _ran(self, start: float, end: float) -> None:
        """Share a step out to the slots in which it ran; a slot counts once a later one has begun."""
        if self._slot < 0 or start - self._slot * SLOT > PAUSE:
            self._slot, self._slot_busy = math.floor(start / SLOT), 0.0
        while True:
            slot_end = (self._slot + 1) * SLOT
            if start < slot_end:
                self._slot_busy += max(0.0, min(end, slot_end) - start)
                start = slot_end
            if end <= slot_end:
                return
            self._busy.add(min(1.0, self._slot_busy / SLOT))
            self._slot, self._slot_busy = self._slot + 1, 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, TtftParts):
        return {name: _plain(part) for name, part in msgspec.structs.asdict(value).items()}
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value
