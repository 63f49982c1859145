"""A text pipe over any server that speaks the OpenAI API: vLLM, transformers serve, a cluster behind one address.

The stream is read as it is asked for: a reader that stops is felt by the server through TCP. Closing the pipe closes
the connection, which is how these servers learn that nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from multimodal.errors import PipeError, RemoteProtocolError, UsageError
from multimodal.pipes.base import played_already
from multimodal.pipes.openai_request import bearer, payload
from multimodal.pipes.openai_stream import AnswerStream, EmptyAnswerError, Usage
from multimodal.pipes.remote_connection import Connection, LostError, now
from multimodal.pipes.stops import StopSequences
from multimodal.pipes.text_client import httpx2
from multimodal.pipes.upstreams import RefusedError, Server, Upstreams, together
from multimodal.sse_reader import SSEDecoder, SSEEvent
from multimodal.values import Token

__all__ = ["CONNECT_LIMIT", "FIRST_LIMIT", "IDLE_LIMIT", "THINK_LIMIT", "RemoteTextPipe"]

log = logging.getLogger(__name__)

CONNECT_LIMIT = 3.0
"""Seconds in which a server takes the connection."""
FIRST_LIMIT = 60.0
"""Seconds to its first bytes: a busy server queues, and then reads the prompt."""
IDLE_LIMIT = 20.0
"""Seconds between two of its chunks; a batch step of a large model on a CPU takes two."""
ALIVE_TIMES = 5
"""So many times the limit, a server may say only that it is alive: by comments, or by chunks that bring no token."""
THINK_LIMIT = 300.0
"""Seconds without a token, where the model thinks meanwhile and says so, whatever the other limits are."""
LAST_LIMIT = 2.0
"""Seconds for all that may follow a finish_reason: the usage, ``[DONE]``."""


class RemoteTextPipe:
    """One answer of an OpenAI-compatible server, token by token (T1-T7, T10).

    A server that cannot be reached, is busy, refuses for a reason of its own or fails before the first token is
    replaced by the next; once a token came, a failure is an error, and never a quiet end. Tokens that came before it
    are given before it is raised, however the bytes were split. An answer that reached `max_tokens`, or was filtered,
    ends, and `cut` says so; one without any text is an error. What a model thinks is left out, in fields of its own as
    in a chat between ``<think>`` and ``</think>``; it may think for `THINK_LIMIT`. Closing, and cancelling a pull,
    close the connection.

    Args:
        base_url: the server's, with the path up to ``/v1``; several of them, or an `Upstreams` that pipes share.
        model: as the server calls it.
        prompt: a user's words, or the messages of a chat.
        system: a system message before them.
        chat: False = ask for a completion of `prompt` as it stands (``/completions``).
        max_tokens, temperature, top_p, stop, seed: as the API has them; None = the server's own.
        token_ids: ask for token ids, so that a token is a token; of vLLM. Else one delta is one token.
        extra: further fields of the request, such as ``{"top_k": 20}``.
        api_key: sent as Bearer; never logged.
        connect_limit, first_limit, idle_limit: seconds for the connection, the first bytes, and between two chunks; for
            a token, where what comes brings none, `ALIVE_TIMES` the last two.

    Raises:
        UsageError: an argument of the wrong kind; httpx2 is not installed. Later: the request is wrong, or every server
            refused it, in their own words.
        PipeError: out of the iteration: no server answered, or said anything, or one failed in the middle.
    """

    def __init__(
        self,
        base_url: str | Sequence[str] | Upstreams,
        model: str,
        prompt: str | Sequence[Mapping[str, Any]],
        *,
        system: str = "",
        chat: bool = True,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: Sequence[str] = (),
        seed: int | None = None,
        token_ids: bool = False,
        extra: Mapping[str, Any] | None = None,
        api_key: str = "",
        connect_limit: float = CONNECT_LIMIT,
        first_limit: float = FIRST_LIMIT,
        idle_limit: float = IDLE_LIMIT,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise UsageError(f"model={model!r}: give the name by which the server knows it")
        if not chat and not isinstance(prompt, str):
            raise UsageError("chat=False asks for a completion of one text; give prompt as a string")
        if not prompt:
            raise UsageError("prompt is empty; give words, or the messages of a chat")
        if extra is not None and not isinstance(extra, Mapping):
            raise UsageError(f"extra={extra!r} must be a mapping of further fields, such as {{'top_k': 20}}")
        limits = {"connect_limit": connect_limit, "first_limit": first_limit, "idle_limit": idle_limit}
        for name, limit in limits.items():
            if type(limit) not in (int, float) or not limit > 0:
                raise UsageError(f"{name}={limit!r} must be above 0 seconds")
        self.upstreams = base_url if isinstance(base_url, Upstreams) else Upstreams(base_url)
        self.model = model
        self.stop = [stop] if isinstance(stop, str) else list(stop)
        StopSequences(self.stop)  # says here what is wrong with them
        settings: dict[str, Any] = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "stop": self.stop or None,
            "seed": seed,
            "return_token_ids": True if token_ids else None,
            **(extra or {}),
        }
        self._body = payload(model, prompt, system=system, chat=chat, settings=settings)
        self._path = "/chat/completions" if chat else "/completions"
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            # What is compressed waits on its way for more to compress.
            "Accept-Encoding": "identity",
        }
        if authorization := bearer(api_key):
            self._headers["Authorization"] = authorization
        self._limits = (connect_limit, first_limit, idle_limit)
        self.token_unit = "token" if token_ids else "delta"
        self._httpx = httpx2()
        for server in self.upstreams.servers:
            try:
                self._httpx.URL(server.url)
            except self._httpx.InvalidURL as error:
                raise UsageError(f"base_url={server.url!r} is no URL: {error}") from error
        self._chat = chat
        self._connection: Connection | None = None
        self._server: Server | None = None
        self._decoder = SSEDecoder()
        self._answer: AnswerStream | None = None
        self._waiting: deque[Token] = deque()
        self._failure: PipeError | None = None
        self._silent_since = 0.0
        self._thoughts = self._strays = 0
        self._last_until: float | None = None
        self._over = self._taken = False

    @property
    def usage(self) -> Usage:
        """Tokens as the server counted them, once it said so."""
        return self._answer.usage if self._answer is not None else Usage()

    @property
    def finish_reason(self) -> str:
        """Why the server ended the answer; "" = it has not."""
        return self._answer.finish_reason if self._answer is not None else ""

    @property
    def cut(self) -> bool:
        """The answer has ended before the model came to its own end: at a limit of tokens, or by a filter (T10)."""
        return self._over and self._answer is not None and self._answer.cut

    @property
    def server(self) -> str:
        """The base URL of the server that answers; "" = none yet."""
        return self._server.url if self._server is not None else ""

    def __aiter__(self) -> RemoteTextPipe:
        if self._over:
            raise played_already(self)
        return self

    async def __anext__(self) -> Token:
        try:
            # A pull ends with a token, so that silence is as long as the pull: how long a reader takes is its own.
            self._hush()
            while not self._over and not self._waiting:
                if self._failure is not None:
                    raise self._failure
                if self._answer is None:
                    await self._begin()
                elif not await self._more():
                    await self._end(ok=True)
        except asyncio.CancelledError:
            await self._end(ok=None)
            raise
        except Exception as error:
            # Closed meanwhile, what was waited for fails, and is nobody's failure.
            closed = self._over
            await self._end(ok=False if isinstance(error, PipeError) else None)
            if not closed:
                raise
        if self._over:
            await self._release(ok=None)  # what it had begun when it was closed
            raise StopAsyncIteration
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Close the connection, also for a pull that waits, which ends: the server stops. Twice is once."""
        await self._end(ok=None)

    async def _begin(self) -> None:
        """Up to the first token: here, and only here, another server may be tried."""
        tried: list[str] = []
        refusing: list[Server] = []
        failures: list[PipeError | RefusedError] = []
        while not self._over and (server := self.upstreams.pick(now(), tried)) is not None:
            tried.append(server.url)
            self._server, self._taken, self._last_until = server, True, None
            self._decoder, self._strays = SSEDecoder(), 0
            self._answer = AnswerStream(server.url, self.stop, chat=self._chat)
            self._connection = Connection(server.url)
            try:
                connect, first, _ = self._limits
                await self._connection.ask(self._path, self._body, self._headers, connect, first)
                self._hush()
                while not self._waiting and await self._more():
                    pass
            except (RefusedError, EmptyAnswerError) as error:
                refusing.append(server)
                await self._failed(failures, error, tried, ok=None)
            except PipeError as error:
                await self._failed(failures, error, tried, ok=False)
            else:
                for each in refusing:
                    self.upstreams.failed(each, now())
                return
            self._answer = None
        if failures:
            raise _together(failures) from failures[-1]

    async def _failed(
        self,
        failures: list[PipeError | RefusedError],
        error: PipeError | RefusedError,
        tried: list[str],
        *,
        ok: bool | None,
    ) -> None:
        """Let go of a server before its first token, so that the next may be asked."""
        failures.append(error)
        if self._connection is not None and self._server is not None and self._connection.retry_after:
            self.upstreams.rest(self._server, now(), self._connection.retry_after)
        await self._release(ok=ok)
        if not self._over:
            left = len(tried) < len(self.upstreams.servers)
            log.warning("%s; %s", error, "another server is asked" if left else "no other is left")

    def _hush(self) -> None:
        self._silent_since = now()
        self._thoughts = self._answer.thoughts if self._answer is not None else 0

    def _patience(self, answer: AnswerStream) -> float:
        """When the next bytes must have come, on the loop's clock."""
        at = now()
        if answer.finish_reason:
            if self._last_until is None:
                self._last_until = at + LAST_LIMIT
            return self._last_until
        idle = self._limits[2] if answer.tokens else self._limits[1]
        alive = ALIVE_TIMES * idle
        if answer.thoughts > self._thoughts:
            alive = max(alive, THINK_LIMIT)
        return min(at + idle, self._silent_since + alive)

    async def _more(self) -> bool:
        """Read on; False = the answer has ended."""
        answer, connection = self._answer, self._connection
        assert answer is not None
        assert connection is not None
        if answer.ended:
            return False
        try:
            data = await connection.read(self._patience(answer))
        except TimeoutError as error:
            if answer.finish_reason:
                return self._close(answer)
            idle = self._limits[2] if answer.tokens else self._limits[1]
            self._fail(
                f"{answer.server} sent no token for {now() - self._silent_since:.3g} s, after {answer.tokens} tokens"
                f" (the limit is {idle:g} s, {ALIVE_TIMES} times as long where it says that it is alive, and"
                f" {THINK_LIMIT:g} s where its model thinks)",
                error,
            )
            return True
        except LostError as error:
            return self._close(answer, str(error))
        if data is None:
            return self._close(answer)
        try:
            self._feed(answer, self._decoder.feed(data))
        except RemoteProtocolError as error:
            self._fail(f"{answer.server}: {error}", error)
        except PipeError as error:
            self._raise(error)
        return True

    def _feed(self, answer: AnswerStream, events: Sequence[SSEEvent]) -> None:
        for event in events:
            self._waiting.extend(answer.feed(event))
        if len(self._decoder.stray) > self._strays:
            self._strays = len(self._decoder.stray)
            answer.overhear(self._decoder.stray.decode(errors="replace"))
        if answer.failure is not None:
            raise answer.failure

    def _close(self, answer: AnswerStream, lost: str = "") -> bool:
        """The response has ended, as it should or not; what it had begun may be whole."""
        try:
            for event in self._decoder.finish():
                self._waiting.extend(answer.last(event))
            self._feed(answer, ())
            self._waiting.extend(answer.close(lost))
        except RemoteProtocolError as error:
            self._fail(f"{answer.server}: {error}", error)
        except PipeError as error:
            self._raise(error)
        return bool(self._waiting)

    def _fail(self, words: str, cause: Exception) -> None:
        failure = PipeError(words, retryable=True)
        failure.__cause__ = cause
        self._raise(failure)

    def _raise(self, error: PipeError) -> None:
        """Now, or behind the tokens that came with it."""
        if self._answer is not None:
            self._waiting.extend(self._answer.give_up())
        if not self._waiting:
            raise error
        self._failure = error

    async def _end(self, *, ok: bool | None) -> None:
        self._over = True
        self._waiting.clear()
        await self._release(ok=ok)

    async def _release(self, *, ok: bool | None) -> None:
        server, connection = self._server, self._connection
        taken, self._taken = self._taken, False
        if taken and server is not None:
            if ok is None and self._failure is not None:
                ok = False
            elif ok is None and self._answer is not None and self._answer.tokens:
                ok = True  # it spoke until its reader left
            self.upstreams.done(server, now(), ok=ok)
        if connection is not None:
            await connection.aclose()


def _together(failures: Sequence[PipeError | RefusedError]) -> PipeError | UsageError:
    """One error for all servers; where one of them answered, without any text, it is that."""
    error = together(failures)
    empty = any(isinstance(each, EmptyAnswerError) for each in failures)
    return EmptyAnswerError(str(error), retryable=isinstance(error, PipeError) and error.retryable) if empty else error
