"""What `multimodal estimate` says of models, beside what processes that run them really take and do.

Each model runs in a process of its own, behind the step engine, with one thread. Memory is what is resident after the
allocator gave back what it did not use. Speed is tokens per CPU second: the estimate speaks of a thread that nobody
disturbs, and a busy machine stretches the seconds of its clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from multimodal.bench.report import Figure, figure, report
from multimodal.errors import PipeError
from multimodal.estimate import estimate
from multimodal.memory import memory_bandwidth, release_memory
from multimodal.pipes.narrator_model import narrator_model
from multimodal.weights import read_shape

__all__ = ["run"]

PROMPT = 120
ANSWER = 40
_TIMEOUT = 600.0

Case = tuple[str, Path, str, str]
"""Its name, its folder, the quantisation and the dtype ("" = none, and the default)."""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure; `options.quick` leaves SmolLM2 out, and judges nothing."""
    figures: list[Figure] = []
    ours: dict[str, Any] = {"bandwidth_gb_per_s": round(memory_bandwidth() / 1e9, 2)}
    with tempfile.TemporaryDirectory() as scratch:
        random = Path(scratch, "random-60m")
        _work(["make", str(random)])
        cases: list[Case] = [("60 M random, int8", random, "int8", "")]
        if not options.quick:
            home = narrator_model()
            cases += [("60 M random, float32", random, "", "")]
            cases += [(f"SmolLM2-135M, {name}", home, quant, dtype) for name, quant, dtype in KINDS]
        for name, folder, quant, dtype in cases:
            # The machine's memory is not as fast at one moment as at another when others use it.
            bandwidth = memory_bandwidth()
            real = json.loads(_work(["speak", str(folder), quant, dtype]))
            told = estimate(
                read_shape(folder),
                quant_mode=quant or None,
                dtype=dtype or None,
                context=PROMPT + ANSWER,
                memory=2**50,
                bandwidth=bandwidth,
            )
            limit = None if options.quick else 1.0
            figures += [
                figure(f"memory off, {name}", abs(told.total / real["resident"] - 1), "share", limit and 0.1),
                figure(f"peak off, {name}", abs(told.peak / real["peak"] - 1), "share"),
                figure(f"speed off, {name}", _off(told.expected, real["rate"]), "times", limit and 2.0),
            ]
            ours[name] = {
                "predicted_mib": told.total >> 20,
                "resident_mib": real["resident"] >> 20,
                "resident_untrimmed_mib": real["untrimmed"] >> 20,
                "predicted_peak_mib": told.peak >> 20,
                "peak_mib": real["peak"] >> 20,
                "predicted_tokens_per_s": round(told.expected, 1),
                "bound_tokens_per_s": round(told.at_most, 1),
                "tokens_per_cpu_s": round(real["rate"], 1),
            }
            print(f"{name}: {ours[name]}", file=sys.stderr)
    return report("estimate", figures, ours, packages=("torch", "transformers"))


KINDS = (("float32", "", ""), ("int8", "int8", ""), ("bfloat16", "", "bfloat16"))


def _off(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


def _work(words: list[str]) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "multimodal.bench.estimate", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, env=environment, check=False)
    if done.returncode != 0:
        raise PipeError(f"{' '.join(words)} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def _make(folder: str) -> None:
    """A model of another shape than the trained one's: wide, few layers, a head of its own."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=8000,
        max_position_embeddings=2048,
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(folder)


def _speak(folder: str, quant: str, dtype: str) -> dict[str, float]:
    """Answer, and say what this process holds and how many tokens it made in a CPU second."""
    from multimodal.pipes.engine import Mailbox
    from multimodal.pipes.generation import GenerationRequest
    from multimodal.pipes.local_engines import make_engine
    from multimodal.pipes.local_loading import LocalModel

    def answer() -> float:
        mailbox = Mailbox(ANSWER + 1)
        ids = tuple(range(10, 10 + PROMPT))
        engine.submit(GenerationRequest(ids, max_new_tokens=ANSWER, min_new_tokens=ANSWER), mailbox)
        mailbox.wait_blocking()
        worked, seen = time.process_time(), mailbox.delivered
        while not mailbox.ended:
            time.sleep(0.01)
        return (mailbox.delivered - seen) / (time.process_time() - worked)

    engine = make_engine(LocalModel.load(folder, quant_mode=quant or None, dtype=dtype or None), "steps")
    try:
        answer()
        rate = max(answer() for _ in range(2))
        untrimmed = _field("VmRSS")
        release_memory()
        return {"rate": rate, "untrimmed": untrimmed, "resident": _field("VmRSS"), "peak": _field("VmHWM")}
    finally:
        engine.close()


def _field(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        _make(sys.argv[2])
    else:
        print(json.dumps(_speak(*sys.argv[2:5])))
