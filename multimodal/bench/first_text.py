"""When the first text is there: blocking `model.generate` beside `StreamProcessor.prompt`, on the same model.

A Llama of 110 million random weights with a byte-level tokenizer trained here, prompts of 128 and 512 tokens, 64 tokens
out, one torch thread. Ours is measured at the consumer of a `MultiModalStream` whose pictures are prepared meanwhile:
its first text event with something to read, and its last text. Blocking ends when its text is decoded. Every run has a
prompt of its own, so that no kept prefix serves it, and all kinds take turns, in another order each round.

The bar of the first text is the model's own: P + d of P + N d, where P is a blocking answer of one token and d what
each further one takes, both measured in the same rounds. CPU time of the whole process, pictures included, stands
beside, and the same shares by it: on a machine that does other things too it says more. `--quick` uses a tiny model and
judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from typing import Any

import msgspec

from multimodal.bench.report import Figure, figure, report
from multimodal.bench.text_stage import byte_tokenizer, invented_words, random_llama, spread, whole_words
from multimodal.errors import UsageError
from multimodal.events import Reveal, Text
from multimodal.pipes.folder import FolderImagePipe
from multimodal.pipes.images import ImageStore
from multimodal.pipes.processor import StreamProcessor
from multimodal.pipes.samples import samples
from multimodal.stream import MultiModalStream

ROUNDS = 5
LENGTHS = (128, 512)
SIZES = (8, 32, 64)
TOKENS = 64
VOCABULARY = 32_000
OFTEN = 400
"""Words that prompts are made of."""
FIRST_BAR, TOTAL_BAR = 1.10, 1.05


class Took(msgspec.Struct, frozen=True):
    """One answer: seconds to its first text and to its last, CPU seconds of the process to both, pictures shown."""

    first: float
    total: float
    first_cpu: float
    cpu: float
    shown: int = 0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Five to ten minutes; `--quick` some seconds."""
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        import torch
    except ImportError as error:
        raise UsageError("bench first-text runs a model: pip install 'multimodal-stream[llm]'") from error
    torch.set_num_threads(1)
    quick = bool(options.quick)
    rounds, tokens = (1, 16) if quick else (ROUNDS, TOKENS)
    stage = _Stage(quick, tokens)
    engine = stage.engine
    table: dict[int, dict[str, list[Took]]] = {}
    with stage.processor:
        for length in LENGTHS:
            kinds = ["one token", "blocking", *(f"chunk_size {size}" for size in SIZES)]
            rows: dict[str, list[Took]] = {kind: [] for kind in kinds}
            for kind in kinds:  # what is set up once is set up by an answer that does not count
                stage.answer(kind, length)
            for number in range(rounds):
                _say(f"prompt of {length}: round {number + 1} of {rounds}")
                for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
                    rows[kind].append(stage.answer(kind, length))
            table[length] = rows
    figures: list[Figure] = []
    pictures = statistics.median(asyncio.run(_pictures()) for _ in range(3))
    ours: dict[str, Any] = {
        "pictures_cpu_ms": 1000 * pictures,
        "engine": engine,
        "rounds": rounds,
        "tokens": tokens,
        "parameters": stage.parameters,
    }
    for length, rows in table.items():
        judged, ours[f"prompt {length}"] = _judged(length, rows, tokens, pictures, not quick)
        figures += judged
    return report("first-text", figures, ours=ours, packages=("torch", "transformers", "tokenizers", "Pillow"))


def _judged(
    length: int, rows: dict[str, list[Took]], tokens: int, pictures: float, judges: bool
) -> tuple[list[Figure], dict[str, Any]]:
    """The bars of one length of prompt, and its table."""
    whole = [each.total for each in rows["blocking"]]
    prefill = statistics.median(each.total for each in rows["one token"])
    blocking = statistics.median(whole)
    step = (blocking - prefill) / (tokens - 1)
    floor = _floor(prefill, blocking, tokens)
    blocking_cpu = statistics.median(each.cpu for each in rows["blocking"])
    floor_cpu = _floor(statistics.median(each.cpu for each in rows["one token"]), blocking_cpu, tokens)
    figures: list[Figure] = []
    for size in SIZES:
        # A busy moment of the machine lasts longer than a round: each is held against the blocking answer of its own.
        mine = rows[f"chunk_size {size}"]
        first = statistics.median(each.first / all_ for each, all_ in zip(mine, whole, strict=True))
        total = statistics.median(each.total / all_ for each, all_ in zip(mine, whole, strict=True))
        cpu = statistics.median(each.cpu / other.cpu for each, other in zip(mine, rows["blocking"], strict=True))
        first_cpu = statistics.median(
            each.first_cpu / other.cpu for each, other in zip(mine, rows["blocking"], strict=True)
        )
        name = f"prompt {length}, chunk_size {size}"
        figures += [
            figure(f"{name}: first text against the floor", first / floor, "ratio", FIRST_BAR if judges else None),
            figure(f"{name}: last text against blocking", total, "ratio", TOTAL_BAR if judges else None),
            # Whatever else a machine does only adds time.
            figure(f"{name}: last text, the quickest of each", min(e.total for e in mine) / min(whole), "ratio"),
            figure(f"{name}: first text, share of blocking", first, "share"),
            figure(f"{name}: first text against the floor, by CPU time with pictures", first_cpu / floor_cpu, "ratio"),
            figure(f"{name}: CPU time against blocking, with pictures", cpu, "ratio"),
            figure(f"{name}: CPU time against blocking, without", cpu - pictures / blocking_cpu, "ratio"),
        ]
    shown = min(each.shown for size in SIZES for each in rows[f"chunk_size {size}"])
    figures.append(figure(f"prompt {length}: pictures shown in each answer", shown, "pictures", 3, "higher"))
    seen: dict[str, Any] = {
        kind: {
            name: spread([1000 * getattr(each, name) for each in took])
            for name in ("first", "total", "first_cpu", "cpu")
        }
        for kind, took in rows.items()
    }
    return figures, {"P_ms": 1000 * prefill, "d_ms": 1000 * step, "floor": floor, "ms": seen}


