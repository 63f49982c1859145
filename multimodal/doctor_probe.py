"""Small pieces of a language model's work, timed: run by `multimodal doctor` in processes of their own.

    python -m multimodal.doctor_probe [THREADS ...]

prints one JSON object. In its own process, because the instructions that torch uses are chosen when it is loaded.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["main"]

WIDTH = 1024
PROMPT = 64
_SPAN = 0.15


def main(threads: list[int]) -> None:
    """Time each piece with one thread and print microseconds; with `threads`, only the prompt's, with each number."""
    # The tensors below are marked as deprecated in torch 2.13, which is the version that is asked for.
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.inference_mode():
        print(json.dumps(_threads(torch, threads) if threads else _pieces(torch)))


def _pieces(torch: Any) -> dict[str, Any]:
    linear = torch.nn.functional.linear
    weight, one, many = torch.randn(WIDTH, WIDTH), torch.randn(1, WIDTH), torch.randn(PROMPT, WIDTH)
    # oneDNN's kernels, because its instruction set can be capped; FBGEMM's, which runs int8 by default, cannot.
    torch.backends.quantized.engine = "onednn"
    scales, zeros = torch.full((WIDTH,), 0.02).double(), torch.zeros(WIDTH, dtype=torch.long)
    packed = torch.ops.quantized.linear_prepack(torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8), None)
    dynamic = torch.ops.quantized.linear_dynamic
    half, half_many, wide = weight.bfloat16(), many.bfloat16(), torch.randn(1, 4 * WIDTH)
    return {
        "uses": torch.backends.cpu.get_cpu_capability(),
        "float32 token": _best(lambda: linear(one, weight)),
        "float32 prompt": _best(lambda: linear(many, weight)),
        "int8 token": _best(lambda: dynamic(one, packed, False)),
        "int8 prompt": _best(lambda: dynamic(many, packed, False)),
        "bfloat16 prompt": _best(lambda: linear(half_many, half)),
        "activation": _best(lambda: torch.nn.functional.silu(wide)),
    }


def _threads(torch: Any, numbers: list[int]) -> dict[str, Any]:
    """A token and a prompt through eight layers, with each number of threads in turn; the better counts."""
    linear = torch.nn.functional.linear
    weights = [torch.randn(WIDTH, WIDTH) / 32 for _ in range(8)]
    inputs = {"token": torch.randn(1, WIDTH), "prompt": torch.randn(PROMPT, WIDTH)}

    def through(x: Any) -> None:
        for weight in weights:
            x = linear(x, weight)

    found = {name: [float("inf")] * len(numbers) for name in inputs}
    # Before there are further threads, whose waiting would count as work.
    begun, worked = time.perf_counter(), time.process_time()
    _times(lambda: through(inputs["prompt"]))
    share = (time.process_time() - worked) / (time.perf_counter() - begun)
    for _ in range(4):
        for place, number in enumerate(numbers):
            torch.set_num_threads(number)
            for name, x in inputs.items():
                # The middle one: threads that wait for a core that others hold are slow often, not always.
                found[name][place] = min(found[name][place], _middle(partial(through, x)))
    return {**found, "core_share": min(1.0, share)}


def _times(work: Callable[[], object]) -> list[float]:
    work()
    found: list[float] = []
    until = time.perf_counter() + _SPAN
    while len(found) < 3 or time.perf_counter() < until:
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) * 1e6)
    return found


def _best(work: Callable[[], object]) -> float:
    return min(_times(work))


def _middle(work: Callable[[], object]) -> float:
    found = sorted(_times(work))
    return found[len(found) // 2]


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
