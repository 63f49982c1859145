"""An engine that plays given token ids at a given pace: what stands above engines, tested without a model.

Inside an event loop it plays on that loop and its clock, so that an hour of it takes milliseconds of virtual time.
Elsewhere a thread of its own plays, so that blocking readers work too.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import EngineStats, Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.script_rows import LoopThread, ScriptRow, running_loop

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
        self._rows: list[ScriptRow] = []
        self._waiting: deque[ScriptRow] = deque()
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._stop_thread: weakref.finalize[[], ScriptEngine] | None = None
        self._closed = False

    @property
    def needs_loop(self) -> bool:
        """What is submitted here and now is played by the running event loop: blocking it would wait for ever."""
        return running_loop() is not None

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1. Play an answer: on the loop that runs here, else on the engine's own thread.

        Raises:
            UsageError: the engine is closed.
        """
        with self._lock:
            if self._closed:
                raise UsageError("this ScriptEngine is closed; make a new one")
            loop = running_loop()
            if loop is None:
                if self._thread is None:
                    self._thread = LoopThread()
                    # An engine that is dropped unclosed leaves no thread behind either.
                    self._stop_thread = weakref.finalize(self, self._thread.stop)
                loop = self._thread.loop
            number, self._asked = self._asked, self._asked + 1
            self.requests.append(request)
            ids = self._ids(request, number)
            row = ScriptRow(self._made, self._gone, loop, request, mailbox, ids, self._gaps, self._fail_at)
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
        if self._stop_thread is not None:
            self._stop_thread()

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

    def _gone(self, row: ScriptRow, how: str) -> None:
        with self._lock:
            if row not in self._rows:
                return
            self._rows.remove(row)
            setattr(self._stats, how, getattr(self._stats, how) + 1)
        self._admit()


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"ScriptEngine {name}={value!r} must be a finite number of seconds, 0 or more")
    return float(value)
