"""Linear layers that one module gives the same input, run as one product.

A call of a product costs more than its numbers where there are few rows, and the wider weight is read in one piece.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from multimodal.pipes.local_linear import linear_parts, share

__all__ = ["SIBLINGS", "join_siblings"]

SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names, in the order of their calls, of layers that transformers' Llama and its like give the same tensor."""


class _Held(threading.local):
    """What a thread computed for siblings that have not asked yet."""

    given: Tensor | None = None
    made: Sequence[Tensor] = ()


class _Siblings(nn.Module):
    """The one product.

    Args:
        parts: weight [out, in] and bias of each, in the order in which they are called.
        make: gives the layer of a weight and a bias.
    """

    def __init__(
        self, parts: Sequence[tuple[Tensor, Tensor | None]], make: Callable[[Tensor, Tensor | None], nn.Module]
    ) -> None:
        super().__init__()
        self.in_features = parts[0][0].shape[1]
        biases = [weight.new_zeros(len(weight)) if bias is None else bias.detach() for weight, bias in parts]
        some = any(bias is not None for _, bias in parts)
        self.inner = make(torch.cat([weight for weight, _ in parts]), torch.cat(biases) if some else None)
        self.sizes = [len(weight) for weight, _ in parts]
        self._held = _Held()

    def part(self, index: int, x: Tensor) -> Tensor:
        """The product of the layer with this index."""
        held = self._held
        if held.given is not x or index == 0:
            held.given, held.made = x, torch.split_with_sizes(self.inner(x), self.sizes, -1)
        made = held.made[index]
        if index == len(self.sizes) - 1:
            held.given, held.made = None, ()
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> _Siblings:
        made: _Siblings = share(self, memo)
        made._held = _Held()
        return made


class _Sibling(nn.Module):
    """One of `_Siblings`, where the model calls it."""

    def __init__(self, all_of_them: _Siblings, index: int) -> None:
        super().__init__()
        self.all_of_them, self.index = all_of_them, index
        self.in_features, self.out_features = all_of_them.in_features, all_of_them.sizes[index]

    @property
    def weight(self) -> None:
        """Some models look at the dtype of a layer's weight where it has one."""
        return None

    def forward(self, x: Tensor) -> Tensor:
        return self.all_of_them.part(self.index, x)


def join_siblings(model: nn.Module, make: Callable[[Tensor, Tensor | None], nn.Module]) -> int:
    """Put one product in the place of each group of siblings; how many layers they were.

    Args:
        model: changed in place.
        make: gives the layer of a weight [out, in] and a bias.
    """
    count = 0
    for parent in list(model.modules()):
        # Cross attention has these names, too, and gives its keys another input than its queries.
        for names in SIBLINGS if not _crosses(parent) else ():
            parts = [
                linear_parts(child) if isinstance(child := getattr(parent, name, None), nn.Module) else None
                for name in names
            ]
            known = [each for each in parts if each is not None]
            if len(known) < len(names) or len({each[0].shape[1] for each in known}) > 1:
                continue
            joined = _Siblings(known, make)
            for index, name in enumerate(names):
                setattr(parent, name, _Sibling(joined, index))
            count += len(names)
    return count


def _crosses(parent: nn.Module) -> bool:
    return "key_value_states" in inspect.signature(parent.forward).parameters
