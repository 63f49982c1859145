"""Whether a model fits and how fast it can be, before it is loaded: a sum of memory, and a bound on tokens a second.

Memory = weights + key/value cache + work space + the program. A decoding step reads every active weight once, so that
    tokens a second <= memory bandwidth / bytes read for a token
whatever the processor can multiply. Both are arithmetic on the model's sizes (`multimodal.weights`) and on what the
machine's memory holds and gives (`multimodal.memory`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.memory import available_memory
from multimodal.weights import ModelShape, read_shape, shape_of

__all__ = [
    "Estimate",
    "Line",
    "check_fits",
    "estimate",
    "text_of",
]

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

PROGRAM = 350 * 2**20
"""Resident bytes of Python, torch 2.13, transformers 5.23 and the code of one model, without its weights; measured."""
TOKENIZER_ENTRY = 1000
"""Resident bytes of a fast tokenizer for each token it knows; measured on one of 49,152."""
SCALE = 20
"""Bytes that torch's per-channel int8 keeps for each output row: a scale, a zero point, a sum."""
STEP = 0.0003
LAYER = 0.00045
"""Seconds of Python and dispatch of a decoding step, and of each layer in it, whatever the weights; measured with a
model whose weights stay in the processor's cache. They make the expected speed lower than the bound."""

_CONTEXT = 2048


class Line(msgspec.Struct, frozen=True):
    """One line of the sum: what it is, its bytes, and how they came about."""

    what: str
    size: int
    how: str


class Estimate(msgspec.Struct, frozen=True):
    """What a model will need and how fast it can be.

    Args:
        name: the model.
        settings: quantisation, dtype, context and sessions, as one phrase.
        lines: the sum, line by line.
        total: their sum in bytes, while it runs.
        peak: bytes while it is being loaded: the weights before they are quantised, or read, beside those after.
        memory: bytes it may take.
        fits: neither total nor peak is above `memory`.
        token_bytes: bytes that one token of one session reads.
        bandwidth: bytes a second that the memory gives; nan = not measured.
        at_most: tokens a second of one session, as the memory bounds them; nan without a bandwidth.
        expected: tokens a second of one session with the work between the layers; nan where the layers are not known.
        at_most_together: tokens a second of all sessions in one batch, as the memory bounds them.
        remarks: what was not counted.
    """

    name: str
    settings: str
    lines: tuple[Line, ...]
    total: int
    peak: int
    memory: int
    fits: bool
    token_bytes: int
    bandwidth: float = math.nan
    at_most: float = math.nan
    expected: float = math.nan
    at_most_together: float = math.nan
    remarks: tuple[str, ...] = ()


