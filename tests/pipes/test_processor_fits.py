"""What does not fit is refused before it is loaded; what belongs together runs together."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes import processor_source
from multimodal.pipes.batching import Admission
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.processor import EDGE_MEMORY, StreamProcessor
from tests.support import TINY_LLAMA


def seven_billion(folder: Path) -> Path:
    """The headers of a model of 7 B parameters, without its weights: nothing of it may be read to refuse it."""
    folder.mkdir()
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "intermediate_size": 11008,
        "max_position_embeddings": 4096,
    }
    (folder / "config.json").write_text(json.dumps(config))
    tensors: dict[str, Any] = {}
    end = 0
    for layer in range(32):
        for name, shape in (
            ("self_attn.q_proj", (4096, 12288)),
            ("mlp.up_proj", (4096, 3 * 11008)),
            ("o", (4096, 4096)),
        ):
            size = 2 * shape[0] * shape[1]
            key = f"model.layers.{layer}.{name}.weight"
            tensors[key] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
            end += size
    head = json.dumps(tensors).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        out.truncate(8 + len(head) + end)  # a hole: it takes no room on the disk
    return folder


def test_a_model_that_does_not_fit_an_edge_machine_is_refused_with_the_sum(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError) as refused:
        StreamProcessor(seven_billion(tmp_path / "big"), edge_mode=True)
    assert time.monotonic() - began < 10, "its weights were read"
    assert "MiB" in str(refused.value)
    assert "weights" in str(refused.value)
    assert f"{EDGE_MEMORY / 2**20:,.0f}" in str(refused.value)


def test_a_model_that_fits_is_loaded_and_one_that_is_loaded_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with StreamProcessor(TINY_LLAMA, edge_mode=True) as processor:
        assert processor.generate([[1, 2, 3]], max_new_tokens=2).shape == (1, 5)
        model = processor._source.local.model  # type: ignore[union-attr]
    monkeypatch.setattr("multimodal.pipes.processor.EDGE_MEMORY", 1 << 20)
    with pytest.raises(UsageError, match="weights"):
        StreamProcessor(model, edge_mode=True)
    # Without a bound of its own, a model that is in memory already is not asked whether it fits.
    processor_source._check_fits(model, None, None)


def test_a_context_reaches_the_admission() -> None:
    seen: list[str | None] = []

    class Watched(Admission):
        def offer(self, request_id: Any, prompt_ids: Any, now: float, context: str | None = None) -> None:
            seen.append(context)
            super().offer(request_id, prompt_ids, now, context)

    for engine in ("steps", "manager"):
        with StreamProcessor(TINY_LLAMA, engine=engine) as processor:
            processor._source.configure(admission=Watched())
            pipe = processor.prompt("kettle", max_new_tokens=2, context="halo-kettle")

            async def read() -> int:
                return len([token async for token in pipe])  # noqa: B023

            assert asyncio.run(read()) == 2
    assert seen == ["halo-kettle", "halo-kettle"]
    assert GenerationRequest((1,)).context == ""
