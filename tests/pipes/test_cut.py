"""What was cut is not said as if it were whole (T10): by a limit of tokens or a filter, from one answer to a tour."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from multimodal.demos.product_tour.narrators import Narrator, model_voice
from multimodal.errors import SyncError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.base import was_cut
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import GuardedTextPipe
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.whole_words import WholeWords
from multimodal.sync.conformance import check_text_pipe
from multimodal.values import Product, Token
from tests.pipes.model_server import ModelServer, Play, served, sse
from tests.pipes.test_answer import WORDS, engine
from tests.pipes.words import PlainFlow
from tests.support import run, virtual

KETTLE = Product("kettle", "Halo Kettle", price=Decimal(89), currency="EUR", facts=(("capacity", "1.6 litres"),))
MUG = Product("mug", "Fern Mug", price=Decimal(24), currency="EUR", facts=(("material", "stoneware"),))
GUARD = FactGuard(FactSheet.of(each) for each in (KETTLE, MUG))


class Cut(ScriptTextPipe):
    """A written text whose end is a cut."""

    cut = True


class Endless(ScriptTextPipe):
    """The same of a pipe that does not know its end."""

    cut = True

    async def __anext__(self) -> Any:
        token = await super().__anext__()
        return token.text


async def said(pipe: Any) -> str:
    return "".join([token.text async for token in pipe])


def instead(text: str) -> Sequence[str]:
    return [f"<after {text.strip()!r}>"]


@pytest.mark.parametrize("kind", [Cut, Endless])
@pytest.mark.parametrize(
    ("text", "whole", "left_out"),
    [
        ("The Halo Kettle is here. It costs 89 eu", "The Halo Kettle is here.", 1),
        ("The Halo Kettle is here. It has room for 1.", "The Halo Kettle is here.", 1),
        ("The Halo Kettle is here. It costs 89 euros.", "The Halo Kettle is here. It costs 89 euros.", 0),
        ("The Halo Kettle is here. ", "The Halo Kettle is here. ", 0),
        ("云雀水壶在这里。它", "云雀水壶在这里。", 1),
        ("The Halo Kettle is", "", 1),
        ("", "", 0),
    ],
)
def test_behind_the_guard_half_a_sentence_is_left_out(
    kind: type[ScriptTextPipe], text: str, whole: str, left_out: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for mode in ("hold", "stop"):
            pipe = GuardedTextPipe(kind(text or ["", ""]), GUARD, mode)
            assert (await said(pipe)).rstrip() == whole.rstrip()
            assert (pipe.left_out, pipe.violations, pipe.cut) == (left_out, [], False)
        pipe = GuardedTextPipe(kind(text or ["", ""]), GUARD, instead=instead)
        told, _, after = (await said(pipe)).partition("<")
        assert (told.strip(), after) == (whole.strip(), f"after {whole.strip()!r}>")
        flagged = WholeWords(GuardedTextPipe(kind(text or ["", ""]), GUARD, "flag"))
        assert not flagged.cut
        assert await said(flagged) == text
        assert flagged.cut

    virtual(scenario())
    assert caplog.text.count("the fact guard: the text was cut before its end") == 3


def test_a_chain_says_where_it_was_cut_and_ends_there_where_it_is_told_to(caplog: pytest.LogCaptureFixture) -> None:
    def chain(*kinds: type[ScriptTextPipe], ends: bool = False) -> GuidedTextPipe:
        answers = [partial(kind, f"{number}.", gap=0.01) for number, kind in enumerate(kinds)]
        return GuidedTextPipe(answers, narrator="x", unit="word", ends_at_cut=ends)

    async def scenario() -> None:
        for kinds, ends, text, cut in (
            ((Cut, ScriptTextPipe), False, "0.\n\n1.", False),
            ((ScriptTextPipe, Endless), False, "0.\n\n1.", True),
            ((Endless, ScriptTextPipe), True, "0.", True),
            ((Cut, ScriptTextPipe), True, "0.", True),
        ):
            caplog.clear()
            pipe = chain(*kinds, ends=ends)
            assert not pipe.cut
            assert await said(pipe) == text
            assert pipe.cut is was_cut(pipe) is cut
            assert f"answer {1 + (kinds[0] is ScriptTextPipe)} of 2 was cut before its end" in caplog.text

    virtual(scenario())


def test_a_chain_that_is_closed_while_an_answer_is_awaited_stays_closed() -> None:
    class EndsWhenClosed(ScriptTextPipe):
        async def __anext__(self) -> Any:
            await closed.wait()
            raise StopAsyncIteration

        async def aclose(self) -> None:
            closed.set()

    closed = asyncio.Event()

    async def scenario() -> None:
        pipe = GuidedTextPipe([lambda: EndsWhenClosed("a"), lambda: ScriptTextPipe("b")], narrator="x")
        pull = asyncio.ensure_future(anext(pipe, None))
        await asyncio.sleep(0.01)
        await pipe.aclose()
        assert await pull is None
        assert await anext(pipe, None) is None

    virtual(scenario())


@pytest.mark.parametrize(("most", "cut"), [(3, True), (1000, False)])
def test_an_engine_s_answer_says_that_it_reached_its_limit(most: int, cut: bool) -> None:
    async def scenario() -> None:
        request, script = GenerationRequest((1,), most), engine(gap=0.01)
        pipe = AnswerPipe(lambda sync_interval: AnswerReader(script, request, PlainFlow(WORDS, 0.0)))
        assert not pipe.cut
        assert await said(pipe)
        assert (pipe.cut, pipe.finish) == (cut, "length" if cut else "stop")

    virtual(scenario())


def test_a_cut_that_is_no_bool_breaks_the_contract() -> None:
    class Asks(ScriptTextPipe):
        def cut(self) -> bool:
            return False

    assert not was_cut(Asks("a"))
    with pytest.raises(SyncError, match=r"T10: cut is .* at its end; make it a bool"):
        check_text_pipe(lambda: Asks("a b"), run=virtual)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize(
    ("guard", "text"),
    [
        ("hold", "The Halo Kettle is here. {}\n\nThe Fern Mug."),
        ("stop", "The Halo Kettle is here."),
        ("flag", "The Halo Kettle is here. It costs 89 euros and it\n\nThe Fern Mug."),
        ("off", "The Halo Kettle is here. It costs 89 euros and it\n\nThe Fern Mug."),
    ],
)
def test_a_tour_does_not_go_on_behind_half_a_sentence_as_if_it_had_ended(
    guard: str, text: str, finish: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: ModelServer) -> str:
        half = sse("The Halo Kettle is here. ", "It costs 89 euros and it", finish=finish)
        url = server.url("tour", Play([half]))
        voice = model_voice(Narrator(url, "m", guard=guard), [KETTLE, MUG], shop="S", language="en")
        spoken = ""
        async for token in voice():
            spoken += token.text if isinstance(token, Token) else token
            server.plays["tour"].pieces = [sse("The Fern Mug.")]  # to the next who asks
        return spoken

    with served() as server:
        spoken = run(scenario(server))
    before, _, after = text.partition("{}")
    if "{}" in text:  # the facts that were not said, by the extractive narrator
        assert spoken.startswith(before)
        assert spoken.endswith(after)
        rest = spoken.removeprefix(before).removesuffix(after)
        assert "89 euros" in rest
        assert "1.6 litres" in rest
        assert rest.endswith(".")
    else:
        assert spoken.rstrip() == text
    assert "was cut before its end" in caplog.text
