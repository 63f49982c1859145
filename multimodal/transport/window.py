"""How much of a picture may be under way, in which steps and how fast, learnt from the viewer's acks. Pure: time is an
argument.

What a link holds at its own rate is its rate times its shortest round trip. Less than that leaves it idle, more only
queues, and narration stands in that queue. Neither figure is known beforehand, but both show in the acks (the same
two that BBR goes by: Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016):

    W1  An ack that covers a part gives one round trip, from the sending of the newest part covered, and one rate: the
        bytes acknowledged since the last ack before that sending, over the time since then, or over the time in which
        they were sent where that is longer (acks that a busy machine reads in one go came no faster than what they
        acknowledge).
    W2  The rate is the highest and the round trip the shortest of the last `MEMORY` to twice `MEMORY` seconds. Late
        acks make both look worse than they are and never better; so does having nothing to send, and a rate seen
        then counts only where it is the highest.
    W3  The window is rate times round trip and `HEADROOM_BYTES` more: acks come in steps of 16 KiB, and what has
        arrived and is not acknowledged yet must not leave the link idle. By as much it grows, each round trip, until
        the rate grows no more. It is never below `LEAST_BYTES` nor above `MOST_BYTES`, and `WINDOW_BYTES` before
        the first ack.
    W4  A part is what the link carries in `PART_TIME`, one packet at least: words wait behind no more than that.
    W5  Parts are paced: without that a window that opens leaves at once, and stands in the link's queue. The pace is
        `FIRST_PACE` times the rate while the road still finds its speed, and `PACE` times once three round trips in a
        row with enough to send have brought no rate a quarter higher. After a time without anything to send it is
        `PACE`, too, for what follows the first `LEAST_BYTES` until they are acknowledged: no acks hold it back.
    W6  What the pace alone held back makes good the time by which its timer came late. Else a busy loop would send one
        part each time it looks, measure that as the link's rate, and never find a higher one: 10 KB/s where it looks
        every 100 ms. The window still bounds what leaves at once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

__all__ = [
    "FIRST_PACE",
    "HEADROOM_BYTES",
    "LEAST_BYTES",
    "LEAST_PART_BYTES",
    "MEMORY",
    "MOST_BYTES",
    "PACE",
    "PART_TIME",
    "WINDOW_BYTES",
    "Window",
]

WINDOW_BYTES = 64 * 1024
"""Before anything is known: at 2 % loss and 60 ms small events wait 130 ms (p95), and 2,858 without any window."""
HEADROOM_BYTES = 24 * 1024
"""One step of the acks, and two parts. With the step alone, what is left over of a step in a round trip decides: the
window stayed at three steps, and the flow at half the rate, of a link that holds four."""
LEAST_BYTES = 32 * 1024
"""Two steps of the acks: with less, one ack that is late stops the flow."""
MOST_BYTES = 512 * 1024
"""What a link of 80 Mb/s and 50 ms holds; aiortc has room for 1 MiB, and ignores that it is full."""
MEMORY = 15.0
"""Seconds. A picture is done in less, and between two the link empties, so that its true round trip shows."""
LEAST_PART_BYTES = 1024
"""One packet, with its key: a road that begins takes three of them in its first round trip."""
PART_TIME = 0.008
PACE = 1.25
"""Above 1, so that the window and not a rate that was measured too low limits the flow, and a link that has become
faster shows it."""
FIRST_PACE = 3.0
"""Enough to double the rate each round trip, as SCTP does when it starts."""
_BURST = 0.010
"""Seconds by which parts may be early: timers are no finer than that, and fast links need no pacing."""
_LEAST_TRIP = 0.0001
_PLATEAU_ROUNDS = 3


class _Sent(NamedTuple):
    """A part under way, and how things stood when it was sent."""

    total_bytes: int
    at: float
    acked_bytes: int
    acked_at: float
    acked_sent_at: float
    """When the newest part that was acknowledged by then had been sent."""


class Window:
    """What one viewer's road takes (W1-W6 above)."""

    def __init__(self) -> None:
        self._parts: deque[_Sent] = deque()
        self._sent = self._acked = 0
        self._acked_at = self._acked_sent_at = 0.0
        self._rates, self._trips = _Best(), _Best()
        self._paced_until = 0.0
        self._held = False
        """A part waited for its time and for nothing else, and nothing else has held one back since."""
        self._round_end = 0
        self._round_counts = False
        self._rounds = 0
        self._plateau = 0.0
        self._idle_bytes = -1

    @property
    def size_bytes(self) -> int:
        """Picture bytes that may be sent and not acknowledged (W3)."""
        if not self._rates.known:
            return WINDOW_BYTES
        holds = self._rates.value * -self._trips.value
        return int(min(max(holds + HEADROOM_BYTES, LEAST_BYTES), MOST_BYTES))

    @property
    def part_bytes(self) -> int:
        """Payload of the next part, at most (W4)."""
        return max(int(self._rates.value * PART_TIME), LEAST_PART_BYTES)

    @property
    def ready_at(self) -> float:
        """When the next part may leave (W5)."""
        return self._paced_until - _BURST

    def look(self, now: float, *, could: bool) -> bool:
        """Whether the pace lets the next part leave; `could` = nothing else holds it back, which is remembered (W6)."""
        ready = now >= self.ready_at
        self._held = could and (self._held or not ready)
        return ready

    def sent(self, total_bytes: int, now: float) -> None:
        """A part has left; `total_bytes` with it, in all."""
        if self._rates.known:
            blind = self._acked <= self._idle_bytes < total_bytes - LEAST_BYTES
            pace = PACE if blind or self._rounds >= _PLATEAU_ROUNDS else FIRST_PACE
            takes = (total_bytes - self._sent) / (pace * self._rates.value)
            self._paced_until = (self._paced_until if self._held else max(self._paced_until, now)) + takes
        if self._sent <= self._acked:
            # Nothing was under way: the time without does not count.
            self._acked_at = self._acked_sent_at = now
        self._sent = total_bytes
        self._parts.append(_Sent(total_bytes, now, self._acked, self._acked_at, self._acked_sent_at))

    def acked(self, total_bytes: int, now: float, waiting: bool = True) -> None:
        """So many bytes have arrived in all; `waiting` = more could have been sent."""
        part = None
        while self._parts and self._parts[0].total_bytes <= total_bytes:
            part = self._parts.popleft()
        if part is not None:
            took = max(now - part.acked_at, part.at - part.acked_sent_at, _LEAST_TRIP)
            rate = (total_bytes - part.acked_bytes) / took
            if waiting or rate > self._rates.value:
                self._rates.note(rate, now)
            self._acked_sent_at = part.at
            # The shortest is the highest of its negatives.
            self._trips.note(-max(now - part.at, _LEAST_TRIP), now)
        self._acked, self._acked_at = total_bytes, now
        if not waiting:
            self._idle_bytes = self._sent
        self._round_counts = self._round_counts and waiting
        if total_bytes >= self._round_end:
            self._end_round(waiting)

    def _end_round(self, waiting: bool) -> None:
        if self._rounds < _PLATEAU_ROUNDS and self._rates.value >= 1.25 * self._plateau:
            self._plateau, self._rounds = self._rates.value, 0
        elif self._round_counts:
            self._rounds += 1
        self._round_end, self._round_counts = self._sent, waiting


class _Best:
    """The highest of the last `MEMORY` to twice `MEMORY` seconds in which there was anything to note."""

    def __init__(self) -> None:
        self.known = False
        self._present = self._past = 0.0
        self._since = 0.0

    @property
    def value(self) -> float:
        return max(self._present, self._past)

    def note(self, value: float, now: float) -> None:
        if not self.known or now - self._since >= MEMORY:
            self._past = self._present if self.known else value
            self._present, self._since, self.known = value, now, True
        else:
            self._present = max(self._present, value)
