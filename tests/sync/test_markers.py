"""Markers come out of the text whole, however it is cut, and nothing else does."""

from __future__ import annotations

from itertools import combinations

import pytest

from multimodal.sync.markers import Marker, MarkerFilter


def parts(pieces: list[str], limit: int = 40) -> tuple[str, list[Marker]]:
    """(the text that is seen, the markers)."""
    sieve = MarkerFilter(limit)
    out = [piece for number, text in enumerate(pieces) for piece in sieve.feed(text, number)]
    out += sieve.finish()
    assert not sieve.feed("", 99)
    return "".join(piece[1] for piece in out if isinstance(piece, tuple)), [p for p in out if isinstance(p, Marker)]


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a [link] b",
        "[[wiki]]",
        "[[[[",
        "[[show me]]",
        "array[[0]]",
        "]] [[",
        "[",
        "x[[",
        "show:x]]",
        "[[ show:x]]",
    ],
)
def test_text_in_brackets_that_is_no_marker_passes(text: str) -> None:
    for pieces in ([text], list(text)):
        assert parts(pieces) == (text, [])


@pytest.mark.parametrize(
    ("text", "shown", "bodies"),
    [
        ("a[[show:x]]b", "ab", ["x"]),
        ("[[show:x]]", "", ["x"]),
        ("[[SHOW:X|hold]] ", " ", ["X|hold"]),
        ("a [[show: halo kettle | skip ]], b", "a , b", [" halo kettle | skip "]),
        ("[[[show:x]]]", "[]", ["x"]),
        ("[[show:x]][[show:y]]", "", ["x", "y"]),
        ("[[sh[[show:x]]", "[[sh", ["x"]),
        ("[[show:]]b", "b", [""]),
        ("茶[[show:x]]壶", "茶壶", ["x"]),
    ],
)
def test_markers_are_taken_out(text: str, shown: str, bodies: list[str]) -> None:
    for pieces in ([text], list(text)):
        seen, found = parts(pieces)
        assert seen == shown
        assert [marker.body for marker in found] == bodies
        assert not any(marker.broken for marker in found)


@pytest.mark.parametrize(
    ("text", "shown", "gone", "says"),
    [
        ("a [[show:x", "a ", "[[show:x", "ends before"),
        ("a [[show:x the rest", "a  the rest", "[[show:x", "ends before"),
        ("a [[sho", "a ", "[[sho", "ends before"),
        ("a [[show:x]", "a ", "[[show:x]", "ends before"),
        ("[[show:x] the rest", " the rest", "[[show:x]", "one bracket"),
        ("[[show:x]the rest", "the rest", "[[show:x]", "one bracket"),
        ("[[show:x\nnext", "\nnext", "[[show:x", "line ends"),
        ("[[show:x [y]", " [y]", "[[show:x", "next bracket"),
        ("[[show:茶壶很好", "茶壶很好", "[[show:", "ends before"),
        ("[[show:" + "x" * 60 + "]] on", " on", "[[show:" + "x" * 32, "within 40"),
        ("[[show:" + "x" * 60 + "]]on", "on", "[[show:" + "x" * 32, "within 40"),
        ("[[show:" + "x" * 60, "", "[[show:" + "x" * 32, "within 40"),
        (
            "[[show:x is a kettle that boils in ninety seconds",
            " is a kettle that boils in ninety seconds",
            "[[show:x",
            "40",
        ),
    ],
)
def test_a_broken_marker_loses_its_code_and_the_narration_stays(text: str, shown: str, gone: str, says: str) -> None:
    for pieces in ([text], list(text)):
        seen, found = parts(pieces)
        assert seen == shown
        assert [(marker.text, marker.body) for marker in found] == [(gone, "")]
        assert says in found[0].broken


@pytest.mark.parametrize(
    "text",
    ["See [[show:x|hold]] it", "a[[[show:x]]]b", "[[show:x] y", "[[sh[[show:x]]", "[[show:" + "x" * 40 + "]] on"],
)
def test_every_pair_of_cuts_gives_the_same(text: str) -> None:
    seen, found = parts([text])
    for a, b in combinations(range(len(text) + 1), 2):
        other, markers = parts([text[:a], text[a:b], text[b:]])
        assert other == seen
        assert [(m.text, m.body, m.broken) for m in markers] == [(m.text, m.body, m.broken) for m in found]


def test_a_marker_knows_the_piece_in_which_it_began() -> None:
    sieve = MarkerFilter(40)
    assert sieve.feed("a[", 0) == [(0, "a")]
    assert (sieve.busy, sieve.opened_in) == (True, 0)
    assert sieve.feed("[show:x]", 1) == []
    assert sieve.feed("]b", 2) == [Marker(0, "[[show:x]]", "x"), (2, "b")]
    assert (sieve.busy, sieve.opened_in) == (False, None)


def test_what_is_held_goes_back_to_its_own_pieces() -> None:
    sieve = MarkerFilter(40)
    assert sieve.feed("a[", 0) == [(0, "a")]
    assert sieve.feed("[sh", 1) == []
    assert sieve.feed("ip]]", 2) == [(0, "["), (1, "[sh"), (2, "ip]]")]


def test_no_more_is_held_than_the_limit() -> None:
    sieve = MarkerFilter(40)
    longest = 0
    for number, character in enumerate("[[show:" + "a b" * 50):
        sieve.feed(character, number)
        longest = max(longest, len(sieve._held))
    assert longest == 39
