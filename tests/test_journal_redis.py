"""The journal on a real Redis: what every journal must do, its settings, and its refusals."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from multimodal.bench.redis_stage import RedisServer
from multimodal.errors import JournalError, JournalGap, LeaseHeld, LeaseLost, UsageError
from multimodal.journal import Journal, Mark, journal_from_url
from multimodal.journal_redis import ANSWER, RedisJournal
from tests.journal_checks import CHECKS, LEASE, Check, entry
from tests.journal_machine import JournalMachine, machine_case
from tests.redis_server import own_redis_server, redis_server
from tests.support import run

__all__ = ["own_redis_server", "redis_server"]

PREFIXES = (f"p{number}" for number in itertools.count())


class RedisStore:
    """One prefix of a Redis, and a clock that is moved by hand; every journal is another process' one."""

    def __init__(self, server: RedisServer) -> None:
        self.now = 1000.0
        self.journals: list[RedisJournal] = []
        self._url, self._prefix = server.url, next(PREFIXES)

    def journal(self, *, keep_events: int = 1000, keep_seconds: float = 1000.0) -> Journal:
        journal = RedisJournal(
            self._url,
            keep_events=keep_events,
            keep_seconds=keep_seconds,
            prefix=self._prefix,
            lease_seconds=LEASE,
            clock=lambda: self.now,
        )
        self.journals.append(journal)
        return journal

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def close(self) -> None:
        return None


@pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
def test_on_redis(rule: Check, redis_server: RedisServer) -> None:
    """The rule's name is the claim; `tests.test_journal` shows that none of them passes by itself."""

    async def scenario() -> None:
        store = RedisStore(redis_server)
        try:
            await rule(store)
        finally:
            for journal in store.journals:
                await journal.aclose()

    run(scenario())


def test_random_work_agrees_with_a_model(redis_server: RedisServer) -> None:
    """`JournalMachine` asserts it at every step; `tests.test_journal` shows that it finds a bundle that was lost."""

    class RedisMachine(JournalMachine):
        def make_store(self) -> RedisStore:
            return RedisStore(redis_server)

    machine_case(RedisMachine, examples=25)("runTest").debug()


@asynccontextmanager
async def journal_on(url: str, **settings: Any) -> AsyncIterator[RedisJournal]:
    journal = RedisJournal(url, **settings)
    try:
        yield journal
    finally:
        await journal.aclose()


@asynccontextmanager
async def admin(server: RedisServer) -> AsyncIterator[Any]:
    """A client of our own, to look at what lies in Redis."""
    from redis.asyncio import Redis

    async with Redis.from_url(server.url) as client:
        yield client


def test_one_bundle_is_one_entry_whose_id_says_its_last_event(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(redis_server.url, prefix="ids") as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(0), entry(1, 3)])
            items = await redis.xrange("ids:{s}:events")
            assert [item for item, _ in items] == [b"0-1", b"0-4"]
            assert [fields[b"n"] for _, fields in items] == [b"1", b"3"]
            # Redis itself refuses a repeat, whoever sends it.
            for wrong in ("0-4", "0-2"):
                with pytest.raises(Exception, match="equal or smaller than the target stream top item"):
                    await redis.xadd("ids:{s}:events", {"t": 0, "n": 1, "e": ""}, id=wrong)

    run(scenario())


