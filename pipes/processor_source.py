"""What a processor generates with: the model or engine it was given, its tokenizer, and the engine's own settings."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.batching import Admission
from multimodal.pipes.drop_in import ModelFacts
from multimodal.pipes.engine import Engine
from multimodal.pipes.governor import Governor
from multimodal.pipes.local_engines import ENGINES

if TYPE_CHECKING:
    from multimodal.pipes.local_loading import LocalModel

__all__ = ["Messages", "ModelSource", "WarmUp", "check_prompt", "open_source"]

Messages = Sequence[Mapping[str, Any]]
"""A dialogue: each message has a "role" and a "content"."""


def check_prompt(prompt: object, name: str = "prompt") -> None:
    """Refuse what is neither a text nor a dialogue.

    Raises:
        UsageError: another type, no messages, or a message without a role or a content.
    """
    if isinstance(prompt, str) and name == "prompt":
        return
    if not isinstance(prompt, Sequence) or isinstance(prompt, str | bytes):
        text = "a str, or " if name == "prompt" else ""
        found = "None" if prompt is None else f"of type {type(prompt).__name__}"
        raise UsageError(f"{name} is {found}; give {text}a list of messages, each with a 'role' and a 'content'")
    if not prompt:
        raise UsageError("messages is empty; give at least one, with a 'role' and a 'content'")
    for index, message in enumerate(prompt):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise UsageError(f"messages[{index}] is {message!r}; a message has a 'role' and a 'content'")


SHORT_ANSWER = 512
"""Tokens that a model which fits at all has room for."""
WARM_ROUND = 8
"""Prompts run together while warming up: between two rounds the time is looked at."""


class WarmUp(msgspec.Struct, frozen=True):
    """What warming an engine up did.

    Args:
        asked, run: prompts that were asked for, and run within the time.
        seconds: how long it took.
        first, last: seconds for a prompt of the first round, which pays for everything that is set up, and of the last.
    """

    asked: int
    run: int
    seconds: float
    first: float
    last: float


class ModelSource:
    """A local model. Its engine is made when it is first needed, so that what is set before counts from the beginning.

    Args:
        local: the model.
        kind: "auto", "manager" or "steps".
        settings: for the engine, when it is made.
        max_budget: CPU-seconds per minute; None = no bound.
    """

    def __init__(self, local: LocalModel, kind: str, settings: dict[str, Any], max_budget: float | None) -> None:
        self.local, self.tokenizer = local, local.tokenizer
        self.eos_ids: tuple[int, ...] = local.eos_ids
        self.governor = None if max_budget is None else Governor(max_budget)
        self._kind, self._settings = kind, settings
        # What an engine takes live counts for all who share it, whoever was first; it is no reason to refuse a sharer.
        self._later: dict[str, Any] = {}
        self._engine: Any = None
        self._making = threading.Lock()
        self._admission: Admission | None = None
        if self.governor is not None:
            self._settings["governor"] = self.governor
            self._needs_steps("max_budget")

    @property
    def facts(self) -> ModelFacts:
        """What `model.generate`'s arguments are read with."""
        local = self.local
        config = getattr(local.model, "generation_config", None)
        return ModelFacts(
            {} if config is None else config.to_dict(),
            local.kind == "seq2seq",
            local.decoder_start[0] if local.decoder_start else None,
            local.context_length,
            local.eos_ids,
            local.vocab_size,
        )

    @property
    def engine(self) -> Engine:
        """The engine that all who use the model share; making it may take seconds."""
        with self._making:
            if self._engine is None:
                from multimodal.pipes.local_engines import shared_engine

                engine = shared_engine(self.local, cast(Any, self._kind), **self._settings)
                engine.configure(**self._later)
                self._engine = engine
        return cast(Engine, self._engine)

    async def prepare(self) -> None:
        """Make the engine, without holding up the event loop."""
        if self._engine is None:
            await asyncio.to_thread(lambda: self.engine)

    def encode(self, prompt: str | Messages) -> tuple[int, ...]:
        """The token ids of a prompt: a dialogue, or a text, which is a dialogue of one where there is a template."""
        check_prompt(prompt)
        local = self.local
        if not isinstance(prompt, str):
            return local.chat(prompt)
        return local.chat([{"role": "user", "content": prompt}]) if local.has_chat_template else local.encode(prompt)

    def fresh_seed(self) -> int:
        """The seed of a sampling call that names none."""
        from multimodal.pipes.local_tensors import next_seed

        return next_seed()

    def memory(self) -> dict[str, Any]:
        """What `configure` takes to make the engine's memory as it is now; the engine is made for it."""
        self._needs_steps("mempool_config")
        engine: Any = self.engine
        settings: dict[str, Any] = engine.engine.pool_settings
        return settings

    def configure(self, **settings: Any) -> None:
        """Settings of the engine, live where it runs already."""
        if settings.get("reclaim_policy") is not None or settings.get("pool_bytes") is not None:
            self._needs_steps("mempool_config")
        settings = {name: value for name, value in settings.items() if value is not None}
        if self._engine is None:
            self._later |= settings
        else:
            self._engine.configure(**settings)

    def admit(self, window_size: float, semantic_cluster: bool, dynamic_batch: bool) -> None:
        """Who joins the batch, and when."""
        if self._admission is None:
            self._admission = Admission(window_size, semantic_cluster, dynamic_batch)
            self.configure(admission=self._admission)
        else:
            self._admission.configure(
                window_size=window_size, semantic_cluster=semantic_cluster, dynamic_batch=dynamic_batch
            )

    def warm_up(self, count: int, limit: float) -> WarmUp:
        """Run so many short prompts, or as many as `limit` seconds allow."""
        engine: Any = self.engine
        began = before = time.monotonic()
        run, first, last = 0, 0.0, 0.0
        while run < count and before - began < limit:
            some = min(WARM_ROUND, count - run)
            engine.warm_up(some)
            now = time.monotonic()
            last = (now - before) / some
            first = first if run else last
            run, before = run + some, now
        return WarmUp(count, run, before - began, first, last)

    def close(self) -> None:
        """Let go of the engine; the last who holds it closes it."""
        if self._engine is not None:
            self._engine.close()

    def _needs_steps(self, what: str) -> None:
        if self._kind == "steps":
            return
        if self._kind == "manager":
            raise UsageError(f"{what} needs engine='steps'; transformers' manager has no such setting")
        if self._engine is None:
            self._kind = "steps"
        elif getattr(self._engine.engine, "kind", "") != "steps":
            raise UsageError(f"{what}: answers run already on transformers' manager; call it before the first answer")


