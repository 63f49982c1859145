"""A road that swallows or spoils picture parts, as some middle boxes do: every picture comes whole all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.memory import memory_link
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Viewer
from multimodal.transport.window import LEAST_PART_BYTES, WINDOW_BYTES
from tests.support import virtual
from tests.transport.events import picture

PICTURES = [picture(f"p{number}", 150_000) for number in range(2)]


def swallow(data: bytes) -> None:
    return None


def spoil(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("words", [400, 5], ids=["while words pass", "after the last word"])
@pytest.mark.parametrize(
    ("harm", "harmed"),
    [
        (swallow, range(3, 5)),
        (swallow, range(0, 200, 7)),
        (swallow, range(8, 64)),
        (spoil, range(3, 5)),
        (spoil, range(0, 200, 7)),
    ],
)
def test_every_picture_comes_whole(words: int, harm: Callable[[bytes], bytes | None], harmed: range) -> None:
    async def scenario() -> None:
        server, client = memory_link()
        send, number = server.send_image, 0

        def harming(data: bytes) -> None:
            nonlocal number
            passed = harm(data) if number in harmed else data
            number += 1
            if passed is not None:
                send(passed)

        server.send_image = harming  # type: ignore[method-assign]
        told = [f"w{index} " for index in range(words)]
        stream = MultiModalStream(ScriptTextPipe(told, gap=0.1), ScriptImagePipe(PICTURES))
        session = ViewerSession(stream, server)
        viewer = Viewer(client, leave_at_end=False)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(session.run())
            watching = group.create_task(viewer.watch())
            while len(viewer.seen.pictures) < 2 and not running.done():  # noqa: ASYNC110 - on virtual time
                await asyncio.sleep(0.5)
            await asyncio.sleep(words * 0.1)
            watching.cancel()
            running.cancel()
        assert viewer.seen.text == "".join(told)
        assert viewer.seen.pictures == {each.key: each.data for each in PICTURES}
        # Some of it, not all of it: parts were asked for, and not pictures.
        assert 0 < session.scheduler.counters.bytes_resent < 300_000

    virtual(scenario(), limit=600)


def test_a_window_full_that_was_swallowed_is_written_off_by_the_words_that_pass() -> None:
    async def scenario() -> None:
        server, client = memory_link()
        send, left = server.send_image, WINDOW_BYTES // LEAST_PART_BYTES

        def swallowing(data: bytes) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                send(data)

        server.send_image = swallowing  # type: ignore[method-assign]
        stream = MultiModalStream(ScriptTextPipe(["word "] * 200, gap=0.1), ScriptImagePipe(PICTURES))
        session = ViewerSession(stream, server)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run())
            watching = group.create_task(Viewer(client).watch())
        assert set(watching.result().pictures) == {"p0", "p1"}
        assert session.scheduler.counters.bytes_written_off == WINDOW_BYTES

    virtual(scenario())
