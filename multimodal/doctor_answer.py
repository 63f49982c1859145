"""One answer of an engine, timed at its consumer for `multimodal doctor --ttft`."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from multimodal.doctor_ttft import Trace
from multimodal.errors import PipeError, UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.engine import Engine
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import GenerationRequest, Step
from multimodal.pipes.metrics import StreamMetrics
from multimodal.pipes.reader import AnswerReader
from multimodal.values import Token

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROMPT", "ask", "time_model"]

PROMPT = "Tell me about the green kettle: what does it hold, and what does it cost?"
_TOKENS = 10
_TIMEOUT = 300.0


def time_model(
    source: Any, *, prompt: str = PROMPT, quant_mode: str | None = None, engine: str = "auto", **settings: Any
) -> tuple[Trace, Trace]:
    """Load a model and ask twice: the first viewer's answer after a start, and one of later.

    The second prompt is as long and begins with another token, so that nothing of the first one's is kept for it.

    Args:
        source: as for `LocalModel.load`.
        prompt: the question; a model with a chat template is asked as a user asks.
        quant_mode: as for `LocalModel.load`.
        engine, settings: as for `make_engine`.

    Raises:
        UsageError: no such model, or one without a tokenizer.
        PipeError: it did not answer.
    """
    from multimodal.pipes.local_engines import make_engine
    from multimodal.pipes.local_loading import LocalModel

    begun = time.monotonic()
    local = LocalModel.load(source, quant_mode=quant_mode)
    if local.tokenizer is None:
        raise UsageError(f"{source} has no tokenizer beside it; doctor needs one to ask")
    made = make_engine(local, engine, **settings)  # type: ignore[arg-type]  # checked there
    load = time.monotonic() - begun
    try:
        ids = _ids(local, prompt)
        other = (ids[0] - 1 if ids[0] else 1, *ids[1:])
        first = asyncio.run(ask(made, local.tokenizer, ids, load=load))
        second = asyncio.run(ask(made, local.tokenizer, other))
    finally:
        made.close()
    return msgspec.structs.replace(first, warm=second.prefill + second.first_step), second


async def ask(engine: Engine, tokenizer: Any, ids: Sequence[int], *, load: float = 0.0) -> Trace:
    """Ask once and say where the time to the first text went.

    Args:
        engine: answers.
        tokenizer: of its model.
        ids: the prompt.
        load: seconds that went before, for the trace.

    Raises:
        PipeError: the engine failed, gave no text, or gave none in time.
    """
    loop = asyncio.get_running_loop()
    request = GenerationRequest(tuple(ids), max_new_tokens=_TOKENS, min_new_tokens=_TOKENS)
    gates = _Gates()
    reader = AnswerReader(engine, request, TextFlow(tokenizer), watcher=gates)
    metrics = gates.metrics
    before = engine.stats()
    others = before.running + before.waiting
    worked = time.process_time()
    metrics.submitted(loop.time())
    passes = 0
    try:
        async with asyncio.timeout(_TIMEOUT):
            async for token in AnswerPipe(lambda _: reader):
                if math.isnan(metrics.snapshot().ttft):
                    passes = engine.stats().prefills - before.prefills
                metrics.sent(loop.time(), text=bool(token.text))
    except TimeoutError as error:
        raise PipeError(f"no answer within {_TIMEOUT:.0f} s; is the engine busy with others?") from error
    found = metrics.snapshot()
    if math.isnan(found.ttft):
        raise PipeError(f"the model gave {len(reader.steps)} tokens and no text; is it the right tokenizer?")
    ats = [step.at for step in reader.steps]
    steps = [later - earlier for earlier, later in pairwise(ats)]
    parts = found.ttft_parts
    work = parts.prefill + parts.first_step
    return Trace(
        load=load,
        **msgspec.structs.asdict(parts),
        prompt_tokens=len(request.prompt_ids),
        cached_tokens=reader.mailbox.times.cached_tokens,
        passes=passes,
        step=statistics.median(steps) if steps else math.nan,
        core_share=min(1.0, (gates.worked - worked) / work) if work else 1.0,
        others=others,
        load_1min=os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
        cores=os.cpu_count() or 1,
    )


class _Gates:
    """Hears of the answer's gates. What left in the reading that brought a step left when that step was made:
    whatever came after is the reader's time."""

    def __init__(self) -> None:
        self.metrics = StreamMetrics()
        self.worked = 0.0
        """CPU seconds of the process when the first token was here."""
        self._made = (math.nan, math.nan)

    def attach(self, reader: AnswerReader) -> None:
        self.metrics = StreamMetrics(reader.mailbox.times)

    def read(self, reader: AnswerReader, steps: list[Step], now: float) -> None:
        if not steps:
            return
        if not self.worked:
            self.worked = time.process_time()
        for step in steps:
            self.metrics.step(step.at)
        self._made = (now, steps[-1].at)

    def left(self, reader: AnswerReader, tokens: list[Token], now: float) -> None:
        read_at, made_at = self._made
        for token in tokens:
            self.metrics.shown(made_at if read_at == now else now, lane=token.lane, text=bool(token.text))

    def ended(self, reader: AnswerReader, now: float) -> None:
        pass


def _ids(local: Any, prompt: str) -> tuple[int, ...]:
    tokenizer = local.tokenizer
    if local.has_chat_template:
        messages = [{"role": "user", "content": prompt}]
        made = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        return tuple(made["input_ids"])
    encoded = tokenizer.encode(prompt)
    return tuple(getattr(encoded, "ids", encoded))
