"""The local narrator: a small language model on this machine, with an adapter of ours, that tells a tour offline.

One model and one engine serve all viewers of a process. Each answer is one passage, asked for by `narrator_prompt` and
made greedily, so that one tour has one text whoever hears it. So the greeting is made once, when the model is read, and
every viewer gets that: made anew, a first sentence that waits to be judged costs a quarter of a second.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from multimodal.errors import UsageError
from multimodal.pipes.base import TextPipe
from multimodal.pipes.engine import Engine
from multimodal.pipes.facts import FactSheet
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.guided import GuidedTextPipe
from multimodal.pipes.local import LocalTextPipe
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.narrator_model import MODEL, narrator_model
from multimodal.pipes.narrator_prompt import Asked, plan_tour_prompts
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.script import ScriptTextPipe
from multimodal.pipes.settings import AT_ONCE
from multimodal.values import Product

__all__ = ["ADAPTER", "LOCAL", "LocalNarrator", "adapted_model"]

LOCAL = "local"
"""The narrator's name on the page, in recordings and in what `tour --check --json` prints."""
ADAPTER = "narrator/adapter.safetensors"
"""In `multimodal.assets`."""
ANSWER_TOKENS = 320
"""Tokens of a passage at most, twice what eight long facts take: one that finds no end is cut off."""
WARM_PROMPTS = 2


class _Voice(NamedTuple):
    engine: Engine
    tokenizer: Any
    eos_ids: tuple[int, ...]


_making = threading.Lock()
_voices: dict[str | None, _Voice] = {}


def adapted_model(
    quant_mode: str | None = "int8", *, base: Path | None = None, adapter: Path | None = None
) -> LocalModel:
    """The narrator's model: the base model with our adapter added, then quantised.

    Args:
        quant_mode: "int8", or None = float32.
        base: the base model's folder; None = `narrator_model`, which may fetch it.
        adapter: the adapter's file; None = the one that comes with the package.

    Raises:
        UsageError: what it needs is not installed, the adapter is missing, broken or another model's, or the base model
            has no chat template.
        PipeError: the base model could not be had.
    """
    home = base or narrator_model()
    from multimodal.pipes.local_adapter import merge_adapter

    read = LocalModel.load(home)
    if not read.has_chat_template:
        raise UsageError(
            f"the narrator's model in {home} has no chat template, and cannot be asked; see what is in there"
        )
    merge_adapter(read.model, adapter or Path(str(files("multimodal.assets"))) / ADAPTER, base=MODEL)
    return LocalModel(read.model, read.tokenizer, quant_mode=quant_mode, name=f"the narrator ({MODEL})", owned=True)


class LocalNarrator:
    """One tour told by the model, for any number of viewers.

    Args:
        products: in the order of the tour.
        shop: the shop's name; "" = none is said.
        language: only ``en``: the model speaks no other.
        seed: another one gives other words for the same facts.
        quant_mode: "int8", or None = float32, which is half as fast.

    Raises:
        UsageError: another language, or no product.
    """

    def __init__(
        self,
        products: Sequence[Product],
        *,
        shop: str = "",
        language: str = "en",
        seed: int = 0,
        quant_mode: str | None = "int8",
    ) -> None:
        if language != "en":
            raise UsageError(f"the local narrator speaks English only; --narrator extractive speaks {language!r}, too")
        if not products:
            raise UsageError("a tour without a product has nothing to tell; give at least one")
        self.asked: tuple[Asked, ...] = plan_tour_prompts(
            [FactSheet.of(product, language) for product in products], shop=shop, seed=seed
        )
        """What the model is asked, passage by passage."""
        self._quant_mode = quant_mode
        self._greeting, self._greeting_cut = list[str](), False
        self._prepared = False

    def prepare(self) -> None:
        """Read the model, and make the greeting; it takes seconds, or minutes the first time on a machine.

        Raises:
            UsageError, PipeError: as for `adapted_model`.
        """
        if self._prepared:
            return
        self._greeting, self._greeting_cut = _made(_voice(self._quant_mode), self.asked[0])
        self._prepared = True

    async def ready(self) -> None:
        """The same without holding up the event loop; at once where it was done before."""
        if not self._prepared:
            await asyncio.to_thread(self.prepare)

    def answer(self, asked: Asked) -> TextPipe:
        """The text pipe of one passage; call `prepare` or `ready` before, or it reads the model."""
        if asked is self.asked[0] and self._prepared:
            made = _Made(self._greeting, gap=0.0)
            made.cut = self._greeting_cut
            return made
        voice = _voice(self._quant_mode)
        return LocalTextPipe(
            voice.engine,
            messages=asked.messages,
            tokenizer=voice.tokenizer,
            max_new_tokens=ANSWER_TOKENS,
            eos_ids=voice.eos_ids,
        )

    def pipe(self) -> GuidedTextPipe:
        """The whole tour for one viewer, as the model tells it (T1-T8); the first pull calls `ready`."""
        answers = [partial(self.answer, asked) for asked in self.asked]
        about = [asked.product_id or "" for asked in self.asked]
        return GuidedTextPipe(answers, narrator=LOCAL, unit="token", prepare=self.ready, about=about)


class _Made(ScriptTextPipe):
    """An answer that was made before; what follows it may begin at once (`BeginsAhead`)."""

    made = True
    cut = False

    async def begin(self) -> None:
        """There is nothing to begin."""


def _made(voice: _Voice, asked: Asked) -> tuple[list[str], bool]:
    """The tokens of a whole answer, waited for in this thread, and whether it was cut (T10)."""
    ids = voice.tokenizer.apply_chat_template(asked.messages, add_generation_prompt=True, return_dict=False)
    request = GenerationRequest(tuple(ids), max_new_tokens=ANSWER_TOKENS, eos_ids=voice.eos_ids)
    reader = AnswerReader(voice.engine, request, TextFlow(voice.tokenizer, **AT_ONCE.flow()))
    reader.start()
    texts: list[str] = []
    while not reader.over:
        reader.mailbox.wait_blocking()
        texts += [token.text for token in reader.read(time.monotonic())]
    return texts, reader.finish == "length"


def _voice(quant_mode: str | None) -> _Voice:
    """The model behind its engine, made once in a process."""
    with _making:
        if quant_mode not in _voices:
            from multimodal.pipes.local_engines import make_engine
            from multimodal.pipes.local_tensors import use_one_thread

            local = adapted_model(quant_mode)
            use_one_thread()
            engine = make_engine(local)
            engine.warm_up(WARM_PROMPTS)
            _voices[quant_mode] = _Voice(engine, local.tokenizer, local.eos_ids)
        return _voices[quant_mode]
