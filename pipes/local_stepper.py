"""The step loop's rules, without the thread: who joins, what each step reads and makes, what becomes of each row.

Everything happens between two forward passes: rows join and leave there (E4), full mailboxes are left out (E3), a
prompt is read in pieces beside the rows that speak.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from multimodal.errors import PipeError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import GenerationRequest, Step
from multimodal.pipes.local_forward import Forward, Work
from multimodal.pipes.local_kv import LEAST, RowKV
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_pace import PrefillPace
from multimodal.pipes.local_prefixes import Prefixes, shared_tokens
from multimodal.pipes.local_quantum import QUANTUM
from multimodal.pipes.local_sampling import Sampler, try_rows

if TYPE_CHECKING:
    from multimodal.pipes.batching import Admission

__all__ = ["Row", "Stepper"]


class Row:
    """One answer on its way.

    Args:
        request: what was asked.
        mailbox: where its tokens go.
        start: what a seq2seq decoder begins with; empty for a causal model.
        need: bytes of keys and values it may come to hold.
    """

    def __init__(self, request: GenerationRequest, mailbox: Mailbox, start: Sequence[int], need: int) -> None:
        self.request, self.mailbox, self.need = request, mailbox, need
        self.ids: list[int] = list(start or request.prompt_ids)
        """The decoder's tokens: prompt (or start) and answer."""
        self.sampler = Sampler(request, self.ids)
        self.kv: RowKV | None = None
        self.speaking = False
        """All but its last token is read: each step makes a token."""
        self.reserved = False
        self.stepped = 0
        """The last pass it was in."""

    @property
    def pending(self) -> list[int]:
        """Tokens that no forward pass has read yet."""
        return self.ids[self.kv.length if self.kv is not None else 0 :]


