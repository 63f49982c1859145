"""Forward passes for rows of different lengths: packed where the model allows it, else one by one.

`make_forward` decides by trying: a model is run packed only if that gives the logits of its own plain forward pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.local_attention import use_rows_attention
from multimodal.pipes.local_kv import LEAST, Batch, Part, RowKV, RowsCache, current, seq2seq_cache
from multimodal.pipes.local_linear import PackedLinear, clone_sharing, pack_linears, packed_bytes
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_quantum import QUANTUM

__all__ = ["Forward", "Packed", "Single", "Work", "make_forward"]

_UNPACKABLE = {"linear_attention", "mamba", "conv", "recurrent", "chunked_attention", "hybrid"}
"""Kinds of layers that keep a state instead of keys, or whose mask this attention does not know."""


class Work:
    """What one row asks of a forward pass.

    Args:
        kv: its keys and values; they grow by these tokens.
        ids: its new tokens.
        wanted: the logits after the last of them are wanted.
    """

    __slots__ = ("ids", "kv", "wanted")

    def __init__(self, kv: RowKV, ids: Sequence[int], wanted: bool) -> None:
        self.kv, self.ids, self.wanted = kv, ids, wanted


class Forward(Protocol):
    """How rows are run.

    `packed` says whether rows share passes; `copies` how many bytes of weights it holds beside the model's own.
    """

    packed: bool
    copies: int

    def start(
        self, prompt: Sequence[int], decoder_start: Sequence[int], room: int = LEAST, most: int | None = None
    ) -> tuple[RowKV, Tensor | None]:
        """A row's beginning: an empty one, or (seq2seq) the encoder's work and the logits after the decoder's start.

        Args:
            prompt: the prompt; a causal model reads it by `run`.
            decoder_start: what a seq2seq decoder begins with.
            room, most: positions its buffers begin with, and never go beyond.
        """
        ...

    def run(self, work: Sequence[Work]) -> Tensor:
        """The logits [wanted rows, vocabulary]."""
        ...


class Packed:
    """All rows' new tokens in one pass, as one sequence.

    Args:
        local: the model; it is not changed.
    """

    packed = True

    def __init__(self, local: LocalModel) -> None:
        self._seq2seq = local.kind == "seq2seq"
        if local.quant_mode is None and local.owned:
            # Nobody else holds the weights: pack them where they are, or they would be in memory twice.
            pack_linears(local.model)
        self._model = clone_sharing(local.model).eval()
        use_rows_attention(self._model)
        if local.quant_mode is None and not local.owned:
            pack_linears(self._model)
        # Whoever packed them: an owned model may come here packed by another engine.
        self._pads = any(isinstance(each, PackedLinear) for each in self._model.modules())
        self.copies = packed_bytes(self._model) - packed_bytes(local.model)
        names = inspect.signature(self._model.forward).parameters
        self._positions = "position_ids" in names
        self._keep = "logits_to_keep" in names
        self._layers = 0
        # Some models let layers share keys, or name no number: their layers have buffers of their own.
        text = self._model.config.get_text_config(decoder=True)
        shares = getattr(text, "num_kv_shared_layers", 0)
        self._count = 0 if self._seq2seq or shares else int(getattr(text, "num_hidden_layers", 0) or 0)
        self._bias: nn.Module | None = None
        self.windows: set[int] = set()
        if self._seq2seq:
            decoder = self._model.get_decoder()
            self._encoder = self._model.get_encoder()
            self._layers = int(self._model.config.get_text_config(decoder=True).num_hidden_layers)
            self._bias = next((m for m in decoder.modules() if getattr(m, "has_relative_attention_bias", False)), None)
            for parent in list(decoder.modules()):
                for name, child in list(parent.named_children()):
                    if "position_ids" in inspect.signature(child.forward).parameters and isinstance(
                        child, nn.Embedding
                    ):
                        setattr(parent, name, _Positions(child))

    def start(
        self, prompt: Sequence[int], decoder_start: Sequence[int], room: int = LEAST, most: int | None = None
    ) -> tuple[RowKV, Tensor | None]:
        kv = RowKV(room, most, self._count)
        if not self._seq2seq:
            return kv, None
        with torch.inference_mode():
            states = self._encoder(input_ids=torch.tensor([list(prompt)])).last_hidden_state
        return kv, self._pass([Work(kv, decoder_start, True)], states)

    def run(self, work: Sequence[Work]) -> Tensor:
        return self._pass(work, None)

    def _pass(self, work: Sequence[Work], states: Tensor | None) -> Tensor:
        ids: list[int] = []
        parts: list[Part] = []
        for each in work:
            parts.append(Part(each.kv, each.ids, len(ids)))
            ids.extend(each.ids)
        wanted = [part.end - 1 for part, each in zip(parts, work, strict=True) if each.wanted]
        rows = len(wanted)
        if self._pads:
            # From two rows on packed layers give a row the same bits in every batch; a second one costs nothing.
            ids += ids[-1:] * (2 - len(ids))
            wanted += wanted[-1:] * (2 - len(wanted)) if wanted else []
        batch = Batch(parts, len(ids), self._bias, states is not None)
        current.batch = batch
        try:
            with torch.inference_mode():
                for part in parts:
                    part.kv.open(len(part.ids))
                logits = self._forward(torch.tensor([ids]), batch, wanted or [0], states)
        finally:
            current.batch = None
            for part in parts:
                part.kv.close()
        for part in parts:
            part.kv.length += len(part.ids)
        self.windows |= batch.windows
        return logits[:rows]

    def _forward(self, ids: Tensor, batch: Batch, wanted: list[int], states: Tensor | None) -> Tensor:
        given: dict[str, Any] = {"use_cache": True, "return_dict": True}
        if self._keep:
            given["logits_to_keep"] = torch.tensor(wanted)
        if self._seq2seq:
            first = ids.new_zeros(1, 1, 1, dtype=self._model.dtype) if states is None else states
            given |= {
                "decoder_input_ids": ids,
                "encoder_outputs": BaseModelOutput(last_hidden_state=first),
                "past_key_values": seq2seq_cache(self._layers, states is not None),
            }
        else:
            given |= {"input_ids": ids, "past_key_values": RowsCache()}
            if self._positions:
                given["position_ids"] = batch.positions[None]
        logits: Tensor = self._model(**given).logits[0]
        return logits if self._keep else logits[wanted]


class _Positions(nn.Module):
    """Learnt positions of a decoder, told which they are by the batch instead of counted from the cache."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: Tensor, past_key_values_length: int = 0, position_ids: Tensor | None = None) -> Tensor:
        batch = current.batch
        where = position_ids if batch is None else batch.positions
        made: Tensor = self.inner(input_ids, past_key_values_length, position_ids=where)
        return made


