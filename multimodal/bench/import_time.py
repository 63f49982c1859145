"""What `import multimodal` costs: CPU milliseconds of the import alone, and the heavy libraries it must not load."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from multimodal.bench.report import figure, report

HEAVY = ("torch", "transformers", "aiortc", "av", "PIL", "numpy", "starlette")
RUNS = 5

_SCRIPT = f"""
import json, sys, time
began = time.process_time()
import multimodal
spent = time.process_time() - began
print(json.dumps([spent * 1000, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Each run is a fresh interpreter; the best counts, since a busy machine only ever adds."""
    times: list[float] = []
    loaded: set[str] = set()
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
        spent, heavy = json.loads(done.stdout)
        times.append(spent)
        loaded.update(heavy)
    figures = [
        figure(f"CPU of the import, best of {RUNS}", min(times), "ms", 150.0, "lower"),
        figure("heavy libraries loaded", len(loaded), "libraries", 0, "lower"),
    ]
    return report("import-time", figures, ours={"ms": times, "loaded": sorted(loaded)})
