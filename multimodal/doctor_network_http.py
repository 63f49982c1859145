"""The server that a page would ask: does it answer, what does its clock say, which pages may use it. Plain HTTP."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlsplit

import msgspec

from multimodal.doctor_network_finding import Finding, broken, good, note, skipped
from multimodal.errors import UsageError
from multimodal.transport.roads import tour_url

__all__ = [
    "CLOCK_LIMIT",
    "HTTP_LIMIT",
    "Place",
    "Reply",
    "ask",
    "examine_clock",
    "examine_cors",
    "examine_server",
    "listen",
    "parse_place",
    "refusal",
    "why_not",
]

HTTP_LIMIT = 5.0
"""Seconds for a connection, and for each answer."""
CLOCK_LIMIT = 30.0
"""Seconds by which clocks may differ: join tokens allow for less, TURN passwords and certificates for more."""
_NEEDED = {"access-control-allow-headers": "content-type", "access-control-expose-headers": "location"}


class Place(msgspec.Struct, frozen=True):
    """A tour on a server: `base` is the path that everything is mounted under, "" or with a leading slash."""

    secure: bool
    host: str
    port: int
    base: str
    tour: str

    def path(self, road: str, seat: str = "") -> str:
        """The path of a road (``whep``, ``ws``, ``sse``) to the tour, or to a seat in it."""
        return f"{self.base}/{road}/{self.tour}" + (f"/{seat}" if seat else "")

    def url(self, road: str, seat: str = "") -> str:
        """The same as a URL."""
        scheme = ("ws" if road == "ws" else "http") + ("s" if self.secure else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.secure else 80)
        return f"{scheme}://{host}{'' if usual else f':{self.port}'}{self.path(road, seat)}"


class Reply(msgspec.Struct, frozen=True):
    """An answer: names of headers in lower case; `sent` and `took` in seconds, by the wall clock and as a span."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    sent: float
    took: float


def parse_place(url: str) -> Place:
    """Read the URL that a player has in its `src`.

    Raises:
        UsageError: it is none, or not that of a tour.
    """
    example = "give it as the player has it: http://HOST[:PORT]/whep/TOUR"
    try:
        parts = urlsplit(tour_url(url, "whep"))
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL ({error}); {example}") from None
    base, _, tour = parts.path.rpartition("/whep/")
    if not parts.hostname or not tour.strip("/"):
        raise UsageError(f"{url!r} does not name a tour; {example}")
    if parts.username or parts.password:
        raise UsageError("a password does not belong into a URL; give a join token with --join-token-env NAME")
    secure = parts.scheme == "https"
    path = quote(tour.strip("/"), safe="/%:@!$&'()*+,;=~")
    return Place(secure, parts.hostname, port or (443 if secure else 80), quote(base, safe="/%:@!$&'()*+,;=~"), path)


def ask(
    place: Place, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Reply:
    """One request; no redirect is followed, no proxy used. Blocking, for `HTTP_LIMIT` at most at each step.

    Raises:
        OSError: the network, or TLS.
        HTTPException: the answer was no HTTP.
    """
    with closing(_connection(place)) as connection:
        connection.connect()
        sent, began = time.time(), time.monotonic()
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        took = time.monotonic() - began
        named = _named(answer)
        return Reply(answer.status, named, answer.read(65536), sent, took)


def listen(
    place: Place, path: str, headers: Mapping[str, str], body: bytes, seconds: float, heard: Callable[[bytes], bool]
) -> Reply:
    """POST, and hand over what comes, piece by piece as it comes, until `heard` says False or the time is over.

    Args:
        place: the server.
        path, headers, body: of the request.
        seconds: for the body; an error's is read whole and given back.
        heard: called in this thread with each piece.

    Raises:
        OSError: the network, or TLS; TimeoutError: no headers within `HTTP_LIMIT`.
        HTTPException: the answer was no HTTP.
    """
    with closing(_connection(place)) as connection:
        connection.connect()
        # Kept: the connection forgets its socket where the answer is the last on it.
        road = connection.sock
        sent, began = time.time(), time.monotonic()
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        took = time.monotonic() - began
        named = _named(answer)
        if answer.status != 200:
            return Reply(answer.status, named, answer.read(65536), sent, took)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            road.settimeout(left)
            try:
                piece = answer.read1(65536)
            except TimeoutError:
                break
            if not piece or not heard(piece):
                break
        return Reply(answer.status, named, b"", sent, took)


def _named(answer: http.client.HTTPResponse) -> dict[str, str]:
    named: dict[str, str] = {}
    for name, value in answer.getheaders():
        key = name.lower()
        named[key] = f"{named[key]}, {value}" if key in named else value
    return named


def _connection(place: Place) -> http.client.HTTPConnection:
    if place.secure:
        return http.client.HTTPSConnection(place.host, place.port, timeout=HTTP_LIMIT)
    return http.client.HTTPConnection(place.host, place.port, timeout=HTTP_LIMIT)


def why_not(error: Exception, place: Place) -> tuple[str, str]:
    """What came instead of an answer, and the next step."""
    where = f"{place.host} port {place.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}", "renew it, or use the name that it is for"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}", "is it http:// and not https:// there?"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where}", "start the server there, or give its port"
    if isinstance(error, socket.gaierror):
        return f"the name {place.host} was not found ({error.strerror})", "check the name, and /etc/resolv.conf"
    if isinstance(error, TimeoutError):
        return f"no answer from {where} within {HTTP_LIMIT:g} s", "is it running, and does a firewall let TCP through?"
    if isinstance(error, (http.client.HTTPException, ConnectionError)):
        said = str(error) or type(error).__name__
        return f"the connection broke: {said}", "what listens there may be another program, or https://"
    return str(error), "check the address, and this machine's route to it"


