"""What one answer of a language model is asked to be, and what comes of it: plain data, checked. Pure."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from multimodal.errors import UsageError

__all__ = ["FINISHES", "Finish", "GenerationRequest", "RequestTimes", "Sampling", "Step"]

Finish = Literal["", "stop", "length", "cancelled"]
"""Why an answer ended: an end token or a stop sequence, the limit of tokens, or its reader. "" = it goes on."""
FINISHES: tuple[Finish, ...] = ("stop", "length", "cancelled")


def _within(name: str, value: float, holds: bool, range_: str) -> None:
    if isinstance(value, bool) or not holds or not math.isfinite(value):
        raise UsageError(f"{name}={value!r} is out of range; give {range_}")


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is chosen; the names and meanings are those of transformers' GenerationConfig.

    Args:
        temperature: 0 = greedy; otherwise the logits are divided by it.
        top_k: only the k likeliest tokens; 0 = all.
        top_p: only the likeliest tokens that together reach this probability; 1 = all.
        repetition_penalty: above 1 makes tokens that were said (prompt included) less likely; 1 = off.
        seed: of this request's own generator, so that its text does not depend on its neighbours; None = random.
        row, rows: it is row `row` of `rows` that one seeded generator serves together, as the rows of one
            `model.generate` call are; each row still runs by itself.

    Raises:
        UsageError: a value out of its range, or a row beyond `rows`.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    row: int = 0
    rows: int = 1

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, self.temperature >= 0, "0 (greedy) or more")
        _within("top_k", self.top_k, self.top_k >= 0, "0 (all) or more")
        _within("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _within("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0, "above 0")
        _within("rows", self.rows, self.rows >= 1, "1 or more")
        _within("row", self.row, 0 <= self.row < self.rows, f"0 to {self.rows - 1}, below rows={self.rows}")

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
        UsageError: an empty prompt, or a number out of its range.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int = 256
    sampling: Sampling = Sampling()
    eos_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    min_new_tokens: int = 0
    context: str = ""

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise UsageError("the prompt has no tokens; give at least one token id")
        _within("max_new_tokens", self.max_new_tokens, self.max_new_tokens >= 1, "1 or more")
        _within("min_new_tokens", self.min_new_tokens, self.min_new_tokens >= 0, "0 or more")
        if self.logprobs is not None:
            _within("logprobs", self.logprobs, 0 <= self.logprobs <= 20, "0 to 20")


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
