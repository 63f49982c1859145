"""The options that say who tells a tour, of `multimodal tour` and `multimodal plan`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multimodal.demos.product_tour.narrators import Narrator

__all__ = ["add_narrator", "narrator_of", "narrator_words"]

_DEFAULTS: dict[str, Any] = {
    "narrator": "extractive",
    "model": "",
    "lang": None,
    "tone": "warm",
    "words": 40,
    "seed": 0,
}


def add_narrator(group: Any) -> None:
    """Add `--narrator`, `--model`, `--lang`, `--tone`, `--words` and `--seed`."""
    group.add_argument(
        "--narrator",
        default=_DEFAULTS["narrator"],
        metavar="script|extractive|local|URL",
        help="extractive (default) = sentences planned from the catalogue's own facts, no model; script = the demo's"
        " written words, or a catalogue's plain ones; URL = an OpenAI-compatible server; local = a small language"
        " model on this machine, which does not come with this version yet",
    )
    group.add_argument("--model", default=_DEFAULTS["model"], metavar="NAME", help="of the server at URL")
    group.add_argument(
        "--lang", default=None, metavar="en|zh", help="language of the narration (default: the catalogue's)"
    )
    group.add_argument(
        "--tone", default=_DEFAULTS["tone"], metavar="plain|warm|brisk", help="asked of the model at URL (default warm)"
    )
    group.add_argument(
        "--words", type=int, default=_DEFAULTS["words"], metavar="N", help="asked of it for each product (default 40)"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="another one gives other words (default 0)")


def narrator_of(options: argparse.Namespace) -> Narrator:
    """The narrator that the options name.

    Raises:
        UsageError: options that do not go together, or an unknown value.
    """
    from multimodal.demos.product_tour.narrators import Narrator, language_of

    language_of((), options.lang)
    return Narrator(options.narrator, options.model, options.tone, options.words, options.seed)


def narrator_words(options: argparse.Namespace) -> list[str]:
    """The options as words, those left out that are as usual."""
    words = []
    for name, usual in _DEFAULTS.items():
        if getattr(options, name) != usual:
            words += [f"--{name}", str(getattr(options, name))]
    return words
