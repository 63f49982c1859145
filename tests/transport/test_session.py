"""A viewer's session on the real stream, over the link in memory, on virtual time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from multimodal import wire
from multimodal.errors import ChannelClosedError, TransportError
from multimodal.events import ErrorRaised, StreamEnd, Swap, Text
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.sync.link import LinkProfile
from multimodal.sync.log import SyncLog
from multimodal.transport.base import Inbound
from multimodal.transport.client import SERVER_SILENT, ViewerProtocol
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.scheduler import CONGESTED_BYTES, PEER_GONE, PEER_QUIET
from multimodal.transport.session import Limits, ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.window import LEAST_PART_BYTES, MOST_BYTES, WINDOW_BYTES
from multimodal.values import EncodedImage, Token
from tests.support import virtual
from tests.transport.events import picture

WORDS = [f"w{number} " for number in range(30)]


class Stage:
    """A stream of thirty words and some pictures, its session, and both ends of the road."""

    def __init__(
        self,
        *,
        gap: float = 0.05,
        sizes: tuple[int, ...] = (20_000,) * 5,
        latency: float = 0.02,
        bytes_per_s: float | None = None,
        limits: Limits | None = None,
        words: list[str] | None = None,
        pictures: list[tuple[EncodedImage, float]] | None = None,
        fail_at: tuple[int, str] | None = None,
    ) -> None:
        self.words = WORDS if words is None else words
        self.pictures = [picture(f"p{i}", size) for i, size in enumerate(sizes)]
        self.text = ScriptTextPipe(self.words, gap=gap, fail_at=fail_at)
        self.images = ScriptImagePipe(pictures or [(image, 0.0) for image in self.pictures])
        self.stream = MultiModalStream(self.text, self.images)
        self.server, self.client = memory_link(LinkProfile(delay=latency, bytes_per_s=bytes_per_s))
        self.records: list[dict[str, Any]] = []
        self.session = ViewerSession(self.stream, self.server, limits=limits, on_record=self.records.append)

    async def play(self, viewer: Viewer | None = None) -> Seen:
        viewer = Viewer(self.client) if viewer is None else viewer
        async with asyncio.TaskGroup() as group:
            group.create_task(self.session.run())
            watching = group.create_task(viewer.watch())
        return watching.result()

    @property
    def over(self) -> bool:
        """The text pipe is closed."""
        return self.text._ended

    @property
    def pulled(self) -> int:
        return self.text._index


class Raw:
    """A client without manners: says what it is told to, and notes what it hears."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.heard: list[dict[str, Any]] = []
        self.parts = 0

    def say(self, *messages: wire.ClientMessage | str) -> None:
        for message in messages:
            self.link.send_event(message if isinstance(message, str) else wire.encode(message))

    async def listen(self, until: Callable[[], bool] = lambda: False, seconds: float = 3600.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not until():
                    inbound = await self.link.receive()
                    if isinstance(inbound.data, str):
                        self.heard.append(json.loads(inbound.data))
                    else:
                        self.parts += 1
        except (TimeoutError, TransportError):
            return

    def types(self) -> list[str]:
        return [message["type"] for message in self.heard]


def test_a_whole_tour_arrives_in_order_and_is_recorded() -> None:
    async def scenario() -> None:
        stage = Stage()
        seen = await stage.play()
        assert seen.text == "".join(WORDS)
        assert seen.revealed == [f"p{i}" for i in range(5)]
        assert seen.pictures == {image.key: image.data for image in stage.pictures}
        assert [event.seq for event in seen.events] == list(range(len(seen.events)))
        assert isinstance(seen.events[-1], StreamEnd)
        assert stage.session.reason == seen.ended == "end"
        assert stage.session.malformed == stage.session.ignored == 0
        by_vantage = {record["vantage"] for record in stage.records}
        assert by_vantage == {"emitted", "arrived", "painted", "ready", "clock"}
        emitted = [record["event"] for record in stage.records if record["vantage"] == "emitted"]
        assert [wire.decode_event(json.dumps(event)) for event in emitted] == seen.events
        painted = [record for record in stage.records if record["vantage"] == "painted"]
        assert painted[-1]["seq"] == seen.events[-1].seq
        assert painted[0].keys() == {"vantage", "t_ms", "frame", "seq", "visible"}
        arrived = [record["seq"] for record in stage.records if record["vantage"] == "arrived"]
        assert arrived == [event.seq for event in seen.events]
        ready = [record for record in stage.records if record["vantage"] == "ready"]
        assert [(record["key"], record["ok"]) for record in ready] == [(f"p{i}", True) for i in range(5)]


def test_its_recording_puts_both_clocks_on_one_base(tmp_path: Path) -> None:
    stage_records: list[dict[str, Any]] = []

    async def scenario() -> None:
        stage = Stage(latency=0.03)
        await stage.play()
        stage_records.extend(stage.records)

    virtual(scenario())
    path = tmp_path / "tour.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in stage_records))
    log = SyncLog.read(path)
    assert log.acked
    assert log.pings
    # The road takes 30 ms each way, and both ends read one clock here: they differ by when the stream began.
    assert all(sample.heard_ms - sample.sent_ms == pytest.approx(60, abs=0.01) for sample in log.pings)
    for event in log.events:
        painted = log.frame_of(event.seq)
        assert painted is not None
        at = log.base.at(painted.t_ms)
        assert at is not None
        assert at.uncertainty_ms is not None
        assert at.ms == pytest.approx(event.pts_ms + 30, abs=at.uncertainty_ms + 0.01)
        assert at.uncertainty_ms == pytest.approx(30, abs=1.5)
        assert log.arrival[event.seq] >= event.pts_ms + 59.9


def test_a_viewer_that_speaks_of_pictures_and_pings_before_the_stream_began_spoils_no_recording() -> None:
    async def scenario() -> None:
        stage = Stage(gap=0.5)
        raw = Raw(stage.client)
        raw.say(wire.Hello(), wire.Ready("p0"), wire.Pong(1, 1e12, 5.0), wire.Pong(1, 0.0, 5.0))
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.session.run())
            await raw.listen(seconds=1.0)
            raw.say(wire.Bye("enough"))
        assert all(math.isfinite(record.get("t_ms", 0.0)) for record in stage.records)
        assert not [record for record in stage.records if record.get("heard_ms", 0.0) < record.get("sent_ms", 0.0)]

    virtual(scenario())


