"""Rules W1-W6 of the window: on a link of any rate and length it fills the link, and little more."""

from __future__ import annotations

import heapq
import math
from itertools import count

import pytest

from multimodal import wire
from multimodal.sync.link import LinkProfile, SimulatedLink
from multimodal.transport.scheduler import SendScheduler
from multimodal.transport.window import (
    FIRST_PACE,
    HEADROOM_BYTES,
    LEAST_BYTES,
    LEAST_PART_BYTES,
    MEMORY,
    MOST_BYTES,
    PACE,
    PART_TIME,
    WINDOW_BYTES,
    Window,
)
from tests.transport.events import text

ACK_BYTES, ACK_DELAY = 16 * 1024, 0.050


class Link:
    """A scheduler, a viewer that acknowledges as the player does, and a link between them; all on one heap of times.

    Args:
        rate: bytes a second.
        round_trip: seconds.
        busy: seconds between two looks of both ends at what has come and what is due; 0 = they look at once.
    """

    def __init__(self, rate: float, round_trip: float, busy: float = 0.0) -> None:
        profile = LinkProfile(delay=round_trip / 2, bytes_per_s=rate, queue_bytes=2**24)
        self.rate, self.busy = rate, busy
        self.down, self.up = SimulatedLink(profile), SimulatedLink(profile)
        self.scheduler = SendScheduler()
        self.scheduler.start(0.0)
        self.now = 0.0
        self.queues: list[float] = []
        self.arrived = self.acked = 0
        self.ack_due: float | None = None
        self._heap: list[tuple[float, int, str, int]] = []
        self._order = count()

    def send(self, size_bytes: int, until: float) -> float:
        """Send one picture; when its last byte arrived, or `until`."""
        whole = self.arrived + size_bytes
        self.scheduler.queue_picture(f"p{whole}", bytes(size_bytes), None)
        self._pump()
        while self.arrived < whole and self.now < until:
            self.now, _, what, value = heapq.heappop(self._heap)
            getattr(self, what)(value)
        return self.now

    def idle(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, what, value = heapq.heappop(self._heap)
            getattr(self, what)(value)
        self.now = end

    def _at(self, time: float, what: str, value: int = 0) -> None:
        if self.busy:
            looks = math.ceil(time / self.busy - 1e-6)
            time = max(looks, round(self.now / self.busy) + (what == "_pump")) * self.busy
        heapq.heappush(self._heap, (time, next(self._order), what, value))

    def _pump(self, _: int = 0) -> None:
        while (message := self.scheduler.next_message(0, self.now)) is not None:
            size = len(wire.decode_part(message).payload) if isinstance(message, bytes) else 0
            self.queues.append(max(0.0, self.down.free_at - self.now))
            self._at(self.down.send(len(message), self.now)[0], "_arrive", size)
        timer = self.scheduler.next_timer(self.now)
        assert timer is not None
        self._at(max(timer, self.now + 0.0001), "_pump")

    def _arrive(self, size: int) -> None:
        self.arrived += size
        if self.arrived - self.acked >= ACK_BYTES:
            self._ack()
        elif self.ack_due is None:
            self.ack_due = self.now + ACK_DELAY
            self._at(self.ack_due, "_ack_late")

    def _ack_late(self, _: int) -> None:
        if self.ack_due is not None and self.now >= self.ack_due:
            self._ack()

    def _ack(self) -> None:
        self.ack_due = None
        self.acked = self.arrived
        self._at(self.up.send(100, self.now)[0], "_acked", self.acked)

    def _acked(self, total: int) -> None:
        self.scheduler.acked(self.scheduler.sent_seq, total, self.now)
        self._pump()


@pytest.mark.parametrize("rate", [62_500.0, 250_000.0, 500_000.0, 1_250_000.0, 6_250_000.0])
@pytest.mark.parametrize("round_trip", [0.002, 0.020, 0.060, 0.100, 0.200])
def test_it_fills_the_link_and_hardly_its_queue(rate: float, round_trip: float) -> None:
    link = Link(rate, round_trip)
    link.send(int(rate * 2), 60.0)  # finding its speed
    link.queues.clear()
    begin = link.now
    link.send(int(rate * 2), 60.0)
    holds = rate * round_trip
    if holds + HEADROOM_BYTES < MOST_BYTES:
        assert (link.now - begin - round_trip / 2) / 2 < 1.15, "slower than the link"
    # In the queue: the headroom, the step of acks that had been rounded up, and the parts that a timer lets go at once.
    most = max(HEADROOM_BYTES, LEAST_BYTES - holds) + ACK_BYTES + 0.020 * rate
    assert max(link.queues) * rate <= most
    assert link.scheduler.window_bytes <= max(LEAST_BYTES, holds * 1.15 + HEADROOM_BYTES + ACK_BYTES)


def test_after_a_pause_it_goes_on_where_it_was() -> None:
    link = Link(500_000, 0.1)
    link.send(1_000_000, 60.0)
    link.idle(20.0)
    begin = link.now
    link.queues.clear()
    took = link.send(500_000, 60.0) - begin
    assert took < 1.2
    assert max(link.queues) < 0.08


@pytest.mark.parametrize(("rate", "round_trip"), [(500_000, 0.1), (625_000, 0.06), (1_250_000, 0.05), (250_000, 0.2)])
def test_w5_a_picture_after_a_pause_does_not_leave_at_once(rate: int, round_trip: float) -> None:
    link = Link(rate, round_trip)
    link.send(200_000, 60.0)
    for _ in range(5):
        link.idle(round_trip)
        link.queues.clear()
        link.send(200_000, 60.0)
        holds = rate * round_trip
        most = max(HEADROOM_BYTES, LEAST_BYTES - holds) + ACK_BYTES + 0.020 * rate
        assert max(link.queues) * rate <= most


def test_small_pictures_teach_it_nothing_wrong() -> None:
    link = Link(1_250_000, 0.05)
    link.send(3_000_000, 60.0)
    before = link.scheduler.window_bytes
    for _ in range(200):
        link.send(3_000, 1e9)
        link.idle(0.5)
    assert link.scheduler.window_bytes > before * 0.8, "a link that had little to do is no slower for it"


def test_w2_what_has_changed_is_known_after_twice_the_memory() -> None:
    window = Window()
    now = sent = 0.0
    while now < 3 * MEMORY:
        rate = 1_000_000 if now < 5 else 100_000
        sent += rate * 0.1
        window.sent(int(sent), now)
        now += 0.1
        window.acked(int(sent), now)
        if 5 < now < MEMORY:
            assert window.size_bytes > 100_000
    assert window.size_bytes == LEAST_BYTES + 2_000 + 24 * 1024 - LEAST_BYTES + 8_000


def test_w1_acks_that_are_read_in_one_go_came_no_faster() -> None:
    """A hundred milliseconds in which the loop was busy: ten acks in one moment, and the usual flow after them."""
    window = Window()
    sent = acked = 0
    highest = 0.0
    for tick in range(200):
        now = tick * 0.01
        sent += 5_000
        window.sent(sent, now)
        busy = tick % 40 >= 30
        if tick >= 10 and not busy:
            acked = sent - 50_000
            window.acked(acked, now + 0.001)
        highest = max(highest, window._rates.value)
    assert 400_000 < highest < 650_000, "500 kB/s were sent"


def test_w3_w4_before_anything_is_known_and_at_the_ends() -> None:
    window = Window()
    assert (window.size_bytes, window.part_bytes) == (WINDOW_BYTES, LEAST_PART_BYTES)
    window.sent(100, 0.0)
    window.acked(100, 1.0)
    assert (window.size_bytes, window.part_bytes) == (LEAST_BYTES, LEAST_PART_BYTES)
    window = Window()
    window.sent(10_000_000, 0.0)
    window.acked(10_000_000, 1.0)
    assert (window.size_bytes, window.part_bytes) == (MOST_BYTES, int(10_000_000 * PART_TIME))
    window = Window()
    window.sent(100, 5.0)
    window.acked(100, 5.0)
    assert window.size_bytes == LEAST_BYTES, "a road without delay divides nothing by nothing"


def test_w5_the_pace_falls_once_the_speed_is_found() -> None:
    window = Window()
    sent, now = 0, 0.0
    paces = []
    for _ in range(8):
        sent += 10_000
        before = max(window._paced_until, now)
        window.sent(sent, now)
        if window._paced_until > now:
            paces.append(round(10_000 / (window._paced_until - before) / 100_000, 2))
        now += 0.1
        window.acked(sent, now)
    assert paces[0] == FIRST_PACE
    assert paces[-1] == PACE


@pytest.mark.parametrize("busy", [0.03, 0.05, 0.1, 0.2])
@pytest.mark.parametrize(("rate", "round_trip"), [(6_250_000, 0.01), (1_250_000, 0.05), (500_000, 0.1)])
def test_w6_a_busy_loop_is_no_slow_link(rate: int, round_trip: float, busy: float) -> None:
    link = Link(rate, round_trip, busy)
    link.send(200_000, 600.0)
    link.queues.clear()
    begin = link.now
    took = link.send(1_000_000, 600.0) - begin
    looks = took / busy
    assert 1_000_000 / looks > min(ACK_BYTES, rate * busy / 2), "bytes each time it looked"
    assert max(link.queues) * rate <= link.scheduler.window_bytes


def test_w6_what_the_window_held_back_has_nothing_to_make_good() -> None:
    window = Window()
    window.sent(100_000, 0.0)
    window.acked(100_000, 1.0)
    for at, could in ((1.0, True), (1.1, False)):
        window.sent(window._sent + 100_000, at)
        assert not window.look(at, could=could)
        before = window._paced_until
        window.look(before + 5.0, could=could)
        window.sent(window._sent + 1_000, before + 5.0)
        assert (window._paced_until < before + 5.0) is could


def test_words_pass_while_a_picture_fills_the_link() -> None:
    link = Link(625_000, 0.06)
    link.send(1_000_000, 60.0)
    link.queues.clear()
    for seq in range(20):
        link.scheduler.queue_bundle([text(seq)])
        link.send(40_000, 60.0)
    assert max(link.queues) < 0.07, "in front of a word"