def _floor(one: float, whole: float, tokens: int) -> float:
    """(P + d) / (P + N d), of an answer of one token and a whole one."""
    step = (whole - one) / (tokens - 1)
    return (one + step) / (one + tokens * step)


async def _pictures() -> float:
    """CPU seconds for the pictures alone."""
    cpu = time.process_time()
    images = FolderImagePipe(samples("kettle"), store=ImageStore())
    for _ in range(len(list(images.keys()))):
        await anext(images)
    await images.aclose()
    return time.process_time() - cpu


class _Stage:
    """The model twice, as a forward pass writes into its configuration: one for blocking answers, one for ours."""

    def __init__(self, quick: bool, tokens: int) -> None:
        vocabulary = 2_000 if quick else VOCABULARY
        width, layers = (64, 2) if quick else (768, 12)
        words = invented_words(4 * vocabulary)
        # Some words far more often than the others, so that each of them is one token.
        self.raw = byte_tokenizer((f" {word}" for word in words + 50 * words[:OFTEN]), vocabulary)
        if self.raw.get_vocab_size() != vocabulary:
            raise AssertionError(f"the tokenizer has {self.raw.get_vocab_size()} tokens, {vocabulary} were wanted")
        self.words = whole_words(self.raw, words, OFTEN // 2)
        self.model = random_llama(vocabulary, width=width, layers=layers)
        self.parameters = sum(each.numel() for each in self.model.parameters())
        self.tokens = tokens
        self.processor = StreamProcessor(random_llama(vocabulary, width=width, layers=layers), _fast(self.raw))
        self.dice = random.Random(5)

    @property
    def engine(self) -> str:
        """Which engine the package chose, and why."""
        shared: Any = self.processor._source.engine
        return f"{shared.engine.kind}: {shared.why}"

    def answer(self, kind: str, length: int) -> Took:
        """One answer of that kind to a new prompt."""
        prompt = "".join(self.dice.choices(self.words, k=length))
        if kind in ("one token", "blocking"):
            return self._blocking(prompt, 1 if kind == "one token" else self.tokens, length)
        self.processor.update_params(chunk_size=int(kind.rsplit(" ", 1)[-1]))
        return asyncio.run(self._streamed(prompt))

    def _blocking(self, prompt: str, tokens: int, length: int) -> Took:
        import torch

        cpu, began = time.process_time(), time.monotonic()
        ids = torch.tensor([self.raw.encode(prompt).ids])
        with torch.inference_mode():
            told = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
        self.raw.decode(told[0, ids.shape[1] :].tolist())
        took = time.monotonic() - began
        if told.shape[1] != length + tokens:
            raise AssertionError(f"blocking gave {told.shape[1]} tokens of {length} + {tokens}")
        spent = time.process_time() - cpu
        return Took(took, took, spent, spent)

    async def _streamed(self, prompt: str) -> Took:
        first, last, first_cpu, heard, shown = 0.0, 0.0, 0.0, 0, 0
        store = ImageStore()  # of its own, so that the pictures are prepared in each answer
        images = FolderImagePipe(samples("kettle"), store=store)
        cpu, began = time.process_time(), time.monotonic()
        pipe = self.processor.prompt(prompt, max_new_tokens=self.tokens)
        async with MultiModalStream(text_pipe=pipe, image_pipe=images, sync_interval=3) as stream:
            async for event in stream:
                if isinstance(event, Text):
                    last = time.monotonic() - began
                    if not first and event.text.strip():
                        first, first_cpu = last, time.process_time() - cpu
                    heard += event.token_count
                elif isinstance(event, Reveal):
                    shown += 1
        spent = time.process_time() - cpu
        if heard != self.tokens or not first:
            raise AssertionError(f"the stream gave {heard} tokens of {self.tokens}")
        return Took(first, last, first_cpu, spent, shown)


def _fast(raw: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def _say(words: str) -> None:
    print(f"first-text {time.strftime('%H:%M:%S')}: {words}", file=sys.stderr)
