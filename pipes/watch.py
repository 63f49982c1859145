"""What is kept of one answer beside its text: its figures, its buffer, its stage, and what the application is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from multimodal.pipes.buffer import AdaptiveBuffer
from multimodal.pipes.callbacks import Callbacks, StageChange, Update
from multimodal.pipes.generation import Finish, Step
from multimodal.pipes.metrics import MetricsSnapshot, StreamMetrics
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.settings import InForce, TextSettings
from multimodal.pipes.stages import Stage, StageDetector
from multimodal.values import Token

__all__ = ["AnswerFigures", "AnswerWatch", "Ledger"]

OCCUPANCY_EVERY = 16
"""Deliveries between two looks at the engine's batch: it changes when rows join and leave, not with each token."""


class AnswerFigures(msgspec.Struct, frozen=True):
    """What one answer cost, how it felt, and under which settings.

    Args:
        stream: times, gaps, rates, lanes, memory.
        in_force: stage and settings by the token border from which on they held.
        finish: why it ended; "" while it goes on, or when it failed.
        cached_tokens: tokens of the prompt that a kept prefix made unnecessary to read.
        buffer_high: tokens that may be made ahead now.
        underruns: times the consumer found nothing although the engine had been held back.
    """

    stream: MetricsSnapshot
    in_force: tuple[InForce, ...]
    finish: Finish
    cached_tokens: int
    buffer_high: int
    underruns: int


class Ledger(Protocol):
    """Hears of answers as they begin and end."""

    def began(self, watch: AnswerWatch) -> None: ...

    def ended(self, watch: AnswerWatch) -> None: ...


class AnswerWatch:
    """A `Watcher` of one answer.

    Args:
        settings: how its tokens leave.
        detector: follows the dialogue; None = its stage does not change by itself.
        stage, previous: its stage at the beginning, and that of the turn before; "" = none.
        at: the settings of a stage that it comes into on the way; None = the settings, with what the stage says.
        callbacks: told of updates and stages.
        ledger: told of its beginning and its end.
    """

    def __init__(
        self,
        settings: TextSettings,
        *,
        detector: StageDetector | None = None,
        stage: str = "",
        previous: str = "",
        at: Callable[[Stage], TextSettings] | None = None,
        callbacks: Callbacks | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.settings, self.stage, self.detector = settings, stage, detector
        self.buffer = AdaptiveBuffer(settings.buffer_factor)
        self.metrics = StreamMetrics()
        self.in_force: list[InForce] = []
        self.tokens = 0
        """Tokens that left."""
        self.reader: AnswerReader | None = None
        self.finish: Finish = ""
        self.failed = False
        self._callbacks, self._ledger = callbacks, ledger
        self._previous, self._at = previous, at
        self._due: InForce | None = None
        self._looks = 0
        self._rows = 1

    def attach(self, reader: AnswerReader) -> None:
        """Its reader is made; nothing was asked for yet."""
        self.reader = reader
        self.metrics.times = reader.mailbox.times
        reader.mailbox.resize(self.buffer.high, self.buffer.low)
        self.in_force.append(InForce(0, self.stage, self.settings))
        if self.stage != self._previous and self._callbacks is not None:
            self._callbacks.emit(StageChange(self.stage, self._previous, 0, time.monotonic()))
        if self._ledger is not None:
            self._ledger.began(self)

    def change(self, settings: TextSettings, stage: str | None = None) -> None:
        """Other settings from the next chunk border on, from any thread; the buffer's mark moves at once."""
        stage = self.stage if stage is None else stage
        if settings == self.settings and stage == self.stage:
            return
        before, self.settings, self.stage = self.stage, settings, stage
        self.buffer.configure(settings.buffer_factor)
        if stage != before and self._callbacks is not None:
            self._callbacks.emit(StageChange(stage, before, self.tokens, time.monotonic()))
        reader = self.reader
        if reader is None or reader.over:
            return
        reader.mailbox.resize(self.buffer.high, self.buffer.low)
        flow: Any = reader.flow
        waits = flow.held > 0
        flow.configure(**settings.flow())
        # What is held leaves as it was gathered; the new settings hold behind it.
        self._due = InForce(self.tokens, stage, settings)
        if not waits:
            self._note()

    def figures(self) -> AnswerFigures:
        """Everything about it so far."""
        return AnswerFigures(
            self.metrics.snapshot(),
            tuple(self.in_force),
            self.finish,
            self.metrics.times.cached_tokens,
            self.buffer.high,
            self.buffer.underruns,
        )

    # ---- what the reader tells

    def read(self, reader: AnswerReader, steps: list[Step], now: float) -> None:
        """The consumer came, and these steps had come for it."""
        buffer = self.buffer
        for step in steps:
            buffer.put(1, min(step.at, now))
        buffer.ask(now)
        if not steps:
            return
        buffer.take(len(steps), now)
        mailbox = reader.mailbox
        if buffer.high != mailbox.capacity:
            mailbox.resize(buffer.high, buffer.low)
        if self._looks % OCCUPANCY_EVERY == 0:
            stats = reader.engine.stats()
            self._rows = max(1, stats.running)
            self.metrics.pool(stats.pool_bytes)
        self._looks += 1
        for step in steps:
            if step.token_id >= 0:
                self.metrics.step(min(step.at, now), self._rows)

    def left(self, reader: AnswerReader, tokens: list[Token], now: float) -> None:
        """These tokens leave together."""
        low = sum(token.lane == "low" for token in tokens)
        text = "".join([token.text for token in tokens])
        first, metrics = self.tokens, self.metrics
        self.tokens += len(tokens)
        metrics.shown(now, len(tokens) - low, text=bool(text))
        if low:
            metrics.shown(now, low, "low", text=False)
        metrics.sent(now, len(tokens), text=bool(text))
        if self._due is not None:
            self._note()
        if self._callbacks is not None:
            self._callbacks.emit(Update(first, len(tokens), text, self.stage, now))
        if self.detector is not None and text:
            found = self.detector.hear(text)
            if found.name != self.stage:
                self.change(self._at(found) if self._at is not None else self.settings.at(found), found.name)

    def ended(self, reader: AnswerReader, now: float) -> None:
        """Nothing more will leave."""
        self.finish, self.failed = reader.finish, reader.failure is not None
        self.reader = None
        if self._ledger is not None:
            self._ledger.ended(self)

    def _note(self) -> None:
        assert self._due is not None
        due, self._due = self._due, None
        if self.in_force and self.in_force[-1].token_index == self.tokens:
            self.in_force.pop()  # nothing left under it
        self.in_force.append(InForce(self.tokens, due.stage, due.settings))
