"""Spoilt offers and requests. The known offenders come first; the rest is of one seed."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.fuzz.mutator import Mutator

__all__ = ["CHROMIUM_OFFER", "NASTY_OFFERS", "NASTY_REQUESTS", "Requests", "Spoilt"]

SDP = "application/sdp"

CHROMIUM_OFFER = "\r\n".join(
    (
        "v=0",
        "o=- 4611731400430051336 2 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0",
        "a=extmap-allow-mixed",
        "a=msid-semantic: WMS",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 0.0.0.0",
        "a=candidate:1467250027 1 udp 2122260223 127.0.0.1 46243 typ host generation 0 network-id 1",
        "a=candidate:1853887674 1 tcp 1518280447 127.0.0.1 9 typ host tcptype active generation 0 network-id 1",
        "a=ice-ufrag:yLBz",
        "a=ice-pwd:Zx1vNpQ8hXkJr2mWc5tYbL7d",
        "a=ice-options:trickle",
        "a=fingerprint:sha-256 " + ":".join(f"{place * 7 % 256:02X}" for place in range(32)),
        "a=setup:actpass",
        "a=mid:0",
        "a=sctp-port:5000",
        "a=max-message-size:262144",
        "",
    )
)
"""As Chromium writes them, with addresses of this machine alone."""


def _with(old: str, new: str) -> str:
    assert old in CHROMIUM_OFFER, old
    return CHROMIUM_OFFER.replace(old, new)


_UFRAG, _PWD, _MID = "a=ice-ufrag:yLBz", "a=ice-pwd:Zx1vNpQ8hXkJr2mWc5tYbL7d", "a=mid:0"
_CANDIDATE = "a=candidate:1467250027 1 udp 2122260223 127.0.0.1 46243 typ host generation 0 network-id 1"
_SETUP, _PORT, _SIZE = "a=setup:actpass", "a=sctp-port:5000", "a=max-message-size:262144"

NASTY_OFFERS: list[str | bytes] = [
    "",
    "v=0",
    "v=0\r\n" * 5000,
    "\ufeff" + CHROMIUM_OFFER,
    CHROMIUM_OFFER + "\x00",
    CHROMIUM_OFFER.encode("utf-16"),
    CHROMIUM_OFFER.replace("\r\n", "\n"),
    CHROMIUM_OFFER.replace("\r\n", "\r"),
    CHROMIUM_OFFER.replace("\r\n", "\u2028"),
    CHROMIUM_OFFER * 2,
    CHROMIUM_OFFER + "a=x:" + "y" * 60_000,
    CHROMIUM_OFFER + (_CANDIDATE + "\r\n") * 63,
    CHROMIUM_OFFER + "a=\r\n=\r\n\r\n\r\n",
    CHROMIUM_OFFER + "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n",
    _with("m=application 9 ", "m=application 0 "),
    _with("m=application 9 ", "m=application 99999 "),
    _with("m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "m=application 9 DTLS/SCTP 5000"),
    _with("m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "m=application 9 DTLS/SCTP x"),
    _with("m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "m=application 9 UDP/DTLS/SCTP "),
    _with("o=- 4611731400430051336 2 IN IP4 127.0.0.1", "o="),
    _with("o=- 4611731400430051336 2 IN IP4 127.0.0.1\r\n", ""),
    _with("s=-\r\nt=0 0\r\n", ""),
    _with("t=0 0", "t="),
    _with("a=group:BUNDLE 0", "a=group:BUNDLE 1 2 3"),
    _with("a=group:BUNDLE 0", "a=group:LS 0"),
    _with("a=group:BUNDLE 0", "a=group:"),
    _with("a=group:BUNDLE 0\r\n", ""),
    _with(_MID, "a=mid:" + "x" * 5000),
    _with(_MID + "\r\n", ""),
    _with(_MID, _MID + "\r\na=mid:1"),
    _with(_UFRAG, "a=ice-ufrag:x"),
    _with(_UFRAG, "a=ice-ufrag:" + "x" * 5000),
    _with(_UFRAG, "a=ice-ufrag:\u00e9\u00e9\u00e9\u00e9"),
    _with(_PWD, "a=ice-pwd:x"),
    _with(_PWD, "a=ice-pwd:" + "x" * 5000),
    _with(_PWD, "a=ice-pwd:\U0001f600" + "x" * 24),
    _with("sha-256 ", "md5 "),
    _with("sha-256 ", "sha-1 "),
    _with("sha-256 ", "x" * 300 + " "),
    _with("a=fingerprint:sha-256 00:07", "a=fingerprint:sha-256 00"),
    _with("a=fingerprint:sha-256 00:07", "a=fingerprint:sha-256 " + "00:" * 5000 + "07"),
    _with(_SETUP, "a=setup:active"),
    _with(_SETUP, "a=setup:passive"),
    _with(_SETUP, "a=setup:active\r\na=setup:passive"),
    _with(_PORT, "a=sctp-port:0"),
    _with(_PORT, "a=sctp-port:99999"),
    _with(_PORT, "a=sctp-port:\u0665\u0660\u0660\u0660"),
    _with(_PORT + "\r\n", ""),
    _with(_PORT, "a=sctpmap:5000 webrtc-datachannel 65535"),
    _with(_PORT, "a=sctpmap:x y z"),
    _with(_PORT, "a=sctpmap:"),
    _with(_SIZE, "a=max-message-size:0"),
    _with(_SIZE, "a=max-message-size:1"),
    _with(_SIZE, "a=max-message-size:999999999999999999"),
    _with(_SIZE, "a=max-message-size:-1"),
    _with("c=IN IP4 0.0.0.0", "c=IN IP6 ::1"),
    _with("c=IN IP4 0.0.0.0", "c=IN IP4 " + "x" * 5000),
    _with("127.0.0.1 46243", "127.0.0.1 0"),
    _with("127.0.0.1 46243", "127.0.0.1 65535"),
    _with("127.0.0.1 46243", "127.0.0.1 99999"),
    _with("127.0.0.1 46243", "::1 46243"),
    _with("127.0.0.1 46243", "127.0.0.1%lo 46243"),
    _with("127.0.0.1 46243", "0.0.0.0 46243"),
    _with("127.0.0.1 46243", "255.255.255.255 46243"),
    _with("127.0.0.1 46243", "224.0.0.1 46243"),
    _with("127.0.0.1 46243", "999.1.1.1 46243"),
    _with("127.0.0.1 46243", "localhost 46243"),
    _with("127.0.0.1 46243", "12345678-1234-1234-1234-123456789abc.local 46243"),
    _with("127.0.0.1 46243", "x" * 5000 + " 46243"),
    _with(_CANDIDATE, _CANDIDATE.replace("typ host", "typ relay raddr x rport y")),
    _with(_CANDIDATE, _CANDIDATE.replace("typ host", "typ x raddr 127.0.0.1 rport 99999999999")),
    _with(_CANDIDATE, _CANDIDATE.replace("1467250027 1 udp", "1467250027 99 udp")),
    _with(_CANDIDATE, _CANDIDATE.replace("2122260223", "9" * 300)),
    _with(_CANDIDATE, _CANDIDATE.replace("2122260223", "0")),
    _with("a=ice-options:trickle", "a=ice-lite"),
    _with("a=ice-options:trickle", "a=remote-candidates:1 127.0.0.1 9"),
    _with("a=msid-semantic: WMS", "a=msid-semantic:"),
    _with("a=extmap-allow-mixed", "a=rtcp:9 IN IP4 0.0.0.0\r\na=ssrc:1 cname:x\r\na=rtpmap:0 x/8000\r\na=fmtp:0 x"),
]
"""What made some server raise, or might have."""


@dataclass
class Spoilt:
    """One request. `chunks`: the body comes in so many pieces."""

    method: str = "POST"
    path: str = "/whep/demo"
    headers: list[tuple[bytes, bytes]] = field(default_factory=lambda: [(b"content-type", SDP.encode())])
    body: bytes = b""
    chunks: int = 1

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in its pieces."""
        size = len(self.body) // self.chunks + 1
        for at in range(0, len(self.body), size):
            yield self.body[at : at + size]


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X" * 300)
PATHS = (
    "/",
    "//",
    "/whep",
    "/whep/",
    "/whep/demo",
    "/whep/demo/",
    "/whep/demo/x",
    "/whep/demo/x/y/z",
    "/whep//demo",
    "/whep/%2e%2e/%2e%2e/etc/passwd",
    "/whep/demo%00",
    "/whep/demo%2Fx",
    "/whep/%ff%fe",
    "/whep/%F0%9F%98%80",
    "/whep/" + "x" * 5000,
    "/whep/" + "x/" * 500,
    "/whep/nothing",
    "/player/",
    "/player/product-tour.js",
    "/player/..%2f__init__.py",
    "/player/%2e%2e/cli.py",
    "/player/product-tour.js%00",
    "/player/x%5cy.js",
    "/player/" + "x" * 5000 + ".js",
    "/ws/demo",
    "/ws/demo/x",
    "/sse/demo",
    "/sse/demo/x",
    "/sse/demo/x/messages",
    "/sse/demo/x/y/messages",
    "/pictures/demo/x/" + "0" * 64,
    "/pictures/demo/x/../../y",
    "/pictures/demo/x/%00",
    "/favicon.ico",
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"application/sdp"),
    (b"content-type", b"application/sdp; charset=utf-8"),
    (b"content-type", b"APPLICATION/SDP"),
    (b"content-type", b"application/json"),
    (b"content-type", b"text/plain"),
    (b"content-type", b"\xff\xfe"),
    (b"content-type", b"x" * 5000),
    (b"content-type", b""),
    (b"content-type", b"multipart/form-data; boundary=" + b"x" * 300),
    (b"content-encoding", b"gzip"),
    (b"authorization", b"Bearer"),
    (b"authorization", b"Bearer a.b.c"),
    (b"authorization", b"Bearer " + b"x" * 9000),
    (b"authorization", b"Basic AAAA"),
    (b"authorization", b"\xff"),
    (b"origin", b"null"),
    (b"origin", b"https://shop.example"),
    (b"origin", b"\xff\xfe"),
    (b"origin", b"x" * 5000),
    (b"access-control-request-method", b"POST"),
    (b"access-control-request-method", b"\xff"),
    (b"access-control-request-headers", b"x" * 3000),
    (b"if-match", b'"x"'),
    (b"if-none-match", b'"' + b"x" * 3000 + b'"'),
    (b"if-none-match", b"\xff"),
    (b"range", b"bytes=0-,0-,0-"),
    (b"accept", b"text/event-stream"),
    (b"last-event-id", b"-1"),
    (b"last-event-id", b"9" * 400),
    (b"last-event-id", b"x"),
    (b"last-event-id", b"\xff"),
    (b"x-forwarded-for", b"127.0.0.1, " * 300),
    (b"x-forwarded-for", b"\xff"),
    (b"forwarded", b"for=_x"),
    (b"cookie", b"x=" + b"y" * 5000),
    (b"host", b"\xff"),
    (b"host", b""),
    (b"expect", b"100-continue"),
    (b"upgrade", b"websocket"),
    (b"x" * 3000, b"y"),
)
NASTY_REQUESTS = [
    *(Spoilt(method, path) for path in PATHS for method in ("GET", "POST", "DELETE", "OPTIONS", "TRACE")),
    *(Spoilt(headers=[header], body=CHROMIUM_OFFER.encode()[:200]) for header in HEADERS),
    Spoilt(body=b"v=0" + bytes(3_000_000), chunks=100),
    Spoilt(body=CHROMIUM_OFFER.encode()[:300], chunks=300),
    Spoilt(path="/sse/demo", headers=[(b"content-type", b"application/json")], body=b"[" * 60_000),
    Spoilt(path="/sse/demo", headers=[(b"content-type", b"application/json")], body=b'{"type":"hello","v":9}'),
    Spoilt(path="/sse/demo/x/messages", headers=[(b"content-type", b"application/json")], body=b"\n" * 60_000),
]


