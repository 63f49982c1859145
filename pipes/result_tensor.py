"""What makes a `Generation` act as the tensor of `model.generate`: what is asked of the tensor waits for the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError
from multimodal.pipes.drop_in import GeneratePlan

if TYPE_CHECKING:
    import torch

__all__ = ["TensorSide"]


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: TensorSide, other: Any) -> Any:
        # What no tensor takes is told apart without a wait; `==` is False then, and `<` a TypeError.
        number = isinstance(other, int | float | complex)
        if not (number or isinstance(other, TensorSide) or hasattr(type(other), "__array__")):
            return NotImplemented
        return getattr(self.sequences, name)(_plain(other))

    return operate


def _unary(name: str) -> Callable[[Any], Any]:
    def operate(self: TensorSide) -> Any:
        return getattr(self.sequences, name)()

    return operate


class TensorSide:
    """The tensor's half of `Generation`, which gives the tokens.

    It is no `torch.Tensor` itself (`isinstance` is False): torch reads the memory of whatever passes for one.
    """

    _plan: GeneratePlan
    _sequences: torch.Tensor | None = None

    @property
    def token_ids(self) -> list[list[int]]:
        """The generated tokens of each row, without prompt and padding; waits for the end."""
        raise NotImplementedError

    @property
    def sequences(self) -> torch.Tensor:
        """Prompts and answers, as `model.generate` gives them; waits for the end."""
        ids = self.token_ids
        if self._sequences is None:
            from multimodal.pipes.local_tensors import sequences_tensor

            self._sequences = sequences_tensor(self._plan.prefixes, ids, self._plan.pad_id)
        return self._sequences

    @property
    def shape(self) -> torch.Size:
        """Rows and their length, prompt included; waits for the end."""
        return self.sequences.shape

    def __len__(self) -> int:
        return len(self._plan.requests)

    def __getitem__(self, index: Any) -> Any:
        """As the tensor; with `return_dict_in_generate`, as transformers' output, whose only field is `sequences`."""
        if not self._plan.as_dict:
            return self.sequences[index]
        return {"sequences": self.sequences}[index] if isinstance(index, str) else (self.sequences,)[index]

    def __getattr__(self, name: str) -> Any:
        torch = sys.modules.get("torch")
        if name.startswith("_") or torch is None or not hasattr(torch.Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.sequences, name)

    # Of this object, not of the ids: they are not known before the end.
    __hash__ = object.__hash__

    __eq__ = _binary("__eq__")
    __ne__ = _binary("__ne__")
    __lt__ = _binary("__lt__")
    __le__ = _binary("__le__")
    __gt__ = _binary("__gt__")
    __ge__ = _binary("__ge__")
    __add__ = _binary("__add__")
    __radd__ = _binary("__radd__")
    __sub__ = _binary("__sub__")
    __rsub__ = _binary("__rsub__")
    __mul__ = _binary("__mul__")
    __rmul__ = _binary("__rmul__")
    __truediv__ = _binary("__truediv__")
    __rtruediv__ = _binary("__rtruediv__")
    __floordiv__ = _binary("__floordiv__")
    __rfloordiv__ = _binary("__rfloordiv__")
    __mod__ = _binary("__mod__")
    __rmod__ = _binary("__rmod__")
    __pow__ = _binary("__pow__")
    __rpow__ = _binary("__rpow__")
    __matmul__ = _binary("__matmul__")
    __rmatmul__ = _binary("__rmatmul__")
    __and__ = _binary("__and__")
    __rand__ = _binary("__rand__")
    __or__ = _binary("__or__")
    __ror__ = _binary("__ror__")
    __xor__ = _binary("__xor__")
    __rxor__ = _binary("__rxor__")
    __lshift__ = _binary("__lshift__")
    __rlshift__ = _binary("__rlshift__")
    __rshift__ = _binary("__rshift__")
    __rrshift__ = _binary("__rrshift__")
    __neg__ = _unary("__neg__")
    __pos__ = _unary("__pos__")
    __abs__ = _unary("__abs__")
    __invert__ = _unary("__invert__")

    def __contains__(self, item: Any) -> bool:
        """Whether the tensor holds it, as with `in` on the tensor: a token id, or a tensor that broadcasts."""
        return bool((self.sequences == _plain(item)).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The ids as a numpy array, [rows, length]; waits for the end."""
        import numpy as np

        ids = self.sequences.detach().cpu().numpy()
        # It is kept for the next caller, who must not find it changed.
        return np.array(ids, dtype=dtype) if copy is not False else np.asarray(ids, dtype=dtype)

    # What `torch.tensor` and `torch.as_tensor` read; as a sequence this object would be one of tokens.
    def __dlpack__(self, **how: Any) -> Any:
        return self.sequences.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.sequences.__dlpack_device__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UsageError(
            "a Generation holds an answer under way and cannot be copied, pickled or saved; take its .sequences"
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_plain(args), **{name: _plain(value) for name, value in (kwargs or {}).items()})


def _plain(value: Any) -> Any:
    """The same with tensors in the place of generations."""
    if isinstance(value, TensorSide):
        return value.sequences
    if type(value) in (list, tuple):
        return type(value)(_plain(each) for each in value)
    return value
