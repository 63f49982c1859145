"""The addresses of a tour on each road."""

from __future__ import annotations

import json

import pytest

from multimodal.errors import JoinRefused, TransportError, UsageError
from multimodal.transport.roads import picture_url, refusal, seat_url, tour_url


@pytest.mark.parametrize(
    ("url", "road", "wanted"),
    [
        ("http://h/whep/demo", "whep", "http://h/whep/demo"),
        ("http://h:80/tour/whep/demo", "ws", "ws://h:80/tour/ws/demo"),
        ("https://h/whep/a/b", "ws", "wss://h/ws/a/b"),
        ("wss://h/ws/demo?x=1", "sse", "https://h/sse/demo?x=1"),
        ("http://h/whep/ws", "sse", "http://h/sse/ws"),
    ],
)
def test_a_tours_address(url: str, road: str, wanted: str) -> None:
    assert tour_url(url, road) == wanted  # type: ignore[arg-type]


def test_a_seats_address_and_that_of_its_pictures() -> None:
    seat = "http://h/x/whep/a%2Fb/s-1"
    assert seat_url(seat, "ws") == "ws://h/x/ws/a%2Fb/s-1"
    assert seat_url("ws://h/x/ws/a%2Fb/s-1", "sse") == "http://h/x/sse/a%2Fb/s-1"
    assert picture_url(seat, "ff00") == "http://h/x/pictures/a%2Fb/s-1/ff00"


@pytest.mark.parametrize(
    "url", ["", "demo", "http://h/demo", "ftp://h/whep/demo", "http:///whep/demo", "http://h/whep"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="no tour's address"):
        tour_url(url, "whep")
    with pytest.raises(UsageError, match="no seat's address"):
        seat_url(url, "whep")


def test_a_refusal_says_what_the_server_said() -> None:
    body = {"error": {"code": "no_such_tour", "message": "there is none", "hint": "look"}}
    error = refusal("http://h/whep/x", 404, json.dumps(body).encode(), "7")
    assert (error.status, error.code, error.retry_after) == (404, "no_such_tour", 7.0)
    assert str(error) == "http://h/whep/x answered 404 no_such_tour: there is none (look)"
    assert {JoinRefused, TransportError, UsageError} < set(type(error).__mro__)


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway\xff</html>", b"[]", b'{"error":1}', b'{"error":{"code":1}}'])
def test_a_refusal_of_somebody_else_is_told_as_it_is(body: bytes) -> None:
    error = refusal("http://h/whep/x", 502, body, "Wed, 21 Oct 2026 07:28:00 GMT")
    assert (error.status, error.code, error.retry_after) == (502, "", None)
    assert str(error).startswith("http://h/whep/x answered 502: ")
