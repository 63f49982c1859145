"""int8: every linear layer's weights in 8 bits with a scale per output channel, the activations quantised per row.

torch's dynamic quantisation takes one scale for all activations of a batch, so that a row's numbers depend on its
neighbours and one loud token coarsens all others. Here every row is brought to the range -1..1 first, and two columns
that hold -1 and 1 (and meet weights of 0) fix the range the kernel sees: each row has its own scale, and because the
products are summed as integers a row comes out bit for bit the same alone and in any batch (E5). The kernel is
torch's own (`quantized::linear_dynamic`, FBGEMM).
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from multimodal.errors import UsageError
from multimodal.pipes.local_linear import _shallow, clone_sharing, linear_parts, packed_bytes, replace_linears

__all__ = ["Int8Linear", "packed_bytes", "quantize"]

_LEAST = 1e-12


class Int8Linear(nn.Module):
    """A linear layer with weights in 8 bits; for inference only.

    Args:
        weight: [out, in].
        bias: [out], or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        full = weight.detach().float()
        scales = full.abs().amax(1).clamp_min(_LEAST) / 127
        wide = nn.functional.pad(full, (0, 2))
        zeros = torch.zeros(self.out_features, dtype=torch.long)
        with warnings.catch_warnings():
            # Quantised tensors are to leave PyTorch some day; the kernel, and no other of its speed, takes them.
            warnings.simplefilter("ignore")
            codes = torch.quantize_per_channel(wide, scales.double(), zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(codes, None)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
        self.ends = torch.tensor([[1.0, -1.0]])
        self.packed_bytes = self.out_features * (self.in_features + 2 + 4)
        # Without VNNI the kernel adds products in 16 bits, which 8-bit activations overflow.
        self.reduced = not torch.cpu._is_vnni_supported()

    @property
    def weight(self) -> None:
        """Some models look at the dtype of a layer's weight where it has one."""
        return None

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().reshape(-1, self.in_features)
        if rows.dtype != torch.float32:
            rows = rows.float()
        peaks = rows.abs().amax(1, keepdim=True).clamp_min_(_LEAST)
        wide = torch.cat([rows / peaks, self.ends.expand(rows.shape[0], 2)], 1)
        made: Tensor = torch.ops.quantized.linear_dynamic.default(wide, self.packed, self.reduced).mul_(peaks)
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Int8Linear:
        made: Int8Linear = _shallow(self, memo)
        return made


class _Held(threading.local):
    """What a thread computed for siblings that have not asked yet."""

    given: Tensor | None = None
    made: Sequence[Tensor] = ()


class _Siblings(nn.Module):
    """Layers that one module gives the same input, as one product: it is quantised once, and called once.

    Each output channel has its own scale, so that the numbers are those of layers apart, bit for bit.

    Args:
        parts: weight [out, in] and bias of each, in the order in which they are called.
    """

    def __init__(self, parts: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        super().__init__()
        weight = torch.cat([each for each, _ in parts])
        biases = [torch.zeros(len(each)) if bias is None else bias.detach().float() for each, bias in parts]
        some = any(bias is not None for _, bias in parts)
        self.inner = Int8Linear(weight, torch.cat(biases) if some else None)
        self.sizes = [len(each) for each, _ in parts]
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
        made: _Siblings = _shallow(self, memo)
        made._held = _Held()
        return made


class _Sibling(nn.Module):
    """One of `_Siblings`, where the model calls it."""

    def __init__(self, all_of_them: _Siblings, index: int) -> None:
        super().__init__()
        self.all_of_them, self.index = all_of_them, index
        self.in_features, self.out_features = all_of_them.inner.in_features, all_of_them.sizes[index]

    @property
    def weight(self) -> None:
        """As of `Int8Linear`."""
        return None

    def forward(self, x: Tensor) -> Tensor:
        return self.all_of_them.part(self.index, x)


SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names, in the order of their calls, of layers that transformers' Llama and its like give the same tensor."""


def _join(model: nn.Module) -> int:
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
            joined = _Siblings(known)
            for index, name in enumerate(names):
                setattr(parent, name, _Sibling(joined, index))
            count += len(names)
    return count


def _crosses(parent: nn.Module) -> bool:
    return "key_value_states" in inspect.signature(parent.forward).parameters


def quantize(model: Any) -> Any:
    """A copy of a model whose linear layers are int8; the model itself is not changed and shares the other weights.

    A head that is tied to the embedding gets weights of its own; the embedding stays as it is.

    Raises:
        UsageError: the model is not on the CPU, or has no linear layers.
    """
    if model.device.type != "cpu":
        raise UsageError(f"quant_mode='int8' runs on the CPU; this model is on {model.device}")
    copied = clone_sharing(model).eval()
    with torch.no_grad():
        count = _join(copied) + replace_linears(copied, Int8Linear)
    if not count:
        raise UsageError(f"{type(model).__name__} has no linear layers to quantise; leave quant_mode away")
    return copied