def refusal(reply: Reply) -> str:
    """A server's own words in an answer that is an error."""
    try:
        error = msgspec.json.decode(reply.body)["error"]
        return f"{reply.status} {error['code']}: {error['message']}"
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError, TypeError, IndexError):
        return f"{reply.status} {reply.headers.get('server', '')}".strip()


def examine_server(reply: Reply, place: Place) -> Finding:
    """What the answer to an OPTIONS request for the tour says about who answered."""
    name, tried = "server", f"OPTIONS {place.url('whep')}"
    via = reply.headers.get("via", "")
    through = f", through a proxy ({via})" if via else ""
    if reply.status in {301, 302, 303, 307, 308}:
        target = reply.headers.get("location", "elsewhere")
        return broken(name, tried, f"it sends to {target} ({reply.status})", "an offer is not redirected: use that URL")
    if reply.status in {502, 503, 504}:
        came = f"a proxy answered {reply.status}: it does not reach the server behind it"
        return broken(name, tried, came, "start that server, or set the proxy's upstream")
    if reply.status >= 400 or "application/sdp" not in reply.headers.get("accept-post", ""):
        advice = "check the part before /whep/: it is where the application is mounted"
        return broken(name, tried, f"what answers there takes no offers ({refusal(reply)})", advice)
    return good(name, tried, f"takes offers, answered after {reply.took * 1000:.0f} ms{through}")


def examine_clock(reply: Reply) -> Finding:
    """The server's clock beside this machine's, by the `Date` of an answer (RFC 9110, 6.6.1: whole seconds)."""
    name, tried = "server clock", "compared the Date of its answer with this machine's clock"
    try:
        date = parsedate_to_datetime(reply.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return skipped(name, "its answer has no Date", "let the server, or the proxy before it, send one")
    # Rounded down, made somewhere between question and answer, and by many servers once a second for all answers of it.
    ahead = date + 1.0 - (reply.sent + reply.took / 2)
    unsure = 1.0 + reply.took / 2
    if abs(ahead) <= unsure:
        return good(name, tried, f"they agree, within {unsure:.1f} s")
    came = (
        f"it is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine (give or take {unsure:.1f} s)"
    )
    advice = "set the one that is wrong: timedatectl; chronyc tracking"
    if abs(ahead) - unsure > CLOCK_LIMIT:
        return broken(name, tried, f"{came}: join tokens and TURN passwords are refused, or live too long", advice)
    return good(name, tried, f"{came}: no harm", advice if abs(ahead) > CLOCK_LIMIT / 2 else "")


def examine_cors(place: Place, origin: str) -> Finding:
    """Whether a page of `origin` may play this tour: the preflight that its browser would send. Blocking.

    Raises:
        OSError, HTTPException: as `ask`.
    """
    tried = f"OPTIONS {place.url('whep')} as a browser asks before a page of {origin} may post"
    asks = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    preflight = ask(place, "OPTIONS", place.path("whep"), asks)
    plain = ask(place, "OPTIONS", place.path("whep"), {"Origin": origin})
    allowed = preflight.headers.get("access-control-allow-origin", "")
    if preflight.status >= 300 or allowed not in {origin, "*"}:
        came = f"it does not ({preflight.status}, Access-Control-Allow-Origin: {allowed or 'none'})"
        return broken("CORS", tried, came, f"start the server with this origin among cors_origins: {origin!r}")
    answers = {
        **plain.headers,
        "access-control-allow-headers": preflight.headers.get("access-control-allow-headers", ""),
    }
    for header, value in _NEEDED.items():
        if value not in answers.get(header, "").lower() and answers.get(header) != "*":
            came = f"it may post, but {header} lacks {value!r} ({answers.get(header) or 'no such header'})"
            return note("CORS", tried, came, "a proxy may strip it: let it through, or the player cannot come back")
    return good("CORS", tried, f"it may (Access-Control-Allow-Origin: {allowed})")
