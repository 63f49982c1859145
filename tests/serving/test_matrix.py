"""Who reaches what, over real HTTP: role x route x session, and every way of not being allowed."""

from __future__ import annotations

import time

from multimodal import wire
from multimodal.events import Interrupted
from multimodal.serving.rights import Grant
from multimodal.serving.seats import Seats
from tests.serving.guarded_shop import (
    OTHER,
    PICTURES,
    SEAT_ROUTES,
    SECRET,
    TOUR_ROUTES,
    Served,
    check,
    code_of,
    tampered,
    tried,
    watching,
)
from tests.transport.leaks import until


def test_nobody_reaches_another_session() -> None:
    async def scenario(served: Served) -> None:
        async with (
            watching(served, served.token()) as alice,
            watching(served, served.token()) as bob,
            watching(served, served.token(session="launch")) as carol,
            watching(served, served.token(session="launch", role="host")) as host,
        ):
            assert served.sessions == 4
            assert len({each.seat for each in (alice, bob, carol, host)}) == 4
            gone = served.token()
            left = (await served.post_offer("whep/demo", gone)).headers["location"]
            assert code_of(await served.ask("DELETE", left, gone)) == (200, "")
            never = Seats(SECRET).issue(Grant("demo"), tour="demo", session="x", now=time.time())
            forged = Seats(OTHER).issue(Grant("demo"), tour="demo", session="x", now=time.time())
            elsewhere = Seats(SECRET).issue(Grant("other"), tour="other", session="x", now=time.time())
            seats = {
                "alice": alice.seat,
                "bob": bob.seat,
                "carol": carol.seat,
                "host": host.seat,
                "left": left.rsplit("/", 1)[1],
                "never": never.id,
                "forged": forged.id,
                "of another tour": elsewhere.id,
                "changed": alice.seat[:-1] + ("A" if alice.seat[-1] != "A" else "Q"),
            }
            long_ago = time.time() - 1000
            credentials: dict[str, tuple[str, tuple[int, str]]] = {
                "none": ("", (401, "token_missing")),
                **{name: (token, (401, "token_invalid")) for name, token in tampered(alice.token).items()},
                "of another tour": (served.token(tour="other"), (403, "wrong_scope")),
                "operator": (served.token(role="operator"), (403, "wrong_scope")),
                "operator of all": (served.token(role="operator", tour="*"), (403, "wrong_scope")),
                # Good tokens, but not those that opened the seat.
                "new viewer": (served.token(), (404, "no_such_seat")),
                "new host": (served.token(role="host", session="launch"), (404, "no_such_seat")),
                "used up": (gone, (404, "no_such_seat")),
                "expired": (served.token(now=long_ago), (404, "no_such_seat")),
                "alice": (alice.token, (404, "no_such_seat")),
                "host": (host.token, (404, "no_such_seat")),
            }
            before = alice.cursor, bob.cursor, carol.cursor, host.cursor
            for method, route in SEAT_ROUTES:
                answers: dict[tuple[int, str], set[str]] = {}
                for holder, (token, expected) in credentials.items():
                    for whose, seat in seats.items():
                        if holder == whose:
                            continue
                        answer, whole = await tried(served, method, route.format(seat=seat), token)
                        assert answer == expected, (method, route, holder, whose)
                        answers.setdefault(answer, set()).add(whole.replace(seat, "{seat}"))
                # Not by a word can one seat be told from another.
                assert len(answers[404, "no_such_seat"]) == 1, (method, route)
                assert len(answers[401, "token_missing"]) == 1
            for method, route in TOUR_ROUTES:
                for holder, (token, expected) in credentials.items():
                    if expected[0] == 404:
                        continue
                    answer, _ = await tried(served, method, route, token)
                    assert answer == expected, (method, route, holder)
                assert (await tried(served, method, route, credentials["expired"][0]))[0] == (401, "token_expired")
                assert (await tried(served, method, route, gone))[0] == (401, "token_used")
            await until(
                lambda: all(
                    now > then
                    for now, then in zip((alice.cursor, bob.cursor, carol.cursor, host.cursor), before, strict=True)
                )
            )
            assert not any(each.task.done() for each in (alice, bob, carol, host))
            assert served.sessions == 4

    check(scenario)


def test_each_reaches_its_own() -> None:
    async def scenario(served: Served) -> None:
        async with watching(served, served.token()) as alice:
            seat = alice.seat
            found = await served.ask("GET", f"pictures/demo/{seat}/{PICTURES[0].sha256}", alice.token)
            assert (found.status_code, found.content) == (200, PICTURES[0].data)
            assert (
                code_of(await served.ask("GET", f"pictures/demo/{seat}/{'0' * 64}", alice.token))[1]
                == "no_such_picture"
            )
            # Its road is a WebSocket, so there is no event stream to answer.
            messages = await served.ask("POST", f"sse/demo/{seat}/messages", alice.token, wire.encode(wire.Ack()))
            assert code_of(messages) == (409, "no_event_stream")
            assert await served.socket(f"ws/demo/{seat}", alice.token) == (200, "")
            assert (await alice.task).ended == "taken over by another connection"
            again = await served.post_offer(f"whep/demo/{seat}", alice.token)
            assert (again.status_code, again.headers["location"].rsplit("/", 1)[1]) == (201, seat)
            assert code_of(await served.ask("DELETE", f"whep/demo/{seat}", alice.token)) == (200, "")
            assert code_of(await served.ask("DELETE", f"whep/demo/{seat}", alice.token)) == (404, "no_such_seat")
            await until(lambda: not served.sessions)

    check(scenario)