def test_the_server_is_silent_before_hello_and_sends_the_viewer_away_in_time() -> None:
    async def scenario() -> None:
        stage = Stage(limits=Limits(hello=2.0))
        raw = Raw(stage.client)
        raw.say(wire.Ping(1), wire.Ready("p0"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            await raw.listen(seconds=1.9)
            assert raw.heard == []
            await raw.listen()
        assert raw.types() == ["bye"]
        assert "no hello within 2 s" in running.result()
        assert asyncio.get_running_loop().time() == pytest.approx(2.5, abs=0.1)
        assert stage.pulled == 0
        assert stage.over

    virtual(scenario())


def test_text_is_not_delayed_by_a_bulk_picture() -> None:
    """One part of 8 KiB takes 80 ms on this road; a picture sent whole would take 8 s."""

    async def scenario() -> None:
        rate = 100_000.0
        stage = Stage(sizes=(800_000,), bytes_per_s=rate)
        seen = await stage.play()
        assert seen.text == "".join(WORDS)
        zero = seen.at[0] - seen.events[0].pts_ms / 1000
        late = [at - zero - event.pts_ms / 1000 for at, event in zip(seen.at, seen.events, strict=True)]
        # The part ahead, then the words that gathered behind it.
        assert max(late) < 2 * 8192 / rate

    virtual(scenario())


def test_unacked_bytes_never_exceed_the_window() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(300_000, 300_000), bytes_per_s=10_000_000, latency=0.05)
        most = 0
        send = stage.server.send_image

        def watched(data: bytes) -> None:
            nonlocal most
            assert stage.server.buffered_amount == 0
            send(data)
            most = max(most, stage.session.scheduler.unacked_bytes)

        stage.server.send_image = watched  # type: ignore[method-assign]
        seen = await stage.play()
        assert seen.pictures.keys() == {"p0", "p1"}
        # What this link holds: its rate, times its round trip (100 ms) and the way of one part.
        assert WINDOW_BYTES < most <= MOST_BYTES

    virtual(scenario())


def test_a_viewer_that_never_acks_gets_its_text_all_the_same() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(200_000,), limits=Limits(drain=3.0))
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        pinging = asyncio.ensure_future(ping_on(raw))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            await raw.listen()
        pinging.cancel()
        assert raw.parts == WINDOW_BYTES // LEAST_PART_BYTES
        events = [event for message in raw.heard if message["type"] == "bundle" for event in message["events"]]
        assert events[-1]["kind"] == "end"
        assert "not everything arrived within 3 s" in running.result()

    virtual(scenario())


