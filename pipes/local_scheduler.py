"""Which rows transformers' continuous batching steps: those whose reader is there and has room.

Of the scheduler it extends it uses what shows no underscore, and overrides one method that does,
`_get_waiting_candidates`; `tests/pipes/test_local_manager.py` says so when these names move.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from transformers.generation.continuous_batching.requests import RequestState, RequestStatus
from transformers.generation.continuous_batching.scheduler import FIFOScheduler

from multimodal.pipes.local_rows import Book

__all__ = ["RowScheduler"]

Batch = tuple[Any, bool, int, int]
"""What `Scheduler.schedule_batch` gives: the requests (None = no room for any), fast path, queries, keys read."""


class RowScheduler(FIFOScheduler):
    """First come, first served, but for rows whose reader is slow (E3) or gone (E4), and for `Admission`."""

    def __init__(self, book: Book, **settings: Any) -> None:
        self._book = book
        super().__init__(**settings)

    def reset(self) -> None:
        """The generation thread begins here, after a first call when the scheduler is made."""
        super().reset()
        self.thread = threading.current_thread()
        self._book.new_thread()

    def schedule_batch(self, token_budget: int, cache_budget: int) -> Batch:
        """The next batch. Where paused rows hold the memory that others need, the newest give theirs up.

        Such a row reads its prompt and its words again when its reader has room.
        """
        self._give_up()
        book = self._book
        paused = {each: state for each, state in self.active_requests.items() if book.paused(each)}
        if len(paused) == len(self.active_requests):
            # transformers lifts this when a request finishes, which none of these may ever do.
            self.block_new_requests = False
        self._admit(len(self.active_requests) - len(paused))
        batch = self._without(paused, token_budget, cache_budget)
        while paused and (batch[0] is None or self.starved_requests):
            self._take_back(paused.popitem()[1])
            if batch[0] is None:
                batch = self._without(paused, token_budget, cache_budget)
            else:
                self.starved_requests = []  # there is room for them in the next batch
        self._rotate(batch[0] or [], len(paused))
        if batch[0]:
            book.step_begins(batch[0])
        self._measure()
        return batch

    def _get_waiting_candidates(self) -> list[RequestState]:
        book = self._book
        waiting = [each for each in super()._get_waiting_candidates() if not book.paused(each.request_id)]
        if book.admission is None:
            return waiting
        return [each for each in waiting if (row := book.row(each.request_id)) is not None and row.admitted]

    def _give_up(self) -> None:
        """E4, before each step: whoever asked for it, in whatever order the queues were read."""
        rows = self._book.rows
        gone = False
        for row_id in (*self.active_requests, *self.waiting_requests):
            row = rows.get(row_id)
            if row is None or row.mailbox.closed:
                self.set_request_cancellation(row_id)
                gone = True
                if row is not None:
                    self._book.end(row, "cancelled")
                if row_id in self._book.spoilt:
                    self._book.spoilt.remove(row_id)
                    self.cache.free_blocks(row_id, no_cache=True)
        if gone:
            self.clear_cancelled_requests()
            self.block_new_requests = False

    def _admit(self, running: int) -> None:
        book, admission = self._book, self._book.admission
        if admission is None:
            return
        now = time.monotonic()
        for row_id in self.waiting_requests:
            row = book.row(row_id)
            if row is not None and not row.admitted and row.offered is not admission:
                row.offered = admission
                admission.offer(row_id, row.request.prompt_ids, now, row.request.context or None)
        for taken in admission.take(now, running, max(0, book.max_rows - running), idle=not running):
            row = book.row(str(taken))
            if row is not None:
                row.admitted = True
                # The order in which they were taken is the order in which they are read.
                self.waiting_requests_order.remove(row.row_id)
                self.waiting_requests_order.append(row.row_id)

    def _without(self, paused: Mapping[str, RequestState], token_budget: int, cache_budget: int) -> Batch:
        everyone = self.active_requests
        self.active_requests = {each: state for each, state in everyone.items() if each not in paused}
        try:
            batch: Batch = super().schedule_batch(token_budget, cache_budget)
        finally:
            # Those that were there stay in their order; those that were admitted come after them.
            self.active_requests = everyone | self.active_requests
        return batch

    def _take_back(self, state: RequestState) -> None:
        again = state.create_equivalent_initial_request()
        state.status = RequestStatus.FINISHED
        self.finish_request(state.request_id)
        self.add_waiting_request(again)
        self.cache.evict_cached_blocks()
        self.cache.pool.try_to_free_sectors()

    def _rotate(self, batch: list[Any], paused: int) -> None:
        """When more rows may step than a batch takes, each gets its turn."""
        if len(self.active_requests) - paused <= self.max_requests_per_batch:
            return
        stepped = {each.state.request_id for each in batch}
        later = {each: state for each, state in self.active_requests.items() if each in stepped}
        self.active_requests = {
            each: state for each, state in self.active_requests.items() if each not in stepped
        } | later

    def _measure(self) -> None:
        used, stats = self.used_bytes(), self._book.stats
        stats.pool_high_bytes = max(stats.pool_high_bytes, used)
        if stats.steps:
            stats.pool_low_bytes = min(stats.pool_low_bytes, used) if stats.pool_low_bytes else used

    def used_bytes(self) -> int:
        """KV bytes held by rows, and by prefixes that are kept for the next that begin so. From any thread."""
        total = self.cache.num_sectors * self.cache.bytes_per_sector
        return total - int(self.cache.compute_free_capacity(relative=False))
