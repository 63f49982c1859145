"""Who tells a tour: the written script, the extractive narrator, a model on this machine, or one at a URL."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, get_args

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.extractive import EXTRACTIVE, narrator_split
from multimodal.pipes.facts import LANGUAGES, Fact, FactSheet
from multimodal.pipes.guard import FactGuard
from multimodal.pipes.guarded import GuardedTextPipe, GuardMode
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.guided_prompt import TONES, WORDS, Message, guided_turns
from multimodal.pipes.maybe_empty import MaybeEmpty
from multimodal.pipes.openai_request import bearer
from multimodal.pipes.planner import plan_passages
from multimodal.pipes.stand_in import stand_in
from multimodal.pipes.upstreams import Upstreams
from multimodal.pipes.whole_words import WholeWords
from multimodal.values import Product

if TYPE_CHECKING:
    from multimodal.pipes.blocklist import Blocklist
    from multimodal.pipes.local_narrator import LocalNarrator

__all__ = ["DEFAULT", "GUARDS", "LOCAL", "SCRIPT", "Narrator", "Voice", "label", "language_of", "model_voice"]

SCRIPT, LOCAL, DEFAULT = "script", "local", EXTRACTIVE
GUARDS: tuple[str, ...] = (*get_args(GuardMode), "off")
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
        name: ``script``, ``extractive``, ``local``, or the URL of an OpenAI-compatible server, up to ``/v1``; several
            servers of one model with commas between.
        model: as that server calls it; only with a URL.
        tone: ``plain``, ``warm`` or ``brisk``; only for a model at a URL.
        words: said of a product, about; only for a model at a URL.
        seed: another one gives other words: of the extractive narrator, of the local one's prompts, and of a server
            that takes seeds.
        guard: what the fact guard does with a model's false sentence: one of `GUARDS`; "" = ``hold``.
        api_key_env: the environment variable that holds the key of the servers; "" = they ask for none.

    Raises:
        UsageError: another name, a URL that is none, a URL without a model, a variable without a key, or what this
            narrator has no use for: a model, key, tone or length without a URL, a guard where no model speaks, a seed
            of the script.
    """

    name: str = DEFAULT
    model: str = ""
    tone: str = "warm"
    words: int = WORDS
    seed: int = 0
    guard: str = ""
    api_key_env: str = ""

    def __post_init__(self) -> None:
        if self.remote:
            self.servers()  # before any message repeats the name: a password may be in it
        if not self.remote and self.name not in (SCRIPT, EXTRACTIVE, LOCAL):
            raise UsageError(
                f"--narrator {self.name} is unknown; use script, extractive, local or the http(s) URL of an "
                "OpenAI-compatible server, such as http://127.0.0.1:8000/v1"
            )
        if self.remote and not self.model:
            raise UsageError(f"--narrator {self.name} is a server; name its model with --model NAME")
        self.key()
        if self.model and not self.remote:
            raise UsageError(f"--model {self.model} is for a narrator at a URL; --narrator {self.name} takes none")
        if self.tone not in TONES:
            raise UsageError(f"--tone {self.tone} is unknown; use one of {', '.join(TONES)}")
        if self.guard not in ("", *GUARDS):
            raise UsageError(f"--guard {self.guard} is unknown; use one of {', '.join(GUARDS)}")
        if self.guard and self.planned:
            raise UsageError(
                f"--guard {self.guard} is for a model's words; --narrator {self.name} says what the catalogue says"
            )
        if self.words < 5:
            raise UsageError(f"--words {self.words} is no length for a passage; give 5 or more")
        if not self.remote and (self.tone, self.words) != ("warm", WORDS):
            given = f"--tone {self.tone}" if self.tone != "warm" else f"--words {self.words}"
            raise UsageError(f"{given} is asked of a model at a URL; --narrator {self.name} has its own way of telling")
        if self.seed and self.name == SCRIPT:
            raise UsageError(f"--seed {self.seed} gives other words, and --narrator script has only its own")

    @property
    def remote(self) -> bool:
        """Whether it speaks from a server."""
        return any(url.startswith(("http://", "https://")) for url in self._urls())

    def _urls(self) -> list[str]:
        return [url.strip() for url in self.name.split(",")]

    def servers(self) -> Upstreams:
        """The servers it speaks from.

        Raises:
            UsageError: one of them is no URL.
        """
        if not all(urls := self._urls()):
            raise UsageError("--narrator has nothing at one side of a comma; give several servers as URL,URL")
        try:
            return Upstreams(urls)
        except UsageError as error:
            raise UsageError(f"--narrator: {error}") from error

    def key(self) -> str:
        """The key of its servers, which stands in the environment and nowhere else; "" = none.

        Raises:
            UsageError: it is not there, cannot be sent, or there is no server to send it to.
        """
        name = self.api_key_env
        if not name:
            return ""
        if not self.remote:
            raise UsageError(f"--api-key-env is for a narrator at a URL; --narrator {self.name} asks no server")
        if name not in os.environ:
            # What was given is not repeated: it may be the key.
            raise UsageError(
                "--api-key-env names an environment variable that is not set; set it to the key, and give its name,"
                " never the key"
            )
        if not (key := os.environ[name]):
            raise UsageError(f"--api-key-env {name}: the variable is empty; set it to the key of the servers")
        bearer(key, f"--api-key-env {name}: the variable")
        return key

    async def faults(self) -> list[str]:
        """What is wrong with its servers as they are now, each in a line; none = nothing, or it speaks from none.

        Raises:
            UsageError: httpx2 is not installed.
        """
        if not self.remote:
            return []
        from multimodal.pipes.model_list import model_faults

        return await model_faults([server.url for server in self.servers().servers], self.model, self.key())

    @property
    def guarding(self) -> str:
        """What the fact guard does, as `GUARDS` has it."""
        return "off" if self.planned else self.guard or "hold"

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


