"""Which message leaves next, on a road with one queue. Pure: time is an argument, one timer, no I/O.

After every call: drain `next_message()` until it gives None, then re-arm one timer on `next_timer(now)`.

Rules, numbered, quoted by the tests
    S1  Nothing leaves before `start`: the viewer's hello comes first. After `stop` only control leaves.
    S2  Order: control, then bundles, then a tick that is due, then picture parts.
    S3  Bundles leave whole and in the order they were queued; text is never dropped. Bundles that had to
        wait are joined into one message; one that is too large is split, its pieces follow each other.
    S4  Bundles wait while more than `TEXT_BUFFER_BYTES` are buffered: what the link holds cannot be joined.
    S5  A picture part leaves only when nothing higher waits, nothing is buffered, and the un-acked picture
        bytes, this part included, are within the window. What the acks tell of the link sets the window, the
        size of a part and the pace (`transport.window`).
    S6  Of the pictures that wait, the one due soonest goes on; then those without a due place, in the order
        they were queued (`transport.parts`).
    S7  Nothing above `wire.MESSAGE_LIMIT_BYTES`, nor above what the peer takes where that is less.
    S8  While the last bundle is un-acked and the road is quiet, ticks follow it at fixed delays: sooner after
        a reveal, a sentence's end or the end, later otherwise (a pause). A new bundle starts them afresh; its
        ack ends them. One that is due while something is buffered is dropped: that does its work.
    S9  A ping every `PING_INTERVAL` from the start on. The peer's silence counts from its last message.
    S10 Every queue is bounded and counted: control drops its oldest, pictures shed the one due last, bundles
        say `congested` from `CONGESTED_BYTES` on until half of it is gone, so that their source stops.
    S11 Acks are cumulative: one that goes back, or beyond what was sent, changes nothing but a counter.
    S12 Bytes of a picture that are asked for again keep the place, the parts and the window of that picture,
        and go before what was never sent of it.
    S13 Picture bytes that a road has swallowed must not close the window for ever. They are written off, and
        counted, when words that left `SWALLOWED` later than the last of them were acknowledged, and they not;
        and when the viewer asks for bytes again though for half of that none has left or arrived.
    S14 Without `pictures`, for a road on which they are fetched by their address, none is queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from multimodal.errors import MessageTooLarge
from multimodal.events import Event, Reveal, StreamEnd, Swap, Text
from multimodal.transport.parts import PictureQueue
from multimodal.transport.window import WINDOW_BYTES, Window
from multimodal.wire import MESSAGE_LIMIT_BYTES, Part, Ping, Tick, encode, encode_bundle, encode_event, encode_part

__all__ = [
    "CONGESTED_BYTES",
    "PART_BYTES",
    "PAUSE_TICKS",
    "PEER_GONE",
    "PEER_QUIET",
    "PING_INTERVAL",
    "SWALLOWED",
    "TEXT_BUFFER_BYTES",
    "URGENT_TICKS",
    "WINDOW_BYTES",
    "Counters",
    "Peer",
    "SendScheduler",
]

PART_BYTES = 4 * 1024
"""Payload of a picture part, at most: four packets, with its key. aiortc sends four at a time, and what is left over of
a message waits for the next SACK, a round trip away on an idle road, and the words behind it wait with it."""
TEXT_BUFFER_BYTES = 16 * 1024
"""Above this in the link, narration is kept here, where it can still be joined."""
CONGESTED_BYTES = 256 * 1024
"""Narration waiting here from which on its source should stop."""
CONTROL_LIMIT = 64
SWALLOWED = 3.0
"""Seconds (S13): with the floor of its retransmit timer, a reliable road has sent again twice by then."""
URGENT_TICKS = (0.020, 0.040, 0.060, 0.080, 0.200, 0.400)
"""Seconds after a reveal or a sentence's end. A loss shows after three later packets, so three come soon, and a
fourth because a busy loop joins two that came due together; without them the retransmit timer's floor of 1 s holds up
the last words (measured at a round trip of 60 ms: 1,034-1,097 ms, with ticks 103-107)."""
PAUSE_TICKS = (0.060, 0.120, 0.180, 0.400)
"""Seconds after any other bundle: narration that flows faster than this needs none."""
PING_INTERVAL = 1.0
PEER_QUIET = 4.0
"""Silence after which the source pauses: four pings unanswered."""
PEER_GONE = 15.0
"""Silence after which the session closes: outages of less recovered by themselves."""
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
_CLOSERS = "\"'”’)]»」』 \t\r\n"


class Peer(Enum):
    """How long the peer has been silent: under `PEER_QUIET`, under `PEER_GONE`, or longer."""

    LIVE = "live"
    QUIET = "quiet"
    GONE = "gone"


@dataclass
class Counters:
    """What happened at the bounds, for logs and tests."""

    bundles_sent: int = 0
    bundles_joined: int = 0
    parts_sent: int = 0
    bytes_resent: int = 0
    bytes_written_off: int = 0
    ticks_sent: int = 0
    control_dropped: int = 0
    pictures_shed: int = 0
    acks_refused: int = 0


@dataclass
class _Waiting:
    events: Sequence[Event]
    size_bytes: int


class SendScheduler:
    """The next message of one viewer's road (rules S1-S14 above).

    Args:
        message_bytes: what the peer takes in one message; more than `wire.MESSAGE_LIMIT_BYTES` changes nothing.
        part_bytes: payload of one picture part, at most.
        pictures: False = they come by another way (S14).
    """

    def __init__(
        self, *, message_bytes: int = MESSAGE_LIMIT_BYTES, part_bytes: int = PART_BYTES, pictures: bool = True
    ) -> None:
        self.counters = Counters()
        self.message_bytes = min(message_bytes, MESSAGE_LIMIT_BYTES)
        self.part_bytes = part_bytes
        self._takes_pictures = pictures
        self._started = self._stopped = False
        self._control: deque[str] = deque()
        self._bundles: deque[_Waiting] = deque()
        self._pieces: deque[str] = deque()
        self._pieces_bytes = 0
        self._waiting_bytes = 0
        self._congested = False
        self._pictures = PictureQueue()
        self._window = Window()
        self._sent_bytes = self._acked_bytes = self._written_off = 0
        self._part_at = 0.0
        self._later_seq: int | None = None
        self._queued_seq = self._sent_seq = self._acked_seq = -1
        self._tick_from = 0.0
        self._tick_delays: tuple[float, ...] = ()
        self._next_ping = 0.0
        self._ping_id = 0
        self._heard = 0.0

    # What comes in

    def start(self, now: float, seq: int = -1) -> None:
        """The viewer's hello came (S1); `seq` is the last event that it holds already."""
        self._started = True
        self._sent_seq = self._acked_seq = seq
        self._queued_seq = max(self._queued_seq, seq)
        self._heard = now
        self._next_ping = now + PING_INTERVAL

    def stop(self) -> None:
        """From now on only control leaves: the session is saying goodbye (S1)."""
        self._stopped = True

    def queue_control(self, text: str) -> None:
        """A pong or a bye, to leave before everything else."""
        if len(self._control) >= CONTROL_LIMIT:
            self._control.popleft()
            self.counters.control_dropped += 1
        self._control.append(text)

    def queue_bundle(self, events: Sequence[Event]) -> None:
        """What was emitted at one instant (S3).

        Raises:
            MessageTooLarge: one event alone is above the limit (S7); nothing of the bundle was queued.
        """
        if not events:
            return
        sizes = [len(encode_event(event)) + 1 for event in events]
        room = self.message_bytes - _FRAME_BYTES
        if max(sizes) > room:
            raise MessageTooLarge(max(sizes), room)
        self._bundles.append(_Waiting(events, sum(sizes)))
        self._waiting_bytes += sum(sizes)
        self._queued_seq = events[-1].seq
        self._congested = self._congested or self._waiting_bytes >= CONGESTED_BYTES

    def queue_picture(self, key: str, data: bytes, due: int | None) -> None:
        """A picture's bytes; `due` is the token boundary at which it is needed next (None = nowhere yet).

        Raises:
            MessageTooLarge: the key leaves no room for a part (S7).
        """
        if self._takes_pictures:
            self._room_for_payload(key, len(data))
            self._pictures.add(key, data, due)
            self.counters.pictures_shed = self._pictures.shed

    def queue_ranges(self, key: str, data: bytes, ranges: Iterable[tuple[int, int]], due: int | None) -> None:
        """Bytes of a picture that the viewer asks for again: they came spoilt, or not at all (S12).

        Args:
            key: the picture's.
            data: all of its bytes.
            ranges: from, to, in bytes; what lies outside of `data`, or has not been sent yet, is left out.
            due: as for `queue_picture`, unless the picture waits already.

        Raises:
            MessageTooLarge: the key leaves no room for a part (S7).
        """
        if self._takes_pictures:
            self._room_for_payload(key, len(data))
            if self._heard - self._part_at >= SWALLOWED / 2:
                self._write_off()
            self._pictures.add_again(key, data, ranges, due)
            self.counters.pictures_shed = self._pictures.shed

    def set_due(self, key: str, due: int | None) -> None:
        """A waiting picture is needed at another place now."""
        self._pictures.set_due(key, due)

    def _room_for_payload(self, key: str, size_bytes: int) -> int:
        """What a message leaves to the payload of a part with this key."""
        room = self.message_bytes - _PART_HEADER_BYTES - len(key.encode())
        if room < min(size_bytes, _LEAST_PAYLOAD_BYTES):
            least = self.message_bytes - room + _LEAST_PAYLOAD_BYTES
            raise MessageTooLarge(least, self.message_bytes)
        return room

    def heard(self, now: float) -> None:
        """Any message of the peer came (S9)."""
        self._heard = now

    def acked(self, seq: int, picture_bytes: int, now: float) -> None:
        """The viewer's cumulative ack (S11)."""
        self._heard = now
        if not (self._acked_seq <= seq <= self._sent_seq and self._acked_bytes <= picture_bytes <= self._sent_bytes):
            self.counters.acks_refused += 1
            return
        self._note_pictures(seq, picture_bytes, now)
        self._acked_seq, self._acked_bytes = seq, picture_bytes
        if seq == self._sent_seq:
            self._tick_delays = ()

    def _note_pictures(self, seq: int, picture_bytes: int, now: float) -> None:
        if picture_bytes > self._acked_bytes:
            self._later_seq, self._part_at = None, now
            # Had some that were written off been late only, they are among those that came.
            self._written_off = min(self._written_off, self._sent_bytes - picture_bytes)
            self._window.acked(picture_bytes + self._written_off, now, bool(self._pictures))
        elif self._later_seq is not None and seq >= self._later_seq:
            self._write_off()

    def _write_off(self) -> None:
        self.counters.bytes_written_off += self.unacked_bytes
        self._written_off += self.unacked_bytes
        self._later_seq = None

    # What goes out

    def next_message(self, buffered_amount: int, now: float) -> str | bytes | None:
        """The next message: text for the events channel, bytes for images, None = nothing may leave.

        Args:
            buffered_amount: bytes that the link has taken and not yet handed on.
            now: seconds, monotonic.
        """
        if not self._started:
            return None
        if self._control:
            return self._control.popleft()
        if self._stopped:
            return None
        if now >= self._next_ping:
            self._next_ping = now + PING_INTERVAL
            self._ping_id += 1
            return encode(Ping(self._ping_id, now * 1000))
        if self._pieces or self._bundles:
            if self._text_may_leave(buffered_amount):
                return self._next_bundle(now)
            self._window.look(now, could=False)
            return None
        if self._tick_delays and now >= self._tick_from + self._tick_delays[0]:
            # One at a time: ticks that came due together would only be one packet, and prove nothing more.
            self._tick_delays = tuple(d for d in self._tick_delays if self._tick_from + d > now)
            if buffered_amount == 0:
                self.counters.ticks_sent += 1
                return encode(Tick())
        return self._next_part(buffered_amount, now)

    def _text_may_leave(self, buffered_amount: int) -> bool:
        return buffered_amount <= TEXT_BUFFER_BYTES

    def _next_bundle(self, now: float) -> str:
        if not self._pieces:
            events: list[Event] = []
            size = joined = 0
            while self._bundles and (
                not events or size + self._bundles[0].size_bytes <= self.message_bytes - _FRAME_BYTES
            ):
                waiting = self._bundles.popleft()
                events += waiting.events
                size += waiting.size_bytes
                joined += 1
            self._pieces.extend(encode_bundle(events, self.message_bytes))
            self._pieces_bytes = size
            self._sent_seq = events[-1].seq
            if self._later_seq is None and self.unacked_bytes and now - self._part_at >= SWALLOWED:
                self._later_seq = self._sent_seq
            self.counters.bundles_sent += joined
            self.counters.bundles_joined += joined - 1
            urgent = any(_urgent(event) for event in events)
            self._tick_delays = URGENT_TICKS if urgent else PAUSE_TICKS
        self._tick_from = now
        piece = self._pieces.popleft()
        if not self._pieces:
            self._waiting_bytes -= self._pieces_bytes
            self._congested = self._congested and self._waiting_bytes > CONGESTED_BYTES // 2
        return piece

    def _next_part(self, buffered_amount: int, now: float) -> bytes | None:
        key = self._pictures.first
        if key is None:
            self._window.look(now, could=False)
            return None
        payload_bytes = min(self._room_for_payload(key, 1), self._step_bytes())
        if not self._part_may_leave(buffered_amount, self._pictures.next_size(payload_bytes), now):
            return None
        part, again = self._pictures.take(payload_bytes)
        self._sent_bytes += len(part.payload)
        self._part_at, self._later_seq = now, None
        self._window.sent(self._sent_bytes, now)
        self.counters.parts_sent += 1
        self.counters.bytes_resent += len(part.payload) if again else 0
        return encode_part(part)

    def _step_bytes(self) -> int:
        return min(self.part_bytes, self._window.part_bytes)

    def _part_may_leave(self, buffered_amount: int, size_bytes: int, now: float) -> bool:
        could = buffered_amount == 0 and size_bytes <= self.window_bytes - self.unacked_bytes
        return self._window.look(now, could=could) and could

    def next_timer(self, now: float) -> float | None:
        """When something is due though nothing came in: a ping, a tick, a verdict on the peer; None before S1."""
        if not self._started or self._stopped:
            return None
        due = [self._next_ping]
        if self._tick_delays and not self._bundles and not self._pieces:
            due.append(self._tick_from + self._tick_delays[0])
        if self._pictures and self._window.ready_at > now:
            due.append(self._window.ready_at)
        due += [at for at in (self._heard + PEER_QUIET, self._heard + PEER_GONE) if at > now]
        return min(due)

    # How things stand

    def peer(self, now: float) -> Peer:
        """How long the peer has been silent (S9)."""
        silence = now - self._heard
        if silence >= PEER_GONE:
            return Peer.GONE
        return Peer.QUIET if silence >= PEER_QUIET else Peer.LIVE

    @property
    def congested(self) -> bool:
        """Narration piles up: stop its source until this is False again (S10)."""
        return self._congested

    @property
    def unacked_bytes(self) -> int:
        """Picture bytes sent that the viewer has not acknowledged, and that are not written off."""
        return self._sent_bytes - self._acked_bytes - self._written_off

    @property
    def acked_bytes(self) -> int:
        """Picture bytes that the viewer has acknowledged."""
        return self._acked_bytes

    @property
    def window_bytes(self) -> int:
        """Picture bytes that may be un-acked, by what is known of the link now (S5)."""
        return self._window.size_bytes

    @property
    def sent_seq(self) -> int:
        """The last `seq` handed to the link (-1 = none)."""
        return self._sent_seq

    @property
    def waiting_pictures(self) -> tuple[str, ...]:
        """Keys of the pictures whose last part has not left."""
        return tuple(self._pictures)

    @property
    def drained(self) -> bool:
        """Everything queued has left and was acknowledged."""
        return (
            not (self._bundles or self._pieces or self._pictures or self._control)
            and self._acked_seq == self._queued_seq
            and self.unacked_bytes == 0
        )


_FRAME_BYTES = 64
"""What a bundle's own JSON adds around its events, rounded up."""
_PART_HEADER_BYTES = len(encode_part(Part("", 0, 0, b"")))
_LEAST_PAYLOAD_BYTES = 256
"""A part with less in it, because of the length of its key, is refused."""


def _urgent(event: Event) -> bool:
    if isinstance(event, Text):
        return event.text.rstrip(_CLOSERS).endswith(_SENTENCE_ENDS)
    return isinstance(event, Reveal | Swap | StreamEnd)
