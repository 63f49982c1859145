"""An engine that plays given token ids at a given pace: what stands above engines, tested without a model.

Inside an event loop it plays on that loop and its clock, so that an hour of it takes milliseconds of virtual time.
Elsewhere a thread of its own plays, so that blocking readers work too.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import Finish, GenerationRequest, Step

__all__ = ["Script", "ScriptEngine"]

NOTED = 1000
"""Requests that are kept for assertions."""
Script = Sequence[int] | Sequence[Sequence[int]] | Callable[[GenerationRequest], Sequence[int]]
"""Token ids of every answer; of one answer after the other, over and over; or what gives them for a request."""


class ScriptEngine:
    """E1-E6. Plays token ids; each answer's schedule is absolute, and goes on from where a full mailbox stopped it.

    An answer ends with the first of the request's end tokens (finish "stop"), with its last scripted token ("stop"),
    or at its limit ("length"). An end token before `min_new_tokens` is passed over, as a model would not choose it.

    Args:
        script: what is played.
        ttft: seconds from an answer's place in the batch to its first token.
        gap: seconds between its tokens; a sequence gives one gap after the other, over and over.
        max_rows: answers played at once; more wait.
        fail_at: (tokens of an answer, what it fails with then): a message becomes a PipeError.

    Raises:
        UsageError: a wrong argument.
    """

    def __init__(
        self,
        script: Script,
        *,
        ttft: float = 0.0,
        gap: float | Sequence[float] = 0.0,
        max_rows: int = 64,
        fail_at: tuple[int, str | Exception] | None = None,
    ) -> None:
        self._script = script
        self._ttft = _seconds("ttft", ttft)
        self._gaps = [_seconds("gap", each) for each in ([gap] if isinstance(gap, int | float) else gap)]
        if not self._gaps or max_rows < 1:
            raise UsageError(f"ScriptEngine gap={gap!r}, max_rows={max_rows!r}; give at least one gap and one row")
        self.settings: dict[str, Any] = {"max_rows": max_rows}
        """What `configure` was given, for assertions; of it only `max_rows` acts here."""
        self.requests: deque[GenerationRequest] = deque(maxlen=NOTED)
        """The last requests, in order."""
        self._asked = 0
        self.warmed = 0
        self._fail_at = fail_at
        self._stats = EngineStats()
        self._rows: list[_Row] = []
        self._waiting: deque[_Row] = deque()
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None
        self._closed = False

    @property
    def needs_loop(self) -> bool:
        """What is submitted here and now is played by the running event loop: blocking it would wait for ever."""
        return _running() is not None

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1. Play an answer: on the loop that runs here, else on the engine's own thread.

        Raises:
            UsageError: the engine is closed.
        """
        with self._lock:
            if self._closed:
                raise UsageError("this ScriptEngine is closed; make a new one")
            loop = _running()
            if loop is None:
                self._thread = self._thread or _LoopThread()
                loop = self._thread.loop
            number, self._asked = self._asked, self._asked + 1
            self.requests.append(request)
            row = _Row(self, loop, request, mailbox, self._ids(request, number), self._gaps, self._fail_at)
            self._waiting.append(row)
        mailbox.times.submitted = loop.time()
        mailbox.on_room = row.wake
        self._admit()

    def configure(self, **settings: Any) -> None:
        """Settings while it runs; rows that run already go on."""
        self.settings |= settings
        self._admit()

    def warm_up(self, count: int) -> int:
        """As engines do that have something to warm; gives the number of prompts run."""
        self.warmed += count
        return count

    def stats(self) -> EngineStats:
        """What was played so far."""
        with self._lock:
            self._stats.running, self._stats.waiting = len(self._rows), len(self._waiting)
            return self._stats

    def close(self) -> None:
        """E6. Every answer still played ends with an error."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            rows = [*self._rows, *self._waiting]
            self._rows.clear()
            self._waiting.clear()
            self._stats.failed += len(rows)
        for row in rows:
            row.stop()
            row.mailbox.fail(PipeError("the engine was closed before the answer ended", retryable=True))
        if self._thread is not None:
            self._thread.stop()

    def _ids(self, request: GenerationRequest, number: int) -> list[int]:
        script = self._script
        if callable(script):
            return list(script(request))
        if not script or isinstance(script[0], int):
            return [each for each in script if isinstance(each, int)]
        answer = script[number % len(script)]
        return [] if isinstance(answer, int) else list(answer)

    def _admit(self) -> None:
        with self._lock:
            free = int(self.settings["max_rows"]) - len(self._rows)
            admitted = [self._waiting.popleft() for _ in range(min(max(free, 0), len(self._waiting)))]
            self._rows += admitted
        for row in admitted:
            row.begin(self._ttft)

    def _made(self, tokens: int) -> None:
        with self._lock:
            self._stats.tokens += tokens
            self._stats.steps += tokens
            self._stats.row_steps += tokens

    def _gone(self, row: _Row, how: str) -> None:
        with self._lock:
            if row not in self._rows:
                return
            self._rows.remove(row)
            setattr(self._stats, how, getattr(self._stats, how) + 1)
        self._admit()


class _Row:
    """One answer on its loop."""

    def __init__(
        self,
        engine: ScriptEngine,
        loop: asyncio.AbstractEventLoop,
        request: GenerationRequest,
        mailbox: Mailbox,
        ids: list[int],
        gaps: list[float],
        fail_at: tuple[int, str | Exception] | None,
    ) -> None:
        self.mailbox = mailbox
        self._engine, self._loop, self._request = engine, loop, request
        self._ids = deque(ids)
        self._gaps, self._fail_at = gaps, fail_at
        self._made = 0
        self._due = math.nan
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self, ttft: float) -> None:
        """It has a place in the batch; called from any thread."""

        def first() -> None:
            self.mailbox.times.admitted = self._loop.time()
            self._due = self._loop.time() + ttft
            self._go()

        self._on_loop(first)

    def wake(self) -> None:
        """There is room, or the reader is gone; called from the reader's thread."""
        self._on_loop(self._go)

    def stop(self) -> None:
        """Play nothing more."""
        self._over = True

    def _on_loop(self, call: Callable[[], None]) -> None:
        try:
            if _running() is self._loop:
                self._loop.call_soon(call)
            else:
                self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed, and with it the reader
            self._end("cancelled")

    def _go(self) -> None:
        if self._over:
            return
        if self.mailbox.closed:
            return self._end("cancelled")
        if math.isnan(self._due) or self.mailbox.full:
            return
        now = self._loop.time()
        if self._due > now:
            if self._timer is None:
                self._timer = self._loop.call_at(self._due, self._ring)
            return
        if self._fail_at is not None and self._fail_at[0] == self._made:
            what = self._fail_at[1]
            self.mailbox.fail(what if isinstance(what, Exception) else PipeError(what))
            return self._end("failed")
        self._step(now)
        self._due = max(self._due, now) + self._gaps[(self._made - 1) % len(self._gaps)]
        if not self._over:
            self._loop.call_soon(self._go)

    def _ring(self) -> None:
        self._timer = None
        self._go()

    def _step(self, now: float) -> None:
        request = self._request
        if self._made == 0:
            self.mailbox.times.prefilled = now
        while self._ids and self._made < request.min_new_tokens and self._ids[0] in request.eos_ids:
            self._ids.popleft()
        token = self._ids.popleft() if self._ids else -1
        self._made += token >= 0
        finish: Finish = ""
        fails_next = self._fail_at is not None and self._fail_at[0] == self._made
        if token in request.eos_ids or (not self._ids and not fails_next):
            finish = "stop"
        elif self._made == request.max_new_tokens:
            finish = "length"
        logprob = None if request.logprobs is None else 0.0
        top = ((token, 0.0),) if request.logprobs else ()
        self.mailbox.put(Step(token, now, finish, logprob, top))
        self._engine._made(token >= 0)
        if finish:
            self._end("finished")

    def _end(self, how: str) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._engine._gone(self, how)


class _LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="multimodal-script-engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"ScriptEngine {name}={value!r} must be a finite number of seconds, 0 or more")
    return float(value)
