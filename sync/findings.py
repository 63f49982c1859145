"""What the conformance checks share: findings by rule, pulls under a limit, closing, and what is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

from multimodal.errors import SyncError

__all__ = [
    "QUIET",
    "Findings",
    "TookTooLongError",
    "check_closed",
    "check_ended",
    "close",
    "in_time",
    "made_by",
    "nothing_left",
    "pulled",
]

QUIET = 0.1
"""Seconds of silence after which a pull counts as waiting."""


class Findings:
    """Broken rules, in the order in which they were found, each once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._found: dict[str, str] = {}

    def add(self, rule: str, seen: str, do: str) -> None:
        """One breach; the first of a rule is the one that is told."""
        self._found.setdefault(rule, f"{rule}: {seen}; {do}")

    def has(self, rule: str) -> bool:
        """Whether a rule is known to be broken."""
        return rule in self._found

    def settle(self) -> None:
        """Raise if there are any.

        Raises:
            SyncError: with a line per rule.
        """
        if self._found:
            lines = [self._found[rule] for rule in sorted(self._found)]
            raise SyncError(f"{self._what} breaks its contract:\n" + "\n".join(f"  {line}" for line in lines))


class TookTooLongError(Exception):
    """A wait of the check ran out."""


async def made_by(make: Callable[[], Any]) -> Any:
    pipe = make()
    return await pipe if isawaitable(pipe) else pipe


async def in_time(pull: Awaitable[Any], limit: float) -> Any:
    scope = asyncio.timeout(limit)
    try:
        async with scope:
            return await pull
    except TimeoutError as error:
        if scope.expired():
            raise TookTooLongError from error
        raise


async def pulled(pipe: Any, found: Findings, rule: str, limit: float) -> AsyncIterator[Any]:
    """Everything it gives; a failure or a wait without end is a finding."""
    count = 0
    while True:
        try:
            item = await in_time(pipe.__anext__(), limit)
        except StopAsyncIteration:
            return
        except TookTooLongError:
            found.add(
                rule, f"nothing came for {limit:g} s after {count} items", "end, or raise; or give a higher limit"
            )
            return
        except Exception as error:
            found.add(rule, f"it raised {error!r} after {count} items", "give the check a pipe that plays to its end")
            return
        count += 1
        yield item


async def check_ended(pipe: Any, found: Findings, rule: str, limit: float, once: str = "") -> None:
    """What has ended, or failed, stays so: a pull is the end again, and a new `async for` gives nothing (`once`)."""
    try:
        item = await in_time(pipe.__anext__(), limit)
    except TookTooLongError:
        found.add(rule, f"pulled again after its end it waited {limit:g} s", "raise StopAsyncIteration each time")
    except Exception:
        pass
    else:
        found.add(rule, f"pulled again after its end it gave {item!r}", "raise StopAsyncIteration each time")
    if not once or found.has(rule):
        return
    try:
        item = await in_time(aiter(pipe).__anext__(), limit)
    except TookTooLongError:
        found.add(once, f"iterated anew it waited {limit:g} s", "raise UsageError: it is played once")
    except Exception:
        return  # UsageError is best, and a plain generator, which ends again, is let through
    else:
        found.add(once, f"iterated anew it gave {item!r}", "raise UsageError: a pipe is played once, make a new one")


async def check_closed(make: Callable[[], Any], found: Findings, rule: str, limit: float) -> None:
    """Cancel a pull, close, close again, pull: it lets go at once and stays closed."""
    pipe = await made_by(make)
    pull = asyncio.ensure_future(pipe.__anext__())
    await asyncio.sleep(0)
    pull.cancel()
    await asyncio.wait([pull], timeout=limit)
    if not pull.done():
        found.add(
            rule, f"a cancelled pull went on for {limit:g} s", "let CancelledError through, and free what it holds"
        )
        return
    if not pull.cancelled() and (error := pull.exception()) and not isinstance(error, StopAsyncIteration):
        seen = f"a cancelled pull raised {error!r}"
        found.add(rule, seen, "let CancelledError through: it is never wrapped and never turned into another error")
    if not hasattr(pipe, "aclose"):
        return
    await close(pipe, found, rule, limit)
    await close(pipe, found, rule, limit)
    try:
        item = await in_time(pipe.__anext__(), limit)
    except TookTooLongError:
        found.add(rule, f"pulled after aclose() it waited {limit:g} s", "end the iteration once it is closed")
    except Exception:
        return
    else:
        found.add(rule, f"pulled after aclose() it gave {item!r}", "end the iteration once it is closed")


async def close(pipe: Any, found: Findings, rule: str, limit: float) -> None:
    if not hasattr(pipe, "aclose"):
        return
    try:
        await in_time(pipe.aclose(), limit)
    except TookTooLongError:
        found.add(rule, f"aclose() took more than {limit:g} s", "free what it holds, and wait for nothing else")
    except Exception as error:
        found.add(rule, f"aclose() raised {error!r}", "close quietly; twice is once")


@asynccontextmanager
async def nothing_left(found: Findings, rule: str) -> AsyncIterator[None]:
    """No task of a pipe, or a link, outlives it."""
    before, left = asyncio.all_tasks(), set[asyncio.Task[Any]]()
    yield
    for _ in range(10):
        left = asyncio.all_tasks() - before
        if not left:
            return
        await asyncio.sleep(QUIET / 10)
    names = ", ".join(sorted(task.get_name() for task in left))
    found.add(rule, f"after everything was closed {len(left)} tasks still run: {names}", "await them in aclose()")
    for task in left:
        task.cancel()
