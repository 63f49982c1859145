"""`multimodal estimate`: sizes out of headers, the sum of memory, the bound on speed, and what is refused."""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from multimodal.cli import main
from multimodal.errors import UsageError
from multimodal.estimate import check_fits, estimate, text_of
from multimodal.memory import available_memory, memory_bandwidth, parse_count, parse_memory, release_memory
from multimodal.weights import BrokenModelError, ModelShape, read_shape, shape_of

LLAMA = ModelShape(
    name="llama",
    parameters=1_000_000,
    linear=800_000,
    rows=4_000,
    looked_up=100_000,
    head=100_000,
    vocabulary=1_000,
    layers=4,
    kv_heads=2,
    head_dim=32,
    hidden=100,
    intermediate=300,
    context=4096,
    stored=2_000_000,
    dtype="bfloat16",
)
SEVEN = ModelShape(name="7B", parameters=7 * 10**9, layers=32, kv_heads=32, head_dim=128)
ROOMY = 10**12


def sizes(shape: ModelShape, **settings: Any) -> dict[str, int]:
    return {line.what: line.size for line in estimate(shape, memory=ROOMY, **settings).lines}


def test_the_kv_cache_is_two_times_layers_heads_dim_bytes_tokens_sessions() -> None:
    assert sizes(LLAMA, dtype="float32", context=1000, sessions=3)["KV cache"] == 2 * 4 * 2 * 32 * 4 * 1000 * 3
    assert sizes(LLAMA, dtype="bfloat16", context=1000)["KV cache"] == 2 * 4 * 2 * 32 * 2 * 1000


def test_weights_take_the_bytes_of_their_dtype() -> None:
    assert sizes(LLAMA, dtype="float32")["weights"] == 4_400_000, (
        "a head that shares the table's weights is laid out anew"
    )
    assert sizes(LLAMA)["weights"] == 4_400_000, "float32 on a CPU, whatever is stored"
    assert sizes(LLAMA, dtype="bfloat16")["weights"] == 900_000 * 2 + 2_000_000, (
        "the file has that dtype and stays mapped"
    )


def test_int8_keeps_tables_in_float32_and_a_scale_for_each_row() -> None:
    # A head that shares the table's weights gets an int8 copy: 800 k + 100 k bytes, 4,000 + 1,000 rows, 200 k x 4.
    assert sizes(LLAMA, quant_mode="int8")["weights"] == 900_000 + 5_000 * 20 + 200_000 * 4


def test_speed_is_bounded_by_the_bytes_that_a_token_reads() -> None:
    found = estimate(LLAMA, dtype="float32", context=100, memory=ROOMY, bandwidth=1e9)
    cache = 2 * 4 * 2 * 32 * 4 * 100
    assert found.token_bytes == 4_000_000 + cache
    assert found.at_most == pytest.approx(1e9 / found.token_bytes)
    assert found.expected < found.at_most
    eight = estimate(LLAMA, dtype="float32", context=100, sessions=8, memory=ROOMY, bandwidth=1e9)
    assert eight.at_most_together == pytest.approx(8e9 / (4_000_000 + 8 * cache)), "a batch reads the weights once"
    assert math.isnan(estimate(LLAMA, memory=ROOMY).at_most)


def test_int8_reads_a_quarter_and_experts_only_their_share() -> None:
    assert (
        estimate(LLAMA, quant_mode="int8", context=1, memory=ROOMY).token_bytes
        == 900_000 + 100_000 * 4 + 2 * 4 * 2 * 32 * 4
    )
    mixed = ModelShape(name="mixed", parameters=1000, experts=800, expert_share=0.25, dtype="float32")
    assert estimate(mixed, memory=ROOMY).token_bytes == 400 * 4


def test_seven_billion_in_int8_do_not_fit_four_gigabytes_and_the_sum_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "estimate --params 7B --layers 32 --kv-heads 8 --head-dim 128 --quant int8 --memory 4G --no-bandwidth"
    assert main(words.split()) == 1
    printed = capsys.readouterr().out
    assert "6,676 MiB  7.0 B x 1 byte" in printed
    assert "2 x 32 layers x 8 heads x 128 x 4 bytes x 2,048 tokens x 1 session" in printed
    assert "DOES NOT FIT" in printed
    assert "4,096 MiB are there" in printed


def test_what_does_not_fit_is_refused_before_it_is_loaded_with_the_sum() -> None:
    with pytest.raises(UsageError, match=r"(?s)weights.*KV cache.*total.*DOES NOT FIT"):
        check_fits(SEVEN, quant_mode="int8", memory=parse_memory("4G"))
    assert check_fits(LLAMA, memory=parse_memory("1G")).fits


