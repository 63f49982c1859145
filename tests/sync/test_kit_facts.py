"""What is said and on no sheet is found, with its words and the token at which they begin."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec
import pytest

from multimodal.errors import DriftError
from multimodal.events import Text
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.sync.kit import assert_only_facts
from multimodal.sync.log import SyncLog
from multimodal.values import Product
from tests.sync.tours import tour

GUARD = FactGuard(
    [
        FactSheet.of(
            Product("kettle", "Halo Kettle", price=Decimal(89), currency="EUR", facts=(("material", "brass"),))
        ),
        FactSheet.of(Product("mug", "Fern Mug", price=Decimal(24), currency="EUR", facts=(("material", "clay"),))),
    ]
)


def told(text: str) -> SyncLog:
    return tour(tokens=[f"{word} " for word in text.split()], declared=[])


def test_a_true_narration_passes_as_a_log_and_as_text() -> None:
    true = "The Halo Kettle is of brass. It costs 89 euros. The Fern Mug is twenty-four euros."
    assert_only_facts(told(true), GUARD)
    assert_only_facts(true, GUARD)


def test_each_claim_is_told_with_its_words_and_its_token() -> None:
    false = (
        "The Halo Kettle is of oak. It costs 79 euros. The Fern Mug is of clay. It costs 79 euros. It costs 79 euros."
    )
    log = told(false)
    with pytest.raises(DriftError) as caught:
        assert_only_facts(log, GUARD)
    verdict, words, token, cause, _timeline, *also = str(caught.value).splitlines()
    assert verdict == "material 'oak' was said of kettle; its sheet says: brass"
    assert "is of|oak" in re.sub(r"\s*\|\s*", "|", words)
    assert token.strip().startswith("token     5,")
    assert "token 5 says 'oak'" in token
    assert cause.startswith("  cause     generator")
    assert also[0] == "  also      price '79 euros' was said of kettle; its sheet says: 89 euros"
    assert [each.count("of mug") for each in also[1:3]] == [1, 1]


def test_the_token_is_that_of_the_claim_where_a_sentence_is_said_twice() -> None:
    from multimodal.sync.claims_said import fact_faults

    log = told("The Halo Kettle costs 79 euros. The Fern Mug is nice. It costs 79 euros. It costs 79 euros.")
    assert [fault.boundary for fault in fact_faults(log, GUARD)] == [4, 13, 17]


def test_a_claim_inside_a_run_of_tokens_is_told_at_its_own_word() -> None:
    from multimodal.sync.claims_said import fact_faults

    log = told("The Halo Kettle is of oak today.")
    first, *_ = log.texts
    run = msgspec.structs.replace(first, text=log.text, token_count=log.tokens)
    events = tuple(
        run if event is first else event for event in log.events if event is first or not isinstance(event, Text)
    )
    assert [fault.boundary for fault in fact_faults(msgspec.structs.replace(log, events=events), GUARD)] == [5]


def test_a_text_names_its_claims_too() -> None:
    with pytest.raises(DriftError, match="price '79 euros' was said of kettle"):
        assert_only_facts("The Halo Kettle costs 79 euros.", GUARD)
    many = "The Halo Kettle costs " + ", ".join(f"{price} euros" for price in range(30, 40)) + "."
    with pytest.raises(DriftError, match="6 more"):
        assert_only_facts(many, GUARD)


def test_any_object_with_violations_will_do() -> None:
    class Word(msgspec.Struct):
        sentence: str
        said: str

    class NoNice:
        def violations(self, text: str) -> list[Word]:
            return [Word(text.strip(), "nice")] if "nice" in text else []

    assert_only_facts("All is well.", NoNice())
    with pytest.raises(DriftError, match="token 2 says 'nice'"):
        assert_only_facts(told("It is nice."), NoNice())
