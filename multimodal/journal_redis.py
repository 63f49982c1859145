"""The journal on Redis Streams: it outlives the process that writes it (`multimodal.journal`, J1-J6).

What Redis keeps when it ends badly is its operator's choice. With `appendonly yes` and `appendfsync everysec`:

- Killed, and started again on the same machine: what an `append` was confirmed for is there. Redis hands its log to the
  kernel before it answers; only while a slow disk holds that up, for at most 2 s, does it answer first.
- The machine itself lost, or a replica promoted in its place: about the last second is missing, 2 s at worst.

Without `appendonly` all that came after its last snapshot is missing, or everything. In each case whole appends are
missing, from some point on: never one out of the middle, never half a bundle. `last_seq` says where the log stands. The
writer's next append is refused (JournalError) until it has opened the session again and appended what follows that. A
reader whose cursor is above `last_seq` has seen what is lost; it gets nothing until the writer has come that far again.

Redis' clock must not be set back while sessions run: leases, epochs and ages are counted by it. Writes go to the
primary: give its address, or that of a proxy that knows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from multimodal import journal_scripts as lua
from multimodal.errors import JournalError, JournalGap, LeaseHeld, UsageError
from multimodal.journal_base import (
    KEEP_EVENTS,
    KEEP_SECONDS,
    LEASE_SECONDS,
    TTL,
    Entry,
    Lease,
    Mark,
    check_bounds,
    check_entry,
    conflict,
    hole,
    lost,
)

__all__ = ["ANSWER", "CONNECTIONS", "RedisJournal"]

log = logging.getLogger(__name__)

ANSWER = 2.0
"""Seconds that Redis has for one call, connecting included. Viewers wait for their words as long, once."""
CONNECTIONS = 16
"""Open at one time, at most; a call that finds none free waits within its own time."""

_events = msgspec.msgpack.Decoder(tuple[bytes, ...])


class RedisJournal:
    """A journal in Redis 6.2 or newer, for sessions that other processes read, or take over.

    Args:
        url: "redis://[[user]:password@]host[:port][/db]", "rediss://..." (TLS) or "unix://path".
        keep_events: events kept of each session.
        keep_seconds: seconds for which each is kept.
        ttl: seconds for which a session is kept after its writer did anything.
        prefix: what its keys begin with; sessions of other prefixes are others.
        lease_seconds: seconds for which a lease is held.
        clock: seconds; None = Redis' own, which is the only one that several processes share.

    Raises:
        UsageError: the package `redis` is missing, a URL of another kind, or a bound that keeps nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        keep_events: int = KEEP_EVENTS,
        keep_seconds: float = KEEP_SECONDS,
        ttl: float = TTL,
        prefix: str = "multimodal",
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        check_bounds(keep_events, keep_seconds, ttl, lease_seconds)
        try:
            from redis import asyncio as client
            from redis import exceptions
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise UsageError(
                "a journal on Redis needs the package redis: install it with `pip install 'multimodal-stream[redis]'`"
            ) from error
        self._redis, self._clock, self._prefix = exceptions, clock, prefix
        self._bounds = (keep_events, _ms(keep_seconds))
        self._times = (_ms(lease_seconds), _ms(ttl))
        self._where, self._closed, self._looked = _place(url), False, False
        try:
            if {"decode_responses", "protocol"} & parse_qs(urlsplit(url).query).keys():
                raise ValueError("it must not set decode_responses or protocol")
            pool = client.BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                # One limit for the whole of a call (`_ask`), not one for each of its waits.
                timeout=None,
                socket_timeout=None,
                socket_connect_timeout=None,
                protocol=2,
                # That a connection was cut by a restart of Redis is found out by using it. A repeat is harmless.
                retry=Retry(NoBackoff(), 1, (exceptions.ConnectionError,)),
            )
        except (ValueError, TypeError) as error:
            raise UsageError(f"this is no URL of a Redis ({error}); give one such as redis://host:6379/0") from error
        self._client = client.Redis(connection_pool=pool)
        self._pool = pool
        self._scripts = {
            name: self._client.register_script(script)
            for name, script in {
                "open": lua.OPEN,
                "append": lua.APPEND,
                "renew": lua.APPEND,
                "release": lua.RELEASE,
                "mark": lua.MARK,
                "read": lua.READ,
                "first_seq": lua.ENDS,
                "last_seq": lua.ENDS,
            }.items()
        }

    async def open(self, session: str, writer: str) -> Lease:
        """See `Journal.open`."""
        await self._look()
        answer = await self._run("open", session, _bytes(writer), *self._times, *self._bounds)
        if answer[0] == b"held":
            raise LeaseHeld(session, _text(answer[1]), int(answer[2]) / 1000)
        return Lease(session, writer, int(answer[1]), _text(answer[2]))

    async def renew(self, lease: Lease) -> None:
        """See `Journal.renew`."""
        await self._write("renew", lease)

    async def release(self, lease: Lease) -> None:
        """See `Journal.release`."""
        await self._write("release", lease)

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """See `Journal.append`. Redis does it in one piece; what it does not confirm in time it may have kept."""
        arguments: list[int | bytes] = []
        for entry in entries:
            check_entry(entry)
            arguments += (entry.first, len(entry.events), msgspec.msgpack.encode(entry.events))
        await self._write("append", lease, *arguments)

    async def read(self, session: str, after_seq: int, limit: int = 256) -> list[Entry]:
        """See `Journal.read`."""
        after_seq = max(after_seq, -1)
        answer = await self._run("read", session, after_seq, max(limit, 1))
        if answer[0] == b"gap":
            raise JournalGap(session, after_seq, int(answer[1]))
        given: list[Entry] = []
        held = after_seq
        for last, data in zip(answer[1::2], answer[2::2], strict=True):
            entry = self._entry(session, int(last), data)
            # Redis hands over the next item of a stream silently, whatever was taken out before it.
            if entry.first > held + 1:
                if given:
                    break
                raise JournalGap(session, after_seq, entry.first)
            given.append(entry)
            held = entry.last
        return given

    async def first_seq(self, session: str) -> int:
        """See `Journal.first_seq`."""
        return int((await self._run("first_seq", session))[1])

    async def last_seq(self, session: str) -> int:
        """See `Journal.last_seq`."""
        return int((await self._run("last_seq", session))[2])

    async def mark(self, lease: Lease, mark: Mark) -> None:
        """See `Journal.mark`."""
        await self._write("mark", lease, mark.seq, mark.data)

    async def snapshot(self, session: str) -> Mark | None:
        """See `Journal.snapshot`."""
        state, _ = self._keys(session)
        seq, data = await self._ask("snapshot", lambda: self._client.hmget(state, ["mark_seq", "mark"]))
        return None if seq is None else Mark(int(seq), data)

    async def drop(self, session: str) -> None:
        """See `Journal.drop`."""
        await self._ask("drop", lambda: self._client.unlink(*self._keys(session)))

    async def aclose(self) -> None:
        """See `Journal.aclose`. The connections are closed; what Redis keeps, it keeps."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(self._redis.RedisError, OSError, TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await self._client.aclose()
                    await self._pool.disconnect()

    # ---- what is asked of Redis ----------------------------------------------------------------------------------

    async def _write(self, name: str, lease: Lease, *arguments: int | bytes) -> None:
        owner = (_bytes(lease.writer), lease.epoch, lease.life, *self._times)
        kind, *rest = await self._run(name, lease.session, *owner, *arguments)
        session = lease.session[:40]
        if kind == b"forgotten":
            what = f"what followed its event {int(rest[1])}" if rest else "all of it"
            raise JournalError(
                f"session {session}: {self._where} has lost {what} since; open the session again, and append what"
                " follows its last event"
            )
        if kind in (b"lost", b"gone"):
            raise lost(lease.session, _text(rest[0]) if rest else "")
        if kind == b"hole":
            raise hole(lease.session, int(rest[0]), int(rest[1]))
        if kind == b"conflict":
            raise conflict(lease.session, int(rest[0]))

    async def _run(self, name: str, session: str, *arguments: int | str | bytes) -> list[bytes]:
        now = "" if self._clock is None else round(self._clock() * 1000)
        script, keys = self._scripts[name], self._keys(session)
        answer: list[bytes] = await self._ask(name, lambda: script(keys, (now, *arguments)))
        return answer

    async def _ask(self, name: str, call: Callable[[], Any]) -> Any:
        if self._closed:
            raise JournalError(f"{name}: this journal is closed; make a new one")
        try:
            async with asyncio.timeout(ANSWER):
                return await call()
        except (self._redis.RedisError, OSError, TimeoutError, UnicodeError) as error:
            raise JournalError(f"{name}: {self._why(error)}") from error

    def _why(self, error: Exception) -> str:
        """What failed, where, and what to do; Redis' own words are quoted, they hold no secrets."""
        redis, said = self._redis, str(error)[:200]
        if isinstance(error, redis.TimeoutError | TimeoutError):
            return (
                f"{self._where} did not answer within {ANSWER:g} s; see whether it is overloaded, stopped, or behind a"
                " firewall"
            )
        if isinstance(error, redis.BusyLoadingError):
            return f"{self._where} is still loading its data; try again in a moment"
        # To a long command without a password Redis answers that it is too long ("unauthenticated").
        refused = said.startswith("NOAUTH") or "unauthenticated" in said
        if refused or isinstance(error, redis.AuthenticationError | redis.AuthorizationError):
            return f"{self._where} refuses our user or password ({said}); correct them in the journal's URL"
        if isinstance(error, redis.ConnectionError | OSError):
            return f"{self._where} cannot be reached ({said}); start it, or correct the journal's URL"
        if isinstance(error, redis.OutOfMemoryError):
            return f"{self._where} is full; raise its maxmemory, or keep fewer events or seconds"
        if isinstance(error, redis.ReadOnlyError):
            return f"{self._where} is a replica, which only reads; give the address of its primary"
        if isinstance(error, redis.NoPermissionError):
            return f"{self._where} does not allow our user this ({said}); allow it EVALSHA, INFO and the keys we use"
        if said.startswith("MISCONF"):
            return f"{self._where} cannot write to its disk and takes nothing; free space there ({said})"
        return f"{self._where} refuses it ({said}); is it Redis 6.2 or newer, and do others write keys of our prefix?"

    async def _look(self) -> None:
        """Say once what of Redis' settings loses sessions; it is no fault of the call in which it is noticed."""
        if self._looked:
            return
        self._looked = True
        try:
            info = {**await self._ask("info", self._client.info)}
        except JournalError as error:
            log.debug("the settings of Redis are not known: %s", error)
            return
        if not info.get("aof_enabled"):
            log.warning("%s forgets running sessions when it is started again; set `appendonly yes`", self._where)
        if info.get("maxmemory") and info.get("maxmemory_policy") != "noeviction":
            log.warning(
                "%s may throw running sessions away (maxmemory-policy %s); set `maxmemory-policy noeviction`",
                self._where,
                info.get("maxmemory_policy"),
            )

    def _keys(self, session: str) -> tuple[bytes, bytes]:
        # The braces: both keys of a session live on one node of a cluster.
        name = f"{self._prefix}:{{{session}}}:"
        return _bytes(f"{name}state"), _bytes(f"{name}events")

    def _entry(self, session: str, last: int, data: bytes) -> Entry:
        try:
            events = _events.decode(data)
        except msgspec.DecodeError as error:
            raise JournalError(
                f"session {session[:40]}: what {self._where} keeps before event {last} is not ours ({error}); drop the"
                " session, and let nothing else write keys of our prefix"
            ) from error
        return Entry(last - len(events) + 1, last, events)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _bytes(text: str) -> bytes:
    # Names come from anywhere, and half a surrogate pair in one must not be another fault than an unknown name.
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _place(url: str) -> str:
    """Whose Redis it is, without its password."""
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return f"Redis at {parts.path}"
        return f"Redis at {parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        return "Redis"
