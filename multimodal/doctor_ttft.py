"""The first text's time, taken apart: where the seconds before the first visible word went, and the likely cause.

The parts are those of one answer at its consumer and add up to the whole. Causes are told by what was measured beside
them: the same answer asked again (warm), the CPU time that the engine's thread got, in how many passes the prompt was
read, and what a decoding step takes.
"""

from __future__ import annotations

import math

import msgspec

__all__ = ["PARTS", "Cause", "Trace", "causes", "trace_text"]

LONG = 200
"""Tokens from which a prompt is called long: a shop's rules and one product are below that."""
QUICK = 0.2
"""Seconds below which nothing is to be cured: half of the first text that the product aims at, 0.38 s."""

PARTS = ("load", "queue", "prefill", "first_step", "hold_back", "send")


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One answer's way to its first visible text; seconds.

    Args:
        load: reading the model and making its engine, before the answer was asked for.
        queue: handed to the engine, until the engine took it into its batch.
        prefill: from there until its prompt was read.
        first_step: from there until the first token was made.
        hold_back: from there until the token was made with which the first text became visible.
        send: from there until the consumer had that text.
        prompt_tokens, cached_tokens: of the prompt; those that a kept prefix made unnecessary to read.
        passes: forward passes in which the prompt was read; 0 = not known.
        step: seconds of a later decoding step; nan = there was none.
        warm: prefill and first step of the same question asked once more; nan = it was not.
        core_share: CPU seconds of the engine's thread over seconds in which it computed; below 1 others held its core.
        others: answers in the engine when this one was asked for.
        load_1min, cores: how busy the machine was, and its cores.
    """

    load: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    first_step: float = 0.0
    hold_back: float = 0.0
    send: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    passes: int = 0
    step: float = math.nan
    warm: float = math.nan
    core_share: float = 1.0
    others: int = 0
    load_1min: float = 0.0
    cores: int = 1

    @property
    def ttft(self) -> float:
        """From the question to the first visible text, without the model's load."""
        return self.queue + self.prefill + self.first_step + self.hold_back + self.send

    @property
    def total(self) -> float:
        """The load, too: what the first viewer after a start waits for."""
        return self.load + self.ttft


class Cause(msgspec.Struct, frozen=True):
    """Why, how many of the seconds it explains, and what to do about it."""

    name: str
    seconds: float
    why: str
    advice: str


def causes(trace: Trace) -> list[Cause]:
    """Every cause that explains a share of the seconds, the largest first; together they explain all of them. Pure."""
    work = trace.prefill + trace.first_step
    # In the order of certainty: what the second asking did not need was the cold start, what of the rest the thread
    # did not compute in was the busy machine, and of the prompt's passes each but one cost about a decoding step.
    cold = max(0.0, work - trace.warm) if not math.isnan(trace.warm) else 0.0
    rest = work - cold
    lost = 1 - min(1.0, max(0.0, trace.core_share))
    busy = rest * lost
    rest -= busy
    # Nobody was in front: what the thread needed to wake is the machine's, too.
    woken = trace.queue * lost if not trace.others else 0.0
    share = trace.prefill / work if work else 0.0
    reading, stepping = rest * share, rest * (1 - share)
    step = 0.0 if math.isnan(trace.step) else trace.step * min(1.0, trace.core_share)
    pieces = min(reading, max(0, trace.passes - 1) * step)
    read = trace.prompt_tokens - trace.cached_tokens
    found = [
        Cause(
            "cold model",
            trace.load + cold,
            f"{trace.load:.3f} s to load, {cold:.3f} s more than the same question took once warm",
            "load when the process starts, and warm up: StreamProcessor.mempool_config(warmup_samples=...)",
        ),
        Cause(
            "long prompt" if read >= LONG else "reading the prompt",
            reading - pieces,
            f"{read} tokens to read" + (f" ({trace.cached_tokens} more were kept)" if trace.cached_tokens else ""),
            "shorten it, or let requests share a prefix: what is the same for all comes first"
            if read >= LONG
            else "a smaller model, or int8",
        ),
        Cause(
            "prompt read in small pieces",
            pieces,
            f"{trace.passes} passes for {read} tokens",
            "raise the tokens of a forward pass (batch_tokens)",
        ),
        Cause(
            "busy machine",
            busy + woken,
            f"the engine's thread got {trace.core_share:.0%} of a core; load {trace.load_1min:.1f} on"
            f" {trace.cores} cores",
            "move other work away, or give the engine fewer threads than cores",
        ),
        Cause(
            "busy engine",
            trace.queue - woken,
            f"{trace.others} answers were in front",
            "raise max_rows, or run more engines",
        ),
        Cause("model step", stepping, "one forward pass, and the choice of the token", "a smaller model, or int8"),
        Cause(
            "text held back",
            trace.hold_back,
            "the first tokens gave nothing to show yet",
            "check stop sequences and chunk settings; the first chunk leaves at once by default",
        ),
        Cause("slow reader", trace.send, "made, but not taken", "keep the event loop free of blocking work"),
    ]
    return sorted((cause for cause in found if cause.seconds > 0), key=lambda cause: -cause.seconds)


def trace_text(trace: Trace) -> str:
    """The parts and the causes above 5 %, for a person."""
    parts = ", ".join(f"{name.replace('_', ' ')} {getattr(trace, name) * 1000:.1f}" for name in PARTS)
    found = causes(trace)
    likely = found[0].name if trace.total > QUICK and found else "none, it is quick"
    lines = [f"first text after {trace.ttft * 1000:.1f} ms, and {trace.load * 1000:.1f} ms of loading; in ms: {parts}"]
    lines.append(f"likely cause: {likely}")
    for cause in found:
        if cause.seconds > 0.05 * trace.total:
            share = cause.seconds / trace.total
            lines.append(f"  {share:4.0%}  {cause.name}: {cause.why}. {cause.advice[0].upper()}{cause.advice[1:]}.")
    return "\n".join(lines)
