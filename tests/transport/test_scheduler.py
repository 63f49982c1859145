"""Rules S1-S14 of the send scheduler, one table or case each."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from multimodal import wire
from multimodal.errors import MessageTooLarge
from multimodal.transport import scheduler as module
from multimodal.transport.parts import PICTURES_LIMIT, PIECES_LIMIT
from multimodal.transport.scheduler import (
    CONGESTED_BYTES,
    PART_BYTES,
    PAUSE_TICKS,
    PEER_GONE,
    PEER_QUIET,
    PING_INTERVAL,
    SWALLOWED,
    TEXT_BUFFER_BYTES,
    URGENT_TICKS,
    Peer,
    SendScheduler,
)
from multimodal.transport.window import HEADROOM_BYTES, LEAST_PART_BYTES, PACE, WINDOW_BYTES
from tests.transport.events import end, reveal, text


def started(now: float = 0.0, **settings: Any) -> SendScheduler:
    scheduler = SendScheduler(**settings)
    scheduler.start(now)
    return scheduler


def drain(scheduler: SendScheduler, now: float = 0.0, buffered: int = 0) -> list[str | bytes]:
    """Everything that leaves at one instant, with the link keeping nothing (or `buffered`)."""
    messages = []
    while (message := scheduler.next_message(buffered, now)) is not None:
        messages.append(message)
    return messages


def name(message: str | bytes) -> str:
    """What a message is, in a word."""
    if isinstance(message, bytes):
        part = wire.decode_part(message)
        return f"{part.key}@{part.offset}"
    parsed: dict[str, Any] = json.loads(message)
    if parsed["type"] == "bundle":
        return "+".join(str(event["seq"]) for event in parsed["events"]) + ("..." if parsed["more"] else "")
    return str(parsed["type"])


def names(messages: list[str | bytes]) -> list[str]:
    return [name(message) for message in messages]


def test_s1_nothing_leaves_before_hello_or_after_stop() -> None:
    scheduler = SendScheduler()
    scheduler.queue_control(wire.encode(wire.Pong(1)))
    scheduler.queue_bundle([text(0)])
    scheduler.queue_picture("p", b"x" * 100, 0)
    assert drain(scheduler, 100.0) == []
    assert scheduler.next_timer(100.0) is None
    scheduler.start(100.0)
    scheduler.stop()
    assert names(drain(scheduler, 200.0)) == ["pong"]
    assert scheduler.next_timer(200.0) is None


def test_s2_order_of_classes() -> None:
    scheduler = started()
    scheduler.queue_picture("p", b"x" * 100, 0)
    scheduler.queue_bundle([text(0)])
    scheduler.queue_control(wire.encode(wire.Pong(1)))
    assert names(drain(scheduler)) == ["pong", "0", "p@0"]


def test_s3_bundles_that_waited_are_joined_whole() -> None:
    scheduler = started()
    for seq in range(0, 6, 2):
        scheduler.queue_bundle([text(seq), text(seq + 1)])
    assert names(drain(scheduler)) == ["0+1+2+3+4+5"]
    assert scheduler.counters.bundles_joined == 2


def test_s3_joining_never_splits_a_bundle() -> None:
    scheduler = started()
    half = "x" * (wire.MESSAGE_LIMIT_BYTES // 2 - 1000)
    scheduler.queue_bundle([text(0, half)])
    scheduler.queue_bundle([text(1, half), text(2, half[: len(half) // 2])])
    assert names(drain(scheduler)) == ["0", "1+2"]


def test_s3_a_large_bundle_is_split_and_stays_together() -> None:
    scheduler = started()
    scheduler.queue_bundle([text(seq, "x" * 25_000) for seq in range(4)])
    scheduler.queue_bundle([text(4)])
    first = scheduler.next_message(0, 0.0)
    assert first is not None
    assert name(first) == "0+1..."
    scheduler.queue_control(wire.encode(wire.Pong(1)))
    scheduler.queue_picture("p", b"x" * 100, 0)
    assert names(drain(scheduler)) == ["pong", "2+3", "4", "p@0"]


@pytest.mark.parametrize(
    ("buffered", "leaves"),
    [(0, True), (TEXT_BUFFER_BYTES, True), (TEXT_BUFFER_BYTES + 1, False)],
)
def test_s4_bundles_wait_behind_a_full_link(buffered: int, leaves: bool) -> None:
    scheduler = started()
    scheduler.queue_bundle([text(0)])
    assert bool(drain(scheduler, buffered=buffered)) is leaves
    scheduler.queue_control(wire.encode(wire.Pong(1)))
    assert names(drain(scheduler, buffered=buffered)) == ["pong"]


def test_s5_a_part_needs_an_empty_link() -> None:
    scheduler = started()
    scheduler.queue_picture("p", b"x" * 100, 0)
    assert drain(scheduler, buffered=1) == []
    assert names(drain(scheduler, buffered=0)) == ["p@0"]


def test_s5_a_part_waits_for_text_even_when_text_may_not_leave() -> None:
    scheduler = started()
    scheduler.queue_picture("p", b"x" * 100, 0)
    scheduler.queue_bundle([text(0)])
    assert drain(scheduler, buffered=TEXT_BUFFER_BYTES + 1) == []


def test_s5_the_window_opens_with_acks_alone() -> None:
    scheduler = started()
    scheduler.queue_picture("p", bytes(WINDOW_BYTES + 30 * LEAST_PART_BYTES), 0)
    assert len(drain(scheduler)) == WINDOW_BYTES // LEAST_PART_BYTES
    assert scheduler.unacked_bytes == scheduler.window_bytes == WINDOW_BYTES
    assert drain(scheduler, 0.9) == []
    scheduler.acked(-1, LEAST_PART_BYTES - 1, 0.9)
    assert drain(scheduler, 0.9) == []
    # It took a second for half of it, which is all that such a link holds; and the headroom (W3).
    scheduler.acked(-1, WINDOW_BYTES // 2, 1.0)
    assert scheduler.window_bytes == WINDOW_BYTES // 2 + HEADROOM_BYTES
    more = HEADROOM_BYTES // LEAST_PART_BYTES
    assert names(drain(scheduler, 2.0)) == ["ping", *(f"p@{WINDOW_BYTES + n * LEAST_PART_BYTES}" for n in range(1))]
    for now in range(3, 3 + more):
        drain(scheduler, float(now))
    assert scheduler.unacked_bytes == scheduler.window_bytes


def test_s5_parts_grow_with_the_link_up_to_their_limit() -> None:
    scheduler = started()
    scheduler.queue_picture("p", bytes(1_000_000), 0)
    assert len(wire.decode_part(last_part(scheduler, 0.0)).payload) == LEAST_PART_BYTES
    scheduler.acked(-1, 51_200, 0.1)
    assert len(wire.decode_part(last_part(scheduler, 0.1)).payload) == 4_096
    scheduler.acked(-1, scheduler._sent_bytes, 0.11)
    assert len(wire.decode_part(last_part(scheduler, 0.11)).payload) == PART_BYTES


def last_part(scheduler: SendScheduler, now: float) -> bytes:
    part = drain(scheduler, now)[-1]
    assert isinstance(part, bytes)
    return part


def test_s5_on_a_link_that_is_known_parts_are_paced_and_the_timer_says_when() -> None:
    scheduler = started()
    scheduler.queue_picture("p", bytes(1_000_000), 0)
    now = 0.0
    sent: list[float] = []
    # A link of 200 kB/s and 50 ms, which has shown so for long.
    window = scheduler._window
    window._rates.note(200_000.0, 0.0)
    window._trips.note(-0.05, 0.0)
    window._plateau, window._rounds = 200_000.0, 3
    now = 0.0
    while len(sent) < 50:
        if any(isinstance(message, bytes) for message in drain(scheduler, now)):
            sent.append(now)
        timer = scheduler.next_timer(now)
        assert timer is not None
        assert timer > now
        if scheduler.unacked_bytes > window.size_bytes - 2 * window.part_bytes:
            window._acked = scheduler._acked_bytes = scheduler._sent_bytes
        now = timer
    gaps = {round(after - before, 6) for before, after in pairwise(sent[2:]) if after - before < 0.01}
    assert gaps == {round(1600 / (PACE * 200_000), 6)}


def test_s6_the_picture_due_soonest_overtakes_between_parts() -> None:
    scheduler = started(part_bytes=100)
    scheduler.queue_picture("ahead", bytes(250), None)
    scheduler.queue_picture("later", bytes(150), 9)
    assert name(scheduler.next_message(0, 0.0) or "") == "later@0"
    scheduler.queue_picture("now", bytes(150), 3)
    scheduler.queue_picture("also ahead", bytes(50), None)
    expected = ["now@0", "now@100", "later@100", "ahead@0", "ahead@100", "ahead@200", "also ahead@0"]
    assert names(drain(scheduler)) == expected


def test_s6_a_due_place_may_change() -> None:
    scheduler = started()
    scheduler.queue_picture("a", bytes(10), 3)
    scheduler.queue_picture("b", bytes(10), None)
    scheduler.set_due("b", 0)
    scheduler.set_due("never queued", 0)
    assert scheduler.waiting_pictures == ("a", "b")
    assert names(drain(scheduler)) == ["b@0", "a@0"]


def test_s6_parts_put_together_are_the_picture() -> None:
    data = bytes(range(256)) * 100
    scheduler = started()
    scheduler.queue_picture("p", data, 0)
    scheduler.queue_picture("p", b"another", 0)
    parts = [wire.decode_part(message) for message in drain(scheduler) if isinstance(message, bytes)]
    assert b"".join(part.payload for part in parts) == data


def test_s7_what_cannot_be_sent_is_refused_when_it_is_queued() -> None:
    scheduler = started()
    with pytest.raises(MessageTooLarge, match="above the limit"):
        scheduler.queue_bundle([text(0), text(1, "x" * wire.MESSAGE_LIMIT_BYTES)])
    with pytest.raises(MessageTooLarge):
        scheduler.queue_picture("k" * wire.MESSAGE_LIMIT_BYTES, bytes(10), 0)
    assert drain(scheduler) == []
    scheduler.queue_bundle([text(0, "x" * (wire.MESSAGE_LIMIT_BYTES - 400))])
    sent = drain(scheduler)
    assert [len(message) <= wire.MESSAGE_LIMIT_BYTES for message in sent] == [True]


@pytest.mark.parametrize("limit", [4096, 16_384, 40_000, wire.MESSAGE_LIMIT_BYTES, 65_536])
def test_s7_a_peer_that_takes_less_gets_less(limit: int) -> None:
    most = min(limit, wire.MESSAGE_LIMIT_BYTES)
    scheduler = started(message_bytes=limit, part_bytes=100_000)
    scheduler._window._rates.note(1e9, 0.0)
    scheduler._window._trips.note(-1.0, 0.0)
    scheduler.queue_bundle([text(seq, "x" * 3_000) for seq in range(30)])
    for seq in range(30, 90):
        scheduler.queue_bundle([text(seq, "é" * 400)])
    scheduler.queue_picture("kettle", bytes(200_000), 0)
    sent = drain(scheduler)
    sizes = [len(message if isinstance(message, bytes) else message.encode()) for message in sent]
    assert max(sizes) <= most
    assert max(sizes) > most - 4_000
    bundles = [json.loads(message) for message in sent if isinstance(message, str)]
    assert [event["seq"] for bundle in bundles for event in bundle["events"]] == list(range(90))
    parts = [wire.decode_part(message) for message in sent if isinstance(message, bytes)]
    assert sum(len(part.payload) for part in parts) == 200_000
    with pytest.raises(MessageTooLarge, match=f"{most - 64}"):
        scheduler.queue_bundle([text(90, "x" * most)])
    with pytest.raises(MessageTooLarge):
        scheduler.queue_picture("k" * most, bytes(1000), 0)


def test_an_empty_bundle_is_no_message() -> None:
    scheduler = started()
    scheduler.queue_bundle([])
    assert drain(scheduler) == []
    assert scheduler.drained


@pytest.mark.parametrize(
    ("words", "urgent"),
    [("word ", False), ("end. ", True), ('said."  ', True), ("完了。", True), ("3.5", False), ("", False)],
)
def test_s8_ticks_come_sooner_after_a_sentence(words: str, urgent: bool) -> None:
    scheduler = started()
    scheduler.queue_bundle([text(0, words)])
    assert tick_times(scheduler, until=0.9) == list(URGENT_TICKS if urgent else PAUSE_TICKS)


@pytest.mark.parametrize("event", [reveal(0), end(0)])
def test_s8_ticks_come_soon_after_a_reveal_and_the_end(event: Any) -> None:
    scheduler = started()
    scheduler.queue_bundle([event])
    assert tick_times(scheduler, until=0.9) == list(URGENT_TICKS)


def tick_times(scheduler: SendScheduler, until: float) -> list[float]:
    """When ticks leave if the shell follows the timer exactly."""
    times: list[float] = []
    now = 0.0
    drain(scheduler, now)
    while (timer := scheduler.next_timer(now)) is not None and timer <= until:
        now = timer
        sent = names(drain(scheduler, now))
        assert sent == ["tick"]
        times.append(round(now, 6))
    return times


def test_s8_a_new_bundle_starts_the_ticks_afresh_and_its_ack_ends_them() -> None:
    scheduler = started()
    scheduler.queue_bundle([reveal(0)])
    drain(scheduler, 0.0)
    scheduler.queue_bundle([text(1)])
    drain(scheduler, 0.010)
    assert scheduler.next_timer(0.010) == pytest.approx(0.010 + PAUSE_TICKS[0])
    scheduler.acked(0, 0, 0.015)
    assert scheduler.next_timer(0.015) == pytest.approx(0.010 + PAUSE_TICKS[0])
    scheduler.acked(1, 0, 0.020)
    assert scheduler.next_timer(0.020) == PING_INTERVAL


def test_s8_a_late_shell_sends_one_tick_and_a_busy_road_none() -> None:
    scheduler = started()
    scheduler.queue_bundle([reveal(0)])
    drain(scheduler, 0.0)
    assert names(drain(scheduler, 0.1)) == ["tick"]
    assert drain(scheduler, 0.25, buffered=1) == []
    assert names(drain(scheduler, 0.5)) == ["tick"]
    assert drain(scheduler, 0.9) == []


def test_s9_a_ping_every_second_and_the_verdict_on_silence() -> None:
    scheduler = started(10.0)
    assert scheduler.next_timer(10.0) == 11.0
    assert drain(scheduler, 10.99) == []
    assert names(drain(scheduler, 11.0)) == ["ping"]
    assert scheduler.next_timer(11.0) == 12.0
    table = [(13.99, Peer.LIVE), (14.0, Peer.QUIET), (24.99, Peer.QUIET), (25.0, Peer.GONE)]
    assert [(now, scheduler.peer(now)) for now, _ in table] == table
    drain(scheduler, 13.5)
    assert scheduler.next_timer(13.5) == 10.0 + PEER_QUIET
    scheduler.heard(14.0)
    assert scheduler.peer(14.0) is Peer.LIVE
    drain(scheduler, 14.0 + PEER_GONE - 0.5)
    assert scheduler.next_timer(14.0 + PEER_GONE - 0.5) == 14.0 + PEER_GONE


def test_s10_congestion_has_two_levels() -> None:
    scheduler = started()
    waiting = 0
    for seq in range(100):
        assert scheduler.congested is (waiting >= CONGESTED_BYTES)
        if scheduler.congested:
            break
        event = text(seq, "x" * 10_000)
        scheduler.queue_bundle([event])
        waiting += len(wire.encode_event(event)) + 1
    while (message := scheduler.next_message(0, 0.0)) is not None:
        waiting -= sum(len(json.dumps(event, separators=(",", ":"))) + 1 for event in json.loads(message)["events"])
        assert scheduler.congested is (waiting > CONGESTED_BYTES // 2)
    assert waiting == 0


def test_s10_control_drops_its_oldest_and_pictures_the_one_due_last() -> None:
    scheduler = started()
    for number in range(module.CONTROL_LIMIT + 1):
        scheduler.queue_control(wire.encode(wire.Pong(number)))
    for number in range(PICTURES_LIMIT):
        scheduler.queue_picture(f"p{number}", b"x", number)
    scheduler.queue_picture("ahead", b"x", None)
    scheduler.queue_picture("first", b"x", 0)
    sent = drain(scheduler)
    assert json.loads(sent[0])["id"] == 1
    assert scheduler.counters.control_dropped == 1
    assert scheduler.counters.pictures_shed == 2
    keys = [name(message) for message in sent[module.CONTROL_LIMIT :]]
    assert len(keys) == PICTURES_LIMIT
    assert "ahead@0" not in keys
    assert f"p{PICTURES_LIMIT - 1}@0" not in keys


@pytest.mark.parametrize(("seq", "picture_bytes"), [(1, 0), (0, 101), (-1, 50), (0, 49), (99, 10**9), (0, -1)])
def test_s11_an_ack_that_cannot_be_true_changes_nothing(seq: int, picture_bytes: int) -> None:
    scheduler = started()
    scheduler.queue_bundle([text(0)])
    scheduler.queue_picture("p", bytes(100), 0)
    drain(scheduler)
    scheduler.acked(0, 50, 0.0)
    scheduler.acked(seq, picture_bytes, 1.0)
    assert scheduler.unacked_bytes == 50
    assert scheduler.counters.acks_refused == 1
    assert scheduler.peer(4.9) is Peer.LIVE


def test_drained_means_everything_left_and_was_acknowledged() -> None:
    scheduler = started()
    assert scheduler.drained
    scheduler.queue_bundle([text(0)])
    scheduler.queue_picture("p", bytes(100), 0)
    assert not scheduler.drained
    drain(scheduler)
    assert not scheduler.drained
    scheduler.acked(0, 0, 0.0)
    assert not scheduler.drained
    scheduler.acked(0, 100, 0.0)
    assert scheduler.drained
    assert scheduler.sent_seq == 0


def test_s12_what_is_asked_for_again_goes_before_the_rest_of_its_picture() -> None:
    data = bytes(range(256)) * 20
    scheduler = started()
    scheduler.queue_picture("p", data, 5)
    assert name(scheduler.next_message(0, 0.0) or "") == "p@0"
    scheduler.queue_ranges("p", data, [(100, 200), (150, 300), (900, 4_000)], 5)
    scheduler.queue_picture("sooner", bytes(10), 1)
    sent = drain(scheduler)
    expected = ["sooner@0", "p@100", "p@900", "p@1024", "p@2048", "p@3072", "p@4096"]
    assert names(sent) == expected
    parts = {part.offset: part.payload for part in map(wire.decode_part, sent[1:])}  # type: ignore[arg-type]
    assert parts[100] == data[100:300]
    assert parts[900] == data[900:1024]
    assert scheduler.counters.bytes_resent == 200 + 124
    assert scheduler.unacked_bytes == len(data) + 10 + 324


def test_s12_a_picture_that_was_sent_comes_back_into_its_place() -> None:
    data = bytes(5_000)
    scheduler = started()
    scheduler.queue_picture("p", data, 3)
    drain(scheduler)
    scheduler.queue_ranges("p", data, [(4_990, 9_999), (-5, 10), (7, 7), (8, 2)], 3)
    scheduler.queue_picture("later", bytes(10), 9)
    scheduler.queue_ranges("p", data, [(0, 10)], 3)
    assert scheduler.waiting_pictures == ("p", "later")
    assert names(drain(scheduler)) == ["p@0", "p@4990", "later@0"]
    assert scheduler.counters.bytes_resent == 20
    scheduler.queue_ranges("p", data, [(5_000, 6_000), (-10, 0)], 3)
    assert not scheduler.waiting_pictures


def test_s12_asked_for_whole_while_parts_wait_it_comes_whole() -> None:
    data = bytes(3_000)
    scheduler = started()
    scheduler.queue_picture("p", data, 3)
    drain(scheduler)
    scheduler.queue_ranges("p", data, [(10, 20)], 3)
    scheduler.queue_picture("p", data, 3)
    assert names(drain(scheduler)) == ["p@0", "p@1024", "p@2048"]


def test_s12_more_pieces_than_a_message_may_name_are_one() -> None:
    data = bytes(10_000)
    scheduler = started()
    scheduler.queue_picture("p", data, 3)
    drain(scheduler)
    for begin in range(0, 1_000, 10):
        scheduler.queue_ranges("p", data, [(begin, begin + 1)], 3)
        pieces = scheduler._pictures._pictures["p"].again
        assert len(pieces) <= PIECES_LIMIT
    scheduler.acked(-1, 10_000, 0.1)
    sent = [wire.decode_part(message) for message in drain(scheduler, 0.1) if isinstance(message, bytes)]
    covered = {at for part in sent for at in range(part.offset, part.offset + len(part.payload))}
    assert covered >= set(range(0, 1_000, 10))
    assert max(covered) < 1_000


def swallowed(scheduler: SendScheduler) -> None:
    """A window full of parts leaves at 0, and none of them arrives."""
    scheduler.queue_bundle([text(0)])
    scheduler.queue_picture("p", bytes(2 * WINDOW_BYTES), 0)
    drain(scheduler, 0.0)
    scheduler.acked(0, 0, 0.1)
    assert scheduler.unacked_bytes == WINDOW_BYTES


def test_s13_words_that_pass_open_the_window_again() -> None:
    scheduler = started()
    swallowed(scheduler)
    scheduler.queue_bundle([text(1)])
    assert names(drain(scheduler, SWALLOWED - 0.1)) == ["ping", "1"]
    scheduler.acked(1, 0, SWALLOWED)
    assert scheduler.unacked_bytes == WINDOW_BYTES, "these words left too soon after the parts to prove anything"
    scheduler.queue_bundle([text(2)])
    drain(scheduler, SWALLOWED)
    scheduler.acked(1, 0, SWALLOWED + 1)
    assert scheduler.unacked_bytes == WINDOW_BYTES
    scheduler.acked(2, 0, SWALLOWED + 2)
    assert scheduler.unacked_bytes == 0
    assert scheduler.counters.bytes_written_off == WINDOW_BYTES
    assert names(drain(scheduler, SWALLOWED + 2))[1] == f"p@{WINDOW_BYTES}"


def test_s13_bytes_that_are_asked_for_again_leave_though_all_before_them_were_swallowed() -> None:
    scheduler = started()
    swallowed(scheduler)
    scheduler.heard(1.0)
    scheduler.queue_ranges("p", bytes(2 * WINDOW_BYTES), [(0, 1000)], 0)
    assert "p@0" not in names(drain(scheduler, 1.0)), "too soon: they may be on their way"
    scheduler.heard(SWALLOWED)
    scheduler.queue_ranges("p", bytes(2 * WINDOW_BYTES), [(0, 1000)], 0)
    assert names(drain(scheduler, SWALLOWED))[:2] == ["ping", "p@0"]
    assert scheduler.counters.bytes_written_off == WINDOW_BYTES


def test_s13_any_part_that_arrives_shows_that_the_road_takes_parts() -> None:
    scheduler = started()
    swallowed(scheduler)
    scheduler.queue_bundle([text(1)])
    drain(scheduler, SWALLOWED)
    scheduler.acked(0, 1, SWALLOWED + 0.1)
    scheduler.acked(1, 1, SWALLOWED + 0.2)
    assert scheduler.counters.bytes_written_off == 0


def test_s13_what_was_late_and_not_lost_counts_once() -> None:
    scheduler = started()
    swallowed(scheduler)
    scheduler.queue_bundle([text(1)])
    drain(scheduler, SWALLOWED)
    scheduler.acked(1, 0, SWALLOWED + 1)
    drain(scheduler, SWALLOWED + 1)
    assert scheduler.unacked_bytes == WINDOW_BYTES
    scheduler.acked(1, 2 * WINDOW_BYTES, SWALLOWED + 2)
    assert scheduler.unacked_bytes == 0
    assert scheduler.drained


def test_a_viewer_that_never_acks_gets_every_word() -> None:
    scheduler = started()
    scheduler.queue_picture("p", bytes(10 * WINDOW_BYTES), 0)
    sent: list[str] = []
    for seq in range(500):
        scheduler.queue_bundle([text(seq)])
        sent += names(drain(scheduler, seq * 0.05))
    assert [each for each in sent if each.isdigit()] == [str(seq) for seq in range(500)]
    assert scheduler.unacked_bytes == WINDOW_BYTES


def test_s14_a_road_whose_pictures_come_by_url_takes_none() -> None:
    scheduler = started(pictures=False)
    scheduler.queue_picture("p", bytes(100), 0)
    scheduler.queue_ranges("p", bytes(100), [(0, 10)], 0)
    assert drain(scheduler) == []
    assert scheduler.waiting_pictures == ()
    assert scheduler.drained
