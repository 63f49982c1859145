"""Spoilt messages against running sessions: who sends them is sent away, and nobody else notices."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from multimodal import wire
from multimodal.errors import TransportError
from multimodal.events import AnyEvent
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Channel, Inbound
from multimodal.transport.connection import Connection, Limits
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.viewer import Viewer
from tests.fuzz.attacker import Attacker, sendable
from tests.fuzz.corpus import NASTY_TEXT
from tests.fuzz.faults import watched
from tests.fuzz.mutator import SEED, count
from tests.support import virtual
from tests.transport.events import picture

MESSAGES = count("MULTIMODAL_FUZZ_LIVE", 2_000)
"""Messages to live connections in all; `make soak` asks for 20,000."""
EACH = 40
"""Messages of one connection: twice as many as may be malformed."""
BESIDE = 10
"""Attackers at one time."""
KEEP = 30.0
PICTURES = 5
WORDS = [f"w{number} " for number in range(40)]
LIMITS = Limits(hello=2.0, linger=60.0)

DOCUMENTED = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\d+ malformed messages, the last: .*",
        r"it asks for what it may not have, again and again",
        r"no hello within [\d.]+ s of the connection; a viewer says hello first",
        r"the viewer was silent for \d+ s",
        r"the viewer left( before its hello)?",
        r"the peer closed the (link|channel|connection)",
        r"the peer flooded the link: .*",
        r"all was told, and the viewer stayed for \d+ s more",
        r"not everything arrived within \d+ s of the end",
        r"nothing is known any more of what this viewer has seen",
        r"every viewer has left",
        r"no viewer came back within [\d.]+ s",
        r"seen enough",
    )
]
"""What a connection may end with, beside the words of the viewer's own goodbye."""


def loudly(link: MemoryLink) -> Any:
    """Send what this side's own limits would refuse."""

    def say(channel: Channel, data: str | bytes) -> None:
        ended = link._inbox.ended
        if ended is not None:
            raise ended.with_traceback(None)
        link._way.carry(Inbound(channel, sendable(data)), len(data))

    return say


def documented(reason: str, byes: list[str]) -> bool:
    return reason in byes or any(pattern.fullmatch(reason) for pattern in DOCUMENTED)


class Server:
    """What attackers come to, and one viewer beside them who watches all of a session.

    Args:
        messages: how many the attackers say in all.
        shared: they sit in the watcher's session, and may not turn it; else each has one of its own, and may.
    """

    def __init__(self, messages: int, *, shared: bool) -> None:
        self.messages, self.shared, self.said, self.over = messages, shared, 0, False
        self.emitted: list[AnyEvent] = []
        self.connections: list[tuple[Connection, Attacker]] = []
        self.live = LiveSession(tour(self._words()), limits=LIMITS, open_ended=True, keep=KEEP)

    async def play(self) -> None:
        server, client = memory_link()
        watcher = Viewer(client)
        self.live.connect(self.live.sit(Seat("watcher", record=self._record)), server)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.live.run())
            watching = group.create_task(watcher.watch())
            await asyncio.sleep(0.5)
            await asyncio.gather(*(self._attacks() for _ in range(BESIDE)))
            assert not watching.done(), "the watcher was sent away"
            if self.shared:
                # By then the seats of those who did not take their leave are given up.
                await asyncio.sleep(KEEP + 1)
                assert list(self.live.seats) == ["watcher"]
            self.over = True
            seen = await watching
        assert seen.ended == "end"
        assert seen.events == self.emitted
        assert [event.seq for event in seen.events] == list(range(len(seen.events)))
        assert set(seen.pictures) == {f"p{number}" for number in range(PICTURES)}

    async def _words(self) -> AsyncIterator[str]:
        while not self.over:
            await asyncio.sleep(0.1)
            yield "word "

    async def _attacks(self) -> None:
        while self.said < self.messages:
            await self._attack()

    async def _attack(self) -> None:
        server, client = memory_link()
        attacker = Attacker(client, loudly(client), SEED + len(self.connections), EACH)
        live = self.live if self.shared else LiveSession(tour(ScriptTextPipe(WORDS, gap=0.1)), limits=LIMITS, keep=0.0)
        connection = live.connect(live.sit(Seat(turns=not self.shared)), server)
        self.connections.append((connection, attacker))
        async with asyncio.TaskGroup() as group:
            if not self.shared:
                group.create_task(live.run())
            await attacker.run()
        await connection.closed.wait()
        self.said += attacker.said

    def _record(self, line: dict[str, Any]) -> None:
        if line["vantage"] == "emitted":
            event = wire.decode_event(msgspec.json.encode(line["event"]))
            assert event is not None
            self.emitted.append(event)


