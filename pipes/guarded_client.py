"""An HTTP client that connects only to addresses that were judged. The only module that imports httpx2.

The address of the connection itself is judged, after the name was looked up, so that a name which changes its address
between two look-ups gains nothing; TLS still asks for the name.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from multimodal._version import __version__
from multimodal.errors import UsageError
from multimodal.pipes.address_guard import AddressGuard

__all__ = ["Answer", "GuardedClient", "NotPublicError", "RoadError"]

KEEP_ALIVE = 15.0


class NotPublicError(Exception):
    """A name leads to an address that may not be connected to."""


class RoadError(Exception):
    """No answer, or not all of it: the server was silent (`timeout`), could not be reached or broke off, or no URL."""

    def __init__(self, kind: Literal["timeout", "broken", "url"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Answer:
    """A server's answer, its body not yet read: `status`, `headers`."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def body(self) -> Iterator[bytes]:
        """Its bytes, as they come.

        Raises:
            RoadError: the server fell silent or broke off.
        """
        yield from self._response.iter_bytes()


class GuardedClient:
    """Sends GET requests and follows no redirect of its own accord; safe to use from several threads.

    Args:
        guard: judges addresses.
        timeout: seconds that a connection may take, and that a server may be silent.
        headers: sent with every request.
        connections: open at one time, at most.

    Raises:
        UsageError: httpx2 is not installed.
    """

    def __init__(self, guard: AddressGuard, timeout: float, headers: Mapping[str, str], connections: int) -> None:
        try:
            import httpcore2
            import httpx2
        except ImportError as error:
            raise UsageError(
                "fetching pictures needs httpx2: install it with `pip install 'multimodal-stream[remote]'`"
            ) from error
        self._httpcore2, self._httpx2 = httpcore2, httpx2
        ours = {"User-Agent": f"multimodal-stream/{__version__}", "Accept": "image/*", "Accept-Encoding": "identity"}
        # No proxy out of the environment: it would connect for us, and nobody would judge where to.
        self._client = httpx2.Client(
            transport=_transport(guard, connections),
            headers={**ours, **headers},
            timeout=httpx2.Timeout(timeout),
            trust_env=False,
            follow_redirects=False,
        )

    @contextlib.contextmanager
    def get(self, url: str) -> Iterator[Answer]:
        """The answer of a server; closed when left.

        Raises:
            NotPublicError: the host's address may not be connected to.
            RoadError: no URL, no connection, no answer in time, or an answer that breaks off while it is read.
        """
        httpx2, httpcore2 = self._httpx2, self._httpcore2
        try:
            with self._client.stream("GET", url) as response:
                yield Answer(response)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpcore2.UnsupportedProtocol) as error:
            raise RoadError("url", str(error)) from error
        except (httpx2.TimeoutException, httpcore2.TimeoutException) as error:
            raise RoadError("timeout", str(error)) from error
        except (httpx2.TransportError, httpx2.DecodingError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise RoadError("broken", str(error) or type(error).__name__) from error

    def close(self) -> None:
        """Close its connections. Twice is once."""
        self._client.close()


def _transport(guard: AddressGuard, connections: int) -> Any:
    import httpcore2
    import httpx2

    class Guarded(httpcore2.SyncBackend):
        def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> Any:
            addresses = _look_up(host, port, httpcore2.ConnectError)
            for address in addresses:
                if refused := guard.check_address(address):
                    # One that is not public is enough: a name with both is a trick, or a mistake.
                    raise NotPublicError(refused)
            for address in addresses[:-1]:
                with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                    return super().connect_tcp(address, port, *args, **options)
            return super().connect_tcp(addresses[-1], port, *args, **options)

    class Body(httpx2.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            yield from self._stream

        def close(self) -> None:
            self._stream.close()

    class Transport(httpx2.BaseTransport):
        def __init__(self) -> None:
            self._pool = httpcore2.ConnectionPool(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=KEEP_ALIVE,
                network_backend=Guarded(),
            )

        def handle_request(self, request: Any) -> Any:
            url = request.url
            answer = self._pool.handle_request(
                httpcore2.Request(
                    request.method,
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
            return httpx2.Response(
                answer.status, headers=answer.headers, stream=Body(answer.stream), extensions=answer.extensions
            )

        def close(self) -> None:
            self._pool.close()

    return Transport()


def _look_up(host: str, port: int, error_type: type[Exception]) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise error_type(f"no address for {host!r}: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
