"""The figures of a processor: of all its answers together, of its engine and its callbacks."""

from __future__ import annotations

import math
import threading
import weakref

import msgspec

from multimodal.pipes.callbacks import CallbackStats
from multimodal.pipes.engine import EngineStats
from multimodal.pipes.governor import GovernorStats
from multimodal.pipes.processor_source import WarmUp
from multimodal.pipes.sketch import Quantiles
from multimodal.pipes.watch import AnswerWatch

__all__ = ["Answers", "ProcessorFigures"]


class ProcessorFigures(msgspec.Struct, frozen=True):
    """What a processor did since it was made.

    Args:
        answers, running, finished, cancelled, failed: rows that were begun, go on, and ended so.
        tokens: that left, of the answers that ended.
        ttft_p50, ttft_p95: seconds to the first text of the answers that ended; nan = none did.
        itl_p50, itl_p95, itl_p99: seconds between deliveries of the same.
        lanes: their tokens by lane.
        underruns: times one of their consumers found nothing although the engine had been held back.
        batch_mean: rows of the engine's steps, of all who share it; nan = none.
        engine: what the engine did, for whoever uses it; None = it was not needed yet.
        callbacks: what became of callbacks and their events.
        governor: how the budget was kept; None = there is none.
        warm_up: what warming up did; None = it was not asked for.
    """

    answers: int
    running: int
    finished: int
    cancelled: int
    failed: int
    tokens: int
    ttft_p50: float
    ttft_p95: float
    itl_p50: float
    itl_p95: float
    itl_p99: float
    lanes: dict[str, int]
    underruns: int
    batch_mean: float
    engine: EngineStats | None
    callbacks: CallbackStats
    governor: GovernorStats | None
    warm_up: WarmUp | None


class Answers:
    """The `Ledger` of a processor. Answers begin and end on their readers' threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: an answer may be dropped, and so end, by the collector under it
        self._running: weakref.WeakSet[AnswerWatch] = weakref.WeakSet()
        self._begun = self._finished = self._cancelled = self._failed = self._tokens = self._underruns = 0
        self._ttft, self._gaps = Quantiles(), Quantiles()
        self._lanes = {"main": 0, "low": 0}

    def began(self, watch: AnswerWatch) -> None:
        """An answer begins."""
        with self._lock:
            self._begun += 1
            self._running.add(watch)

    def ended(self, watch: AnswerWatch) -> None:
        """It ended; its figures join those of the others."""
        stream = watch.metrics.snapshot()
        with self._lock:
            self._running.discard(watch)
            self._failed += watch.failed
            self._cancelled += watch.finish == "cancelled"
            self._finished += watch.finish in ("stop", "length")
            self._tokens += watch.tokens
            self._underruns += watch.buffer.underruns
            if stream.ttft >= 0:
                self._ttft.add(stream.ttft)
            self._gaps.merge(watch.metrics.gaps)
            for lane, count in stream.lanes.items():
                self._lanes[lane] = self._lanes.get(lane, 0) + count

    @property
    def running(self) -> list[AnswerWatch]:
        """The answers that go on."""
        with self._lock:
            return list(self._running)

    def figures(
        self,
        engine: EngineStats | None,
        callbacks: CallbackStats,
        governor: GovernorStats | None,
        warm_up: WarmUp | None,
    ) -> ProcessorFigures:
        """All of it, at one instant."""
        with self._lock:
            ttft, itl = self._ttft.at(0.5, 0.95), self._gaps.at(0.5, 0.95, 0.99)
            return ProcessorFigures(
                answers=self._begun,
                running=len(self._running),
                finished=self._finished,
                cancelled=self._cancelled,
                failed=self._failed,
                tokens=self._tokens,
                ttft_p50=ttft[0],
                ttft_p95=ttft[1],
                itl_p50=itl[0],
                itl_p95=itl[1],
                itl_p99=itl[2],
                lanes=dict(self._lanes),
                underruns=self._underruns,
                batch_mean=engine.row_steps / engine.steps if engine is not None and engine.steps else math.nan,
                engine=engine,
                callbacks=callbacks,
                governor=governor,
                warm_up=warm_up,
            )
