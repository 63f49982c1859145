"""A text pipe over any server that speaks the OpenAI API: vLLM, transformers serve, a cluster behind one address.

The stream is read as it is asked for: a reader that stops is felt by the server through TCP. Closing the pipe closes
the connection, which is how these servers learn that nobody listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn

from multimodal.errors import PipeError, RemoteProtocolError, UsageError
from multimodal.loops import loop_here
from multimodal.pipes.base import played_already
from multimodal.pipes.openai_stream import AnswerStream, Usage, bearer, error_words, payload
from multimodal.pipes.stops import StopSequences
from multimodal.pipes.text_client import beginning, httpx2, text_client
from multimodal.pipes.upstreams import RefusedError, Server, Upstreams, refusal, together
from multimodal.sse_reader import SSEDecoder
from multimodal.values import Token

__all__ = ["CONNECT_LIMIT", "FIRST_LIMIT", "IDLE_LIMIT", "RemoteTextPipe"]

log = logging.getLogger(__name__)

CONNECT_LIMIT = 3.0
"""Seconds in which a server takes the connection."""
FIRST_LIMIT = 60.0
"""Seconds to its first bytes: a busy server queues, and then reads the prompt."""
IDLE_LIMIT = 20.0
"""Seconds between two of its chunks; a batch step of a large model on a CPU takes two."""
ALIVE_TIMES = 5
"""So many times the limit, a server may say only that it is alive."""
LAST_LIMIT = 2.0
"""Seconds for what may follow a finish_reason: the usage, ``[DONE]``."""


class RemoteTextPipe:
    """One answer of an OpenAI-compatible server, token by token (T1-T7, T10).

    A server that cannot be reached, is busy, refuses for a reason of its own or fails before the first token is
    replaced by the next; once a token came, a failure is an error, and never a quiet end. Tokens that came before it
    are given before it is raised, however the bytes were split. An answer that reached `max_tokens`, or was filtered,
    ends, and `cut` says so. Closing, and cancelling a pull, close the connection.

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
        connect_limit, first_limit, idle_limit: seconds for the connection, the first bytes, and between two chunks.

    Raises:
        UsageError: an argument of the wrong kind; httpx2 is not installed. Later: the request is wrong, or every server
            refused it, in their own words.
        PipeError: out of the iteration: no server answered, or one failed in the middle.
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
        self._client: Any = None
        self._response: Any = None
        self._bytes: AsyncIterator[bytes] | None = None
        self._server: Server | None = None
        self._wait: asyncio.Timeout | None = None
        self._decoder = SSEDecoder()
        self._answer: AnswerStream | None = None
        self._waiting: deque[Token] = deque()
        self._failure: PipeError | None = None
        self._heard = 0.0
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
        while not self._over and (server := self.upstreams.pick(_now(), tried)) is not None:
            tried.append(server.url)
            self._server, self._decoder, self._taken = server, SSEDecoder(), True
            self._answer = AnswerStream(server.url, self.stop)
            try:
                await self._ask(server)
                while not self._waiting and await self._more():
                    pass
            except RefusedError as error:
                refusing.append(server)
                await self._failed(failures, error, tried, ok=None)
            except PipeError as error:
                await self._failed(failures, error, tried, ok=False)
            else:
                for each in refusing:
                    self.upstreams.failed(each, _now())
                return
            self._answer = None
        if failures:
            raise together(failures) from failures[-1]

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
        await self._release(ok=ok)
        if not self._over:
            left = len(tried) < len(self.upstreams.servers)
            log.warning("%s; %s", error, "another server is asked" if left else "no other is left")

    async def _ask(self, server: Server) -> None:
        connect, first, _ = self._limits
        try:
            async with self._until(_now() + first):
                self._client = await text_client(server.url, connect)
                request = self._client.build_request(
                    "POST", server.url + self._path, content=self._body, headers=self._headers
                )
                self._response = await self._client.send(request, stream=True)
                if self._response.status_code != 200:
                    self._refused(server, await beginning(self._response))
        except (PipeError, UsageError, RefusedError):
            raise
        except TimeoutError as error:
            raise PipeError(f"{server.url} gave no answer within {first:g} s", retryable=True) from error
        except Exception as error:  # the library's own errors, and those of all that it stands on
            raise PipeError(f"{server.url} cannot be reached: {_why(error)}", retryable=True) from error
        kind = self._response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise PipeError(f"{server.url} answered with {kind or 'no content type'} and not with an event stream")
        self._bytes, self._heard = self._response.aiter_bytes(), _now()

    def _refused(self, server: Server, body: bytes) -> NoReturn:
        status = self._response.status_code
        words = error_words(body.decode(errors="replace"))
        raise refusal(status, f"{server.url} refused the request ({status}): {words}")

    @asynccontextmanager
    async def _until(self, when: float) -> AsyncIterator[None]:
        """A wait that is over at a time, or when the pipe is closed."""
        async with asyncio.timeout_at(when) as self._wait:
            try:
                yield
            finally:
                self._wait = None
        if self._over:  # closed as it ended
            raise TimeoutError

    async def _more(self) -> bool:
        """Read on; False = the answer has ended."""
        answer, stream = self._answer, self._bytes
        assert answer is not None
        assert stream is not None
        if answer.ended:
            return False
        idle = self._limits[2] if answer.tokens else self._limits[1]
        idle = min(idle, LAST_LIMIT) if answer.finish_reason else idle
        try:
            async with self._until(min(_now() + idle, self._heard + ALIVE_TIMES * idle)):
                data = await anext(stream, None)
        except TimeoutError as error:
            if answer.finish_reason:
                return self._close(answer)
            raise PipeError(
                f"{answer.server} sent no token for {_now() - self._heard:.3g} s, after {answer.tokens} tokens"
                f" (the limit is {idle:g} s, {ALIVE_TIMES} times as long where it says that it is alive)",
                retryable=True,
            ) from error
        except Exception as error:  # the library's own errors, and those of all that it stands on
            if answer.finish_reason:
                return self._close(answer)
            raise PipeError(
                f"the connection to {answer.server} was lost in the middle of its answer, after {answer.tokens}"
                f" tokens: {_why(error)}",
                retryable=True,
            ) from error
        if data is None:
            return self._close(answer)
        try:
            for event in self._decoder.feed(data):
                self._heard = _now()
                self._waiting.extend(answer.feed(event))
        except RemoteProtocolError as error:
            self._fail(PipeError(f"{answer.server}: {error}"))
        except PipeError as error:
            self._fail(error)
        return True

    def _close(self, answer: AnswerStream) -> bool:
        self._waiting.extend(answer.close())
        return bool(self._waiting)

    def _fail(self, error: PipeError) -> None:
        """Now, or behind the tokens that came with it."""
        if not self._waiting:
            raise error
        self._failure = error

    async def _end(self, *, ok: bool | None) -> None:
        self._over = True
        self._waiting.clear()
        if self._wait is not None:  # a pull waits, and this is another's call
            self._wait.reschedule(_now())
        await self._release(ok=ok)

    async def _release(self, *, ok: bool | None) -> None:
        server, self._bytes = self._server, None
        response, self._response = self._response, None
        client, self._client = self._client, None
        taken, self._taken = self._taken, False
        if taken and server is not None:
            if ok is None and self._failure is not None:
                ok = False
            elif ok is None and self._answer is not None and self._answer.tokens:
                ok = True  # it spoke until its reader left
            self.upstreams.done(server, _now(), ok=ok)
        if response is not None or client is not None:
            # Both, though the pull is cancelled meanwhile.
            await asyncio.shield(asyncio.ensure_future(_shut(response, client)))


async def _shut(*closing: Any) -> None:
    for each in closing:
        if each is not None:
            with suppress(Exception):  # a connection that cannot be closed is closed
                await each.aclose()


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _now() -> float:
    return loop_here("a text pipe").time()
