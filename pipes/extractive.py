"""The extractive narrator: a tour told from the catalogue's own facts by a planner of sentences, without a model.

It speaks in the tokens of a real tokenizer, and is known by its name wherever a narrator is named. Nothing in it can
say what the catalogue does not: `multimodal.pipes.planner` has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import regex

from multimodal.pipes.bpe import narrator_tokenizer
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.planner import MOST, Passage, plan_passages
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.spoken import BREATH, breathes, spoken
from multimodal.sync.cues import Segment, TourPlan, mention_end, plan_tour
from multimodal.values import Product

__all__ = ["EXTRACTIVE", "ExtractiveTextPipe", "extractive_plan", "extractive_segments", "narrator_split"]

EXTRACTIVE = "extractive"
"""The narrator's name on the page, in recordings and in what `tour --check --json` prints."""

_SENTENCES = re.compile(r"[^.!?。！？]*(?:[.!?](?=\S)[^.!?。！？]*)*[.!?。！？]")
_UNITS = regex.compile(
    r"\s*[\p{Ps}\p{Pi}]*(?:[\p{Han}\p{Hiragana}\p{Katakana}]|[^\s\p{Han}\p{Hiragana}\p{Katakana}]+?"
    r"(?=[\s\p{Han}\p{Hiragana}\p{Katakana}]|$))[\p{Pe}\p{Pf}\p{Po}]*|\s+$"
)
"""What a line is not broken within: a word or an ideograph, what opens before it and the marks after it."""
_CLIP = re.compile(r"\.(?:webm|mp4|m4v|mov|mkv|avi|gif)(?:[?#].*)?$", re.IGNORECASE)


class ExtractiveTextPipe(ScriptTextPipe):
    """Plays a planned tour token by token (T1-T9), at a narrator's pace.

    Args:
        plan: of `extractive_plan`; its `cues` go to the stream.
        speed: divides every time: 2 is twice as fast.
        paced: False = as fast as it is read.

    Raises:
        UsageError: a speed that is not above 0.
    """

    narrator = EXTRACTIVE

    def __init__(self, plan: TourPlan, *, speed: float = 1.0, paced: bool = True) -> None:
        tokens = list(plan.tokens)
        gaps = [spoken(token) for token in tokens] if paced else []
        stalls = dict.fromkeys(_breaths(tokens), BREATH) if paced else {}
        super().__init__(tokens, gap=gaps or 0.0, speed=speed, stalls=stalls)


def extractive_plan(
    products: Sequence[Product],
    *,
    shop: str = "",
    language: str = "en",
    seed: int = 0,
    most: int = MOST,
    split: Callable[[str], list[str]] | None = None,
) -> TourPlan:
    """A tour of products, ready to stream: tokens, cues and the boundary at which each passage begins.

    Args:
        products: in the order of the tour.
        shop: the shop's name; "" = none is said.
        language: ``en`` or ``zh``.
        seed: another one gives other words for the same facts.
        most: facts said of a product at most, 1 to 8.
        split: text -> tokens; None = `narrator_split`.

    Raises:
        UsageError: another language, or `most` out of range.
    """
    segments = extractive_segments(products, shop=shop, language=language, seed=seed, most=most)
    return plan_tour(segments, products, split or narrator_split)


def narrator_split(text: str) -> list[str]:
    """The tokens of the narrator's tokenizer, whole words only: one text for each token, together the text.

    Part of a word waits, as empty text, for the token that completes the word and what cannot be parted from it, such
    as its comma: a word that grows at the end of a line jumps to the next one, and a page that jumps is no page.
    """
    pieces = narrator_tokenizer().split(text)
    ends = iter([match.end() for match in _UNITS.finditer(text)])
    out: list[str] = []
    shown = come = 0
    unit = next(ends, 0)
    for piece in pieces:
        come += len(piece)
        until = shown
        while unit and unit <= come:
            until, unit = unit, next(ends, 0)
        out.append(text[shown:until])
        shown = until
    return out


def extractive_segments(
    products: Sequence[Product], *, shop: str = "", language: str = "en", seed: int = 0, most: int = MOST
) -> list[Segment]:
    """The same as passages: greeting, products, closing. A product's second picture comes with a sentence about it.

    Args:
        products: in the order of the tour.
        shop, language, seed, most: as for `extractive_plan`.
    """
    sheets = [FactSheet.of(product, language) for product in products]
    passages = plan_passages(sheets, shop=shop, language=language, seed=seed, most=most)
    by_id = {product.id: product for product in products}
    return [
        Segment(each.text, each.product_id, _places(each, by_id[each.product_id]) if each.product_id else ())
        for each in passages
    ]


def _places(passage: Passage, product: Product) -> tuple[tuple[str, str], ...]:
    """The second picture at the end of the sentence that has most words in common with what it shows."""
    more = next((image for image in product.images[1:] if not _CLIP.search(image.source)), None)
    named = mention_end(passage.text, (product.title, *product.aliases))
    if more is None or named is None:
        return ()
    said = [match.group().strip() for match in _SENTENCES.finditer(passage.text)]
    at = next(index for index, _ in enumerate(said) if sum(map(len, said[: index + 1])) + index >= named)
    # The last sentence is the price, and leaves a picture no time to be looked at.
    rest = said[at + 1 : -1] or said[at + 1 :]
    phrases = [sentence.rstrip(".!?。！？") for sentence in rest]
    phrases = [phrase for phrase in phrases if (mention_end(passage.text, (phrase,)) or 0) > named]
    if not phrases:
        return ()
    shown = _words(more.alt)
    best = max(phrases, key=lambda phrase: len(_words(phrase) & shown))
    return ((more.key, best),)


def _words(text: str) -> set[str]:
    """What two texts may have in common: words of some length, and pairs of ideographs."""
    han = re.findall("[\u4e00-\u9fff]+", text)
    return {word.casefold() for word in re.findall(r"[A-Za-z]{4,}", text)} | {
        "".join(pair) for run in han for pair in pairwise(run)
    }


def _breaths(tokens: Sequence[str]) -> list[int]:
    """The tokens before which the narrator breathes: each that begins a sentence."""
    said = [(index, token) for index, token in enumerate(tokens) if token]
    return [index + 1 for (index, token), (_, following) in pairwise(said) if breathes(token, following)]
