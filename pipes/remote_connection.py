"""One request to one server, and the bytes of its answer: the only part of `multimodal.pipes.remote` that waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn

from multimodal.errors import PipeError, UsageError
from multimodal.loops import loop_here
from multimodal.pipes.server_words import error_words, harmless, why
from multimodal.pipes.text_client import beginning, text_client
from multimodal.pipes.upstreams import RefusedError, refusal, retry_after

__all__ = ["Connection", "LostError", "now"]


class LostError(Exception):
    """The connection was lost; the message is the reason alone."""


class Connection:
    """One request and its answer. Closing it also ends a call of another task that waits, with TimeoutError.

    Args:
        server: its base URL.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.retry_after = 0.0
        """Seconds that the server asks to be left alone; 0 = it does not."""
        self._client: Any = None
        self._response: Any = None
        self._bytes: AsyncIterator[bytes] | None = None
        self._wait: asyncio.Timeout | None = None
        self._closed = False

    @property
    def open(self) -> bool:
        """Something of it is still held."""
        return self._client is not None or self._response is not None

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str], connect: float, first: float) -> None:
        """Send the request, and wait for an event stream to begin.

        Args:
            path: behind the base URL.
            body, headers: of the request.
            connect, first: seconds for the connection, and up to the answer's head.

        Raises:
            PipeError: the server cannot be reached, is busy, or answers with something else.
            UsageError: the request is wrong.
            RefusedError: it refuses for what may be a reason of its own.
        """
        try:
            async with self._until(now() + first):
                self._client = await text_client(self.server, connect)
                request = self._client.build_request("POST", self.server + path, content=body, headers=dict(headers))
                self._response = await self._client.send(request, stream=True)
                kind = self._response.headers.get("content-type", "")
                if self._response.status_code != 200:
                    self._refused(await beginning(self._response))
                if kind.partition(";")[0].strip().casefold() != "text/event-stream":
                    words = error_words((await beginning(self._response)).decode(errors="replace"))
                    raise PipeError(
                        f"{self.server} answered with {harmless(kind) or 'no content type'} and not with an event"
                        f" stream: {words}"
                    )
        except (PipeError, UsageError, RefusedError):
            raise
        except TimeoutError as error:
            raise PipeError(f"{self.server} gave no answer within {first:g} s", retryable=True) from error
        except Exception as error:  # the library's own errors, and those of all that it stands on
            raise PipeError(f"{self.server} cannot be reached: {why(error)}", retryable=True) from error
        self._bytes = self._response.aiter_bytes()

    def _refused(self, body: bytes) -> NoReturn:
        status, headers = self._response.status_code, self._response.headers
        self.retry_after = retry_after(headers.get("retry-after", ""), time.time())
        if 300 <= status < 400 and (place := headers.get("location", "")):
            words = f"it sends to {harmless(place)}; give the URL that this leads to, up to /v1"
        else:
            words = error_words(body.decode(errors="replace"))
        raise refusal(status, f"{self.server} refused the request ({status}): {words}")

    async def read(self, until: float) -> bytes | None:
        """The next bytes; None = the answer has ended.

        Args:
            until: on the loop's clock.

        Raises:
            TimeoutError: none came until then, or the connection was closed meanwhile.
            LostError: it was lost.
        """
        assert self._bytes is not None
        if now() >= until:  # bytes that are there already come without a wait, which a limit would not end
            raise TimeoutError
        try:
            async with self._until(until):
                return await anext(self._bytes, None)
        except TimeoutError:
            raise
        except Exception as error:  # the library's own errors, and those of all that it stands on
            raise LostError(why(error)) from error

    @asynccontextmanager
    async def _until(self, when: float) -> AsyncIterator[None]:
        """A wait that is over at a time, or when the connection is closed."""
        async with asyncio.timeout_at(when) as self._wait:
            try:
                yield
            finally:
                self._wait = None
        if self._closed:  # closed as it ended
            raise TimeoutError

    async def aclose(self) -> None:
        """Close it, so that the server stops. Twice is once; after a call that waited, also what that had begun."""
        self._closed = True
        if self._wait is not None and not self._wait.expired():  # a pull waits, and this is another's call
            self._wait.reschedule(now())
        response, self._response = self._response, None
        client, self._client = self._client, None
        if response is not None or client is not None:
            # Both, though the pull is cancelled meanwhile.
            await asyncio.shield(asyncio.ensure_future(_shut(response, client)))


async def _shut(*closing: Any) -> None:
    for each in closing:
        if each is not None:
            with suppress(Exception):  # a connection that cannot be closed is closed
                await each.aclose()


def now() -> float:
    """Seconds on the loop's clock."""
    return loop_here("a text pipe").time()
