"""What one answer of a language model is asked to be, and what comes of it: plain data, checked. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

import msgspec

from multimodal.errors import UsageError

__all__ = ["FINISHES", "Finish", "GenerationRequest", "RequestTimes", "Sampling", "Step"]

Finish = Literal["", "stop", "length", "cancelled"]
"""Why an answer ended: an end token or a stop sequence, the limit of tokens, or its reader. "" = it goes on."""
FINISHES: tuple[Finish, ...] = ("stop", "length", "cancelled")


SEEDS = (-(2**63), 2**64 - 1)
"""What `torch.manual_seed` takes."""
MOST = 2**31 - 1
"""The largest whole number of the other settings; tensors hold some of them in 32 bits."""


def _whole(name: str, value: object, least: int, most: int = MOST) -> int:
    if not _is_whole(value) or not least <= value <= most:
        raise UsageError(f"{name}={_short(value)} is out of range; give a whole number from {least} to {most}")
    return int(value)


def _is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _number(name: str, value: Any, holds: Callable[[float], bool], range_: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not _finite(value) or not holds(value):  # type: ignore[arg-type]
        raise UsageError(f"{name}={_short(value)} is out of range; give a number {range_}")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _ids(name: str, value: object) -> None:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise UsageError(f"{name}={_short(value)}; give a sequence of token ids")
    for place, token in enumerate(value):
        if not _is_whole(token) or token < 0:
            raise UsageError(f"{name}[{place}] is {_short(token)}; token ids are whole numbers, 0 or more")


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is chosen; the names and meanings are those of transformers' GenerationConfig.

    Args:
        temperature: 0 = greedy; otherwise the logits are divided by it.
        top_k: only the k likeliest tokens; 0 = all.
        top_p: only the likeliest tokens that together reach this probability; 1 = all.
        repetition_penalty: above 1 makes tokens that were said (prompt included) less likely; 1 = off.
        seed: of this request's own generator, so that its text does not depend on its neighbours: what
            `torch.manual_seed` takes, -2**63 to 2**64 - 1; None = random.
        row, rows: it is row `row` of `rows` that one seeded generator serves together, as the rows of one
            `model.generate` call are; each row still runs by itself.

    Raises:
        UsageError: a value of the wrong type or out of its range, or a row beyond `rows`.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    row: int = 0
    rows: int = 1

    def __post_init__(self) -> None:
        # As Python's own numbers: torch takes neither numpy's everywhere, nor fractions, nor whole numbers of any size.
        checked: dict[str, Any] = {
            "temperature": _number("temperature", self.temperature, lambda it: it >= 0, "from 0 (greedy)"),
            "top_k": _whole("top_k", self.top_k, 0),
            "top_p": _number("top_p", self.top_p, lambda it: 0 < it <= 1, "above 0 and at most 1"),
            "repetition_penalty": _number("repetition_penalty", self.repetition_penalty, lambda it: it > 0, "above 0"),
            "seed": None if self.seed is None else _whole("seed", self.seed, *SEEDS),
            "rows": _whole("rows", self.rows, 1),
            "row": _whole("row", self.row, 0, self.rows - 1),
        }
        for name, value in checked.items():
            msgspec.structs.force_setattr(self, name, value)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


class GenerationRequest(msgspec.Struct, frozen=True):
    """One answer to generate.

    Args:
        prompt_ids: the prompt as token ids (seq2seq: the encoder's input).
        max_new_tokens: most tokens to generate.
        sampling: how each is chosen.
        eos_ids: tokens that end the answer; such a token is the last step, with finish "stop".
        logprobs: how many of the likeliest tokens to report beside the chosen one; 0 = only the chosen one's,
            None = none at all.
        min_new_tokens: so many tokens come before an end token may be chosen.
        context: what it is about, such as a product's id: requests of one context are run together where a batch
            groups by it; "" = only a shared beginning of the prompt counts.

    Raises:
        UsageError: an empty prompt, what is no token id, or a value of the wrong type or out of its range.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int = 256
    sampling: Sampling = Sampling()
    eos_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    min_new_tokens: int = 0
    context: str = ""

    def __post_init__(self) -> None:
        _ids("prompt_ids", self.prompt_ids)
        if not self.prompt_ids:
            raise UsageError("the prompt has no tokens; give at least one token id")
        _whole("max_new_tokens", self.max_new_tokens, 1)
        if not isinstance(self.sampling, Sampling):
            raise UsageError(f"sampling={_short(self.sampling)}; give a Sampling")
        _ids("eos_ids", self.eos_ids)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, 20)
        _whole("min_new_tokens", self.min_new_tokens, 0)
        if not isinstance(self.context, str):
            raise UsageError(f'context={_short(self.context)}; give a text, such as a product\'s id, or ""')


class Step(msgspec.Struct):
    """One generated token, as it leaves the engine.

    Args:
        token_id: the token; -1 on a last step that carries none.
        at: when it was made, seconds of `time.monotonic`.
        finish: why it is the last; "" = it is not.
        logprob: natural logarithm of its probability after the samplers; None = not asked for.
        top: the likeliest tokens with their logprobs, likeliest first.
    """

    token_id: int
    at: float = 0.0
    finish: Finish = ""
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class RequestTimes(msgspec.Struct):
    """When a request passed each gate, seconds of `time.monotonic`; nan = not yet. The engine writes it.

    Args:
        submitted: it was handed to the engine.
        admitted: the engine took it into its batch.
        prefilled: its prompt was read, so that the first token could be chosen.
        cached_tokens: tokens of the prompt that did not have to be read anew.
    """

    submitted: float = math.nan
    admitted: float = math.nan
    prefilled: float = math.nan
    cached_tokens: int = 0
