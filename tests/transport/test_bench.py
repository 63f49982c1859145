"""`multimodal bench transport` runs, in the envelope of every benchmark; its figures depend on the machine's load."""

from __future__ import annotations

import argparse

from multimodal.bench import transport


def test_the_bench_measures_ours_beside_an_unpaced_road() -> None:
    result = transport.run(argparse.Namespace(quick=True))
    assert result["bench"] == "transport"
    assert [entry["what"] for entry in result["figures"]] == [
        "offer to first event, median",
        "words during pictures, p95",
        "words during pictures, p95, of unpaced",
        "scheduler's work for an event",
        "scheduler's work for a part of 4 KiB",
    ]
    assert result["ours"]["words"] == result["peers"]["unpaced"]["words"] == 50
    assert all(entry["value"] > 0 for entry in result["figures"])
