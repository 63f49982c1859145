"""Fixtures with a real redis-server: `from tests.redis_server import redis_server` makes one for a module.

`RedisServer` starts one on a free loopback port; `kill` is a SIGKILL, `start` again gives it its data back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from multimodal.bench.redis_stage import RedisServer

__all__ = ["RedisServer", "own_redis_server", "redis_server"]


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for all tests of a module; each of them uses names of its own."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own_redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for a single test, which may kill it."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server
