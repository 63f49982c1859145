"""One datagram lost: how long until what it carried is shown, at a round trip of 60 ms.

The relay drops, once, the datagram that carries a chosen event. A reliable channel notices by later packets, three of
them, or by its timer, of a second at least; what follows the event decides. Ours adds ticks (S8). Beside it, the same
messages on aiortc's channel by itself, with nobody to add anything.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from multimodal.bench.report import Figure, figure, report
from multimodal.errors import SyncError
from multimodal.events import AnyEvent
from multimodal.pipes.script import ScriptImagePipe
from multimodal.stream import MultiModalStream
from multimodal.sync.link import LinkProfile
from multimodal.sync.relay import UdpRelay
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink

__all__ = ["CASES", "Case", "bare", "ours"]

ROUND_TRIP = 0.060
_LOCAL = {"bind_addresses": ["127.0.0.1"]}
_EVENT_BYTES = 200
"""Acks, ticks and pings are smaller than any bundle, whatever encryption adds."""
_BARE_MESSAGE = "x" * 300
_WITHIN = 20.0


class Case(msgspec.Struct, frozen=True):
    """Which event is lost.

    Args:
        limit_ms: the bar.
        gap: seconds between two words.
        lost: the number of the lost word; -1 = the first event, before any word.
        words: how many are told.
        silence: seconds after the last word in which nothing is told and the stream stays open.
    """

    limit_ms: float
    gap: float
    lost: int
    words: int
    silence: float = 0.0


CASES: Mapping[str, Case] = {
    "a word in the middle, one every 20 ms": Case(200, 0.020, 20, 60),
    "a word in the middle, one every 50 ms": Case(250, 0.050, 10, 30),
    "a word in the middle, one every 300 ms": Case(400, 0.300, 3, 8),
    "the last word of a turn": Case(300, 0.050, 11, 12, silence=2.5),
    "the first event": Case(1200, 0.050, -1, 1, silence=2.5),
}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """About two minutes; `--quick` a quarter of one."""
    return judge(asyncio.run(measure(1 if options.quick else 5)))


async def measure(times: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each loss, by case and by who sends, in turns."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, case in CASES.items():
        print(f"loss: {name} ...", file=sys.stderr, flush=True)
        for _ in range(times):
            for who, lose in (("ours", ours), ("bare aiortc", bare)):
                found.setdefault(name, {}).setdefault(who, []).append(await lose(case))
    return found


def judge(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """What `measure` gave, held against the bars."""
    figures: list[Figure] = []
    tables: dict[str, dict[str, Any]] = {}
    for name, times in found.items():
        figures.append(
            figure(f"{name}: until shown, median", statistics.median(times["ours"]), "ms", CASES[name].limit_ms)
        )
        figures.append(figure(f"{name}: until shown, most", max(times["ours"]), "ms"))
        for who, each in times.items():
            row = {"median_ms": round(statistics.median(each), 1), "max_ms": round(max(each), 1), "times": len(each)}
            tables.setdefault(who, {})[name] = row
            print(f"{name:42}{who:14}{row['median_ms']:8.1f}{row['max_ms']:8.1f} ms", file=sys.stderr)
    return report("loss", figures, tables.pop("ours"), tables, ("aiortc", "aioice"))


async def ours(case: Case) -> float:
    """Milliseconds from the emission of the lost event to its showing, in a session with an aiortc viewer.

    Raises:
        SyncError: another number of datagrams than one was lost.
    """
    loop = asyncio.get_running_loop()
    emitted: dict[int, float] = {}
    shown: dict[int, float] = {}

    def on_record(line: dict[str, Any]) -> None:
        if line["vantage"] != "emitted" or emitted:
            return
        event = line["event"]
        if case.lost < 0 or event.get("token_index") == case.lost:
            emitted[event["seq"]] = loop.time()
            relay.down.lose_next(_EVENT_BYTES)

    def on_show(events: tuple[AnyEvent, ...]) -> None:
        shown.update({event.seq: loop.time() for event in events})

    async def words() -> AsyncIterator[str]:
        for index in range(case.words):
            await asyncio.sleep(case.gap)
            yield "word. " if index == case.words - 1 else f"word{index} "
        await asyncio.sleep(case.silence)
        yield "And "
        yield "on."

    async with UdpRelay(LinkProfile(delay=ROUND_TRIP / 2)) as relay, asyncio.timeout(_WITHIN):
        server, client = await _connected(relay)
        session = ViewerSession(MultiModalStream(words(), ScriptImagePipe([])), server, on_record=on_record)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run())
            group.create_task(Viewer(client, on_show=on_show).watch())
        _check(relay)
    ((seq, at),) = emitted.items()
    return (shown[seq] - at) * 1000


async def bare(case: Case) -> float:
    """The same messages, sent on aiortc's channel without a session: no ticks, no acks but SCTP's own.

    Raises:
        SyncError: another number of datagrams than one was lost.
    """
    loop = asyncio.get_running_loop()
    async with UdpRelay(LinkProfile(delay=ROUND_TRIP / 2)) as relay, asyncio.timeout(_WITHIN):
        server, client = await _connected(relay)
        try:
            await client.opened()
            client.send_event("hello")
            await server.receive()
            at = 0.0

            async def tell() -> None:
                nonlocal at
                for index in range(max(0, case.lost), case.words):
                    if index == max(0, case.lost):
                        at = loop.time()
                        relay.down.lose_next(_EVENT_BYTES)
                    server.send_event(_BARE_MESSAGE)
                    await asyncio.sleep(case.gap)

            if case.lost > 0:
                for _ in range(case.lost):
                    server.send_event(_BARE_MESSAGE)
                    await client.receive()
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(tell())
                await client.receive()
                took = loop.time() - at
                telling.cancel()
            _check(relay)
        finally:
            await client.aclose()
            await server.aclose()
    return took * 1000


async def _connected(relay: UdpRelay) -> tuple[WebRTCLink, WebRTCLink]:
    client, offer = await WebRTCLink.offering(**_LOCAL)
    server, answer = await WebRTCLink.answering(UdpRelay.rewrite_offer(offer), **_LOCAL)
    await client.accept(await relay.rewrite_answer(answer))
    return server, client


def _check(relay: UdpRelay) -> None:
    lost = relay.down.counters.lost
    if lost != 1:
        raise SyncError(f"{lost} datagrams were lost where one was to be; nothing was measured")
