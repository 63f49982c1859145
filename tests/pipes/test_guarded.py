"""A narration behind the fact guard: what passes, what is told, what is left out, and where its tokens stand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard, Violation
from multimodal.pipes.guarded import GuardedTextPipe
from multimodal.pipes.script import ScriptTextPipe
from multimodal.sync.conformance import check_text_pipe
from multimodal.values import Product, Token
from tests.support import virtual

KETTLE = Product(
    "kettle",
    "Halo Kettle",
    price=Decimal(89),
    currency="EUR",
    facts=(("material", "enamelled steel, brass"), ("capacity", "1.6 litres"), ("colour", "deep green")),
)
MUG = Product("mug", "Fern Mug", price=Decimal(24), currency="EUR", facts=(("material", "stoneware"),))
GUARD = FactGuard(FactSheet.of(each) for each in (KETTLE, MUG))

TRUE = ["The Halo Kettle holds 1.6 litres. ", "It is of steel and brass, for eighty-nine euros. "]
FALSE = ["It holds 1.5 litres. ", "The Fern Mug costs 89 euros. ", "It is of oak. "]
END = ["The Fern Mug costs 24 euros."]


async def said(mode: str, text: str, **more: object) -> tuple[list[Token], GuardedTextPipe]:
    pipe = GuardedTextPipe(ScriptTextPipe(text, gap=0.01), GUARD, mode, **more)  # type: ignore[arg-type]
    return [token async for token in pipe], pipe


def test_flag_lets_everything_pass_at_once_and_tells() -> None:
    async def scenario() -> None:
        told: list[Violation] = []
        text = "".join([TRUE[0], FALSE[0], TRUE[1], FALSE[1], FALSE[2], *END])
        tokens, pipe = await said("flag", text, on_violation=told.append)
        plain = [token async for token in ScriptTextPipe(text, gap=0.01)]
        assert [token.text for token in tokens] == [token.text for token in plain]
        assert [(each.kind, each.said, each.product) for each in told] == [
            ("number", "1.5 litres", "kettle"),
            ("price", "89 euros", "mug"),
            ("material", "oak", "mug"),
        ]
        assert told == pipe.violations
        assert "its sheet says: 1.6 litres" in str(told[0])
        assert pipe.left_out == 0

    virtual(scenario())


def test_hold_leaves_false_sentences_out_and_keeps_every_token_in_its_place() -> None:
    async def scenario() -> None:
        pieces = [TRUE[0], FALSE[0], TRUE[1], FALSE[1], FALSE[2], *END]
        tokens, pipe = await said("hold", "".join(pieces))
        plain = [token async for token in ScriptTextPipe("".join(pieces), gap=0.01)]
        assert pipe.left_out == 3
        assert tokens[-1].last
        # What is said keeps its text and its index; what is false is empty there.
        at = 0
        for piece in pieces:
            own = ScriptTextPipe(piece).tokens
            expected = ["" for _ in own] if piece in FALSE else own
            assert [token.text for token in tokens[at : at + len(own)]] == expected
            at += len(own)
        assert len(tokens) == len(plain) == at

    virtual(scenario())


def test_a_token_over_a_sentence_s_end_gives_its_beginning_to_the_next() -> None:
    async def scenario() -> None:
        deltas = [
            "Hel",
            "lo",
            ". ",
            "The Halo Kettle",
            " holds 1.6 litres. It hol",
            "ds 1.5 litres. It is of",
            " steel.",
        ]
        pipe = GuardedTextPipe(ScriptTextPipe(deltas, gap=0.01), GUARD)
        shown = [token.text async for token in pipe]
        assert shown == ["Hel", "lo", ". ", "The Halo Kettle", " holds 1.6 litres. ", "", "It is of steel."]
        spaced = ["A kettle", ".", " The", " Halo Kettle", ".", " It", " is of oak", ".", " Good", "."]
        pipe = GuardedTextPipe(ScriptTextPipe(spaced, gap=0.01), GUARD)
        assert [token.text async for token in pipe] == [*spaced[:5], " ", "", "", "Good", "."]
        several = ["It is of oak. The Halo Kettle. Of oak. Of steel. "]
        pipe = GuardedTextPipe(ScriptTextPipe(several, gap=0.01), GUARD)
        tokens = [token async for token in pipe]
        assert [token.text for token in tokens] == ["The Halo Kettle. Of steel. "]
        assert tokens[-1].last

    virtual(scenario())


def instead(said: str) -> list[str]:
    named = "Halo Kettle" in said
    return [" It", " holds", " 1.6 litres."] if named else ["This is ", "the Halo Kettle."]


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        # What was said stays, and what follows is said in other words.
        (
            ["The Halo Kettle.", " It holds", " 1.5 litres", ".", " It", " hums."],
            "The Halo Kettle. It holds 1.6 litres.",
        ),
        (["Look here.", " The Halo Kettle", " costs 49 euros.", " It hums."], "Look here.This is the Halo Kettle."),
        (["The Halo Kettle", " costs 49 euros."], "This is the Halo Kettle."),
        # Nothing is claimed of a product before it is named, were it true, and none goes by unnamed.
        (["The Hallo Kettle", " holds 1.6 litres", ".", " It hums."], "This is the Halo Kettle."),
        (["What", " a day."], "What a day.This is the Halo Kettle."),
        (["The Halo Kettle", " holds 1.6 litres", "."], "The Halo Kettle holds 1.6 litres."),
        (["A word. The Halo Kettle is of oak. And so on"], "A word. This is the Halo Kettle."),
        # What may be another's waits for the name: a claim, another's name, a name of nobody.
        (["What costs 89 euros?", " The Halo Kettle.", " It hums."], "What costs 89 euros? The Halo Kettle. It hums."),
        (["What costs 24 euros?", " The Halo Kettle."], "This is the Halo Kettle."),
        (["Come to the Fern Mug.", " It hums."], "This is the Halo Kettle."),
        (["Come to the Hallo Kettle.", " The Halo Kettle hums."], "Come to the Hallo Kettle. The Halo Kettle hums."),
        (["Come to the Hallo Kettle.", " It is of steel."], "This is the Halo Kettle."),
        (["Come. To the Hallo Kettle. It is", " of oak."], "This is the Halo Kettle."),
        (
            ["The Halo Kettle goes with the Fern Mug. It costs 89 euros."],
            "The Halo Kettle goes with the Fern Mug. It costs 89 euros.",
        ),
    ],
)
def test_what_is_said_instead_ends_the_passage_and_names_its_product(deltas: list[str], shown: str) -> None:
    async def scenario() -> None:
        script = ScriptTextPipe(deltas, gap=0.01)
        pipe = GuardedTextPipe(script, GUARD, product="kettle", instead=instead)
        tokens = [token async for token in pipe]
        assert "".join(token.text for token in tokens) == shown
        assert [token.last for token in tokens].count(True) == 1
        assert tokens[-1].last
        assert script._ended, "nobody pays for words that are not said"
        assert "".join(token.text for token in tokens).count("Halo Kettle") == 1

    virtual(scenario())


def test_a_passage_is_about_one_product_whatever_words_others_go_by() -> None:
    titles = {"it": "It", "price": "The Price", "home": "Home"}
    guard = FactGuard(
        FactSheet.of(Product(key, title, facts=(("pages", f"{len(title)}00"),))) for key, title in titles.items()
    )

    async def scenario(text: str) -> tuple[str, list[Violation]]:
        pipe = GuardedTextPipe(ScriptTextPipe(text), guard, product="home", instead=lambda said: ["(more)"])
        return "".join([token.text async for token in pipe]), pipe.violations

    told = "Look at Home. It has 400 pages. The price is all right. It has 400 pages."
    assert virtual(scenario(told)) == (told, [])
    assert virtual(scenario("Look at Home. It has 200 pages."))[0] == "Look at Home. (more)"


def test_a_pipe_that_fails_in_the_middle_says_nothing_unjudged() -> None:
    async def scenario() -> None:
        script = ScriptTextPipe(["The Halo Kettle.", " It holds", " 1.6 litres."], fail_at=(2, "lost"), gap=0.01)
        pipe = GuardedTextPipe(script, GUARD, product="kettle", instead=instead)
        assert (await anext(pipe)).text == "The Halo Kettle."
        with pytest.raises(PipeError, match="lost"):
            await anext(pipe)
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)

    virtual(scenario())


def test_stop_ends_before_the_first_false_sentence_and_closes_the_pipe() -> None:
    async def scenario() -> None:
        script = ScriptTextPipe("".join([TRUE[0], FALSE[0], TRUE[1]]), gap=0.01)
        pipe = GuardedTextPipe(script, GUARD, "stop")
        assert "".join([token.text async for token in pipe]) == TRUE[0]
        assert [each.said for each in pipe.violations] == ["1.5 litres"]
        assert script._ended

    virtual(scenario())


def test_a_sentence_without_an_end_is_judged_all_the_same() -> None:
    async def scenario() -> None:
        tokens, pipe = await said("hold", "and it goes on and on " * 100 + "for 7 euros")
        first = next(number for number, token in enumerate(tokens) if token.text)
        assert first < 400
        assert [each.said for each in pipe.violations] == ["7 euros"]

    virtual(scenario())


def test_a_listener_that_fails_harms_nobody() -> None:
    async def scenario() -> None:
        def broken(violation: Violation) -> None:
            raise RuntimeError("no")

        tokens, _ = await said("flag", FALSE[0], product="kettle", on_violation=broken)
        assert "".join(token.text for token in tokens) == FALSE[0]

    virtual(scenario())


def test_a_guarded_pipe_keeps_the_contract() -> None:
    text = "".join([*TRUE, *END])
    for mode in ("flag", "hold", "stop"):
        check_text_pipe(
            lambda mode=mode: GuardedTextPipe(ScriptTextPipe(text, gap=0.01), GUARD, mode),  # type: ignore[misc]
            text=text,
            run=virtual,
        )


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="there are: flag, hold, stop"):
        GuardedTextPipe(ScriptTextPipe("a"), GUARD, "drop")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="replaces none"):
        GuardedTextPipe(ScriptTextPipe("a"), GUARD, "flag", instead=lambda said: [])
    with pytest.raises(UsageError, match="without a fact sheet"):
        FactGuard([])