class EngineSource:
    """An engine that the caller made, with a tokenizer beside it; closing the processor leaves it open."""

    governor: Governor | None = None
    prepare = None
    """It is there."""

    def __init__(self, engine: Engine, tokenizer: Any) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.eos_ids = _eos_of(tokenizer)
        self.facts = ModelFacts(eos_ids=self.eos_ids)
        self._admission: Admission | None = None

    def encode(self, prompt: str | Messages) -> tuple[int, ...]:
        """The token ids of a prompt, by the chat template where the tokenizer has one."""
        check_prompt(prompt)
        if self.tokenizer is None:
            raise UsageError("this processor has no tokenizer; pass tokenizer=..., or use generate with token ids")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
        if getattr(self.tokenizer, "chat_template", None) is not None:
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        else:
            found = self.tokenizer.encode("\n\n".join(str(each["content"]) for each in messages))
            ids = getattr(found, "ids", found)
        if not ids:
            raise UsageError("the prompt has no tokens; give some text")
        return tuple(ids)

    def fresh_seed(self) -> int | None:
        """None: a random one of the engine's."""
        return None

    def memory(self) -> dict[str, Any]:
        """What `configure` takes to make the engine's memory as it is now; nothing where the engine does not say."""
        settings: dict[str, Any] = getattr(self.engine, "pool_settings", {})
        return settings

    def configure(self, **settings: Any) -> None:
        """Settings of the engine, live."""
        self._own("configure")(**{name: value for name, value in settings.items() if value is not None})

    def admit(self, window_size: float, semantic_cluster: bool, dynamic_batch: bool) -> None:
        """Who joins the batch, and when."""
        self.configure(admission=Admission(window_size, semantic_cluster, dynamic_batch))

    def warm_up(self, count: int, limit: float) -> WarmUp:
        """Whatever the engine does to warm up."""
        began = time.monotonic()
        run = self._own("warm_up")(count)
        seconds = time.monotonic() - began
        return WarmUp(count, run, seconds, seconds / max(1, run), seconds / max(1, run))

    def close(self) -> None:
        """Nothing: whoever made the engine closes it."""

    def _own(self, name: str) -> Any:
        found = getattr(self.engine, name, None)
        if found is None:
            raise UsageError(f"{type(self.engine).__name__} has no {name}(); set it where the engine is made")
        return found


