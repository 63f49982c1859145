"""What an application may change of a processor while it runs: settings, stages, memory, batching, overflow."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.callbacks import Callbacks, EventName, Handle
from multimodal.pipes.outflow import check_delivery, deliver
from multimodal.pipes.overflow import Item, Outbox, OverflowHandler
from multimodal.pipes.processor_source import EngineSource, ModelSource, WarmUp
from multimodal.pipes.processor_stages import StageDesk
from multimodal.pipes.reclaim import check_policy
from multimodal.pipes.settings import TextSettings, check_count
from multimodal.values import check_seconds

__all__ = ["ProcessorControls"]

WARM_LIMIT = 60.0
"""Seconds that warming up takes at most: what it sets up is set up by the first few prompts."""


class ProcessorControls:
    """The settings' half of `StreamProcessor`.

    Args:
        source: what generates.
        stages: which settings hold.
    """

    def __init__(self, source: ModelSource | EngineSource, stages: StageDesk) -> None:
        self._source, self._stages = source, stages
        self._callbacks = Callbacks()
        self._overflow_handler: OverflowHandler | None = None
        self._outboxes: weakref.WeakSet[Outbox] = weakref.WeakSet()
        self._warmed: WarmUp | None = None
        self._asked = False
        """The engine was needed, so it is there."""
        self._closed = False

    @property
    def settings(self) -> TextSettings:
        """What holds for the next answer that has no stage."""
        return self._stages.settings

    def update_params(self, **changes: Any) -> None:
        """Other settings, for all answers: those that run take them at their next chunk border. From any thread.

        They count over the stage table until `set_stage` is called.

        Args:
            **changes: chunk_size, buffer_factor, priority_threshold, max_wait, filler_wait, max_chars.

        Raises:
            UsageError: an unknown name or a value out of its range; then nothing changes.
        """
        self._check_open()
        self._stages.update(changes)

    def set_stage(self, name: str | None) -> None:
        """The stage of all answers, also of those that run; None = found in each dialogue again.

        Raises:
            UsageError: the table has no such stage, or there is no table.
        """
        self._check_open()
        self._stages.set(name)

    def register_callback(self, event: EventName, fn: Callable[[Any], object], *, owner: object = None) -> Handle:
        """Call `fn` with each `StageChange` ("stage_change") or `Update` ("update"), off the token path (C1-C7).

        Args:
            event: which.
            fn: a function, run in a thread, or a coroutine function, run on this loop. A bound method is held by its
                object, not by the processor.
            owner: the object that holds `fn`; None = see `Callbacks`.

        Raises:
            UsageError: an unknown event, something not callable, or the processor is closed.
        """
        return self._callbacks.register(event, fn, owner=owner)

    def mempool_config(
        self,
        warmup_samples: int = 150,
        keep_free: float = 0.3,
        reclaim_policy: str = "hybrid",
        pool_bytes: int | None = None,
        *,
        warmup_limit: float = WARM_LIMIT,
    ) -> WarmUp:
        """Set the engine's memory for keys and values, and warm it up; it blocks meanwhile (`asyncio.to_thread`).

        Args:
            warmup_samples: short prompts to run; 0 = none.
            keep_free: share of the memory that kept prefixes leave free for answers that come.
            reclaim_policy: which kept prefix goes first: "lru", "size", "hybrid".
            pool_bytes: the memory; None = as it is.
            warmup_limit: seconds after which warming up ends, whatever is left.

        Returns:
            What warming up did.

        Raises:
            UsageError: a value out of its range, or an engine without such a setting; then nothing changes.
        """
        self._check_open()
        if isinstance(warmup_samples, bool) or not isinstance(warmup_samples, int) or warmup_samples < 0:
            raise UsageError(f"warmup_samples={warmup_samples!r} is no number of prompts; give 0 or more")
        check_seconds("warmup_limit", warmup_limit)
        check_count("pool_bytes", pool_bytes, "bytes")
        check_policy(reclaim_policy, "reclaim_policy")
        before = self._source.memory()
        self._source.configure(keep_free=keep_free, reclaim_policy=reclaim_policy, pool_bytes=pool_bytes)
        self._asked = True
        try:
            self._warmed = self._source.warm_up(warmup_samples, warmup_limit)
        except BaseException:
            self._source.configure(**before)
            raise
        return self._warmed

    def enable_hybrid_mode(
        self, window_size: float = 50, semantic_cluster: bool = True, dynamic_batch: bool = True
    ) -> None:
        """Gather requests into batches (A1-A6). Called again it changes the settings, live.

        Args:
            window_size: milliseconds that requests are gathered behind running work; 0 = off. Nobody waits when idle.
            semantic_cluster: requests that begin alike run after one another, so that a kept prefix serves them.
            dynamic_batch: the number of rows follows the measured time of a step.

        Raises:
            UsageError: a value out of its range, or an engine without such a setting.
        """
        self._check_open()
        self._source.admit(window_size, semantic_cluster, dynamic_batch)

    def set_overflow_handler(self, handler: OverflowHandler | None) -> None:
        """What is asked, on the token path, when an outbox of this processor passes its high mark; live.

        Args:
            handler: called with an `OverflowView`, with which it may join text, shed previews and notices, or hold the
                engine back; text, marks and cues it cannot touch. None = the default: join, then shed tenths of the
                previews and notices, the oldest first, then hold back.

        Raises:
            UsageError: it cannot be called, or is a coroutine function.
        """
        Outbox(handler=handler)  # refused before anything changes
        self._overflow_handler = handler
        for outbox in self._outboxes:
            outbox.set_overflow_handler(handler)

    def outbox(self, limit_bytes: int = 256 * 1024) -> Outbox:
        """An outbox for one consumer, whose overflow asks this processor's handler.

        Raises:
            UsageError: a limit that holds no messages.
        """
        outbox = Outbox(limit_bytes, self._overflow_handler)
        self._outboxes.add(outbox)
        return outbox

    async def deliver(
        self, pipe: AnswerPipe, send: Callable[[Item], Awaitable[object]], outbox: Outbox | None = None
    ) -> Outbox:
        """Send an answer to a consumer that may be slow; see `multimodal.pipes.outflow.deliver`.

        Args:
            pipe: what `prompt` gave.
            send: awaited for each item.
            outbox: of this processor, where the application puts previews and notices, too; None = one of its own.

        Returns:
            The outbox, with its counts.

        Raises:
            UsageError: no text pipe, no outbox, or a `send` that cannot be called or gives nothing to await.
            PipeError: the engine failed.
        """
        check_delivery(pipe, send)
        outbox = self.outbox() if outbox is None else outbox
        await deliver(pipe, outbox, send)
        return outbox

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this StreamProcessor is closed; make another one")
