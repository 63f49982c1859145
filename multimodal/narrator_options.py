"""The options that say who tells a tour, of `multimodal tour` and `multimodal plan`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError

if TYPE_CHECKING:
    from multimodal.demos.product_tour.narrators import Narrator
    from multimodal.demos.product_tour.tour import Tour
    from multimodal.pipes.blocklist import Blocklist

__all__ = ["add_narrator", "behind_blocklist", "blocklist_of", "narrator_of", "narrator_words", "tell_servers"]

_DEFAULTS: dict[str, Any] = {
    "narrator": "extractive",
    "model": "",
    "api_key_env": "",
    "lang": None,
    "tone": "warm",
    "words": 40,
    "seed": 0,
    "guard": "",
    "blocklist": None,
    "blocked": "",
}


def add_narrator(group: Any) -> None:
    """Add the options that `_DEFAULTS` names."""
    group.add_argument(
        "--narrator",
        default=_DEFAULTS["narrator"],
        metavar="script|extractive|local|URL[,URL...]",
        help="extractive (default) = sentences planned from the catalogue's own facts, no model; script = the demo's"
        " written words, or a catalogue's plain ones; local = a small language model on this machine, in English, which"
        " the first tour fetches (93 MB); URL = an OpenAI-compatible server; of several with"
        " commas between, the least busy one that is well is asked",
    )
    group.add_argument("--model", default=_DEFAULTS["model"], metavar="NAME", help="the model of the server at URL")
    group.add_argument(
        "--api-key-env",
        default=_DEFAULTS["api_key_env"],
        metavar="VARIABLE",
        help="the environment variable that holds the key of the servers at URL; a key itself is no option, as every"
        " user of a machine sees its command lines",
    )
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
    group.add_argument(
        "--blocklist",
        type=Path,
        metavar="FILE",
        help="words that no narrator may show, whoever it is: UTF-8, one word or phrase a line, # before comments"
        " (needs the extra `guard`)",
    )
    group.add_argument(
        "--blocked",
        default=_DEFAULTS["blocked"],
        metavar="mask|stop",
        help="what is done at one of them: mask (default) = each of its characters is shown as *; stop = the tour ends"
        " before it",
    )


def narrator_of(options: argparse.Namespace) -> Narrator:
    """The narrator that the options name.

    Raises:
        UsageError: options that do not go together, or an unknown value.
    """
    from multimodal.demos.product_tour.narrators import Narrator, language_of

    language_of((), options.lang)
    return Narrator(
        options.narrator,
        options.model,
        options.tone,
        options.words,
        options.seed,
        options.guard,
        options.api_key_env,
    )


def tell_servers(narrator: Narrator) -> None:
    """Tell on the standard error stream what is wrong with a narrator's servers: a viewer is never told why.

    Raises:
        UsageError: httpx2 is not installed.
    """
    if narrator.remote:
        for fault in asyncio.run(narrator.faults()):
            print(f"--narrator: {fault}; the tour is served all the same", file=sys.stderr, flush=True)


def blocklist_of(options: argparse.Namespace) -> Blocklist | None:
    """The words that `--blocklist` names; None = none.

    Raises:
        UsageError: no such file, or not a list of words; an unknown `--blocked`, or one without a list; pyahocorasick
            is not installed.
    """
    if options.blocked not in ("", "mask", "stop"):
        raise UsageError(f"--blocked {options.blocked} is unknown; use mask or stop")
    if options.blocklist is None:
        if options.blocked:
            raise UsageError(f"--blocked {options.blocked} is for the words of a --blocklist FILE; name it")
        return None
    from multimodal.pipes.blocklist import Blocklist

    return Blocklist.read(options.blocklist, options.blocked or "mask")


def behind_blocklist(tour: Tour, options: argparse.Namespace) -> Tour:
    """The tour behind the words of `--blocklist`; whose titles are among them is told on the standard error stream.

    Raises:
        UsageError: as for `blocklist_of`.
    """
    blocked = blocklist_of(options)
    if blocked is None:
        return tour
    tour = tour.behind(blocked)
    if nameless := tour.nameless:
        titles = ", ".join(repr(product.title) for product in nameless)
        if blocked.action == "stop":
            then = "the tour ends before the first of them that is said"
        elif tour.voice is None:
            then = "their pictures come beside a masked name"
        else:
            then = "masked, a model's words call for no picture of theirs"
        print(f"{options.blocklist} holds words of these titles: {titles}; {then}", file=sys.stderr, flush=True)
    return tour


def narrator_words(options: argparse.Namespace) -> list[str]:
    """The options as words, those left out that are as usual."""
    words = []
    for name, usual in _DEFAULTS.items():
        if getattr(options, name) != usual:
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    return words
