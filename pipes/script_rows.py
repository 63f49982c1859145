"""The rows of a `ScriptEngine`: each plays one answer on an event loop."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable

from multimodal.errors import PipeError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import Finish, GenerationRequest, Step

__all__ = ["LoopThread", "ScriptRow", "running_loop"]


class ScriptRow:
    """One answer on its loop.

    Args:
        made: told of each token.
        gone: told of its end: finished, cancelled or failed.
        loop: plays it.
        request: what was asked for.
        mailbox: where its steps go.
        ids: what is played.
        gaps: seconds between tokens, over and over.
        fail_at: (tokens, what it fails with then).
    """

    def __init__(
        self,
        made: Callable[[int], None],
        gone: Callable[[ScriptRow, str], None],
        loop: asyncio.AbstractEventLoop,
        request: GenerationRequest,
        mailbox: Mailbox,
        ids: list[int],
        gaps: list[float],
        fail_at: tuple[int, str | Exception] | None,
    ) -> None:
        self.mailbox = mailbox
        self._tell_made, self._tell_gone = made, gone
        self._loop, self._request = loop, request
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
            if running_loop() is self._loop:
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
        self._tell_made(token >= 0)
        if finish:
            self._end("finished")

    def _end(self, how: str) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell_gone(self, how)


class LoopThread:
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


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread; None = none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
