"""Viewers that interrupt and ask (R9), over the link in memory and over real peer connections."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count

import pytest

from multimodal import wire
from multimodal.events import AnyEvent, ErrorRaised, Interrupted, Reveal, StreamEnd, Swap, SyncMark, Text
from multimodal.pipes.base import TextPipe
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.history import Heard
from multimodal.sync.link import LinkProfile
from multimodal.transport.base import Link, Turns
from multimodal.transport.client import ViewerProtocol
from multimodal.transport.memory import memory_link
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.values import Cue, EncodedImage
from tests.support import run, virtual
from tests.transport.events import picture
from tests.transport.leaks import nothing_left

LONG = [f"w{number} " for number in range(100)]
ANSWER = "It holds one litre."


def text_of(seen: Seen, epoch: int) -> str:
    return "".join(event.text for event in seen.events if isinstance(event, Text) and event.epoch == epoch)


class Tour:
    """Epoch by epoch it tells words that name their epoch, each with a picture; the last answer has an end."""

    def __init__(self, turns: int, gap: float, size_bytes: int = 20_000) -> None:
        self.turns, self.gap = turns, gap
        self.asked: list[tuple[str, Heard]] = []
        self.late: Counter[int] = Counter()
        images = ScriptImagePipe([picture(f"p{i}", size_bytes) for i in range(8)])
        self.stream = MultiModalStream(self.tell(0), images, cues=[Cue(2, "p0")], on_ask=self.answer)

    async def tell(self, turn: int) -> AsyncIterator[str]:
        """Endless, but for the last turn; counts what it makes when it is no longer wanted."""
        for number in count() if turn < self.turns else range(30):
            await asyncio.sleep(self.gap)
            self.late[turn] += self.stream.epoch != turn
            yield f"{turn}.{number} "

    def answer(self, question: str, heard: Heard) -> tuple[TextPipe, list[Cue]]:
        self.asked.append((question, heard))
        turn = len(self.asked)
        return self.tell(turn), [Cue(2, f"p{turn % 8}")]


async def interrupted(tour: Tour, server: Link, client: Link, pause: float, seed: int) -> tuple[Seen, ViewerSession]:
    """Ask `tour.turns` times, at random moments, and watch that nothing of what was left is shown."""
    chance = random.Random(seed)
    fence = 0

    def watch(shown: tuple[AnyEvent, ...]) -> None:
        for event in shown:
            if isinstance(event, Text | Reveal | Swap):
                assert event.epoch >= fence, f"{event} was shown in epoch {fence}"
            if isinstance(event, Text):
                assert {int(word.partition(".")[0]) for word in event.text.split()} == {event.epoch}

    session = ViewerSession(tour.stream, server)
    viewer = Viewer(client, on_show=watch)
    async with asyncio.TaskGroup() as group:
        group.create_task(session.run())
        watching = group.create_task(viewer.watch())
        while not viewer.seen.text:  # noqa: ASYNC110 - the viewer has no event for it
            await asyncio.sleep(0.01)
        for number in range(1, tour.turns + 1):
            await asyncio.sleep(chance.uniform(0.0, pause))
            fence = number
            viewer.ask(f"question {number}")
    return watching.result(), session


def check(tour: Tour, seen: Seen, session: ViewerSession) -> None:
    assert [question for question, _ in tour.asked] == [f"question {i}" for i in range(1, tour.turns + 1)]
    assert tour.stream.refused_stops == session.malformed == 0
    assert all(late <= 1 for late in tour.late.values()), "generation stops within one token"
    assert text_of(seen, tour.turns) == "".join(f"{tour.turns}.{i} " for i in range(30))
    assert [event.key for event in seen.events if isinstance(event, Reveal)][-1] == f"p{tour.turns % 8}"
    assert isinstance(seen.events[-1], StreamEnd)
    assert seen.ended == session.reason == "end"
    assert sum(isinstance(event, ErrorRaised) for event in seen.events) == 0


@pytest.mark.parametrize(
    "profile",
    [
        LinkProfile(delay=0.02),
        LinkProfile(delay=0.08, loss=0.02),
        LinkProfile(delay=0.05, bytes_per_s=100_000),
    ],
    ids=["near", "lossy", "narrow"],
)
def test_a_hundred_interruptions_at_random(profile: LinkProfile) -> None:
    async def scenario() -> None:
        tour = Tour(100, gap=0.02)
        server, client = memory_link(profile)
        check(tour, *await interrupted(tour, server, client, 0.6, seed=5))

    virtual(scenario())


def test_a_hundred_interruptions_over_real_peer_connections() -> None:
    async def scenario() -> None:
        async with nothing_left():
            tour = Tour(100, gap=0.004)
            client, offer = await WebRTCLink.offering()
            server, answer = await WebRTCLink.answering(offer)
            await client.accept(answer)
            check(tour, *await interrupted(tour, server, client, 0.12, seed=7))

    run(scenario())


class Stage:
    """A long narration on a link in memory."""

    def __init__(self, stream: MultiModalStream, profile: LinkProfile | None = None) -> None:
        self.stream = stream
        self.server, self.client = memory_link(profile or LinkProfile(delay=0.02))
        self.session = ViewerSession(stream, self.server)
        self.viewer = Viewer(self.client)
        self.running = asyncio.ensure_future(self.session.run())
        self.watching = asyncio.ensure_future(self.viewer.watch())

    async def end(self) -> Seen:
        seen = await self.watching
        await self.running
        assert self.session.malformed == 0
        return seen


def images(count: int = 1, size_bytes: int = 1000) -> ScriptImagePipe:
    return ScriptImagePipe([picture(f"p{i}", size_bytes) for i in range(count)])


def answering(question: str, heard: Heard) -> TextPipe:
    return ScriptTextPipe(ANSWER)


def test_a_question_is_answered_though_the_viewer_had_paused() -> None:
    async def scenario() -> None:
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=[], on_ask=answering))
        await asyncio.sleep(1.0)
        stage.viewer.say(ViewerProtocol.pause)
        await asyncio.sleep(1.0)
        stage.viewer.ask("How much does it hold?")
        seen = await stage.end()
        assert text_of(seen, 1) == ANSWER
        assert 0 < len(text_of(seen, 0)) < len("".join(LONG))
        assert "".join(LONG).startswith(text_of(seen, 0))

    virtual(scenario())


def test_an_interruption_leaves_the_word_to_the_application() -> None:
    async def scenario() -> None:
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=[]))
        await asyncio.sleep(1.0)
        stage.viewer.interrupt()
        told = stage.viewer.seen.text
        await asyncio.sleep(5.0)
        assert stage.viewer.seen.text == told
        stage.stream.say(ScriptTextPipe(ANSWER))
        assert text_of(await stage.end(), 1) == ANSWER

    virtual(scenario())


@pytest.mark.parametrize("then", ["ask", "finish", "leave"])
def test_an_interruption_that_nobody_follows_up_stays_open_until_somebody_does(then: str) -> None:
    async def scenario() -> None:
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=[], on_ask=answering))
        await asyncio.sleep(1.0)
        stage.viewer.interrupt()
        await asyncio.sleep(120.0)
        seen = stage.viewer.seen
        assert isinstance(seen.events[-1], Interrupted)
        if then == "leave":
            stage.viewer.say(lambda protocol: protocol.bye("seen enough"))
            assert (await stage.end()).ended == "closed"
            assert stage.session.reason == "seen enough"
            return
        if then == "ask":
            stage.viewer.ask("How much does it hold?")
        else:
            stage.stream.finish()
        assert (await stage.end()).ended == "end"
        last = seen.events[-1].epoch
        assert text_of(seen, last) == (ANSWER if then == "ask" else "")

    virtual(scenario())


@pytest.mark.parametrize("message", [wire.Interrupt(0), wire.Ask(0, "again?"), wire.Ask(7, "early?")])
def test_a_stop_that_names_another_epoch_changes_nothing(message: wire.Interrupt | wire.Ask) -> None:
    async def scenario() -> None:
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=[], on_ask=answering))
        await asyncio.sleep(0.5)
        stage.stream.say(ScriptTextPipe(LONG))
        await asyncio.sleep(0.5)
        stage.viewer.say(ViewerProtocol.pause)
        stage.client.send_event(wire.encode(message))
        await asyncio.sleep(5.0)
        assert text_of(stage.viewer.seen, 1) != "".join(LONG), "still paused"
        stage.viewer.say(ViewerProtocol.resume)
        assert text_of(await stage.end(), 1) == "".join(LONG)
        assert (stage.stream.epoch, stage.stream.refused_stops) == (1, 1)

    virtual(scenario())


def test_a_stream_that_takes_no_questions_ends_and_does_not_go_on_unseen() -> None:
    async def scenario() -> None:
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=[]))
        await asyncio.sleep(1.0)
        stage.client.send_event(wire.encode(wire.Ask(3, "early?")))
        await asyncio.sleep(1.0)
        assert stage.stream.epoch == 0
        stage.viewer.ask("How much does it hold?")
        seen = await stage.end()
        kinds = [type(event) for event in seen.events if not isinstance(event, SyncMark)]
        assert kinds[-2:] == [Interrupted, StreamEnd]
        assert asyncio.get_running_loop().time() < 3.0

    virtual(scenario())


def test_a_viewer_moves_to_the_next_chapter_and_back_to_a_mark() -> None:
    async def scenario() -> None:
        cues = [Cue(1, "a"), Cue(51, "b")]
        stage = Stage(MultiModalStream(ScriptTextPipe(LONG), images(), cues=cues, chapters=[0, 50]))
        await asyncio.sleep(1.0)
        stage.client.send_event(wire.encode(wire.Skip(7)))  # an epoch that is not
        stage.client.send_event(wire.encode(wire.Skip(0)))
        await asyncio.sleep(1.0)
        assert stage.stream.epoch == 1
        begun = next(event.tok for event in stage.viewer.seen.events if isinstance(event, Interrupted))
        stage.client.send_event(wire.encode(wire.Rewind(1, 0)))  # a mark before the chapter: told again from there
        await asyncio.sleep(1.0)
        stage.client.send_event(wire.encode(wire.Rewind(2, 10_000)))  # ahead of what was told: the tour goes on
        seen = await stage.end()
        assert stage.stream.epoch == 2
        assert text_of(seen, 0) == "".join(LONG[:begun])
        assert text_of(seen, 1).startswith("".join(LONG[50:53]))
        assert text_of(seen, 2) == "".join(LONG)
        assert stage.stream.refused_stops == 1

    virtual(scenario())


def test_questions_after_the_end_do_no_harm() -> None:
    async def scenario() -> None:
        stream = MultiModalStream(ScriptTextPipe(ANSWER), images(), cues=[], on_ask=answering)
        stage = Stage(stream)
        stage.viewer._leave_at_end = False
        await asyncio.sleep(5.0)
        stage.viewer.ask("And now?")
        stage.viewer.interrupt()
        await asyncio.sleep(1.0)
        stage.viewer.say(lambda protocol: protocol.bye("seen enough"))
        assert (await stage.end()).text == ANSWER
        assert stage.session.reason == "seen enough"

    virtual(scenario())


def test_a_stream_without_turns_goes_on() -> None:
    async def scenario() -> None:
        stream = MultiModalStream(ScriptTextPipe(LONG), images(), cues=[])

        class Tape:
            """All that a session needs, and no more."""

            def __init__(self) -> None:
                for name in ("bundles", "picture", "due", "ack", "pause", "resume", "aclose"):
                    setattr(self, name, getattr(stream, name))

            async def __aenter__(self) -> object:
                return await stream.__aenter__()

            async def __aexit__(self, *error: object) -> None:
                await stream.aclose()

        tape = Tape()
        assert not isinstance(tape, Turns)
        assert isinstance(stream, Turns)
        server, client = memory_link()
        session = ViewerSession(tape, server)  # type: ignore[arg-type]
        running = asyncio.ensure_future(session.run())
        watching = asyncio.ensure_future(Viewer(client).watch())
        await asyncio.sleep(1.0)
        client.send_event(wire.encode(wire.Interrupt(0)))
        client.send_event(wire.encode(wire.Ask(0, "Is anybody there?")))
        assert (await watching).text == "".join(LONG)
        await running
        assert session.malformed == 0

    virtual(scenario())


def test_pictures_of_a_turn_that_was_left_make_way() -> None:
    """The road takes 8 s for the first turn's picture, and half a second for the answer's."""

    async def scenario() -> None:
        def answer(question: str, heard: Heard) -> tuple[TextPipe, list[Cue]]:
            return ScriptTextPipe(LONG, gap=0.2), [Cue(3, "small")]

        def pictures() -> list[EncodedImage]:
            return [picture("large", 800_000), picture("small", 50_000)]

        stream = MultiModalStream(
            *(ScriptTextPipe(LONG, gap=0.2), ScriptImagePipe(pictures())), cues=[Cue(3, "large")], on_ask=answer
        )
        stage = Stage(stream, LinkProfile(delay=0.02, bytes_per_s=100_000))
        await asyncio.sleep(2.0)
        stage.viewer.ask("May I see the small one?")
        await asyncio.sleep(2.0)
        assert list(stage.viewer.seen.pictures) == ["small"]
        await stage.end()
        assert list(stage.viewer.seen.pictures) == ["small", "large"], "look-ahead, when nothing is due"

    virtual(scenario())
