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
    "guard": "",
}


def add_narrator(group: Any) -> None:
    """Add `--narrator`, `--model`, `--lang`, `--tone`, `--words`, `--seed` and `--guard`."""
    group.add_argument(
        "--narrator",
        default=_DEFAULTS["narrator"],
        metavar="script|extractive|local|URL",
        help="extractive (default) = sentences planned from the catalogue's own facts, no model; script = the demo's"
        " written words, or a catalogue's plain ones; local = a small language model on this machine, in English, which"
        " the first tour fetches (93 MB); URL = an OpenAI-compatible server",
    )
    group.add_argument("--model", default=_DEFAULTS["model"], metavar="NAME", help="the model of the server at URL")
    group.add_argument(
        "--lang", default=None, metavar="en|zh", help="language of the narration (default: the catalogue's)"
    )
    group.add_argument(
        "--tone", default=_DEFAULTS["tone"], metavar="plain|warm|brisk", help="asked of the model at URL (default warm)"
    )
    group.add_argument(
        "--words",
        type=int,
        default=_DEFAULTS["words"],
        metavar="N",
        help="asked of that model for each product (default 40)",
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another one gives other words, but of script (default 0)"
    )
    group.add_argument(
        "--guard",
        default=_DEFAULTS["guard"],
        metavar="hold|flag|stop|off",
        help="a model's sentence with a price, number, material, colour or name that is not on the product's sheet:"
        " hold (default) = it is not said, and the extractive narrator ends the passage; flag = it is said, and told on"
        " the standard error stream; stop = the tour ends before it; off = nobody looks",
    )


def narrator_of(options: argparse.Namespace) -> Narrator:
    """The narrator that the options name.

    Raises:
        UsageError: options that do not go together, or an unknown value.
    """
    from multimodal.demos.product_tour.narrators import Narrator, language_of

    language_of((), options.lang)
    return Narrator(options.narrator, options.model, options.tone, options.words, options.seed, options.guard)


def narrator_words(options: argparse.Namespace) -> list[str]:
    """The options as words, those left out that are as usual."""
    words = []
    for name, usual in _DEFAULTS.items():
        if getattr(options, name) != usual:
            words += [f"--{name}", str(getattr(options, name))]
    return words