def test_loading_may_need_more_than_running_and_is_judged_too() -> None:
    found = estimate(LLAMA, quant_mode="int8", memory=ROOMY)
    assert found.peak - found.total == 4_000_000 + 2_000_000 - sizes(LLAMA, quant_mode="int8")["weights"]
    plain = estimate(LLAMA, memory=ROOMY)
    assert plain.peak - plain.total == 4_000_000 + 900_000 * 4 - sizes(LLAMA)["weights"], "both layouts, for a moment"
    between = estimate(LLAMA, quant_mode="int8", memory=(found.peak + found.total) // 2)
    assert not between.fits
    assert "while loading" in text_of(between)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"quant_mode": "int4"}, "int4"),
        ({"dtype": "int8"}, "int8"),
        ({"quant_mode": "int8", "dtype": "bfloat16"}, "float32"),
        ({"context": 0}, "context=0"),
        ({"context": 5000}, "4096 tokens"),
        ({"sessions": 0}, "sessions=0"),
        ({"memory": 0}, "memory=0"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        estimate(LLAMA, **settings)


def random_llama(**sizes: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    common = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "vocab_size": 200}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    return LlamaForCausalLM(LlamaConfig(**{**common, **heads, **sizes}))


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_says_what_its_model_has(tmp_path: Path, tied: bool) -> None:
    model = random_llama(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path / "llama", max_shard_size="100KB")
    found, held = read_shape(tmp_path / "llama"), shape_of(model)
    assert len(list((tmp_path / "llama").glob("*.safetensors"))) > 1, "several files, one model"
    assert found.parameters == held.parameters == sum(weight.numel() for weight in model.parameters())
    assert found.head == (200 * 48 if tied else 0)
    assert (found.layers, found.kv_heads, found.head_dim, found.context) == (3, 2, 12, 512)
    assert (found.vocabulary, found.dtype, found.stored) == (200, "float32", 4 * found.parameters)
    assert held.stored == 0
    assert {name: getattr(held, name) for name in ("linear", "rows", "looked_up", "head", "layers", "dtype")} == {
        name: getattr(found, name) for name in ("linear", "rows", "looked_up", "head", "layers", "dtype")
    }


def test_the_kv_bytes_are_those_that_transformers_keeps() -> None:
    import torch

    model = random_llama()
    with torch.inference_mode():
        kept = model(torch.arange(7)[None], use_cache=True).past_key_values
    real = sum(t.numel() * t.element_size() for layer in kept.layers for t in (layer.keys, layer.values))
    assert sizes(shape_of(model), context=7)["KV cache"] == real


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize")
def test_the_int8_weights_are_those_that_torch_keeps() -> None:
    import torch
    from torch.ao.quantization import per_channel_dynamic_qconfig
    from torch.ao.quantization import quantize_dynamic as untyped

    quantize_dynamic: Any = untyped
    layers = torch.nn.Sequential(torch.nn.Linear(64, 40, bias=False))
    shape = ModelShape(name="one layer", parameters=64 * 40, linear=64 * 40, rows=40)
    counted = sizes(shape, quant_mode="int8")["weights"]
    weight = quantize_dynamic(layers, {torch.nn.Linear: per_channel_dynamic_qconfig})[0].weight()
    held = (weight, weight.q_per_channel_scales(), weight.q_per_channel_zero_points())
    kept = sum(tensor.numel() * tensor.element_size() for tensor in held)
    assert counted == kept + 40 * 4, "the sum of each row is the kernel's, in no tensor"


def test_encoder_and_decoder_keep_two_caches() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes_: dict[str, Any] = {
        "d_model": 32,
        "d_kv": 8,
        "num_heads": 4,
        "d_ff": 64,
        "num_layers": 2,
        "num_decoder_layers": 3,
    }
    found = shape_of(T5ForConditionalGeneration(T5Config(vocab_size=100, **sizes_)))
    assert (found.layers, found.kv_heads, found.head_dim, found.caches) == (3, 4, 8, 2)
    assert sizes(found, context=10)["KV cache"] == 2 * 2 * 3 * 4 * 8 * 4 * 10


def gguf(tmp_path: Path, tensors: dict[str, tuple[int, ...]], **facts: object) -> Path:
    """A GGUF file by the specification, with a hole for its weights."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    body = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(facts))
    for key, value in facts.items():
        body += text(key.replace("__", "."))
        if isinstance(value, str):
            body += struct.pack("<I", 8) + text(value)
        elif isinstance(value, list):
            body += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        else:
            assert isinstance(value, int)
            body += struct.pack("<II", 4, value)
    for name, shape in tensors.items():
        dims = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", size) for size in reversed(shape))
        body += text(name) + dims + struct.pack("<IQ", 0, 0)
    path = tmp_path / "model.gguf"
    weights = 4 * max(math.prod(shape) for shape in tensors.values())
    path.write_bytes(body + bytes(-len(body) % 32 + weights))
    return path


def test_a_gguf_header_says_the_same(tmp_path: Path) -> None:
    path = gguf(
        tmp_path,
        {"token_embd.weight": (100, 32), "blk.0.attn_q.weight": (32, 32), "blk.0.attn_norm.weight": (32,)},
        general__architecture="llama",
        tokenizer__ggml__tokens=["a", "b", "c"],
        llama__block_count=1,
        llama__embedding_length=32,
        llama__attention__head_count=4,
        llama__attention__head_count_kv=2,
        llama__context_length=256,
    )
    found = read_shape(path)
    assert (found.parameters, found.linear, found.rows, found.head) == (3200 + 1024 + 32, 1024, 32, 3200)
    assert (found.layers, found.kv_heads, found.head_dim, found.context) == (1, 2, 8, 256)


@pytest.mark.parametrize("cut", [3, 20, 60, -1, 0])
def test_a_broken_gguf_is_named(tmp_path: Path, cut: int) -> None:
    path = gguf(tmp_path, {"token_embd.weight": (100, 32)}, general__architecture="llama", llama__block_count=1)
    path.write_bytes(path.read_bytes()[:cut] if cut else b"GGML" + path.read_bytes()[4:])
    with pytest.raises(UsageError, match=r"model\.gguf is broken"):
        read_shape(path)


def test_a_broken_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--params 7B"):
        read_shape(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"config\.json"):
        read_shape(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="save_pretrained"):
        read_shape(tmp_path)
    for content in (b"", b"\xff" * 8, struct.pack("<Q", 50) + b"{", struct.pack("<Q", 8) + b'{"a": 1}'):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(UsageError, match=r"model\.safetensors"):
            read_shape(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BrokenModelError, match=r"config\.json is broken"):
        read_shape(tmp_path)


def damaged(folder: Path, how: str) -> str:
    """A model of several files, one of them damaged; gives the name of that one."""
    random_llama().save_pretrained(folder, max_shard_size="100KB")
    shard = sorted(folder.glob("*.safetensors"))[1]
    data = shard.read_bytes()
    if how == "missing":
        shard.unlink()
    else:
        shard.write_bytes({"cut": data[:-1], "longer": data + b"x", "header": data[:40], "empty": b""}[how])
    return shard.name


@pytest.mark.parametrize("how", ["cut", "longer", "header", "empty", "missing"])
def test_a_damaged_file_is_named_by_all_who_read_it(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from multimodal.pipes.local_loading import LocalModel
    from multimodal.pipes.processor import StreamProcessor

    name = damaged(tmp_path, how)
    for read in (read_shape, LocalModel.load, StreamProcessor):
        with pytest.raises(BrokenModelError, match=rf"{name} is (broken|missing).*copy or download it again"):
            read(tmp_path)
    capsys.readouterr()
    assert main(["estimate", "--no-bandwidth", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert name in told.err
    assert "it fits" not in told.out
    assert len(told.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a MODEL"),
        (["nowhere"], "no model at nowhere"),
        (["nowhere", "--params", "7B"], "leave --params"),
        (["--params", "seven"], "7B"),
        (["--params", "7B", "--memory", "lots"], "4G"),
        (["--params", "1M", "--vocab", "10000", "--hidden", "1000"], "--vocab x --hidden"),
    ],
)
def test_wrong_use_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--no-bandwidth", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    words = "estimate --params 10M --vocab 1000 --hidden 100 --quant int8 --memory 64G --json --no-bandwidth"
    assert main(words.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert found["at_most"] is None
    assert found["total"] == sum(line["size"] for line in found["lines"])


@pytest.mark.parametrize(
    ("text", "size"), [("4G", 4 * 2**30), ("512 MiB", 2**29), ("1.5k", 1536), ("1000", 1000), ("2TB", 2**41)]
)
def test_memory_as_people_write_it(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "4X", "nan", "inf", "0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="4G"):
        parse_memory(text)
    with pytest.raises(UsageError, match="7B"):
        parse_count(text.replace("G", "B"))


def test_counts_as_people_write_them() -> None:
    assert (parse_count("7B"), parse_count("135M"), parse_count("1.5k")) == (7 * 10**9, 135_000_000, 1500)


def test_the_machine_is_asked() -> None:
    assert available_memory() > 2**26
    assert 1e8 < memory_bandwidth(2**24, 2) < 1e13
    with pytest.raises(UsageError, match="do not fit"):
        memory_bandwidth(available_memory())
    with pytest.raises(UsageError, match="rounds=0"):
        memory_bandwidth(rounds=0)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc, and given back by glibc")
def test_memory_that_the_allocator_keeps_is_given_back() -> None:
    blocks = [bytes(10_000) for _ in range(10_000)]
    above = bytes(10_000)  # so that the heap cannot shrink by itself
    held = resident()
    del blocks
    release_memory()
    assert held - resident() > 80_000_000
    assert len(above) == 10_000


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
