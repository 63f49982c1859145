"""What one address or one token may ask for, over real HTTP; pages of strangers; and who is told of the relay."""

from __future__ import annotations

import json
import time

import pytest
import websockets
from websockets.asyncio.client import connect

from multimodal.serving.limits import Quotas
from multimodal.serving.seats import Seats
from multimodal.serving.turn import Turn
from tests.serving.guarded_shop import (
    SECRET,
    SHOP,
    TOUR_ROUTES,
    Served,
    check,
    code_of,
    watching,
)
from tests.transport.leaks import until


def test_one_address_has_so_many_seats_and_gets_them_back() -> None:
    async def scenario(served: Served) -> None:
        async with watching(served, served.token()) as alice, watching(served, served.token()):
            refused = await served.post_offer("whep/demo", served.token())
            assert code_of(refused) == (429, "too_many_sessions")
            assert await served.socket("ws/demo", served.token()) == (429, "too_many_sessions")
            # Behind the proxy there are others.
            other = await served.post_offer("whep/demo", served.token(), X_Forwarded_For="192.0.2.1, 203.0.113.7")
            assert other.status_code == 201
            assert (await served.post_offer(f"whep/demo/{alice.seat}", alice.token)).status_code == 201
            assert code_of(await served.ask("DELETE", f"whep/demo/{alice.seat}", alice.token)) == (200, "")
            assert (await served.post_offer("whep/demo", served.token())).status_code == 201

    check(scenario, quotas=Quotas(seats_per_address=2), trusted_proxies=["127.0.0.1"])


def test_joins_by_address_and_returns_by_token_are_counted() -> None:
    async def scenario(served: Served) -> None:
        token = served.token()
        answers = [code_of(await served.post_offer("whep/demo", token)) for _ in range(5)]
        assert answers == [(201, "")] * 3 + [(429, "too_many_requests")] * 2
        # A stolen token is not worth more from many addresses.
        for number in range(4):
            answer = await served.post_offer("whep/demo", token, X_Forwarded_For=f"203.0.113.{number}")
            assert code_of(answer) == ((201, "") if number < 1 else (429, "too_many_requests"))
        assert code_of(await served.post_offer("whep/demo", "", X_Forwarded_For="203.0.113.9"))[0] == 401
        # Those who come without a good token are counted as well.
        strangers = [await served.post_offer("whep/demo", "x.y.z", X_Forwarded_For="203.0.113.10") for _ in range(4)]
        assert [code_of(answer)[0] for answer in strangers] == [401, 401, 401, 429]

    quotas = Quotas(joins_per_minute=1, joins_burst=3, returns_per_minute=1, returns_burst=4)
    check(scenario, quotas=quotas, trusted_proxies=["127.0.0.1"])


def test_requests_of_any_kind_are_counted_and_a_page_may_read_why() -> None:
    async def scenario(served: Served) -> None:
        answers = [await served.ask("GET", "player/product-tour.js", Origin=SHOP) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[-1].headers["access-control-allow-origin"] == SHOP
        assert "Retry-After" in answers[-1].headers["access-control-expose-headers"]
        assert await served.socket("ws/demo", served.token()) == (429, "too_many_requests")

    check(scenario, quotas=Quotas(requests_per_second=0.01, requests_burst=3))


def test_sockets_that_say_nothing_are_counted_and_nobody_else_waits_for_them() -> None:
    async def scenario(served: Served) -> None:
        async with connect(f"ws{served.base[4:]}/ws/demo"), connect(f"ws{served.base[4:]}/ws/demo"):
            assert await served.socket("ws/demo", served.token()) == (429, "too_many_requests")
            assert code_of(await served.post_offer("whep/demo", served.token())) == (429, "too_many_requests")
            other = await served.post_offer("whep/demo", served.token(), X_Forwarded_For="203.0.113.7")
            assert other.status_code == 201
        await until(lambda: not served.app.state.door.turnstile.traffic._open)
        assert await served.socket("ws/demo", served.token()) == (200, "")

    check(scenario, quotas=Quotas(open_per_address=2), trusted_proxies=["127.0.0.1"])


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://shop.example"])
def test_pages_of_strangers_are_refused_on_every_road_and_nothing_is_made(origin: str) -> None:
    async def scenario(served: Served) -> None:
        token = served.token()
        for method, route in TOUR_ROUTES[:3]:
            answer = await served.ask(method, route, token, served.offer, Origin=origin, Content_Type="application/sdp")
            assert code_of(answer) == (403, "origin_not_allowed")
            assert "access-control-allow-origin" not in answer.headers
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with connect(f"ws{served.base[4:]}/ws/demo", origin=websockets.Origin(origin)):
                pass
        assert refused.value.response.status_code == 403
        assert json.loads(refused.value.response.body or b"")["error"]["code"] == "origin_not_allowed"
        assert served.sessions == 0
        assert (await served.post_offer("whep/demo", token, Origin=SHOP)).status_code == 201
        assert (await served.post_offer("whep/demo", token, Origin=served.base[: -len("/shop")])).status_code == 201

    check(scenario)


def test_viewers_are_told_of_the_relay_and_only_those_that_are_let_in() -> None:
    async def scenario(served: Served) -> None:
        refused = await served.post_offer("whep/demo")
        assert "link" not in refused.headers
        answer = await served.post_offer("whep/demo", served.token(), Origin=SHOP)
        links = answer.headers.get_list("link")
        assert len(links) == 2
        assert links[0] == '<stun:turn.example.org>; rel="ice-server"'
        viewer = Seats(SECRET).read(answer.headers["location"].rsplit("/", 1)[1], tour="demo", now=time.time()).viewer
        assert f':{viewer}"; credential="' in links[1]
        assert "the relay's secret" not in str(answer.headers)
        assert "Link" in answer.headers["access-control-expose-headers"]

    check(scenario, turn=Turn(["stun:turn.example.org", "turn:turn.example.org"], "the relay's secret"))