class Voice:
    """What a model needs to tell one tour to any number of viewers.

    Args:
        make: makes the text pipe of one viewer.
        prepare: what takes long, such as reading a model; it may be called again. None = nothing does.
    """

    def __init__(self, make: Callable[[], TextPipe], prepare: Callable[[], None] | None = None) -> None:
        self._make, self._prepare = make, prepare
        self.here = prepare is not None
        """The model runs on this machine."""

    def __call__(self, blocked: Blocklist | None = None) -> TextPipe:
        """The text pipe of one viewer: words come whole, as fast as the model makes them.

        Args:
            blocked: what it must not show. Whole words stand behind it, as it holds back parts of them.
        """
        pipe = self._make()
        return WholeWords(pipe if blocked is None else blocked.around(pipe))

    def prepare(self) -> None:
        """Do what takes long, so that no viewer waits for it.

        Raises:
            UsageError, PipeError: what the model needs is not there.
        """
        if self._prepare is not None:
            self._prepare()


class _Passage(NamedTuple):
    """One answer of a model: what makes it, the product it is about, the facts it was asked for (none = any)."""

    make: Callable[[], TextPipe]
    sheet: FactSheet | None
    facts: tuple[Fact, ...] = ()


def model_voice(narrator: Narrator, products: Sequence[Product], *, shop: str, language: str) -> Voice:
    """What makes a model's text pipe for each viewer, behind the fact guard that the narrator asks for.

    Args:
        narrator: ``local`` or a URL.
        products: in the order of the tour.
        shop: the shop's name.
        language: of the tour.

    Raises:
        UsageError: what the model needs is not installed, with the command that installs it; a language that it does
            not speak; two products of one name.
    """
    sheets = [FactSheet.of(product, language) for product in products]
    guard = None if narrator.guarding == "off" else FactGuard(sheets)
    greeting, closing = (
        passage.text for passage in plan_passages((), shop=shop, language=language, seed=narrator.seed)
    )
    if narrator.remote:
        turns = guided_turns(sheets, shop=shop, language=language, tone=narrator.tone, words=narrator.words)
        name, unit, prepare, ready = f"remote: {narrator.model}", "delta", None, None
        # One list of servers for all viewers: how busy they are, and which have failed, is the same for each.
        servers = narrator.servers()
        passages: Callable[[], list[_Passage]] = partial(_remote, narrator, servers, turns, sheets)
    else:
        from multimodal.pipes.local_narrator import LocalNarrator

        local = LocalNarrator(products, shop=shop, language=language, seed=narrator.seed)
        name, unit, prepare, ready = LOCAL, "token", local.prepare, local.ready
        passages = partial(_local, local, sheets)

    def make() -> TextPipe:
        told = passages()
        answers = [passage.make for passage in told]
        if guard is not None and narrator.guarding != "stop":
            first, *rest = told
            answers = [
                _guarded(guard, narrator, first, greeting),
                *(_guarded(guard, narrator, passage, closing) for passage in rest),
            ]
        stops = guard is not None and narrator.guarding == "stop"
        about = ["" if passage.sheet is None else passage.sheet.product_id for passage in told]
        pipe: TextPipe = GuidedTextPipe(
            answers, narrator=name, unit=unit, prepare=ready, about=about, ends_at_cut=stops
        )
        # There the tour ends, and not the passage alone.
        return GuardedTextPipe(pipe, guard, "stop") if guard is not None and stops else pipe

    return Voice(make, prepare)


def _guarded(guard: FactGuard, narrator: Narrator, passage: _Passage, edge: str) -> Callable[[], TextPipe]:
    """A passage behind the guard. What it gets wrong is said by the extractive narrator, so that no product is lost.

    Args:
        guard, narrator, passage: as they are.
        edge: the extractive narrator's greeting or closing, for a passage that is about no product.
    """
    sheet, about = passage.sheet, "" if passage.sheet is None else passage.sheet.product_id
    if narrator.guarding == "flag":
        return lambda: GuardedTextPipe(passage.make(), guard, "flag", product=about)
    instead: Callable[[str], Sequence[str]] = (
        partial(_edge, edge) if sheet is None else stand_in(sheet, passage.facts, seed=narrator.seed)
    )
    return lambda: GuardedTextPipe(passage.make(), guard, "hold", product=about, instead=instead)


def _edge(text: str, said: str) -> list[str]:
    """A greeting or closing whole, or nothing more."""
    return [] if said.strip() else narrator_split(text)


def _local(local: LocalNarrator, sheets: Sequence[FactSheet]) -> list[_Passage]:
    by_id = {sheet.product_id: sheet for sheet in sheets}
    return [
        _Passage(partial(local.answer, asked), by_id.get(asked.product_id or ""), asked.facts) for asked in local.asked
    ]


def _remote(
    narrator: Narrator, servers: Upstreams, turns: Sequence[list[Message]], sheets: Sequence[FactSheet]
) -> list[_Passage]:
    from multimodal.pipes.remote import RemoteTextPipe

    ask = partial(
        RemoteTextPipe,
        servers,
        narrator.model,
        max_tokens=ANSWER_TOKENS,
        seed=narrator.seed,
        api_key=narrator.key(),
    )

    def answer(messages: list[Message]) -> TextPipe:
        # An answer without any text ends no tour where the guard has somebody who says it.
        return MaybeEmpty(ask(messages)) if narrator.guarding == "hold" else ask(messages)

    return [_Passage(partial(answer, messages), sheet) for messages, sheet in zip(turns, sheets, strict=True)]
