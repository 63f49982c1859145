"""What a model's files say of it before any weight is loaded: sizes out of config.json, safetensors and GGUF headers.

A folder as `save_pretrained` writes it, a GGUF file, a model object, or numbers alone give the same `ModelShape`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from multimodal.errors import UsageError

__all__ = ["BrokenModelError", "ModelShape", "Tensor", "check_whole", "read_shape", "shape_of"]

# Bytes of one element as safetensors names it.
_STORED = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_HEADER_LIMIT = 100_000_000
_AGAIN = "copy or download it again"


class BrokenModelError(UsageError):
    """A model is there, and a file of it is broken, cut off or missing; the message names the file."""


class Tensor(NamedTuple):
    """One tensor of a file: its name, its shape, and the bytes it takes there."""

    name: str
    shape: tuple[int, ...]
    stored: int


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a model that decide its memory and speed; 0 = not known.

    Args:
        name: what it is called in messages.
        parameters: all weights.
        linear: those in linear layers, which int8 makes one byte each; the output head is among them where it has
            weights of its own.
        rows: output rows of these layers; int8 keeps a scale for each.
        looked_up: weights of tables of which a token reads one row only (embeddings).
        head: weights of the output head where it shares the embedding's.
        vocabulary: tokens that the head knows.
        experts: weights in experts, of which a token reads `expert_share`.
        expert_share: experts that a token goes through, of all.
        layers, kv_heads, head_dim: of the key/value cache.
        caches: 1 for a decoder; 2 where it also keeps the keys of what the encoder read.
        hidden, intermediate: width of a layer, and inside its feed-forward part.
        context: most tokens it was made for.
        stored: bytes of the weights in its files.
        dtype: what the weights are stored as, as torch names it ("" = not known).
    """

    name: str
    parameters: int
    linear: int = 0
    rows: int = 0
    looked_up: int = 0
    head: int = 0
    vocabulary: int = 0
    experts: int = 0
    expert_share: float = 1.0
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    caches: int = 1
    hidden: int = 0
    intermediate: int = 0
    context: int = 0
    stored: int = 0
    dtype: str = ""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and (isinstance(value, bool) or not 0 <= value < math.inf):
                raise UsageError(f"a model's {name}={value!r} is no size; give 0 (not known) or more")
        if self.parameters < 1:
            raise UsageError(f"the model {self.name} has parameters={self.parameters}; give 1 or more")