async def ping_on(raw: Raw) -> None:
    for number in range(10_000):
        await asyncio.sleep(1.0)
        raw.say(wire.Ping(number))


GARBAGE = ["", "nonsense", "{}", '{"type":"hello","v":9}', '{"type":"fly"}', '{"type":"ack","seq":"x"}', "\x00", "[]"]


def test_garbage_on_both_channels_does_no_harm() -> None:
    async def scenario() -> None:
        stage = Stage()
        for garbage in GARBAGE:
            stage.client.send_event(garbage)
        viewer = Viewer(stage.client)

        async def litter() -> None:
            for garbage in GARBAGE:
                await asyncio.sleep(0.1)
                stage.client.send_event(garbage)
                stage.client.send_image(garbage.encode())

        littering = asyncio.ensure_future(litter())
        seen = await stage.play(viewer)
        await littering
        assert seen.text == "".join(WORDS)
        assert stage.session.malformed == 2 * len(GARBAGE)
        assert stage.session.ignored == len(GARBAGE)

    virtual(scenario())


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xfe", "nonsense", wire.encode(wire.Hello()), wire.encode(wire.Painted(10**6, 0.0, 1))],
)
def test_too_much_garbage_ends_the_session_with_a_reason(garbage: str | bytes) -> None:
    async def scenario() -> None:
        stage = Stage(limits=Limits(malformed=20))
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        for _ in range(25):
            stage.client._way.carry(Inbound("events", garbage), 10)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            await raw.listen()
        assert running.result().startswith("21 malformed messages, the last: ")
        assert raw.heard[-1]["type"] == "bye"
        assert raw.heard[-1]["reason"].startswith("21 malformed")

    virtual(scenario())


def test_a_dead_peer_pauses_the_stream_in_5_s_and_closes_after_15() -> None:
    async def scenario() -> None:
        stage = Stage(gap=0.5, words=WORDS * 4)
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        running = asyncio.ensure_future(stage.session.run())
        await asyncio.sleep(1.0)
        stage.client.sever()
        await asyncio.sleep(PEER_QUIET)
        pulled = stage.pulled
        await asyncio.sleep(5.0)
        assert stage.pulled <= pulled + 1
        reason = await running
        assert reason == f"the viewer was silent for {PEER_GONE:g} s"
        assert asyncio.get_running_loop().time() == pytest.approx(PEER_GONE, abs=0.1)

    virtual(scenario())


def test_a_peer_that_comes_back_goes_on() -> None:
    async def scenario() -> None:
        stage = Stage(gap=0.5)
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        running = asyncio.ensure_future(stage.session.run())
        await asyncio.sleep(10.0)
        pulled = stage.pulled
        assert pulled < 12
        raw.say(wire.Ping(1))
        await raw.listen(seconds=3.0)
        assert stage.pulled > pulled + 3
        raw.say(wire.Bye("seen enough"))
        assert await running == "seen enough"

    virtual(scenario())


def test_pause_and_resume_of_the_viewer_survive_silence() -> None:
    async def scenario() -> None:
        stage = Stage(gap=0.1)
        viewer = Viewer(stage.client)
        running = asyncio.ensure_future(stage.play(viewer))
        await asyncio.sleep(0.55)
        viewer.say(ViewerProtocol.pause)
        await asyncio.sleep(0.2)
        before = viewer.seen.text
        await asyncio.sleep(30.0)
        assert viewer.seen.text == before
        viewer.say(ViewerProtocol.resume)
        assert (await running).text == "".join(WORDS)

    virtual(scenario())


