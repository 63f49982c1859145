"""What benchmarks of engines ask with: a model of 110 million random weights, prompts, and clients closed and open."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

__all__ = [
    "NEW_TOKENS",
    "Answer",
    "Ask",
    "closed_loop",
    "one_thread",
    "open_loop",
    "percentile",
    "prompts",
    "save_model",
    "together",
]

NEW_TOKENS = 32
"""Of every answer: no end token is ever chosen."""
WORDS = 16_000


class Answer(msgspec.Struct, frozen=True):
    """One answer as its client saw it, seconds of `time.monotonic`; `first` is nan where the peer does not stream."""

    asked: float
    first: float
    last: float
    tokens: int


Ask = Callable[[Sequence[int]], Awaitable[Answer]]


def one_thread() -> None:
    """One thread for torch, here and in what this process starts; on a shared machine two are slower than one."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def save_model(folder: Path, quick: bool = False) -> None:
    """A random Llama of 110 million parameters (`quick`: 1), with a tokenizer of words that every peer can load."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = 512 if quick else WORDS
    width, layers = (128, 2) if quick else (768, 12)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=None,
    )
    model: Any = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    raw = Tokenizer(models.WordLevel({f"w{number}": number for number in range(words)}, unk_token="w0"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    kind: Any = PreTrainedTokenizerFast
    fast = kind(tokenizer_object=raw, unk_token="w0", model_max_length=2048)
    fast.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    fast.save_pretrained(folder)


def prompts(count: int, shortest: int, longest: int, seed: int, words: int = 500) -> list[list[int]]:
    """Random prompts, none of which begins like another."""
    dice = random.Random(seed)
    return [[dice.randrange(1, words) for _ in range(dice.randint(shortest, longest))] for _ in range(count)]


async def together(ask: Ask, asked: Sequence[Sequence[int]]) -> dict[str, float]:
    """All at once: tokens per second until the last has ended, and CPU seconds per token of this process."""
    cpu, began = time.process_time(), time.monotonic()
    answers = await asyncio.gather(*(ask(each) for each in asked))
    wall, tokens = time.monotonic() - began, sum(each.tokens for each in answers)
    return {"tokens_per_s": tokens / wall, "cpu_ms_per_token": 1000 * (time.process_time() - cpu) / tokens}


async def closed_loop(ask: Ask, clients: int, asked: Sequence[Sequence[int]]) -> dict[str, float]:
    """So many clients, each asking again as soon as it has its answer, until all prompts were asked."""
    waiting = list(asked)
    answers: list[Answer] = []

    async def client() -> None:
        while waiting:
            answers.append(await ask(waiting.pop()))

    cpu, began = time.process_time(), time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    wall, own = time.monotonic() - began, time.process_time() - cpu
    tokens = sum(each.tokens for each in answers)
    ttfts = [each.first - each.asked for each in answers if each.first == each.first]
    return {
        "qps": len(answers) / wall,
        "tokens_per_s": tokens / wall,
        # Who does not stream has no first token of its own: the answer is there when all of it is.
        **({"ttft_p50_ms": 1000 * percentile(ttfts, 0.5)} if ttfts else {}),
        **({"ttft_p95_ms": 1000 * percentile(ttfts, 0.95)} if ttfts else {}),
        "latency_p95_ms": 1000 * percentile([each.last - each.asked for each in answers], 0.95),
        "cpu_ms_per_token": 1000 * own / tokens,
    }


async def open_loop(ask: Ask, rate: float, asked: Sequence[Sequence[int]], seed: int) -> dict[str, float]:
    """Clients that come whether or not the ones before them have their answers: Poisson arrivals at this rate.

    A wait is counted from when a client came, not from when it was served, so that queueing cannot hide.
    """
    dice = random.Random(seed)
    answers: list[Answer] = []

    async def client(prompt: Sequence[int], due: float) -> None:
        answers.append(msgspec.structs.replace(await ask(prompt), asked=due))

    due = began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for prompt in asked:
            due += dice.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(client(prompt, due))
    ttfts = [each.first - each.asked for each in answers]
    return {
        "rate": rate,
        "answers": len(answers),
        "qps": len(answers) / (time.monotonic() - began),
        "ttft_p50_ms": 1000 * percentile(ttfts, 0.5),
        "ttft_p95_ms": 1000 * percentile(ttfts, 0.95),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share does not exceed; nan where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def median(values: Sequence[float]) -> float:
    """nan where there are none."""
    return statistics.median(values) if values else float("nan")


def resident_bytes() -> int:
    """Memory of this process that is in RAM now; the most it ever was where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
