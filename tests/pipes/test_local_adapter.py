"""An adapter added to a model's weights: the right numbers, all or nothing, and another model's is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from multimodal.errors import UsageError
from multimodal.pipes.local_adapter import FORMAT, merge_adapter
from multimodal.pipes.local_loading import LocalModel
from tests.tiny_models import tiny_llama

BASE, RANK = "tiny", 4
Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"
ABOUT = {"format": FORMAT, "base": BASE, "rank": str(RANK), "alpha": "8"}


def pairs(scale: float = 0.1) -> dict[str, Tensor]:
    """Random matrices for two layers of `tiny_llama`: 64 x 64, and 64 out of 128."""
    dice = torch.Generator().manual_seed(1)
    shapes = {f"{Q}.a": (RANK, 64), f"{Q}.b": (64, RANK), f"{DOWN}.a": (RANK, 128), f"{DOWN}.b": (64, RANK)}
    return {name: (torch.randn(shape, generator=dice) * scale).bfloat16() for name, shape in shapes.items()}


def adapter(path: Path, tensors: dict[str, Tensor] | None = None, **about: str) -> Path:
    save_file(pairs() if tensors is None else tensors, path, metadata={**ABOUT, **about})
    return path


def test_the_product_of_both_matrices_is_added(tmp_path: Path) -> None:
    model, plain, added = tiny_llama(), tiny_llama().state_dict(), pairs()
    assert merge_adapter(model, adapter(tmp_path / "a.safetensors"), base=BASE) == 2
    for name, weight in model.state_dict().items():
        layer = name.removesuffix(".weight")
        expected = plain[name]
        if layer in (Q, DOWN):
            expected = expected + 2 * added[f"{layer}.b"].float() @ added[f"{layer}.a"].float()
            assert not torch.equal(weight, plain[name])
        assert torch.allclose(weight, expected, atol=1e-6)


def test_an_adapter_of_zeros_changes_nothing_and_int8_is_made_of_the_sum(tmp_path: Path) -> None:
    model, plain = tiny_llama(), tiny_llama()
    merge_adapter(model, adapter(tmp_path / "zero.safetensors", pairs(0)), base=BASE)
    assert all(torch.equal(weight, plain.state_dict()[name]) for name, weight in model.state_dict().items())
    merge_adapter(model, adapter(tmp_path / "a.safetensors"), base=BASE)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        whole, small = model(ids).logits, LocalModel(model, quant_mode="int8").model(ids).logits
        assert float((small - whole).norm() / whole.norm()) < 0.1
        assert float((plain(ids).logits - whole).norm() / whole.norm()) > 0.2


Tensors = dict[str, Tensor]


def _without(name: str) -> Tensors:
    return {key: value for key, value in pairs().items() if key != name}


@pytest.mark.parametrize(
    ("made", "about", "says"),
    [
        (pairs, {"base": "another-135M"}, "was made for the model 'another-135M', and this is 'tiny'"),
        (pairs, {"format": "2"}, "format '2'; this version reads format '1'"),
        (pairs, {"rank": "8"}, r"q_proj has the shapes a \(4, 64\), b \(64, 4\); its layer needs"),
        (pairs, {"rank": "four"}, "rank='four'; that is no rank"),
        (pairs, {"rank": "2.5"}, "that is no rank"),
        (pairs, {"alpha": "-1"}, "that is no alpha"),
        (dict, {}, "adapts no layer"),
        (lambda: _without(f"{Q}.b"), {}, r"no pair of matrices .*q_proj\.a and"),
        (lambda: {**pairs(), f"{Q}.a": torch.zeros(64)}, {}, "no pair of matrices"),
        (lambda: {**pairs(), f"{Q}.a": torch.zeros(RANK, 96)}, {}, r"a \(4, 96\)"),
        (lambda: {**pairs(), f"{Q}.b": torch.full((64, RANK), float("nan"))}, {}, "not finite"),
        (lambda: {"model.layers.9.mlp.up_proj.a": torch.zeros(RANK, 64)}, {}, "no linear layer of that name"),
        (lambda: {"model.embed_tokens.a": torch.zeros(RANK, 64)}, {}, "no linear layer of that name"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path, made: Callable[[], Tensors], about: dict[str, str], says: str
) -> None:
    model, plain = tiny_llama(), tiny_llama().state_dict()
    with pytest.raises(UsageError, match=says):
        merge_adapter(model, adapter(tmp_path / "a.safetensors", made(), **about), base=BASE)
    assert all(torch.equal(weight, plain[name]) for name, weight in model.state_dict().items())


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    file = adapter(tmp_path / "a.safetensors")
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:5], b"", b"version https://git-lfs"):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=r"a\.safetensors is broken or cut off"):
            merge_adapter(tiny_llama(), file, base=BASE)
    with pytest.raises(UsageError, match="there is no adapter"):
        merge_adapter(tiny_llama(), tmp_path / "b.safetensors", base=BASE)
