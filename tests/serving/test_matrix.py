"""Who reaches what, over real HTTP: role x route x session, and every way of not being allowed."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import httpx2
import jwt
import pytest
import redis.asyncio
import uvicorn
import websockets
from starlette.applications import Starlette
from starlette.types import ASGIApp
from websockets.asyncio.client import connect

from multimodal import wire
from multimodal.bench.redis_stage import RedisServer
from multimodal.errors import RemoteProtocolError
from multimodal.events import Interrupted
from multimodal.journal import MemoryJournal
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.app import asgi
from multimodal.serving.auth import LEEWAY, Tokens
from multimodal.serving.limits import Quotas
from multimodal.serving.rights import Grant
from multimodal.serving.run import SmallBuffers
from multimodal.serving.seats import Seats
from multimodal.serving.spent import RedisSpent
from multimodal.serving.turn import Turn
from multimodal.stream import MultiModalStream
from multimodal.transport.live import PENDING
from multimodal.transport.resilient import ResilientViewer
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.websocket_client import join_websocket, rejoin_websocket
from tests.redis_server import redis_server
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left, until

__all__ = ["redis_server"]

SECRET = "a-secret-of-the-shop-0123456789-abcdefgh"
OTHER = "a-secret-of-another-shop-0123456789-abcd"
SHOP = "https://shop.example"
PICTURES = [picture(f"p{i}", 5_000 + i) for i in range(3)]


def make_stream(tour: str) -> MultiModalStream:
    if tour not in {"demo", "other", "short"}:
        raise KeyError(tour)
    words = 20 if tour == "short" else 10_000
    return MultiModalStream(ScriptTextPipe([f"w{i} " for i in range(words)], gap=0.02), ScriptImagePipe(PICTURES))


class Served:
    """A running server, and what tests ask of it."""

    def __init__(self, port: int, app: Starlette, http: httpx2.AsyncClient) -> None:
        self.app, self.http = app, http
        self.base = f"http://127.0.0.1:{port}/shop"
        self.url = f"{self.base}/whep/demo"
        self.tokens = Tokens(SECRET)
        self.offer = ""

    def token(self, **claims: Any) -> str:
        return self.tokens.issue(**{"tour": "demo", "now": time.time(), **claims})

    @property
    def sessions(self) -> int:
        return len(self.app.state.sessions)

    async def ask(self, method: str, path: str, token: str = "", body: str = "", **headers: str) -> httpx2.Response:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        return await self.http.request(method, urljoin(self.base + "/", path), content=body, headers=sent)

    async def post_offer(self, path: str, token: str = "", **headers: str) -> httpx2.Response:
        return await self.ask("POST", path, token, self.offer, Content_Type="application/sdp", **headers)

    async def socket(self, path: str, token: str = "", *, header: bool = False) -> tuple[int, str]:
        """The status and the code with which a WebSocket is closed, or (200, "") where it is let in."""
        headers = {"Authorization": f"Bearer {token}"} if header else {}
        hello = wire.encode(wire.Hello(join_token="" if header else token))
        async with connect(f"ws{self.base[4:]}/{path}", additional_headers=headers) as socket:
            try:
                async with asyncio.timeout(30):
                    await socket.send(hello)
                    assert json.loads(await socket.recv())["type"] in {"seat", "bundle", "ping"}
            except websockets.ConnectionClosed:
                return (socket.close_code or 0) - 4000, socket.close_reason or ""
            # A goodbye would give up the seat: this is a road that was lost.
            socket.transport.abort()
        return 200, ""


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    settings.setdefault("quotas", Quotas.unlimited())
    settings.setdefault("secret", SECRET)
    app = asgi(make_stream, cors_origins=[SHOP], **settings)
    outer: ASGIApp = Starlette()
    assert isinstance(outer, Starlette)
    outer.mount("/shop", app)
    server = uvicorn.Server(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="warning", ws=SmallBuffers))
    running = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    try:
        async with httpx2.AsyncClient(timeout=30) as http:
            yield Served(server.servers[0].sockets[0].getsockname()[1], app, http)
    finally:
        await app.state.sessions.aclose()
        server.should_exit = True
        await running


def check(scenario: Callable[[Served], Awaitable[None]], **settings: Any) -> None:
    async def checked() -> None:
        async with nothing_left(), serving(**settings) as served:
            link, served.offer = await WebRTCLink.offering()
            try:
                await scenario(served)
            finally:
                await link.aclose()

    run(checked())


class Watching:
    """A viewer that is in."""

    def __init__(self, served: Served, token: str, viewer: Viewer) -> None:
        self.served, self.token, self.viewer = served, token, viewer
        self.task = asyncio.ensure_future(viewer.watch())

    @property
    def seat(self) -> str:
        return self.viewer.protocol.seat.rsplit("/", 1)[1]

    @property
    def cursor(self) -> int:
        return self.viewer.protocol.cursor


@asynccontextmanager
async def watching(served: Served, token: str, seat: str = "") -> AsyncIterator[Watching]:
    hello = wire.Hello(join_token=token)
    link = await (
        rejoin_websocket(f"{served.url}/{seat}", token=token) if seat else join_websocket(served.url, token=token)
    )
    watcher = Watching(served, token, Viewer(link, hello=hello))
    try:
        await until(lambda: watcher.cursor >= 2 or watcher.task.done())
        yield watcher
    finally:
        watcher.task.cancel()
        with suppress(asyncio.CancelledError):
            await watcher.task


def code_of(response: httpx2.Response) -> tuple[int, str]:
    if response.status_code < 400:
        return response.status_code, ""
    error = response.json()["error"]
    assert error.keys() == {"code", "message", "hint"}
    assert all(error.values())
    assert "Traceback" not in response.text
    if response.status_code == 401:
        assert response.headers["www-authenticate"].startswith("Bearer")
    if response.status_code == 429:
        assert int(response.headers["retry-after"]) >= 1
    return response.status_code, error["code"]


def tampered(token: str) -> dict[str, str]:
    head, body, mac = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    more = base64.urlsafe_b64encode(json.dumps({**claims, "role": "operator", "tour": "*"}).encode()).rstrip(b"=")
    return {
        "alg none": f"{none}.{body}.",
        "another role": f"{head}.{more.decode()}.{mac}",
        "another secret": jwt.encode(claims, OTHER, "HS256"),
        "no token of anybody": "x.y.z",
    }


SEAT_ROUTES = [
    ("POST", "whep/demo/{seat}"),
    ("DELETE", "whep/demo/{seat}"),
    ("GET", "sse/demo/{seat}"),
    ("POST", "sse/demo/{seat}"),
    ("POST", "sse/demo/{seat}/messages"),
    ("GET", "pictures/demo/{seat}/" + PICTURES[0].sha256),
    ("WS", "ws/demo/{seat}"),
]
TOUR_ROUTES = [("POST", "whep/demo"), ("GET", "sse/demo"), ("POST", "sse/demo"), ("WS", "ws/demo")]


async def tried(served: Served, method: str, path: str, token: str) -> tuple[tuple[int, str], str]:
    """Status and code, and all of a refusal that a stranger could tell one from another by."""
    if method == "WS":
        # By the hello, as pages do, and by a header.
        answers = {await served.socket(path, token, header=header) for header in (False, True)}
        assert len(answers) == 1, answers
        answer = answers.pop()
        return answer, str(answer)
    if method == "POST" and path.startswith("whep"):
        response = await served.post_offer(path, token)
    elif method == "POST":
        response = await served.ask(method, path, token, wire.encode(wire.Hello()))
    else:
        response = await served.ask(method, path, token)
    headers = sorted(f"{key}: {value}" for key, value in response.headers.items() if key != "date")
    return code_of(response), "\n".join([*headers, response.text])


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


# ---- tokens over time ------------------------------------------------------------------------------------------------


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


# ---- quotas, origins, relays -----------------------------------------------------------------------------------------


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
