"""What int8 costs and buys on a trained model: size, first token, tokens a second, perplexity, the same text or not.

SmolLM2-135M in float32 and in int8 (a scale per output channel), both in this process, each behind the engine that the
product would give it, asked in turn so that whatever else the machine does meets both alike. One thread.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from importlib.resources import files
from typing import Any, NamedTuple

from multimodal.bench.report import figure, report
from multimodal.pipes.engine import Engine, Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.narrator_model import narrator_model

__all__ = ["run"]

ROUNDS = 12
ANSWER = 64
AGREE = 48
TEXT = 1000


class _Times(NamedTuple):
    """Seconds to the first token and tokens a second after it; the CPU seconds of the first token and of each other."""

    first: float
    rate: float
    cpu_first: float
    cpu_token: float


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure; with `options.quick` a short run that judges nothing."""
    import torch

    from multimodal.pipes.local_engines import make_engine
    from multimodal.pipes.local_loading import LocalModel

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rounds, answer, agree, count = (2, 12, 12, 4) if options.quick else (ROUNDS, ANSWER, AGREE, 16)
    home = narrator_model()
    models = {mode: LocalModel.load(home, quant_mode=mode or None) for mode in ("", "int8")}
    tokenizer = models[""].tokenizer
    prompts = [_ids(tokenizer, prompt) for prompt in _prompts()[:count]]
    engines: dict[str, Any] = {mode: make_engine(local) for mode, local in models.items()}
    try:
        for mode, engine in engines.items():
            print(f"{mode or 'float32'}: engine {type(engine).__name__} ({engine.why})", file=sys.stderr)
            engine.warm_up(2)
        times = _in_turn(engines, prompts, rounds, answer)
        eos = models[""].eos_ids
        said = {mode: _answers(engine, prompts, agree, eos) for mode, engine in engines.items()}
    finally:
        for engine in engines.values():
            engine.close()
    assert tokenizer is not None, "SmolLM2 comes with its own"
    text = tokenizer(_text())["input_ids"][:TEXT]
    logits = {mode: _logits(local.model, text) for mode, local in models.items()}
    torch.set_num_threads(threads)
    perplexity = {mode: _perplexity(each, text) for mode, each in logits.items()}
    same_choice = float((logits[""].argmax(-1) == logits["int8"].argmax(-1)).float().mean())
    size = {mode: local.weight_bytes for mode, local in models.items()}
    ttft = {mode: statistics.median(one.first for one in each) for mode, each in times.items()}
    rate = {mode: statistics.median(one.rate for one in each) for mode, each in times.items()}
    leading = [_leading(a, b) for a, b in zip(said[""], said["int8"], strict=True)]
    equal = sum(a == b for a, b in zip(said[""], said["int8"], strict=True))
    judged = not options.quick
    figures = [
        figure("weights, int8 over float32", size["int8"] / size[""], "ratio"),
        figure("first token, int8 over float32", ttft["int8"] / ttft[""], "ratio", 0.6 if judged else None),
        figure("tokens/s, int8 over float32", rate["int8"] / rate[""], "ratio", 1.7 if judged else None, "higher"),
        figure("perplexity, float32", perplexity[""], "1"),
        figure("perplexity, int8", perplexity["int8"], "1"),
        figure("same likeliest token on the same text", same_choice, "share", better="higher"),
        figure("greedy, leading tokens that are equal", statistics.mean(leading), "share", better="higher"),
        figure("greedy, answers that are equal", equal / len(prompts), "share", better="higher"),
    ]
    ours = {
        "model": "SmolLM2-135M-Instruct",
        "engine": {mode or "float32": type(engine).__name__ for mode, engine in engines.items()},
        "weight_bytes": {mode or "float32": value for mode, value in size.items()},
        "first_token_ms": {mode or "float32": round(value * 1000, 2) for mode, value in ttft.items()},
        "tokens_per_s": {mode or "float32": round(value, 2) for mode, value in rate.items()},
        "cpu_first_token_ms": _cpu(times, "cpu_first"),
        "cpu_token_ms": _cpu(times, "cpu_token"),
        "rounds": rounds,
        "prompt_tokens": [len(ids) for ids in prompts],
        "text_tokens": len(text),
        "answers": [
            {"float32": tokenizer.decode(a), "int8": tokenizer.decode(b)}
            for a, b in zip(said[""], said["int8"], strict=True)
        ][:3],
    }
    return report("int8", figures, ours, packages=("torch", "transformers"))


