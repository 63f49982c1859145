"""Models from folders, objects and GGUF files, what is refused, and int8."""

from __future__ import annotations

import importlib
import json
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from multimodal.errors import UsageError
from multimodal.pipes import local_loading
from multimodal.pipes.local_linear import PackedLinear, clone_sharing, pack_linears
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.local_quant import Int8Linear
from multimodal.pipes.local_siblings import join_siblings
from tests.tiny_models import EOS, VOCABULARY, tiny_bart, tiny_gpt2, tiny_llama, tiny_qwen, tiny_t5, tiny_tokenizer

IDS = torch.tensor([[300, 285, 266, 86, 277, 223, 303, 314, 85]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("llama")
    tiny_llama(eos=[EOS, 77]).save_pretrained(home)
    tiny_tokenizer().save_pretrained(home)
    return home


def text_of(model: Any, count: int = 24) -> list[int]:
    found: list[int] = model.generate(IDS, max_new_tokens=count, do_sample=False)[0].tolist()
    return found


def test_a_folder_is_read_with_its_tokenizer_and_its_end_tokens(folder: Path) -> None:
    local = LocalModel.load(folder)
    assert (local.kind, local.name, local.dtype) == ("causal", folder.name, "float32")
    assert local.eos_ids == (EOS, 77)
    assert (local.bos_id, local.pad_id, local.context_length, local.vocab_size) == (1, 0, 512, VOCABULARY)
    assert text_of(local.model) == text_of(tiny_llama(eos=[EOS, 77]))
    assert local.owned
    assert local.encode("kettle") == tuple(tiny_tokenizer().encode("kettle"))


def test_the_dtype_is_the_one_asked_for(folder: Path) -> None:
    assert LocalModel.load(str(folder), dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(UsageError, match="float33"):
        LocalModel.load(folder, dtype="float33")
    with pytest.raises(UsageError, match=r"is torch\.float32"):
        LocalModel.load(tiny_llama(), dtype="bfloat16")


@pytest.mark.parametrize("make", [tiny_t5, tiny_bart])
def test_seq2seq_knows_where_its_decoder_begins(make: Any, tmp_path: Path) -> None:
    made = make()
    made.save_pretrained(tmp_path)
    local = LocalModel.load(tmp_path, tokenizer=tiny_tokenizer())
    assert local.kind == "seq2seq"
    assert local.decoder_start == (made.config.decoder_start_token_id,)
    assert text_of(local.model) == text_of(made)
    assert local.context_length == (None if make is tiny_t5 else 256)


def test_a_chat_is_rendered_by_its_template() -> None:
    local = LocalModel(tiny_llama(), tiny_tokenizer())
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "the price?"}]
    expected = "<s>system: be brief</s><s>user: the price?</s><s>assistant: "
    assert tiny_tokenizer().decode(local.chat(messages)) == expected


def test_a_chat_without_a_template_says_so() -> None:
    raw = tiny_tokenizer().backend_tokenizer
    local = LocalModel(tiny_llama(), raw)
    with pytest.warns(UserWarning, match="no chat template"):
        ids = local.chat([{"role": "user", "content": "the price"}, {"role": "user", "content": "is"}])
    assert ids == local.encode("the price\n\nis")


@pytest.mark.parametrize(
    ("messages", "what"),
    [([], "empty"), ([{"role": "user"}], r"messages\[0\]"), (["hello"], r"messages\[0\]")],
)
def test_wrong_messages_are_refused(messages: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        LocalModel(tiny_llama(), tiny_tokenizer()).chat(messages)


def test_a_template_that_refuses_is_a_usage_error() -> None:
    tokenizer = clone_tokenizer("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(UsageError, match="roles must alternate"):
        LocalModel(tiny_llama(), tokenizer).chat([{"role": "user", "content": "x"}])


def clone_tokenizer(template: str) -> Any:
    import copy

    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = template
    return tokenizer


def test_without_a_tokenizer_only_ids_can_be_given() -> None:
    local = LocalModel(tiny_llama())
    with pytest.raises(UsageError, match="no tokenizer"):
        local.encode("x")
    with pytest.raises(UsageError, match="no tokens"):
        LocalModel(tiny_llama(), tiny_tokenizer()).encode("")


def test_what_cannot_generate_is_refused(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertModel

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    with pytest.raises(UsageError, match="BertModel cannot generate"):
        LocalModel(BertModel(config))
    with pytest.raises(UsageError, match="Linear is no transformers model"):
        LocalModel(nn.Linear(2, 2))
    BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="BertForMaskedLM"):
        LocalModel.load(tmp_path)


def test_places_without_a_model_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        LocalModel.load(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"no config\.json"):
        LocalModel.load(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match=r"x\.gguf: give that file"):
        LocalModel.load(tmp_path)
    with pytest.raises(UsageError, match=r"there is no GGUF file .*y\.gguf"):
        LocalModel.load(tmp_path / "y.gguf")
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"no \.gguf file"):
        LocalModel.load(tmp_path / "weights.bin")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such kind"}))
    with pytest.raises(UsageError, match="cannot read a language model"):
        LocalModel.load(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "gguf" else 1)
    with pytest.raises(UsageError, match="needs the package gguf"):
        LocalModel.load(tmp_path / "x.gguf")


def test_a_broken_tokenizer_is_named_and_a_missing_one_is_none(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-200])
    with pytest.raises(UsageError, match=r"tokenizer\.json is broken"):
        LocalModel.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    with pytest.raises(UsageError, match=r"tokenizer\.json is broken"):
        LocalModel.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_bytes(b"")
    with pytest.raises(UsageError, match=r"tokenizer_config\.json is broken"):
        LocalModel.load(tmp_path)
    for file in tmp_path.glob("*token*"):
        file.unlink()
    assert LocalModel.load(tmp_path).tokenizer is None


def test_a_hub_name_without_a_hub_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"nobody/nothing.*offline\?"):
        LocalModel.load("nobody/nothing")