def test_a_ping_is_answered_at_once_even_during_a_bulk_transfer() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(800_000,), bytes_per_s=100_000, latency=0.01)
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        running = asyncio.ensure_future(stage.session.run())
        await raw.listen(seconds=0.5)
        raw.say(wire.Ping(41, 5.0))
        start = asyncio.get_running_loop().time()
        await raw.listen(until=lambda: "pong" in raw.types())
        assert asyncio.get_running_loop().time() - start < 0.02 + 8300 / 100_000
        assert raw.heard[-1]["id"] == 41
        raw.say(wire.Bye())
        await running

    virtual(scenario())


def test_a_failing_text_pipe_ends_the_tour_with_its_error() -> None:
    async def scenario() -> None:
        stage = Stage(fail_at=(10, "the model went away"))
        seen = await stage.play()
        assert seen.text == "".join(WORDS[:10])
        assert [event.kind for event in seen.events][-1] == "end"
        assert "error" in [event.kind for event in seen.events]
        assert stage.session.failure is not None
        assert "the model went away" in str(stage.session.failure)
        assert seen.ended == "text_pipe"

    virtual(scenario())


@pytest.mark.parametrize(
    ("codes", "reason", "outcome"),
    [
        ([], "complete", "end"),
        (["image_pipe"], "complete", "end"),
        (["text_pipe", "image_pipe"], "error", "text_pipe"),
        (["image_pipe"], "error", "error"),
        ([], "error", "error"),
    ],
)
def test_what_ended_a_tour_is_said_by_its_end_and_by_the_error_that_stopped_the_words(
    codes: list[str], reason: str, outcome: str
) -> None:
    errors = [ErrorRaised(1, "s", 0, seq, 0.0, 3, code, "") for seq, code in enumerate(codes)]
    seen = Seen([*errors])
    assert seen.outcome == Seen().outcome == ""
    seen.events.append(StreamEnd(1, "s", 0, len(codes), 0.0, 3, reason))
    assert seen.outcome == outcome


def test_a_picture_that_never_comes_does_not_stop_the_tour() -> None:
    async def scenario() -> None:
        pictures = [(picture("p0"), 0.0), (picture("p1"), math.inf), (picture("p2"), 0.5)]
        stage = Stage(pictures=pictures)
        seen = await stage.play()
        assert seen.text == "".join(WORDS)
        assert seen.pictures.keys() == {"p0", "p2"}

    virtual(scenario())


def test_a_viewer_that_cannot_decode_gets_the_swap_with_its_reason() -> None:
    async def scenario() -> None:
        stage = Stage(sizes=(1000,))
        seen = await stage.play(Viewer(stage.client, decode=None))
        swaps = [event for event in seen.events if isinstance(event, Swap)]
        assert [(swap.key, swap.ok) for swap in swaps] == [("p0", False)]

    virtual(scenario())


def test_a_stream_faster_than_the_road_is_stopped_not_buffered() -> None:
    async def scenario() -> None:
        words = ["x" * 2000 + " " for _ in range(1000)]
        stage = Stage(words=words, gap=0.001, sizes=(1000,), bytes_per_s=500_000)
        waiting: list[int] = []
        queue = stage.session.scheduler.queue_bundle

        def watched(events: Any) -> None:
            queue(events)
            waiting.append(stage.session.scheduler._waiting_bytes)

        stage.session.scheduler.queue_bundle = watched  # type: ignore[method-assign]
        seen = await stage.play()
        assert seen.text == "".join(words)
        assert CONGESTED_BYTES <= max(waiting) < CONGESTED_BYTES + wire.MESSAGE_LIMIT_BYTES * 4

    virtual(scenario())


