"""Who tells a tour: the written script, the extractive narrator, a model on this machine, or one at a URL."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.extractive import EXTRACTIVE
from multimodal.pipes.facts import LANGUAGES, FactSheet
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.guided_prompt import TONES, WORDS, guided_turns
from multimodal.pipes.whole_words import WholeWords
from multimodal.values import Product

__all__ = ["DEFAULT", "LOCAL", "SCRIPT", "Narrator", "label", "language_of", "model_voice"]

SCRIPT, LOCAL, DEFAULT = "script", "local", EXTRACTIVE
ANSWER_TOKENS = 400
"""Tokens of one passage at most: a model that finds no end is cut off rather than heard for ever."""

_LABELS = {
    SCRIPT: "told from a written script",
    EXTRACTIVE: "told by the extractive narrator: a planner of sentences over the catalogue's facts, no model",
    LOCAL: "told by a language model on this machine, from the catalogue's facts",
}


class Narrator(msgspec.Struct, frozen=True):
    """Who tells a tour, and how; as the options of `multimodal tour`.

    Args:
        name: ``script``, ``extractive``, ``local``, or the URL of an OpenAI-compatible server, up to ``/v1``.
        model: as that server calls it; only with a URL.
        tone: ``plain``, ``warm`` or ``brisk``; only for a model at a URL.
        words: said of a product, about; only for a model at a URL.
        seed: another one gives other words: of the extractive narrator, and of a server that takes seeds.

    Raises:
        UsageError: another name, a URL without a model, a model without a URL.
    """

    name: str = DEFAULT
    model: str = ""
    tone: str = "warm"
    words: int = WORDS
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.remote and self.name not in (SCRIPT, EXTRACTIVE, LOCAL):
            raise UsageError(
                f"--narrator {self.name} is unknown; use script, extractive, local or the http(s) URL of an "
                "OpenAI-compatible server, such as http://127.0.0.1:8000/v1"
            )
        if self.remote and not self.model:
            raise UsageError(f"--narrator {self.name} is a server; name its model with --model NAME")
        if self.model and not self.remote:
            raise UsageError(f"--model {self.model} is for a narrator at a URL; --narrator {self.name} takes none")
        if self.tone not in TONES:
            raise UsageError(f"--tone {self.tone} is unknown; use one of {', '.join(TONES)}")
        if self.words < 5:
            raise UsageError(f"--words {self.words} is no length for a passage; give 5 or more")

    @property
    def remote(self) -> bool:
        """Whether it speaks from a server."""
        return self.name.startswith(("http://", "https://"))

    @property
    def planned(self) -> bool:
        """Whether its words are known before it speaks."""
        return self.name in (SCRIPT, EXTRACTIVE)


def label(name: str) -> str:
    """What the page says of a narrator."""
    return _LABELS.get(name, "told by a language model on a server, from the catalogue's facts")


def language_of(products: Sequence[Product], asked: str | None = None) -> str:
    """The language of a tour: the one asked for, else that of most titles.

    Raises:
        UsageError: a language that no narrator speaks.
    """
    if asked is not None:
        if asked not in LANGUAGES:
            raise UsageError(f"--lang {asked} is unknown; there are: {', '.join(LANGUAGES)}")
        return asked
    chinese = sum(any("\u4e00" <= letter <= "\u9fff" for letter in product.title) for product in products)
    kana = sum(any("\u3040" <= letter <= "\u30ff" for letter in product.title) for product in products)
    return "zh" if (chinese - kana) * 2 > len(products) else "en"


def model_voice(narrator: Narrator, products: Sequence[Product], *, shop: str, language: str) -> Callable[[], TextPipe]:
    """What makes a model's text pipe for one viewer.

    Args:
        narrator: ``local`` or a URL.
        products: in the order of the tour.
        shop: the shop's name.
        language: of the tour.

    Raises:
        UsageError: what the model needs is not installed; with the command that installs it.
    """
    if narrator.remote:
        return partial(_remote, narrator, [FactSheet.of(product, language) for product in products], shop, language)
    try:
        local: Any = importlib.import_module("multimodal.pipes.local_narrator")
        make: Callable[[], TextPipe] = partial(local.narrator_pipe, products, shop=shop, language=language)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            "--narrator local: no model comes with this version; serve one of your own and give its URL, or use"
            " --narrator extractive, which needs none"
        ) from error
    return lambda: WholeWords(make(), narrator=LOCAL)


def _remote(narrator: Narrator, sheets: list[FactSheet], shop: str, language: str) -> TextPipe:
    from multimodal.pipes.remote import RemoteTextPipe
    from multimodal.pipes.upstreams import Upstreams

    # One list of servers for all answers of a tour: what failed for one product is not asked first for the next.
    servers = Upstreams(narrator.name)
    turns = guided_turns(sheets, shop=shop, language=language, tone=narrator.tone, words=narrator.words)
    answers = [
        partial(RemoteTextPipe, servers, narrator.model, messages, max_tokens=ANSWER_TOKENS, seed=narrator.seed)
        for messages in turns
    ]
    return WholeWords(GuidedTextPipe(answers, narrator=f"remote: {narrator.model}"))