def _in_turn(engines: dict[str, Any], prompts: list[list[int]], rounds: int, answer: int) -> dict[str, list[_Times]]:
    """One entry a round, round by round, the order changing."""
    found: dict[str, list[_Times]] = {mode: [] for mode in engines}
    for number in range(rounds):
        # Another first token each time: nothing of an earlier prompt is kept for it.
        ids = [1000 + number, *prompts[number % len(prompts)][1:]]
        order = list(engines) if number % 2 == 0 else list(engines)[::-1]
        for mode in order:
            found[mode].append(_time(engines[mode], ids, answer))
        print(f"round {number + 1} of {rounds}: " + _last(found), file=sys.stderr)
    return found


def _cpu(times: dict[str, list[_Times]], name: str) -> dict[str, float]:
    """CPU milliseconds, which a busy machine changes less than the others."""
    each = {mode or "float32": [getattr(one, name) for one in found] for mode, found in times.items()}
    return {mode: round(statistics.median(values) * 1000, 2) for mode, values in each.items()}


def _last(found: dict[str, list[_Times]]) -> str:
    told = ((mode or "float32", each[-1]) for mode, each in found.items())
    return "; ".join(f"{mode} {last.first * 1000:.0f} ms, {last.rate:.1f} tokens/s" for mode, last in told)


def _time(engine: Engine, ids: list[int], answer: int) -> _Times:
    begun, worked = time.monotonic(), time.process_time()
    mailbox = Mailbox(answer + 1)
    engine.submit(GenerationRequest(tuple(ids), max_new_tokens=answer, min_new_tokens=answer), mailbox)
    mailbox.wait_blocking()
    first, read = time.monotonic() - begun, time.process_time()
    steps = _rest(mailbox)
    rest = len(steps) - 1
    cpu = (time.process_time() - read) / rest
    return _Times(first, rest / (steps[-1].at - steps[0].at), read - worked, cpu)


def _rest(mailbox: Mailbox) -> list[Any]:
    steps: list[Any] = []
    while not (steps and steps[-1].finish):
        mailbox.wait_blocking()
        steps += mailbox.take()
    return steps


def _answers(engine: Engine, prompts: list[list[int]], tokens: int, eos: tuple[int, ...]) -> list[list[int]]:
    """The greedy answers to all prompts, each to its own end, in one batch."""
    mailboxes = [Mailbox(tokens + 1) for _ in prompts]
    for ids, mailbox in zip(prompts, mailboxes, strict=True):
        engine.submit(GenerationRequest(tuple(ids), max_new_tokens=tokens, eos_ids=eos), mailbox)
    return [[step.token_id for step in _rest(mailbox)] for mailbox in mailboxes]


def _leading(ours: list[int], theirs: list[int]) -> float:
    """The share of an answer, of the longer one, before the first token that differs."""
    pairs = list(zip(ours, theirs, strict=False))
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return same / max(len(ours), len(theirs))


def _logits(model: Any, ids: list[int]) -> Any:
    """What the model expects after each token of a text: [tokens - 1, vocabulary]."""
    import torch

    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, :-1].float()


def _perplexity(logits: Any, ids: list[int]) -> float:
    import torch

    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    return math.exp(float(loss))


def _ids(tokenizer: Any, prompt: str) -> list[int]:
    messages = [{"role": "user", "content": prompt}]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"])


def _demo(name: str) -> Any:
    return json.loads((files("multimodal.assets") / "demo" / name).read_text(encoding="utf-8"))


def _products() -> list[dict[str, Any]]:
    """Those that the tour tells of: as many prompts and as much text as ever, however the catalogue grows."""
    told = {segment["sku"] for segment in _demo("tour.json")["segments"]}
    return [product for product in _demo("catalog.json")["products"] if product["id"] in told]


def _prompts() -> list[str]:
    """Two for each product of the demo shop: an open one, and one about a given fact, with an example before it."""
    products = _demo("catalog.json")["products"]
    asked = []
    for product, other in zip(products, products[1:] + products[:1], strict=True):
        open_one = f"Who would like the {product['title']}, and why? Answer in two sentences."
        asked.append(f"{product['description']} {open_one}")
        example = f"{_facts(other)}\nQuestion: What is the {other['title']} made of?\nAnswer: {_material(other)}"
        asked.append(f"{example}\n\n{_facts(product)}\nQuestion: What is the {product['title']} made of?\nAnswer:")
    return asked


def _facts(product: dict[str, Any]) -> str:
    return f"{product['title']}: " + "; ".join(f"{key}: {value}" for key, value in product["facts"].items())


def _material(product: dict[str, Any]) -> str:
    return f"The {product['title']} is made of {product['facts']['material']}."


def _text() -> str:
    """A fixed English text of about a thousand tokens: the demo's tour, descriptions and alternative texts."""
    catalog, tour = _products(), _demo("tour.json")["segments"]
    told = [segment["text"] for segment in tour]
    told += [f"{product['title']}. {product['description']}" for product in catalog]
    told += [image["alt"] for product in catalog for image in product["images"]]
    return "\n".join(told)
