"""int8: every linear layer's weights in 8 bits with a scale per output channel, the activations quantised per row.

torch's dynamic quantisation takes one scale for all activations of a batch, so that a row's numbers depend on its
neighbours and one loud token coarsens all others. Here every row is brought to the range -1..1 first, and two columns
that hold -1 and 1 (and meet weights of 0) fix the range the kernel sees: each row has its own scale, and because the
products are summed as integers a row comes out bit for bit the same alone and in any batch (E5). The kernel is
torch's own (`quantized::linear_dynamic`, FBGEMM).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from multimodal.errors import UsageError
from multimodal.pipes.local_linear import clone_sharing, packed_bytes, replace_linears, share
from multimodal.pipes.local_siblings import join_siblings

__all__ = ["Int8Linear", "packed_bytes", "quantize"]

_LEAST = 1e-12
_FEW = 32
"""Rows up to which a thread keeps the memory that they are brought to range in; more are a prompt's, and rare."""


class _Ranges(threading.local):
    """The memory of each thread, by the columns of a layer."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}

    def of(self, rows: int, columns: int) -> Tensor:
        """[rows, columns + 2], whose last two columns hold 1 and -1."""
        if rows > _FEW:
            return _with_ends(rows, columns)
        found = self.kept.get(columns)
        if found is None:
            found = self.kept[columns] = _with_ends(_FEW, columns)
        return found[:rows]


def _with_ends(rows: int, columns: int) -> Tensor:
    # A tensor made in inference mode could not be written to outside it.
    with torch.inference_mode(False):
        made = torch.empty(rows, columns + 2)
        made[:, columns] = 1.0
        made[:, columns + 1] = -1.0
    return made


_ranges = _Ranges()


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
        wide = _ranges.of(len(rows), self.in_features)
        torch.div(rows, peaks, out=wide[:, : self.in_features])
        made: Tensor = torch.ops.quantized.linear_dynamic.default(wide, self.packed, self.reduced).mul_(peaks)
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Int8Linear:
        made: Int8Linear = share(self, memo)
        return made


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
        # Each output channel has its own scale: the numbers are those of layers apart, bit for bit.
        count = join_siblings(copied, Int8Linear) + replace_linears(copied, Int8Linear)
    if not count:
        raise UsageError(f"{type(model).__name__} has no linear layers to quantise; leave quant_mode away")
    return copied