def estimate(
    shape: ModelShape,
    *,
    quant_mode: str | None = None,
    dtype: str | None = None,
    context: int | None = None,
    sessions: int = 1,
    memory: int | None = None,
    bandwidth: float = math.nan,
) -> Estimate:
    """The sum and the bound for one model. Pure, but for asking how much memory there is where `memory` is None.

    Args:
        shape: its sizes, from `read_shape`, `shape_of` or by hand.
        quant_mode: "int8" = linear layers in one byte a weight, the rest in float32; None = none.
        dtype: of the weights and the cache: float32, float16 or bfloat16; None = float32, as
            `LocalModel.load` has it on a CPU, whatever is stored.
        context: tokens of a session, prompt and answer; None = 2,048 or what the model was made for, if less.
        sessions: sessions held at once.
        memory: bytes it may take; None = what this machine has available.
        bandwidth: bytes a second, from `memory_bandwidth`; nan = no speed is told.

    Raises:
        UsageError: an unknown quantisation or dtype, or a number out of its range.
    """
    if quant_mode not in (None, "int8"):
        raise UsageError(f"quant_mode={quant_mode!r} is not known; this version has int8, or None for none")
    kind = dtype or "float32"
    if kind not in BYTES:
        raise UsageError(f"dtype={dtype!r} is not known; use one of {', '.join(BYTES)}")
    if quant_mode == "int8" and kind != "float32":
        raise UsageError(f"int8 computes in float32; leave dtype={dtype!r} out")
    context = min(_CONTEXT, shape.context or _CONTEXT) if context is None else context
    _at_least_one("context", context)
    _at_least_one("sessions", sessions)
    if shape.context and context > shape.context:
        raise UsageError(f"context={context} is more than the {shape.context} tokens that {shape.name} was made for")
    memory = available_memory() if memory is None else memory
    _at_least_one("memory", memory)
    size = BYTES[kind]
    weights = _weights(shape, quant_mode, size)
    cached = 2 * shape.layers * shape.kv_heads * shape.head_dim * size * shape.caches
    lines = (weights, _cache(shape, cached, size, context, sessions), _work(shape, size, context), _program(shape))
    total = sum(line.size for line in lines)
    peak = total - weights.size + _loading(shape, size, weights)
    read = _read(shape, quant_mode, size)
    token = read + cached * context
    together = read + cached * context * sessions
    step = token / bandwidth + STEP + LAYER * shape.layers
    return Estimate(
        shape.name,
        f"{quant_mode or kind}, {context:,} tokens x {_count(sessions, 'session')}",
        lines,
        total,
        peak,
        memory,
        max(total, peak) <= memory,
        token,
        bandwidth,
        bandwidth / token,
        1 / step if shape.layers else math.nan,
        sessions * bandwidth / together,
        _remarks(shape, quant_mode),
    )


def check_fits(
    model: ModelShape | str | Path | Any,
    *,
    quant_mode: str | None = None,
    dtype: str | None = None,
    context: int | None = None,
    sessions: int = 1,
    memory: int | None = None,
) -> Estimate:
    """Refuse what cannot fit, before it is loaded.

    Args:
        model: its sizes, its folder or GGUF file, or a transformers model object.
        quant_mode, dtype, context, sessions, memory: as in `estimate`.

    Raises:
        UsageError: it does not fit; the message shows the sum. Or as in `estimate` and `read_shape`.
    """
    if isinstance(model, str | Path):
        shape = read_shape(model)
    else:
        shape = model if isinstance(model, ModelShape) else shape_of(model)
    found = estimate(shape, quant_mode=quant_mode, dtype=dtype, context=context, sessions=sessions, memory=memory)
    if not found.fits:
        raise UsageError(text_of(found))
    return found


def text_of(found: Estimate) -> str:
    """The sum, line by line, the verdict and the speed, for a person."""
    rows = [(line.what, line.size, line.how) for line in found.lines]
    rows.append(("total", found.total, "while it runs"))
    if found.peak > found.total:
        rows.append(("while loading", found.peak, "the weights as they are read, beside what becomes of them"))
    told = [f"{found.name}, {found.settings}"]
    told += [f"  {what:14}{size / 2**20:>10,.0f} MiB  {how}" for what, size, how in rows]
    need, room = max(found.total, found.peak), found.memory
    if found.fits:
        told.append(f"  it fits: {need / 2**20:,.0f} of {room / 2**20:,.0f} MiB")
    else:
        told.append(
            f"  IT DOES NOT FIT: {need / 2**20:,.0f} MiB are needed, {room / 2**20:,.0f} MiB are there;"
            f" {(need - room) / 2**20:,.0f} MiB too many"
        )
    if not math.isnan(found.at_most):
        told.append(
            f"  at most {found.at_most:,.1f} tokens/s for a session, {found.at_most_together:,.1f} for all in a batch:"
            f" {found.bandwidth / 1e9:.1f} GB/s (measured here) / {found.token_bytes / 1e6:,.1f} MB for a token"
        )
    if not math.isnan(found.expected):
        told.append(f"  expected {found.expected:,.1f} tokens/s for a session, on one thread that nobody disturbs")
    return "\n".join((*told, *(f"  not counted: {remark}" for remark in found.remarks)))


