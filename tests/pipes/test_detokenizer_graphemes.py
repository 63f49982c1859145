"""Readers' characters in pieces: what is held, and what leaves at once (G1-G3)."""

from __future__ import annotations

import pytest

from multimodal.pipes.detokenizer_graphemes import LONGEST, Graphemes


@pytest.mark.parametrize("part", ["\u0301", "\u200d👧", "👍\u200d", "\u0e48"])
def test_a_cluster_without_end_is_let_go(part: str) -> None:
    graphemes, text = Graphemes(), ""
    graphemes.push("a")
    for number in range(500):
        text += graphemes.push(part)
        assert len(text) > (number + 1) * len(part) - LONGEST - len(part)
    assert text + graphemes.flush() == "a" + part * 500


@pytest.mark.parametrize(
    ("pieces", "always", "likely"),
    [
        (["👨", "\u200d", "👩", "\u200d👧", "x"], "||||👨\u200d👩\u200d👧|x", "||||👨\u200d👩\u200d👧x|"),
        (["🇹", "🇭", "🇨", "🇳"], "||🇹🇭||🇨🇳", "|🇹🇭||🇨🇳|"),
        (["👍", "🏽", "👍"], "||👍🏽|👍", "||👍🏽|👍"),
        (["$1", "1", "\ufe0f\u20e3", " "], "$|1||1\ufe0f\u20e3| ", "$|11|\ufe0f\u20e3| |"),
        (["1", "\ufe0f\u20e3", " "], "||1\ufe0f\u20e3| ", "||1\ufe0f\u20e3 |"),
        (["ก", "\u0e34", "\u0e48", "น"], "|||ก\u0e34\u0e48|น", "|||ก\u0e34\u0e48|น"),
        (["\u1112", "\u1161", "\u11ab", "가"], "|||\u1112\u1161\u11ab|가", "|||\u1112\u1161\u11ab가|"),
        (["क", "\u094d", "ष", "\u093f"], "||||क\u094dष\u093f", "||||क\u094dष\u093f"),
        (["a\r", "\n", "b"], "a|\r\n||b", "a|\r\n|b|"),
        (["re", "\u0301", "sume"], "r||e\u0301sum|e", "re|\u0301|sume|"),
    ],
)
def test_readers_characters_stay_whole(pieces: list[str], always: str, likely: str) -> None:
    """What each piece lets out, by G1 and by G2; the last entry is what the end lets out."""
    for graphemes, expected in ((Graphemes(), always), (Graphemes("likely"), likely)):
        assert "|".join([*map(graphemes.push, pieces), graphemes.flush()]) == expected


@pytest.mark.parametrize("text", ["é", "你", "한", "が", "Ж", ".", "，", "word", "42", "\n", "ẞ", "🇹🇭"])
def test_what_ordinary_writing_does_not_continue_leaves_at_once(text: str) -> None:
    assert Graphemes("likely").push(text) == text


@pytest.mark.parametrize("text", ["👍", "❤\ufe0f", "ก", "ك", "क", "\u1112", "🇹", "🏴\U000e0067", "7", "$7", "\u0600"])
def test_what_ordinary_writing_continues_is_held(text: str) -> None:
    graphemes = Graphemes("likely")
    assert graphemes.push(text) + graphemes.held == text
    assert graphemes.held


def test_a_digit_behind_digits_becomes_no_keycap() -> None:
    graphemes = Graphemes("likely")
    assert [graphemes.push(text) for text in ("$", "1", "29", "9", " ", "5")] == ["$", "", "129", "9", " ", ""]