def tour(text: AsyncIterator[Any]) -> MultiModalStream:
    return MultiModalStream(text, ScriptImagePipe([(picture(f"p{n}", 20_000), 0.0) for n in range(PICTURES)]))


@pytest.mark.parametrize("shared", [True, False])
def test_who_sends_rubbish_is_sent_away_and_nobody_else_notices(
    shared: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[weakref.ref[object]] = []
    before = Counter[str]()

    async def scenario() -> None:
        nonlocal before
        gc.collect()
        before = ours()
        server = Server(MESSAGES // 2, shared=shared)
        await server.play()
        kept.extend(weakref.ref(connection) for connection, _ in server.connections)
        ends = Counter[str]()
        for connection, attacker in server.connections:
            reason = connection.reason
            assert documented(reason, attacker.goodbyes), reason
            ends[re.sub(r"[\d.]+|, the last.*", "_", reason) if documented(reason, []) else "its own words"] += 1
            assert attacker.bye is None or attacker.bye == reason[:200]
        assert len(ends) >= 4, f"attackers that all end alike try little: {ends}"
        assert len(asyncio.all_tasks()) == 1
        with capsys.disabled():
            print(f"\n{server.said} messages in {len(server.connections)} connections (seed {SEED}): {dict(ends)}")

    with watched():
        virtual(scenario())
        gc.collect()
    assert not [ref for ref in kept if ref() is not None]
    assert ours() - before == Counter()


HELLO = '{"type":"hello","v":1}'
CONVERSATIONS: list[tuple[list[str | bytes], str]] = [
    ([HELLO] * 30, r"21 malformed messages, the last: a second hello"),
    (["x"] * 30, r"21 malformed messages, the last: malformed client message: .*"),
    (['{"type":"pause"}'] * 30, r"21 malformed messages, the last: Pause before hello"),
    ([HELLO, *NASTY_TEXT, *NASTY_TEXT], r"21 malformed messages, the last: .*"),
    ([HELLO, "x" * 2_000_000], r"the peer flooded the link: .*"),
    ([b"x" * 2_000_000], r"the peer flooded the link: .*"),
    ([HELLO, '{"type":"bye","reason":"' + "x" * 60_000 + '"}'], "x{60000}"),
    (
        ['{"type":"hello","cursor":9007199254740991}'],
        r"nothing is known any more of what this viewer has seen|.* silent .*",
    ),
    (
        [HELLO, *['{"type":"need","key":"nothing"}'] * 21],
        r"21 malformed .*: it needs 'nothing', which was not described",
    ),
    ([HELLO, *['{"type":"resend","key":"x","ranges":[[0,1]]}'] * 21], r"21 malformed .*: it asks for parts of 'x', .*"),
    ([HELLO, *['{"type":"painted","seq":999,"t_ms":0,"frame":0}'] * 21], r"21 malformed .*: painted 999, .*"),
    ([HELLO, *['{"type":"interrupt","epoch":0}'] * 500], r"the viewer was silent for 15 s"),
    ([HELLO, *['{"type":"ping","id":1,"t_ms":1e308}'] * 500], r"the viewer was silent for 15 s"),
    ([HELLO, *['{"type":"pong","id":1,"t_ms":-1e308,"at_ms":1e308}'] * 500], r"the viewer was silent for 15 s"),
    ([HELLO, *['{"type":"ack","seq":-1,"picture_bytes":0}'] * 500], r"the viewer was silent for 15 s"),
    ([], r"no hello within 2 s .*"),
]


@pytest.mark.parametrize(("said", "end"), CONVERSATIONS, ids=range(len(CONVERSATIONS)))
def test_the_known_bad_conversations_end_as_documented(said: list[str | bytes], end: str) -> None:
    async def scenario() -> None:
        server, client = memory_link()
        live = LiveSession(tour(ScriptTextPipe(WORDS, gap=0.1)), limits=LIMITS, keep=0.0)
        connection = live.connect(live.sit(Seat()), server)
        say = loudly(client)
        with suppress(TransportError):
            for message in said:
                say("events", message)
        await live.run()
        assert re.fullmatch(end, connection.reason, re.DOTALL), connection.reason

    with watched():
        virtual(scenario())


def ours() -> Counter[str]:
    """Objects of this package that the garbage collector knows, by class."""
    kinds = (type(each) for each in gc.get_objects())
    names = (f"{kind.__module__}.{kind.__name__}" for kind in kinds if isinstance(kind.__module__, str))
    return Counter(name for name in names if name.startswith("multimodal."))