def test_on_redis_own_clock(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        settings = {"prefix": "clock", "keep_seconds": 1.0, "lease_seconds": 1.0}
        async with journal_on(redis_server.url, **settings) as one, journal_on(redis_server.url, **settings) as two:
            first = await one.open("s", "ann")
            await one.append(first, [entry(0), entry(1)])
            with pytest.raises(LeaseHeld) as caught:
                await two.open("s", "bob")
            assert 0 < caught.value.seconds <= 1.0
            while True:
                try:
                    second = await two.open("s", "bob")
                    break
                except LeaseHeld:
                    await asyncio.sleep(0.02)
            with pytest.raises(LeaseLost):
                await one.append(first, [entry(2)])
            await asyncio.sleep(1.01)
            with pytest.raises(JournalGap):
                await two.read("s", -1)
            await two.append(second, [entry(2)])
            assert await one.first_seq("s") == 2

    run(scenario())


def test_every_write_holds_all_keys_and_they_go_by_themselves(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(redis_server.url, prefix="ttl", ttl=500.0) as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            keys = [b"ttl:{s}:state", b"ttl:{s}:events"]
            writes: list[Callable[[], Coroutine[Any, Any, object]]] = [
                lambda: journal.append(lease, [entry(0)]),
                lambda: journal.renew(lease),
                lambda: journal.mark(lease, Mark(0, b"m")),
                lambda: journal.open("s", "ann"),
            ]
            for write in writes:
                await write()
                assert sorted(await redis.keys("ttl:*")) == sorted(keys)
                for key in keys:
                    assert 480_000 < await redis.pttl(key) <= 500_000
                    await redis.pexpire(key, 100_000)
            await journal.drop("s")
            assert await redis.keys("ttl:*") == []
        async with journal_on(redis_server.url, prefix="ttl", ttl=1.0) as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(0)])
            await asyncio.sleep(1.01)
            assert await redis.keys("ttl:*") == []
            assert (await journal.last_seq("s"), await journal.snapshot("s")) == (-1, None)
            with pytest.raises(LeaseLost, match="not written for its time to live"):
                await journal.append(lease, [entry(1)])

    run(scenario())


def test_what_someone_takes_out_of_the_middle_is_a_gap(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(redis_server.url, prefix="gap") as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(seq) for seq in range(10)])
            await redis.xdel("gap:{s}:events", "0-5", "0-6")
            assert await journal.read("s", -1) == [entry(seq) for seq in range(4)]
            with pytest.raises(JournalGap) as caught:
                await journal.read("s", 3)
            assert (caught.value.after_seq, caught.value.first_seq) == (3, 6)
            assert await journal.read("s", 5) == [entry(seq) for seq in range(6, 10)]

    run(scenario())


