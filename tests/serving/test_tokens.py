"""Tokens over time, over real HTTP: shown again, used up, taken over, outlived."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis.asyncio

from multimodal.bench.redis_stage import RedisServer
from multimodal.errors import RemoteProtocolError
from multimodal.journal import MemoryJournal
from multimodal.serving.auth import LEEWAY, Tokens
from multimodal.serving.limits import Quotas
from multimodal.serving.spent import RedisSpent
from multimodal.transport.live import PENDING
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.webrtc import WebRTCLink
from tests.redis_server import redis_server
from tests.serving.guarded_shop import (
    OTHER,
    TOUR_ROUTES,
    Served,
    check,
    code_of,
    serving,
    tried,
    watching,
)
from tests.support import run
from tests.transport.leaks import until

__all__ = ["redis_server"]


@pytest.mark.parametrize("way", ["deleted", "deleted before hello", "left", "ended by itself"])
def test_a_token_opens_nothing_more_once_its_seat_was_given_up(way: str) -> None:
    async def scenario(served: Served) -> None:
        tour = "short" if way == "ended by itself" else "demo"
        token = served.token(tour=tour)
        if way == "deleted before hello":
            location = (await served.post_offer("whep/demo", token)).headers["location"]
            assert code_of(await served.ask("DELETE", location, token)) == (200, "")
        elif way == "ended by itself":
            viewer = ResilientViewer(f"{served.base}/whep/short", roads=("ws",), token=token)
            assert (await viewer.watch()).ended == "end"
        else:
            async with watching(served, token) as alice:
                if way == "deleted":
                    assert code_of(await served.ask("DELETE", f"whep/demo/{alice.seat}", token)) == (200, "")
                else:
                    alice.viewer.say(lambda protocol: protocol.bye("enough"))
                await alice.task
        await until(lambda: not served.sessions)
        for method, route in TOUR_ROUTES:
            answer, _ = await tried(served, method, route.replace("demo", tour), token)
            assert answer == (401, "token_used"), (method, route)
        assert served.sessions == 0
        assert await served.socket(f"ws/{tour}", served.token(tour=tour)) == (200, "")

    check(scenario)


def test_a_seat_that_nobody_came_to_does_not_use_a_token_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unanswerable(offer: str, **settings: Any) -> Any:
        raise RemoteProtocolError("the offer cannot be answered")

    async def scenario(served: Served) -> None:
        token = served.token()
        with monkeypatch.context() as patched:
            patched.setattr(WebRTCLink, "answering", unanswerable)
            assert code_of(await served.post_offer("whep/demo", token)) == (400, "bad_offer")
        await until(lambda: not served.sessions)
        async with watching(served, token) as alice:
            assert alice.cursor >= 2

    check(scenario)


def test_a_server_that_was_started_again_knows_its_seats_and_whose_they_are(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        client = redis.asyncio.from_url(redis_server.url)
        settings: dict[str, Any] = {"journal": MemoryJournal(), "shared": ["demo"]}
        async with (
            serving(spent=RedisSpent(client), **settings) as one,
            watching(one, one.token()) as alice,
            watching(one, one.token()) as bob,
        ):
            gone = one.token()
            async with watching(one, gone) as carol:
                carol.viewer.say(lambda protocol: protocol.bye("enough"))
                await carol.task
            seats = alice.seat, bob.seat, carol.seat
            await one.app.state.sessions.aclose()
            assert (await alice.task).ended == "the server is stopping"
        async with serving(spent=RedisSpent(client), **settings) as other:
            for seat, token, expected in (
                (seats[0], "", (401, "token_missing")),
                (seats[0], bob.token, (404, "no_such_seat")),
                (seats[0], other.token(), (404, "no_such_seat")),
                (seats[2], gone, (404, "no_such_seat")),
            ):
                assert await other.socket(f"ws/demo/{seat}", token) == expected
            assert other.sessions == 0
            assert await other.socket(f"ws/demo/{seats[0]}", alice.token) == (200, "")
            assert other.sessions == 1
            # Her token leads to her seat, as before; a used one leads nowhere.
            link, other.offer = await WebRTCLink.offering()
            assert (await other.post_offer("whep/demo", alice.token)).headers["location"].endswith(seats[0])
            await link.aclose()
            assert await other.socket("ws/demo", gone) == (401, "token_used")
            # Known to the session that goes on, and yet not open any more.
            assert await other.socket(f"ws/demo/{seats[2]}", gone) == (404, "no_such_seat")
        async with serving(secret=OTHER, spent=RedisSpent(client), **settings) as stranger:
            mine = Tokens(OTHER).issue(tour="demo", now=time.time())
            assert await stranger.socket(f"ws/demo/{seats[1]}", mine) == (404, "no_such_seat")
        await client.aclose()

    run(scenario())


def test_two_servers_that_share_a_redis_agree_on_tokens(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        client = redis.asyncio.from_url(redis_server.url)
        async with serving(spent=RedisSpent(client)) as one, serving(spent=RedisSpent(client)) as other:
            token, used = one.token(), one.token()
            async with watching(one, used) as alice:
                # Her seat is on the other server, and a second one she does not get.
                assert await other.socket("ws/demo", used) == (401, "token_used")
                assert other.sessions == 0
                alice.viewer.say(lambda protocol: protocol.bye("enough"))
                await alice.task
            await until(lambda: not one.sessions)
            await one.app.state.door.turnstile.spent.aclose()
            for server in (one, other):
                assert await server.socket("ws/demo", used) == (401, "token_used")
                assert server.sessions == 0
            assert await other.socket("ws/demo", token) == (200, "")
        await client.aclose()

    run(scenario())


def test_the_same_token_in_a_new_tab_takes_the_seat_over() -> None:
    async def scenario(served: Served) -> None:
        token = served.token()
        async with watching(served, token) as old, watching(served, token) as new:
            assert new.seat == old.seat
            assert (await old.task).ended == "taken over by another connection"
            assert served.sessions == 1
            at = new.cursor
            await until(lambda: new.cursor > at + 5)

    check(scenario)


def test_a_token_shown_five_times_at_once_opens_one_seat() -> None:
    async def scenario(served: Served) -> None:
        token = served.token()
        answers = await asyncio.gather(*(served.post_offer("whep/demo", token) for _ in range(5)))
        assert [answer.status_code for answer in answers] == [201] * 5
        assert len({answer.headers["location"] for answer in answers}) == 1
        assert served.sessions == 1

    check(scenario)


def test_seats_of_a_session_that_goes_on_elsewhere_take_no_place_here() -> None:
    async def scenario(served: Served) -> None:
        token, door = served.token(), served.app.state.door
        async with watching(served, token) as alice, watching(served, served.token()):
            await served.app.state.sessions.aclose()
            assert (await alice.task).ended == "the server is stopping"
        assert (door._taken, door._places, door._about, door._live) == ({}, {}, {}, {})
        assert door.turnstile.traffic.seats("127.0.0.1") == 0
        # Nothing was given up: the token opens a seat again, where nobody has taken the old one over.
        async with watching(served, token) as again:
            assert again.seat != alice.seat
            assert len(door._places) == 1
        await served.ask("DELETE", f"whep/demo/{again.seat}", token)
        await until(lambda: not door._live)
        assert (door._taken, door._places, door._about, door._live) == ({}, {}, {}, {})

    check(scenario, quotas=Quotas(seats_per_address=2))


def test_a_seat_has_so_many_connections_that_never_said_hello() -> None:
    async def scenario(served: Served) -> None:
        async with watching(served, served.token()) as alice:
            for _ in range(3 * PENDING):
                answer = await served.post_offer(f"whep/demo/{alice.seat}", alice.token)
                assert answer.status_code == 201
            (live,) = served.app.state.door._live.values()
            await until(lambda: len(live._connections) == 1 + PENDING)
            # She watches on, and none of these disturbs her.
            at = alice.cursor
            await until(lambda: alice.cursor > at + 5)

    check(scenario)


def test_a_tour_outlives_its_token_but_the_token_opens_nothing_new() -> None:
    async def scenario(served: Served) -> None:
        # Its time, and what clocks may differ by, are over in four seconds.
        over = time.time() + 4.0
        token = served.token(now=over - 300 - LEEWAY)
        async with watching(served, token) as alice:
            await asyncio.sleep(over + 1.0 - time.time())
            assert code_of(await served.post_offer("whep/demo", token)) == (401, "token_expired")
            assert await served.socket("ws/demo", token) == (401, "token_expired")
            async with watching(served, token, alice.seat) as again:
                assert again.seat == alice.seat
                assert (await alice.task).ended == "taken over by another connection"
            assert code_of(await served.ask("DELETE", f"whep/demo/{again.seat}", token)) == (200, "")
            assert await served.socket(f"ws/demo/{again.seat}", token) == (404, "no_such_seat")

    check(scenario)
