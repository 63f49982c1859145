"""The scheduler against a model of its own rules, under any interleaving; and planted faults that must be caught."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from multimodal import wire
from multimodal.errors import MessageTooLarge
from multimodal.events import Event, Reveal
from multimodal.transport.scheduler import (
    PART_BYTES,
    PAUSE_TICKS,
    PEER_GONE,
    PEER_QUIET,
    PING_INTERVAL,
    SWALLOWED,
    TEXT_BUFFER_BYTES,
    URGENT_TICKS,
    WINDOW_BYTES,
    Peer,
    SendScheduler,
    _Waiting,
)
from tests.transport.events import reveal, text

EARLY = 1e-9
FRESH, AGAIN = 1, 2


class Road(RuleBasedStateMachine):
    """Queues, a link that holds bytes, acks and time, in any order; the model knows what must hold of each message."""

    make: ClassVar[type[SendScheduler]] = SendScheduler

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = self.make()
        self.now = 0.0
        self.buffered = 0
        self.started = False
        self.seq = 0
        self.control: list[str] = []
        self.waiting: list[list[int]] = []
        self.split: list[int] = []  # what is left of the bundle that is being sent in pieces
        self.split_urgent = False
        self.sent: list[int] = []
        self.urgent: dict[int, bool] = {}
        self.pictures: dict[str, dict[str, Any]] = {}
        self.picture_number = 0
        self.sizes: dict[str, int] = {}
        self.sent_bytes = self.acked_bytes = self.written_off = 0
        self.pictures_at = 0.0
        self.later: int | None = None
        self.acked_seq = -1
        self.heard = self.last_ping = 0.0
        self.ticks: list[float] = []

    # What happens to it

    @initialize(rate=st.sampled_from([None, 200_000.0, 2_000_000.0]))
    def link_is_known(self, rate: float | None) -> None:
        """Else no random run would ever come to know it well enough to be paced (W5)."""
        window = self.scheduler._window
        if rate is not None:
            window._rates.note(rate, 0.0)
            window._trips.note(-0.01, 0.0)
            window._plateau, window._rounds = rate, 3

    @precondition(lambda self: not self.started)
    @rule()
    def hello(self) -> None:
        self.scheduler.start(self.now)
        self.started = True
        self.heard = self.last_ping = self.now

    @rule(number=st.integers(0, 99))
    def queue_control(self, number: int) -> None:
        self.control.append(wire.encode(wire.Pong(number)))
        self.scheduler.queue_control(self.control[-1])

    @rule(sizes=st.lists(st.sampled_from([5, 500, 20_000, 70_000]), min_size=1, max_size=4), shows=st.booleans())
    def queue_bundle(self, sizes: list[int], shows: bool) -> None:
        events: list[Event] = [text(self.seq + i, "x" * size) for i, size in enumerate(sizes)]
        if shows:
            events.append(reveal(self.seq + len(events)))
        if 70_000 in sizes:
            try:
                self.scheduler.queue_bundle(events)
            except MessageTooLarge:
                return
            raise AssertionError("S7: an event above the limit was taken")
        self.scheduler.queue_bundle(events)
        self.waiting.append([event.seq for event in events])
        self.urgent |= {event.seq: isinstance(event, Reveal) for event in events}
        self.seq += len(events)

    @rule(
        size=st.sampled_from([1, PART_BYTES, 3 * PART_BYTES + 1, 2 * WINDOW_BYTES]),
        due=st.none() | st.integers(0, 9),
    )
    def queue_picture(self, size: int, due: int | None) -> None:
        self.picture_number += 1
        key = f"p{self.picture_number}"
        self.sizes[key] = size
        self.pictures[key] = {"due": due, "number": self.picture_number, "owed": bytearray([FRESH]) * size}
        self.scheduler.queue_picture(key, bytes(size), due)

    @precondition(lambda self: self.sizes)
    @rule(
        data=st.data(),
        shares=st.lists(st.tuples(st.floats(-0.1, 1.1), st.floats(-0.1, 1.1)), min_size=1, max_size=3),
        due=st.none() | st.integers(0, 9),
    )
    def ask_again(self, data: st.DataObject, shares: list[tuple[float, float]], due: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.sizes)))
        size = self.sizes[key]
        ranges = [(int(size * begin), int(size * end)) for begin, end in shares]
        self.scheduler.queue_ranges(key, bytes(size), ranges, due)
        if self.heard - self.pictures_at >= SWALLOWED / 2:
            self.written_off, self.later = self.sent_bytes - self.acked_bytes, None
        picture = self.pictures.get(key)
        if picture is None:
            self.picture_number += 1
            picture = {"due": due, "number": self.picture_number, "owed": bytearray(size)}
        for begin, end in ranges:
            asked = slice(max(begin, 0), max(end, 0))
            picture["owed"][asked] = picture["owed"][asked].replace(b"\0", bytes([AGAIN]))
        if any(picture["owed"]):
            self.pictures[key] = picture

    @precondition(lambda self: self.pictures)
    @rule(data=st.data(), due=st.none() | st.integers(0, 9))
    def move_picture(self, data: st.DataObject, due: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.pictures)))
        self.pictures[key]["due"] = due
        self.scheduler.set_due(key, due)

    @precondition(lambda self: self.started)
    @rule(share=st.sampled_from([0.0, 0.25, 1.0]))
    def ack(self, share: float) -> None:
        seqs = [seq for seq in self.sent if seq > self.acked_seq]
        self.acked_seq = seqs[int((len(seqs) - 1) * share)] if seqs else self.acked_seq
        self.note_picture_bytes(self.acked_bytes + int((self.sent_bytes - self.acked_bytes) * share))
        self.heard = self.now
        self.scheduler.acked(self.acked_seq, self.acked_bytes, self.now)
        if self.sent and self.acked_seq == self.sent[-1] and not self.split:
            self.ticks = []

    @precondition(lambda self: self.started)
    @rule()
    def ack_words_alone(self) -> None:
        self.acked_seq = self.sent[-1] if self.sent else self.acked_seq
        self.note_picture_bytes(self.acked_bytes)
        self.heard = self.now
        self.scheduler.acked(self.acked_seq, self.acked_bytes, self.now)
        if self.sent and not self.split:
            self.ticks = []

    @precondition(lambda self: self.started)
    @rule()
    def words_pass_while_pictures_stay(self) -> None:
        self.link_is_empty()
        self.pump(10)
        self.time_passes(5.0)
        self.queue_bundle([5], shows=False)
        self.pump(10)
        self.ack_words_alone()

    def note_picture_bytes(self, arrived: int) -> None:
        if arrived > self.acked_bytes:
            self.acked_bytes, self.later, self.pictures_at = arrived, None, self.now
            self.written_off = min(self.written_off, self.sent_bytes - arrived)
        elif self.later is not None and self.acked_seq >= self.later:
            self.written_off, self.later = self.sent_bytes - self.acked_bytes, None

    def under_way(self) -> int:
        return self.sent_bytes - self.acked_bytes - self.written_off

    @precondition(lambda self: self.started)
    @rule(seq=st.integers(1, 3), size=st.integers(0, 2))
    def lying_ack(self, seq: int, size: int) -> None:
        last = (self.split or self.sent or [-1])[-1]
        self.scheduler.acked(last + seq, self.sent_bytes + size, self.now)
        self.heard = self.now

    @precondition(lambda self: self.started)
    @rule()
    def hear(self) -> None:
        self.heard = self.now
        self.scheduler.heard(self.now)

    @rule(seconds=st.sampled_from([0.005, 0.02, 0.1, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.started)
    @rule()
    def time_passes_to_the_timer(self) -> None:
        timer = self.scheduler.next_timer(self.now)
        assert timer is not None, "S9: there is always a ping to come"
        assert timer <= self.last_ping + PING_INTERVAL + EARLY, "S9: the timer misses the ping"
        if self.ticks and not self.waiting and not self.split:
            assert timer <= self.ticks[0] + EARLY, "S8: the timer misses a tick"
        if self.pictures and self.now < self.scheduler._window.ready_at:
            assert timer <= self.scheduler._window.ready_at, "S5: the timer misses the pace"
        self.now = max(self.now, timer)

    @rule(size=st.sampled_from([1, TEXT_BUFFER_BYTES, TEXT_BUFFER_BYTES + 1]))
    def link_holds(self, size: int) -> None:
        self.buffered = size

    @rule()
    def link_is_empty(self) -> None:
        self.buffered = 0

    # What it may say

    @rule(most=st.integers(1, 40))
    def pump(self, most: int) -> None:
        for _ in range(most):
            ready_at = self.scheduler._window.ready_at
            message = self.scheduler.next_message(self.buffered, self.now)
            if message is None:
                self.nothing_was_due()
                return
            assert self.started, "S1: something left before hello"
            size = len(message if isinstance(message, bytes) else message.encode())
            assert size <= wire.MESSAGE_LIMIT_BYTES, f"S7: a message of {size} bytes"
            if isinstance(message, bytes):
                assert self.now >= ready_at, "S5: a part before its pace"
                self.check_part(wire.decode_part(message))
                continue
            parsed = json.loads(message)
            if parsed["type"] == "pong":
                assert message == self.control.pop(0), "S2: control out of order"
                continue
            assert not self.control, "S2: control waits"
            if parsed["type"] == "ping":
                assert self.now >= self.last_ping + PING_INTERVAL - EARLY, "S9: a ping too early"
                self.last_ping = self.now
            elif parsed["type"] == "tick":
                self.check_tick()
            else:
                self.check_bundle([event["seq"] for event in parsed["events"]], parsed["more"])

    def nothing_was_due(self) -> None:
        if not self.started:
            return
        assert not self.control, "S2: control was kept"
        assert self.now < self.last_ping + PING_INTERVAL, "S9: a ping was kept"
        texts = bool(self.waiting or self.split)
        assert not texts or self.buffered > TEXT_BUFFER_BYTES, "S4: text was kept though the link has room"
        if not texts and self.buffered == 0:
            assert not self.ticks or self.now < self.ticks[0] + EARLY, "S8: a tick was kept"
        if not texts:
            self.ticks = [at for at in self.ticks if at > self.now]  # dropped, on a busy road
        if self.pictures and not texts and self.buffered == 0:
            room = self.scheduler.window_bytes - self.under_way()
            paced = self.now < self.scheduler._window.ready_at
            assert paced or self.next_payload() > room, "S5: a part was kept in an open window"

    def next_payload(self) -> int:
        owed = min(self.pictures.values(), key=order)["owed"]
        begin = first_owed(owed)
        run = len(owed) - begin - len(owed[begin:].lstrip(owed[begin : begin + 1]))
        return min(PART_BYTES, self.scheduler._window.part_bytes, run)

    def check_bundle(self, seqs: list[int], more: bool) -> None:
        assert self.buffered <= TEXT_BUFFER_BYTES, "S4: text into a full link"
        self.sent += seqs
        if not self.split and self.later is None and self.under_way() and self.now - self.pictures_at >= SWALLOWED:
            self.later = self.waiting[0][-1] if more else seqs[-1]
        if self.split:
            urgent = self.split_urgent
            assert seqs == self.split[: len(seqs)], "S3: a piece out of order"
            self.split = self.split[len(seqs) :]
            assert more == bool(self.split), "S3: `more` does not tell the truth"
        elif more:
            bundle = self.waiting.pop(0)
            urgent = self.split_urgent = any(self.urgent[seq] for seq in bundle)
            self.split = bundle[len(seqs) :]
            assert seqs == bundle[: len(seqs)], "S3: a piece out of order"
            assert self.split, "S3: `more` does not tell the truth"
        else:
            whole: list[int] = []
            while len(whole) < len(seqs) and self.waiting:
                whole += self.waiting.pop(0)
            assert seqs == whole, "S3: a bundle cut, lost, doubled or out of order"
            urgent = any(self.urgent[seq] for seq in seqs)
        self.ticks = [self.now + delay for delay in (URGENT_TICKS if urgent else PAUSE_TICKS)]

    def check_tick(self) -> None:
        assert not self.waiting, "S2: text waits behind a tick"
        assert not self.split, "S2: text waits behind a tick"
        assert self.buffered == 0, "S8: a tick on a busy road"
        assert self.ticks, "S8: a tick though everything is acknowledged"
        assert self.now >= self.ticks[0] - EARLY, "S8: a tick too early"
        self.ticks = [at for at in self.ticks if at > self.now]

    def check_part(self, part: wire.Part) -> None:
        assert not self.control, "S5: control waits behind a part"
        assert not self.waiting, "S5: text waits behind a part"
        assert not self.split, "S5: text waits behind a part"
        assert self.buffered == 0, "S5: a part into a link that holds something"
        first = min(self.pictures, key=lambda key: order(self.pictures[key]))
        assert part.key == first, f"S6: {part.key} left, {first} is due sooner"
        picture = self.pictures[first]
        owed = picture["owed"]
        assert part.total == len(owed)
        assert part.offset == first_owed(owed), "S12: parts out of order"
        sent = slice(part.offset, part.offset + len(part.payload))
        assert 0 not in owed[sent], "S12: bytes sent twice that nobody asked for"
        owed[sent] = bytes(len(part.payload))
        self.sent_bytes += len(part.payload)
        self.pictures_at, self.later = self.now, None
        assert self.under_way() <= self.scheduler.window_bytes, "S5: beyond the window"
        if not any(owed):
            del self.pictures[part.key]

    # What always holds

    @invariant()
    def the_peer_is_judged_by_its_silence(self) -> None:
        silence = self.now - self.heard
        expected = Peer.GONE if silence >= PEER_GONE else Peer.QUIET if silence >= PEER_QUIET else Peer.LIVE
        assert not self.started or self.scheduler.peer(self.now) is expected, "S9: a wrong verdict on the peer"

    @invariant()
    def what_is_under_way_is_known(self) -> None:
        assert self.scheduler.unacked_bytes == self.under_way(), "S13: wrong bytes under way"

    @invariant()
    def what_waits_is_known(self) -> None:
        assert set(self.scheduler.waiting_pictures) == set(self.pictures), "S12: a picture was forgotten, or never is"


def first_owed(owed: bytearray) -> int:
    """Where the next part begins: what was asked for again goes before what was never sent."""
    again = owed.find(AGAIN)
    return owed.find(FRESH) if again < 0 else again


def order(picture: dict[str, Any]) -> tuple[bool, int, int]:
    return (picture["due"] is None, picture["due"] or 0, picture["number"])


class LosesText(SendScheduler):
    def queue_bundle(self, events: Sequence[Event]) -> None:
        if not self._bundles or len(events) > 1:
            super().queue_bundle(events)


class SwapsBundles(SendScheduler):
    def queue_bundle(self, events: Sequence[Event]) -> None:
        super().queue_bundle(events)
        self._bundles.rotate(1)


class JoinsTooMuch(SendScheduler):
    def _next_bundle(self, now: float) -> str:
        while len(self._bundles) > 1 and not self._pieces:
            second = self._bundles.popleft(), self._bundles.popleft()
            events = [*second[0].events, *second[1].events]
            self._bundles.appendleft(_Waiting(events, second[0].size_bytes + second[1].size_bytes))
        return super()._next_bundle(now)


class SpeaksFirst(SendScheduler):
    def __init__(self) -> None:
        super().__init__()
        self.start(0.0)


class IgnoresTheLink(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return super()._part_may_leave(0, size_bytes, now)


class IgnoresTheWindow(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return buffered_amount == 0 and now >= self._window.ready_at


class IgnoresThePace(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return buffered_amount == 0 and self.unacked_bytes + size_bytes <= self.window_bytes


class SleepsThroughThePace(SendScheduler):
    def next_timer(self, now: float) -> float | None:
        ready_at, self._window._paced_until = self._window._paced_until, 0.0
        timer = super().next_timer(now)
        self._window._paced_until = ready_at
        return timer


class MeasuresTheWindowBeforeThePart(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return buffered_amount == 0 and self.unacked_bytes < self.window_bytes and now >= self._window.ready_at


class NeverReopensTheWindow(SendScheduler):
    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        return super()._part_may_leave(buffered_amount, size_bytes + self._acked_bytes, now)


class PicturesFirst(SendScheduler):
    def _next_bundle(self, now: float) -> str:
        part = self._next_part(0, now)
        return super()._next_bundle(now) if part is None else part  # type: ignore[return-value]


class PicturesWhileTextWaits(SendScheduler):
    def next_message(self, buffered_amount: int, now: float) -> str | bytes | None:
        message = super().next_message(buffered_amount, now)
        return self._next_part(0, now) if message is None and self._started else message


class PicturesAsTheyCame(SendScheduler):
    def set_due(self, key: str, due: int | None) -> None:
        return None


class FloodsTheLink(SendScheduler):
    def _text_may_leave(self, buffered_amount: int) -> bool:
        return True


class HoldsTextForAnEmptyLink(SendScheduler):
    def _text_may_leave(self, buffered_amount: int) -> bool:
        return buffered_amount == 0


class NeverTicks(SendScheduler):
    def _next_bundle(self, now: float) -> str:
        piece = super()._next_bundle(now)
        self._tick_delays = ()
        return piece


class TicksOnAfterTheAck(SendScheduler):
    def acked(self, seq: int, picture_bytes: int, now: float) -> None:
        delays = self._tick_delays
        super().acked(seq, picture_bytes, now)
        self._tick_delays = delays


class TicksFromTheFirstBundle(SendScheduler):
    def _next_bundle(self, now: float) -> str:
        first = self._tick_from
        piece = super()._next_bundle(now)
        self._tick_from = first or now
        return piece


class SleepsThroughPings(SendScheduler):
    def next_timer(self, now: float) -> float | None:
        timer = super().next_timer(now)
        return None if timer is None else timer + 0.5


class PingsOnlyOnce(SendScheduler):
    def next_message(self, buffered_amount: int, now: float) -> str | bytes | None:
        message = super().next_message(buffered_amount, now)
        if isinstance(message, str) and '"ping"' in message:
            self._next_ping = now + 100.0
        return message


class BelievesEveryAck(SendScheduler):
    def acked(self, seq: int, picture_bytes: int, now: float) -> None:
        self._heard = now
        self._acked_bytes = picture_bytes


class CountsItsOwnTalkAsLife(SendScheduler):
    def next_message(self, buffered_amount: int, now: float) -> str | bytes | None:
        message = super().next_message(buffered_amount, now)
        if message is not None:
            self._heard = now
        return message


class ForgetsWhatIsAskedForAgain(SendScheduler):
    def queue_ranges(self, key: str, data: bytes, ranges: Iterable[tuple[int, int]], due: int | None) -> None:
        if key in self.waiting_pictures:
            super().queue_ranges(key, data, ranges, due)


class SendsAllAgain(SendScheduler):
    def queue_ranges(self, key: str, data: bytes, ranges: Iterable[tuple[int, int]], due: int | None) -> None:
        super().queue_ranges(key, data, [(0, len(data))], due)


class NeverWritesOff(SendScheduler):
    def _note_pictures(self, seq: int, picture_bytes: int, now: float) -> None:
        self._later_seq = None
        super()._note_pictures(seq, picture_bytes, now)


class WritesOffAtOnce(SendScheduler):
    def _note_pictures(self, seq: int, picture_bytes: int, now: float) -> None:
        self._later_seq = seq
        super()._note_pictures(seq, picture_bytes, now)


FAULTS = {
    LosesText: "S3|S4|S7",
    SwapsBundles: "S3",
    JoinsTooMuch: "S3",
    SpeaksFirst: "S1",
    IgnoresTheLink: "S5",
    IgnoresTheWindow: "S5",
    IgnoresThePace: "S5",
    SleepsThroughThePace: "S5",
    MeasuresTheWindowBeforeThePart: "S5",
    NeverReopensTheWindow: "S5",
    PicturesFirst: "S5",
    PicturesWhileTextWaits: "S5",
    PicturesAsTheyCame: "S6",
    FloodsTheLink: "S4",
    HoldsTextForAnEmptyLink: "S4",
    NeverTicks: "S8",
    TicksOnAfterTheAck: "S8",
    TicksFromTheFirstBundle: "S8",
    SleepsThroughPings: "S8|S9",
    PingsOnlyOnce: "S9",
    BelievesEveryAck: "S8|S13",
    CountsItsOwnTalkAsLife: "S9",
    ForgetsWhatIsAskedForAgain: "S12",
    SendsAllAgain: "S12",
    NeverWritesOff: "S13|S5",
    WritesOffAtOnce: "S13",
}
LIMITS = settings(
    deadline=None, stateful_step_count=40, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)


def test_the_scheduler_keeps_its_rules() -> None:
    run_state_machine_as_test(Road, settings=settings(LIMITS, max_examples=200))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: type[SendScheduler]) -> None:
    road = type("FaultyRoad", (Road,), {"make": fault})
    limits = settings(LIMITS, max_examples=2000, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError, match=f"({FAULTS[fault]}): "):
        run_state_machine_as_test(road, settings=limits)
