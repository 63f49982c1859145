"""Import of 25,000 products in every format: products a second, and the largest memory, each in a process of its own.

What is counted is one whole `load_catalog`: reading, judging, folding, and looking for each picture. The pictures are
URLs and no folder of them is given, as in the first import of a shop's own feed. One product in ten has three choices,
which are rows of their own in most formats; the figures count products only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from multimodal.bench.catalog_files import WRITERS
from multimodal.bench.report import figure, report
from multimodal.errors import PipeError
from multimodal.values import Product, ProductImage, ProductVariant

__all__ = ["load_once", "run", "shop_products"]

PRODUCTS = 25_000
ROUNDS = 3
MIN_PER_SECOND = 10_000.0
MAX_MIB = 400.0
JUDGED = frozenset({"json", "csv", "tsv", "csv-decimal-comma"})
"""The formats whose speed has a bar; that of the others is reported. Memory has one in all of them."""

_TIMEOUT = 300.0
_WORDS = re.findall(
    r"\w+", "enamel kettle stoneware mug ash brass lamp pours quietly slow exact deep green rim glaze warm hand"
)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The fastest of three loads of each format and the largest memory of them.

    CPU time is judged: a load is one thread that waits for nothing, and the clock counts the machine's other work too.
    """
    count, rounds = (2_000, 1) if options.quick else (PRODUCTS, ROUNDS)
    products = shop_products(count)
    figures, ours = [], {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind, (name, recognised, writer) in WRITERS.items():
            path = Path(scratch, name)
            path.write_text(writer(products), encoding="utf-8")
            loads = [_measured(path) for _ in range(rounds)]
            if any((load["products"], load["format"], load["rejected"]) != (count, recognised, 0) for load in loads):
                raise PipeError(f"bench catalog: {kind} came back as {loads[0]}, not as {count} products")
            rate = count / min(load["cpu_seconds"] for load in loads)
            clock = count / min(load["seconds"] for load in loads)
            peak = max(load["peak_mib"] for load in loads)
            limit = MIN_PER_SECOND if kind in JUDGED and not options.quick else None
            figures.append(figure(f"{kind}: products a CPU second", rate, "1/s", limit, "higher"))
            figures.append(figure(f"{kind}: products a second by the clock", clock, "1/s", None, "higher"))
            figures.append(figure(f"{kind}: peak RSS", peak, "MiB", MAX_MIB, "lower"))
            ours[kind] = {"file_mib": round(path.stat().st_size / 2**20, 1), "loads": loads}
            print(f"{kind}: {rate:,.0f} products/CPU-s, {clock:,.0f} by the clock, {peak:.0f} MiB", file=sys.stderr)
            path.unlink()
    return report("catalog", figures, ours={"products": count, **ours}, packages=("msgspec", "pyyaml"))


def shop_products(count: int) -> list[Product]:
    """Invented products of the size that shops have: 60 words, two pictures, every tenth with three choices."""
    chance = random.Random(1)
    found = []
    for number in range(count):
        code = f"sku-{number:05}"
        url = f"https://cdn.larkmoor.example/products/{code}"
        images = tuple(
            ProductImage(key, f"{url}-{view}.jpg", f"{code} seen from the {view}", 1600, 1200)
            for key, view in ((code, "front"), (f"{code}-2", "side"))
        )
        price = Decimal(chance.randrange(500, 50_000)).scaleb(-2)
        variants = tuple(
            ProductVariant(f"{code}-{size}", f"size {size}", (("size", size),), price + place, "in_stock", (code,))
            for place, size in enumerate(("S", "M", "L") if number % 10 == 0 else ())
        )
        text = " ".join(chance.choices(_WORDS, k=60))
        found.append(
            Product(
                *(code, f"{chance.choice(_WORDS).title()} & {number}", (f"alias {number}",), text, "Larkmoor", price),
                *("EUR", "in_stock", f"https://larkmoor.example/{code}", images, variants, (("material", "ash"),)),
            )
        )
    return found


def _measured(path: Path) -> dict[str, Any]:
    code = f"from multimodal.bench.catalog import load_once; load_once({str(path)!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=_TIMEOUT, env={**os.environ}
        )
    except subprocess.TimeoutExpired as error:
        raise PipeError(f"bench catalog: {path.name} was not loaded within {_TIMEOUT:g} s") from error
    if done.returncode != 0:
        raise PipeError(f"bench catalog: loading {path.name} failed:\n{done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def load_once(path: str) -> None:
    """Load one catalogue in this process and print what it took, as one JSON object."""
    from multimodal.pipes.catalog import load_catalog

    before, began, spent = _peak_mib(), time.perf_counter(), time.process_time()
    catalog = load_catalog(path)
    took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent}
    took |= {"peak_mib": _peak_mib(), "before_mib": before}
    counts = {"products": len(catalog.products), "rejected": len(catalog.rejected), "format": catalog.format}
    print(json.dumps({**{name: round(value, 3) for name, value in took.items()}, **counts}))


def _peak_mib() -> float:
    """The largest resident memory of this process so far."""
    try:
        # getrusage would count what the parent had when it forked.
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        import resource

        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
