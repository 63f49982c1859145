"""Who may not leave a turn, or asks more than is allowed, is told where the stream stands, and hears the rest."""

from __future__ import annotations

import asyncio

import pytest

from multimodal import wire
from multimodal.events import Snapshot, StreamStart, Text
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.history import Heard
from multimodal.transport.base import Inbound
from multimodal.transport.client import ViewerProtocol
from multimodal.transport.fold import Fold
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import memory_link
from multimodal.transport.viewer import Seen, Viewer
from tests.support import virtual

WORDS = [f"w{i} " for i in range(60)]


def answered(text: str, heard: Heard) -> ScriptTextPipe:
    return ScriptTextPipe(["It ", "is ", "loud."], gap=0.05)


def stream(**more: object) -> MultiModalStream:
    return MultiModalStream(ScriptTextPipe(WORDS, gap=0.05), ScriptImagePipe([]), cues=[], on_ask=answered, **more)  # type: ignore[arg-type]


def watch(live: LiveSession, *, turns: bool) -> tuple[Viewer, asyncio.Future[Seen]]:
    server, client = memory_link()
    live.connect(live.sit(Seat(turns=turns)), server)
    viewer = Viewer(client)
    return viewer, asyncio.ensure_future(viewer.watch())


def leave(viewer: Viewer, question: str | None) -> None:
    """As the player does, which does not judge the length."""

    def act(protocol: ViewerProtocol) -> None:
        epoch = protocol.epoch
        protocol._leave(wire.Interrupt(epoch) if question is None else wire.Ask(epoch, question))

    viewer.say(act)


@pytest.mark.parametrize("question", [None, "Is it loud?"])
def test_who_only_watches_hears_the_rest(question: str | None) -> None:
    async def scenario() -> None:
        live = LiveSession(stream(), keep=5.0, open_ended=True)
        one, watching = watch(live, turns=False)
        _, other = watch(live, turns=False)
        running = asyncio.ensure_future(live.run())
        await asyncio.sleep(1.0)
        leave(one, question)
        await asyncio.sleep(0.5)
        leave(one, question)
        seen, beside = await watching, await other
        assert beside.text == "".join(WORDS)
        # Told in sum what it had left, and one by one what came then.
        assert seen.events[-1].kind == "end"
        assert seen.text.endswith("".join(WORDS[-20:]))
        assert {event.epoch for event in seen.events} == {0}
        await running

    virtual(scenario())


def test_who_asks_again_and_again_for_what_it_may_not_have_is_sent_away() -> None:
    async def scenario() -> None:
        live = LiveSession(stream(), keep=5.0, open_ended=True)
        viewer, watching = watch(live, turns=False)
        _, other = watch(live, turns=False)
        running = asyncio.ensure_future(live.run())
        await asyncio.sleep(0.5)
        for _ in range(50):
            viewer.link.send_event(wire.encode(wire.Ask(0, "May I?")))
        seen = await watching
        assert "again and again" in seen.ended
        assert sum(isinstance(event, Snapshot) for event in seen.events) <= 11
        assert (await other).text == "".join(WORDS)
        await running

    virtual(scenario())


def test_words_around_the_snapshot_in_one_message_are_shown_once() -> None:
    """Bundles that had to wait are joined: the turn's words, the snapshot that has them, and the words behind it."""

    def text(seq: int, said: str) -> Text:
        return Text(1, "s", 0, seq, 0.0, seq + 1, seq, 1, said)

    viewer = ViewerProtocol()
    start = StreamStart(1, "s", 0, 0, 0.0, 0, 3)
    viewer.receive(Inbound("events", next(wire.encode_bundle([start, text(1, "one ")]))), 0.0)
    viewer.ask("May I?")
    snapshot = Snapshot(1, "s", 0, 2, 0.0, 3, start=start, text="one two ")
    shown = viewer.receive(
        Inbound("events", next(wire.encode_bundle([text(2, "two "), snapshot, text(3, "three.")]))), 0.1
    )
    assert [event for bundle in shown if isinstance(bundle, tuple) for event in bundle] == [snapshot, text(3, "three.")]
    assert (viewer.epoch, viewer.cursor) == (0, 3)


def test_a_question_that_is_too_long_changes_nothing() -> None:
    async def scenario() -> None:
        live = LiveSession(stream(), keep=5.0)
        viewer, watching = watch(live, turns=True)
        running = asyncio.ensure_future(live.run())
        await asyncio.sleep(1.0)
        leave(viewer, "é" * (wire.ASK_LIMIT + 1))
        seen = await watching
        assert seen.text.endswith("".join(WORDS[-20:]))
        await running

    virtual(scenario())


def test_what_was_said_before_the_server_was_killed_is_said_of_the_turn_that_goes_on() -> None:
    async def scenario() -> None:
        before = stream()
        fold = Fold()
        async with before:
            async for bundle in before.bundles():
                fold.feed(bundle)
                if fold.seq > 20:
                    break
            offset = before.offset
        assert offset is not None
        live = LiveSession(stream(resume=fold.place(offset)), keep=5.0, fold=fold)
        server, client = memory_link()
        live.connect(live.sit(Seat()), server)
        viewer = Viewer(client, hello=wire.Hello(cursor=fold.seq, resume=True))
        watching = asyncio.ensure_future(viewer.watch())
        running = asyncio.ensure_future(live.run())
        await asyncio.sleep(0.5)
        # It names the epoch that the viewer knew when its server was killed.
        viewer.link.send_event(wire.encode(wire.Ask(0, "Is it loud?")))
        seen = await watching
        assert seen.text.endswith("It is loud.")
        assert len(seen.text) < len("".join(WORDS))
        await running

    virtual(scenario())
