"""What makes a `Generation` act as the tensor of `model.generate`: what is asked of the tensor waits for the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from multimodal.pipes.drop_in import GeneratePlan

if TYPE_CHECKING:
    import torch

__all__ = ["TensorSide"]


class TensorSide:
    """The tensor's half of `Generation`, which gives the tokens."""

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

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        # transformers' decode asks isinstance(x, torch.Tensor) before it calls tolist(): without this the line that
        # follows generate in most programs, tokenizer.batch_decode(outputs), would fail.
        torch = sys.modules.get("torch")
        return type(self) if torch is None else torch.Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_plain(args), **{name: _plain(value) for name, value in (kwargs or {}).items()})


def _plain(value: Any) -> Any:
    """The same with tensors in the place of generations."""
    if issubclass(type(value), TensorSide):
        return value.sequences
    if type(value) in (list, tuple):
        return type(value)(_plain(each) for each in value)
    return value
