"""A low-rank adapter: what was learnt on top of a model, a few megabytes, added to its weights before they are used.

The file holds, for each linear layer that was adapted, ``<path>.a`` [rank, in] and ``<path>.b`` [out, rank]; its weight
becomes W + alpha / rank * b a (LoRA, arXiv:2106.09685, 4.1). The metadata name the format, the base model, rank and
alpha.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from multimodal.errors import UsageError

__all__ = ["FORMAT", "merge_adapter"]

FORMAT = "1"


def merge_adapter(model: Any, path: Path, *, base: str) -> int:
    """Add an adapter to the weights of a model, in place; gives the number of layers it changed.

    Nothing is changed unless all of it fits. Merge before quantising: int8 weights cannot be added to.

    Args:
        model: a torch module.
        path: the adapter's file.
        base: the model's name, as the adapter has to know it.

    Raises:
        UsageError: no such file, a broken one, another format or base, or layers and shapes that the model lacks.
    """
    tensors, about = _read(path)
    if about.get("format") != FORMAT:
        raise UsageError(f"{path} has the format {about.get('format')!r}; this version reads format {FORMAT!r}")
    if about.get("base") != base:
        raise UsageError(f"{path} was made for the model {about.get('base')!r}, and this is {base!r}; take its own")
    rank, alpha = _number(path, about, "rank"), _number(path, about, "alpha")
    names = sorted({name.rpartition(".")[0] for name in tensors})
    if not names:
        raise UsageError(f"{path} adapts no layer")
    changes = [(_layer(model, path, name), *_pair(tensors, path, name)) for name in names]
    for name, (layer, a, b) in zip(names, changes, strict=True):
        expected = ((int(rank), layer.in_features), (layer.out_features, int(rank)))
        found = (tuple(a.shape), tuple(b.shape))
        if found != expected:
            raise UsageError(f"{path}: {name} has the shapes a {found[0]}, b {found[1]}; its layer needs {expected}")
        if not (a.isfinite().all() and b.isfinite().all()):
            raise UsageError(f"{path}: {name} holds numbers that are not finite; the training of it went wrong")
    with torch.no_grad():
        for layer, a, b in changes:
            added = (b.float() @ a.float()) * (alpha / rank)
            layer.weight.copy_((layer.weight.float() + added).to(layer.weight.dtype))
    return len(changes)


def _read(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    if not path.is_file():
        raise UsageError(f"there is no adapter {path}; it comes with the package: install that again")
    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path} is broken or cut off ({error}); install the package again") from error


def _number(path: Path, about: Mapping[str, str], name: str) -> float:
    try:
        found = float(about.get(name, ""))
    except ValueError:
        found = 0.0
    if not 0 < found < 1e6 or (name == "rank" and found != int(found)):
        raise UsageError(f"{path} says {name}={about.get(name)!r}; that is no {name}")
    return found


def _layer(model: Any, path: Path, name: str) -> nn.Linear:
    try:
        layer = model.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        raise UsageError(f"{path} adapts {name}, and the model has no linear layer of that name; take its own adapter")
    return layer


def _pair(tensors: Mapping[str, Tensor], path: Path, name: str) -> tuple[Tensor, Tensor]:
    a, b = tensors.get(f"{name}.a"), tensors.get(f"{name}.b")
    if a is None or b is None or a.dim() != 2 or b.dim() != 2:
        raise UsageError(f"{path} holds no pair of matrices {name}.a and {name}.b; install the package again")
    return a, b
