"""The owner of the sessions: bounded, and an end for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from multimodal.serving.sessions import Sessions
from tests.support import virtual


class Plain:
    """A session that only runs a coroutine; `told` is what it was told at its end."""

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._coroutine = coroutine
        self.told: list[str] = []

    viewers = 1

    async def run(self) -> object:
        return await self._coroutine

    def farewell(self, reason: str) -> None:
        self.told.append(reason)


def test_sessions_are_counted_and_bounded() -> None:
    async def scenario() -> None:
        sessions = Sessions(2)
        assert sessions.reserve()
        sessions.start("a", Plain(asyncio.sleep(10)))
        sessions.release()
        assert sessions.reserve()
        assert not sessions.reserve()
        sessions.release()
        assert len(sessions) == 1
        assert "a" in sessions
        await asyncio.sleep(11)
        assert len(sessions) == 0

    virtual(scenario())


def test_ending_waits_for_the_clean_up_and_works_once() -> None:
    async def scenario() -> None:
        cleaned: list[str] = []

        async def session(name: str) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                cleaned.append(name)

        sessions = Sessions(5)
        made = {name: Plain(session(name)) for name in "abc"}
        for name in "abc":
            assert sessions.reserve()
            sessions.start(name, made[name])
            sessions.release()
        await asyncio.sleep(0)
        assert await sessions.end("b")
        assert cleaned == ["b"]
        assert not await sessions.end("b")
        await sessions.aclose()
        assert cleaned == ["b", "a", "c"]
        assert len(sessions) == 0
        await sessions.aclose()
        assert [made[name].told for name in "abc"] == [
            ["the server is stopping"],
            ["the session was ended"],
            ["the server is stopping"],
        ]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual(scenario())


def test_when_the_loop_ends_sessions_hear_of_it_before_any_task_does() -> None:
    order: list[str] = []

    class Watched(Plain):
        def farewell(self, reason: str) -> None:
            order.append(reason)

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            order.append("a task was cancelled")

    kept: list[object] = []

    async def main() -> None:
        kept.extend(asyncio.get_running_loop().create_task(forever()) for _ in range(20))
        sessions = Sessions(1)
        assert sessions.reserve()
        sessions.start("a", Watched(forever()))
        sessions.release()
        kept.append(sessions)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert order == ["the server is stopping"] + ["a task was cancelled"] * 21


def test_a_session_that_fails_is_logged_and_one_that_hangs_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def fails() -> None:
            raise RuntimeError("no such luck")

        async def hangs() -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    continue

        sessions = Sessions(5)
        for name, session in (("fails", fails()), ("hangs", hangs())):
            assert sessions.reserve()
            sessions.start(name, Plain(session))
            sessions.release()
        await asyncio.sleep(1)
        assert len(sessions) == 1
        await sessions.aclose()
        await asyncio.sleep(60)
        assert len(sessions) == 0

    with caplog.at_level(logging.ERROR):
        virtual(scenario())
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "session fails failed"
    assert "not ended within 10 s: multimodal session hangs" in messages[1]