def open_source(
    model: Any,
    tokenizer: Any,
    *,
    quant_mode: str | None,
    engine: str,
    settings: dict[str, Any],
    max_budget: float | None,
    memory: int | None = None,
) -> ModelSource | EngineSource:
    """The source for whatever a processor was given: an engine, or what `LocalModel.load` reads.

    Args:
        model, tokenizer, quant_mode, engine, settings, max_budget: as the processor was given them.
        memory: bytes that the model may need; None = what the machine has free, asked of files only.

    Raises:
        UsageError: an engine with settings for a model, an unknown kind of engine, no tokenizer, a model that does not
            fit; or as `LocalModel.load`.
    """
    if engine not in ENGINES:
        raise UsageError(f"engine={engine!r} is none of {', '.join(ENGINES)}")
    if hasattr(model, "submit") and hasattr(model, "stats"):
        given = {"quant_mode": quant_mode, "max_budget": max_budget, **settings}
        if odd := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"{', '.join(odd)}: {type(model).__name__} is an engine already; set it where it is made")
        if tokenizer is not None and not hasattr(tokenizer, "decode"):
            raise UsageError(f"tokenizer={tokenizer!r} is no tokenizer; give an object with encode and decode")
        return EngineSource(model, tokenizer)
    if tokenizer is not None and not isinstance(tokenizer, str | os.PathLike) and not hasattr(tokenizer, "decode"):
        raise UsageError(f"tokenizer={tokenizer!r} is no tokenizer; give one, or its folder or name")
    from multimodal.pipes.local_loading import LocalModel

    _check_fits(model, quant_mode, memory)
    local = LocalModel.load(model, tokenizer=tokenizer, quant_mode=quant_mode)
    return ModelSource(local, engine, {n: v for n, v in settings.items() if v is not None}, max_budget)


def _check_fits(model: Any, quant_mode: str | None, memory: int | None) -> None:
    """Before a byte of the weights is read: a machine that runs out of memory says nothing any more."""
    from multimodal.estimate import check_fits
    from multimodal.weights import BrokenModelError, read_shape, shape_of

    is_file = isinstance(model, str | os.PathLike) and os.path.exists(model)
    if not is_file and (memory is None or not hasattr(model, "parameters")):
        return
    try:
        shape = read_shape(os.fspath(model)) if is_file else shape_of(model)
    except BrokenModelError:
        raise
    except UsageError:
        return  # a kind whose sizes are not known here; whether it loads is for transformers to say
    check_fits(shape, quant_mode=quant_mode, context=SHORT_ANSWER, memory=memory)


def _eos_of(tokenizer: Any) -> tuple[int, ...]:
    eos = getattr(tokenizer, "eos_token_id", None)
    return () if eos is None else (int(eos),)
