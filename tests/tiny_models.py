"""Random tiny language models and a tiny tokenizer, built in code: no download, a fraction of a second each."""

from __future__ import annotations

from functools import cache
from typing import Any

VOCABULARY = 320
EOS = 2

CORPUS = (
    "This kettle boils a litre of water in ninety seconds and switches itself off.",
    "The handle stays cool, the lid locks with one finger, and the price is 39.90 euros.",
    "Dieses Messer kostet 12,50 €; 这把水壶九十秒烧开一升水。 ราคาถูกมาก 👩‍👩‍👧 🇩🇪",
)


@cache
def tiny_tokenizer() -> Any:
    """A byte-level BPE of 320 tokens, so that most letters outside ASCII take several; with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    kind: Any = PreTrainedTokenizerFast
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(CORPUS, trainer)
    fast = kind(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>")
    fast.chat_template = (
        "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<s>assistant: {% endif %}"
    )
    return fast


def _made(kind: str, config: Any, seed: int, eos: int | list[int] | None) -> Any:
    import torch
    import transformers

    torch.set_num_threads(1)  # two threads on a busy machine are slower than one
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, kind)(config).eval()
        # Random weights as they are made say one token for ever; wide layers between narrow embeddings say many, and
        # what they say depends on the whole prompt.
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.dim() == 2 and not any(each in name for each in ("embed", "shared", "wte", "wpe", "head")):
                    weight.mul_(0.25 / weight.std())
    model.generation_config.eos_token_id = eos
    model.generation_config.pad_token_id = 0
    return model


def tiny_llama(seed: int = 0, eos: int | list[int] | None = None, **settings: Any) -> Any:
    """A Llama of 2 layers with grouped keys."""
    from transformers import LlamaConfig

    given = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": EOS,
    }
    return _made("LlamaForCausalLM", LlamaConfig(**{**given, **settings}), seed, eos)


def tiny_gpt2(seed: int = 0, eos: int | list[int] | None = None) -> Any:
    """A GPT-2 of 2 layers: learnt positions, Conv1D instead of Linear, tied head."""
    from transformers import GPT2Config

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=EOS
    )
    return _made("GPT2LMHeadModel", config, seed, eos)


def tiny_qwen(seed: int = 0, eos: int | list[int] | None = None) -> Any:
    """A Qwen 2 of 2 layers: biased projections, tied head, one sliding layer."""
    from transformers import Qwen2Config

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        use_sliding_window=True,
        sliding_window=16,
        max_window_layers=1,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=EOS,
    )
    return _made("Qwen2ForCausalLM", config, seed, eos)


_T5_START: dict[str, Any] = {"decoder_start_token_id": 0}  # not among the configuration's declared fields


def tiny_t5(seed: int = 0, eos: int | list[int] | None = None) -> Any:
    """A T5 of 2 + 2 layers: relative positions."""
    from transformers import T5Config

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=EOS,
        **_T5_START,
    )
    return _made("T5ForConditionalGeneration", config, seed, eos)


def tiny_bart(seed: int = 0, eos: int | list[int] | None = None) -> Any:
    """A BART of 2 + 2 layers: learnt positions."""
    from transformers import BartConfig

    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
    )
    return _made("BartForConditionalGeneration", config, seed, eos)
