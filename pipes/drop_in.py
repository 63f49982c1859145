"""The arguments of transformers' `model.generate`, read as requests: the same names, defaults and precedence. Pure.

A keyword counts over `generation_config`, that over the model's own generation config, that over transformers'
defaults. What cannot be streamed is refused with the reason, wherever it was asked for; nothing is dropped silently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from multimodal.errors import UsageError
from multimodal.pipes.generation import GenerationRequest, Sampling
from multimodal.pipes.refusals import BEAMS_ONLY, SAMPLING_ONLY, SPEED_ONLY, refuse

__all__ = ["GeneratePlan", "ModelFacts", "read_generate", "read_rows"]

log = logging.getLogger(__name__)

DEFAULT_NEW_TOKENS = 20
"""Tokens `model.generate` makes when nobody says how many (transformers 5, `_get_default_generation_params`)."""
DEFAULT_TOP_K = 50
"""Its top_k when it samples and nobody says otherwise (same place)."""
OURS = frozenset({"attention_mask", "seed", "logprobs", "stop_strings", "tokenizer", "generation_config"})
LENGTHS = frozenset({"max_new_tokens", "max_length", "min_new_tokens", "min_length"})
IDS = frozenset({"eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id"})
CHOICE = frozenset({"do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "num_return_sequences"})
KNOWN = OURS | LENGTHS | IDS | CHOICE | {"return_dict_in_generate"}


class ModelFacts(msgspec.Struct, frozen=True):
    """What reading the arguments needs to know of a model.

    Args:
        defaults: its generation config, as a dict.
        seq2seq: whether the prompt is an encoder's input.
        decoder_start_id: what a seq2seq model's answer begins with.
        max_positions: tokens its positions reach; None = no bound known.
        eos_ids: its end tokens, used where the generation config names none.
        vocabulary: how many tokens it knows; None = not known.
    """

    defaults: Mapping[str, Any] = {}
    seq2seq: bool = False
    decoder_start_id: int | None = None
    max_positions: int | None = None
    eos_ids: tuple[int, ...] = ()
    vocabulary: int | None = None


class GeneratePlan(msgspec.Struct, frozen=True):
    """What a call of `generate` asks for.

    Args:
        requests: one for each row of the result.
        prefixes: what each row of the result begins with: the prompt as it was given, padding included; for seq2seq
            the decoder's first token.
        pad_id: fills rows that ended early.
        stops: texts that end a row.
        as_dict: the caller asked for `return_dict_in_generate`.
    """

    requests: tuple[GenerationRequest, ...]
    prefixes: tuple[tuple[int, ...], ...]
    pad_id: int
    stops: tuple[str, ...] = ()
    as_dict: bool = False


def read_generate(
    input_ids: object, kwargs: Mapping[str, Any], facts: ModelFacts, fresh_seed: Callable[[], int | None]
) -> GeneratePlan:
    """The requests that a call of `generate` means.

    Args:
        input_ids: a tensor or list of token ids, [length] or [batch, length]; a list of lists may be ragged.
        kwargs: its keywords.
        facts: of the model.
        fresh_seed: gives the seed of a sampling call that names none.

    Raises:
        UsageError: an unknown or refused keyword, a value out of range, a mask that is no padding, an empty prompt.
    """
    asked = dict(kwargs)
    config = _settings(asked, facts)
    rows = read_rows("input_ids", input_ids)
    if facts.vocabulary is not None and (highest := max(map(max, rows))) >= facts.vocabulary:
        raise UsageError(
            f"input_ids holds {highest}, and the model knows {facts.vocabulary} tokens; encode with its own tokenizer"
        )
    pad, eos = _special(config, facts)
    mask = asked.get("attention_mask")
    prompts = _unpadded(rows, mask, pad if pad not in eos else None)
    width = max(map(len, rows))
    fill = pad if pad is not None else eos[0] if eos else 0
    given = [[fill] * (width - len(row)) + row for row in rows]
    if facts.seq2seq:
        start = config.get("decoder_start_token_id", facts.decoder_start_id)
        if start is None:
            raise UsageError("the model has no decoder_start_token_id; give decoder_start_token_id=...")
        given, width = [[_whole("decoder_start_token_id", start, 0)]] * len(rows), 1
    most, least = _lengths(config, width, facts.max_positions)
    repeat = _whole("num_return_sequences", config.get("num_return_sequences", 1), 1)
    sampling = _sampling(asked, config, repeat, fresh_seed)
    count = len(rows) * repeat
    requests = []
    # A negative one is transformers' way to say that no token ends the answer.
    ends = tuple(token for token in eos if token >= 0)
    for row, ids in enumerate(ids for ids in prompts for _ in range(repeat)):
        # The rows of one call draw from one generator, each its own part of what it gives.
        how = sampling if sampling.greedy else msgspec.structs.replace(sampling, row=row, rows=count)
        requests.append(GenerationRequest(tuple(ids), most, how, ends, asked.get("logprobs"), least))
    return GeneratePlan(
        tuple(requests),
        tuple(tuple(row) for row in given for _ in range(repeat)),
        fill,
        _stops(config.get("stop_strings")),
        as_dict=bool(config.get("return_dict_in_generate", False)),
    )


def read_rows(name: str, value: object) -> list[list[int]]:
    """A tensor, an array or a list of token ids as rows of int.

    Raises:
        UsageError: it is empty, not one- or two-dimensional, or holds what is no token id.
    """
    plain: Any = getattr(value, "tolist", lambda: value)()
    if isinstance(plain, Sequence) and not isinstance(plain, str | bytes):
        rows: list[Any] = [list(each) if isinstance(each, Sequence) else each for each in plain]
        if rows and not any(isinstance(each, list) for each in rows):
            rows = [rows]
        if rows and all(isinstance(each, list) and each for each in rows):
            for number, row in enumerate(rows):
                for place, token in enumerate(row):
                    if isinstance(token, bool) or not isinstance(token, int) or token < 0:
                        where = f"{name}[{number}][{place}]"
                        raise UsageError(f"{where} is {token!r}; token ids are whole numbers, 0 or more")
            return rows
        if not rows or all(isinstance(each, list) for each in rows):
            raise UsageError(f"{name} has a row without tokens; give at least one token id in each")
    raise UsageError(
        f"{name} is {type(value).__name__}; give token ids as a tensor or list, [length] or [batch, length]"
    )


def _settings(asked: Mapping[str, Any], facts: ModelFacts) -> dict[str, Any]:
    """Everything that counts, the nearest last; refuses what cannot be done."""
    own = _known_values(facts.defaults)
    given = asked.get("generation_config")
    if given is not None:
        values = given.to_dict() if hasattr(given, "to_dict") else given
        if not isinstance(values, Mapping):
            raise UsageError(f"generation_config is {type(given).__name__}; give a GenerationConfig or a dict")
        given = _known_values(values)
    configs = {**own, **(given or {})}
    for name, value in asked.items():
        if name not in KNOWN:
            refuse(name, value, known=KNOWN)
    config = {**configs, **asked}
    # A config carries much that only a beam search, a sampler or a cache reads; while none of them runs, it asks for
    # nothing.
    idle = (BEAMS_ONLY - {"num_beams"}) | SPEED_ONLY | (frozenset() if config.get("do_sample") else SAMPLING_ONLY)
    for name, value in configs.items():
        if name not in KNOWN and name not in asked and name not in idle:
            refuse(name, value, "" if name in (given or {}) else "the model's own generation config asks for it: ")
    return {name: value for name, value in config.items() if value is not None or name in IDS}


def _known_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _special(config: Mapping[str, Any], facts: ModelFacts) -> tuple[int | None, tuple[int, ...]]:
    eos: Any = config.get("eos_token_id", facts.eos_ids)
    eos = eos.tolist() if hasattr(eos, "tolist") else eos
    ids = () if eos is None else tuple(eos) if isinstance(eos, Sequence) else (eos,)
    pad: Any = config.get("pad_token_id")
    pad = pad.tolist() if hasattr(pad, "tolist") else pad
    for token in (*ids, *(() if pad is None else (pad,))):
        if isinstance(token, bool) or not isinstance(token, int):
            raise UsageError(f"eos_token_id={eos!r}, pad_token_id={pad!r}: these are token ids; give whole numbers")
    return pad, ids


def _unpadded(rows: list[list[int]], mask: object, pad: int | None) -> list[list[int]]:
    """The real tokens of each row. Without a mask a pad token that is no end token shows the padding, as there."""
    if mask is None:
        if pad is None:
            return rows
        kept = [[int(token != pad) for token in row] for row in rows]
    else:
        kept = read_rows("attention_mask", mask)
        if [len(row) for row in kept] != [len(row) for row in rows]:
            raise UsageError("attention_mask has another shape than input_ids; give one 0 or 1 for each token id")
    real = []
    for number, (row, flags) in enumerate(zip(rows, kept, strict=True)):
        on = [place for place, flag in enumerate(flags) if flag]
        if not on:
            raise UsageError(f"row {number} of input_ids is all padding; give it at least one real token")
        if mask is not None and on[-1] - on[0] + 1 != len(on):
            raise UsageError(
                f"attention_mask[{number}] leaves out tokens in the middle; only padding left or right can be left out"
            )
        real.append(row[on[0] : on[-1] + 1])
    return real


def _lengths(config: Mapping[str, Any], width: int, positions: int | None) -> tuple[int, int]:
    """Most and least new tokens; `max_new_tokens` counts over `max_length`, which counts the prompt too."""
    if "max_new_tokens" in config:
        most = _whole("max_new_tokens", config["max_new_tokens"], 1)
    elif "max_length" in config:
        longest = _whole("max_length", config["max_length"], 1)
        most = longest - width
        if most < 1:
            raise UsageError(f"the prompt has {width} tokens and max_length={longest} leaves none; raise it")
    else:
        most = DEFAULT_NEW_TOKENS
        if positions is not None:
            most = max(1, min(most, positions - width))
    if "min_new_tokens" in config:
        least = _whole("min_new_tokens", config["min_new_tokens"], 0)
    else:
        least = max(0, _whole("min_length", config.get("min_length", 0), 0) - width)
    return most, least


def _sampling(
    asked: Mapping[str, Any], config: Mapping[str, Any], repeat: int, fresh_seed: Callable[[], int | None]
) -> Sampling:
    penalty = config.get("repetition_penalty", 1.0)
    seed = asked.get("seed")
    if not config.get("do_sample", False):
        if repeat > 1:
            raise UsageError(f"num_return_sequences={repeat} without do_sample=True would give equal rows; sample")
        if idle := sorted({"temperature", "top_k", "top_p", "seed"} & {k for k, v in asked.items() if v is not None}):
            given = {name: asked[name] for name in idle}
            Sampling(**given)  # of no effect, and still not to be passed over when it is wrong
            log.warning("generate: %s changes nothing without do_sample=True", ", ".join(idle))
        return Sampling(repetition_penalty=penalty)
    temperature = config.get("temperature", 1.0)
    if temperature == 0:
        raise UsageError("temperature=0 with do_sample=True contradict each other; for the likeliest token leave both")
    # An explicit None switches a filter off, as there.
    top_k = config.get("top_k", 0 if "top_k" in asked else DEFAULT_TOP_K)
    return Sampling(temperature, top_k, config.get("top_p", 1.0), penalty, fresh_seed() if seed is None else seed)


def _stops(value: object) -> tuple[str, ...]:
    if not isinstance(value, str | Sequence | None) or isinstance(value, bytes):
        raise UsageError(f"stop_strings={value!r}; give one text, or a list of texts that are not empty")
    stops = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise UsageError(f"stop_strings={value!r}; give one text, or a list of texts that are not empty")
    return stops


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r} must be a whole number, {least} or more")
    return value
