"""A language model on this machine as a text pipe: one answer, token by token."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.drop_in import read_rows
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import GenerationRequest, Sampling
from multimodal.pipes.processor_source import EngineSource, Messages, ModelSource, check_prompt, open_source
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.settings import AT_ONCE, check_flag, end_ids
from multimodal.pipes.watch import AnswerWatch

__all__ = ["LocalTextPipe", "release_models"]


class LocalTextPipe(AnswerPipe):
    """One answer of a local model (T1-T8): one `Token` for each token id, each as soon as it is made.

    All pipes of one model share one engine, so that their answers run in one batch. The model that was used last, and
    its engine, are kept for the next pipe until another is used or `release_models` is called. A folder or a name is
    read when its first pipe is made, which takes seconds; read it before with `LocalModel.load`. For chunks, stages and
    figures of many answers use `StreamProcessor`.

    Args:
        model: a transformers model, a `LocalModel`, the folder, hub name or GGUF file of one, or an engine.
        prompt: what the user says; the model's chat template is applied where it has one.
        messages: a dialogue in its place: each with "role" and "content".
        input_ids: token ids in its place, as they are.
        tokenizer: another than the model's own.
        max_new_tokens, min_new_tokens: most and least tokens of the answer.
        temperature, top_k, top_p, repetition_penalty, seed: as `Sampling`; temperature 0 is greedy.
        stop: texts that end the answer; they are not shown.
        logprobs: how many of the likeliest tokens to report beside each; None = nothing.
        eos_ids: the tokens that end the answer, in place of the model's own.
        engine: "auto", "manager" or "steps", as for `make_engine`.
        quant_mode: "int8", or None.
        skip_special_tokens: leave them out of the text; they stay tokens, of no text.

    Raises:
        UsageError: not exactly one of prompt, messages and input_ids; a value out of its range; a model that cannot be
            had; no tokenizer.
    """

    def __init__(
        self,
        model: Any,
        prompt: str | None = None,
        *,
        messages: Messages | None = None,
        input_ids: Any = None,
        tokenizer: Any = None,
        max_new_tokens: int = 256,
        min_new_tokens: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        eos_ids: Sequence[int] | None = None,
        engine: str = "auto",
        quant_mode: str | None = None,
        skip_special_tokens: bool = True,
    ) -> None:
        given = [name for name, value in _named(prompt, messages, input_ids) if value is not None]
        if len(given) != 1:
            raise UsageError(
                f"LocalTextPipe needs one of prompt, messages and input_ids, and got {' and '.join(given) or 'none'}"
            )
        check_flag("skip_special_tokens", skip_special_tokens)
        if input_ids is None:
            check_prompt(messages if prompt is None else prompt, "messages" if prompt is None else "prompt")
        source = _source(model, tokenizer, engine, quant_mode)
        if source.tokenizer is None:
            raise UsageError("the model has no tokenizer, and a text pipe gives text; give tokenizer=...")
        if input_ids is not None:
            rows = read_rows("input_ids", input_ids)
            if len(rows) > 1:
                raise UsageError(f"input_ids has {len(rows)} rows; a text pipe is one answer, so make one for each")
            ids: Sequence[int] = rows[0]
        else:
            ids = source.encode(messages if prompt is None else prompt)  # type: ignore[arg-type]
        request = GenerationRequest(
            tuple(ids),
            max_new_tokens,
            Sampling(temperature, top_k, top_p, repetition_penalty, seed),
            source.eos_ids if eos_ids is None else end_ids(eos_ids),
            logprobs,
            min_new_tokens,
        )
        flow = TextFlow(source.tokenizer, stop=stop, skip_special_tokens=skip_special_tokens, **AT_ONCE.flow())

        # Nothing is held together, so a sync mark (T8) has nothing to let go of.
        def make(sync_interval: int) -> AnswerReader:
            return AnswerReader(source.engine, request, flow, watcher=AnswerWatch(AT_ONCE))

        super().__init__(make, source.prepare)


def release_models() -> None:
    """Let go of the model and the engine that were kept for the next `LocalTextPipe`; answers under way go on."""
    with _lock:
        _kept.clear()


_lock = threading.Lock()
_kept: dict[tuple[Any, ...], tuple[Any, ModelSource]] = {}


def _source(model: Any, tokenizer: Any, engine: str, quant_mode: str | None) -> ModelSource | EngineSource:
    where = model if isinstance(model, str) else str(model) if hasattr(model, "__fspath__") else id(model)
    key = (where, tokenizer if isinstance(tokenizer, str) else id(tokenizer), engine, quant_mode)
    with _lock:
        if key in _kept:
            return _kept[key][1]
    source = open_source(
        model, tokenizer, quant_mode=quant_mode, engine=engine, settings={}, max_budget=None
    )  # outside the lock: reading a model takes seconds
    if isinstance(source, ModelSource):
        with _lock:
            _kept.clear()
            _kept[key] = ((model, tokenizer), source)  # both are held, so that no other object takes their ids
    return source


def _named(prompt: object, messages: object, input_ids: object) -> list[tuple[str, object]]:
    return [("prompt", prompt), ("messages", messages), ("input_ids", input_ids)]
