"""`bench int8` on the fixture model."""

from __future__ import annotations

import argparse

import pytest

from multimodal.bench import int8
from tests.support import TINY_LLAMA


def test_it_reports_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "narrator_model", lambda: TINY_LLAMA)
    found = int8.run(argparse.Namespace(quick=True))
    figures = {entry["what"]: entry["value"] for entry in found["figures"]}
    assert figures["weights, int8 over float32"] < 0.5
    # The fixture has the text of the shop by heart; int8 must not make it forget.
    assert figures["perplexity, int8"] == pytest.approx(figures["perplexity, float32"], rel=0.1)
    assert figures["same likeliest token on the same text"] > 0.9
    assert {"first token, int8 over float32", "tokens/s, int8 over float32"} <= set(figures)
    assert found["ours"]["text_tokens"] >= 900
    assert all(entry["limit"] is None for entry in found["figures"]), "a quick run judges nothing"


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [([1, 2, 3, 4], [1, 2, 3, 4], 1.0), ([1, 2, 3, 4], [1, 2, 9, 4], 0.5), ([1], [1, 2], 0.5), ([1], [2], 0.0)],
)
def test_leading_tokens_are_those_before_the_first_that_differs(
    ours: list[int], theirs: list[int], share: float
) -> None:
    assert int8._leading(ours, theirs) == share