def _weights(shape: ModelShape, quant_mode: str | None, size: int) -> Line:
    if not shape.linear:
        size = 1 if quant_mode else size
        return Line("weights", shape.parameters * size, f"{_short(shape.parameters)} x {_count(size, 'byte')}")
    # The engines lay the linear layers' weights out anew. A head that shares the embedding's weights becomes a copy of
    # its own; a file of the same dtype stays mapped for the tables' sake, which the system may take back page by page.
    moved, rest = shape.linear + shape.head, shape.parameters - shape.linear
    if quant_mode is None:
        laid, how = moved * size, f"{_short(moved)} in layers x {_count(size, 'byte')}"
    else:
        rows = shape.rows + (shape.vocabulary if shape.head else 0)
        laid, how = moved + rows * SCALE, f"{_short(moved)} in layers x 1 byte + {_short(rows)} rows x {SCALE}"
    if _mapped(shape, size):
        return Line("weights", laid + shape.stored, f"{how} + the file, mapped")
    return Line("weights", laid + rest * size, f"{how} + {_short(rest)} in tables and norms x {_count(size, 'byte')}")


def _mapped(shape: ModelShape, size: int) -> bool:
    return shape.stored > 0 and BYTES.get(shape.dtype) == size


def _cache(shape: ModelShape, cached: int, size: int, context: int, sessions: int) -> Line:
    factors = f"{2 * shape.caches} x {shape.layers} layers x {shape.kv_heads} heads x {shape.head_dim} x {size} bytes"
    how = f"{factors} x {context:,} tokens x {_count(sessions, 'session')}" if cached else "not known"
    return Line("KV cache", cached * context * sessions, how)


def _work(shape: ModelShape, size: int, context: int) -> Line:
    # While a prompt is read every position holds its state, queries, keys, values and the two halves of one
    # feed-forward block; of the logits only the last position's are made.
    width = 4 * shape.hidden + 3 * shape.intermediate
    if not width:
        return Line("work space", 0, "not known")
    return Line(
        "work space", (context * width + shape.vocabulary) * size, f"{context:,} tokens of a prompt x {width:,} numbers"
    )


def _program(shape: ModelShape) -> Line:
    how = f"Python, torch and transformers, and a tokenizer of {shape.vocabulary:,} tokens"
    return Line("program", PROGRAM + TOKENIZER_ENTRY * shape.vocabulary, how)


def _loading(shape: ModelShape, size: int, weights: Line) -> int:
    """Bytes of weights at the worst moment of loading: as they compute, beside the file or beside their new layout."""
    whole = shape.parameters * size
    if not shape.linear:
        return max(weights.size, whole)
    laid = weights.size - (shape.stored if _mapped(shape, size) else (shape.parameters - shape.linear) * size)
    return max(weights.size, whole + max(laid, 0 if _mapped(shape, size) else shape.stored))


def _read(shape: ModelShape, quant_mode: str | None, size: int) -> int:
    """Bytes of weights that one decoding step reads."""
    active = shape.parameters - shape.looked_up - round(shape.experts * (1 - shape.expert_share))
    if quant_mode is None:
        return (active + shape.head) * size
    if not shape.linear:
        return active
    return shape.linear + shape.head + max(0, active - shape.linear) * size


def _remarks(shape: ModelShape, quant_mode: str | None) -> tuple[str, ...]:
    found = []
    if not (shape.layers and shape.kv_heads and shape.head_dim):
        found.append("the KV cache; give --layers, --kv-heads and --head-dim")
    if not shape.vocabulary:
        found.append("the tokenizer and, with int8, the tables that stay in 4 bytes; sizes alone do not tell them")
    return tuple(found)


def _at_least_one(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is out of range; give a whole number, 1 or more")


def _short(count: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return str(count)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
