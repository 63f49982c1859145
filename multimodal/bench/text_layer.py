"""The whole text layer in this process: ids -> text, stops, fillers, chunks -> aligner, drained as a stream does it.

CPU per token at 250 and at 4,000 tokens of one answer, every token at an instant of its own, 20 ms apart, with two stop
sequences, the default chunks and lane, and sync marks every 3 tokens. Both lengths are made of the same words: short
answers are parts of the long one. The tokenizer is a byte-level one, trained here on the same text, so that characters
and words come split over tokens.

Beside the bars, as tables: what chunk_size and priority_threshold do, and the share of chunks that end on meaning.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from itertools import pairwise
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.errors import UsageError
from multimodal.events import Text
from multimodal.pipes.flow import TextFlow
from multimodal.pipes.generation import Step
from multimodal.sync.aligner import Aligner
from multimodal.wire import encode_bundle

SHORT, LONG = 250, 4_000
ROUNDS = 7
GAP = 0.02
INTERVAL = 3
STOPS = ("\nUser:", "<|end|>")
SIZES = (1, 8, 16, 32, 64)
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
ENGLISH = (
    "Um, let us look at the Halo kettle. It boils 1.5 litres in 90 seconds, switches itself off, and stays cool to the "
    "touch. Well, it costs $1,299.00 with the base; the base is 15 × 15 cm. You know, most guests take the blue one, "
    "because it is, like, the quietest we have. It is dishwasher safe at 60 °C, it works well in small rooms, and "
    "you can read more at https://shop.example.com/kettle. So, uh, two sizes:\n- small, for 2 cups\n- large, for 12 "
    "cups\n"
)
CHINESE = (
    "嗯，我们先看光环水壶。容量1.5升，烧开一壶水只要90秒，手柄不烫手。那个，今天的价格是¥1,299.00元，比昨天便宜20元！"
    "其实大多数客人选中号，因为它放得进30厘米的架子。就是说，呃，保修三年。那个杯子也很好看，啊哈，正合适。\n"
)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Both lengths are measured round by round in turn, so that a busy moment of the machine hits them alike."""
    rounds = 2 if options.quick else ROUNDS
    tokenizer = _tokenizer()
    ids: list[int] = []
    while len(ids) < LONG:
        ids += tokenizer.encode(ENGLISH + CHINESE).ids
    ids = ids[:LONG]
    short: list[float] = []
    long: list[float] = []
    for _ in range(rounds):
        parts = [_microseconds(tokenizer, ids[start : start + SHORT]) for start in range(0, LONG, SHORT)]
        short.append(statistics.mean(parts))
        long.append(_microseconds(tokenizer, ids))
    growth = statistics.median(many / few for few, many in zip(short, long, strict=True))
    sizes = {f"{size}": _swept(tokenizer, ids, size, 0.3) for size in SIZES}
    thresholds = {f"{each:g}": _swept(tokenizer, ids, 1, each) for each in THRESHOLDS}
    firsts = {row["first_token_at_ms"] for row in sizes.values()}
    chunks = [row["chunks"] for row in sizes.values()]
    sent = [row["bytes"] for row in sizes.values()]
    low = [row["low_share"] for row in thresholds.values()]
    figures = [
        figure(f"CPU per token, {LONG:,} tokens", statistics.median(long), "us", 50.0, "lower"),
        figure(f"CPU per token, {SHORT} tokens", statistics.median(short), "us", 50.0, "lower"),
        figure(f"{LONG:,} tokens against {SHORT}", growth, "ratio", 1.2, "lower"),
        figure("chunks that end on meaning, size 32", sizes["32"]["on_meaning_share"], "share", 0.9, "higher"),
        figure("steps of chunk_size that make more chunks", _rises(chunks), "steps", 0, "lower"),
        figure("steps of chunk_size that send more bytes", _rises(sent), "steps", 0, "lower"),
        figure("steps of priority_threshold with less on the low lane", _rises(low[::-1]), "steps", 0, "lower"),
        figure("low lane at threshold 0", low[0], "share", 0, "lower"),
        figure("instants of the first token over all sizes", len(firsts), "instants", 1, "lower"),
    ]
    ours = {
        "us_per_token": {f"{SHORT}": _spread(short), f"{LONG}": _spread(long)},
        "chunk_size": sizes,
        "priority_threshold": thresholds,
        "rounds": rounds,
        "tokens_per_second": 1 / GAP,
        "tokens": len(ids),
    }
    return report("text-layer", figures, ours=ours, packages=["tokenizers", "regex", "msgspec"])


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def _rises(values: list[float]) -> int:
    return sum(after > before for before, after in pairwise(values))


