"""Models from GGUF files: the same words as the same weights from a folder, and broken files refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.local_engines import make_engine
from multimodal.pipes.local_loading import LocalModel
from tests.pipes.test_engines import PROMPTS, ask, generated, ids, read
from tests.tiny_models import EOS, VOCABULARY, tiny_llama, tiny_tokenizer

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(path: Path, model: Any, tokenizer: Any, coarse: bool = False) -> Path:
    """A Llama as llama.cpp's converter writes it: float32, or (coarse) matrices in blocks of 8 bits."""
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    words = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([word for word, _ in words])
    writer.add_token_types([3 if number < 3 else 1 for _, number in words])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_pad_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_chat_template(tokenizer.chat_template)
    for name, weight in model.state_dict().items():
        values = weight.numpy()
        for part, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
            if part in name:  # llama.cpp turns pairs of neighbours, transformers halves
                halves = values.reshape(heads, 2, -1, values.shape[1])
                values = halves.swapaxes(1, 2).reshape(values.shape)
        kind = gguf.GGMLQuantizationType.Q8_0
        if coarse and values.ndim == 2:
            writer.add_tensor(_named(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(_named(name), values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _named(name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    stem = name.removesuffix(".weight")
    if stem in whole:
        return f"{whole[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[part]}.weight"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_llama(), tiny_tokenizer())


def test_a_gguf_file_says_what_the_same_weights_say(file: Path) -> None:
    local, model, tokenizer = LocalModel.load(file), tiny_llama(), tiny_tokenizer()
    assert (local.name, local.kind, local.dtype, local.owned) == ("tiny.gguf", "causal", "float32", True)
    assert (local.eos_ids, local.context_length, local.vocab_size) == ((EOS,), 512, VOCABULARY)
    assert local.has_chat_template
    text = "Ein Kännchen für 12 €, 你好 🙂"
    assert local.encode(text) == tuple(tokenizer.encode(text))
    engine: Any = make_engine(local, pool_bytes=2**22)
    for prompt in PROMPTS[:3]:
        assert ids(read(ask(engine, prompt, 20))) == generated(model, prompt, 20)
    engine.close()


def test_a_quantised_gguf_file_is_read_into_full_weights_near_those_it_was_made_of(tmp_path: Path) -> None:
    import torch

    model = tiny_llama()
    local = LocalModel.load(write_gguf(tmp_path / "coarse.gguf", model, tiny_tokenizer(), coarse=True))
    theirs, ours = model.state_dict(), local.model.state_dict()
    assert {each.dtype for each in ours.values()} == {torch.float32}
    worst = max(float((ours[name] - each).norm() / each.norm()) for name, each in theirs.items())
    assert 0 < worst < 0.01
    small = LocalModel.load(local, quant_mode="int8")
    assert small.weight_bytes < local.weight_bytes


def test_a_converted_gguf_file_is_a_folder_that_says_the_same(tmp_path: Path) -> None:
    from multimodal.pipes.local_gguf import convert

    file = write_gguf(tmp_path / "coarse.gguf", tiny_llama(), tiny_tokenizer(), coarse=True)
    convert(str(file), str(tmp_path / "folder"))
    read, made = LocalModel.load(file), LocalModel.load(tmp_path / "folder")
    theirs = read.model.state_dict()
    for name, weight in made.model.state_dict().items():
        assert (weight == theirs[name].bfloat16().float()).all(), name
    messages = [{"role": "user", "content": "Ein Kännchen für 12 €"}]
    assert made.chat(messages) == read.chat(messages)
    assert made.eos_ids == read.eos_ids
    assert not hasattr(made.model.config, "quantization_config")


def test_a_broken_gguf_file_is_refused_in_words(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    cases: dict[str, Callable[[], bytes]] = {
        "empty": lambda: b"",
        "magic": lambda: b"GGUG" + whole[4:],
        "version": lambda: whole[:4] + (99).to_bytes(4, "little") + whole[8:],
        "header": lambda: whole[:20],
        "keys": lambda: whole[:200],
        "half": lambda: whole[: len(whole) // 2],
        "kind": lambda: whole.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0lamma", 1),
        "noise": lambda: b"GGUF\x03\0\0\0" + bytes((37 * place) % 251 for place in range(4096)),
    }
    for name, made in cases.items():
        broken = tmp_path / f"{name}.gguf"
        broken.write_bytes(made())
        with pytest.raises(UsageError, match=rf"cannot read a language model from .*{name}\.gguf: .+"):
            LocalModel.load(broken)
