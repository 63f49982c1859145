"""What an engine over transformers' continuous batching holds: the manager, its thread and the rows."""

from __future__ import annotations

import itertools
import math
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.local_manager_fit import pool_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers.generation.continuous_batching import ContinuousBatchingManager

    from multimodal.pipes.batching import Admission
    from multimodal.pipes.local_loading import LocalModel
    from multimodal.pipes.local_rows import Book, Row
    from multimodal.pipes.local_scheduler import RowScheduler

__all__ = ["Core"]

_names = itertools.count()


class Core:
    """All but the handle, so that an engine which is dropped can be closed by what it held."""

    def __init__(self, local: LocalModel, pool_bytes: int, page_tokens: int, batch_tokens: int) -> None:
        from multimodal.pipes.local_linear import clone_sharing, pack_linears, packed_bytes
        from multimodal.pipes.local_rows import Book

        self.local = local
        # transformers writes into `config` in a forward pass and puts it back after it (`is_causal`, which continuous
        # batching gives). Where two threads use one model, the one that puts back last leaves it wrong for good.
        if local.owned:
            # Nobody else holds the weights: pack them where they are, or they would be in memory twice.
            pack_linears(local.model)
        self._model = clone_sharing(local.model).eval()
        if not local.owned:
            pack_linears(self._model)
        self.copies = packed_bytes(self._model) - packed_bytes(local.model)
        self.book = Book()
        self._page_tokens, self._batch_tokens = page_tokens, batch_tokens
        self._keep_free = 0.0
        self._blocks = pool_blocks(local, pool_bytes, page_tokens)
        self._manager: ContinuousBatchingManager | None = None
        self._scheduler: RowScheduler | None = None
        self._room = 0
        # Held while requests are handed over and managers come and go; never taken by the generation thread, which
        # is waited for under it.
        self._lock = threading.RLock()
        self._closed = False

    def start(self) -> None:
        """Make a manager and set it going."""
        from transformers import GenerationConfig
        from transformers.generation.configuration_utils import ContinuousBatchingConfig
        from transformers.generation.continuous_batching.cb_logits_processors import (
            ContinuousBatchingLogitsProcessorList,
        )
        from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager
        from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens
        from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING
        from transformers.generation.logits_process import LogitsProcessorList

        from multimodal.pipes.local_rows import Choice, WayOut
        from multimodal.pipes.local_scheduler import RowScheduler

        book, name = self.book, f"multimodal-{next(_names)}"
        manager = ContinuousBatchingManager(
            model=self._model,
            # What a row is asked to be is in its request; none of the model's own generation settings act here.
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),  # type: ignore[no-untyped-call]
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=self._page_tokens,
                num_blocks=self._blocks,
                max_batch_tokens=self._batch_tokens,
                # The most that `configure` may ask for later; the scheduler keeps the bound of the moment.
                max_requests_per_batch=self._batch_tokens,
                max_blocks_per_request=0,
                scheduler_type=name,
                auto_switch_to_flash=False,
            ),
        )
        manager.logit_processor = ContinuousBatchingLogitsProcessorList(LogitsProcessorList([Choice(book)]))
        # The list counts only processors that it converted itself.
        manager.logit_processor.tensors_required = 1
        manager.output_router = WayOut(book)
        run = manager._run_generation_loop
        # transformers tells of an Exception; whatever else ends its thread (SystemExit) would leave readers waiting.
        manager._run_generation_loop = lambda: _watched(run, book, self.local.name)  # type: ignore[method-assign]

        def scheduler(**settings: Any) -> RowScheduler:
            return RowScheduler(book, **settings)

        SCHEDULER_MAPPING[name] = scheduler  # type: ignore[assignment]
        try:
            manager.warmup()  # makes the pool and the scheduler; there is nothing to warm on a CPU
        finally:
            del SCHEDULER_MAPPING[name]
        processor = manager.batch_processor
        assert processor is not None
        self._scheduler = processor.scheduler  # type: ignore[assignment]
        self._room = infer_max_single_request_tokens(processor.cache)
        self._manager = manager
        self._apply()
        # A thread inherits whether it is a daemon; a process must be able to end while an engine waits for requests.
        starter = threading.Thread(target=manager.start, name="multimodal-manager-start", daemon=True)
        starter.start()
        starter.join()

    def configure(self, max_rows: int | None, keep_free: float | None, admission: Admission | None) -> None:
        """Settings of the moment; None = as it is."""
        if max_rows is not None and max_rows > self._batch_tokens:
            raise UsageError(f"max_rows={max_rows} is above the {self._batch_tokens} tokens of a forward pass")
        self.book.max_rows = self.book.max_rows if max_rows is None else max_rows
        self._keep_free = self._keep_free if keep_free is None else keep_free
        self.book.admission = self.book.admission if admission is None else admission
        self._apply()

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1."""
        from multimodal.pipes.local_rows import Row

        if self._closed:
            raise UsageError("this engine is closed; make a new one")
        self._check(request)
        mailbox.times.submitted = time.monotonic()
        with self._lock:
            if self._closed:
                raise UsageError("this engine is closed; make a new one")
            manager = self._running_manager()
            row = Row(f"row-{next(_names)}", request, mailbox)
            self.book.rows[row.row_id] = row
            mailbox.on_room = self._wake
            manager.add_request(
                list(request.prompt_ids),
                request_id=row.row_id,
                max_new_tokens=request.max_new_tokens,
                streaming=True,
                eos_token_id=list(request.eos_ids),
            )
            # A loop that began to stop may have emptied its queue before this request was put there.
            if manager.background_thread_status.can_accept_new_requests() is not None:
                self.book.fail(row, PipeError("the engine failed while the request was handed over", retryable=True))

    def stats(self) -> EngineStats:
        """A copy."""
        rows, scheduler = list(self.book.rows.values()), self._scheduler
        running = sum(not math.isnan(row.mailbox.times.admitted) for row in rows)
        return msgspec.structs.replace(
            self.book.stats,
            running=running,
            waiting=len(rows) - running,
            pool_bytes=0 if scheduler is None else scheduler.used_bytes(),
        )

    def close(self) -> None:
        """E6."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            rows = list(self.book.rows.values())
        # Before the manager fails them, with words of its own.
        for row in rows:
            self._end(row)
        self._stop()

    def _end(self, row: Row) -> None:
        self.book.fail(row, PipeError("the engine was closed before the answer ended", retryable=True))

    def _running_manager(self) -> ContinuousBatchingManager:
        manager = self._manager
        if manager is not None and manager.background_thread_status.can_accept_new_requests() is None:
            return manager
        # Those that the dead one left, if any: nobody else would end them.
        for row in list(self.book.rows.values()):
            self.book.fail(row, PipeError("the engine failed and was started anew", retryable=True))
        self._stop()
        self.start()
        assert self._manager is not None
        return self._manager

    def _stop(self) -> None:
        manager, self._manager, scheduler, self._scheduler = self._manager, None, self._scheduler, None
        if manager is None:
            return
        # Garbage may be collected, and with it an engine closed, in the very thread that would be waited for.
        own = scheduler is not None and scheduler.thread is threading.current_thread()
        manager.stop(block=not own, hard_stop=True)

    def _wake(self) -> None:
        manager = self._manager
        if manager is not None:
            # A name that no request has: of what is public only a cancellation wakes the loop at once.
            manager.cancel_request("")

    def _apply(self) -> None:
        if self._scheduler is not None:
            self._scheduler.max_requests_per_batch = self.book.max_rows
            self._scheduler.safety_margin = self._keep_free
        self._wake()

    def _check(self, request: GenerationRequest) -> None:
        wrong = [each for each in request.prompt_ids if not 0 <= each < self.local.vocab_size]
        if wrong:
            raise UsageError(
                f"the prompt has the token {wrong[0]}; {self.local.name} has 0 to {self.local.vocab_size - 1}"
            )
        tokens = len(request.prompt_ids) + request.max_new_tokens
        # The last token is never read, so it needs no room.
        if tokens - 1 > self._room:
            raise UsageError(
                f"{len(request.prompt_ids)} prompt tokens and up to {request.max_new_tokens} new ones need room for "
                f"{tokens - 1} tokens, the engine's pool has {self._room}; shorten the prompt, or give more pool_bytes"
            )
        positions = self.local.context_length
        if positions is not None and tokens - 1 > positions:
            raise UsageError(
                f"{len(request.prompt_ids)} prompt tokens and up to {request.max_new_tokens} new ones are more than "
                f"the {positions} positions of the model; shorten the prompt, or lower max_new_tokens"
            )


def _watched(run: Callable[[], None], book: Book, name: str) -> None:
    """E2, for what is no Exception."""
    try:
        run()
    except BaseException as error:
        for row in list(book.rows.values()):
            failure = PipeError(f"the engine of {name} failed: {type(error).__name__}: {error}", retryable=True)
            failure.__cause__ = error
            book.fail(row, failure)
