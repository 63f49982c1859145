"""Tokens, rights, seats and spent tokens: one row per way of being wrong, on a clock that is an argument."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from multimodal.errors import UsageError
from multimodal.serving.auth import ANY_TOUR, LEEWAY, LONGEST, TOKEN_TTL, Tokens, bearer
from multimodal.serving.rights import MAY, ROLES, Grant, demand, secret_bytes
from multimodal.serving.seats import SEAT_TTL, Seats
from multimodal.serving.signalling import Problem
from multimodal.serving.spent import Spent
from tests.support import run

NOW = 1_800_000_000.0
SECRET = "a-secret-of-the-shop-0123456789-abcdefgh"
OTHER = "a-secret-of-another-shop-0123456789-abcd"


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a good token; None takes one away."""
    good = {"tour": "demo", "exp": NOW + 300, "iat": NOW, "jti": "j1"}
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


def signed(secret: str = SECRET, **changes: Any) -> str:
    return jwt.encode(claims(**changes), secret, "HS256")


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, body, mac = token.split(".")
    return json.loads(unb64(head)), json.loads(unb64(body)), mac


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def b64(data: dict[str, Any] | bytes) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        call()
    error = caught.value.body()["error"]
    assert all(error.values()), error
    if caught.value.status == 401:
        assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")
    return caught.value.status, error["code"]


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("session", ["", "launch-2026.~x_1"])
def test_an_issued_token_is_what_it_was_issued_for(role: Any, session: str) -> None:
    tokens = Tokens(SECRET)
    token = tokens.issue(tour="a/b ü", now=NOW, session=session, role=role)
    grant = tokens.check(token, tour="a/b ü", now=NOW)
    assert (grant.tour, grant.session, grant.role) == ("a/b ü", session, role)
    assert grant.expires == NOW + TOKEN_TTL + LEEWAY
    head, body, _ = parts(token)
    assert head == {"alg": "HS256", "typ": "JWT"}
    assert body.keys() == {"tour", "session", "role", "iat", "exp", "jti"}
    assert tokens.check(tokens.issue(tour="demo", now=NOW), tour="demo", now=NOW).jti != grant.jti


def test_a_token_of_another_library_is_taken_with_the_claims_it_must_have() -> None:
    grant = Tokens(SECRET).check(signed(sub="me", iss="shop", exp=NOW + 60.5), tour="demo", now=NOW)
    assert (grant.session, grant.role, grant.jti) == ("", "viewer", "j1")


@pytest.mark.parametrize(
    ("at", "code"),
    [(299, ""), (309.9, ""), (310, "token_expired"), (1e9, "token_expired"), (-10, ""), (-11, "token_invalid")],
)
def test_a_token_is_good_for_its_time_and_no_longer(at: float, code: str) -> None:
    tokens, token = Tokens(SECRET), signed()
    if code:
        assert refused(lambda: tokens.check(token, tour="demo", now=NOW + at)) == (401, code)
    else:
        assert tokens.check(token, tour="demo", now=NOW + at).jti == "j1"


def test_its_seat_still_takes_a_token_whose_time_is_over() -> None:
    tokens = Tokens(SECRET)
    assert tokens.check(signed(), tour="demo", now=NOW + 1e6, ended=True).jti == "j1"
    assert refused(lambda: tokens.check(signed(), tour="other", now=NOW + 1e6, ended=True)) == (403, "wrong_scope")
    assert refused(lambda: tokens.check(signed(OTHER), tour="demo", now=NOW, ended=True)) == (401, "token_invalid")


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"exp": None}, "exp is missing"),
        ({"iat": None}, "iat is missing"),
        ({"jti": None}, "jti is missing"),
        ({"tour": None}, "tour is missing"),
        ({"jti": ""}, "jti must be text of 1 to 128"),
        ({"jti": 7}, "jti must be text"),
        ({"jti": "j" * 129}, "jti must be"),
        ({"tour": ""}, "tour must be text of 1 to 200"),
        ({"tour": "t" * 201}, "tour must be"),
        ({"session": "a/b"}, "session must be letters"),
        ({"session": "a\n"}, "session must be"),
        ({"session": "s" * 65}, "session must be"),
        ({"session": 7}, "session must be"),
        ({"role": "admin"}, "role must be one of viewer, host, operator"),
        ({"role": None, "rôle": "host", "role ": "host", "exp": "tomorrow"}, "exp must be a number"),
        ({"exp": "1900000000"}, "exp must be"),
        ({"exp": float("nan")}, "exp must be"),
        ({"exp": float("inf")}, "exp must be"),
        ({"exp": 10**400}, "exp must be"),
        ({"iat": float("nan")}, "iat must be"),
        ({"iat": float("-inf")}, "iat must be"),
        ({"nbf": "now"}, "nbf must be"),
        ({"exp": NOW + LONGEST + 1}, "exp must lie after iat"),
        ({"exp": NOW - 1}, "exp must lie after iat"),
        ({"iat": NOW + 60}, "iat or nbf lies in the future"),
        ({"nbf": NOW + 60}, "iat or nbf lies in the future"),
        ({"aud": "another service"}, "aud names a service"),
        ({"aud": 7}, "aud names a service"),
        ({"exp": True}, "exp must be"),
        ({"exp": [NOW + 300]}, "exp must be"),
    ],
)
def test_claims_that_are_missing_or_wrong_are_refused_and_named(changes: dict[str, Any], claim: str) -> None:
    """Whoever signed it has the secret, and learns what to correct; the token and its values are not repeated."""
    token = signed(**changes)
    with pytest.raises(Problem) as caught:
        Tokens(SECRET).check(token, tour="demo", now=NOW)
    assert (caught.value.status, caught.value.code) == (401, "token_invalid")
    said = json.dumps(caught.value.body())
    assert f"its claim {claim}" in said
    assert not any(part in said for part in (*token.split("."), SECRET, *map(repr, changes.values())))