class Single:
    """Each row in passes of its own, with the model's own cache: for models that packing does not fit.

    Args:
        local: the model; it is not changed.
    """

    packed = False
    copies = 0

    def __init__(self, local: LocalModel) -> None:
        self._seq2seq = local.kind == "seq2seq"
        self._model = clone_sharing(local.model).eval()
        if "past_key_values" not in inspect.signature(self._model.forward).parameters:
            raise UsageError(
                f"{local.name} keeps its state in a way that the step engine does not know (no past_key_values)"
            )

    def start(
        self, prompt: Sequence[int], decoder_start: Sequence[int], room: int = LEAST, most: int | None = None
    ) -> tuple[RowKV, Tensor | None]:
        kv = _OwnKV()
        config = self._model.config
        if not self._seq2seq:
            kv.cache = DynamicCache(config=config.get_text_config(decoder=True))
            return kv, None
        text = config.get_text_config(decoder=True)
        kv.cache = EncoderDecoderCache(DynamicCache(config=text), DynamicCache(config=text))
        with torch.inference_mode():
            kv.states = self._model.get_encoder()(input_ids=torch.tensor([list(prompt)])).last_hidden_state
        return kv, self.run([Work(kv, decoder_start, True)])

    def run(self, work: Sequence[Work]) -> Tensor:
        found = []
        with torch.inference_mode():
            for each in work:
                kv = each.kv
                assert isinstance(kv, _OwnKV)
                ids = torch.tensor([list(each.ids)])
                given: dict[str, Any] = {"past_key_values": kv.cache, "use_cache": True, "return_dict": True}
                if self._seq2seq:
                    given |= {
                        "decoder_input_ids": ids,
                        "encoder_outputs": BaseModelOutput(last_hidden_state=kv.states),
                    }
                else:
                    given["input_ids"] = ids
                logits = self._model(**given).logits[0, -1:]
                kv.length += len(each.ids)
                if each.wanted:
                    found.append(logits)
        return torch.cat(found) if found else torch.zeros(0, 0)