def test_loading_draws_nothing_and_leaves_progress_bars_as_they_were(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging: Any = importlib.import_module("transformers.utils.logging")
    for shown in (False, True):
        (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
        LocalModel.load(folder)
        with pytest.raises(UsageError):
            LocalModel.load("nobody/nothing" if not shown else folder / "nothing")
        assert logging.is_progress_bar_enabled() is shown
    assert capfd.readouterr().err == ""


def test_a_hub_is_asked_only_for_what_is_not_in_the_cache_and_only_if_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers import AutoConfig

    asked: list[bool] = []

    def missing(where: str, **extra: Any) -> None:
        asked.append(not extra.get("local_files_only", False))
        raise OSError("no such model")

    monkeypatch.setattr(AutoConfig, "from_pretrained", missing)
    monkeypatch.setattr(local_loading, "_hub_answers", lambda: False)
    with pytest.raises(UsageError, match="offline"):
        LocalModel.load("nobody/nothing")
    assert asked == [False], "the cache alone"
    monkeypatch.setattr(local_loading, "_hub_answers", lambda: True)
    with pytest.raises(UsageError, match="nobody/nothing"):
        LocalModel.load("nobody/nothing")
    assert asked == [False, False, True]


def test_a_hub_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.utils

    held, left = threading.Event(), threading.Event()

    class Session:
        def head(self, *_: object, **__: object) -> None:
            held.wait(60)
            left.set()

    monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
    monkeypatch.setattr(local_loading, "HUB_WAIT", 0.05)
    assert not local_loading._hub_answers(), "looking its name up takes for ever"
    held.set()
    assert left.wait(60)
    assert local_loading._hub_answers()


def test_an_unknown_quant_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="int4"):
        LocalModel(tiny_llama(), quant_mode="int4")


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2, tiny_qwen, tiny_t5, tiny_bart])
def test_int8_quantises_every_linear_layer_and_leaves_the_model_alone(make: Any) -> None:
    model = make()
    before = text_of(model)
    full = LocalModel(model)
    local = LocalModel.load(model, quant_mode="int8")
    kinds = {type(each).__name__ for each in local.model.modules()}
    assert "Int8Linear" in kinds
    assert not kinds & {"Linear", "Conv1D"}
    assert local.weight_bytes < 0.62 * full.weight_bytes  # the embedding stays as it is
    assert local.full_bytes == full.weight_bytes
    assert text_of(model) == before
    assert {type(each).__name__ for each in model.modules()}.isdisjoint({"Int8Linear"})
    out = local.model.generate(IDS, max_new_tokens=8, do_sample=False)
    assert out.shape[1] >= 8
    with pytest.raises(UsageError, match="quantised already"):
        LocalModel.load(local, tokenizer=tiny_tokenizer())


def test_an_int8_row_is_the_same_in_every_batch_and_near_the_full_one() -> None:
    torch.manual_seed(0)
    full = nn.Linear(96, 40)
    layer = Int8Linear(full.weight, full.bias)
    rows = torch.randn(33, 96) * torch.logspace(-3, 3, 33)[:, None]
    together = layer(rows)
    for count in (1, 2, 5, 32):
        assert torch.equal(layer(rows[:count]), together[:count])
    error = (together - full(rows)).norm(dim=1) / full(rows).norm(dim=1)
    assert error.max() < 0.03  # of a quiet row beside a loud one, too
    assert torch.equal(layer(torch.zeros(2, 96)), full.bias.expand(2, 40))
    assert layer(rows.bfloat16()[None]).dtype == torch.bfloat16


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen])
def test_int8_layers_of_one_input_are_one_product_with_the_same_bits(make: Any) -> None:
    model = make()
    local = LocalModel.load(model, quant_mode="int8")
    layer, full = local.model.model.layers[0], model.model.layers[0]
    rows, others = torch.randn(1, 5, 64), torch.randn(1, 3, 64)

    def apart(name: str, x: torch.Tensor) -> torch.Tensor:
        one = getattr(full.self_attn, name)
        made: torch.Tensor = Int8Linear(one.weight, one.bias)(x)
        return made

    with torch.inference_mode():
        for x in (rows, others):
            for name in ("q_proj", "k_proj", "v_proj"):
                assert torch.equal(getattr(layer.self_attn, name)(x), apart(name, x))
        # Another input than the first was given, or another order of calls, is computed for itself.
        assert torch.equal(layer.self_attn.q_proj(rows), apart("q_proj", rows))
        assert torch.equal(layer.self_attn.k_proj(others), apart("k_proj", others))
        assert torch.equal(layer.self_attn.v_proj(rows), apart("v_proj", rows))
        assert torch.equal(layer.self_attn.v_proj(rows), apart("v_proj", rows))
    assert text_of(local.model) == text_of(clone_sharing(local.model))