def test_a_viewer_only_watches_a_shared_session_and_a_host_turns_it() -> None:
    async def scenario(served: Served) -> None:
        async with (
            watching(served, served.token(session="launch")) as carol,
            watching(served, served.token(session="launch", role="host")) as host,
            watching(served, served.token()) as alice,
        ):
            connection = next(
                seat.connection
                for live in served.app.state.door._live.values()
                for seat in live.seats.values()
                if seat.name in Seats(SECRET).read(carol.seat, tour="demo", now=time.time()).viewer
            )
            carol.viewer.interrupt()
            carol.viewer.say(lambda protocol: protocol.pause())
            await until(lambda: connection.refused == 2)
            at = host.cursor
            await until(lambda: host.cursor > at + 5)
            assert not any(isinstance(event, Interrupted) for event in host.viewer.seen.events)
            host.viewer.interrupt()
            await until(lambda: any(isinstance(event, Interrupted) for event in carol.viewer.seen.events))
            # A session of one's own is turned by whoever it belongs to.
            alice.viewer.interrupt()
            await until(lambda: any(isinstance(event, Interrupted) for event in alice.viewer.seen.events))

    check(scenario)


def test_operators_list_and_end_sessions_and_nobody_else_does() -> None:
    async def scenario(served: Served) -> None:
        operator, of_all = served.token(role="operator"), served.token(role="operator", tour="*")
        async with (
            watching(served, served.token()) as alice,
            watching(served, served.token(session="launch", role="host")) as host,
        ):
            for token, expected in (
                ("", (401, "token_missing")),
                (alice.token, (403, "wrong_scope")),
                (host.token, (403, "wrong_scope")),
                (served.token(role="operator", tour="other"), (403, "wrong_scope")),
                (served.token(role="operator", now=time.time() - 1000), (401, "token_expired")),
                *((forged, (401, "token_invalid")) for forged in tampered(operator).values()),
            ):
                assert code_of(await served.ask("GET", "sessions/demo", token)) == expected
                assert code_of(await served.ask("DELETE", "sessions/demo/x", token)) == expected
            assert code_of(await served.ask("GET", "sessions/*", operator)) == (403, "wrong_scope")
            response = await served.ask("GET", "sessions/demo", operator)
            listed = response.json()["sessions"]
            assert response.headers["cache-control"] == "no-store"
            assert sorted((each["name"], each["seats"], each["connected"]) for each in listed) == [
                ("", 1, 1),
                ("launch", 1, 1),
            ]
            # What operators see does not open anything.
            assert not any(secret in response.text for secret in (alice.seat, host.seat, alice.token))
            assert (await served.ask("GET", "sessions/other", served.token(role="operator", tour="other"))).json() == {
                "sessions": []
            }
            assert len((await served.ask("GET", "sessions/*", of_all)).json()["sessions"]) == 2
            name = next(each["session"] for each in listed if not each["name"])
            other = served.token(role="operator", tour="other")
            assert code_of(await served.ask("DELETE", f"sessions/other/{name}", other)) == (404, "no_such_session")
            assert code_of(await served.ask("DELETE", f"sessions/demo/{name}", operator)) == (200, "")
            assert code_of(await served.ask("DELETE", f"sessions/demo/{name}", operator)) == (404, "no_such_session")
            assert (await alice.task).ended == "the session was ended"
            assert code_of(await served.post_offer("whep/demo", alice.token)) == (401, "token_used")
            assert not host.task.done()

    check(scenario)


def test_without_tokens_seats_are_still_nobody_elses_and_there_are_no_operators() -> None:
    async def scenario(served: Served) -> None:
        async with watching(served, "") as alice, watching(served, "") as bob:
            assert alice.seat != bob.seat
            assert code_of(await served.ask("GET", "sessions/demo", served.token(role="operator"))) == (
                403,
                "wrong_scope",
            )
            guess = alice.seat[:-6] + bob.seat[-6:]
            assert code_of(await served.ask("DELETE", f"whep/demo/{guess}")) == (404, "no_such_seat")
            assert code_of(await served.ask("DELETE", f"whep/other/{alice.seat}")) == (404, "no_such_seat")
            assert code_of(await served.ask("DELETE", f"whep/demo/{alice.seat}")) == (200, "")
            assert not bob.task.done()

    check(scenario, secret=None)
