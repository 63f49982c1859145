"""What an offer must look like, one row per way of being wrong."""

from __future__ import annotations

import pytest

from multimodal.serving.signalling import (
    OFFER_LIMIT_BYTES,
    Problem,
    check_content_type,
    check_offer,
    session_path,
)

OFFER = (
    "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n"
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n"
    "a=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 00:11\r\na=setup:actpass\r\na=mid:0\r\n"
    "a=sctp-port:5000\r\n"
)


def test_a_browsers_offer_passes() -> None:
    assert check_offer(OFFER.encode()) == OFFER
    assert check_offer(OFFER.replace("\r\n", "\n").encode())


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"", 400, "v=0"),
        (b"hello", 400, "v=0"),
        (b"v=0\xff", 400, "UTF-8"),
        (b"v=0\r\n", 400, "found: none"),
        (OFFER.replace("m=application", "m=video").encode(), 400, "found: video"),
        ((OFFER + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n").encode(), 400, "found: application, audio"),
        (OFFER.replace("DTLS/SCTP", "TLS").encode(), 400, "not DTLS/SCTP"),
        (OFFER.replace("a=ice-ufrag", "a=x").encode(), 400, "a=ice-ufrag"),
        (OFFER.replace("a=ice-pwd", "a=x").encode(), 400, "a=ice-pwd"),
        (OFFER.replace("a=fingerprint", "a=x").encode(), 400, "a=fingerprint"),
        ((OFFER + "a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n" * 65).encode(), 400, "more than 64 candidates"),
        (OFFER.replace("a=setup:actpass\r\n", "").encode(), 400, "no a=setup line"),
        (OFFER.replace("setup:actpass", "setup:holdconn").encode(), 400, "'a=setup:holdconn' is malformed"),
        (OFFER.replace("a=mid:0", "a=mid").encode(), 400, "'a=mid' is malformed"),
        (OFFER.replace("port:5000", "port:x").encode(), 400, "'a=sctp-port:x' is malformed"),
        (OFFER.replace("00:11", "00-11").encode(), 400, "'a=fingerprint:sha-256 00-11' is malformed"),
        (OFFER.replace("IP4 0.0.0.0", "of").encode(), 400, "'c=IN of' is malformed"),
        ((OFFER + "a=candidate:1 1 udp\r\n").encode(), 400, "'a=candidate:1 1 udp' is malformed"),
        ((OFFER + "a=candidate:1 1 udp 1 192.0.2.1 65536 typ host\r\n").encode(), 400, "65536 typ host' is malformed"),
        (OFFER.replace("BUNDLE 0", "BUNDLE 0LE 0").encode(), 400, "BUNDLE group does not name its one section"),
        (OFFER.replace("a=mid:0", "a=mid:0\r\na=mid:0").encode(), 400, "BUNDLE group does not name its one section"),
        (OFFER.replace("port:5000", "port:65536").encode(), 400, "'a=sctp-port:65536' is malformed"),
        (OFFER.replace("port:5000", "port:\u0665").encode(), 400, "is malformed"),
        (OFFER.encode() + bytes(OFFER_LIMIT_BYTES), 413, "larger than 65536 bytes"),
    ],
)
def test_a_wrong_offer_is_refused_with_the_reason(body: bytes, status: int, why: str) -> None:
    with pytest.raises(Problem, match=why) as caught:
        check_offer(body)
    assert caught.value.status == status
    error = caught.value.body()["error"]
    assert error.keys() == {"code", "message", "hint"}
    assert all(error.values())


@pytest.mark.parametrize("value", ["application/sdp", "Application/SDP; charset=utf-8", " application/sdp "])
def test_content_types_that_pass(value: str) -> None:
    check_content_type(value)


@pytest.mark.parametrize("value", ["", "text/plain", "application/sdp-fragment", "application/json"])
def test_content_types_that_do_not(value: str) -> None:
    with pytest.raises(Problem, match="application/sdp") as caught:
        check_content_type(value)
    assert caught.value.status == 415
    assert caught.value.headers == {"Accept-Post": "application/sdp"}


@pytest.mark.parametrize(
    ("root_path", "tour", "expected"),
    [
        ("", "demo", "/whep/demo/id"),
        ("/tour", "demo", "/tour/whep/demo/id"),
        ("/shop/tour/", "demo", "/shop/tour/whep/demo/id"),
        ("/tour", "sommer schuhe?", "/tour/whep/sommer%20schuhe%3F/id"),
        ("/tour", "a/../b", "/tour/whep/a%2F..%2Fb/id"),
    ],
)
def test_the_location_includes_the_mount_and_is_escaped(root_path: str, tour: str, expected: str) -> None:
    assert session_path(root_path, tour, "id") == expected