def test_claims_that_are_no_concern_of_ours_do_no_harm() -> None:
    token = signed(iss="a shop", sub=7, basket={"items": 3})
    assert Tokens(SECRET).check(token, tour="demo", now=NOW).jti == "j1"


def forged() -> dict[str, str]:
    good = signed()
    head, body, mac = good.split(".")
    none = {"alg": "none", "typ": "JWT"}
    key = SECRET.encode()
    other_hash = f"{b64({'alg': 'HS512', 'typ': 'JWT'})}.{body}"
    return {
        "another secret": signed(OTHER),
        "alg none": f"{b64(none)}.{body}.",
        "alg none, signed": f"{b64(none)}.{body}.{mac}",
        "alg None": f"{b64({'alg': 'None'})}.{body}.",
        "no alg": f"{b64({'typ': 'JWT'})}.{body}.{mac}",
        "alg is no text": f"{b64({'alg': 7})}.{body}.{mac}",
        "HS512, rightly signed": f"{other_hash}.{b64(hmac.digest(key, other_hash.encode(), 'sha512'))}",
        "claims changed": f"{head}.{b64(claims(role='host'))}.{mac}",
        "tour changed": f"{head}.{b64(claims(tour='demo'))}.{signed(tour='x').split('.')[2]}",
        "signature cut": good[:-4],
        "signature changed": good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB"),
        "no signature": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.x",
        "not base64": f"{head}.%%%.{mac}",
        "not JSON": f"{head}.{b64(b'{')}.{mac}",
        "a list": f"{head}.{b64(b'[1]')}.{mac}",
        "nested deep": f"{b64(b'[' * 1000)}.{body}.{mac}",
        "critical header": jwt.encode(claims(), SECRET, "HS256", headers={"crit": ["b64"], "b64": False}),
        "huge": "e" * 5000,
        "not ASCII": "ü.ü.ü",
        "half a character": "\ud800.a.b",
        "a space": " ",
        "with a newline": good[:10] + "\n" + good[10:],
    }


@pytest.mark.parametrize("name", forged())
def test_what_was_not_signed_with_the_secret_is_refused_in_the_same_words(name: str) -> None:
    token = forged()[name]
    tokens = Tokens(SECRET)
    assert refused(lambda: tokens.check(token, tour="demo", now=NOW)) == (401, "token_invalid")
    with pytest.raises(Problem) as caught:
        tokens.check(token, tour="demo", now=NOW)
    if len(token) < 2000:
        assert caught.value.message == "the token was not signed with this server's secret by HS256, or is none"


def test_a_token_is_for_its_tour_only_but_an_operators_may_be_for_all() -> None:
    tokens = Tokens(SECRET)
    assert refused(lambda: tokens.check("", tour="demo", now=NOW)) == (401, "token_missing")
    assert refused(lambda: tokens.check(signed(), tour="Demo", now=NOW)) == (403, "wrong_scope")
    assert tokens.check(signed(tour=ANY_TOUR, role="operator"), tour="x", now=NOW).role == "operator"
    for role in ("viewer", "host"):
        assert refused(lambda role=role: tokens.check(signed(tour=ANY_TOUR, role=role), tour="x", now=NOW))[0] == 403  # type: ignore[misc]
        with pytest.raises(UsageError, match="for operators"):
            tokens.issue(tour=ANY_TOUR, now=NOW, role=role)