def test_per_row_int8_loses_less_than_a_scale_for_the_whole_batch() -> None:
    torch.manual_seed(0)
    weight, rows = torch.randn(40, 96), torch.randn(8, 96) * torch.logspace(-2, 2, 8)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = torch.quantize_per_channel(
            weight, weight.abs().amax(1).double() / 127, torch.zeros(40, dtype=torch.long), 0, torch.qint8
        )
    theirs = torch.ops.quantized.linear_dynamic(rows, torch.ops.quantized.linear_prepack(codes, None), True)
    exact = rows @ weight.t()

    def worst(made: Any) -> float:
        return float(((made - exact).norm(dim=1) / exact.norm(dim=1)).max())

    assert worst(Int8Linear(weight, None)(rows)) < 0.1 * worst(theirs)


@pytest.mark.parametrize(("inner", "outer"), [(64, 128), (96, 320), (768, 2304), (2048, 96)])
def test_a_packed_row_is_the_same_in_every_batch_from_two_rows_on(inner: int, outer: int) -> None:
    torch.manual_seed(0)
    full = nn.Linear(inner, outer)
    layer, rows = PackedLinear(full.weight, full.bias), torch.randn(64, inner)
    together = layer(rows)
    for count in (2, 3, 4, 5, 8, 16, 33):
        assert torch.equal(layer(rows[:count]), together[:count]), count
    torch.testing.assert_close(together, full(rows), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("make", [PackedLinear, Int8Linear])
def test_layers_that_are_given_the_same_are_one_product(make: Any) -> None:
    torch.manual_seed(0)
    model: Any = nn.Module()
    model.q_proj, model.k_proj, model.v_proj = nn.Linear(64, 48), nn.Linear(64, 16, bias=False), nn.Linear(64, 32)
    apart = [make(each.weight, each.bias) for each in (model.q_proj, model.k_proj, model.v_proj)]
    calls: list[tuple[int, ...]] = []

    class Counted(make):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            calls.append(tuple(x.shape))
            return super().forward(x)

    assert join_siblings(model, Counted) == 3
    first, second = torch.randn(1, 5, 64), torch.randn(1, 3, 64)
    for x in (first, second, first):
        for layer, alone in zip((model.q_proj, model.k_proj, model.v_proj), apart, strict=True):
            torch.testing.assert_close(layer(x), alone(x), atol=1e-5, rtol=1e-5)
    assert calls == [(1, 5, 64), (1, 3, 64), (1, 5, 64)]
    # Called by one that gives each something else, or in another order, they are no faster, but right.
    for layer, alone, x in zip(
        (model.v_proj, model.k_proj, model.q_proj), apart[::-1], (first, second, first), strict=True
    ):
        torch.testing.assert_close(layer(x), alone(x), atol=1e-5, rtol=1e-5)


def test_rows_in_8_bits_may_be_written_to_in_and_outside_inference_mode() -> None:
    torch.manual_seed(0)
    layer, rows = Int8Linear(torch.randn(40, 24), torch.randn(40)), torch.randn(70, 24)
    with torch.inference_mode():
        together = layer(rows)
        parts = torch.cat([layer(rows[:1]), layer(rows[1:33]), layer(rows[33:])])
    assert torch.equal(together, parts)
    assert torch.equal(together, torch.cat([layer(each[None]) for each in rows]))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append([layer(rows[:8]) for _ in range(50)])) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(torch.equal(made, together[:8]) for many in found for made in many)
    assert len(found) == 4


def test_a_clone_shares_the_weights_and_nothing_else() -> None:
    model = tiny_llama()
    before = text_of(model)
    copied = clone_sharing(model)
    assert copied.model.embed_tokens.weight is model.model.embed_tokens.weight
    copied.config._attn_implementation = "eager"
    assert pack_linears(copied)
    assert model.config._attn_implementation != "eager"
    assert text_of(copied) == before == text_of(model)
    assert text_of(clone_sharing(copied)) == before


def test_a_local_model_given_again_is_the_same() -> None:
    local = LocalModel(tiny_llama(), tiny_tokenizer())
    assert LocalModel.load(local) is local
    quantised = LocalModel.load(local, quant_mode="int8")
    assert quantised.tokenizer is local.tokenizer
    assert quantised.quant_mode == "int8"
    assert local.quant_mode is None
