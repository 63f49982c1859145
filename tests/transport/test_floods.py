"""A viewer that says too much is sent away with the reason; one that says much, and pauses, is not."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from multimodal import wire
from multimodal.errors import UsageError
from multimodal.transport.session import Limits
from tests.support import virtual
from tests.transport.test_session import Raw, Stage


def test_too_many_messages_end_the_connection_with_a_reason() -> None:
    async def scenario() -> None:
        stage = Stage(limits=Limits(messages_per_second=10, messages_burst=50))
        raw = Raw(stage.client)
        raw.say(wire.Hello(), *[wire.Ack()] * 60)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            await raw.listen()
        assert running.result() == "more than 10 messages a second"
        assert raw.heard[-1] == {"type": "bye", "reason": "more than 10 messages a second"}
        assert stage.session.malformed == 0

    virtual(scenario())


def test_a_burst_now_and_then_is_what_pages_do() -> None:
    async def scenario() -> None:
        stage = Stage(limits=Limits(messages_per_second=10, messages_burst=50), words=["w "] * 600)
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            for _ in range(4):
                raw.say(*[wire.Ack()] * 45)
                await raw.listen(seconds=5)
            assert not running.done()
            raw.say(wire.Bye("enough"))
            await raw.listen()
        assert running.result() == "enough"

    virtual(scenario())


def test_a_fast_tour_has_no_trouble_with_the_defaults() -> None:
    async def scenario() -> None:
        stage = Stage(gap=0.001, words=[f"{number} " for number in range(3000)], sizes=())
        seen = await stage.play()
        assert len(seen.text.split()) == 3000

    virtual(scenario())


@pytest.mark.parametrize(
    "wrong", [{"messages_per_second": 0}, {"messages_burst": 0}, {"messages_per_second": math.nan}]
)
def test_limits_that_are_none(wrong: Any) -> None:
    with pytest.raises(UsageError, match="must be"):
        Limits(**wrong)
