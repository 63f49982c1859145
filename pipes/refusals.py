"""What `model.generate` takes and a token stream cannot do, each with its reason and the way out. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from multimodal.errors import UsageError

__all__ = ["BEAMS_ONLY", "SAMPLING_ONLY", "SPEED_ONLY", "refuse"]

_NO_BEAMS = "beam search rewrites what was already said, so it cannot be streamed; pass num_beams=1"
_NO_ASSISTANT = "assisted decoding needs a batch of its own, and rows share one here; leave it out"
_NO_RULE = "the engine's samplers have no such rule; leave it out, or call model.generate itself"
_NO_SAMPLER = "sampling here knows temperature, top_k, top_p and repetition_penalty; leave it out"
_NO_TENSORS = "a stream keeps no tensors of its steps; for probabilities pass logprobs=k and read .logprobs"
_NO_CACHE = "the engine keeps one cache for all rows; see mempool_config for its size"

BEAMS_ONLY = frozenset(
    {"num_beams", "num_beam_groups", "diversity_penalty", "early_stopping", "length_penalty", "constraints"}
    | {"force_words_ids", "prefix_allowed_tokens_fn"}
)
"""Read by beam search alone; of a model's own config only `num_beams` asks for one."""
SAMPLING_ONLY = frozenset({"min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"})
"""Read when sampling alone."""
SPEED_ONLY = frozenset(
    {"use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "compile_config"}
    | {"disable_compile", "continuous_batching_config", "low_memory", "is_assistant", "num_assistant_tokens"}
    | {"num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind"}
    | {"max_matching_ngram_size", "assistant_ensemble_weight", "speculation_type"}
    | {"transformers_version", "_from_model_config"}
)
"""Change how fast, or in what memory, the same text is made."""

_ASSISTED = frozenset(
    {"assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp", "num_assistant_tokens"}
    | {"assistant_confidence_threshold", "num_assistant_tokens_schedule"}
)
_RULES = frozenset(
    {"no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty", "bad_words_ids"}
    | {"forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "renormalize_logits", "dola_layers"}
    | {"exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"}
    | {"token_healing", "guidance_scale", "watermarking_config", "penalty_alpha", "logits_processor"}
    | {"negative_prompt_ids", "negative_prompt_attention_mask"}
)

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "early_stopping": (False,),
    "length_penalty": (1.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "use_cache": (True,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "remove_invalid_values": (False,),
    "renormalize_logits": (False,),
    "token_healing": (False,),
    "guidance_scale": (1.0,),
    "output_scores": (False,),
    "output_logits": (False,),
    "output_attentions": (False,),
    "output_hidden_states": (False,),
    "penalty_alpha": (0.0,),
    "use_mtp": (False,),
    "is_assistant": (False,),
    "synced_gpus": (False,),
    "trust_remote_code": (False,),
    "low_memory": (False,),
}
"""Values that ask for nothing; None asks for nothing anywhere."""

_REASONS: dict[str, str] = {
    **dict.fromkeys(BEAMS_ONLY, _NO_BEAMS),
    **dict.fromkeys(SAMPLING_ONLY, _NO_SAMPLER),
    **dict.fromkeys(SPEED_ONLY, _NO_CACHE),
    "early_stopping": "it ends a beam search, and " + _NO_BEAMS,
    **dict.fromkeys(_ASSISTED, _NO_ASSISTANT),
    **dict.fromkeys(_RULES, _NO_RULE),
    **dict.fromkeys(["output_scores", "output_logits", "output_attentions", "output_hidden_states"], _NO_TENSORS),
    "prefix_allowed_tokens_fn": _NO_RULE,
    "constraints": _NO_RULE,
    "force_words_ids": _NO_RULE,
    "use_cache": "without a cache every token would cost the whole prompt anew, for the same text; leave it out",
    "streamer": "the result itself is the stream; use `for token in outputs` or `async for token in outputs`",
    "stopping_criteria": "pass stop_strings, eos_token_id or max_new_tokens; or leave the loop when it is enough",
    "max_time": "leave the loop, or call .cancel(), when it is enough; in async code use asyncio.timeout",
    "custom_generate": "decoding is the engine's; call model.generate itself for a loop of your own",
    "trust_remote_code": "decoding is the engine's; call model.generate itself for a loop of your own",
    "synced_gpus": "the engine runs in one process; leave it out",
    "inputs_embeds": "a prompt is token ids here; pass input_ids",
    "past_key_values": _NO_CACHE,
    "position_ids": "positions follow from attention_mask; leave it out",
    "decoder_input_ids": "an answer begins with decoder_start_token_id; leave it out",
    "encoder_outputs": "the engine runs the encoder; pass input_ids",
    "token_type_ids": "the engine passes input_ids and attention_mask alone; leave it out",
}


def refuse(name: str, value: object, who: str = "", known: Iterable[str] = ()) -> None:
    """Raise unless the value asks for nothing.

    Args:
        name: of the keyword.
        value: what it was given.
        who: begins the reason when it was not the caller.
        known: the names that are taken, for what an unknown one may have meant.

    Raises:
        UsageError: with the reason and the way out; an unknown name too, with the names that come near.
    """
    if name not in _REASONS and name not in _NEUTRAL:
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}?" if near else "nothing is passed on unread, so leave it out"
        raise UsageError(f"generate: unknown argument {name!r}; {meant}")
    neutral = _NEUTRAL.get(name, ())
    if value is None or any(value is each or (type(value) is not bool and value == each) for each in neutral):
        return
    raise UsageError(f"generate: {name}={_short(value)} is refused: {who}{_REASONS[name]}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__}(...)"
