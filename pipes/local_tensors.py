"""Token ids as the tensor that `model.generate` would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multimodal.errors import UsageError

if TYPE_CHECKING:
    import torch

__all__ = ["next_seed", "sequences_tensor", "use_one_thread"]


def sequences_tensor(prefixes: Sequence[Sequence[int]], rows: Sequence[Sequence[int]], pad_id: int) -> torch.Tensor:
    """Prompts and answers side by side, [rows, longest]; rows that ended early are filled up.

    Args:
        prefixes: what each row begins with, all of one length.
        rows: the generated tokens of each.
        pad_id: fills rows that are shorter than the longest.

    Raises:
        UsageError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise UsageError("tensors need torch: pip install multimodal-stream[llm]; .token_ids works without") from error
    longest = max(map(len, rows))
    whole = [[*before, *ids, *[pad_id] * (longest - len(ids))] for before, ids in zip(prefixes, rows, strict=True)]
    return torch.tensor(whole, dtype=torch.long)


def next_seed() -> int:
    """The seed of a sampling call that names none, from torch's global generator, so that `torch.manual_seed` counts.

    Directly after `torch.manual_seed(s)` it is s, so that the call draws what `model.generate` would draw there.
    """
    import torch

    seed, fresh = torch.initial_seed(), torch.Generator()
    fresh.manual_seed(seed)
    if torch.equal(fresh.get_state(), torch.get_rng_state()):
        torch.rand(1)  # the next call must not draw the same
        return seed
    return int(torch.randint(2**63 - 1, ()))


def use_one_thread() -> None:
    """Let torch compute in one thread, in the whole process: on a small or a busy machine two are slower than one."""
    import torch

    torch.set_num_threads(1)
