"""Pictures from the web: fetched once for all who ask, within limits, and from nowhere but the public internet.

Retries happen only before the first byte of an answer; every redirect is judged anew; the address that a connection is
made to is the one that was judged (`multimodal.pipes.guarded_client`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urljoin

from multimodal.errors import UsageError
from multimodal.loops import loop_here
from multimodal.pipes.address_guard import AddressGuard
from multimodal.pipes.guarded_client import Answer, GuardedClient, NotPublicError, RoadError
from multimodal.pipes.intake import PictureRefused, sniff
from multimodal.pipes.workshop import Workshop

__all__ = ["RemotePictures"]

_STATUS = {401: "forbidden", 403: "forbidden", 404: "not_found", 410: "not_found", 429: "busy", 451: "forbidden"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
REDIRECT_LIMIT = 5
RETRY_WAIT_LIMIT = 5.0
"""Seconds of a server's Retry-After that are waited for; a longer one is an answer of its own."""
_BACKOFF = (0.2, 0.8)
_HEAD_BYTES = 1024


class RemotePictures:
    """Fetches pictures in worker threads and keeps them in a folder.

    Args:
        folder: where they are kept, for `max_age`, across restarts; None = a temporary one of its own.
        max_bytes: largest picture.
        time_limit: seconds that one picture may take, all attempts and redirects together.
        connect: seconds that a connection may take, and a server's silence may last.
        max_age: seconds for which a fetched picture is not fetched again.
        workers: pictures fetched at one time, at most.
        retries: further attempts after a failure that came before the first byte of an answer.
        headers: sent with every request, such as Referer or User-Agent.
        allow: networks that are not on the public internet and may be fetched from all the same.
        ports: TCP ports that may be connected to.

    Raises:
        UsageError: httpx2 is not installed, or a value out of its range.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 32 * 1024 * 1024,
        time_limit: float = 15.0,
        connect: float = 5.0,
        max_age: float = 86_400.0,
        workers: int = 6,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        allow: Iterable[str] = (),
        ports: Iterable[int] = (80, 443),
    ) -> None:
        if max_bytes < 1 or workers < 1 or retries < 0 or not (time_limit > 0 and connect > 0 and max_age >= 0):
            raise UsageError(
                f"RemotePictures max_bytes={max_bytes}, workers={workers}, retries={retries}, time_limit={time_limit}, "
                f"connect={connect}, max_age={max_age}: give 1 or more bytes and workers, 0 or more retries and "
                "max_age, and more than 0 seconds"
            )
        self.guard = AddressGuard(allow, ports)
        self.max_bytes, self.time_limit, self.max_age, self.retries = max_bytes, time_limit, max_age, retries
        self._client = GuardedClient(self.guard, connect, headers or {}, workers)
        if folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="multimodal-pictures-"))
            # Also where nobody closes it: the folder goes with the object.
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        else:
            self.folder = Path(folder)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"cannot keep pictures in {folder}: {error.strerror or error}") from error
        # The limit is kept inside; only a look-up of a name that never returns is left to the workshop's own.
        self._workshop: Workshop[str, Path | PictureRefused] = Workshop(
            workers, 2 * time_limit + connect, _given_up, "multimodal-fetch"
        )

    def known(self, url: str) -> Path | None:
        """The file of a picture that was fetched and is not too old; None = it has to be fetched."""
        path = self._path(url)
        try:
            fresh = time.time() - path.stat().st_mtime < self.max_age
        except OSError:
            return None
        return path if fresh else None

    def fetch(self, url: str) -> asyncio.Future[Path | PictureRefused]:
        """The file of the picture at that URL; why not, otherwise. Needs a running event loop.

        Cancelling the future withdraws the wish; a fetch that nobody else wants and that has not begun is dropped.

        Raises:
            UsageError: no event loop runs here.
        """
        loop, known = loop_here("fetch()"), self.known(url)
        if known is not None:
            future: asyncio.Future[Path | PictureRefused] = loop.create_future()
            future.set_result(known)
            return future
        return self._workshop.submit(url, 0, lambda: self._fetch(url))

    async def settle(self) -> None:
        """Wait for fetches that had begun when their last asker left, within their time."""
        await self._workshop.settle()

    def close(self) -> None:
        """Close its connections; what was fetched stays where a folder was given. Twice is once."""
        self._client.close()

    # ---- in a worker thread

    def _fetch(self, url: str) -> Path | PictureRefused:
        deadline = time.monotonic() + self.time_limit
        for attempt in range(self.retries + 1):
            try:
                return self._attempt(url, deadline)
            except _Again as again:
                wait = again.wait if again.wait is not None else _BACKOFF[min(attempt, len(_BACKOFF) - 1)]
                last = attempt == self.retries or wait > RETRY_WAIT_LIMIT or time.monotonic() + wait > deadline
                if last:
                    return again.refused
                time.sleep(wait)
            except PictureRefused as refused:
                return refused
            except Exception as error:  # whatever a server makes of HTTP, one picture never ends a tour
                return PictureRefused("unreadable", f"{url}: {type(error).__name__}: {error}")
        raise AssertionError("the loop returns")

    def _attempt(self, url: str, deadline: float) -> Path:
        place = url
        for _ in range(REDIRECT_LIMIT + 1):
            if why := self.guard.check_url(place):
                raise PictureRefused("refused_address", f"{url}: {_leads(url, place)}{why}")
            with self._answer(url, place, deadline) as answer:
                if answer.status not in _REDIRECTS:
                    return self._keep(url, answer, deadline)
                target = answer.headers.get("location", "")
            if not target:
                raise PictureRefused("unreadable", f"{url}: a redirect without a target")
            place = urljoin(place, target)
        raise PictureRefused("too_many_redirects", f"{url}: more than {REDIRECT_LIMIT} redirects")

    @contextlib.contextmanager
    def _answer(self, url: str, place: str, deadline: float) -> Iterator[Answer]:
        began = False
        try:
            if time.monotonic() > deadline:
                raise RoadError("timeout", "the time was over")
            with self._client.get(place) as answer:
                began = True
                self._judge(url, answer)
                yield answer
        except NotPublicError as error:
            raise PictureRefused("refused_address", f"{url}: {_leads(url, place)}{error}") from error
        except RoadError as error:
            if error.kind == "url":
                raise PictureRefused("refused_address", f"{url}: {_leads(url, place)}it is no URL ({error})") from error
            if error.kind == "timeout":
                refused = PictureRefused("timeout", f"{url}: the server was silent for too long")
            else:
                reason, what = ("truncated", "broke off") if began else ("unreachable", "could not be reached")
                refused = PictureRefused(reason, f"{url}: the server {what} ({error})")
            raise refused if began else _Again(refused) from error

    def _judge(self, url: str, answer: Answer) -> None:
        status = answer.status
        if status in _REDIRECTS or status == 200:
            return
        refused = PictureRefused(
            _STATUS.get(status, "server_error" if status >= 500 else "unreadable"),
            f"{url}: the server answered {status}",
        )
        if status == 429 or status >= 500:
            raise _Again(refused, _retry_after(answer.headers.get("retry-after")))
        raise refused

    def _keep(self, url: str, answer: Answer, deadline: float) -> Path:
        announced = answer.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self.max_bytes:
            raise PictureRefused("too_many_bytes", _too_many(url, int(announced), self.max_bytes))
        path = self._path(url)
        part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
        size, head = 0, b""
        try:
            with open(part, "wb") as out:
                for chunk in answer.body():
                    if size < _HEAD_BYTES:
                        head += chunk[: _HEAD_BYTES - size]
                    size += len(chunk)
                    if size > self.max_bytes:
                        raise PictureRefused("too_many_bytes", _too_many(url, size, self.max_bytes))
                    if time.monotonic() > deadline:
                        seconds = f"{self.time_limit:g} s"
                        raise PictureRefused("timeout", f"{url}: {size:,} bytes came within {seconds}, and not the end")
                    out.write(chunk)
            if sniff(head) == "html":
                raise PictureRefused("html", f"{url}: a web page came instead of a picture, an error page or a log-in")
            os.replace(part, path)
        except OSError as error:
            raise PictureRefused("unreadable", f"{url}: cannot keep it in {self.folder}: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()
        return path

    def _path(self, url: str) -> Path:
        return self.folder / hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()


class _Again(Exception):  # noqa: N818 - not an error yet: another attempt may do
    def __init__(self, refused: PictureRefused, wait: float | None = None) -> None:
        super().__init__(str(refused))
        self.refused, self.wait = refused, wait


def _retry_after(value: str | None) -> float | None:
    """Seconds that a server asks to wait; None = it says none, or a date."""
    return float(value) if value is not None and value.strip().isdigit() else None


def _leads(url: str, place: str) -> str:
    return "" if place == url else f"it leads to {place}; "


def _too_many(url: str, size: int, limit: int) -> str:
    return f"{url}: {size:,} bytes or more, above the limit of {limit:,}"


def _given_up(url: str, what: str) -> Path | PictureRefused:
    return PictureRefused("timeout", f"{url}: {what}")
