"""The owner of the sessions: bounded, and an end for each."""

from __future__ import annotations

import asyncio
import logging

import pytest

from multimodal.serving.sessions import Sessions
from tests.support import virtual


def test_sessions_are_counted_and_bounded() -> None:
    async def scenario() -> None:
        sessions = Sessions(2)
        assert sessions.reserve()
        sessions.start("a", asyncio.sleep(10))
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
        for name in "abc":
            assert sessions.reserve()
            sessions.start(name, session(name))
        await asyncio.sleep(0)
        assert await sessions.end("b")
        assert cleaned == ["b"]
        assert not await sessions.end("b")
        await sessions.aclose()
        assert cleaned == ["b", "a", "c"]
        assert len(sessions) == 0
        await sessions.aclose()

    virtual(scenario())


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
            sessions.start(name, session)
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
