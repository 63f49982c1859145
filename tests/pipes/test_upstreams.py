"""Which of several servers is asked: rules U1 to U4, and what a wrong URL is told."""

from __future__ import annotations

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.upstreams import (
    EJECT_AFTER,
    EJECT_LIMIT,
    EJECT_SECONDS,
    REST_LIMIT,
    RefusedError,
    Server,
    Upstreams,
    refusal,
    retry_after,
    together,
)

A, B, C = (f"http://{name}.example/v1" for name in "abc")


def asked(upstreams: Upstreams, now: float = 0.0, avoid: tuple[str, ...] = ()) -> Server:
    server = upstreams.pick(now, avoid)
    assert server is not None
    return server


def fail(upstreams: Upstreams, url: str, times: int, now: float = 0.0) -> None:
    others = tuple(server.url for server in upstreams.servers if server.url != url)
    for _ in range(times):
        upstreams.done(asked(upstreams, now, others), now, ok=False)


def test_u1_the_least_loaded_and_then_the_least_recently_asked() -> None:
    upstreams = Upstreams([A, B, C])
    first, second, third = (asked(upstreams) for _ in range(3))
    assert {first.url, second.url, third.url} == {A, B, C}
    upstreams.done(second, 1.0, ok=True)
    assert asked(upstreams).url == second.url
    upstreams.done(first, 1.0, ok=None)
    upstreams.done(third, 1.0, ok=True)
    assert asked(upstreams).url in {first.url, third.url}
    assert [server.active for server in upstreams.servers].count(1) == 2


def test_u2_failures_eject_for_longer_and_longer_and_one_try_brings_back() -> None:
    upstreams = Upstreams([A, B])
    fail(upstreams, A, EJECT_AFTER - 1)
    assert any(asked(upstreams).url == A for _ in range(2))
    for server in upstreams.servers:
        server.active = 0
    fail(upstreams, A, 1)
    assert all(asked(upstreams, EJECT_SECONDS - 0.01).url == B for _ in range(4))
    one = asked(upstreams, EJECT_SECONDS)
    assert one.url == A
    assert asked(upstreams, EJECT_SECONDS).url == B  # a second request does not try it as well
    upstreams.done(one, EJECT_SECONDS, ok=False)
    assert not one.well(2 * EJECT_SECONDS)
    assert one.well(EJECT_SECONDS + 2 * EJECT_SECONDS)
    fail(upstreams, A, 40, now=100.0)
    assert one.out_until <= 100.0 + EJECT_LIMIT
    again = asked(upstreams, 1000.0)
    assert again.url == A
    upstreams.done(again, 1000.0, ok=True)
    assert one.well(1000.0)
    assert one.failures == 0


def test_u3_where_none_is_well_the_next_one_due_is_asked_all_the_same() -> None:
    upstreams = Upstreams([A, B])
    fail(upstreams, A, EJECT_AFTER, now=0.0)
    fail(upstreams, B, EJECT_AFTER, now=1.0)
    assert asked(upstreams, 2.0).url == A
    assert upstreams.pick(2.0, [A, B]) is None


def test_u4_a_refusal_is_held_against_a_server_where_another_took_the_request() -> None:
    upstreams = Upstreams([A, B])
    first = upstreams.servers[0]
    for turn in range(EJECT_AFTER):
        assert first.failures == turn
        upstreams.done(asked(upstreams, 1.0, (B,)), 1.0, ok=None)
        assert first.failures == turn
        upstreams.failed(first, 1.0)
    assert not first.well(1.0)
    assert (first.active, first.failures) == (0, EJECT_AFTER)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        *((status, PipeError, True) for status in (408, 425, 429, 500, 503, 520, 529)),
        *((status, UsageError, False) for status in (400, 413, 422)),
        *((status, RefusedError, False) for status in (204, 302, 401, 402, 403, 404, 405, 410, 421)),
    ],
)
def test_what_a_status_means_for_the_others(status: int, kind: type[Exception], retryable: bool) -> None:
    error = refusal(status, "words")
    assert type(error) is kind
    assert str(error) == "words"
    assert getattr(error, "retryable", False) is retryable


def test_all_failures_are_one_error_and_the_callers_only_where_all_refused() -> None:
    refused, busy, odd = RefusedError("a"), PipeError("b", retryable=True), PipeError("c")
    assert (type(together([refused, refused])), str(together([refused, refused]))) == (UsageError, "a; a")
    cases: list[tuple[list[PipeError | RefusedError], str, bool]] = [
        ([refused, busy], "a; b", True),
        ([odd], "c", False),
        ([odd, busy], "c; b", True),
    ]
    for failures, words, retryable in cases:
        error = together(failures)
        assert isinstance(error, PipeError)
        assert (str(error), error.retryable) == (words, retryable)


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ([], "give one URL"),
        ([A, A + "/"], "several different ones"),
        ("127.0.0.1:8000/v1", "no http"),
        ("ftp://a/v1", "no http"),
        (7, "no http"),
        ("http://me:word@a/v1", "give api_key"),
        ("http://me:word@a:99999/v1", "give api_key"),
        ("me:word@a/v1", "give api_key"),
        ("http://a:99999/v1", "no http"),
        ("http://a:0/v1", "no http"),
        ("http://[::1/v1", "no http"),
        ("http://a/v1\n", "no http"),
        ("http://a b/v1", "no http"),
        ("http://a/v1?b", "a query or a fragment"),
        ("http://a/v1#b", "a query or a fragment"),
    ],
)
def test_wrong_urls_are_named(urls: object, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Upstreams(urls)  # type: ignore[arg-type]
    assert "word@" not in str(caught.value)


def test_u5_one_that_asks_to_be_left_alone_is_for_a_minute_at_most() -> None:
    upstreams = Upstreams([A, B])
    first = upstreams.servers[0]
    upstreams.done(asked(upstreams, 0.0, (B,)), 0.0, ok=False)
    upstreams.rest(first, 0.0, 7.0)
    upstreams.rest(first, 0.0, 3.0)
    assert [asked(upstreams, 6.9).url for _ in range(3)] == [B] * 3
    assert asked(upstreams, 7.0).url == A
    upstreams.rest(first, 10.0, 1e9)
    assert (first.well(10.0 + REST_LIMIT - 0.1), first.well(10.0 + REST_LIMIT)) == (False, True)
    # Where no other is well it is asked all the same, and its answer makes it well.
    one = asked(upstreams, 11.0, (B,))
    upstreams.done(one, 12.0, ok=True)
    assert first.well(12.0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 120 ", 120.0),
        ("9" * 5000, 9999999999.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 30.0),
        ("Sun, 06 Nov 1994 08:49:37 -0000", 30.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        ("Sun, 99 Nov 99999 08:49:37 GMT", 0.0),
        ("", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("\u0667", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float) -> None:
    assert retry_after(value, 784111747.0) == seconds
