"""Whether transformers' continuous batching can run a model, and how much of it a pool holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multimodal.errors import UsageError

if TYPE_CHECKING:
    from multimodal.pipes.local_loading import LocalModel

__all__ = ["manager_refuses", "pool_blocks"]


def manager_refuses(local: LocalModel) -> str | None:
    """Why transformers' continuous batching cannot run this model; None = it can."""
    from transformers.generation.continuous_batching.cache import group_layers_by_attn_type

    model, config = local.model, local.model.config
    if local.kind != "causal":
        return "an encoder-decoder model has no paged attention in transformers"
    if not hasattr(model, "init_continuous_batching"):
        return f"{type(model).__name__} is not a model of transformers that can batch continuously"
    if not getattr(model, "_supports_attention_backend", False) or getattr(model, "_is_stateful", False):
        return f"the attention of {type(model).__name__} takes no paged cache"
    if local.quant_mode is not None:
        # E5: rounding that 32 bits hide, 8 bits turn into another word about once in a hundred answers.
        return "attention over one packed batch rounds a row otherwise than alone, and 8-bit weights amplify it"
    attention = config._attn_implementation
    if attention not in ("sdpa", "eager", "paged|eager"):
        return f"its attention is {attention!r}; transformers pages 'sdpa' and 'eager' on this device"
    try:
        group_layers_by_attn_type(config.get_text_config())
    except ValueError as error:
        return f"transformers pages no such layers: {error}"
    return None


def pool_blocks(local: LocalModel, pool_bytes: int, page_tokens: int) -> int:
    """Pages of all layers that the pool holds."""
    config = local.model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    block: int = config.num_hidden_layers * 2 * heads * width * local.model.dtype.itemsize * page_tokens
    if not isinstance(pool_bytes, int) or isinstance(pool_bytes, bool) or pool_bytes < block:
        raise UsageError(
            f"pool_bytes={pool_bytes!r} holds no page of {page_tokens} tokens; this model needs {block} bytes or more"
        )
    return pool_bytes // block