class _OwnKV(RowKV):
    """A row whose keys and values are in the model's own cache."""

    cache: Any = None
    states: Any = None

    @property
    def bytes(self) -> int:
        caches = [self.cache]
        if isinstance(self.cache, EncoderDecoderCache):
            caches = [self.cache.self_attention_cache, self.cache.cross_attention_cache]
        held = 0
        for layer in (layer for cache in caches for layer in cache.layers):
            for tensor in vars(layer).values():
                if isinstance(tensor, Tensor):
                    held += tensor.numel() * tensor.element_size()
        return held


def make_forward(local: LocalModel) -> Forward:
    """Packed if the model's kind allows it and a trial gives its own logits, else one row at a time.

    Raises:
        UsageError: a model that cannot be stepped at all.
        PipeError: not even its own forward pass works.
    """
    single = Single(local)
    if not _may_pack(local):
        return single
    try:
        packed = Packed(local)
        if _agree(packed, single, local):
            return packed
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, AssertionError, KeyError):
        # Whatever an unknown model does with a cache that is not its own: its own way is there.
        current.batch = None
    return single


def _may_pack(local: LocalModel) -> bool:
    text = local.model.config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ())
    if kinds & _UNPACKABLE or local.model.device.type != "cpu":
        return False
    # A seq2seq model does not declare it; the trial tells.
    return local.kind == "seq2seq" or bool(getattr(local.model, "_supports_attention_backend", False))


def _agree(packed: Packed, single: Single, local: LocalModel) -> bool:
    """Two rows of different lengths, read in pieces and then stepped, against each of them alone."""
    top = local.vocab_size - 1
    prompts = [[(7 * i + 3) % top for i in range(QUANTUM + 3)], [(5 * i + 2) % top for i in range(2)]]
    starts = local.decoder_start
    expected, rows = [], []
    for prompt in prompts:
        alone, first = single.start(prompt, starts)
        if first is None:
            first = single.run([Work(alone, prompt, True)])
        expected.append(torch.cat([first, single.run([Work(alone, [prompt[0]], True)])]))
        row, logits = packed.start(prompt, starts)
        if logits is None and len(prompt) > QUANTUM:
            packed.run([Work(row, prompt[:QUANTUM], False)])
            prompt = prompt[QUANTUM:]
        rows.append((row, prompt, logits))
    if local.kind == "causal":
        first = packed.run([Work(row, prompt, True) for row, prompt, _ in rows])
    else:
        first = torch.cat([logits for _, _, logits in rows if logits is not None])
    second = packed.run([Work(row, [prompts[index][0]], True) for index, (row, _, _) in enumerate(rows)])
    sliding = "sliding_attention" in (getattr(local.model.config.get_text_config(), "layer_types", None) or ())
    if sliding and not packed.windows:
        return False
    if not all(each.isfinite().all() for each in expected):
        raise PipeError(f"the logits of {local.name} are not finite; its weights or its dtype are at fault")
    coarse = local.model.dtype != torch.float32
    for index, each in enumerate(expected):
        made = torch.stack([first[index], second[index]]).float()
        each = each.float()
        limit = (0.1 if coarse else 1e-3) * float(each.std()) + 1e-6
        if not (made - each).abs().max() <= limit:
            return False
    return True
