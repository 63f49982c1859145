"""Stop sequences: every split of every small text, against `str.find`; and random ones by hypothesis."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import UsageError
from multimodal.pipes.stops import StopSequences

STOP_LISTS: tuple[tuple[str, ...], ...] = (
    ("a",),
    ("ab",),
    ("aa", "aab"),
    ("aba",),
    ("abab", "ba"),
    ("aab", "ab", "b"),
    ("abba", "bb"),
    ("aaab", "aa"),
    ("bab", "abaab"),
)


def expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """What is shown and the stop that was met: the earliest end counts, then the earliest begin."""
    found = [(text.find(stop) + len(stop), text.find(stop), stop) for stop in stops if stop in text]
    if not found:
        return text, None
    _, begin, stop = min(found)
    return text[:begin], stop


def splits(text: str) -> Iterator[list[str]]:
    for borders in itertools.product((False, True), repeat=max(0, len(text) - 1)):
        pieces, begin = [], 0
        for place, border in enumerate(borders, 1):
            if border:
                pieces.append(text[begin:place])
                begin = place
        yield [*pieces, text[begin:]]


def held_for(text: str, stops: Sequence[str]) -> int:
    """The longest end of a text without stops with which a stop begins."""
    return max(
        (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])),
        default=0,
    )


def assert_least_held(pieces: Sequence[str], stops: Sequence[str]) -> None:
    """The whole is what `find` says, and after each piece no more is held than must be, and no less."""
    whole = "".join(pieces)
    text, hit = expected(whole, stops)
    reader, shown, read = StopSequences(stops), "", ""
    for piece in pieces:
        shown += reader.push(piece)
        read += piece
        so_far, stopped = expected(read, stops)
        if stopped is None:
            assert shown == read[: len(read) - held_for(read, stops)]
            assert reader.held == len(read) - len(shown)
        else:
            assert (shown, reader.hit, reader.held) == (so_far, stopped, 0)
    shown += reader.flush()
    assert (shown, reader.hit) == (text, hit)
    assert reader.flush() == ""


@pytest.mark.parametrize("stops", STOP_LISTS, ids="|".join)
def test_every_split_of_every_small_text(stops: tuple[str, ...]) -> None:
    for length in range(8):
        for characters in itertools.product("abc" if length < 5 else "ab", repeat=length):
            for pieces in splits("".join(characters)):
                assert_least_held(pieces, stops)


@pytest.mark.parametrize("stop", ["aabaaaa", "abaababa", "aabaabaaab"])
def test_every_text_letter_by_letter_for_a_stop_that_repeats_itself(stop: str) -> None:
    for length in range(1, 13):
        for letters in itertools.product("ab", repeat=length):
            assert_least_held(letters, [stop])


@given(st.lists(st.text("ab\n👍é", max_size=4), max_size=12), st.lists(st.text("ab\n👍é", min_size=1, max_size=5)))
def test_random_pieces_and_stops(pieces: list[str], stops: list[str]) -> None:
    assert_least_held(pieces, stops)


def test_the_earliest_end_counts_and_then_the_earliest_begin() -> None:
    inner = StopSequences(["abcd", "bc"])
    assert (inner.push("xabc"), inner.hit) == ("xa", "bc")
    longer = StopSequences(["c", "bc", "abc"])
    assert (longer.push("xabc"), longer.hit) == ("x", "abc")


def test_nothing_is_shown_behind_a_stop() -> None:
    reader = StopSequences(["\n\nHuman:"])
    assert reader.push("Good.\n\nHum") == "Good."
    assert reader.push("an: hello") == ""
    assert reader.hit == "\n\nHuman:"
    assert reader.push("more") + reader.flush() == ""


def test_an_end_that_only_looked_like_a_stop_is_not_lost() -> None:
    reader = StopSequences(["\n\nHuman:"])
    assert reader.push("Good.\n\nHum") == "Good."
    assert reader.held == 5
    assert reader.flush() == "\n\nHum"
    assert reader.hit is None


def test_only_what_may_be_a_stop_is_held() -> None:
    reader = StopSequences(["\n\nHuman:"])
    assert [reader.push(text) for text in ("One\n", "\n", "\n", "Two")] == ["One", "", "\n", "\n\nTwo"]


def test_no_stops_let_everything_through() -> None:
    reader = StopSequences([])
    assert reader.push("any") == "any"
    assert reader.flush() == ""


def test_a_stop_is_compared_code_point_by_code_point() -> None:
    reader = StopSequences(["e\u0301"])
    assert reader.push("é e") == "é "
    assert (reader.push("\u0301!"), reader.hit) == ("", "e\u0301")


def test_a_text_full_of_beginnings_costs_each_character_once() -> None:
    """100 stops of 1,000 characters over 200,000: a search anew from every place would take hours."""
    stops = ["a" * 900 + f"{number:0100}" for number in range(100)]
    reader, began = StopSequences(stops), time.monotonic()
    shown = sum(len(reader.push("a")) for _ in range(200_000))
    assert shown == 200_000 - 900
    assert len(reader.flush()) == 900
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("stops", "said"),
    [(["a", ""], r"stop\[1\] is empty"), (["a", 1], r"stop\[1\] is a int"), ("abc", "list of strings")],
)
def test_wrong_stops_are_refused(stops: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        StopSequences(stops)
