"""Words that come whole: nothing lost, no index moved, nothing that could jump."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.whole_words import LONGEST, WholeWords, WordHold
from multimodal.sync.conformance import check_text_pipe
from tests.support import run, virtual

PIECES = st.lists(st.text(st.sampled_from("abé9 \n.,-。，欧光カ(”🫖"), max_size=4), max_size=20)


@given(pieces=PIECES)
def test_nothing_is_lost_and_a_piece_gives_at_most_what_came(pieces: list[str]) -> None:
    hold = WordHold()
    said = ""
    for number, piece in enumerate(pieces, 1):
        said += hold.push(piece)
        assert "".join(pieces[:number]).startswith(said)
    assert said + hold.flush() == "".join(pieces)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["la", "bel", ":", " 24"], ["", "", "", "label:"]),
        ([" ket", "tle", " is"], ["", "", " kettle"]),
        (["光", "环", "壶", "。", "它"], ["", "光", "环", "", "壶。"]),
        (["X", "200", "台灯", "!"], ["", "", "X200台", ""]),
        (["1", ".", "6", " l"], ["", "", "", "1.6"]),
        (["a ", "b "], ["a", " b"]),
    ],
)
def test_a_word_comes_with_what_shows_that_it_is_complete(pieces: list[str], shown: list[str]) -> None:
    hold = WordHold()
    assert [hold.push(piece) for piece in pieces] == shown


def test_what_has_no_end_is_let_go() -> None:
    hold = WordHold()
    assert hold.push("x" * LONGEST) == ""
    assert hold.push("x") == "x" * (LONGEST + 1)


def test_it_keeps_what_a_text_pipe_owes() -> None:
    words = ["Th", "e la", "bel", ": 2", "4", " eur", "os."]
    check_text_pipe(lambda: WholeWords(ScriptTextPipe(words, gap=0.01)), text="".join(words), run=virtual)


def test_indices_stay_and_the_end_is_flushed() -> None:
    async def plain(*words: str) -> AsyncIterator[str]:
        for word in words:
            yield word

    async def scenario() -> None:
        knows = [token async for token in WholeWords(ScriptTextPipe(["a", "b", " c"], gap=0.0))]
        assert [(token.text, token.last) for token in knows] == [("", False), ("", False), ("ab c", True)]
        pipe = WholeWords(plain("a", "b"), narrator="somebody")
        assert (pipe.narrator, pipe.token_unit) == ("somebody", "token")
        assert [(token.text, token.last) async for token in pipe] == [("", False), ("", False), ("ab", True)]
        with pytest.raises(UsageError, match="played already"):
            aiter(pipe)
        foretold = WholeWords(ScriptTextPipe(["ke", "tt", "le is"], gap=0.0))
        assert (await anext(foretold)).text == ""
        assert foretold.upcoming(5) == "kettl"

    run(scenario())


def test_what_waits_when_the_pipe_fails_comes_before_the_error() -> None:
    async def scenario() -> None:
        pipe = WholeWords(ScriptTextPipe(["The ket", "tle", " is"], gap=0.0, fail_at=(2, "gone")))
        assert [(await anext(pipe)).text for _ in range(3)] == ["The", "", " kettle"]
        with pytest.raises(PipeError, match="gone"):
            await anext(pipe)
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)
        at_once = WholeWords(ScriptTextPipe(["a"], gap=0.0, fail_at=(0, "gone")))
        with pytest.raises(PipeError, match="gone"):
            await anext(at_once)

    run(scenario())


def test_what_waits_when_it_is_closed_is_not_said() -> None:
    async def scenario() -> None:
        pipe = WholeWords(ScriptTextPipe(["ket", "tle"], gap=0.1))
        assert (await anext(pipe)).text == ""
        pull = asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(0.01)
        await pipe.aclose()
        with pytest.raises(StopAsyncIteration):
            await pull

    run(scenario())
