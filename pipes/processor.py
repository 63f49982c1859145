"""StreamProcessor: a language model whose answers stream, with the settings that decide how."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.answer import AnswerPipe
from multimodal.pipes.drop_in import read_generate
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import GenerationRequest, Sampling
from multimodal.pipes.processor_controls import ProcessorControls
from multimodal.pipes.processor_figures import Answers, ProcessorFigures
from multimodal.pipes.processor_source import Messages, open_source
from multimodal.pipes.processor_stages import StageDesk
from multimodal.pipes.reader import AnswerReader
from multimodal.pipes.result import Generation
from multimodal.pipes.settings import TextSettings, check_count, check_flag, end_ids, for_edge
from multimodal.pipes.stages import STAGES, Stage
from multimodal.pipes.watch import AnswerWatch
from multimodal.values import Token

__all__ = ["StreamProcessor"]

EDGE_ROWS, EDGE_POOL = 2, 64 << 20
"""Rows and KV bytes with `edge_mode`: two answers of a small model, some 3,000 tokens of 135 M parameters."""
EDGE_MEMORY = 4 << 30
"""Bytes that a model may need with `edge_mode`, the weights as they are read included."""


class StreamProcessor(ProcessorControls):
    """Streams what a model says: `generate` stands in for `model.generate`, `prompt` gives a text pipe for one answer.

    All processors of one model object share one engine, so that their answers run in one batch. Use it as a (sync or
    async) context manager, or `close` it. With exactly one prompt that nobody reads yet it is itself a text pipe.

    Args:
        model: a transformers model, a `LocalModel`, the folder, hub name or GGUF file of one, or an engine.
        tokenizer: another than the model's own; an engine's has to be given where text is wanted.
        chunk_size: tokens that leave together at most. The first content leaves at once, whatever it is; later chunks
            end where meaning does.
        buffer_factor: how many times the consumer's measured need is made ahead; 1.2 to 1.8 is sensible.
        priority_threshold: filler words ride the low lane: 0 = none, 1 = every word that can be one.
        quant_mode: "int8" = the linear layers' weights in 8 bits; None = as loaded.
        edge_mode: for a small machine: int8 unless `quant_mode` says otherwise, at most 4 GiB for the model, one
            torch thread for the whole process, 2 rows, 64 MiB for keys and values, chunks of 16 tokens within 0.8 s,
            and nothing made ahead beyond the need (factor 1.0), each unless something else than its default is given.
        max_budget: CPU-seconds per minute that generation may take (15 = a quarter of one core); None = no bound.
        engine: "auto", "manager" (transformers' continuous batching) or "steps" (our own step loop).
        max_wait: seconds that a token waits for its chunk at most.
        filler_wait: seconds that a filler word waits at most; None = twice `max_wait`.
        max_chars: characters that leave together at most; None = any.
        stages: the table by which a dialogue (`prompt` with messages) sets chunk_size and buffer_factor as it goes;
            None = dialogues have no stages. Prompts without messages keep the settings above.
        max_rows: answers that run at once; more wait.
        pool_bytes: memory for keys and values.
        skip_special_tokens: leave them out of the text.

    Raises:
        UsageError: a value out of its range, a model that cannot be had or cannot generate, or one that does not fit
            into the memory (the sum is shown).
    """

    token_unit = "token"

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        chunk_size: int = 32,
        buffer_factor: float = 1.5,
        priority_threshold: float = 0.3,
        *,
        quant_mode: str | None = None,
        edge_mode: bool = False,
        max_budget: float | None = None,
        engine: str = "auto",
        max_wait: float = 0.4,
        filler_wait: float | None = None,
        max_chars: int | None = None,
        stages: Mapping[str, Stage] | None = STAGES,
        max_rows: int | None = None,
        pool_bytes: int | None = None,
        skip_special_tokens: bool = True,
    ) -> None:
        check_flag("edge_mode", edge_mode)
        check_flag("skip_special_tokens", skip_special_tokens)
        check_count("max_rows", max_rows, "answers")
        check_count("pool_bytes", pool_bytes, "bytes")
        settings = TextSettings(chunk_size, buffer_factor, priority_threshold, max_wait, filler_wait, max_chars)
        if edge_mode:
            settings = for_edge(settings)
        is_engine = hasattr(model, "submit")
        if edge_mode and not is_engine:
            from multimodal.pipes.local_tensors import use_one_thread

            quant_mode = quant_mode or "int8"
            max_rows, pool_bytes = max_rows or EDGE_ROWS, pool_bytes or EDGE_POOL
            use_one_thread()
        source = open_source(
            model,
            tokenizer,
            quant_mode=quant_mode,
            engine="steps" if engine == "auto" and pool_bytes is not None else engine,
            settings={"max_rows": max_rows, "pool_bytes": pool_bytes},
            max_budget=max_budget,
            memory=EDGE_MEMORY if edge_mode else None,
        )
        self._answers = Answers()
        super().__init__(source, StageDesk(settings, stages, self._answers))
        self._skip_special = skip_special_tokens
        self._pending: weakref.WeakSet[AnswerPipe] = weakref.WeakSet()
        self._latest: AnswerPipe | None = None  # held, so that `prompt` alone is enough before the processor is read
        self._current: AnswerPipe | None = None

    # ---- answers

    def generate(self, input_ids: Any = None, **kwargs: Any) -> Generation:
        """What `model.generate` gives, and its tokens as they come.

        Greedy, and with ``do_sample=True, seed=s`` (there: after ``torch.manual_seed(s)``), the tensor is the one that
        `model.generate` gives, up to the rounding of another batch. Rows padded left or right are read without their
        padding.

        Args:
            input_ids: a tensor or lists of token ids, [length] or [batch, length]; `inputs` is taken for it, too.
            **kwargs: those of `model.generate` that a stream can honour: attention_mask, max_new_tokens, max_length,
                min_new_tokens, min_length, do_sample, temperature, top_k, top_p, repetition_penalty,
                num_return_sequences, eos_token_id, pad_token_id, stop_strings, generation_config,
                return_dict_in_generate; and seed, and logprobs (how many of the likeliest to report). All others are
                refused with the reason.

        Raises:
            UsageError: see above; a prompt that does not fit; or the processor is closed.
        """
        self._check_open()
        if input_ids is None:
            input_ids = kwargs.pop("inputs", None)
            if input_ids is None:
                raise UsageError("generate needs input_ids: a tensor or lists of token ids")
        tokenizer = kwargs.pop("tokenizer", None) or self._source.tokenizer
        plan = read_generate(input_ids, kwargs, self._source.facts, self._source.fresh_seed)
        if plan.stops and tokenizer is None:
            raise UsageError("stop_strings need a tokenizer; give tokenizer=...")
        loop_bound = getattr(self._source.engine, "needs_loop", False)
        readers = [
            self._reader(request, self._stages.watch(None, self._callbacks), tokenizer, plan.stops, 0)
            for request in plan.requests
        ]
        return Generation(readers, plan, loop_bound=loop_bound)

    def prompt(
        self,
        prompt: str | Messages,
        *,
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
        context: str = "",
    ) -> AnswerPipe:
        """A text pipe (T1-T8) for the answer to a prompt; the model is asked at its first pull.

        Args:
            prompt: what the user says, or messages with "role" and "content"; the model's chat template is applied.
            max_new_tokens, min_new_tokens: most and least tokens of the answer.
            temperature, top_k, top_p, repetition_penalty, seed: as `Sampling`.
            stop: texts that end the answer; they are not shown.
            logprobs: how many of the likeliest tokens to report; None = nothing.
            eos_ids: the tokens that end the answer, in place of the model's own.
            context: what it is about, such as a product's id; `enable_hybrid_mode` runs those of one context together.

        Raises:
            UsageError: a value out of its range, no tokenizer, messages that the template refuses, or it is closed.
        """
        self._check_open()
        request = GenerationRequest(
            self._source.encode(prompt),
            max_new_tokens,
            Sampling(temperature, top_k, top_p, repetition_penalty, seed),
            self._source.eos_ids if eos_ids is None else end_ids(eos_ids),
            logprobs,
            min_new_tokens,
            context,
        )
        stops = list(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else stop
        TextFlow(self._source.tokenizer, stop=stops)  # refused here rather than at the first pull
        dialogue = None if isinstance(prompt, str) else prompt

        def make(sync_interval: int) -> AnswerReader:
            self._check_open()
            watch = self._stages.watch(dialogue, self._callbacks)
            return self._reader(request, watch, self._source.tokenizer, stops, sync_interval)

        pipe = AnswerPipe(make, self._source.prepare)
        self._pending.add(pipe)
        self._latest = pipe
        return pipe

    def _reader(
        self, request: GenerationRequest, watch: AnswerWatch, tokenizer: Any, stops: Sequence[str], sync_interval: int
    ) -> AnswerReader:
        flow = TextFlow(
            _NoText() if tokenizer is None else tokenizer,
            stop=stops,
            sync_interval=sync_interval or None,
            skip_special_tokens=self._skip_special,
            **watch.settings.flow(),
        )
        self._asked = True
        return AnswerReader(self._source.engine, request, flow, watcher=watch)

    # ---- figures and the end

    @property
    def metrics(self) -> ProcessorFigures:
        """The figures of all answers so far; each answer has its own in its `metrics`."""
        governor = self._source.governor
        return self._answers.figures(
            self._source.engine.stats() if self._asked and not self._closed else None,
            self._callbacks.stats(),
            None if governor is None else governor.stats(),
            self._warmed,
        )

    def close(self) -> None:
        """End the answers that run, let go of the engine, deliver what callbacks still wait for. Twice is once."""
        if self._closed:
            return
        self._closed = True
        for watch in self._answers.running:
            if watch.reader is not None:
                watch.reader.close()
        self._latest = None
        self._callbacks.close()
        self._source.close()

    def __enter__(self) -> StreamProcessor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> StreamProcessor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- as a text pipe: its only pending prompt

    def __aiter__(self) -> AsyncIterator[Token]:
        return aiter(self._adopt())

    async def __anext__(self) -> Token:
        pipe = self._current
        if pipe is None or (pipe.over and any(each.pending for each in self._pending)):
            pipe = self._adopt()
        return await anext(pipe)

    def sync_every(self, tokens: int) -> None:
        """T8, of the prompt that is pending."""
        self._adopt().sync_every(tokens)

    async def aclose(self) -> None:
        """T4: end the answer that is read through the processor. The processor stays; `close` ends it."""
        if self._current is not None:
            await self._current.aclose()

    def _adopt(self) -> AnswerPipe:
        waiting = [pipe for pipe in self._pending if pipe.pending]
        if len(waiting) != 1:
            raise UsageError(
                f"a StreamProcessor is a text pipe while exactly one prompt is pending, and there are {len(waiting)}; "
                + ("call prompt(...) first" if not waiting else "pass the pipe that prompt(...) gave")
            )
        self._current = waiting[0]
        self._latest = None
        return self._current


class _NoText:
    """The tokenizer of a processor that has none: token ids only."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return ""
