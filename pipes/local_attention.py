"""Attention for rows that stand after each other in one sequence: each row's queries meet that row's keys only.

It is registered with transformers under a name of its own, which only our copies of a model use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from multimodal.pipes.local_kv import Batch, Part, current
from multimodal.pipes.local_quantum import QUANTUM

__all__ = ["NAME", "use_rows_attention"]

NAME = "multimodal_rows"


def use_rows_attention(model: Any) -> None:
    """Make every attention of a model (a copy of ours) go through the rows of the current batch."""
    # No mask function of that name: transformers then makes no masks, which would be of the whole sequence.
    AttentionInterface.register(NAME, rows_attention)
    configs = {id(each.config): each.config for each in model.modules() if hasattr(each, "config")}
    for config in configs.values():
        config._attn_implementation_internal = NAME


def rows_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What models call; outside a batch (an encoder) it is plain attention without a mask."""
    batch = current.batch
    if batch is None:
        plain: Any = sdpa_attention_forward
        made: tuple[Tensor, None] = plain(
            module, query, key, value, None, scaling=scaling, is_causal=is_causal, position_bias=position_bias
        )
        return made
    if sliding_window is not None:
        batch.windows.add(sliding_window)
    cross = key.numel() == 1 and _is_mark(key)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    queries = torch.split_with_sizes(query, batch.sizes, 2)
    found: list[Tensor] = []
    for index, part in enumerate(batch.parts):
        reach = part.past
        for q in _pieces(queries[index]):
            if cross:
                keys, values = part.kv.cross[_layer(module, batch)]
                found.append(scaled_dot_product_attention(q, keys, values, scale=scale))
            else:
                reach += q.shape[2]
                found.append(_own(q, part, reach, batch, scale, sliding_window, softcap, s_aux))
    if batch.spare:
        found.append(found[-1].new_zeros(1, query.shape[1], batch.spare, found[-1].shape[3]))
    return torch.cat(found, 2).transpose(1, 2), None


def _pieces(query: Tensor) -> Sequence[Tensor]:
    count = query.shape[2]
    if count <= QUANTUM:
        return (query,)
    rest = count % QUANTUM
    return torch.split_with_sizes(query, [QUANTUM] * (count // QUANTUM) + ([rest] if rest else []), 2)


def _own(
    q: Tensor,
    part: Part,
    reach: int,
    batch: Batch,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """Causal attention of the last positions of `reach` over a row's own keys: [1, heads, count, size]."""
    count, heads = q.shape[2], q.shape[1]
    first = 0 if window is None else max(0, reach - count - window + 1)
    keys, values = part.kv.read(batch.layer, first, reach)
    groups = keys.shape[1]
    many = heads // groups
    mask = _mask(part, count, reach, first, window)
    if batch.bias is not None:
        bias = part.biases.get(reach)
        if bias is None:
            compute: Any = batch.bias.compute_bias
            bias = part.biases[reach] = compute(count, reach, past_seen_tokens=reach - count)
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    if softcap is not None or sinks is not None:
        return _plain(q, keys, values, mask, scale, softcap, sinks)
    if many == 1:
        return scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale)
    # The heads that share keys stand as further queries, so that no key is copied.
    q = q.reshape(1, groups, many * count, q.shape[3])
    if mask is not None:
        mask = mask.repeat(many, 1)
    return scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale).reshape(
        1, heads, count, values.shape[3]
    )


def _mask(part: Part, count: int, reach: int, first: int, window: int | None) -> Tensor | None:
    """Which keys from `first` on the last `count` of `reach` positions may see; None = all. The same in every layer."""
    if count == 1:
        return None
    name = (count, reach, window)
    if name not in part.masks:
        at = torch.arange(reach - count, reach)[:, None]
        to = torch.arange(first, reach)[None, :]
        seen = to <= at
        part.masks[name] = seen if window is None else seen & (to > at - window)
    return part.masks[name]


def _plain(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """The formula itself, for what the fused kernel lacks: capped scores, and sinks that take part of the weight."""
    many = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(many, 1), values.repeat_interleave(many, 1)
    scores = (q @ keys.transpose(2, 3)) * scale
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).expand(1, -1, scores.shape[2], 1)
        scores = torch.cat([scores, column], -1)
    weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
    return (weights if sinks is None else weights[..., :-1]) @ values


def _is_mark(key: Tensor) -> bool:
    return key.shape == (1, 1, 1, 1)


def _layer(module: nn.Module, batch: Batch) -> int:
    found = getattr(module, "layer_idx", None)
    return batch.layer if found is None else int(found)
