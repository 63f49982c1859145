"""`multimodal doctor`: is this machine fit to speak, what holds it up, and what to change. The model half.

Libraries, instructions, threads and the memory's speed; with a model, whether it fits, and where the time to its first
text goes. Every sentence is from a measurement made here and now.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from multimodal.doctor_machine import (
    LADDER,
    Instructions,
    Threads,
    measure_instructions,
    measure_threads,
    processor_name,
)
from multimodal.doctor_ttft import Trace, causes, trace_text
from multimodal.doctor_versions import Library, examine_libraries, load_order
from multimodal.errors import UsageError
from multimodal.estimate import Estimate, estimate, text_of
from multimodal.memory import memory_bandwidth
from multimodal.weights import BrokenModelError, read_shape

__all__ = ["Report", "examine", "report_text"]

WORTH = 1.1
"""A gain below this is not told: it is within what two runs of the same differ."""


class Report(msgspec.Struct, frozen=True):
    """What was found. `traces` are the first answer after loading and a later one."""

    libraries: list[Library]
    instructions: Instructions
    threads: Threads
    bandwidth: float = math.nan
    fit: Estimate | None = None
    traces: tuple[Trace, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing is broken. A slow machine is not broken."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["gains"] = [
            {"rung": rung, "piece": piece, "times": times} for rung, piece, times in self.instructions.gains()
        ]
        plain["advice"] = self.threads.advice or None
        # An empty table would look like one of no gains.
        if not self.instructions.times_us:
            plain["gains"] = plain["instructions"]["times_us"] = None
        plain["causes"] = [msgspec.to_builtins(causes(trace)) for trace in self.traces]
        plain["ok"] = self.ok
        return plain


def examine(
    model: str | Path | None = None,
    *,
    ttft: bool = False,
    prompt: str | None = None,
    quant_mode: str | None = None,
    measure: bool = True,
) -> Report:
    """Look at everything; about half a minute, as the work is done over and over in processes of their own.

    Args:
        model: a model to examine, too: as for `LocalModel.load`.
        ttft: load it and time two answers.
        prompt: what it is asked; None = a shop's short question.
        quant_mode: "int8", or None.
        measure: False = only look: no timing of instructions, threads and memory.

    Raises:
        UsageError: `ttft` without a model, or no such model.
    """
    if ttft and model is None:
        raise UsageError("ttft needs a model; name one: multimodal doctor --model FOLDER --ttft")
    libraries = examine_libraries(text_engine=model is not None)
    faults = [f"{library.fault}. {library.advice}" for library in libraries if library.fault]
    order = None if faults else load_order()
    if order is not None:
        libraries.append(order)
        faults.append(f"{order.name}: {order.fault}. {order.advice}")
    able = any(library.name == "torch" and library.version and not library.fault for library in libraries)
    bandwidth = memory_bandwidth() if measure else math.nan
    fit: Estimate | None = None
    traces: tuple[Trace, ...] = ()
    if model is not None:
        try:
            fit = estimate(read_shape(model), quant_mode=quant_mode, bandwidth=bandwidth)
        except BrokenModelError as error:
            faults.append(str(error))
        if fit is not None and not fit.fits:
            faults.append(f"{fit.name} does not fit: {max(fit.total, fit.peak):,} of {fit.memory:,} bytes")
    if ttft and not faults:
        from multimodal.doctor_answer import PROMPT, time_model

        traces = time_model(model, prompt=prompt or PROMPT, quant_mode=quant_mode)
    return Report(
        libraries,
        measure_instructions(processor_name(), measure=measure and able),
        measure_threads(measure=measure and able),
        bandwidth,
        fit,
        traces,
        tuple(faults),
    )


def report_text(report: Report) -> str:
    """For a person: what is good, what it buys, what to change; the faults last, where they are seen."""
    told = ["libraries"]
    for library in report.libraries:
        state = library.fault or library.version or "not installed"
        told.append(f"  {library.name:14}{state}" + (f"   {library.advice}" if library.advice else ""))
    told += ["processor", f"  {report.instructions.processor}", *_instructions(report.instructions)]
    told += ["threads", *_threads(report.threads)]
    speed = f"{report.bandwidth / 1e9:.1f} GB/s copied by one thread (measured here)"
    told += ["memory", "  not measured" if math.isnan(report.bandwidth) else f"  {speed}"]
    if report.fit is not None:
        told += ["model", *(f"  {line}" for line in text_of(report.fit).splitlines())]
    for name, trace in zip(("the first answer after loading", "a later answer"), report.traces, strict=False):
        told += [name, *(f"  {line}" for line in trace_text(trace).splitlines())]
    told += [f"BROKEN: {fault}" for fault in report.faults] or ["nothing is broken"]
    return "\n".join(told)


def _instructions(found: Instructions) -> list[str]:
    gains = found.gains()
    lines = []
    for name, there in found.found.items():
        worth = [f"{piece} {times:.1f}x" for rung, piece, times in gains if rung == name and times >= WORTH]
        if not there:
            note = "not found"
        elif not found.times_us:
            note = "found"
        elif name == next(iter(found.times_us)):
            note = "found; the ground that the others are measured from"
        else:
            note = f"found; beyond the line above: {', '.join(worth) if worth else 'no gain measured'}"
        lines.append(f"  {name:10}{note}")
    if found.times_us:
        low, high = (found.times_us[name] for name in (min(found.times_us, key=_rung), max(found.times_us, key=_rung)))
        whole = ", ".join(f"{piece} {low[piece] / high[piece]:.1f}x" for piece in low)
        lines.append(f"  all together over AVX2: {whole}")
    elif not found.error:
        lines.append("  what they buy: not measured")
    return [*lines, f"  {found.error}"] if found.error else lines


def _rung(name: str) -> int:
    return [rung.name for rung in LADDER].index(name)


def _threads(threads: Threads) -> list[str]:
    load = f"load {threads.load:.1f} on {threads.cores} cores"
    if not threads.measured:
        said = threads.error or "two threads beside one: not measured"
        return [f"  {load}", f"  {said}", *([f"  {threads.advice}"] if threads.advice else [])]
    busy = f"{load}; a busy thread got {threads.core_share:.0%} of one"
    gains = f"two threads beside one: token {threads.token_gain:.2f}x, prompt {threads.prompt_gain:.2f}x"
    return [f"  {busy}", f"  {gains}", f"  {threads.advice}"]