def test_older_secrets_are_good_for_checking_and_the_newest_signs() -> None:
    rotated = Tokens(OTHER, older=[SECRET])
    assert rotated.check(signed(), tour="demo", now=NOW).jti == "j1"
    assert Tokens(OTHER).check(rotated.issue(tour="demo", now=NOW), tour="demo", now=NOW)
    assert refused(lambda: Tokens(SECRET).check(rotated.issue(tour="demo", now=NOW), tour="demo", now=NOW))[0] == 401


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("short", "5 bytes and needs 32"),
        ("x" * 31, "31 bytes"),
        ("", "0 bytes"),
        (b"k" * 64, "1 different"),
        ("1234567" * 6, "7 different"),
        (None, "NoneType"),
        (12345, "int"),
    ],
)
def test_weak_secrets_are_refused_and_the_refusal_says_how_to_make_one(secret: Any, why: str) -> None:
    for make in (Tokens, secret_bytes):
        with pytest.raises(UsageError, match=why) as caught:
            make(secret)
        assert "secrets.token_urlsafe(48)" in str(caught.value)
    if secret is not None:
        with pytest.raises(UsageError, match=why):
            Seats(secret)
    assert "x" * 31 not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"role": "admin"}, "viewer, host, operator"),
        ({"session": "a b"}, "claim session must be letters, digits"),
        ({"session": "s" * 65}, "claim session must be"),
        ({"session": None}, "claim session must be"),
        ({"tour": ""}, "claim tour must be text of 1 to 200 characters"),
        ({"tour": "t" * 201}, "claim tour must be"),
        ({"tour": 7}, "claim tour must be"),
        ({"ttl": 0}, "ttl=0"),
        ({"ttl": LONGEST + 1}, "86400"),
        ({"ttl": float("nan")}, "ttl=nan"),
        ({"ttl": True}, "ttl=True"),
    ],
)
def test_a_token_that_no_server_would_take_is_not_issued(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Tokens(SECRET).issue(**{"tour": "demo", "now": NOW, **wrong})


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer a.b.c", "a.b.c"),
        ("bearer  x ", "x"),
        ("BEARER x", "x"),
        ("Basic x", ""),
        ("", ""),
        ("Bearer", ""),
        ("x", ""),
    ],
)
def test_the_header_that_carries_it(header: str, token: str) -> None:
    assert bearer(header) == token


def test_the_table_of_rights_is_what_was_promised() -> None:
    assert {role: sorted(MAY[role]) for role in ROLES} == {
        "viewer": ["turn_own", "watch"],
        "host": ["turn_own", "turn_shared", "watch"],
        "operator": ["end", "list"],
    }
    with pytest.raises(TypeError):
        MAY["viewer"] = frozenset()  # type: ignore[index]
    assert demand(Grant("demo"), "watch") == Grant("demo")
    assert refused(lambda: demand(Grant("demo", role="viewer"), "list")) == (403, "wrong_scope")
    assert refused(lambda: demand(Grant("demo", role="operator"), "watch")) == (403, "wrong_scope")


# ---- seats -----------------------------------------------------------------------------------------------------------

GRANT = Grant("demo", "launch", "host", "j1", NOW + 300)


def test_a_seat_is_what_it_was_issued_for_also_after_a_restart() -> None:
    seat = Seats(SECRET).issue(GRANT, tour="demo", session="s" * 64, now=NOW)
    assert len(seat.id) <= 200
    assert Seats.looks_like(seat.id)
    assert seat.id.replace("_", "").replace("-", "").isalnum()
    again = Seats(SECRET).read(seat.id, tour="demo", now=NOW + SEAT_TTL - 1)
    assert again == seat
    assert (again.session, again.role, again.key) == ("s" * 64, "host", GRANT.key)
    assert Seats(OTHER, older=[SECRET]).read(seat.id, tour="demo", now=NOW) == seat
    assert "j1" not in seat.id


def test_two_seats_of_one_token_differ_and_one_without_a_token_has_no_key() -> None:
    seats = Seats()
    first, second = (seats.issue(Grant("demo"), tour="demo", session="s", now=NOW) for _ in range(2))
    assert first.viewer != second.viewer
    assert seats.read(first.id, tour="demo", now=NOW).key == ""
    assert refused(lambda: Seats().read(first.id, tour="demo", now=NOW)) == (404, "no_such_seat")


