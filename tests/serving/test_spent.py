"""Spent tokens in a real Redis: servers agree, a restart forgets nothing, and while it is away nobody gets in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from multimodal.bench.redis_stage import RedisServer
from multimodal.serving.rights import Grant
from multimodal.serving.signalling import Problem
from multimodal.serving.spent import RedisSpent, SpentTokens
from tests.redis_server import own_redis_server, redis_server
from tests.support import run

__all__ = ["own_redis_server", "redis_server"]


def grant(name: str) -> Grant:
    return Grant("demo", jti=name, expires=time.time() + 100)


@asynccontextmanager
async def client(server: RedisServer) -> AsyncIterator[Any]:
    made = redis.asyncio.from_url(server.url)
    try:
        yield made
    finally:
        await made.aclose()


def test_what_one_server_has_closed_another_does_not_open(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with client(redis_server) as redis:
            one: SpentTokens = RedisSpent(redis, prefix="a:")
            other = RedisSpent(redis, prefix="a:", seat_ttl=50)
            assert not await one.is_spent(grant("j1"))
            one.close(grant("j1"))
            assert await one.is_spent(grant("j1"))
            await one.aclose()
            assert await other.is_spent(grant("j1"))
            assert await RedisSpent(redis, prefix="a:").is_spent(grant("j1"))
            assert not await other.is_spent(grant("j2"))
            assert not await RedisSpent(redis, prefix="b:").is_spent(grant("j1"))
            other.close(grant("j3"))
            other.close(grant("j3"))
            other.close(Grant("demo"))
            assert not await other.is_spent(Grant("demo"))
            await other.aclose()
            await other.aclose()
            keys = sorted(await redis.keys("a:*"))
            assert keys == sorted(f"a:{grant(name).key}".encode() for name in ("j1", "j3"))
            # As long as the token, which is longer than a seat: a busy machine may be here some seconds later.
            assert 70 <= await redis.ttl(f"a:{grant('j3').key}") <= 102
            assert await redis.ttl(f"a:{grant('j1').key}") > 43_000

    run(scenario())


def test_a_token_opens_one_seat_on_all_servers(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with client(redis_server) as redis:
            one, other = RedisSpent(redis, prefix="c:"), RedisSpent(redis, prefix="c:")
            mine = grant("j1")
            assert await one.claim(mine, "seat 1") == ""
            assert await other.claim(mine, "seat 2") == "seat 1"
            assert await one.claim(mine, "seat 1") == ""
            assert not await other.is_spent(mine)
            # Nobody came to it, so it may open another.
            one.release(mine)
            assert await one.claim(mine, "seat 3") == ""
            assert await other.claim(mine, "seat 2") == "seat 3"
            one.close(mine)
            # What was closed stays so, whatever is released later.
            one.release(mine)
            await one.aclose()
            for server in (one, other):
                with pytest.raises(Problem) as caught:
                    await server.claim(mine, "seat 4")
                assert (caught.value.status, caught.value.code) == (401, "token_used")
            assert await one.claim(Grant("demo"), "seat 5") == ""
            winners = await asyncio.gather(
                *(RedisSpent(redis, prefix="c:").claim(grant("j2"), f"{i}") for i in range(9))
            )
            assert winners.count("") == 1
            assert len(set(winners)) == 2

    run(scenario())


def test_a_redis_that_is_away_lets_nobody_in_and_is_told_later(
    own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with client(own_redis_server) as redis:
            spent = RedisSpent(redis)
            assert not await spent.is_spent(grant("j1"))
            await asyncio.to_thread(own_redis_server.kill)
            spent.close(grant("j1"))
            assert await spent.is_spent(grant("j1"))
            with pytest.raises(Problem) as caught:
                await spent.is_spent(grant("j2"))
            assert (caught.value.status, caught.value.code) == (503, "tokens_away")
            with pytest.raises(Problem) as caught:
                await spent.claim(grant("j2"), "seat")
            assert (caught.value.status, caught.value.code) == (503, "tokens_away")
            with pytest.raises(Problem) as caught:
                await spent.claim(grant("j1"), "seat")
            assert (caught.value.status, caught.value.code) == (401, "token_used")
            await asyncio.sleep(0.1)
            assert len(spent) == 1
            await asyncio.to_thread(own_redis_server.start)
            spent.close(grant("j3"))
            await spent.aclose()
            assert len(spent) == 0
            assert await RedisSpent(redis).is_spent(grant("j1"))
            assert await RedisSpent(redis).is_spent(grant("j3"))

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "Redis does not say" in caplog.text


def test_what_redis_never_took_is_said_at_the_end(
    own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with client(own_redis_server) as redis:
            spent = RedisSpent(redis)
            await asyncio.to_thread(own_redis_server.kill)
            spent.close(grant("j1"))
            await spent.aclose()
            await spent.aclose()

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert caplog.text.count("1 tokens that were used are not in Redis") == 1
