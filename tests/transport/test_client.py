"""Rules V1-V11 of the viewer's protocol, without any I/O."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal import wire
from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.events import Event, Gap, Interrupted, Snapshot
from multimodal.transport.assembly import Assembly
from multimodal.transport.base import Inbound
from multimodal.transport.client import ACK_BYTES, ACK_DELAY, PENDING_BYTES, Farewell, Picture, ViewerProtocol
from multimodal.values import EncodedImage
from tests.transport.events import picture, reserved, reveal, text


def greeted() -> ViewerProtocol:
    viewer = ViewerProtocol()
    viewer.outgoing()
    return viewer


def bundle(*events: Event, more: bool = False) -> Inbound:
    message = next(iter(wire.encode_bundle(events)))
    return Inbound("events", message.replace('"more":false', '"more":true') if more else message)


def part(key: str, offset: int, total: int, payload: bytes) -> Inbound:
    return Inbound("images", wire.encode_part(wire.Part(key, offset, total, payload)))


def said(viewer: ViewerProtocol) -> list[dict[str, Any]]:
    return [json.loads(message) for message in viewer.outgoing()]


def test_v1_hello_is_the_first_word() -> None:
    viewer = ViewerProtocol(wire.Hello(cursor=4))
    viewer.ready("p")
    assert [message["type"] for message in said(viewer)] == ["hello", "ready"]
    assert said(viewer) == []
    assert viewer.receive(bundle(text(5)), 0.0) == [(text(5),)]


def test_v2_a_split_bundle_is_shown_whole() -> None:
    viewer = greeted()
    assert viewer.receive(bundle(text(0), more=True), 0.0) == []
    assert viewer.receive(bundle(text(1), more=True), 0.0) == []
    assert viewer.receive(bundle(reveal(2)), 0.0) == [(text(0), text(1), reveal(2))]


@pytest.mark.parametrize("seq", [2, 5])
def test_v3_a_gap_raises(seq: int) -> None:
    viewer = greeted()
    viewer.receive(bundle(text(0)), 0.0)
    with pytest.raises(RemoteProtocolError, match=f"event {seq} follows 0"):
        viewer.receive(bundle(text(seq)), 0.0)


def test_v3_what_came_before_is_dropped_and_counted() -> None:
    viewer = greeted()
    viewer.receive(bundle(text(0), text(1)), 0.0)
    assert viewer.receive(bundle(text(0), text(1)), 0.0) == []
    assert viewer.receive(bundle(text(1), text(2)), 0.0) == [(text(2),)]
    assert (viewer.seq, viewer.doubled) == (2, 3)


def test_an_unknown_kind_is_skipped_but_keeps_its_place() -> None:
    viewer = greeted()
    message = '{"type":"bundle","v":1,"events":[{"kind":"hologram","v":1,"seq":0}%s],"more":false}'
    assert viewer.receive(Inbound("events", message % ""), 0.0) == []
    shown = viewer.receive(bundle(text(1)), 0.0)
    assert shown == [(text(1),)]


@pytest.mark.parametrize("event", ['{"kind":"weather"}', '{"kind":"weather","seq":null}'])
def test_an_event_without_a_place_raises(event: str) -> None:
    message = '{"type":"bundle","v":1,"events":[' + event + "]}"
    with pytest.raises(RemoteProtocolError, match="has no place"):
        greeted().receive(Inbound("events", message), 0.0)


def test_an_unknown_message_and_a_tick_show_nothing() -> None:
    viewer = greeted()
    for message in ('{"type":"weather"}', '{"type":"tick"}'):
        assert viewer.receive(Inbound("events", message), 0.0) == []
    assert said(viewer) == []


@settings(deadline=None)
@given(
    st.permutations(range(5)),
    st.integers(0, 5),
    st.lists(st.integers(0, 4), max_size=4),
)
def test_v4_parts_in_any_order_twice_and_before_their_asset(
    order: list[int], asset_at: int, repeats: list[int]
) -> None:
    viewer = greeted()
    image = picture("p", 450)
    pieces = [part("p", i * 100, 450, image.data[i * 100 : i * 100 + 100]) for i in range(5)]
    shown = []
    for index, piece in enumerate([*order[:-1], *repeats, order[-1]]):
        if index == asset_at:
            shown += viewer.receive(bundle(reserved(0, image)), 0.0)
        # A repeat of the piece that is still missing would complete the picture early.
        if piece != order[-1] or index == len(order) + len(repeats) - 1:
            shown += viewer.receive(pieces[piece], 0.0)
    if viewer.seq < 0:
        shown += viewer.receive(bundle(reserved(0, image)), 0.0)
    assert [item for item in shown if isinstance(item, Picture)] == [Picture("p", image.data)]


def test_v11_wrong_bytes_are_asked_for_once_more_and_then_given_up() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    assert viewer.receive(part("p", 0, 100, bytes(100)), 0.0) == []
    assert said(viewer) == [{"type": "need", "key": "p"}]
    assert viewer.receive(part("p", 0, 100, bytes(100)), 0.0) == []
    assert said(viewer) == [
        {"type": "ready", "key": "p", "ok": False, "reason": "the bytes that came are not the picture's"}
    ]
    assert viewer.receive(part("p", 0, 100, image.data), 0.0) == []


def test_v11_wrong_bytes_and_then_the_right_ones() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    viewer.receive(part("p", 0, 100, bytes(100)), 0.0)
    assert viewer.receive(part("p", 0, 100, image.data), 0.0) == [Picture("p", image.data)]


def test_v4_a_size_that_changes_raises() -> None:
    viewer = greeted()
    viewer.receive(part("p", 0, 100, bytes(10)), 0.0)
    with pytest.raises(RemoteProtocolError, match="changed its size"):
        viewer.receive(part("p", 10, 99, bytes(10)), 0.0)


def test_unfinished_pictures_are_bounded() -> None:
    viewer = greeted()
    with pytest.raises(RemoteProtocolError, match="unfinished"):
        viewer.receive(part("p", 0, PENDING_BYTES + 1, bytes(10)), 0.0)


def test_text_on_the_images_channel_raises() -> None:
    with pytest.raises(RemoteProtocolError, match="text on the images channel"):
        greeted().receive(Inbound("images", "hello"), 0.0)


def test_v5_acks_by_size_and_by_time() -> None:
    viewer = greeted()
    assert viewer.receive(bundle(text(0)), 1.0) == [(text(0),)]
    assert viewer.next_timer() == 1.0
    viewer.receive(bundle(text(1)), 1.0 + ACK_DELAY / 2)
    viewer.handle_timer(1.0 + ACK_DELAY - 0.001)
    acks = [message for message in said(viewer) if message["type"] == "ack"]
    assert acks == []
    viewer.handle_timer(1.0 + ACK_DELAY)
    assert said(viewer)[-1] == {"type": "ack", "seq": 1, "picture_bytes": 0}
    viewer.receive(part("p", 0, 10**6, bytes(ACK_BYTES - 1)), 1.1)
    assert said(viewer) == []
    viewer.receive(part("p", ACK_BYTES, 10**6, bytes(1)), 1.1)
    assert said(viewer) == [{"type": "ack", "seq": 1, "picture_bytes": ACK_BYTES}]


def test_v5_repeated_parts_count_as_arrived() -> None:
    viewer = greeted()
    for _ in range(2):
        viewer.receive(part("p", 0, 100, bytes(40)), 0.0)
    viewer.handle_timer(ACK_DELAY)
    assert said(viewer) == [{"type": "ack", "seq": -1, "picture_bytes": 80}]


def test_v6_pings_are_answered_and_sent_and_silence_is_noticed() -> None:
    viewer = greeted()
    viewer.receive(Inbound("events", wire.encode(wire.Ping(7, 123.0))), 0.5)
    assert said(viewer) == [{"type": "pong", "id": 7, "t_ms": 123.0, "at_ms": 500.0}]
    viewer.handle_timer(0.99)
    assert said(viewer) == []
    viewer.handle_timer(1.0)
    assert said(viewer) == [{"type": "ping", "id": 1, "t_ms": 1000.0}]
    assert viewer.next_timer() == 2.0
    assert [viewer.silent(now) for now in (3.49, 3.5)] == [False, True]


def test_a_farewell_and_the_viewers_own_words() -> None:
    viewer = greeted()
    assert viewer.receive(Inbound("events", wire.encode(wire.Bye("over"))), 0.0) == [Farewell("over")]
    viewer.pause()
    viewer.resume()
    viewer.painted(3, 16.7, 1)
    viewer.bye("closing")
    assert [message["type"] for message in said(viewer)] == ["pause", "resume", "painted", "bye"]


E = TypeVar("E", bound=Event)


def of(epoch: int, event: E) -> E:
    return msgspec.structs.replace(event, epoch=epoch)


def stop(seq: int, epoch: int) -> Interrupted:
    return Interrupted(1, "s", epoch, seq, 0.0, seq)


def test_v7_what_was_left_is_acknowledged_and_not_shown() -> None:
    viewer = greeted()
    viewer.receive(bundle(text(0)), 0.0)
    viewer.receive(bundle(text(1), more=True), 0.0)
    viewer.interrupt()
    image = picture("p", 100)
    assert viewer.receive(bundle(reveal(2), reserved(3, image)), 0.0) == [(reserved(3, image),)]
    assert viewer.receive(bundle(text(4)), 0.0) == []
    assert viewer.receive(part("p", 0, 100, image.data), 0.0) == [Picture("p", image.data)]
    answer = (stop(5, 1), of(1, text(6)), of(1, reveal(7)))
    assert viewer.receive(bundle(*answer), 0.0) == [answer]
    viewer.handle_timer(ACK_DELAY)
    assert said(viewer) == [{"type": "interrupt", "epoch": 0}, {"type": "ack", "seq": 7, "picture_bytes": 100}]


def test_v7_a_second_question_does_not_wait_for_the_first_answer() -> None:
    viewer = greeted()
    viewer.ask("one?")
    viewer.ask("two?")
    first, second = (stop(0, 1), of(1, text(1))), (stop(2, 2), of(2, text(3)))
    assert viewer.receive(bundle(*first), 0.0) == []
    assert viewer.receive(bundle(*second), 0.0) == [second]
    assert said(viewer) == [
        {"type": "ask", "epoch": 0, "text": "one?"},
        {"type": "ask", "epoch": 1, "text": "two?"},
    ]


def test_v7_a_turn_that_the_application_ends_is_shown_to_its_end() -> None:
    viewer = greeted()
    whole = (text(0), stop(1, 1), of(1, text(2)))
    assert viewer.receive(bundle(*whole), 0.0) == [whole]
    viewer.interrupt()
    assert said(viewer)[-1] == {"type": "interrupt", "epoch": 1}
    assert viewer.receive(bundle(of(1, text(3))), 0.0) == []


def test_a_question_has_a_limit() -> None:
    viewer = greeted()
    with pytest.raises(UsageError, match="a question of 2001 characters; the limit is 2000"):
        viewer.ask("x" * 2001)
    assert (said(viewer), viewer.epoch) == ([], 0)


def spoilt(key: str, offset: int, total: int, payload: bytes) -> Inbound:
    whole = wire.encode_part(wire.Part(key, offset, total, payload))
    return Inbound("images", whole[:-1] + bytes([whole[-1] ^ 1]))


def test_v11_a_spoilt_part_is_asked_for_again_at_once_and_counts_as_arrived() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    viewer.receive(part("p", 0, 100, image.data[:40]), 0.0)
    assert viewer.receive(spoilt("p", 40, 100, image.data[40:70]), 0.0) == []
    assert said(viewer) == [{"type": "resend", "key": "p", "ranges": [[40, 70]]}]
    assert viewer.picture_bytes == 70
    viewer.receive(part("p", 70, 100, image.data[70:]), 0.0)
    assert viewer.receive(part("p", 40, 100, image.data[40:70]), 0.0) == [Picture("p", image.data)]


def test_v11_a_spoilt_part_of_no_known_picture_asks_for_nothing() -> None:
    viewer = greeted()
    assert viewer.receive(spoilt("unheard", 0, 100, b"abc"), 0.0) == []
    assert said(viewer) == []


def test_v11_a_picture_that_always_comes_spoilt_is_given_up() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    for _ in range(100):
        viewer.receive(spoilt("p", 0, 100, image.data), 0.0)
    kinds = [message["type"] for message in said(viewer) if message["type"] != "ack"]
    assert kinds == ["resend"] * 12 + ["need"]


def test_v11_holes_are_asked_for_and_then_the_whole() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    for begin, end in [(0, 10), (30, 50), (60, 70)]:
        viewer.receive(part("p", begin, 100, image.data[begin:end]), 1.0)
    asked = []
    for step in range(1, 200):
        viewer.handle_timer(1.0 + step / 10)
        asked += [(step, message) for message in said(viewer) if message["type"] in {"resend", "need"}]
    holes = {"type": "resend", "key": "p", "ranges": [[10, 30], [50, 60], [70, 100]]}
    assert asked == [(30, holes), (60, holes), (90, holes), (120, {"type": "need", "key": "p"})]


def test_v11_the_end_is_asked_for_only_when_no_picture_moves() -> None:
    viewer = greeted()
    one, two = picture("one", 100), picture("two", 1000)
    viewer.receive(bundle(reserved(0, one), reserved(1, two)), 0.0)
    viewer.receive(part("one", 0, 100, one.data[:60]), 0.0)
    asked = []
    for second in range(1, 20):
        if second < 8:
            at = second * 100
            viewer.receive(part("two", at - 100, 1000, two.data[at - 100 : at]), float(second))
        viewer.handle_timer(float(second))
        asked += [(second, message) for message in said(viewer) if message["type"] == "resend"]
    assert asked[0] == (10, {"type": "resend", "key": "two", "ranges": [[700, 1000]]})
    assert (12, {"type": "resend", "key": "one", "ranges": [[60, 100]]}) in asked


@given(st.lists(st.tuples(st.integers(0, 39), st.integers(1, 10)), max_size=40))
def test_an_assembly_knows_its_holes(parts: list[tuple[int, int]]) -> None:
    assembly, have, whole = Assembly(40, 0.0), set[int](), False
    for offset, size in parts:
        end = min(offset + size, 40)
        have |= set(range(offset, end))
        whole = assembly.add(offset, bytes(range(offset, end)), 0.0)
    holes = {at for begin, end in assembly.holes() for at in range(begin, end)}
    assert holes == set(range(max(have, default=0))) - have
    assert whole == (len(have) == 40)
    assert all(assembly.data[at] == at for at in have)


def test_v9_a_new_connection_goes_on_after_the_last_whole_bundle() -> None:
    viewer = greeted()
    viewer.receive(bundle(text(0), text(1)), 0.0)
    viewer.receive(bundle(text(2), more=True), 0.0)
    viewer.painted(1, 0.0, 1)
    viewer.rejoin(5.0)
    assert said(viewer) == [json.loads(wire.encode(wire.Hello(cursor=1, resume=True)))]
    assert not viewer.silent(7.9)
    assert viewer.receive(bundle(text(2), text(3)), 5.0) == [(text(2), text(3))]
    assert (viewer.cursor, viewer.doubled) == (3, 0)


def test_v9_whole_pictures_are_held_and_halves_are_kept() -> None:
    viewer = greeted()
    one, two = picture("one", 100), picture("two", 100)
    viewer.receive(bundle(reserved(0, one), reserved(1, two)), 0.0)
    viewer.receive(part("one", 0, 100, one.data), 0.0)
    viewer.receive(part("two", 0, 100, two.data[:60]), 0.0)
    viewer.rejoin(1.0)
    (hello,) = said(viewer)
    assert hello["have"] == [one.sha256[:16]]
    assert viewer.picture_bytes == 0
    assert viewer.receive(part("two", 50, 100, two.data[50:]), 1.0) == [Picture("two", two.data)]
    assert viewer.receive(part("one", 0, 100, one.data), 1.0) == []


def test_v9_what_is_held_arrives_again_for_a_server_that_was_started_again() -> None:
    viewer = greeted()
    image = picture("a", 3000)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    assert viewer.receive(part("a", 0, 3000, image.data), 0.0) == [Picture("a", image.data)]
    viewer.ready("a")
    viewer.receive(bundle(reveal(1, "a")), 0.0)
    viewer.rejoin(1.0)
    said(viewer)
    # A description of its own: the stream that was there is gone, and with it what it knew.
    assert Picture("a", image.data) in viewer.receive(bundle(reserved(2, image)), 1.0)
    assert viewer.receive(part("a", 0, 3000, image.data), 1.0) == []


def test_v9_a_half_of_another_size_is_dropped_on_a_new_connection_only() -> None:
    viewer = greeted()
    image = picture("p", 120)
    viewer.receive(part("p", 0, 100, bytes(60)), 0.0)
    viewer.rejoin(1.0)
    viewer.receive(bundle(reserved(0, image)), 1.0)
    viewer.receive(part("p", 0, 120, image.data[:60]), 1.0)
    with pytest.raises(RemoteProtocolError, match="changed its size to 100"):
        viewer.receive(part("p", 60, 100, bytes(40)), 1.0)
    assert viewer.receive(part("p", 60, 120, image.data[60:]), 1.0) == [Picture("p", image.data)]


def test_halves_of_earlier_connections_make_room() -> None:
    viewer = greeted()
    viewer.receive(part("old", 0, PENDING_BYTES - 100, bytes(10)), 0.0)
    viewer.rejoin(1.0)
    viewer.receive(part("new", 0, 200, bytes(10)), 1.0)
    with pytest.raises(RemoteProtocolError, match="unfinished"):
        viewer.receive(part("newer", 0, PENDING_BYTES, bytes(10)), 1.0)


def test_v9_what_may_not_have_been_heard_is_said_again() -> None:
    viewer = greeted()
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    viewer.ready("p")
    viewer.ask("why?")
    viewer.pause()
    viewer.rejoin(1.0)
    again = said(viewer)[1:]
    assert again == [
        {"type": "pause"},
        {"type": "ask", "epoch": 0, "text": "why?"},
        {"type": "ready", "key": "p", "ok": True, "reason": ""},
    ]
    viewer.receive(bundle(stop(1, 1), of(1, reveal(2))), 1.0)
    viewer.resume()
    viewer.rejoin(2.0)
    assert said(viewer)[1:] == [{"type": "resume"}]


def snapshot(seq: int, *images: EncodedImage, continued: bool = False) -> Snapshot:
    assets = tuple(reserved(0, image) for image in images)
    return Snapshot(1, "s", 0, seq, 0.0, seq, assets=assets, continued=continued)


def test_v10_a_snapshot_moves_the_cursor_wherever_it_stood() -> None:
    viewer = greeted()
    image = picture("p", 100)
    assert viewer.receive(bundle(snapshot(40, image)), 0.0) == [(snapshot(40, image),)]
    assert viewer.receive(part("p", 0, 100, image.data), 0.0) == [Picture("p", image.data)]
    assert viewer.receive(bundle(text(41)), 0.0) == [(text(41),)]
    told = (Gap(1, "s", 0, 20, 0.0, 20, after=41), snapshot(20), snapshot(20, continued=True), text(21))
    assert viewer.receive(bundle(*told), 0.0) == [told]
    assert (viewer.cursor, viewer.doubled) == (21, 0)


def test_v10_half_a_snapshot_leaves_the_cursor_where_it_was() -> None:
    viewer = greeted()
    viewer.receive(bundle(text(0)), 0.0)
    viewer.receive(bundle(snapshot(40), more=True), 0.0)
    viewer.rejoin(1.0)
    assert said(viewer)[0]["cursor"] == 0
    assert viewer.receive(bundle(text(1)), 1.0) == [(text(1),)]


def test_pictures_by_url_are_named_once_a_connection_and_once_more_where_they_are_wrong() -> None:
    viewer = ViewerProtocol(by_url=True)
    image = picture("p", 100)
    viewer.receive(bundle(reserved(0, image)), 0.0)
    assert viewer.wanted() == [("p", image.sha256)]
    assert viewer.wanted() == []
    assert viewer.fetched("p", b"other") == []
    assert viewer.wanted() == [("p", image.sha256)]
    viewer.rejoin(1.0, by_url=True)
    assert viewer.wanted() == [("p", image.sha256)]
    assert viewer.fetched("p", image.data) == [Picture("p", image.data)]
    viewer.rejoin(2.0)
    assert viewer.wanted() == []


def test_the_seat_is_kept() -> None:
    viewer = greeted()
    viewer.receive(Inbound("events", wire.encode(wire.Seat("/whep/demo/abc"))), 0.0)
    assert viewer.seat == "/whep/demo/abc"
