"""Which of several servers is asked: rules U1 to U3, and what a wrong URL is told."""

from __future__ import annotations

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.upstreams import EJECT_AFTER, EJECT_LIMIT, EJECT_SECONDS, Server, Upstreams

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


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ([], "give one URL"),
        ([A, A + "/"], "several different ones"),
        ("127.0.0.1:8000/v1", "no http"),
        ("ftp://a/v1", "no http"),
        (7, "no http"),
        ("http://me:word@a/v1", "give api_key"),
    ],
)
def test_wrong_urls_are_named(urls: object, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Upstreams(urls)  # type: ignore[arg-type]
    assert "word@" not in str(caught.value)