def test_keys_that_are_not_ours_are_named(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(redis_server.url, prefix="odd") as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            await redis.xadd("odd:{s}:events", {"hello": "world"})
            for call in (journal.read("s", -1), journal.last_seq("s"), journal.append(lease, [entry(0)])):
                with pytest.raises(JournalError, match=r"refuses it .* do others write keys of our prefix\?"):
                    await call
            await redis.set("odd:{s}:events", "text")
            with pytest.raises(JournalError, match="WRONGTYPE"):
                await journal.read("s", -1)
            await journal.drop("s")
            lease = await journal.open("s", "ann")
            await redis.xadd("odd:{s}:events", {"t": 2**50, "n": 1, "e": b"\xc1"}, id="0-1")
            with pytest.raises(JournalError, match=r"is not ours .* drop the session"):
                await journal.read("s", -1)

    run(scenario())


def test_scripts_that_redis_forgot_are_loaded_again(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(redis_server.url, prefix="sha") as journal, admin(redis_server) as redis:
            lease = await journal.open("s", "ann")
            await redis.script_flush()
            await journal.append(lease, [entry(0)])
            assert await journal.read("s", -1) == [entry(0)]

    run(scenario())


def test_a_redis_that_takes_nothing_still_reads(own_redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with journal_on(own_redis_server.url) as journal, admin(own_redis_server) as redis:
            lease = await journal.open("s", "ann")
            await journal.append(lease, [entry(0)])
            await redis.config_set("maxmemory", "1mb")
            with pytest.raises(JournalError, match=r"append: Redis at 127\.0\.0\.1:.* is full; raise its maxmemory"):
                await journal.append(lease, [entry(1)])
            assert await journal.read("s", -1) == [entry(0)]
            await redis.config_set("maxmemory", "0")
            await redis.replicaof("127.0.0.1", 1)
            with pytest.raises(JournalError, match="is a replica, which only reads; give the address of its primary"):
                await journal.append(lease, [entry(1)])
            assert await journal.read("s", -1) == [entry(0)]
            await redis.replicaof("NO", "ONE")
            await journal.append(lease, [entry(1)])

    run(scenario())


def test_passwords(own_redis_server: RedisServer) -> None:
    async def scenario() -> None:
        async with admin(own_redis_server) as redis:
            await redis.config_set("requirepass", "right")
            await redis.acl_setuser("reader", enabled=True, passwords=["+pass"], keys=["*"], commands=["+ping"])
            host = f"127.0.0.1:{own_redis_server.port}"
            for login, what in (
                ("", "refuses our user or password"),
                (":wrong-pass@", "refuses our user or password"),
                ("reader:pass@", "does not allow our user this .* allow it EVALSHA"),
            ):
                async with journal_on(f"redis://{login}{host}") as journal:
                    with pytest.raises(JournalError, match=rf"open: Redis at {host} {what}") as caught:
                        await journal.open("s", "ann")
                    assert "pass@" not in str(caught.value)
                    assert "wrong-pass" not in str(caught.value)
            async with journal_on(f"redis://:right@{host}") as journal:
                await journal.open("s", "ann")

    run(scenario())


def test_settings_that_lose_sessions_are_said_once(
    own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with admin(own_redis_server) as redis:
            async with journal_on(own_redis_server.url) as journal:
                await journal.open("s", "ann")
            assert caplog.messages == []
            await redis.config_set("appendonly", "no")
            await redis.config_set("maxmemory", "100mb")
            await redis.config_set("maxmemory-policy", "volatile-lru")
            async with journal_on(own_redis_server.url) as journal:
                await journal.open("s", "ann")
                await journal.open("t", "ann")
        assert [message.partition(" ")[2].partition(" ")[2].partition(" ")[2] for message in caplog.messages] == [
            "forgets running sessions when it is started again; set `appendonly yes`",
            "may throw running sessions away (maxmemory-policy volatile-lru); set `maxmemory-policy noeviction`",
        ]

    with caplog.at_level(logging.WARNING):
        run(scenario())


@pytest.fixture
def mute_port() -> Iterator[int]:
    """A port on which somebody listens who never says anything."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        yield deaf.getsockname()[1]


def test_a_server_that_never_answers(mute_port: int) -> None:
    async def scenario() -> None:
        async with journal_on(f"redis://127.0.0.1:{mute_port}") as journal:
            with pytest.raises(JournalError, match=rf"{mute_port} did not answer within {ANSWER:g} s; see whether"):
                await journal.read("s", -1)

    run(scenario())


def test_calls_that_find_no_connection_free_end_in_their_time(mute_port: int) -> None:
    async def scenario() -> None:
        async with journal_on(f"redis://127.0.0.1:{mute_port}") as journal:
            answers = await asyncio.gather(*(journal.last_seq("s") for _ in range(50)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {JournalError}

    run(scenario())


def test_a_closed_journal_says_so(redis_server: RedisServer) -> None:
    async def scenario() -> None:
        journal = RedisJournal(redis_server.url)
        await journal.aclose()
        with pytest.raises(JournalError, match="last_seq: this journal is closed; make a new one"):
            await journal.last_seq("s")

    run(scenario())


@pytest.mark.parametrize(
    "url", ["http://localhost", "redis://[::1", "redis://host:port", "redis://host/0?protocol=3", "localhost:6379", ""]
)
def test_what_is_no_url_of_a_redis(url: str) -> None:
    with pytest.raises(UsageError, match=r"this is no URL of a Redis \(.*\); give one such as redis://host:6379/0"):
        RedisJournal(url)


def test_a_journal_on_redis_by_its_url(tmp_path: Path) -> None:
    async def scenario(server: RedisServer) -> None:
        for url in (server.url, f"unix://{tmp_path}/redis.sock"):
            journal = journal_from_url(url)
            assert isinstance(journal, RedisJournal)
            await journal.open("s", "ann")
            await journal.aclose()

    with RedisServer(tmp_path / "data", "--unixsocket", str(tmp_path / "redis.sock")) as server:
        run(scenario(server))


def test_without_the_package_it_says_which_extra_has_it() -> None:
    script = (
        "import sys; sys.modules['redis'] = None\n"
        "from multimodal.journal import journal_from_url\n"
        "journal_from_url('memory:')\n"
        "journal_from_url('redis://localhost')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "UsageError: a journal on Redis needs the package redis: install it with" in done.stderr
    assert "'multimodal-stream[redis]'" in done.stderr


def test_importing_the_journal_loads_no_redis() -> None:
    script = "import sys, multimodal.journal, multimodal.journal_redis; print('redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
