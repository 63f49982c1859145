"""Linear layers for a CPU that gives a row the same numbers in every batch, and costs less in a batch.

PyTorch's own float32 product of few rows packs the weight anew at every call, and takes another kernel for up to three
rows than for more, so that a row's numbers depend on its neighbours. A weight packed once for oneDNN does neither: from
two rows on every row comes out bit for bit the same, in half the time at eight rows.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PackedLinear", "clone_sharing", "linear_parts", "pack_linears", "packed_bytes", "replace_linears", "share"]

PACK_ROWS = 8
"""Rows the packing is laid out for; 8 gave equal rows for 1 to 64 (K <= 768) and 2 to 64 (K = 2,048)."""


class PackedLinear(nn.Module):
    """A linear layer whose weight is packed once; for inference only.

    Args:
        weight: [out, in], float32 or bfloat16.
        bias: [out], or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), PACK_ROWS)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)
        self.packed_bytes = weight.numel() * weight.element_size()

    @property
    def weight(self) -> None:
        """Some models look at the dtype of a layer's weight where it has one."""
        return None

    def forward(self, x: Tensor) -> Tensor:
        # The product has no gradient; a call that changes nothing is left out, as there are some 90 a step.
        given = x.detach() if x.requires_grad else x
        made: Tensor = torch.ops.mkldnn._linear_pointwise.default(given, self.packed, self.bias, "none", [], "")
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedLinear:
        made: PackedLinear = share(self, memo)
        return made


def share(module: Any, memo: dict[int, Any]) -> Any:
    """A packed weight never changes and cannot be copied: copies share it."""
    fresh = module.__class__.__new__(module.__class__)
    fresh.__dict__.update(module.__dict__)
    fresh._parameters = dict(module._parameters)
    fresh._buffers = dict(module._buffers)
    memo[id(module)] = fresh
    return fresh


def clone_sharing(model: Any) -> Any:
    """The same model with modules and configuration of its own, whose weights are the same tensors.

    What is changed in the copy (its attention, its layers, its mode) leaves the model alone.
    """
    memo: dict[int, Any] = {id(each): each for each in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, memo)


def linear_parts(module: nn.Module) -> tuple[Tensor, Tensor | None] | None:
    """The weight [out, in] and the bias of a layer that multiplies by a matrix; None = it is another layer."""
    if type(module) is nn.Linear:
        return module.weight, module.bias
    if isinstance(module, PackedLinear):
        return module.packed.to_dense(), module.bias
    if type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils":
        weight, bias = module.weight, module.bias
        assert isinstance(weight, Tensor)
        assert isinstance(bias, Tensor)
        return weight.t(), bias
    return None


def replace_linears(model: nn.Module, make: Any) -> int:
    """Put `make(weight, bias)` in the place of every linear layer; how many there were."""
    made: dict[int, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            parts = linear_parts(child)
            if parts is not None:
                if id(child) not in made:
                    made[id(child)] = make(*parts)
                setattr(parent, name, made[id(child)])
    return len(made)


def _packs() -> bool:
    available: Any = torch.backends.mkldnn.is_available
    return bool(available())


def pack_linears(model: Any) -> bool:
    """Pack every linear layer of a model, in place; False = this machine or the dtype cannot, nothing was changed."""
    if model.device.type != "cpu" or not _packs():
        return False
    if model.dtype == torch.bfloat16:
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
    elif model.dtype != torch.float32:
        return False
    if not any(isinstance(each, PackedLinear) for each in model.modules()):
        from multimodal.pipes.local_siblings import join_siblings

        join_siblings(model, PackedLinear)
        replace_linears(model, PackedLinear)
    return True


def packed_bytes(model: nn.Module) -> int:
    """Bytes of weights that are packed, and so are no parameters any more."""
    return sum(int(getattr(each, "packed_bytes", 0)) for each in model.modules())
