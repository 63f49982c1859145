"""Keys and values of rows of different lengths, each in buffers of its own: joining and leaving copies nothing.

A batch of rows is run as ONE sequence, all rows' new tokens after each other, with a position for each token. The
linear layers see that sequence; attention (`local_attention`) sees each row's own keys only, of exactly its length.
There is no padding, so that a row's numbers cannot depend on the lengths beside it (E5).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, EncoderDecoderCache

__all__ = ["LEAST", "Batch", "CrossCache", "Part", "RowKV", "RowsCache", "current", "seq2seq_cache"]

GROWTH = 1.5
LEAST = 32
"""Positions a row's buffers begin with and the factor they grow by: a token's share of all copying stays constant."""


class RowKV:
    """Keys and values of one row, layer by layer; they grow as it is generated.

    Args:
        room: positions to begin with.
        most: positions it will never go beyond; None = not known.
        count: layers of the model, whose keys and values are then parts of one buffer; 0 = not known.
    """

    def __init__(self, room: int = LEAST, most: int | None = None, count: int = 0) -> None:
        self.length = 0
        """Positions that are complete in every layer."""
        self.layers: list[tuple[Tensor, Tensor]] = []
        self.cross: list[tuple[Tensor, Tensor]] = []
        """seq2seq: keys and values of the encoder's output."""
        self._first, self._most, self._count = max(1, room), most, count
        self._whole: Tensor | None = None
        """[2 * layers, 1, heads, room, size], whose parts `layers` are: cut once a pass, not once a layer."""
        self._fresh: Sequence[Tensor] = ()
        self._reach = -1
        self._seen: Sequence[Tensor] = ()

    @property
    def bytes(self) -> int:
        """What its buffers take."""
        pairs = (*self.layers, *self.cross)
        return sum(each.numel() * each.element_size() for pair in pairs for each in pair)

    def open(self, count: int) -> None:
        """A pass begins that writes so many new positions to each layer."""
        if self._whole is None:
            return
        end = self.length + count
        if self._whole.shape[3] < end:
            room = max(end, self._bounded(int(self._whole.shape[3] * GROWTH)))
            self._use(_moved(self._whole, self.length, room))
        self._fresh = self._whole.narrow(3, self.length, count).unbind()
        self._seen = self._whole.narrow(3, 0, end).unbind()
        self._reach = end

    def close(self) -> None:
        """The pass is over, and what it wrote is complete."""
        self._fresh = self._seen = ()
        self._reach = -1

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """The new positions of a layer: [1, heads, count, size] after the `length` that are there."""
        if self._fresh:
            self._fresh[2 * layer].copy_(keys)
            self._fresh[2 * layer + 1].copy_(values)
            return
        count = keys.shape[2]
        end = self.length + count
        if not self.layers and self._count and keys.shape == values.shape:
            self._use(keys.new_empty(2 * self._count, 1, keys.shape[1], max(self._first, end), keys.shape[3]))
        whole = self._whole
        if whole is not None and (
            layer >= self._count or whole.shape[2::2] != keys.shape[1::2] or values.shape != keys.shape
        ):
            # Layers differ: this one and those after it have buffers of their own.
            self._whole = None
            del self.layers[layer:]
        while len(self.layers) <= layer:
            room = max(self._first, end)
            self.layers.append((_empty(keys, room), _empty(values, room)))
        mine = self.layers[layer]
        if mine[0].shape[2] < end:
            room = max(end, self._bounded(int(mine[0].shape[2] * GROWTH)))
            mine = self.layers[layer] = (_moved(mine[0], self.length, room), _moved(mine[1], self.length, room))
        mine[0].narrow(2, self.length, count).copy_(keys)
        mine[1].narrow(2, self.length, count).copy_(values)

    def read(self, layer: int, first: int, reach: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer from position `first` up to `reach`."""
        if reach == self._reach and not first:
            return self._seen[2 * layer], self._seen[2 * layer + 1]
        keys, values = self.layers[layer]
        return keys.narrow(2, first, reach - first), values.narrow(2, first, reach - first)

    def copy_from(self, other: RowKV, length: int) -> None:
        """Begin with the first `length` positions of another row, so that they need not be computed anew."""
        room = max(self._first, length)
        if other._whole is not None:
            self._use(_moved(other._whole, length, room))
        else:
            self.layers = [(_moved(keys, length, room), _moved(values, length, room)) for keys, values in other.layers]
        self.length = length

    def _use(self, whole: Tensor) -> None:
        parts = whole.unbind()
        self._whole, self.layers = whole, list(zip(parts[::2], parts[1::2], strict=True))

    def _bounded(self, room: int) -> int:
        return room if self._most is None else min(room, self._most)


class Part:
    """The new tokens of one row in a batch.

    Args:
        kv: the row's keys and values.
        ids: its new tokens.
        start: where they stand in the batch's sequence.
    """

    __slots__ = ("biases", "end", "ids", "kv", "masks", "past", "start")

    def __init__(self, kv: RowKV, ids: Sequence[int], start: int) -> None:
        self.kv, self.ids, self.start, self.end = kv, ids, start, start + len(ids)
        self.past = kv.length
        self.masks: dict[tuple[int, int, int | None], Tensor | None] = {}
        self.biases: dict[int, Tensor] = {}


class Batch:
    """The rows of one forward pass.

    Args:
        parts: each row's new tokens, in the order of the sequence.
        count: tokens of the sequence; those after the last part stand for nothing.
        bias: a module with T5's `compute_bias`, for models whose positions are relative.
        filling: the cross keys and values of the one row are computed in this pass.
    """

    def __init__(
        self, parts: Sequence[Part], count: int, bias: torch.nn.Module | None = None, filling: bool = False
    ) -> None:
        self.parts, self.count, self.bias, self.filling = parts, count, bias, filling
        self.layer = 0
        self.spare = count - parts[-1].end
        self.sizes = [len(part.ids) for part in parts] + ([self.spare] if self.spare else [])
        self.windows: set[int] = set()
        """Sliding windows that layers asked for."""
        positions = torch.zeros(count, dtype=torch.long)
        for part in parts:
            positions[part.start : part.end] = torch.arange(part.past, part.past + len(part.ids))
        self.positions = positions


class _Current(threading.local):
    batch: Batch | None = None


current = _Current()
"""The batch that this thread runs; models call their caches and their attention without knowing of it."""


class RowsCache(Cache):
    """What a model takes for its cache: it hands each row its keys and values."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        batch = current.batch
        assert batch is not None
        batch.layer = layer_idx
        keys = torch.split_with_sizes(key_states, batch.sizes, 2)
        values = torch.split_with_sizes(value_states, batch.sizes, 2)
        for index, part in enumerate(batch.parts):
            part.kv.write(layer_idx, keys[index], values[index])
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1


class _Mark:
    def __init__(self) -> None:
        self.keys = self.values = torch.zeros(1, 1, 1, 1)
        self.is_initialized = True
        self.is_sliding = False


class CrossCache(RowsCache):
    """The cross attention's side of a seq2seq model's cache; its keys are a mark that attention knows."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.mark = _Mark()
        self.layers: list[Any] = [self.mark] * layers

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        batch = current.batch
        assert batch is not None
        (part,) = batch.parts
        assert len(part.kv.cross) == layer_idx
        part.kv.cross.append((key_states, value_states))
        return self.mark.keys, self.mark.values


def seq2seq_cache(layers: int, filling: bool) -> EncoderDecoderCache:
    """A cache for one pass of a seq2seq decoder.

    Args:
        layers: of the decoder.
        filling: the cross keys and values are to be computed in this pass.
    """
    made = EncoderDecoderCache(RowsCache(), CrossCache(layers))
    made.is_updated = dict.fromkeys(range(layers), not filling)
    return made


def _empty(like: Tensor, room: int) -> Tensor:
    return like.new_empty(1, like.shape[1], room, like.shape[3])


def _moved(held: Tensor, length: int, room: int) -> Tensor:
    made = held.new_empty(*held.shape[:-2], room, held.shape[-1])
    made[..., :length, :] = held[..., :length, :]
    return made
