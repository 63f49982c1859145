"""The machine half of `multimodal doctor`: instructions and what they buy, threads, the memory's speed."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from multimodal.errors import PipeError

__all__ = ["LADDER", "Instructions", "Rung", "Threads", "found_instructions", "measure_instructions", "measure_threads"]

_TIMEOUT = 120.0
GAIN = 1.2
"""Two threads that are not so many times as fast as one cost more than they give to whoever shares the machine."""


class Rung(msgspec.Struct, frozen=True):
    """A step of the ladder: instructions, the flags of /proc/cpuinfo that say so, and how torch is held to them."""

    name: str
    flags: tuple[str, ...]
    environment: Mapping[str, str]
    good_for: str


def _held(aten: str, onednn: str) -> dict[str, str]:
    # MKL has a cap, too, which it obeys on Intel processors only.
    mkl = {"avx2": "AVX2", "avx512": "AVX512"}[aten]
    return {"ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": onednn, "MKL_ENABLE_INSTRUCTIONS": mkl}


LADDER = (
    Rung("AVX2", ("avx2", "fma"), _held("avx2", "AVX2"), "everything; without it torch is several times slower"),
    Rung(
        "AVX-512",
        ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
        _held("avx512", "AVX512_CORE"),
        "activations, int8 tokens",
    ),
    Rung("VNNI", ("avx512_vnni",), _held("avx512", "AVX512_CORE_VNNI"), "int8 prompts"),
    Rung("BF16", ("avx512_bf16",), _held("avx512", "AVX512_CORE_BF16"), "bfloat16 prompts"),
    Rung("AMX", ("amx_tile", "amx_int8", "amx_bf16"), _held("avx512", "AVX512_CORE_AMX"), "int8 and bfloat16 prompts"),
)


class Instructions(msgspec.Struct, frozen=True):
    """What was found, and what each rung of the ladder took.

    Args:
        processor: its name.
        found: rung -> whether the processor has it.
        times_us: rung -> piece of work -> microseconds, torch held to that rung and those below.
        error: why nothing was measured ("" = it was, or was not asked for).
    """

    processor: str
    found: dict[str, bool]
    times_us: dict[str, dict[str, float]] = {}
    error: str = ""

    def gains(self) -> list[tuple[str, str, float]]:
        """(rung, piece, how many times as fast as on the rung below) for every rung but the first."""
        names = list(self.times_us)
        return [
            (upper, piece, self.times_us[lower][piece] / self.times_us[upper][piece])
            for lower, upper in pairwise(names)
            for piece in self.times_us[upper]
        ]


class Threads(msgspec.Struct, frozen=True):
    """One thread beside two, on this machine as busy as it is.

    Args:
        cores: that this process may use.
        load: runnable tasks of the machine, mean of the last minute.
        core_share: what one busy thread got of its core; below 1 others were in the way. nan = not measured.
        token_gain, prompt_gain: how many times as fast two threads were as one; nan = not measured.
        error: why nothing was measured.
    """

    cores: int
    load: float
    core_share: float = math.nan
    token_gain: float = math.nan
    prompt_gain: float = math.nan
    error: str = ""

    @property
    def measured(self) -> bool:
        """The figures are of measurements."""
        return not math.isnan(self.prompt_gain)

    @property
    def advice(self) -> str:
        """What to do ("" = nothing was measured that would tell)."""
        if self.cores == 1:
            return "one core: one thread"
        if not self.measured:
            return ""
        if self.prompt_gain < GAIN:
            return f"run with one thread (OMP_NUM_THREADS=1): two are {self.prompt_gain:.2f} times as fast at a prompt"
        return f"two threads pay here ({self.prompt_gain:.2f} times as fast at a prompt) while the machine is no busier"


def found_instructions(cpuinfo: str | None = None) -> dict[str, bool]:
    """Rung -> whether the processor has its instructions; all False where there is no telling (not Linux, not x86).

    Args:
        cpuinfo: the text of /proc/cpuinfo; None = read it.
    """
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    line = next((line for line in cpuinfo.splitlines() if line.startswith(("flags", "Features"))), "")
    flags = set(line.partition(":")[2].split())
    return {rung.name: flags.issuperset(rung.flags) for rung in LADDER}


def measure_instructions(processor: str, *, measure: bool = True) -> Instructions:
    """Run the same pieces of work with torch held to each rung that the processor has, one process a rung."""
    found = found_instructions()
    times: dict[str, dict[str, float]] = {}
    if not measure:
        return Instructions(processor, found)
    try:
        # Twice, one rung after the other, and the better counts: what else the machine does comes and goes.
        for rung in (rung for _ in range(2) for rung in LADDER if found[rung.name]):
            before = times.get(rung.name, {})
            result = {name: value for name, value in _probe(rung.environment).items() if isinstance(value, float)}
            times[rung.name] = {name: min(value, before.get(name, value)) for name, value in result.items()}
    except PipeError as error:
        return Instructions(processor, found, {}, str(error))
    return Instructions(processor, found, times)


def measure_threads(*, measure: bool = True) -> Threads:
    """Time one thread beside two, or beside as many as there are cores, if that is fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if not measure:
        return Threads(cores, load)
    numbers = [1, min(2, cores)]
    try:
        found = _probe({}, *map(str, numbers))
    except PipeError as error:
        return Threads(cores, load, error=str(error))
    token, prompt = found["token"], found["prompt"]
    return Threads(cores, load, found["core_share"], token[0] / token[1], prompt[0] / prompt[1])


def processor_name() -> str:
    """As /proc/cpuinfo calls it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _probe(environment: Mapping[str, str], *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "multimodal.doctor_probe", *words]
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, env={**free, **environment}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipeError(f"cannot measure: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PipeError(f"cannot measure: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
