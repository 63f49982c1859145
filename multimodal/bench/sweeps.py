"""What each setting of a stream processor moves: a table for every one, and bars that say in which direction.

chunk_size, buffer_factor, priority_threshold and stages act between the engine and the consumer: real processors over a
scripted engine, on virtual time (`sweeps_text`). keep_free, reclaim_policy and window_size act inside the engine: real
processors over a tiny real model, in real time where time is what they move (`sweeps_engine`).
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from multimodal.bench.report import report
from multimodal.bench.sweeps_engine import sweep_engine
from multimodal.bench.sweeps_text import sweep_text


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Two to four minutes; `--quick` a quarter of one."""
    os.environ["OMP_NUM_THREADS"] = "1"
    quick = bool(options.quick)
    figures, tables = sweep_text(quick)
    more, others = sweep_engine(quick)
    return report("sweeps", figures + more, ours=tables | others, packages=("torch", "transformers", "tokenizers"))
