"""Credentials for a relay: their form, how viewers are told, and that a real coturn takes them while they last."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aioice import stun
from aioice.turn import create_turn_endpoint

from multimodal.errors import UsageError
from multimodal.serving.turn import Turn, turn_credentials
from tests import coturn as servers
from tests.support import run


def test_the_form_is_the_one_that_relays_know() -> None:
    # The same figures out of: printf '1700000600:k' | openssl dgst -sha1 -hmac secret -binary | base64
    assert turn_credentials("secret", user="k", now=1_700_000_000.9) == (
        "1700000600:k",
        "5erTkhAJZFFiTdEycoGb0pV3P60=",
    )
    assert turn_credentials(b"secret", ttl=60, now=1_700_000_000).username == "1700000060"


def test_viewers_are_told_by_links() -> None:
    turn = Turn(["stun:stun.example.org", "turn:turn.example.org:3478?transport=udp", "turns:[2001:db8::1]"], "secret")
    user, password = turn_credentials("secret", user="k", now=1_700_000_000)
    access = f'; username="{user}"; credential="{password}"; credential-type="password"'
    assert turn.links(user="k", now=1_700_000_000) == [
        '<stun:stun.example.org>; rel="ice-server"',
        '<turn:turn.example.org:3478?transport=udp>; rel="ice-server"' + access,
        '<turns:[2001:db8::1]>; rel="ice-server"' + access,
    ]
    assert "secret" not in repr(turn)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"urls": []}, "urls"),
        ({"urls": "turn:turn.example.org"}, "list"),
        ({"urls": ["https://turn.example.org"]}, "RFC 7065"),
        ({"urls": ["turn://turn.example.org"]}, "RFC 7065"),
        ({"urls": ['turn:x>; rel="x']}, "RFC 7065"),
        ({"urls": ["turn:x\r\nSet-Cookie: a"]}, "RFC 7065"),
        ({"urls": [None]}, "RFC 7065"),
        ({"urls": ["turns:turn.example.org?transport=udp"]}, "TURN over DTLS"),
        ({"secret": ""}, "static-auth-secret"),
        ({"ttl": 0}, "ttl=0"),
        ({"ttl": float("inf")}, "ttl=inf"),
        ({"ttl": True}, "ttl=True"),
    ],
)
def test_a_relay_that_cannot_be(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Turn(**{"urls": ["turn:turn.example.org"], "secret": "secret", **wrong})


@pytest.mark.parametrize("user", ["a b", "a:b", 'a"', "ü", "x" * 65])
def test_a_user_that_would_spoil_the_header(user: str) -> None:
    with pytest.raises(UsageError, match="user"):
        turn_credentials("secret", user=user, now=0)


def test_a_real_relay_takes_them_while_they_last() -> None:
    try:
        with servers.coturn() as server:

            async def allocated(username: str, password: str) -> bool:
                try:
                    transport, _ = await create_turn_endpoint(
                        asyncio.DatagramProtocol,
                        server_addr=(server.host, server.port),
                        username=username,
                        password=password,
                    )
                except stun.TransactionFailed as error:
                    return bool(error.response.attributes["ERROR-CODE"][0] != 401)
                transport.close()
                await asyncio.sleep(0.2)
                return True

            async def scenario() -> None:
                now = time.time()
                assert await allocated(*turn_credentials(server.secret, user="k", now=now))
                assert await allocated(*turn_credentials(server.secret, ttl=60, now=now))
                assert not await allocated(*turn_credentials(server.secret, ttl=60, now=now - 120))
                assert not await allocated(*turn_credentials("another", now=now))
                ends, password = turn_credentials(server.secret, ttl=60, now=now)
                assert not await allocated(str(int(ends) + 600), password)

            run(scenario())
    except RuntimeError as error:
        if str(error) != servers.MISSING:
            raise
        pytest.skip(servers.MISSING)
