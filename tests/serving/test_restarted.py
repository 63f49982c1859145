"""A tour whose server was killed, at the server that follows: it ends in as many words, or goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from multimodal import wire
from multimodal.events import ErrorRaised, StreamEnd
from multimodal.journal import Entry, MemoryJournal
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.door import Door
from multimodal.serving.rights import Grant
from multimodal.serving.seats import Seats
from multimodal.serving.sessions import Sessions
from multimodal.stream import MultiModalStream
from multimodal.transport.fold import Fold
from multimodal.transport.memory import memory_link
from multimodal.transport.viewer import Seen, Viewer
from multimodal.values import Cue, Place
from tests.support import virtual
from tests.transport.events import picture

WORDS = [f"w{number} " for number in range(30)]
SEEN_SEQ = 4


def stream(tour: str, place: Place | None = None) -> MultiModalStream:
    images = ScriptImagePipe([picture("p0", 2000)])
    return MultiModalStream(ScriptTextPipe(WORDS, gap=0.02), images, cues=[Cue(3, "p0")], resume=place)


def broken(tour: str, place: Place) -> MultiModalStream:
    raise OSError("the catalogue has gone")


async def left_behind(journal: MemoryJournal, session: str) -> int:
    """What a killed process had told: a third of the tour; gives the last event's number."""
    lease, fold = await journal.open(session, "the process before"), Fold()
    async with stream("demo") as telling:
        async for bundle in telling.bundles():
            fold.feed(bundle)
            await journal.append(lease, [Entry.of(bundle)])
            if bundle[-1].tok > 10:
                break
    await journal.release(lease)
    return fold.seq


async def comes_back(resume_stream: Callable[[str, Place], Any] | None) -> tuple[Seen, int]:
    journal, sessions, seats = MemoryJournal(), Sessions(8), Seats()
    last = await left_behind(journal, "s")
    door = Door(stream, sessions, seats=seats, journal=journal, resume_stream=resume_stream)
    seat_id = seats.issue(Grant("demo"), tour="demo", session="s", now=time.time()).id
    chair = await door.come_back("demo", seat_id, "")
    server, client = memory_link()
    chair.live.connect(chair.seat, server)
    seen = await Viewer(client, hello=wire.Hello(cursor=SEEN_SEQ, resume=True)).watch()
    await sessions.aclose()
    return seen, last


@pytest.mark.parametrize("resume_stream", [None, broken])
def test_a_tour_that_cannot_go_on_ends_with_its_error(
    resume_stream: Callable[[str, Place], Any] | None, caplog: pytest.LogCaptureFixture
) -> None:
    seen, last = virtual(comes_back(resume_stream))
    assert [event.seq for event in seen.events] == list(range(SEEN_SEQ + 1, last + 3)), "what it had told comes first"
    error, end = seen.events[-2:]
    assert isinstance(error, ErrorRaised)
    assert isinstance(end, StreamEnd)
    assert (error.code, end.reason) == ("server_restarted", "error")
    assert seen.ended == "server_restarted"
    assert ("the catalogue has gone" in caplog.text) == (resume_stream is broken)


def test_one_that_can_goes_on_to_its_own_end() -> None:
    seen, last = virtual(comes_back(stream))
    assert [event.seq for event in seen.events] == list(range(SEEN_SEQ + 1, SEEN_SEQ + 1 + len(seen.events)))
    assert seen.events[-1].seq > last
    assert seen.text.endswith("".join(WORDS[-15:]))
    assert seen.ended == seen.outcome == "end"
