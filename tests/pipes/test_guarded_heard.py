"""What viewers hear of a guarded narration: no falsehood of its making, and the same text however it was cut."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import GuardedTextPipe, GuardMode
from multimodal.values import Product
from tests.support import virtual

TEAPOT = Product(
    "briar",
    "Briar Teapot",
    price=Decimal("38.50"),
    currency="EUR",
    facts=(("material", "stoneware"), ("weight", "850 g"), ("colour", "moss green")),
)
LAMP = Product(
    "luma",
    "Luma Lamp",
    price=Decimal("129.50"),
    currency="EUR",
    facts=(("material", "oak, brass"), ("weight", "2.4 kg"), ("origin", "Denmark")),
)
GUARD = FactGuard(FactSheet.of(each) for each in (TEAPOT, LAMP))
OF = {
    "briar": [
        "{It} is made of stoneware. ",
        "{It} weighs 850 grams. ",
        "{It} costs 38.50 euros.\n\n",
        "{It} is green! ",
    ],
    "luma": [
        "{It} is of oak and brass. ",
        "{It} weighs 2.4 kg. ",
        "{It} costs 129.50 euros.  ",
        "{It} is from Denmark. ",
    ],
}
TITLES = {"briar": "The Briar Teapot", "luma": "The Luma Lamp"}
IDLE = ["It is a joy. ", "What a day! ", "Shall we go on? "]


def heard(deltas: Sequence[str], mode: GuardMode) -> tuple[list[str], GuardedTextPipe]:
    async def source() -> AsyncIterator[str]:
        for delta in deltas:
            yield delta

    async def scenario() -> tuple[list[str], GuardedTextPipe]:
        pipe = GuardedTextPipe(source(), GUARD, mode)
        return [token.text async for token in pipe], pipe

    return virtual(scenario())


def narration(dice: random.Random, falsehoods: float) -> str:
    """Sentences about two products, with a name of their own or without."""
    said, about = "", ""
    for _ in range(dice.randint(2, 8)):
        if dice.random() < 0.2:
            said += dice.choice(IDLE)
            continue
        named = not about or dice.random() < 0.5
        about = dice.choice(list(OF)) if named else about
        of = about if dice.random() >= falsehoods else dice.choice(list(OF))
        said += dice.choice(OF[of]).format(It=TITLES[about] if named else "It")
    return said


def cut(text: str, dice: random.Random) -> list[str]:
    places = sorted(dice.sample(range(1, len(text)), dice.randint(0, min(12, len(text) - 1))))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize("mode", ["hold", "stop"])
def test_what_is_heard_holds_no_falsehood_whatever_was_left_out(mode: GuardMode) -> None:
    dice, left_out = random.Random(5), 0
    for _ in range(400):
        text = narration(dice, 0.4)
        deltas = cut(text, dice)
        tokens, pipe = heard(deltas, mode)
        assert GUARD.violations("".join(tokens)) == [], text
        assert bool(pipe.left_out) == bool(GUARD.violations(text)), text
        assert mode == "stop" or len(tokens) in {len(deltas), len(deltas) + 1}
        left_out += pipe.left_out
    assert left_out > 100


@pytest.mark.parametrize("mode", ["hold", "stop", "flag"])
def test_what_is_true_passes_as_it_is(mode: GuardMode) -> None:
    dice = random.Random(6)
    for _ in range(200):
        text = narration(dice, 0)
        tokens, pipe = heard(cut(text, dice), mode)
        assert ("".join(tokens), pipe.left_out) == (text, 0)


def test_a_sentence_that_would_be_heard_of_another_product_falls_too() -> None:
    text = "The Briar Teapot is stoneware. The Luma Lamp is marble. It weighs 2.4 kg. It is a joy. It weighs 850 g. "
    tokens, pipe = heard([text], "hold")
    assert "".join(tokens) == "The Briar Teapot is stoneware. It is a joy. "
    # Told is what was wrong of what it was said of.
    assert [(each.said, each.product) for each in pipe.violations] == [("marble", "luma"), ("850 g", "luma")]
    assert pipe.left_out == 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is good. The Luma Lamp is marble. It is nice.", "It is good. It is nice."),
        ("The Luma Lamp is marble. It is nice.", "It is nice."),
        ("It is good.\n\nThe Luma Lamp is marble. It is nice. ", "It is good.\n\nIt is nice. "),
        (
            "It is good. The Luma Lamp is marble. It is of oak.  Nice! It is slate. ",
            "It is good. It is of oak.  Nice! ",
        ),
        ("很好。Luma Lamp 由大理石制成。真好！", "很好。真好！"),
    ],
)
def test_what_is_heard_is_the_same_for_every_cut(text: str, shown: str) -> None:
    dice = random.Random(7)
    for deltas in ([text], list(text), *(cut(text, dice) for _ in range(150))):
        tokens, _ = heard(deltas, "hold")
        assert "".join(tokens) == shown, deltas


def test_what_is_no_guard_is_said_at_once() -> None:
    with pytest.raises(UsageError, match=r"give FactGuard\(FactSheet.of"):
        GuardedTextPipe(iter([]), None)  # type: ignore[arg-type]
    for wrong in ([TEAPOT, LAMP], None, "teapot"):
        with pytest.raises(UsageError, match=r"give FactSheet\.of"):
            FactGuard(wrong)  # type: ignore[arg-type]