class Requests:
    """Endless spoilt offers and requests, all of one seed.

    Args:
        seed: of all chance.
        offers: real ones to begin with.
    """

    def __init__(self, seed: int, offers: list[str]) -> None:
        self._mutator = Mutator(seed)
        self._rng: random.Random = self._mutator.rng
        self._offers = offers

    def offer(self) -> bytes:
        """An offer with some of its lines spoilt."""
        rng = self._rng
        lines = rng.choice(self._offers).split("\r\n")
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(lines))
            way = rng.randrange(7)
            if way == 0:
                del lines[at]
            elif way == 1:
                lines.insert(at, rng.choice(lines))
            elif way == 2:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            elif way == 3:
                lines[at] = self._mutator.edited(lines[at].encode()).decode("latin-1")
            elif way == 4:
                lines[at] = lines[at] + rng.choice((" ", ":", "x" * 300, "\x00", "\u00e9", " 99999999999999999999"))
            elif way == 5:
                words = lines[at].split(" ")
                words[rng.randrange(len(words))] = rng.choice(("", "0", "-1", "99999", "x", "9" * 400, "::1"))
                lines[at] = " ".join(words)
            else:
                rng.shuffle(lines)
            if not lines:
                break
        text = rng.choice(("\r\n", "\r\n", "\r\n", "\n")).join(lines)
        return text.encode() if rng.random() < 0.9 else self._mutator.edited(text.encode())

    def request(self) -> Spoilt:
        """A request of any method, to any path, with any headers and body."""
        rng = self._rng
        path = rng.choice(PATHS)
        if rng.random() < 0.3:
            path = "/" + self._mutator.edited(path.encode()).decode("latin-1").replace("?", "").replace("#", "")
        headers = [rng.choice(HEADERS) for _ in range(rng.randrange(4))]
        way = rng.randrange(5)
        body = (b"", self.offer()[:200], rng.randbytes(200), b"x" * 70_000, b'{"type":"hello","v":1}')[way]
        return Spoilt(rng.choice(METHODS), path, headers, body, rng.choice((1, 1, 3, 50)))
