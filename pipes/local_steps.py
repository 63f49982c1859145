"""An engine of our own: a step loop over rows that each have keys and values of their own, in one thread.

It runs what transformers' manager cannot: int8 weights, seq2seq models, models with states instead of keys; and it
keeps the prefixes of finished answers in a pool bounded in bytes.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import torch

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.local_forward import Forward, Work, make_forward
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_pace import PrefillPace
from multimodal.pipes.local_prefixes import Prefixes
from multimodal.pipes.local_stepper import Row, Stepper
from multimodal.pipes.pool import BytePool, Policy
from multimodal.pipes.reclaim import check_policy
from multimodal.pipes.settings import check_count

if TYPE_CHECKING:
    from multimodal.pipes.batching import Admission

__all__ = ["Governs", "StepEngine"]

MOST_POOL = 2 << 30
"""Bytes of keys and values unless told: a quarter of the memory that is free, and at most this."""
LEAST_POOL = 64 << 20
WARM_PROMPT, WARM_TOKENS = 15, 2
"""Tokens of a prompt that warms up, and of its answer."""
JOIN = 30.0
"""Seconds that `close` waits for the pass that runs; a pass of 256 tokens of a 1 B model takes 10."""


class Governs(Protocol):
    """What an engine asks of a governor: how long to rest after so much work."""

    def pace(self, cpu_seconds_used: float, now: float) -> float: ...


class StepEngine:
    """E1-E6 for every kind of model.

    Float32 rows come out bit for bit the same in every batch where oneDNN packs weights (x86 CPUs), int8 rows
    everywhere; the text is that of `model.generate` up to rounding, so that only near-equal logits may differ.

    Args:
        local: the model; it is not changed, but for one that `LocalModel.load` read itself.
        max_rows: most rows of the batch; more wait.
        pool_bytes: memory for keys and values, of running rows and of kept prefixes; None = a quarter of what is free.
        keep_free: share of it that kept prefixes leave free.
        reclaim_policy: which kept prefix goes first: "lru", "size", "hybrid"; None = "hybrid".
        admission: who joins when; None = all that fit, at once.
        governor: says after each step how long to rest.
        prefill_chunk: most prompt tokens of a step.
        prefill_slowdown: how many times longer than usual a step may take while a prompt is read; 0 = any.

    Raises:
        UsageError: a value out of its range, or a model that cannot be stepped.
        PipeError: the model's own forward pass does not work.
    """

    kind = "steps"

    def __init__(
        self,
        local: LocalModel,
        *,
        max_rows: int = 8,
        pool_bytes: int | None = None,
        keep_free: float = 0.3,
        reclaim_policy: Policy | None = None,
        admission: Admission | None = None,
        governor: Governs | None = None,
        prefill_chunk: int = 256,
        prefill_slowdown: float = 1.8,
    ) -> None:
        _check_rows(max_rows)
        _check_memory(pool_bytes, reclaim_policy)
        pace = PrefillPace(prefill_chunk, prefill_slowdown)
        size = _default_pool() if pool_bytes is None else pool_bytes
        pool: BytePool[tuple[int, ...], Any] = BytePool(size, keep_free=keep_free, policy=reclaim_policy or "hybrid")
        self.why = "asked for"
        """Why this engine and not another."""
        self._core = _Core(local, Prefixes(pool), max_rows, admission, governor, pace)
        self._drop = weakref.finalize(self, self._core.close)

    @property
    def packed(self) -> bool:
        """Rows share passes; False = this kind of model runs one row at a time."""
        return self._core.forward.packed

    @property
    def extra_bytes(self) -> int:
        """Weights that are held a second time, in the form that batches are run in."""
        return self._core.forward.copies

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1.

        Raises:
            UsageError: the engine is closed or failed, a token the model does not have, or a request that needs more
                positions than the model or more memory than the pool has.
        """
        self._core.submit(request, mailbox)

    def configure(
        self,
        *,
        max_rows: int | None = None,
        keep_free: float | None = None,
        reclaim_policy: Policy | None = None,
        pool_bytes: int | None = None,
        admission: Admission | None = None,
    ) -> None:
        """Other settings from the next step on; None = as it is.

        Raises:
            UsageError: a value out of its range, or a pool that holds no answer; nothing is changed then.
        """
        if max_rows is not None:
            _check_rows(max_rows)
        _check_memory(pool_bytes, reclaim_policy)
        if pool_bytes is not None and pool_bytes < (least := self._core.bytes_of(WARM_PROMPT, WARM_TOKENS)):
            raise UsageError(f"pool_bytes={pool_bytes} holds no answer; give {least} or more")
        self._core.configure(max_rows, keep_free, reclaim_policy, pool_bytes, admission)

    @property
    def pool_settings(self) -> dict[str, Any]:
        """What `configure` takes to make the memory for keys and values as it is now."""
        return self._core.pool_settings

    def warm_up(self, count: int) -> int:
        """Run so many short prompts to their second token, and wait for them; gives how many were run.

        Raises:
            UsageError: a negative count, or the engine is closed.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise UsageError(f"warm_up({count!r}): give 0 prompts or more")
        vocabulary = self._core.local.vocab_size
        for first in range(0, count, self._core.stepper.max_rows):
            boxes = []
            for number in range(first, min(count, first + self._core.stepper.max_rows)):
                ids = tuple((number * 31 + place * 7) % vocabulary for place in range(WARM_PROMPT))
                boxes.append(Mailbox())
                self.submit(GenerationRequest(ids, max_new_tokens=WARM_TOKENS), boxes[-1])
            for box in boxes:
                while box.wait_blocking() and not (box.ended and not box.take()):
                    pass
        return count

    def stats(self) -> EngineStats:
        """What it did so far, and what it holds now."""
        return self._core.stats()

    def close(self) -> None:
        """E6. It also closes by itself when nobody holds it any more, and at the end of the process."""
        self._drop()


def _check_memory(pool_bytes: object, reclaim_policy: object) -> None:
    check_count("pool_bytes", pool_bytes, "bytes")
    if reclaim_policy is not None:
        check_policy(reclaim_policy, "reclaim_policy")


class _Core:
    """The thread and what it shares with callers; it does not hold the engine, so that the engine can go."""

    def __init__(
        self,
        local: LocalModel,
        prefixes: Prefixes,
        max_rows: int,
        admission: Admission | None,
        governor: Governs | None,
        pace: PrefillPace,
    ) -> None:
        self.local = local
        self.forward: Forward = make_forward(local)
        self.per_token, self.per_prompt = _kv_bytes(self.forward, local)
        self.stepper = Stepper(local, self.forward, prefixes, max_rows=max_rows, admission=admission, pace=pace)
        self._pool = prefixes.pool
        self._governor = governor
        self._changed = threading.Condition()
        self._came: deque[Row] = deque()
        self._orders: deque[Any] = deque()
        self._stirred = self._closing = False
        self._broken: Exception | None = None
        # A daemon, so that the interpreter's end does not wait for it; the finaliser of the engine then ends it.
        self._thread = threading.Thread(target=self._loop, name="multimodal-steps", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        row = Row(request, mailbox, self.local.decoder_start, self._need(request))
        with self._changed:
            if self._closing:
                raise UsageError("this engine is closed; make another one")
            if self._broken is not None:
                raise UsageError(f"this engine failed and takes nothing any more: {self._broken}") from self._broken
            mailbox.times.submitted = time.monotonic()
            mailbox.on_room = self._stir
            self._came.append(row)
            self._changed.notify()

    def bytes_of(self, prompt: int, new: int) -> int:
        """Keys and values of an answer of so many tokens to a prompt of so many."""
        decoder = len(self.local.decoder_start) + new if self.local.decoder_start else prompt + new
        return max(1, self.per_token * decoder + self.per_prompt * prompt)

    @property
    def pool_settings(self) -> dict[str, Any]:
        pool = self._pool
        return {"pool_bytes": pool.limit_bytes, "keep_free": pool.keep_free, "reclaim_policy": pool.policy}

    def _need(self, request: GenerationRequest) -> int:
        wrong = [each for each in request.prompt_ids if not 0 <= each < self.local.vocab_size]
        if wrong:
            raise UsageError(
                f"the prompt has the token {wrong[0]}; {self.local.name} has 0 to {self.local.vocab_size - 1}"
            )
        prompt, new, most = len(request.prompt_ids), request.max_new_tokens, self.local.context_length
        apart = bool(self.local.decoder_start)
        positions = max(prompt, len(self.local.decoder_start) + new) if apart else prompt + new
        if most is not None and positions > most:
            raise UsageError(
                f"{prompt} prompt tokens and max_new_tokens={new} need {positions} positions; "
                f"{self.local.name} has {most}"
            )
        need = self.bytes_of(prompt, new)
        if need > self._pool.limit_bytes:
            raise UsageError(
                f"{prompt} prompt tokens and max_new_tokens={new} need {need} bytes of keys and values; "
                f"the pool has {self._pool.limit_bytes}: raise pool_bytes or ask for fewer tokens"
            )
        return need

    def configure(
        self,
        max_rows: int | None,
        keep_free: float | None,
        policy: Policy | None,
        pool_bytes: int | None,
        admission: Admission | None,
    ) -> None:
        self._pool.configure(limit_bytes=pool_bytes, keep_free=keep_free, policy=policy)
        with self._changed:
            if max_rows is not None:
                self.stepper.max_rows = max_rows
            if admission is not None:
                self._orders.append(lambda: self.stepper.change_admission(admission))
            self._stirred = True
            self._changed.notify()

    def stats(self) -> EngineStats:
        held, pool, counts = self.stepper, self._pool.stats(), self.stepper.counts
        fields: dict[str, Any] = {name: getattr(counts, name) for name in counts.__struct_fields__}
        fields |= {"running": len(held.rows), "waiting": held.waiting + len(self._came), "pool_bytes": pool.bytes}
        fields |= {"pool_high_bytes": pool.high_bytes, "pool_low_bytes": pool.low_bytes, "pool_stalls": pool.stalls}
        return EngineStats(**fields)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN)

    def _stir(self) -> None:
        with self._changed:
            self._stirred = True
            self._changed.notify()

    # ---- the thread

    def _loop(self) -> None:
        try:
            while self._next():
                concerned = self.stepper.everyone()
                try:
                    self._turn()
                except BaseException as error:
                    # Of every kind (E2): those of this thread mean nobody else. Who comes next is served, but where
                    # nobody was there to blame it would fail for ever.
                    if not concerned:
                        raise
                    self.stepper.abandon(self._told(error))
        except BaseException as error:
            self._end(self._told(error))
        else:
            self._end(PipeError("the engine was closed before this answer ended"))

    def _turn(self) -> None:
        """One step, and what follows it."""
        # torch's own threads count too, where it has more than this one.
        clock = time.thread_time if torch.get_num_threads() == 1 else time.process_time
        began = clock()
        worked = self.stepper.step()
        self.stepper.counts.cpu += clock() - began
        if worked:
            self._rest()
        else:
            self._wait()

    def _told(self, error: BaseException) -> PipeError:
        failure = PipeError(f"the engine of {self.local.name} failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure

    def _next(self) -> bool:
        """Take over what callers brought; False = it is over."""
        with self._changed:
            came, self._came = self._came, deque()
            orders, self._orders = self._orders, deque()
            self._stirred = False
            closing = self._closing
        for order in orders:
            order()
        for row in came:
            self.stepper.offer(row)
        return not closing

    def _wait(self) -> None:
        due = self.stepper.next_timer()
        timeout = None if due is None else max(0.0, due - time.monotonic())
        with self._changed:
            self._changed.wait_for(lambda: self._stirred or self._closing or bool(self._came), timeout)

    def _rest(self) -> None:
        if self._governor is None:
            return
        seconds = self._governor.pace(self.stepper.counts.cpu, time.monotonic())
        if seconds > 0:
            with self._changed:
                # Nothing but the end cuts a rest short, or many newcomers would be as good as no governor.
                self._changed.wait_for(lambda: self._closing, seconds)

    def _end(self, error: PipeError) -> None:
        with self._changed:
            if not self._closing:
                self._broken = error
            came, self._came = self._came, deque()
        for row in came:
            self.stepper.offer(row)
        self.stepper.abandon(error)


def _kv_bytes(forward: Forward, local: LocalModel) -> tuple[int, int]:
    """Bytes of keys and values for a token of the decoder, and for one of an encoder's prompt: measured."""
    count = 8
    ids = [index % local.vocab_size for index in range(count)]
    kv, _ = forward.start(ids, local.decoder_start, count, count)
    if not local.decoder_start:
        forward.run([Work(kv, ids, True)])
        return -(-kv.bytes // count), 0
    cross = sum(each.numel() * each.element_size() for pair in kv.cross for each in pair)
    if forward.packed:
        return -(-(kv.bytes - cross) // count), -(-cross // count)
    return -(-kv.bytes // count), -(-kv.bytes // count)


def _default_pool() -> int:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        free = 4 * LEAST_POOL
    return max(LEAST_POOL, min(MOST_POOL, free // 4))


def _check_rows(max_rows: int) -> None:
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise UsageError(f"max_rows={max_rows!r} is out of range; give 1 or more")
