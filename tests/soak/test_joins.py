"""Who comes late sees where the tour stands, and then every event once; nobody else notices."""

from __future__ import annotations

import asyncio

import pytest

from multimodal.events import AnyEvent, AssetReserved, Reveal, Snapshot, StreamEnd, Text
from multimodal.transport.live import LiveSession, Seat
from tests.soak.returning import Emitted, MemoryRoad, Returning
from tests.soak.test_cuts import PICTURES, WORDS, tour
from tests.support import virtual

DELAY = 0.05
BAR = 2 * DELAY + 0.2
"""One round trip and 200 ms from the hello to the snapshot."""


def check_snapshot(snapshot: Snapshot, before: list[AnyEvent]) -> None:
    """It says where those events lead."""
    text = "".join(event.text for event in before if isinstance(event, Text))
    assert snapshot.text == text[snapshot.char :]
    assert snapshot.char + len(snapshot.text) == len(text)
    assert snapshot.tok == before[-1].tok
    assert snapshot.start == before[0]
    reveals = [event for event in before if isinstance(event, Reveal)]
    assert list(snapshot.shown) == [event for event in reveals if event.mark == reveals[-1].mark]
    described = {event.key for event in before if isinstance(event, AssetReserved)}
    assert {asset.key for asset in snapshot.assets} <= described
    assert {event.key for event in snapshot.shown} <= {asset.key for asset in snapshot.assets}


def test_join_at_every_tenth_token(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        joined: list[tuple[float, Returning]] = []
        waits: list[float] = []

        def join() -> None:
            road = MemoryRoad(live, live.sit(Seat(turns=False)), DELAY)
            viewer = Returning(road.connect)
            # From the hello on: an offer and its answer go before.
            joined.append((loop.time() + 2 * DELAY, viewer))
            group.create_task(viewer.watch())

        def on_event(event: AnyEvent) -> None:
            if isinstance(event, Text) and (event.token_index + 1) % 10 == 0:
                loop.call_soon(join)

        emitted = Emitted(on_event)
        live = LiveSession(tour(), keep=5.0, open_ended=True)
        first = Returning(MemoryRoad(live, live.sit(Seat(record=emitted)), DELAY).connect)
        async with asyncio.TaskGroup() as group:
            group.create_task(live.run())
            await first.watch()
        assert first.events == emitted.events
        assert len(joined) == len(WORDS) // 10
        for at, viewer in joined:
            assert viewer.left
            snapshot, *rest = viewer.events
            assert isinstance(snapshot, Snapshot)
            place = snapshot.seq + 1
            assert rest == emitted.events[place:]
            assert isinstance(rest[-1], StreamEnd)
            check_snapshot(snapshot, emitted.events[:place])
            needed = {event.key for event in (*snapshot.shown, *rest) if isinstance(event, Reveal)}
            assert {key: PICTURES[key].data for key in needed}.items() <= viewer.seen.pictures.items()
            waits.append(viewer.seen.at[0] - at)
        with capsys.disabled():
            trip = f"{2 * DELAY * 1e3:.0f} ms of round trip"
            print(f"\n{len(joined)} joined: the snapshot came after {max(waits) * 1e3:.0f} ms, {trip} included")
        assert max(waits) <= BAR

    virtual(scenario())


def test_whoever_joins_when_it_is_over_sees_the_end() -> None:
    async def scenario() -> None:
        emitted = Emitted()
        live = LiveSession(tour(), keep=5.0, open_ended=True)
        first = Returning(MemoryRoad(live, live.sit(Seat(record=emitted))).connect)
        async with asyncio.TaskGroup() as group:
            group.create_task(live.run())
            await first.watch()
            late = Returning(MemoryRoad(live, live.sit(Seat(turns=False))).connect)
            watching = group.create_task(late.watch())
            await asyncio.sleep(2.0)
            (snapshot,) = late.events
            assert isinstance(snapshot, Snapshot)
            assert snapshot.ended == "complete"
            assert snapshot.seq == emitted.events[-1].seq
            check_snapshot(snapshot, emitted.events)
            watching.cancel()

    virtual(scenario())
