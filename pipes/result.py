"""What `StreamProcessor.generate` gives: the tensor of `model.generate`, and a stream of its tokens as they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from types import TracebackType
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.bell import Bell
from multimodal.pipes.drop_in import GeneratePlan
from multimodal.pipes.generation import Finish
from multimodal.pipes.reader import AnswerReader, Logprob
from multimodal.pipes.result_tensor import TensorSide
from multimodal.values import Token

__all__ = ["GeneratedToken", "Generation"]


class GeneratedToken(Token, frozen=True):
    """A token of a `Generation`.

    Args:
        row: the row of the result it belongs to.
        token_id: its id; -1 for text that no token of its own brought.
        logprob: natural logarithm of its probability; None = not asked for.
    """

    row: int = 0
    token_id: int = -1
    logprob: float | None = None


class Generation(TensorSide):
    """The answers of one `generate` call, which began when it was called.

    As a tensor: indexing, `shape`, `len`, `tolist`, every other tensor method, operators, torch functions,
    `torch.as_tensor` and numpy wait for the end, then act on `sequences`. It is no `torch.Tensor`: whatever asks
    `isinstance` needs `sequences` itself, as in ``tokenizer.batch_decode(outputs.sequences)``. As a stream:
    ``for token in outputs`` and ``async for token in outputs`` give each `GeneratedToken` when it comes; each loop
    begins with the first token. While nobody reads, the engine stops after a bounded number of tokens. Waiting for the
    end blocks the thread, as `model.generate` does; in async code, ``await outputs`` first. Dropping the object,
    leaving its ``with`` block, `cancel`, and cancelling a task that waits for it give its rows up before their next
    step.

    Args:
        readers: one for each row.
        plan: what was asked for.
        loop_bound: the engine plays on the event loop of the caller, so that blocking it would wait for ever.

    Raises:
        PipeError: from loops and from whatever waits, when the engine failed.
    """

    def __init__(self, readers: Sequence[AnswerReader], plan: GeneratePlan, *, loop_bound: bool = False) -> None:
        self._readers, self._plan, self._loop_bound = list(readers), plan, loop_bound
        self._tokens: list[GeneratedToken] = []
        self._given = [0] * len(self._readers)
        self._bell = Bell()
        for reader in self._readers:
            reader.mailbox.on_arrival = self._bell.ring
        try:
            for reader in self._readers:
                reader.start()
        except BaseException:
            self.cancel()
            raise

    # ---- the stream

    def __iter__(self) -> Iterator[GeneratedToken]:
        index = 0
        while True:
            while index < len(self._tokens):
                index += 1
                yield self._tokens[index - 1]
            if not self._more_blocking():
                return

    def __aiter__(self) -> AsyncIterator[GeneratedToken]:
        return _AsyncTokens(self)

    def __await__(self) -> Generator[Any, None, Generation]:
        """Wait for the end without blocking the loop; gives this object, whose tensor side no longer waits."""
        return self._finished().__await__()

    def cancel(self) -> None:
        """Give the rows up; what came so far stays readable. From any thread; twice is once."""
        for reader in self._readers:
            reader.close()
        self._bell.ring()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __del__(self) -> None:
        for reader in self.__dict__.get("_readers", ()):
            reader.close()

    # ---- what came

    @property
    def done(self) -> bool:
        """Whether everything has come, without waiting."""
        return self._over and not self._failed

    @property
    def token_ids(self) -> list[list[int]]:
        """The generated tokens of each row, without prompt and padding; waits for the end."""
        self._wait()
        return [reader.token_ids for reader in self._readers]

    @property
    def text(self) -> str:
        """The text of the only row; waits for the end.

        Raises:
            UsageError: there are several rows.
        """
        if len(self._readers) > 1:
            raise UsageError(f"this Generation has {len(self._readers)} rows; read .texts")
        return self.texts[0]

    @property
    def texts(self) -> list[str]:
        """The text of each row, without special tokens and stop strings; waits for the end."""
        self._wait()
        return ["".join(t.text for t in self._tokens if t.row == row) for row in range(len(self._readers))]

    @property
    def finish_reasons(self) -> list[Finish]:
        """Why each row ended; waits for the end."""
        self._wait()
        return [reader.finish for reader in self._readers]

    @property
    def logprobs(self) -> list[list[Logprob]]:
        """How likely each token of each row was; waits for the end.

        Raises:
            UsageError: they were not asked for.
        """
        if self._plan.requests[0].logprobs is not None:
            self._wait()
        return [reader.logprobs for reader in self._readers]

    @property
    def metrics(self) -> list[Any]:
        """The `AnswerFigures` of each row so far, without waiting."""
        return [reader.figures for reader in self._readers]

    def __repr__(self) -> str:
        rows, tokens = len(self._readers), len(self._tokens)
        return f"<Generation of {rows} row{'s' * (rows > 1)}, {tokens} tokens read{', done' * self.done}>"

    # ---- reading

    @property
    def _over(self) -> bool:
        return all(reader.over for reader in self._readers)

    @property
    def _failed(self) -> bool:
        return any(reader.failure is not None for reader in self._readers)

    def _read(self, now: float) -> bool:
        """Take what came; False when nothing more will."""
        before = len(self._tokens)
        for row, reader in enumerate(self._readers):
            if reader.over and reader.failure is None:
                continue
            try:
                tokens = reader.read(now)
            except Exception:
                self.cancel()
                if len(self._tokens) > before:
                    return True  # first what came, then that it went wrong
                raise
            for token in tokens:
                place = self._given[row]
                self._given[row] += 1
                step = reader.steps[place] if place < len(reader.steps) else None
                self._tokens.append(
                    GeneratedToken(
                        token.text,
                        token.last,
                        row=row,
                        token_id=-1 if step is None else step.token_id,
                        logprob=None if step is None else step.logprob,
                    )
                )
        return not self._over

    def _timeout(self, now: float) -> float | None:
        waits = [reader.timeout(now) for reader in self._readers if not reader.over]
        return min((wait for wait in waits if wait is not None), default=None)

    def _more_blocking(self) -> bool:
        """Wait until there are more tokens; False at the end."""
        before = len(self._tokens)
        while True:
            now = time.monotonic()
            goes_on = self._read(now)
            if len(self._tokens) > before:
                return True
            if not goes_on:
                return False
            if self._loop_bound:
                raise UsageError(
                    "blocking here would wait for ever: the engine plays on this thread's event loop; "
                    "use `async for token in outputs`, or `await outputs` first"
                )
            try:
                self._bell.wait_blocking(self._timeout(now))
            except KeyboardInterrupt:
                self.cancel()
                raise

    async def _more(self) -> bool:
        loop, before = asyncio.get_running_loop(), len(self._tokens)
        while True:
            now = loop.time()
            goes_on = self._read(now)
            if len(self._tokens) > before:
                return True
            if not goes_on:
                return False
            try:
                await self._bell.wait(self._timeout(now))
            except asyncio.CancelledError:
                self.cancel()
                raise

    def _unbounded(self) -> None:
        # Everything is kept in any case: a row must not wait for another that is read before it.
        for reader in self._readers:
            if not reader.over:
                reader.mailbox.resize(reader.request.max_new_tokens + 1)

    def _wait(self) -> None:
        if not self.done:
            self._unbounded()
            while self._more_blocking():
                pass

    async def _finished(self) -> Generation:
        self._unbounded()
        while await self._more():
            pass
        return self


class _AsyncTokens:
    """An iterator and no async generator: one that is left half-way needs no task to be closed."""

    def __init__(self, generation: Generation) -> None:
        self._generation, self._index = generation, 0

    def __aiter__(self) -> _AsyncTokens:
        return self

    async def __anext__(self) -> GeneratedToken:
        tokens = self._generation._tokens
        while self._index == len(tokens):
            if not await self._generation._more():
                raise StopAsyncIteration
        self._index += 1
        return tokens[self._index - 1]
