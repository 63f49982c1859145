"""A photograph of 3000 px to a WebP of 800: ours beside plain Pillow and libvips; and every odd file of the corpus.

All three read the same file, scale with the same kernel (libvips with its own, also Lanczos) and write WebP at the same
quality and effort (80, method 0), so that only the way differs; ours makes the preview and the dominant colour too. A
tour looks at each picture before, to reserve its place: what the two come to together is stated apart. All take turns,
round by round; CPU time is what a server pays, and the clock is stated beside it.

The photograph is made here: noise whose amplitude falls with its frequency, as in natural scenes (Field 1987), edges of
many sizes, and grain; its bytes a pixel are stated, as smooth pictures would flatter everybody.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.errors import UsageError

__all__ = ["photograph", "run"]

LONG_SIDE, TARGET = 3000, 800
ROUNDS = 15
MOST_RATIO = 0.5
MOST_SECONDS = 2.0
MOST_DELTA = 3.0
MOST_GROWTH_MIB = 16.0

Work = Callable[[], bytes]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The three ways in turn, then every rung of the ladder, then the corpus twice."""
    rounds = 3 if options.quick else ROUNDS
    peers: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "photograph.jpg")
        path.write_bytes(photograph())
        ways: dict[str, Work] = {"ours": _ours(path), "looked": _ours(path, look=True), "pillow": _pillow(path)}
        try:
            ways["pyvips"] = _pyvips(path)
        except (ImportError, OSError) as error:
            peers["pyvips"] = {"error": f"{error}; pip install pyvips pyvips-binary"}
        taken = _in_turn(ways, rounds)
        size = path.stat().st_size
        ours: dict[str, Any] = {
            "photograph": {"kib": size // 1024, "bytes_a_pixel": round(size / (LONG_SIDE * LONG_SIDE * 3 // 4), 3)},
            **taken["ours"],
            "with_a_look_before": taken["looked"],
            "ladder": _ladder(path, 1 if options.quick else 3),
        }
        peers = {name: found for name, found in taken.items() if name not in {"ours", "looked"}} | peers
        corpus = _corpus(Path(scratch, "corpus"))
    ratio = taken["ours"]["cpu_ms"] / taken["pillow"]["cpu_ms"]
    looked = taken["looked"]["cpu_ms"] / taken["pillow"]["cpu_ms"]
    figures = [
        figure("3000 px to 800 px: ours, CPU", taken["ours"]["cpu_ms"], "ms"),
        figure("ours against plain Pillow, CPU", ratio, "ratio", None if options.quick else MOST_RATIO, "lower"),
        figure("ours with a look before against plain Pillow, CPU", looked, "ratio"),
        figure("ours against plain Pillow, clock", taken["ours"]["clock_ms"] / taken["pillow"]["clock_ms"], "ratio"),
    ]
    if "pyvips" in taken:
        figures += [
            figure("ours against pyvips, CPU", taken["ours"]["cpu_ms"] / taken["pyvips"]["cpu_ms"], "ratio"),
            figure("ours against pyvips, clock", taken["ours"]["clock_ms"] / taken["pyvips"]["clock_ms"], "ratio"),
        ]
    wrong = corpus["wrong"]
    figures += [
        figure("corpus: files", corpus["files"], "files", 60, "higher"),
        figure("corpus: files that are not shown or missed as they should be", len(wrong), "files", 0, "lower"),
        figure("corpus: turned pictures that stand upright", corpus["upright"], "files", corpus["turned"], "higher"),
        figure("corpus: largest difference of a colour", corpus["largest_delta"], "CIE76", MOST_DELTA, "lower"),
        figure("corpus: slowest file, CPU", corpus["slowest_cpu_seconds"], "s", MOST_SECONDS, "lower"),
        figure("corpus: slowest file, clock", corpus["slowest_clock_seconds"], "s", MOST_SECONDS, "lower"),
        figure("corpus: memory that a second pass adds", corpus["growth_mib"], "MiB", MOST_GROWTH_MIB, "lower"),
    ]
    packages = ("pillow", "pyvips", "pyvips-binary", "pillow-heif", "numpy")
    return report("images", figures, ours={**ours, "corpus": corpus}, peers=peers, packages=packages)


# ---- one photograph, three ways


def photograph(long_side: int = LONG_SIDE, seed: int = 1) -> bytes:
    """A JPEG (quality 90, colour at half size) that compresses as a photograph does, 4 to 3.

    Args:
        long_side: its width in pixels.
        seed: another seed is another picture.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    chance = np.random.default_rng(seed)
    width, height = long_side, long_side * 3 // 4
    scene = np.zeros((height, width, 3), np.float32)
    cells = 4
    while cells < width:
        # Each octave half as strong as the one below it.
        noise = chance.normal(0, 300 / cells**0.9, (max(1, cells * 3 // 4), cells)).astype(np.float32)
        octave = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
        scene += np.asarray(octave)[..., None] * chance.uniform(0.6, 1.0, 3).astype(np.float32)
        cells *= 2
    picture = Image.fromarray(np.clip(scene + 120, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture, "RGBA")
    for _ in range(120):
        x, y, radius = chance.uniform(0, width), chance.uniform(0, height), chance.exponential(width / 30)
        fill = (*(int(part) for part in chance.integers(20, 235, 3)), 170)
        shape = draw.ellipse if chance.random() < 0.5 else draw.rectangle
        shape((x - radius, y - radius / 2, x + radius, y + radius / 2), fill=fill)
    grain = chance.normal(0, 5, (height, width, 1)).astype(np.float32)
    grained = np.clip(np.asarray(picture, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(grained).save(out, "JPEG", quality=90)
    return out.getvalue()


def _ours(path: Path, look: bool = False) -> Work:
    from multimodal.pipes.encode import encode_picture, look_at_picture
    from multimodal.pipes.intake import ImageSettings
    from multimodal.pipes.ladder import WEBP, Rung

    settings, rung = ImageSettings(), Rung(WEBP, TARGET)

    def work() -> bytes:
        looked = look_at_picture(path, settings, rung) if look else None
        return encode_picture(path, settings, rung, looked).data

    return work


def _pillow(path: Path) -> Work:
    from PIL import Image

    def work() -> bytes:
        out = io.BytesIO()
        with Image.open(path) as image:
            plain = image.convert("RGB")
            size = (TARGET, TARGET * plain.height // plain.width)
            plain.resize(size, Image.Resampling.LANCZOS).save(out, "WEBP", quality=80, method=0)
        return out.getvalue()

    return work


def _pyvips(path: Path) -> Work:
    pyvips: Any = importlib.import_module("pyvips")
    pyvips.cache_set_max(0)  # or it would remember what it did a moment ago

    def work() -> bytes:
        small = pyvips.Image.thumbnail(str(path), TARGET)
        data: bytes = small.webpsave_buffer(Q=80, effort=0, keep="none")
        return data

    return work


def _in_turn(ways: dict[str, Work], rounds: int) -> dict[str, dict[str, Any]]:
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    clock: dict[str, list[float]] = {name: [] for name in ways}
    made = {name: work() for name, work in ways.items()}  # libraries are loaded by then
    for _ in range(rounds):
        for name, work in ways.items():
            began, spent = time.perf_counter(), time.process_time()
            work()
            clock[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - spent)
    return {
        name: {
            "cpu_ms": round(statistics.median(cpu[name]) * 1000, 2),
            "clock_ms": round(statistics.median(clock[name]) * 1000, 2),
            "kib": round(len(made[name]) / 1024, 1),
            "size": _size_of(made[name]),
        }
        for name in ways
    }


def _size_of(data: bytes) -> str:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return f"{image.width} x {image.height}"


def _ladder(path: Path, rounds: int) -> list[dict[str, Any]]:
    """What each rung takes of time and bytes, within its budget."""
    from multimodal.pipes.encode import encode_picture, look_at_picture
    from multimodal.pipes.intake import ImageSettings
    from multimodal.pipes.ladder import AVIF, JPEG, WEBP, Ladder

    settings, rows = ImageSettings(), []
    for rung in Ladder().every((WEBP, AVIF, JPEG)):
        look, spent, made = look_at_picture(path, settings, rung), [], 0
        for _ in range(rounds):
            began = time.process_time()
            made = len(encode_picture(path, settings, rung, look).data)
            spent.append(time.process_time() - began)
        rows.append(
            {
                "media_type": rung.media_type,
                "max_px": rung.max_px,
                "cpu_ms": round(statistics.median(spent) * 1000, 1),
                "kib": round(made / 1024, 1),
                "budget_kib": rung.budget_bytes // 1024,
            }
        )
    return rows


# ---- the corpus


def _corpus(folder: Path) -> dict[str, Any]:
    """Every odd file, twice: what became of it, how long it took, and what memory is left."""
    from multimodal.pipes.encode import Encoded, encode_picture, look_at_picture
    from multimodal.pipes.intake import ImageSettings, PictureRefused

    corpus, judge = _checkout()
    odds, settings = corpus.make(folder), ImageSettings()
    results: dict[str, Encoded | PictureRefused] = {}
    cpu: dict[str, float] = {}
    clock: dict[str, float] = {}
    resident = []
    for _ in range(2):
        for odd in odds:
            began, spent = time.perf_counter(), time.process_time()
            try:
                look = look_at_picture(folder / odd.name, settings)
                results[odd.name] = encode_picture(folder / odd.name, settings, look=look)
            except PictureRefused as refused:
                results[odd.name] = refused
            cpu[odd.name] = max(cpu.get(odd.name, 0.0), time.process_time() - spent)
            clock[odd.name] = max(clock.get(odd.name, 0.0), time.perf_counter() - began)
        gc.collect()
        resident.append(_resident_mib())
    verdicts = {odd.name: judge.judge(folder, odd, results[odd.name]) for odd in odds}
    turned = [odd.name for odd in odds if odd.turned and not odd.reason]
    slowest = sorted(cpu, key=cpu.__getitem__, reverse=True)[:5]
    missed: dict[str, int] = {}
    for odd in odds:
        missed[odd.reason] = missed.get(odd.reason, 0) + 1
    return {
        "files": len(odds),
        "shown": missed.pop("", 0),
        "missed": missed,
        "wrong": {name: verdict.wrong for name, verdict in verdicts.items() if verdict.wrong},
        "turned": len(turned),
        "upright": sum(not verdicts[name].wrong for name in turned),
        "compared_by_hand": sum(verdict.by_hand >= 0 for verdict in verdicts.values()),
        "compared_with_libvips": sum(verdict.by_vips >= 0 for verdict in verdicts.values()),
        "largest_delta": round(max(max(verdict.by_hand, verdict.by_vips) for verdict in verdicts.values()), 2),
        "slowest": {name: {"cpu_s": round(cpu[name], 3), "clock_s": round(clock[name], 3)} for name in slowest},
        "slowest_cpu_seconds": cpu[slowest[0]],
        "slowest_clock_seconds": max(clock.values()),
        "resident_mib": [round(each, 1) for each in resident],
        "growth_mib": resident[1] - resident[0],
    }


def _checkout() -> tuple[Any, Any]:
    """The makers of odd files and their judge, which are among the tests."""
    import multimodal

    root = Path(multimodal.__file__).resolve().parents[1]
    if not (root / "tests" / "pipes" / "corpus").is_dir():
        raise UsageError(
            "bench images makes its odd files with the tests' code; run it in a checkout of the repository"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return tuple(importlib.import_module(f"tests.pipes.corpus{name}") for name in ("", ".judge"))  # type: ignore[return-value]
    except ImportError as error:
        advice = "pip install -e '.[test]'"
        raise UsageError(f"bench images: the tests' code needs {error.name}; {advice}") from error


def _resident_mib() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as words:
            return int(words.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:  # not on macOS: what does not grow there was seen not to grow here
        return 0.0
