"""What benchmarks of the text engine share: a byte-level tokenizer made here, a random model that fits it, spreads."""

from __future__ import annotations

import importlib
import random
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from multimodal.errors import UsageError

__all__ = ["byte_tokenizer", "invented_words", "random_llama", "rises", "spread", "whole_words"]

SPECIAL = ("<pad>", "<s>", "</s>")
EVEN = 0.25
"""Random weights as they are made say one token for ever; layers this wide say many."""


def byte_tokenizer(texts: Iterable[str], size: int) -> Any:
    """A byte-level BPE of `size` tokens, trained on these texts, so that characters and words come split over tokens.

    Raises:
        UsageError: `tokenizers` is not installed.
    """
    try:
        tokenizers = importlib.import_module("tokenizers")
        parts = {name: importlib.import_module(f"tokenizers.{name}") for name in ("models", "decoders", "trainers")}
        byte_level = importlib.import_module("tokenizers.pre_tokenizers").ByteLevel
    except ImportError as error:
        raise UsageError("this benchmark trains a tokenizer: pip install 'multimodal-stream[llm]'") from error
    tokenizer = tokenizers.Tokenizer(parts["models"].BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = parts["decoders"].ByteLevel()
    trainer = parts["trainers"].BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=byte_level.alphabet(), special_tokens=list(SPECIAL)
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def invented_words(count: int, seed: int = 0) -> list[str]:
    """So many different words that nobody uses, of two to four syllables."""
    dice, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        syllables = (dice.choice("bdfghklmnprstvz") + dice.choice("aeiou") for _ in range(dice.randint(2, 4)))
        found["".join(syllables) + dice.choice(("", "n", "r", "s"))] = None
    return list(found)


def whole_words(tokenizer: Any, words: Sequence[str], count: int) -> list[str]:
    """Of these words, each with a space before it, `count` that are one token: n of them are a prompt of n tokens."""
    found: list[str] = []
    for word in words:
        if len(tokenizer.encode(f" {word}").ids) == 1:
            found.append(f" {word}")
            if len(found) == count:
                return found
    raise AssertionError(f"only {len(found)} words are one token each, {count} are needed")


def random_llama(vocabulary: int, *, width: int = 768, layers: int = 12, seed: int = 0) -> Any:
    """A Llama of random weights, with no end token: 110 million of them with a vocabulary of 32,000."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        num_key_value_heads=max(1, width // 64),
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config)
        model.eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.dim() == 2 and "embed" not in name and "head" not in name:
                    weight.mul_(EVEN * (64 / width) ** 0.5 / weight.std())
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def spread(values: Sequence[float]) -> dict[str, float]:
    """The least, the middle and the largest."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def rises(values: Sequence[float], slack: float = 0.0) -> int:
    """How many of the steps from one value to the next go up, by more than this share of it."""
    return sum(after > before * (1 + slack) for before, after in pairwise(values))
