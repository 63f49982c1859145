"""`bench estimate`, its short run: a real process beside what was foretold of it."""

from __future__ import annotations

import argparse

import pytest

from multimodal.bench import estimate
from multimodal.errors import PipeError


@pytest.mark.slow
def test_memory_is_foretold() -> None:
    found = estimate.run(argparse.Namespace(quick=True))
    off = {entry["what"]: entry["value"] for entry in found["figures"]}
    assert off["memory off, 60 M random, int8"] < 0.15
    assert {"peak off, 60 M random, int8", "speed off, 60 M random, int8"} <= set(off)
    assert found["ours"]["60 M random, int8"]["resident_mib"] > 300


def test_a_process_that_fails_is_named() -> None:
    with pytest.raises(PipeError, match="speak /nowhere"):
        estimate._work(["speak", "/nowhere", "", ""])