def read_shape(source: str | Path) -> ModelShape:
    """The sizes of the model in a folder, a GGUF file, or the local cache of a hub.

    Raises:
        UsageError: nothing is there, or it cannot be read; a model that is elsewhere is described by numbers.
        BrokenModelError: it is there, and a file of it is broken, shorter than its header says, or missing.
    """
    path = Path(source)
    if path.is_file() and path.suffix == ".gguf":
        return _gguf_shape(path)
    folder = path if path.is_dir() else _cached(str(source))
    if folder is None:
        raise UsageError(
            f"no model at {source}: give a folder with config.json, a .gguf file, or the sizes of a model that is not"
            " here (multimodal estimate --params 7B --layers 32 --kv-heads 8 --head-dim 128)"
        )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {folder / 'config.json'} ({error}); is {folder} a model's folder?") from error
    except ValueError as error:
        raise BrokenModelError(f"{folder / 'config.json'} is broken: it is no JSON ({error}); {_AGAIN}") from error
    if not isinstance(config, dict):
        raise BrokenModelError(f"{folder / 'config.json'} is broken: it holds no JSON object; {_AGAIN}")
    _check_listed(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UsageError(
            f"{folder} holds no .safetensors; load the model and save it with save_pretrained, or give its sizes"
        )
    tensors = [tensor for file in files for tensor in _safetensors(file)]
    return _shape(folder.name, config, tensors)


def check_whole(folder: Path) -> None:
    """Refuse a folder whose safetensors files are broken, cut off or missing; only their headers are read.

    Raises:
        BrokenModelError: the message names the file.
    """
    _check_listed(folder)
    for file in sorted(folder.glob("*.safetensors")):
        _safetensors(file)


def shape_of(model: Any) -> ModelShape:
    """The sizes of a transformers model that is loaded already."""
    config = model.config.to_dict()
    tensors = [Tensor(name, tuple(w.shape), w.numel() * w.element_size()) for name, w in model.named_parameters()]
    found = _shape(type(model).__name__, config, tensors)
    # Nothing of it is in a file any more.
    return msgspec.structs.replace(found, stored=0, dtype=str(model.dtype).removeprefix("torch."))


def _shape(name: str, config: Mapping[str, Any], tensors: Iterable[Tensor]) -> ModelShape:
    config = {**config, **(config.get("text_config") or {})}
    tensors = list(tensors)
    known = {"name": name, "stored": sum(t.stored for t in tensors), **_weights(tensors, config)}
    heads = _first(config, "num_attention_heads", "n_head", "num_heads", "decoder_attention_heads")
    hidden = _first(config, "hidden_size", "n_embd", "d_model")
    encoder = bool(config.get("is_encoder_decoder"))
    return ModelShape(
        **known,
        layers=_first(config, "num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer", "num_layers"),
        kv_heads=_first(config, "num_key_value_heads") or heads,
        head_dim=_first(config, "head_dim", "d_kv") or (hidden // heads if heads else 0),
        caches=2 if encoder else 1,
        hidden=hidden,
        intermediate=_first(config, "intermediate_size", "n_inner", "d_ff", "decoder_ffn_dim") or 4 * hidden,
        context=_first(config, "max_position_embeddings", "n_positions", "n_ctx"),
        dtype=str(config.get("dtype") or config.get("torch_dtype") or ""),
    )


def _weights(tensors: list[Tensor], config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a shape that the list of tensors tells."""
    tables = [t for t in tensors if _is_table(t.name) and len(t.shape) == 2]
    heads = [t for t in tensors if t.name.startswith("lm_head.") or t.name == "output.weight"]
    experts = [t for t in tensors if ".experts." in t.name or "_exps." in t.name]
    apart = {t.name for t in (*tables, *experts)}
    linear = [t for t in tensors if len(t.shape) == 2 and t.name not in apart and t.name.endswith("weight")]
    words = max(tables, key=lambda t: t.shape[0], default=None)
    among, of = _first(config, "num_experts_per_tok"), _first(config, "num_local_experts", "num_experts", "n_experts")
    return {
        "parameters": sum(math.prod(t.shape) for t in tensors),
        "linear": sum(math.prod(t.shape) for t in linear),
        # GPT-2 stores its layers' weights with their rows last.
        "rows": sum(t.shape[-1 if config.get("model_type") == "gpt2" else 0] for t in linear),
        "looked_up": sum(math.prod(t.shape) for t in tables),
        "head": math.prod(words.shape) if words is not None and not heads else 0,
        "vocabulary": words.shape[0] if words is not None else 0,
        "experts": sum(math.prod(t.shape) for t in experts),
        "expert_share": among / of if among and of else 1.0,
    }


def _is_table(name: str) -> bool:
    return any(word in name for word in ("embed_tokens", "embed_positions", "token_embd", "wte.", "wpe.", "shared."))


def _first(config: Mapping[str, Any], *names: str) -> int:
    return next((int(config[name]) for name in names if isinstance(config.get(name), int | float)), 0)


def _cached(name: str) -> Path | None:
    """The folder of a hub's model in the local cache; nothing is asked of the network."""
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):
        return None
    return Path(found).parent if isinstance(found, str) else None


def _check_listed(folder: Path) -> None:
    """Of weights in several files a list is kept; one that was not copied is missed here."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return
    try:
        listed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenModelError(f"{index} is broken: it lists no files ({error}); {_AGAIN}") from error
    for name in sorted(map(str, listed)):
        if not (folder / name).is_file():
            raise BrokenModelError(f"{folder / name} is missing, and {index.name} lists it; {_AGAIN}")


def _safetensors(path: Path) -> list[Tensor]:
    # Eight bytes say how long the JSON is that follows; the weights come after it and are not read.
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _HEADER_LIMIT:
                raise ValueError(f"its header claims {length:,} bytes")
            header = json.loads(file.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        tensors = [
            Tensor(name, tuple(entry["shape"]), math.prod(entry["shape"]) * _STORED.get(entry["dtype"], 1))
            for name, entry in entries.items()
        ]
        whole = 8 + length + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        size = path.stat().st_size
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error) as error:
        raise BrokenModelError(f"{path} is broken: its header cannot be read ({error}); {_AGAIN}") from error
    if size != whole:
        raise BrokenModelError(
            f"{path} is broken: it has {size:,} bytes, and its header says that it has {whole:,}; {_AGAIN}"
        )
    return tensors


def _gguf_shape(path: Path) -> ModelShape:
    try:
        with path.open("rb") as file:
            facts, tensors, whole = _gguf(file)
    except (OSError, ValueError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise BrokenModelError(f"{path} is broken: its header cannot be read as GGUF ({error}); {_AGAIN}") from error
    if (size := path.stat().st_size) < whole:
        raise BrokenModelError(
            f"{path} is broken: it has {size:,} bytes, and its header says that it has {whole:,}; {_AGAIN}"
        )
    family = str(facts.get("general.architecture", ""))
    own = {key.removeprefix(f"{family}."): value for key, value in facts.items()}
    config = {
        "model_type": family,
        "num_hidden_layers": own.get("block_count"),
        "num_attention_heads": own.get("attention.head_count"),
        "num_key_value_heads": own.get("attention.head_count_kv"),
        "head_dim": own.get("attention.key_length"),
        "hidden_size": own.get("embedding_length"),
        "intermediate_size": own.get("feed_forward_length"),
        "max_position_embeddings": own.get("context_length"),
        "num_experts_per_tok": own.get("expert_used_count"),
        "num_experts": own.get("expert_count"),
    }
    found = _shape(path.stem, config, tensors)
    return msgspec.structs.replace(found, stored=path.stat().st_size)


def _gguf(file: BinaryIO) -> tuple[dict[str, Any], list[Tensor], int]:
    """Metadata, tensors and least length of a GGUF file, versions 2 and 3 (github.com/ggml-org/ggml, docs/gguf.md)."""
    magic, version, count, pairs = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"it begins with {magic!r}, version {version}")
    facts = {_gguf_text(file): _gguf_value(file, _number(file, "I")) for _ in range(pairs)}
    tensors, end = [], 0
    for _ in range(count):
        name, dims = _gguf_text(file), _number(file, "I")
        shape = tuple(_number(file, "Q") for _ in range(dims))
        kind, begin = _number(file, "I"), _number(file, "Q")
        # Of a kind whose blocks are not known here one byte at least is stored.
        held, size = _GGUF_BLOCKS.get(kind, (0, 0))
        end = max(end, begin + (math.prod(shape) // held * size if held else 1))
        tensors.append(Tensor(name, shape[::-1], 0))
    align = int(facts.get("general.alignment") or _GGUF_ALIGNMENT)
    return facts, tensors, -(-file.tell() // align) * align + end if tensors else 0


_GGUF_ALIGNMENT = 32
_GGUF_BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2)}  # float32, float16, bfloat16
_GGUF_BLOCKS |= {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34)}  # Q4_0 to Q8_0
_GGUF_BLOCKS |= {
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    15: (256, 292),
}  # Q2_K on
"""Kind of a tensor -> numbers in a block, bytes of a block."""


_GGUF_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_GGUF_TEXT, _GGUF_LIST = 8, 9


def _gguf_value(file: BinaryIO, kind: int) -> Any:
    if kind == _GGUF_TEXT:
        return _gguf_text(file)
    if kind == _GGUF_LIST:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _GGUF_NUMBERS:
            file.seek(count * struct.calcsize(_GGUF_NUMBERS[inner]), 1)
        else:
            for _ in range(count):
                _gguf_value(file, inner)
        return None  # lists are vocabularies: long, and not needed here
    return _number(file, _GGUF_NUMBERS[kind])


def _gguf_text(file: BinaryIO) -> str:
    length = _number(file, "Q")
    if length > _HEADER_LIMIT:
        raise ValueError(f"a text in it claims {length:,} bytes")
    return file.read(length).decode()


def _number(file: BinaryIO, kind: str) -> Any:
    return struct.unpack(f"<{kind}", file.read(struct.calcsize(f"<{kind}")))[0]