class Stepper:
    """Rows, and one forward pass after another for them. One thread at a time.

    Args:
        local: the model.
        forward: how it is run.
        prefixes: what was read before; None = nothing is kept (the rows cannot share).
        max_rows: most rows of the batch.
        admission: who joins when; None = all that fit, in the order they came.
        pace: how much of a prompt a step reads beside rows that speak.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        local: LocalModel,
        forward: Forward,
        prefixes: Prefixes,
        *,
        max_rows: int,
        admission: Admission | None = None,
        pace: PrefillPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.local, self.forward, self.prefixes = local, forward, prefixes
        self.max_rows, self.admission = max_rows, admission
        self.pace = pace or PrefillPace()
        self.counts = EngineStats()
        self.rows: list[Row] = []
        self._clock = clock
        self._passes = 0
        self._waiting: dict[int, Row] = {}
        self._taken: deque[Row] = deque()
        """Who may join as soon as there is memory."""

    # ---- what waits

    def offer(self, row: Row) -> None:
        """A request came."""
        self._waiting[id(row)] = row
        if self.admission is not None:
            self.admission.offer(id(row), row.request.prompt_ids, self._clock(), row.request.context or None)

    def change_admission(self, admission: Admission | None) -> None:
        """Another one decides from now on; those that wait are offered to it in the order they came."""
        if self.admission is not None:
            for key in self._waiting:
                self.admission.withdraw(key)
        self.admission = admission
        if admission is not None:
            for key, row in self._waiting.items():
                admission.offer(key, row.request.prompt_ids, self._clock(), row.request.context or None)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._taken)

    def next_timer(self) -> float | None:
        """When to step though nothing came; None = only an event changes anything."""
        return self.admission.next_timer() if self.admission is not None and self._waiting else None

    def everyone(self) -> list[Row]:
        """All rows that have not ended."""
        return [*self.rows, *self._taken, *self._waiting.values()]

    def abandon(self, error: Exception) -> None:
        """E2, E6: every answer ends with this error, and nothing is held any more."""
        ended = self.everyone()
        if self.admission is not None:
            for key in self._waiting:
                self.admission.withdraw(key)
        self._waiting.clear()
        self._taken.clear()
        for row in list(self.rows):
            self._leave(row, keep=False)
        self.prefixes.clear()
        # Told last: whoever hears of it finds nothing held any more.
        for row in ended:
            if not row.mailbox.closed:
                self.counts.failed += 1
            row.mailbox.fail(error)

    # ---- one step

    def step(self) -> bool:
        """Let go of who is gone, let in who fits, run one pass; False = there was nothing to run."""
        self._drop_closed()
        self._admit()
        speaking = [row for row in self.rows if row.speaking and not row.mailbox.full]
        work, began = self._prompts(self.pace.room(len(speaking)))
        # A slow reader's row frees its place in the batch; when too many come back at once they take turns.
        speaking = sorted(speaking, key=lambda row: row.stepped)[: self.max_rows - len(work)]
        self._passes += 1
        for row in speaking:
            row.stepped = self._passes
        work = [*((row, row.pending) for row in speaking), *work]
        if work:
            self._run(work, len(speaking))
        return bool(work) or began

    def _prompts(self, room: int) -> tuple[list[tuple[Row, list[int]]], bool]:
        """What the next pass reads of prompts, the first come first; and whether passes were run meanwhile."""
        work: list[tuple[Row, list[int]]] = []
        began = False
        for row in [each for each in self.rows if not each.speaking]:
            if room < QUANTUM or len(work) >= self.max_rows:
                break
            if row.kv is None:
                if self._is_being_read(row):
                    continue
                if not self._begin(row):
                    began = True
                    continue
            pending = row.pending
            ids = pending if len(pending) <= room else pending[: room // QUANTUM * QUANTUM]
            room -= len(ids)
            work.append((row, ids))
        return work, began

    def _is_being_read(self, row: Row) -> bool:
        """Another row is reading a prompt that begins like this one's: it will be there to copy."""
        if not self.forward.packed or self.local.decoder_start:
            return False
        beside = ((each.ids, each.kv.length) for each in self.rows if each.kv is not None and not each.speaking)
        return any(shared_tokens(row.ids, ids) > length for ids, length in beside)

    def _drop_closed(self) -> None:
        for row in [each for each in self.rows if each.mailbox.closed]:
            self.counts.cancelled += 1
            self._leave(row)
        for row in [each for each in self._taken if each.mailbox.closed]:
            self.counts.cancelled += 1
            self._taken.remove(row)
        for key in [key for key, row in self._waiting.items() if row.mailbox.closed]:
            self.counts.cancelled += 1
            del self._waiting[key]
            if self.admission is not None:
                self.admission.withdraw(key)

    def _admit(self) -> None:
        active = sum(not row.mailbox.full for row in self.rows)
        free = self.max_rows - active - sum(not row.mailbox.full for row in self._taken)
        if free > 0 and self._waiting:
            if self.admission is None:
                keys = list(self._waiting)[:free]
            else:
                chosen = self.admission.take(self._clock(), active, free, idle=not active and not self._taken)
                keys = [key for key in chosen if isinstance(key, int)]
            self._taken.extend(self._waiting.pop(key) for key in keys)
        pool = self.prefixes.pool
        # A row that was put aside waits for its reader before it waits for memory.
        while (row := next((each for each in self._taken if not each.mailbox.full), None)) is not None:
            if row.need > pool.limit_bytes:
                self._taken.remove(row)
                self._fail(row, PipeError(f"the pool was made too small for a request of {row.need} bytes"))
            elif pool.reserve(row.need):
                self._taken.remove(row)
                row.reserved = True
                self.rows.append(row)
                if math.isnan(row.mailbox.times.admitted):
                    row.mailbox.times.admitted = self._clock()
            elif not self._put_aside():
                return

    def _put_aside(self) -> bool:
        """Take the memory of a row whose reader lags, for one that can go on; False = there is none.

        What it held stays in the pool while there is room, and is computed anew otherwise.
        """
        lagging = [row for row in self.rows if row.mailbox.full]
        if not lagging:
            return False
        row = min(lagging, key=lambda each: each.stepped)
        self._leave(row)
        row.speaking = False
        self._taken.append(row)
        return True

    def _begin(self, row: Row) -> bool:
        """Give a row what it needs before its first pass; False = (seq2seq) it has had its first token, or failed."""
        prompt, limit = row.request.prompt_ids, row.request.max_new_tokens
        most = len(row.ids) - row.sampler.count + limit
        try:
            kv, logits = self.forward.start(prompt, self.local.decoder_start, min(most, len(row.ids) + LEAST), most)
        except Exception as error:
            self._fail(row, _told(self.local, error))
            return False
        row.kv = kv
        if logits is not None:
            self.counts.prefills += 1
            self.counts.prefilled_tokens += len(prompt)
            if kv.length == len(row.ids):
                self._choose([row], logits, self._clock())
                return False
            return True
        if self.forward.packed:
            beside = [(each.ids, each.kv) for each in self.rows if each.kv is not None and each is not row]
            found = self.prefixes.find(row.ids, beside)
            if found is not None:
                kv.copy_from(*found)
                cached = min(found[1], len(prompt))
                if not row.sampler.count:
                    row.mailbox.times.cached_tokens = cached
                self.counts.cached_tokens += cached
        return True

    def _run(self, work: list[tuple[Row, list[int]]], speaking: int) -> None:
        began = self._clock()
        asked = [_work(row, ids) for row, ids in work]
        try:
            logits = self.forward.run(asked)
        except Exception as error:
            self._run_alone(work, error)
            return
        now = self._clock()
        self._count(work, speaking, now - began)
        self._choose([row for (row, _), each in zip(work, asked, strict=True) if each.wanted], logits, now)

    def _run_alone(self, work: list[tuple[Row, list[int]]], error: Exception) -> None:
        """A pass failed: whose fault it is shows when each row is run by itself."""
        failed: list[tuple[Row, Exception]] = []
        if len(work) == 1 or not self.forward.packed:
            failed = [(row, error) for row, _ in work]
        else:
            for row, ids in work:
                asked = _work(row, ids)
                try:
                    logits = self.forward.run([asked])
                except Exception as fault:
                    failed.append((row, fault))
                else:
                    self._count([(row, ids)], 0, 0.0)
                    self._choose([row] if asked.wanted else [], logits, self._clock())
        for row, own in failed:
            self._fail(row, _told(self.local, own))

    def _count(self, work: list[tuple[Row, list[int]]], speaking: int, seconds: float) -> None:
        read = sum(len(ids) for row, ids in work if not row.speaking)
        self.counts.prefills += read > 0
        self.counts.prefilled_tokens += read
        self.counts.busy += seconds
        if seconds:
            self.pace.measured(speaking, read, seconds)
            if self.admission is not None and speaking and not read:
                self.admission.measured(seconds, speaking, self._clock())

    def _choose(self, rows: list[Row], logits: Tensor, now: float) -> None:
        if not rows:
            return
        outcomes = try_rows([row.sampler for row in rows], logits, now)
        made: list[tuple[Row, Step]] = []
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, Step):
                made.append((row, outcome))
            else:
                error = PipeError(f"{self.local.name}: {outcome}")
                error.__cause__ = outcome
                self._fail(row, error)
        if not made:
            return
        self.counts.steps += 1
        self.counts.row_steps += len(made)
        self.counts.tokens += len(made)
        for row, step in made:
            self._deliver(row, step, now)

    def _deliver(self, row: Row, step: Step, now: float) -> None:
        if not row.speaking:
            row.speaking = True
            if row.sampler.count == 1:
                row.mailbox.times.prefilled = now
        row.ids.append(step.token_id)
        if step.finish:
            # What is held is free, and counted, before its reader can ask.
            if row.mailbox.closed:
                self.counts.cancelled += 1
            else:
                self.counts.finished += 1
            self._leave(row)
        row.mailbox.put(step)

    def _fail(self, row: Row, error: Exception) -> None:
        self.counts.failed += 1
        self._leave(row, keep=False)
        row.mailbox.fail(error)

    def _leave(self, row: Row, keep: bool = True) -> None:
        if row in self.rows:
            self.rows.remove(row)
        if row.reserved:
            row.reserved = False
            self.prefixes.pool.release(row.need)
        kv, row.kv = row.kv, None
        if keep and kv is not None and self.forward.packed and not kv.cross:
            self.prefixes.keep(row.ids, kv)


def _work(row: Row, ids: list[int]) -> Work:
    assert row.kv is not None
    return Work(row.kv, ids, row.kv.length + len(ids) == len(row.ids))


def _told(local: LocalModel, error: Exception) -> PipeError:
    made = PipeError(f"{local.name} failed in a forward pass: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
