"""Rules F1-F4, on links in memory and a clock that jumps: roads that fail, hang, are refused, are cut."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from multimodal import wire
from multimodal.errors import ChannelClosedError, JoinRefused, UsageError
from multimodal.events import AnyEvent, Snapshot
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.stream import MultiModalStream
from multimodal.transport.base import Link
from multimodal.transport.live import LiveSession, Seat
from multimodal.transport.memory import MemoryLink, memory_link
from multimodal.transport.resilient import BACKOFF, HEAD_START, Connector, ResilientViewer
from multimodal.transport.roads import Road
from multimodal.transport.viewer import Seen
from tests.support import virtual
from tests.transport.events import picture, text

URL = "http://h/whep/demo"
WORDS = [f"w{number} " for number in range(60)]
PICTURES = [picture(f"p{i}", 20_000) for i in range(4)]


class Tour:
    """A session, and roads to it that do as the test says."""

    def __init__(self, gap: float = 0.05, **settings: Any) -> None:
        self.emitted: list[AnyEvent] = []
        stream = MultiModalStream(ScriptTextPipe(WORDS, gap=gap), ScriptImagePipe(PICTURES))
        self.live = LiveSession(stream, **settings)
        self.seat = self.live.sit(Seat(record=self._record))
        self.tries: list[tuple[float, Road, str]] = []
        self.links: list[tuple[MemoryLink, MemoryLink]] = []
        self.rules: dict[Road, Callable[[], Coroutine[Any, Any, None]]] = {}
        self._loop = asyncio.get_running_loop()
        self.began = self._loop.time()

    def _record(self, line: dict[str, Any]) -> None:
        if line["vantage"] == "emitted":
            event = wire.decode_event(msgspec.json.encode(line["event"]))
            assert event is not None
            self.emitted.append(event)

    def take(self, road: Road) -> Connector:
        async def connect(url: str, seat: str, token: str) -> tuple[Link, str]:
            self.tries.append((round(self._loop.time() - self.began, 3), road, seat))
            if road in self.rules:
                await self.rules[road]()
            server, client = memory_link()
            self.links.append((server, client))
            self.live.connect(self.seat, server)
            return client, "http://h/whep/demo/seat"

        return connect

    def viewer(self, **settings: Any) -> ResilientViewer:
        roads: tuple[Road, ...] = ("whep", "ws", "sse")
        return ResilientViewer(URL, take={road: self.take(road) for road in roads}, **settings)

    async def watched(self, viewer: ResilientViewer) -> Seen:
        running = asyncio.ensure_future(self.live.run())
        try:
            return await viewer.watch()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def whole(seen: Seen, tour: Tour, viewer: ResilientViewer) -> None:
    assert seen.events == tour.emitted
    assert [event.seq for event in seen.events] == list(range(len(seen.events)))
    assert seen.text == "".join(WORDS)
    assert seen.pictures == {image.key: image.data for image in PICTURES}
    assert (seen.ended, viewer.protocol.doubled) == ("end", 0)


async def fails() -> None:
    raise ChannelClosedError("this road does not stand")


async def hangs() -> None:
    await asyncio.get_running_loop().create_future()


async def refused(code: str, status: int = 401) -> None:
    raise JoinRefused(URL, status, code, "no")


def test_one_connection_is_a_viewer_like_the_others() -> None:
    async def act() -> None:
        tour = Tour()
        viewer = tour.viewer()
        whole(await tour.watched(viewer), tour, viewer)
        assert (viewer.connections, viewer.failures) == (["whep"], [])
        assert viewer.seat == "http://h/whep/demo/seat"

    virtual(act())


@pytest.mark.parametrize("cut", range(0, 60, 6))
def test_f2_cut_anywhere_it_goes_on_where_it_was(cut: int) -> None:
    async def act() -> None:
        tour = Tour()

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if len(tour.links) == 1 and bundle[-1].tok >= cut:
                tour.links[0][0].sever()

        viewer = tour.viewer(on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        assert viewer.connections == ["whep", "whep"]
        assert "said nothing for 3 s" in viewer.failures[0]
        # It comes back with its seat, 3 s of silence and the first pause later.
        assert [seat for _, _, seat in tour.tries] == ["", "http://h/whep/demo/seat"]

    virtual(act())


def test_a_link_closed_without_a_goodbye_is_come_back_from() -> None:
    async def act() -> None:
        tour = Tour()

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if bundle[-1].tok in {10, 11, 12, 40}:
                asyncio.get_running_loop().create_task(tour.links[-1][0].aclose())

        viewer = tour.viewer(on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        assert len(viewer.connections) >= 3

    virtual(act())


def test_f1_the_next_road_begins_beside_the_first_after_4_s_and_the_first_to_stand_is_taken() -> None:
    async def act() -> None:
        tour = Tour()
        tour.rules["whep"] = hangs
        viewer = tour.viewer()
        whole(await tour.watched(viewer), tour, viewer)
        assert tour.tries == [(0.0, "whep", ""), (4.0, "ws", "")]
        assert viewer.connections == ["ws"]

    virtual(act())


def test_f1_silence_of_the_road_before_counts_so_that_the_next_stands_within_six_seconds() -> None:
    async def act() -> None:
        tour = Tour()
        cut: list[float] = []

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if len(tour.links) == 1 and bundle[-1].tok >= 20:
                tour.rules["whep"] = hangs
                tour.links[0][0].sever()
                cut.append(asyncio.get_running_loop().time() - tour.began)

        viewer = tour.viewer(on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        (_, first, _), (again, second, _), (beside, third, _) = tour.tries
        assert (first, second, third) == ("whep", "whep", "ws")
        assert beside == pytest.approx(again + HEAD_START)
        assert beside - cut[0] < 5.0

    virtual(act())


def test_f1_a_road_that_fails_makes_room_at_once_down_to_the_last() -> None:
    async def act() -> None:
        tour = Tour()
        tour.rules = {"whep": fails, "ws": lambda: refused("", 403)}
        viewer = tour.viewer()
        whole(await tour.watched(viewer), tour, viewer)
        assert tour.tries == [(0.0, "whep", ""), (0.0, "ws", ""), (0.0, "sse", "")]
        assert viewer.connections == ["sse"]

    virtual(act())


def test_f2_from_webrtc_to_websocket_to_sse_with_one_cursor() -> None:
    async def act() -> None:
        tour = Tour(gap=0.2)

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if bundle[-1].tok >= 25 * len(tour.links) - 15 and len(tour.links) < 3:
                tour.rules["whep" if len(tour.links) == 1 else "ws"] = fails
                tour.links[-1][0].sever()

        viewer = tour.viewer(on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        assert viewer.connections == ["whep", "ws", "sse"]

    virtual(act())


def test_f1_a_new_connection_begins_with_the_road_that_stood_last() -> None:
    async def act() -> None:
        tour = Tour()
        tour.rules["whep"] = fails

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if len(tour.links) == 1 and bundle[-1].tok == 20:
                tour.links[0][0].sever()

        viewer = tour.viewer(on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        assert [road for _, road, _ in tour.tries] == ["whep", "ws", "ws"]

    virtual(act())


def test_f3_pauses_grow_and_begin_afresh_after_anything_new() -> None:
    async def act() -> None:
        tour = Tour(gap=0.5)
        down = 0

        async def rule() -> None:
            nonlocal down
            if down:
                down -= 1
                await fails()

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            nonlocal down
            if bundle[-1].tok in {10, 20} and len(viewer.connections) == bundle[-1].tok // 10:
                down = 5
                asyncio.get_running_loop().create_task(tour.links[-1][0].aclose())

        tour.rules["whep"] = rule
        viewer = tour.viewer(on_show=on_show, roads=("whep",))
        whole(await tour.watched(viewer), tour, viewer)
        times = [at for at, _, _ in tour.tries]
        pauses = [round(after - before, 2) for before, after in itertools.pairwise(times)]
        growing = [*BACKOFF[1:], 1.0, 1.0, 1.0]
        assert (pauses[1:6], pauses[7:12]) == (growing, growing)
        assert viewer.connections == ["whep"] * 3

    virtual(act())


def test_two_connections_in_a_row_without_progress() -> None:
    async def act() -> None:
        tour = Tour()

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if len(tour.links) == 1 and bundle[-1].tok == 20:
                tour.links[0][0].sever()

        plain = tour.take("whep")

        async def dead_twice(url: str, seat: str, token: str) -> tuple[Link, str]:
            link, seat = await plain(url, seat, token)
            if len(tour.links) in {2, 3}:
                tour.links[-1][0].sever()
            return link, seat

        viewer = ResilientViewer(URL, take={"whep": dead_twice}, roads=("whep",), on_show=on_show)
        whole(await tour.watched(viewer), tour, viewer)
        assert len(viewer.connections) == 4

    virtual(act())


@pytest.mark.parametrize("code", ["token_expired", "no_such_tour", "no_such_seat"])
def test_f4_what_is_refused_for_good_is_not_tried_again(code: str) -> None:
    async def act() -> None:
        tour = Tour()
        tour.rules["whep"] = lambda: refused(code)
        viewer = tour.viewer()
        with pytest.raises(JoinRefused, match=code):
            await viewer.watch()
        assert [road for _, road, _ in tour.tries] == ["whep"]

    virtual(act())


def test_a_seat_that_was_given_up_before_anything_came_is_no_loss() -> None:
    async def act() -> None:
        tour = Tour()

        async def rule() -> None:
            if len(tour.tries) == 2:
                await refused("no_such_seat", 404)

        tour.rules["whep"] = rule
        plain = tour.take("whep")

        async def dead_once(url: str, seat: str, token: str) -> tuple[Link, str]:
            link, seat = await plain(url, seat, token)
            if len(tour.links) == 1:
                tour.links[0][0].sever()
            return link, seat

        viewer = ResilientViewer(URL, take={"whep": dead_once}, roads=("whep",))
        whole(await tour.watched(viewer), tour, viewer)
        assert [seat for _, _, seat in tour.tries] == ["", "http://h/whep/demo/seat", ""]

    virtual(act())


def test_f4_nothing_new_for_a_minute_ends_it_and_says_what_failed() -> None:
    async def act() -> None:
        tour = Tour()
        tour.rules = {"whep": fails, "ws": fails, "sse": lambda: refused("", 502)}
        viewer = tour.viewer()
        with pytest.raises(ChannelClosedError, match=r"nothing new came for 60 s by whep, ws, sse.*answered 502"):
            await viewer.watch()
        assert tour.tries[-1][0] == pytest.approx(60, abs=1.0)
        assert len(viewer.failures) == 100

    virtual(act())


def test_f4_a_server_that_is_busy_is_asked_when_it_said() -> None:
    async def act() -> None:
        tour = Tour()

        async def busy() -> None:
            if len(tour.tries) == 1:
                raise JoinRefused(URL, 503, "too_many_sessions", "full", 7.0)

        tour.rules["whep"] = busy
        viewer = tour.viewer(roads=("whep",))
        whole(await tour.watched(viewer), tour, viewer)
        assert [at for at, _, _ in tour.tries] == [0.0, 7.0]

    virtual(act())


def test_f4_taken_over_by_another_tab_it_stays_away() -> None:
    async def act() -> None:
        tour = Tour()
        running = asyncio.ensure_future(tour.live.run())
        first = tour.viewer()
        one = asyncio.ensure_future(first.watch())
        await asyncio.sleep(1.0)
        second = tour.viewer(hello=wire.Hello(cursor=5, resume=True))
        two = await second.watch()
        assert (await one).ended == "taken over by another connection"
        assert len(first.connections) == 1
        assert [event.seq for event in two.events] == list(range(6, len(tour.emitted)))
        running.cancel()
        await asyncio.wait((running,))

    virtual(act())


def test_a_question_asked_in_the_dark_is_heard_later() -> None:
    async def act() -> None:
        tour = Tour(gap=0.2)

        def on_show(bundle: tuple[AnyEvent, ...]) -> None:
            if len(tour.links) == 1 and bundle[-1].tok == 20:
                tour.links[0][0].sever()
                asyncio.get_running_loop().call_later(1.0, viewer.ask, "why?")

        viewer = tour.viewer(on_show=on_show)
        seen = await tour.watched(viewer)
        assert [event.kind for event in seen.events if event.kind in {"interrupt", "end"}] == ["interrupt", "end"]
        assert seen.ended == "end"

    virtual(act())


def told(*events: AnyEvent) -> str:
    return Seen(events=list(events)).text


def test_the_narration_is_told_once_whatever_snapshots_say_again() -> None:
    def snapshot(char: int, words: str) -> Snapshot:
        return Snapshot(1, "s", 0, 9, 0.0, 9, text=words, char=char)

    assert told(text(0, "one "), snapshot(0, "one two "), text(10, "three")) == "one two three"
    assert (
        told(snapshot(100, "two "), text(10, "three "), snapshot(104, "three four"), text(12, "!")) == "two three four!"
    )
    assert told(text(0, "one "), snapshot(50, "later "), text(10, "on")) == "later on"
    assert told(snapshot(50, "later "), snapshot(0, "all of it")) == "all of it"


def test_cancelling_closes_everything() -> None:
    async def act() -> None:
        tour = Tour()
        running = asyncio.ensure_future(tour.live.run())
        viewer = tour.viewer()
        watching = asyncio.ensure_future(viewer.watch())
        await asyncio.sleep(1.0)
        watching.cancel()
        await asyncio.wait((watching,))
        with pytest.raises(Exception, match="closed the link"):
            tour.links[0][1].send_event("late")
        running.cancel()
        await asyncio.wait((running,))
        assert len(asyncio.all_tasks()) == 1

    virtual(act())


def test_a_road_whose_library_is_missing_is_left_out() -> None:
    async def missing() -> None:
        raise UsageError("install it with pip")

    async def act() -> None:
        tour = Tour()
        tour.rules["whep"] = missing
        viewer = tour.viewer()
        whole(await tour.watched(viewer), tour, viewer)
        assert viewer.connections == ["ws"]
        with pytest.raises(UsageError, match="install it with pip"):
            await tour.viewer(roads=("whep",)).watch()

    virtual(act())


def test_wrong_settings_are_refused() -> None:
    async def act() -> None:
        with pytest.raises(UsageError, match="no tour's address"):
            ResilientViewer("http://h/demo")
        with pytest.raises(UsageError, match="name at least one of whep, ws, sse"):
            ResilientViewer(URL, roads=())
        with pytest.raises(UsageError, match="name at least one"):
            ResilientViewer(URL, roads=("tcp",))  # type: ignore[arg-type]

    virtual(act())