def test_any_change_to_a_seat_makes_it_a_stranger() -> None:
    seats = Seats(SECRET)
    seat = seats.issue(GRANT, tour="demo", session="s1", now=NOW).id
    answers = set()

    def stranger(seat_id: str, tour: str = "demo", now: float = NOW) -> None:
        with pytest.raises(Problem) as caught:
            seats.read(seat_id, tour=tour, now=now)
        answers.add((caught.value.status, json.dumps(caught.value.body()), tuple(caught.value.headers)))

    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for at in range(len(seat)):
        for other in {alphabet[(alphabet.index(seat[at]) + step) % 64] for step in (1, 16, 32, 63)}:
            stranger(seat[:at] + other + seat[at + 1 :])
    for wrong in (
        "",
        "s1_",
        "x",
        seat[:-1],
        seat + "A",
        seat + "=",
        seat.upper(),
        seat * 2,
        "s1_" + "A" * 100,
        "ü" * 90,
        "\0",
    ):
        stranger(wrong)
    stranger(seat, tour="Demo")
    stranger(seat, now=NOW + SEAT_TTL + 1)
    stranger(Seats(OTHER).issue(GRANT, tour="demo", session="s1", now=NOW).id)
    assert len(answers) == 1
    assert seats.read(seat, tour="demo", now=NOW)


@pytest.mark.parametrize("session", ["", "s" * 65, "ü" * 33])
def test_a_session_name_that_no_seat_can_carry(session: str) -> None:
    with pytest.raises(UsageError, match="1 to 64 bytes"):
        Seats(SECRET).issue(GRANT, tour="demo", session=session, now=NOW)


def test_a_seats_signature_is_nobody_elses() -> None:
    """The border between tour and session cannot be moved, and a token's signature is no seat's."""
    seats = Seats(SECRET)
    seat = seats.issue(GRANT, tour="ab", session="c", now=NOW)
    assert refused(lambda: seats.read(seat.id, tour="a", now=NOW))[0] == 404
    raw = unb64(seat.id[3:])
    body = raw[:-16]
    under_the_secret = body + hmac.digest(SECRET.encode(), len(b"ab").to_bytes(4, "big") + b"ab" + body, "sha256")[:16]
    assert refused(lambda: seats.read("s1_" + b64(under_the_secret), tour="ab", now=NOW))[0] == 404


def test_a_stranger_costs_the_work_of_an_acquaintance() -> None:
    """Whole figures of a busy machine prove little: only that nothing is left out for ids that are wrong."""
    seats = Seats(SECRET, older=[OTHER])
    good = seats.issue(GRANT, tour="demo", session="s1", now=NOW).id
    strangers = [good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "x", "s1_" + "A" * 100]

    def cost(seat_id: str) -> float:
        begun = time.process_time()
        for _ in range(300):
            with contextlib.suppress(Problem):
                seats.read(seat_id, tour="demo", now=NOW)
        return time.process_time() - begun

    known = statistics.median(cost(good) for _ in range(5))
    for stranger in strangers:
        assert statistics.median(cost(stranger) for _ in range(5)) > known / 4, stranger


# ---- spent tokens ----------------------------------------------------------------------------------------------------


def spent(table: Spent, grant: Grant, now: float) -> bool:
    return asyncio.run(table.is_spent(grant, now=now))


def test_a_closed_token_is_spent_until_neither_it_nor_its_seat_is_good() -> None:
    table = Spent()
    assert not spent(table, GRANT, NOW)
    table.close(GRANT, now=NOW)
    assert spent(table, GRANT, NOW)
    assert spent(table, GRANT, NOW + SEAT_TTL - 1)
    assert not spent(table, GRANT, NOW + SEAT_TTL + 1)
    long = Grant("demo", jti="j2", expires=NOW + LONGEST)
    table.close(long, now=NOW)
    assert spent(table, long, NOW + LONGEST - 1)


def test_without_a_token_nothing_is_spent() -> None:
    table = Spent()
    table.close(Grant("demo"), now=NOW)
    assert len(table) == 0
    assert not spent(table, Grant("demo"), NOW)


def test_what_is_over_makes_room_and_what_is_full_forgets_the_soonest() -> None:
    table = Spent(limit=3, seat_ttl=10)
    grants = [Grant("demo", jti=f"j{number}", expires=NOW + 100 - number) for number in range(5)]
    for grant in grants[:3]:
        table.close(grant, now=NOW)
        table.close(grant, now=NOW)
    assert (len(table), table.forgotten) == (3, 0)
    table.close(grants[3], now=NOW)
    assert [spent(table, grant, NOW) for grant in grants[:4]] == [True, True, False, True]
    assert (len(table), table.forgotten) == (3, 1)
    table.close(grants[4], now=NOW + 1000)
    assert (len(table), table.forgotten) == (1, 1)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_bound_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(UsageError, match="limit"):
        Spent(limit=limit)


def test_ending_it_forgets_nothing() -> None:
    table = Spent()
    table.close(GRANT, now=NOW)
    run(table.aclose())
    assert spent(table, GRANT, NOW)
