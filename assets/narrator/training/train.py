"""Trains the local narrator's adapter: low-rank products beside the linear layers of a frozen SmolLM2-135M-Instruct.

    .venv/bin/python -m multimodal.assets.narrator.training.train --out adapter.safetensors

The loss counts the answers' tokens only. Batches hold samples of like length, so that little is padded. The same seed,
versions and threads make the same adapter but for the rounding of parallel sums. Needs the extras `llm` and `gguf`.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from multimodal.assets.narrator.training.data import Sample, samples
from multimodal.pipes.narrator_model import narrator_model

__all__ = ["main"]

RANK, ALPHA = 8, 16
FIRST_LAYER = 8
"""Layers below it stay as they are: what letters and words are is known there, and a quarter of the time is saved."""
LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
BATCH, STEPS, RATE, WARM_UP = 4, 1800, 1e-3, 40
SEED = 7
CHECKPOINT = 100
"""Steps between two checkpoints: a run that is cut off has not been for nothing."""

Encoded = tuple[list[int], list[int]]


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank product beside it.

    Args:
        base: stays as it is.
    """

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(RANK, base.in_features) / math.sqrt(base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        low = nn.functional.linear(x, self.a.to(x.dtype))
        added = nn.functional.linear(low, (self.b * (ALPHA / RANK)).to(x.dtype))
        made: Tensor = self.base(x) + added
        return made


def adapt(model: nn.Module) -> dict[str, Adapted]:
    """Put an `Adapted` in the place of each linear layer that is trained; gives them by name."""
    model.requires_grad_(False)
    found = {
        name: Adapted(layer)
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in LINEARS and _layer(name) >= FIRST_LAYER
    }
    for name, adapted in found.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, adapted)
    return found


def _layer(name: str) -> int:
    """The number of the layer in a module's path, as in `model.layers.8.mlp.up_proj`."""
    return int(name.split(".layers.", 1)[1].split(".", 1)[0])


def save(adapters: dict[str, Adapted], path: Path) -> None:
    """Write the adapter as `multimodal.pipes.local_adapter` reads it."""
    tensors = {}
    for name, adapted in adapters.items():
        tensors[f"{name}.a"] = adapted.a.detach().bfloat16().contiguous()
        tensors[f"{name}.b"] = adapted.b.detach().bfloat16().contiguous()
    about = {"format": "1", "base": "SmolLM2-135M-Instruct", "rank": str(RANK), "alpha": str(ALPHA)}
    fresh = path.with_suffix(".part")
    save_file(tensors, fresh, metadata=about)
    os.replace(fresh, path)


def encoded(tokenizer: Any, sample: Sample) -> Encoded:
    """A sample's prompt and answer, in tokens; the answer ends with the sign that ends a turn."""
    prompt = tokenizer.apply_chat_template(sample.messages, tokenize=False, add_generation_prompt=True)
    return (
        tokenizer(prompt, add_special_tokens=False)["input_ids"],
        [*tokenizer(sample.answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id],
    )


def batches(data: Sequence[Encoded], size: int, dice: random.Random) -> Iterator[list[Encoded]]:
    """The data once, in batches of like length, in a random order."""
    order = sorted(range(len(data)), key=lambda index: (len(data[index][0]) + len(data[index][1]), dice.random()))
    made = [order[start : start + size] for start in range(0, len(order), size)]
    dice.shuffle(made)
    for indices in made:
        yield [data[index] for index in indices]


def loss_of(model: Any, batch: Sequence[Encoded], pad: int) -> Tensor:
    """The mean loss of a batch's answer tokens; the head is computed for those only."""
    longest = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.full((len(batch), longest), pad)
    mask = torch.zeros(len(batch), longest, dtype=torch.long)
    asks = torch.zeros(len(batch), longest, dtype=torch.bool)
    targets: list[int] = []
    for row, (prompt, answer) in enumerate(batch):
        whole = len(prompt) + len(answer)
        ids[row, :whole] = torch.tensor(prompt + answer)
        mask[row, :whole] = 1
        asks[row, len(prompt) - 1 : whole - 1] = True
        targets += answer
    hidden = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[asks])
    return nn.functional.cross_entropy(logits.float(), torch.tensor(targets))


def rate_at(step: int, steps: int) -> float:
    """Of the highest learning rate: a warm-up, then half a cosine down to a twentieth."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.05 + 0.95 * (1 + math.cos(math.pi * (step - WARM_UP) / max(1, steps - WARM_UP))) / 2


def main(words: Sequence[str] | None = None) -> None:
    """Train and write the adapter; prints the loss now and then on stderr."""
    parser = argparse.ArgumentParser(prog="train", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the frozen weights")
    options = parser.parse_args(words)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    home = narrator_model()
    torch.manual_seed(options.seed)
    dice = random.Random(options.seed)
    tokenizer: Any = AutoTokenizer.from_pretrained(home)
    kind = getattr(torch, options.dtype)
    # Of so few tokens plain attention is the faster one, forth and back.
    model: Any = AutoModelForCausalLM.from_pretrained(home, dtype=kind, attn_implementation="eager")
    model.train()
    adapters = adapt(model)
    weights = [weight for adapted in adapters.values() for weight in (adapted.a, adapted.b)]
    optimizer = torch.optim.AdamW(weights, lr=options.rate, weight_decay=0.0, betas=(0.9, 0.98))
    data = [encoded(tokenizer, sample) for sample in samples(options.steps * BATCH, options.seed)]
    began, smooth = time.monotonic(), 0.0
    for step, batch in enumerate(batches(data, BATCH, dice)):
        for group in optimizer.param_groups:
            group["lr"] = options.rate * rate_at(step, options.steps)
        loss = loss_of(model, batch, tokenizer.pad_token_id)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if step == 0 else 0.95 * smooth + 0.05 * loss.item()
        if step % 20 == 19:
            spent = time.monotonic() - began
            left = spent / (step + 1) * (options.steps - step - 1) / 60
            print(f"step {step + 1}/{options.steps}: loss {smooth:.4f}, {left:.1f} minutes left", file=sys.stderr)
        if step % CHECKPOINT == CHECKPOINT - 1:
            save(adapters, options.out)
    save(adapters, options.out)
    print(f"{options.out}: {(time.monotonic() - began) / 60:.1f} minutes", file=sys.stderr)


if __name__ == "__main__":
    main()
