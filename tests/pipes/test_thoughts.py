"""What a model thinks is left out, wherever it is split, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.pipes.thoughts import Thoughts

TABLE = {
    "<think>so</think>Yes.": "Yes.",
    "<think>so</think>\n\nYes.": "Yes.",
    "<think>\n\n</think>\n\n Yes. ": "Yes. ",
    "<think>a < b <think> c</thin</think>Yes.": "Yes.",
    "One. <think>so</think> Two.": "One.  Two.",
    "<think>a</think><think>b</think> Yes.": "Yes.",
    "<think>a": "",
    "One. <think>a": "One. ",
    "One.<think>a</thi": "One.",
    "</think>\nYes.": "Yes.",
    "a <b> </thin <thinking> <th": "a <b> </thin <thinking> <th",
    "<<think>a</think>b": "<b",
    "<": "<",
    "": "",
}


def shown(pieces: list[str]) -> tuple[str, Thoughts]:
    thoughts, out = Thoughts(), ""
    for piece in pieces:
        out += thoughts.push(piece)
        assert len(thoughts._held) < len("</think>")
    return out + thoughts.flush(), thoughts


@pytest.mark.parametrize(("text", "said"), TABLE.items())
def test_split_anywhere_it_is_the_same(text: str, said: str) -> None:
    assert shown([text])[0] == shown(list(text))[0] == said
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            assert shown([text[:first], text[first:second], text[second:]])[0] == said


def test_what_cannot_be_a_tag_is_shown_at_once() -> None:
    thoughts = Thoughts()
    assert [thoughts.push(piece) for piece in ("a", "<", "b", "<th", "e", "</", "x")] == [
        "a",
        "",
        "<b",
        "",
        "<the",
        "",
        "</x",
    ]


def test_a_thought_that_never_began_is_told_where_it_was_said() -> None:
    for text, unopened in (("so</think>Yes.", True), (" </think>Yes.", False), ("<think>a</think></think>b", False)):
        for pieces in ([text], list(text)):
            assert shown(pieces)[1].unopened is unopened


PIECES = st.lists(st.sampled_from(["<", "think>", "/", "<think>", "</think>", "a", " ", "<th", "ink>"]), max_size=12)


@given(PIECES)
def test_pieces_or_one_text(pieces: list[str]) -> None:
    whole, one = shown(["".join(pieces)])
    said, other = shown(pieces)
    assert (said, other.inside, other.unopened) == (whole, one.inside, one.unopened)
