"""One answer on its way from the engine's mailbox to tokens: what its shells (a pipe, a `Generation`) have in common.

It waits for nothing: a shell asks how long to wait, waits in its own way, and reads again.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from multimodal.errors import MultiModalError, PipeError, UsageError
from multimodal.pipes.engine import Engine, Mailbox
from multimodal.pipes.generation import Finish, GenerationRequest, Step
from multimodal.values import Token

__all__ = ["CAPACITY", "AnswerReader", "Flow", "Logprob", "Watcher"]

CAPACITY = 64
"""Steps that may wait for a reader before its row is no longer stepped."""


class Logprob(msgspec.Struct, frozen=True):
    """How likely a token was.

    Args:
        token_id: the token.
        logprob: natural logarithm of its probability after the samplers.
        top: the likeliest tokens with theirs, likeliest first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Flow(Protocol):
    """What `TextFlow` is to a reader: steps in, tokens out, time as an argument."""

    def feed(self, step: Step, now: float) -> None: ...

    def next_timer(self) -> float | None: ...

    def handle_timer(self, now: float) -> None: ...

    def take(self) -> list[Token]: ...

    def flush(self) -> None: ...

    @property
    def finished(self) -> Finish: ...


class Watcher(Protocol):
    """Hears what an answer does; called on the reader's thread, and must return at once."""

    def attach(self, reader: AnswerReader) -> None: ...

    def read(self, reader: AnswerReader, steps: list[Step], now: float) -> None: ...

    def left(self, reader: AnswerReader, tokens: list[Token], now: float) -> None: ...

    def ended(self, reader: AnswerReader, now: float) -> None: ...


class AnswerReader:
    """Reads one answer.

    Args:
        engine: makes it; asked at `start`.
        request: what is asked for.
        flow: turns steps into tokens.
        capacity: steps that may wait before its row is no longer stepped.
        watcher: hears what the answer does.
    """

    def __init__(
        self,
        engine: Engine,
        request: GenerationRequest,
        flow: Flow,
        *,
        capacity: int = CAPACITY,
        watcher: Watcher | None = None,
    ) -> None:
        self.request, self.flow = request, flow
        self.mailbox = Mailbox(capacity)
        self.steps: list[Step] = []
        """Every step that belongs to the answer: none behind the token that completed a stop sequence."""
        self.finish: Finish = ""
        self.failure: Exception | None = None
        self.started = self.over = False
        self.engine, self.watcher = engine, watcher
        self._fed_at = 0.0
        self._told = False
        if watcher is not None:
            watcher.attach(self)

    @property
    def token_ids(self) -> list[int]:
        """The answer so far, in token ids."""
        return [step.token_id for step in self.steps if step.token_id >= 0]

    @property
    def logprobs(self) -> list[Logprob]:
        """How likely each token so far was.

        Raises:
            UsageError: it was not asked for.
        """
        if self.request.logprobs is None:
            raise UsageError("logprobs were not asked for; pass logprobs=0, or how many of the likeliest to report")
        return [Logprob(step.token_id, step.logprob or 0.0, step.top) for step in self.steps if step.token_id >= 0]

    @property
    def figures(self) -> Any:
        """What the watcher kept of the answer, such as `AnswerFigures`; None = nothing."""
        figures = getattr(self.watcher, "figures", None)
        return None if figures is None else figures()

    def start(self) -> None:
        """Hand the request to the engine. Twice is once.

        Raises:
            UsageError: the engine is closed, or cannot do what is asked.
        """
        if not self.started:
            self.started = True
            self.engine.submit(self.request, self.mailbox)

    def read(self, now: float) -> list[Token]:
        """The tokens that may leave now; none while the text is held back. Ends in `over`.

        Raises:
            PipeError: the engine failed; what it had made before was given by earlier calls.
        """
        if self.failure is not None:
            raise self.failure
        if self.over:
            return []
        flow = self.flow
        try:
            steps = self.mailbox.take()
        except Exception as error:
            self.failure = error if isinstance(error, MultiModalError) else _failed(error)
            self.over = True
            flow.flush()
            tokens = flow.take()
            self._tell(tokens, now)
            if tokens:
                return tokens  # first what was said, then that it went wrong
            raise self.failure from error
        if steps:
            for step in steps:
                self.steps.append(step)
                # What waited for a slow reader has waited: it is not held anew. Time never goes back, though.
                self._fed_at = max(self._fed_at, min(step.at, now))
                flow.feed(step, self._fed_at)
                if flow.finished:
                    break
        if self.watcher is not None:
            self.watcher.read(self, steps, now)
        timer = flow.next_timer()
        if timer is not None and timer <= now:
            self._fed_at = now
            flow.handle_timer(now)
        tokens = flow.take()
        if flow.finished:
            self.finish, self.over = flow.finished, True
            self.mailbox.close()  # a stop sequence ends the answer before the engine knows
        if tokens or self.over:
            self._tell(tokens, now)
        return tokens

    def timeout(self, now: float) -> float | None:
        """Seconds until the flow has to be asked again though nothing came; None = until something comes."""
        if self.mailbox.ended:
            return 0.0  # the failure behind the last steps is not taken yet
        timer = self.flow.next_timer()
        return None if timer is None else max(0.0, timer - now)

    def close(self) -> None:
        """Nobody reads on: the row is given up before its next step (E4). Twice is once."""
        if not self.over:
            self.over = True
            self.finish = "cancelled"
            self._tell([], 0.0)
        self.mailbox.close()

    def _tell(self, tokens: list[Token], now: float) -> None:
        if self.watcher is not None:
            if tokens:
                self.watcher.left(self, tokens, now)
            if self.over and not self._told:
                self._told = True
                self.watcher.ended(self, now)


def _failed(error: Exception) -> PipeError:
    failure = PipeError(f"the engine failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
