"""Server-sent events: any split of any stream gives the same events, and nothing grows without bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import RemoteProtocolError, UsageError
from multimodal.sse_reader import SSEDecoder, SSEEvent


def whole(stream: bytes) -> list[SSEEvent]:
    return SSEDecoder().feed(stream)


def test_the_example_of_the_standard() -> None:
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert whole(stream) == [
        SSEEvent("1", "message", "first event"),
        SSEEvent("", "message", "second event"),
        SSEEvent("", "message", " third event"),
    ]


def test_lines_of_data_are_joined_and_an_empty_one_counts() -> None:
    assert whole(b"data: YHOO\ndata: +2\ndata: 10\n\n") == [SSEEvent("", "message", "YHOO\n+2\n10")]
    assert whole(b"data\n\ndata\ndata\n\ndata:") == [SSEEvent("", "message", ""), SSEEvent("", "message", "\n")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_end_of_line(end: bytes) -> None:
    stream = end.join([b"event: add", b"data: a\tb", b"id: 7", b"", b"data: c", b"", b""])
    assert whole(stream) == [SSEEvent("7", "add", "a\tb"), SSEEvent("7", "message", "c")]


def test_one_byte_order_mark_is_skipped_and_only_one() -> None:
    assert whole(b"\xef\xbb\xbfdata: a\n\n") == [SSEEvent("", "message", "a")]
    assert whole(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n") == []


def test_fields_that_are_ignored() -> None:
    decoder = SSEDecoder("41")
    events = decoder.feed(b"id: a\0b\nretry: soon\nretry: 1500\nretry: 99999999999\nweather: fine\n:\ndata: x\n\n")
    assert events == [SSEEvent("41", "message", "x")]
    assert (decoder.retry, decoder.comments) == (1.5, 1)


def test_an_event_without_data_gives_nothing_but_its_id() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"event: nothing\nid: 3\n\ndata: x\n\n") == [SSEEvent("3", "message", "x")]


def test_what_the_end_cuts_off_is_dropped() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n") == [SSEEvent("1", "message", "a")]


def feed_all(decoder: SSEDecoder, pieces: list[bytes]) -> list[SSEEvent]:
    return [event for piece in pieces for event in decoder.feed(piece)]


def test_a_line_and_an_event_are_bounded_in_any_pieces() -> None:
    for size in (1, 7, 1000):
        decoder = SSEDecoder(limit_bytes=100)
        with pytest.raises(RemoteProtocolError, match="line of more than 100 bytes"):
            feed_all(decoder, [b"x" * size] * (10_000 // size))
        assert decoder._tail_bytes <= 100 + size
    decoder = SSEDecoder(limit_bytes=100)
    with pytest.raises(RemoteProtocolError, match="event of more than 100 bytes"):
        feed_all(decoder, [b"data: 0123456789\n"] * 100)


def test_a_limit_that_allows_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="limit_bytes=0"):
        SSEDecoder(limit_bytes=0)


LINES = st.sampled_from(
    [
        *(
            b"data: one",
            b"data:two",
            b"data",
            b"data: \xe4\xb8\xad\xf0\x9f\x8d\xb5",
            b"data: \xff\xfe",
            b"id: 5",
            b"id",
        ),
        *(
            b"event: add",
            b"event:",
            b": comment",
            b"retry: 20",
            b"",
            b"",
            b"",
            b"\xef\xbb\xbf",
            b"odd: field",
            b"\0",
            b"id",
        ),
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda lines: b"".join(a + b for a, b in lines))


def reference(stream: bytes) -> list[SSEEvent]:
    """The standard's own words, over the whole text."""
    text = stream.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events, last_id, kind, data = [], "", "", ""
    for line in text.split("\n")[:-1]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                events.append(SSEEvent(last_id, kind or "message", data.removesuffix("\n")))
            kind = data = ""
        elif field == "data":
            data += value + "\n"
        elif field == "event":
            kind = value
        elif field == "id" and "\0" not in value:
            last_id = value
    return events


@given(st.one_of(STREAMS, st.binary(max_size=60)), st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_what_the_standard_says(stream: bytes, cuts: list[int]) -> None:
    decoder, events, at = SSEDecoder(), [], 0
    for cut in [*sorted(cuts), len(stream)]:
        events += decoder.feed(stream[at:cut])
        at = max(at, cut)
    assert events == whole(stream) == reference(stream)


@given(STREAMS)
def test_byte_by_byte(stream: bytes) -> None:
    decoder = SSEDecoder()
    assert feed_all(decoder, [bytes([byte]) for byte in stream]) == whole(stream)


@pytest.mark.parametrize(
    ("stream", "event"),
    [
        (b"data: a", ("", "message", "a")),
        (b"data: a\r", ("", "message", "a")),
        (b"data: a\r\n", ("", "message", "a")),
        (b"id: 2\nevent: b\ndata: a\n", ("2", "b", "a")),
        (b"data: a\n\n", None),
        (b"data: a\r\n\r", ("", "message", "a")),
        (b"id: 2", None),
        (b"", None),
    ],
)
def test_what_the_end_cuts_off_is_given_to_who_asks(stream: bytes, event: tuple[str, str, str] | None) -> None:
    decoder = SSEDecoder()
    before = decoder.feed(stream)
    assert decoder.finish() == ([] if event is None or before else [SSEEvent(*event)])
    assert decoder.finish() == []


def test_lines_that_are_no_field_are_kept_up_to_a_limit() -> None:
    decoder = SSEDecoder()
    decoder.feed(b'{\n "error": "boom"\n}\ndata: x\n\n: ping\nid: 1\n\0\n')
    assert decoder.stray == b'{\n "error": "boom"\n}\n\0\n'
    decoder.feed(b"odd: field\n" * 10_000)
    assert len(decoder.stray) == 4096