def test_an_event_that_no_message_can_carry_ends_the_session_with_a_reason() -> None:
    async def scenario() -> None:
        image = EncodedImage("p0", b"data", "image/webp", 3, 3, alt="x" * 70_000)
        stage = Stage(pictures=[(image, 0.0)])
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stage.session.run())
            await raw.listen()
        assert "above the limit of" in running.result()
        assert raw.heard[-1]["type"] == "bye"

    virtual(scenario())


def test_the_session_stays_after_the_end_until_the_viewer_leaves_or_the_limit() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        stage = Stage(limits=Limits(linger=60.0))
        seen = await stage.play(Viewer(stage.client, leave_at_end=False))
        assert seen.ended == "all was told, and the viewer stayed for 60 s more"
        assert stage.session.reason == seen.ended
        assert loop.time() > 60.0

    virtual(scenario())


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.3, 0.9, 5.0])
def test_cancelling_frees_stream_and_link_at_any_moment(moment: float) -> None:
    async def scenario() -> None:
        stage = Stage()
        watching = asyncio.ensure_future(Viewer(stage.client, leave_at_end=False).watch())
        running = asyncio.ensure_future(stage.session.run())
        await asyncio.sleep(moment)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert (await watching).ended == "closed"
        assert stage.over
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual(scenario())


def test_a_viewer_that_drops_the_link_ends_the_session() -> None:
    async def scenario() -> None:
        stage = Stage()
        raw = Raw(stage.client)
        raw.say(wire.Hello())
        running = asyncio.ensure_future(stage.session.run())
        await asyncio.sleep(0.4)
        await stage.client.aclose()
        assert await running == "the peer closed the link"
        assert stage.over
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual(scenario())


@pytest.mark.parametrize("after", [0.1, 0.9, 1.3, 2.0])
def test_a_silent_server_is_noticed_at_the_very_instant_whenever_pings_are_due(after: float) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server, client = memory_link()
        watching = asyncio.ensure_future(Viewer(client).watch())
        await asyncio.sleep(after)
        server.send_event(wire.encode(wire.Ping(1, 0.0)))
        heard = loop.time()
        await asyncio.sleep(0.001)
        server.sever()
        with pytest.raises(ChannelClosedError, match="said nothing for 3 s"):
            await watching
        assert heard + SERVER_SILENT <= loop.time() < heard + SERVER_SILENT + 0.01

    virtual(scenario())


def test_a_fault_in_a_recorder_is_not_hidden() -> None:
    async def scenario() -> None:
        stage = Stage()
        raw = Raw(stage.client)
        raw.say(wire.Hello())

        def broken(record: dict[str, Any]) -> None:
            raise RuntimeError("disk full")

        session = ViewerSession(stage.stream, stage.server, on_record=broken)
        with pytest.raises(RuntimeError, match="disk full"):
            await session.run()
        await raw.listen()
        assert raw.heard[-1] == {"type": "bye", "reason": "the server failed"}
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual(scenario())


def test_a_pipe_that_is_slow_to_stop_does_not_keep_the_viewer() -> None:
    async def scenario() -> None:
        async def stubborn() -> AsyncIterator[Token]:
            yield Token("word ")
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(7)

        server, client = memory_link()
        session = ViewerSession(MultiModalStream(stubborn(), ScriptImagePipe([])), server)
        running = asyncio.ensure_future(session.run())
        watching = asyncio.ensure_future(Viewer(client).watch())
        await asyncio.sleep(2.0)
        running.cancel()
        assert (await watching).ended == "closed"
        assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.1)
        await asyncio.wait([running])
        assert asyncio.get_running_loop().time() == pytest.approx(9.0, abs=0.1)

    virtual(scenario())


def test_text_without_pictures_and_pictures_without_text() -> None:
    async def scenario() -> None:
        async def nothing() -> AsyncIterator[Token]:
            return
            yield Token("")

        server, client = memory_link()
        stream = MultiModalStream(nothing(), ScriptImagePipe([picture("p0")]))
        session = ViewerSession(stream, server)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run())
            watching = group.create_task(Viewer(client).watch())
        assert watching.result().text == ""
        assert not any(isinstance(event, Text) for event in watching.result().events)
        assert watching.result().ended == "end"

    virtual(scenario())
