"""The rows of an engine over transformers' continuous batching: how their tokens are chosen, and how they get out.

All of it runs in the manager's generation thread, except where it says otherwise.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessor
from transformers.generation.continuous_batching.continuous_api import OutputRouter
from transformers.generation.continuous_batching.requests import GenerationOutput, RequestState, RequestStatus

from multimodal.errors import MultiModalError, PipeError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import Finish, GenerationRequest, Step
from multimodal.pipes.local_sampling import BadLogitsError, Sampler, try_rows

if TYPE_CHECKING:
    from torch import Tensor

    from multimodal.pipes.batching import Admission

__all__ = ["Book", "Choice", "Row", "WayOut", "failure"]


class Row:
    """One answer, from its submission to its end."""

    __slots__ = ("admitted", "chosen", "mailbox", "offered", "request", "row_id", "sampler")

    def __init__(self, row_id: str, request: GenerationRequest, mailbox: Mailbox) -> None:
        self.row_id, self.request, self.mailbox = row_id, request, mailbox
        self.sampler = Sampler(request, request.prompt_ids)
        self.chosen: Step | None = None
        self.offered: Admission | None = None
        self.admitted = False


class Book:
    """The answers under way and what was counted; shared by every thread that submits and the generation thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: dict[str, Row] = {}
        self.stats = EngineStats()
        self.spoilt: set[str] = set()
        """Rows whose keys and values are not finite: no other may find them as a kept prefix."""
        self.admission: Admission | None = None
        self.max_rows = 1
        self._began = self._read_at = self._cpu_before = self._cpu_here = 0.0
        self._decoding = False

    def row(self, row_id: str) -> Row | None:
        """The row; None = it has ended."""
        return self.rows.get(row_id)

    def paused(self, row_id: str) -> bool:
        """E3: not to be stepped now."""
        row = self.rows.get(row_id)
        return row is not None and row.mailbox.full

    def end(self, row: Row, how: str) -> bool:
        """The row is over, for whatever reason; False = it was before. From any thread."""
        with self._lock:
            if self.rows.pop(row.row_id, None) is None:
                return False
            setattr(self.stats, how, getattr(self.stats, how) + 1)
        if row.offered is not None:
            row.offered.withdraw(row.row_id)
        # Not None: its reader may be about to call what it just found there.
        row.mailbox.on_room = _nothing
        return True

    def fail(self, row: Row, error: Exception) -> None:
        """E2, E6. From any thread."""
        if self.end(row, "failed"):
            row.mailbox.fail(error)

    def new_thread(self) -> None:
        """The generation thread begins; its CPU clock does, too."""
        self._cpu_before = self.stats.cpu
        self._cpu_here = time.thread_time()

    def step_begins(self, batch: list[Any]) -> None:
        """A forward pass over these requests comes next."""
        now = time.monotonic()
        stats = self.stats
        prefilled = 0
        for each in batch:
            row = self.rows.get(each.state.request_id)
            if row is not None and math.isnan(row.mailbox.times.admitted):
                row.mailbox.times.admitted = now
                row.mailbox.times.cached_tokens = each.state.position_offset
                stats.cached_tokens += each.state.position_offset
            if each.query_length > 1 or not each.state.generated_tokens:
                prefilled += each.query_length
        stats.prefills += prefilled > 0
        stats.prefilled_tokens += prefilled
        self._decoding = not prefilled
        self._began = now

    def step_read(self, rows: int) -> None:
        """The forward pass is over; tokens of `rows` rows are chosen next."""
        self._read_at = now = time.monotonic()
        stats = self.stats
        stats.busy += now - self._began
        stats.steps += rows > 0
        stats.row_steps += rows
        stats.cpu = self._cpu_before + time.thread_time() - self._cpu_here
        if self.admission is not None and self._decoding:
            self.admission.measured(now - self._began, rows, now)

    def token(self, output: GenerationOutput, now: float) -> None:
        """The manager has one more token."""
        row = self.rows.get(output.request_id)
        if row is None:
            return
        step = row.chosen or Step(-1)
        row.chosen = None
        step.token_id, step.at = output.generated_tokens[-1], now
        finish: Finish = ""
        if output.is_finished():
            finish = "stop" if step.token_id in row.request.eos_ids else "length"
        step.finish = finish
        times = row.mailbox.times
        if math.isnan(times.prefilled):
            times.prefilled = self._read_at
        self.stats.tokens += 1
        if finish:
            self.end(row, "finished")
        row.mailbox.put(step)


class WayOut(OutputRouter):
    """Tokens go into the mailboxes here and now; the manager's own queue, and its callbacks on loops, are not used."""

    def __init__(self, book: Book) -> None:
        super().__init__()
        self._book = book

    def deliver(self, output: GenerationOutput) -> None:
        """One token of one answer."""
        self._book.token(output, time.monotonic())

    def deliver_batch(self, outputs: list[GenerationOutput]) -> None:
        """One token of each answer of a step."""
        now = time.monotonic()
        for output in outputs:
            self._book.token(output, now)

    def fail_and_deliver(self, state: RequestState, error: Exception) -> None:
        """E2: with the error itself, of which the manager's results carry only the text."""
        state.status, state.error = RequestStatus.FAILED, str(error)
        row = self._book.row(state.request_id)
        if row is not None:
            self._book.fail(row, failure(error))


class Choice(ContinuousBatchingLogitsProcessor):
    """Our samplers choose; the manager takes the likeliest of what is left, which is what they chose."""

    supported_kwargs: dict[str, type] = {}  # noqa: RUF012 - as the base class declares it
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, book: Book) -> None:
        self._book = book
        self._rows: list[Row | None] = []

    def fill_defaults(self, int32_tensor: Tensor) -> None:
        """Nothing is carried in tensors."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Tensor:
        """Note which row each line of the next scores belongs to."""
        import torch

        self._rows = [self._book.row(each.state.request_id) for each in requests_with_new_token]
        return torch.zeros(len(self._rows), dtype=torch.int32)

    def __call__(self, scores: Tensor, tensor_arg: Tensor) -> Tensor:
        """The scores, where a sampler chose with only its token left; untouched where the likeliest is asked for."""
        book = self._book
        rows = [(line, row) for line, row in enumerate(self._rows) if row is not None]
        book.step_read(len(self._rows))
        if not rows:
            return scores
        lines = scores if len(rows) == len(scores) else scores[[line for line, _ in rows]]
        outcomes = try_rows([row.sampler for _, row in rows], lines)
        for (line, row), outcome in zip(rows, outcomes, strict=True):
            if not isinstance(outcome, Step):
                if isinstance(outcome, BadLogitsError):
                    book.spoilt.add(row.row_id)
                book.fail(row, failure(outcome))
                continue
            row.chosen = outcome
            if not row.sampler.plain:
                scores[line] = -float("inf")
                scores[line, outcome.token_id] = 0.0
        return scores


def _nothing() -> None:
    """What a mailbox calls when its answer has ended."""


def failure(error: Exception) -> Exception:
    """An exception in the generation thread as each reader gets it: one of its own, with the cause."""
    words = str(error) if isinstance(error, MultiModalError) else f"{type(error).__name__}: {error}"
    wrapped = PipeError(f"the engine failed in a step: {words}")
    wrapped.__cause__ = error
    return wrapped