def _tokenizer() -> Any:
    try:
        tokenizers = importlib.import_module("tokenizers")
        parts = {name: importlib.import_module(f"tokenizers.{name}") for name in ("models", "decoders", "trainers")}
        byte_level = importlib.import_module("tokenizers.pre_tokenizers").ByteLevel
    except ImportError as error:
        raise UsageError("bench text-layer trains a tokenizer: pip install 'multimodal-stream[llm]'") from error
    tokenizer = tokenizers.Tokenizer(parts["models"].BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = parts["decoders"].ByteLevel()
    trainer = parts["trainers"].BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=byte_level.alphabet())
    tokenizer.train_from_iterator([ENGLISH, CHINESE], trainer)
    return tokenizer


def _flow(tokenizer: Any, size: int, threshold: float, every: int | None = INTERVAL) -> TextFlow:
    return TextFlow(tokenizer, stop=STOPS, chunk_size=size, priority_threshold=threshold, sync_interval=every)


def _microseconds(tokenizer: Any, ids: list[int]) -> float:
    steps = [Step(each, finish="length" if n == len(ids) - 1 else "") for n, each in enumerate(ids)]
    flow, aligner = _flow(tokenizer, 32, 0.3), Aligner(INTERVAL)
    told = 0
    now = 0.0
    began = time.process_time()
    for step in steps:
        now += GAP
        due = flow.next_timer()
        if due is not None and due <= now:
            flow.handle_timer(due)
        flow.feed(step, now)
        for token in flow.take():
            aligner.feed_token(token, now)
        for event in aligner.events():
            if event.__class__ is Text:
                told += 1
    aligner.feed_eof(now)
    spent = time.process_time() - began
    if told != len(ids):
        raise AssertionError(f"{told} tokens came out of the text layer, {len(ids)} went in")
    return spent / len(ids) * 1e6


def _swept(tokenizer: Any, ids: list[int], size: int, threshold: float) -> dict[str, float]:
    """One answer under given settings: its chunks, its messages, its low lane."""
    # Without marks: at every third token they empty the low lane, whatever the threshold.
    flow, aligner = _flow(tokenizer, size, threshold, None), Aligner(INTERVAL)
    sent = low = out = 0
    first = -1.0
    wait = 0.0

    def leave(now: float) -> None:
        nonlocal sent, low, out, first, wait
        tokens = flow.take()
        if not tokens:
            return
        first = now if first < 0 and any(token.text for token in tokens) else first
        for token in tokens:
            aligner.feed_token(token, now)
            low += token.lane == "low"
            wait += now - (out + 1) * GAP
            out += 1
        sent += sum(len(part.encode()) for part in encode_bundle(aligner.events()))

    now = 0.0
    for number, each in enumerate(ids):
        now = (number + 1) * GAP
        while (due := flow.next_timer()) is not None and due < now:
            flow.handle_timer(due)
            leave(due)
        flow.feed(Step(each, finish="length" if number == len(ids) - 1 else ""), now)
        leave(now)
    stats = flow.stats
    return {
        "chunks": stats.chunks,
        "tokens_per_chunk": round(len(ids) / stats.chunks, 2),
        "on_meaning_share": round(stats.on_meaning / stats.chunks, 3),
        "bytes": sent,
        "low_share": round(low / len(ids), 4),
        "mean_wait_ms": round(wait / len(ids) * 1000, 1),
        "first_token_at_ms": round(first * 1000, 1),
    }
