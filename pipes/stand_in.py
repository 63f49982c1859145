"""What the extractive narrator says in the place of a model that said something wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from string import Formatter

from multimodal.pipes.extractive import narrator_split
from multimodal.pipes.facts import Fact, FactSheet
from multimodal.pipes.planner import MOST, families, said_in, sayable
from multimodal.pipes.planner_base import Picker, filled, neat, stopped
from multimodal.pipes.planner_en import English
from multimodal.pipes.planner_zh import Chinese, spaced
from multimodal.sync.cues import mention_end

__all__ = ["passage_instead", "stand_in"]


def stand_in(sheet: FactSheet, facts: Sequence[Fact] = (), *, seed: int = 0) -> Callable[[str], list[str]]:
    """What `GuardedTextPipe` calls for the tokens that end a product's passage.

    Args:
        sheet, facts, seed: as for `passage_instead`.
    """
    return partial(_tokens, sheet, tuple(facts), seed)


def passage_instead(sheet: FactSheet, said: str, facts: Sequence[Fact] = (), *, seed: int = 0) -> str:
    """The sentences that end a passage: they name the product if nothing before does, and say the facts that are left.

    Args:
        sheet: of the product.
        said: what was said of it before.
        facts: to be said; none = those that the extractive narrator would take first.
        seed: another one gives other words for the same facts.
    """
    picker, chinese = Picker(seed), sheet.language == "zh"
    words = Chinese(sheet, picker) if chinese else English(sheet, picker)
    groups = sayable(sheet, words)
    priced = [fact for fact in sheet.facts if fact.name in words.price_names][:1]
    asked = set(facts) or {*priced, *(fact for fact, _ in groups[: MOST - len(priced)])}
    left = [(fact, values) for fact, values in groups if fact in asked and not said_in(fact, said)]
    sentences = [] if mention_end(said, (sheet.title, *sheet.aliases)) is not None else [_opening(words, picker)]
    sentences += words.sentences([words.clause(fact, values) for fact, values in left])
    sentences += [
        stopped(neat(words.price(fact)), words.stop) for fact in priced if fact in asked and not said_in(fact, said)
    ]
    return ("" if chinese else " ").join(sentence.strip() for sentence in sentences)


def _tokens(sheet: FactSheet, facts: tuple[Fact, ...], seed: int, said: str) -> list[str]:
    text = passage_instead(sheet, said, facts, seed=seed)
    apart = bool(text and said) and not said[-1].isspace() and sheet.language != "zh"
    return narrator_split(f" {text}" if apart else text)


def _opening(words: English | Chinese, picker: Picker) -> str:
    """A sentence that names the product and claims nothing."""
    language = "zh" if isinstance(words, Chinese) else "en"
    fits = [
        family.text
        for family in families(language)
        if not family.place and {name for _, name, _, _ in Formatter().parse(family.text) if name} <= {*words.words}
    ]
    # Some compare prices, which they do without a slot.
    plain = [text for text in fits if not any(word in text for word in ("price", "less", "价格"))]
    chosen = picker.pick("family", plain)
    return spaced(chosen, words.words) if language == "zh" else filled(chosen, words.words)
