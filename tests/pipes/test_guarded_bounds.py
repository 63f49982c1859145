"""What a guarded pipe reads at once and keeps, whatever its deltas look like."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator

import pytest

from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import SENTENCE_CHARS, GuardedTextPipe, GuardMode
from multimodal.values import Product, Token
from tests.support import virtual

LONG = 6_000


class Counting(FactGuard):
    """Counts what it judges."""

    def __init__(self) -> None:
        super().__init__([FactSheet.of(Product("kettle", "Halo Kettle", facts=(("material", "oak"),)))])
        self.lengths: list[int] = []

    def judge(self, sentence: str, product: str, **more: bool) -> object:  # type: ignore[override]
        self.lengths.append(len(sentence))
        return super().judge(sentence, product, **more)


def guarded(guard: FactGuard, mode: GuardMode, deltas: list[str]) -> tuple[list[Token], GuardedTextPipe]:
    async def source() -> AsyncIterator[str]:
        for delta in deltas:
            yield delta

    async def scenario() -> tuple[list[Token], GuardedTextPipe]:
        pipe = GuardedTextPipe(source(), guard, mode)
        return [token async for token in pipe], pipe

    return virtual(scenario())


@pytest.mark.parametrize("mode", ["hold", "flag"])
@pytest.mark.parametrize(
    "unit", ["and-", "oak-", "一", "a b ", " ", ". ", "e\u0301", "\u0301", "👍🏽", "Of oak. It is "]
)
@pytest.mark.parametrize("size", [LONG, 1])
def test_a_sentence_is_as_long_as_it_may_be_whatever_its_deltas(unit: str, size: int, mode: GuardMode) -> None:
    text, guard = (unit * LONG)[:LONG], Counting()
    tokens, pipe = guarded(guard, mode, [text[at : at + size] for at in range(0, LONG, size)])
    assert "".join(token.text for token in tokens) == text
    assert max(guard.lengths, default=0) <= SENTENCE_CHARS
    assert sum(guard.lengths) <= LONG
    assert pipe.violations == []


def test_a_cut_in_a_long_run_leaves_marks_with_their_letters() -> None:
    text = "e\u0301" * LONG
    tokens, _ = guarded(Counting(), "hold", [text[:501], text[501:]])
    assert "".join(token.text for token in tokens) == text
    assert not any(unicodedata.combining(token.text[0]) for token in tokens if token.text and token is not tokens[1])


def test_what_was_said_is_kept_only_for_what_is_said_instead() -> None:
    _, pipe = guarded(Counting(), "hold", ["It is of oak. "] * 100)
    assert pipe._said == []
