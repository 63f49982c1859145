"""`multimodal doctor --network --url`: a real server, and between it and us what is between servers and viewers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from multimodal.cli import main
from multimodal.doctor_network import NetworkReport, examine_network
from multimodal.doctor_network_finding import Finding
from multimodal.doctor_network_http import examine_cors, parse_place
from multimodal.doctor_network_roads import Visit
from multimodal.serving.app import asgi
from multimodal.serving.auth import Tokens
from multimodal.serving.turn import Turn
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import behind
from tests.coturn import MISSING, SECRET, coturn
from tests.proxy import proxying
from tests.serving.test_app import make_stream, serving
from tests.support import run
from tests.transport.leaks import until

OWN = ["127.0.0.1"]
SIGNING = "a signing key of the tests, long enough for HS256"


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pings tell what three tell."""
    monkeypatch.setattr("multimodal.doctor_network_roads.LISTEN", 2.4)


def examined(
    look: Callable[[str], Awaitable[NetworkReport]] | None = None,
    *,
    relay: LinkProfile | None = None,
    faults: dict[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Finding]:
    """What is found of a server with these settings, behind a proxy with these faults, if any."""

    async def act() -> dict[str, Finding]:
        app = asgi(make_stream, bind_addresses=OWN, **settings)
        relayed = None if relay is None else behind(app, relay)
        outer: Any = app if relayed is None else Wrapped(relayed, app)
        async with AsyncExitStack() as stack:
            if relayed is not None:
                stack.push_async_callback(relayed.aclose)
            served = await stack.enter_async_context(serving(outer))
            if faults is None:
                report = await _look(served.port, look)
            else:
                async with proxying(("127.0.0.1", served.port), **faults) as proxy:
                    report = await _look(proxy.port, look)
            await until(lambda: not served.sessions)
        return {finding.name: finding for finding in (*report.ice, *report.server)}

    return run(act())


class Wrapped:
    """An application with another around it, and the state of the inner one."""

    def __init__(self, outer: Any, inner: Any) -> None:
        self.outer, self.state = outer, inner.state

    async def __call__(self, *words: Any) -> None:
        await self.outer(*words)


async def _look(port: int, look: Callable[[str], Awaitable[NetworkReport]] | None) -> NetworkReport:
    url = f"http://127.0.0.1:{port}/tour/whep/demo"
    return await (examine_network(url, bind_addresses=OWN) if look is None else look(url))


def states(found: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.state for name, finding in found.items()}


def test_a_server_that_is_well_is_joined_by_every_road_and_left() -> None:
    found = examined(faults={})
    assert states(found) == {
        "server": "good",
        "server clock": "good",
        "CORS": "skipped",
        "WebRTC": "good",
        "WebSocket": "good",
        "SSE": "good",
    }, found
    assert "127.0.0.1" in found["WebRTC"].came


def test_a_clock_an_hour_off_and_a_proxy_that_buffers_event_streams_are_found() -> None:
    found = examined(faults={"clock": 3600.0, "hold_sse": True})
    assert [name for name, finding in found.items() if finding.state == "broken"] == ["server clock", "SSE"]
    assert re.search(r"3,(?:599|60\d) s ahead of this machine", found["server clock"].came), found["server clock"]
    assert "proxy_buffering off" in found["SSE"].advice


@pytest.mark.parametrize("way", [True, "strip", "hang"])
def test_a_proxy_that_refuses_upgrades_is_found(way: bool | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_roads.ROAD_LIMIT", 1.0)

    async def act() -> Finding:
        async with (
            serving(asgi(make_stream, bind_addresses=OWN)) as served,
            proxying(("127.0.0.1", served.port), refuse_upgrades=way) as proxy,
        ):
            return await Visit(parse_place(f"http://127.0.0.1:{proxy.port}/tour/whep/demo")).websocket()

    found = run(act())
    assert found.state == "broken"
    assert "proxy_set_header Upgrade" in found.advice


def test_udp_that_vanishes_on_the_way_is_found_and_what_players_do_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_roads.ROAD_LIMIT", 4.0)
    found = examined(relay=LinkProfile(loss=1.0))
    assert [name for name, finding in found.items() if finding.state == "broken"] == ["WebRTC"]
    assert "no connection came to stand" in found["WebRTC"].came
    assert "WebSocket after 4 s" in found["WebRTC"].advice


def test_a_server_that_asks_for_a_token_says_so_and_takes_one_for_all_roads() -> None:
    without = examined(secret=SIGNING)
    assert {without[name].state for name in ("WebRTC", "WebSocket", "SSE")} == {"broken"}
    assert "401 token_missing" in without["WebRTC"].came
    assert "--join-token-env" in without["WebSocket"].advice

    async def look(url: str) -> NetworkReport:
        token = Tokens(SIGNING).issue(tour="demo", now=time.time())
        return await examine_network(url, token=token, bind_addresses=OWN)

    found = examined(look, secret=SIGNING)
    assert {found[name].state for name in ("WebRTC", "WebSocket", "SSE")} == {"good"}, found


@pytest.mark.parametrize(("origin", "state"), [("https://shop.example", "good"), ("https://other.example", "broken")])
def test_pages_of_an_origin_may_play_or_may_not(origin: str, state: str) -> None:
    async def act() -> Finding:
        async with serving(asgi(make_stream, cors_origins=["https://shop.example"])) as served:
            return await asyncio.to_thread(examine_cors, parse_place(f"{served.base}/tour/whep/demo"), origin)

    found = run(act())
    assert found.state == state
    if state == "broken":
        assert "cors_origins" in found.advice


@pytest.mark.skipif(shutil.which("turnserver") is None, reason=MISSING)
def test_a_relay_that_the_server_tells_viewers_of_is_tried_with_their_credentials() -> None:
    with coturn() as relay:
        turn = Turn([relay.url("udp"), relay.url("tcp")], SECRET)
        found = examined(turn=turn)
        assert {found[relay.url(transport)].state for transport in ("udp", "tcp")} == {"good"}, found
        wrong = examined(turn=Turn([relay.url("udp")], "another secret"))
        assert "401" in wrong[relay.url("udp")].came


def test_roads_are_examined_even_where_the_page_may_not_play() -> None:
    async def look(url: str) -> NetworkReport:
        return await examine_network(url, origin="https://other.example", bind_addresses=OWN)

    found = examined(look)
    assert [name for name, finding in found.items() if finding.state == "broken"] == ["CORS"]


def test_where_nothing_or_something_else_listens_nothing_more_is_tried() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    report = run(examine_network(f"http://127.0.0.1:{port}/tour/whep/demo"))
    assert [finding.state for finding in report.server] == ["broken"]
    assert "nothing listens" in report.server[0].came

    async def wrong(url: str) -> NetworkReport:
        return await examine_network(url.replace("/tour/", "/elsewhere/"))

    found = examined(wrong)
    assert found["server"].state == "broken"
    assert "mounted" in found["server"].advice
    assert "WebRTC" not in found


def test_the_command_says_it_all_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    async def act() -> int:
        async with serving(asgi(make_stream, bind_addresses=OWN)) as served:
            words = ["doctor", "--network", "--url", f"{served.base}/tour/whep/demo", "--bind", "127.0.0.1", "--json"]
            return await asyncio.to_thread(main, words)

    assert run(act()) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {finding["name"] for finding in plain["server"]} >= {"WebRTC", "WebSocket", "SSE"}
