"""Whose pages may act: a table of what browsers and others send, and what middleware does with it."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from multimodal.errors import UsageError
from multimodal.serving.guard import Guard, address_of
from multimodal.serving.limits import Proxies, Quotas, Traffic
from multimodal.serving.origins import Origins
from multimodal.serving.signalling import Problem

OURS = "tours.example"
SHOP = "https://shop.example"


@pytest.mark.parametrize(
    ("origin", "site", "host", "allowed"),
    [
        # No page at all.
        ("", "", OURS, True),
        ("", "none", OURS, True),
        # A page of ours, behind whatever proxy.
        ("https://tours.example", "same-origin", OURS, True),
        ("https://tours.example", "same-origin", "10.0.0.7:8000", True),
        # A page of ours, in a browser that sends no Sec-Fetch-Site.
        ("https://tours.example", "", OURS, True),
        ("http://tours.example", "", OURS, True),
        ("http://tours.example:80", "", OURS, True),
        ("http://tours.example", "", "tours.example:80", True),
        ("HTTP://TOURS.example", "", "Tours.Example", True),
        ("http://127.0.0.1:8765", "", "127.0.0.1:8765", True),
        ("http://[::1]:8765", "", "[::1]:8765", True),
        # Pages on the list.
        (SHOP, "cross-site", OURS, True),
        (SHOP, "same-site", OURS, True),
        (SHOP, "", OURS, True),
        ("https://other.example:8443", "cross-site", OURS, True),
        # Pages that are not.
        ("https://evil.example", "cross-site", OURS, False),
        ("https://evil.example", "", OURS, False),
        ("https://evil.example", "", "", False),
        ("http://shop.example", "cross-site", OURS, False),
        ("https://shop.example:444", "cross-site", OURS, False),
        ("https://shop.example.evil.example", "cross-site", OURS, False),
        ("https://evilshop.example", "cross-site", OURS, False),
        ("https://a.tours.example", "same-site", OURS, False),
        ("https://tours.example:8443", "", OURS, False),
        ("http://127.0.0.1:9", "", "127.0.0.1:8765", False),
        # The browser knows better than a host name that looks alike.
        ("http://tours.example", "cross-site", OURS, False),
        ("https://tours.example", "same-site", OURS, False),
        ("null", "cross-site", OURS, False),
        ("null", "", OURS, False),
        ("null", "", "null", False),
        ("", "cross-site", OURS, False),
        ("", "same-site", OURS, False),
        ("nonsense", "", "nonsense", False),
        ("http://[::1", "", "[::1", False),
        ("http://x:99999", "", "x:99999", False),
    ],
)
def test_who_may(origin: str, site: str, host: str, allowed: bool) -> None:
    origins = Origins([SHOP, "https://other.example:8443"])
    refused: AbstractContextManager[Any] = nullcontext() if allowed else pytest.raises(Problem)
    with refused as caught:
        origins.check(origin=origin, site=site, host=host)
    if caught is not None:
        assert (caught.value.status, caught.value.code) == (403, "origin_not_allowed")
    Origins(["*"]).check(origin=origin, site=site, host=host)


def test_the_list_is_read_as_browsers_write_it() -> None:
    written = Origins(["HTTPS://Shop.Example:443", "http://[2001:db8::1]:80", "*", "capacitor://localhost"]).allowed
    assert written == ("https://shop.example", "http://[2001:db8::1]", "*", "capacitor://localhost")


@pytest.mark.parametrize(
    "wrong",
    [
        ["shop.example"],
        ["https://shop.example/"],
        ["https://shop.example/tours"],
        ["https://*.example/"],
        ["https://user@shop.example"],
        [""],
        ["null"],
        "https://shop.example",
        [None],
    ],
)
def test_what_is_no_origin_is_refused_when_the_server_is_made(wrong: Any) -> None:
    with pytest.raises(UsageError, match="cors_origins"):
        Origins(wrong)


# ---- the middleware --------------------------------------------------------------------------------------------------


def ask(
    guard: Guard,
    path: str = "/whep/demo",
    *,
    kind: str = "http",
    method: str = "POST",
    extensions: dict[str, Any] | None = None,
    root: str = "",
    client: Any = ("192.0.2.7", 1234),
    **headers: str,
) -> list[Message]:
    scope: Scope = {
        "type": kind,
        "path": root + path,
        "root_path": root,
        "headers": [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()],
        "client": client,
        "extensions": extensions or {},
    }
    if kind == "http":
        scope["method"] = method
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return sent


def guarded(quotas: Quotas | None = None, trusted: tuple[str, ...] = ()) -> tuple[Guard, list[str]]:
    """A guard, and the addresses of those it let through."""
    passed: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import HTTPConnection

        passed.append(address_of(HTTPConnection(scope)) if scope["type"] != "lifespan" else "lifespan")

    return Guard(app, Traffic(quotas), Proxies(trusted), Origins([SHOP])), passed


EVIL: Any = {"host": OURS, "origin": "https://evil.example", "sec_fetch_site": "cross-site"}


@pytest.mark.parametrize("root", ["", "/tour"])
@pytest.mark.parametrize(
    ("path", "method", "acts"),
    [
        ("/whep/demo", "POST", True),
        ("/whep/demo/s1_x", "DELETE", True),
        ("/sse/demo", "GET", True),
        ("/sse/demo/s1_x/messages", "POST", True),
        ("/sessions", "GET", True),
        ("/nothing", "GET", True),
        ("/", "GET", True),
        ("//whep/demo", "POST", True),
        ("/whep/player", "POST", True),
        # A preflight asks, and CORS answers.
        ("/whep/demo", "OPTIONS", False),
        ("/player/product-tour.js", "GET", False),
        ("/pictures/demo/s1_x/abc", "GET", False),
    ],
)
def test_what_changes_something_is_asked_where_it_comes_from(root: str, path: str, method: str, acts: bool) -> None:
    guard, passed = guarded()
    sent = ask(guard, path, method=method, root=root, **EVIL)
    assert bool(passed) != acts
    if acts:
        assert sent[0]["status"] == 403
        assert json.loads(sent[1]["body"])["error"]["code"] == "origin_not_allowed"


def test_a_websocket_is_refused_with_an_answer_where_the_server_can_give_one() -> None:
    guard, passed = guarded()
    sent = ask(guard, "/ws/demo", kind="websocket", extensions={"websocket.http.response": {}}, **EVIL)
    assert sent[0]["type"] == "websocket.http.response.start"
    assert sent[0]["status"] == 403
    assert json.loads(sent[1]["body"])["error"]["code"] == "origin_not_allowed"
    sent = ask(guard, "/ws/demo", kind="websocket", **EVIL)
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "origin_not_allowed"}]
    assert not passed
    ask(guard, "/ws/demo", kind="websocket", host=OURS, origin=SHOP)
    assert passed == ["192.0.2.7"]


def test_a_websocket_too_many_is_accepted_so_that_its_page_learns_why() -> None:
    guard, passed = guarded(Quotas(requests_per_second=0.5, requests_burst=1))
    ask(guard, "/ws/demo", kind="websocket", host=OURS)
    sent = ask(guard, "/ws/demo", kind="websocket", host=OURS)
    assert sent == [
        {"type": "websocket.accept"},
        {"type": "websocket.close", "code": 4429, "reason": "too_many_requests"},
    ]
    assert len(passed) == 1


def test_too_many_requests_are_told_when_to_come_again() -> None:
    guard, passed = guarded(Quotas(requests_per_second=0.5, requests_burst=2))
    ask(guard)
    ask(guard)
    sent = ask(guard)
    assert len(passed) == 2
    assert sent[0]["status"] == 429
    assert (b"retry-after", b"2") in sent[0]["headers"]
    ask(guard, client=("192.0.2.8", 1))
    assert len(passed) == 3


def test_addresses_behind_a_proxy_count_apart_and_nobody_names_his_own() -> None:
    guard, passed = guarded(Quotas(requests_per_second=0.1, requests_burst=1), trusted=("10.0.0.1",))
    for number in range(3):
        ask(guard, client=("10.0.0.1", 1), x_forwarded_for=f"198.51.100.1, 203.0.113.{number}")
        ask(guard, client=("192.0.2.9", 1), x_forwarded_for=f"203.0.113.{number}")
    assert passed == ["203.0.113.0", "192.0.2.9", "203.0.113.1", "203.0.113.2"]


def test_a_server_that_gives_no_address_is_served_all_the_same() -> None:
    guard, passed = guarded()
    ask(guard, client=None)
    assert passed == ["unknown"]


def test_the_lifespan_passes() -> None:
    guard, passed = guarded()
    asyncio.run(guard({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert passed == ["lifespan"]
