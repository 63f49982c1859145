"""Cost of a whole in-process stream, pipes and event loop included: CPU microseconds per token, beside pipecat's.

The script is the same for both: words, with a picture on every third boundary, counted and checked where they come
out. pipecat plays it in its SyncParallelPipeline, in a process and an environment of its own that `make live` sets up
(`multimodal.bench.pipecat_peer`); ours and its rounds take turns, so that a busy moment of the machine hits both.
Both ways of coming are judged: one by one, where a turn of the event loop per token is most of what ours costs, and the
whole script there from the beginning. `--quick` is a look at ours alone: it has no peer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from multimodal.bench.report import Figure, figure, report
from multimodal.errors import UsageError
from multimodal.events import Reveal, Text
from multimodal.stream import MultiModalStream
from multimodal.values import Cue, EncodedImage

ROUNDS = 5
PICTURES = 50
COUNT = 20_000
PEER_COUNT = 4_000
"""Tokens of the script that both play: pipecat takes a second or two for them."""
WAYS = {"one by one": True, "in bursts": False}
"""One token per turn of the event loop (as a live model gives them), or all at once."""
PEER_PYTHON = Path(__file__).parents[2] / ".venv-live" / "pipecat" / "bin" / "python"

Costs = dict[str, list[float]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Half a minute to a minute, most of it pipecat's; `--quick` a few seconds, without pipecat."""
    rounds, count = (2, 4_000) if options.quick else (ROUNDS, COUNT)
    cost: Costs = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, values in cost.items():
            values.append(asyncio.run(_microseconds_per_token(count, WAYS[name])))
    spread = _spread(cost)
    figures = [figure(f"CPU per token, {name}", spread[name]["median"], "us", 25.0, "lower") for name in WAYS]
    ours: dict[str, Any] = {"us_per_token": spread, "tokens": count, "cue_every": 3, "rounds": rounds}
    peers: dict[str, dict[str, Any]] = {}
    if not options.quick:
        beside, peers["pipecat"], ratios = _beside_pipecat(PEER_PYTHON)
        ours["us_per_token_beside_pipecat"] = beside
        figures += ratios
    return report("stream", figures, ours=ours, peers=peers)


def _beside_pipecat(python: Path) -> tuple[dict[str, Any], dict[str, Any], list[Figure]]:
    """Ours, pipecat's, and the figures; a peer that could not run is named with the reason."""
    ours: Costs = {name: [] for name in WAYS}
    theirs: Costs = {name: [] for name in WAYS}
    peer: dict[str, Any] = {"tokens": PEER_COUNT, "rounds": ROUNDS}
    try:
        with Pipecat(python) as pipecat:
            peer["version"] = pipecat.version
            for _ in range(ROUNDS):
                for name, one_by_one in WAYS.items():
                    ours[name].append(asyncio.run(_microseconds_per_token(PEER_COUNT, one_by_one)))
                    theirs[name].append(pipecat.microseconds_per_token(PEER_COUNT, one_by_one))
    except UsageError as error:
        print(f"stream: {error}", file=sys.stderr)
        return {}, {"error": str(error)}, [_ratio(name, [], []) for name in WAYS]
    peer["us_per_token"] = _spread(theirs)
    return _spread(ours), peer, [_ratio(name, ours[name], theirs[name]) for name in WAYS]


def _ratio(name: str, ours: list[float], theirs: list[float]) -> Figure:
    value = statistics.median(theirs) / statistics.median(ours) if ours else float("nan")
    return figure(f"ours against pipecat, {name}: tokens per CPU second", value, "ratio", 20.0, "higher")


def _spread(cost: Costs) -> dict[str, dict[str, float]]:
    return {
        name: {"min": min(values), "median": statistics.median(values), "max": max(values)}
        for name, values in cost.items()
    }


class Pipecat:
    """pipecat in its own process, for as long as the block runs.

    Args:
        python: the interpreter of an environment that has it.

    Raises:
        UsageError: there is none, or it does not start or ends on the way; with its last words.
    """

    def __init__(self, python: Path) -> None:
        if not python.is_file():
            raise UsageError(f"there is no pipecat at {python}: run `make live` in a checkout, then this again")
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("pipecat_peer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.version: str = self._answer()["version"]
        except UsageError:
            self.__exit__()
            raise

    def __enter__(self) -> Pipecat:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def microseconds_per_token(self, count: int, one_by_one: bool) -> float:
        """Play the script once.

        Raises:
            UsageError: the process ended, or not everything came out.
        """
        assert self._process.stdin is not None
        try:
            print(json.dumps([count, one_by_one]), file=self._process.stdin, flush=True)
        except OSError as error:
            raise UsageError("pipecat's process has ended; what it printed on stderr says why") from error
        answer = self._answer()
        if (answer["tokens"], answer["pictures"]) != (count, len(range(0, count, 3))):
            raise UsageError(f"of {count} tokens and their pictures, pipecat gave {answer}")
        return float(answer["cpu_s"] / count * 1e6)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UsageError("pipecat's process has ended; what it printed on stderr says why")
        answer: dict[str, Any] = json.loads(line)
        return answer


async def _microseconds_per_token(count: int, one_by_one: bool) -> float:
    async def text() -> AsyncIterator[str]:
        for _ in range(count):
            if one_by_one:
                await asyncio.sleep(0)
            yield "word "

    async def images() -> AsyncIterator[EncodedImage]:
        for i in range(PICTURES):
            yield EncodedImage(f"k{i}", b"x", "image/webp", 4, 3)

    cues = [Cue(i, f"k{i // 3 % PICTURES}") for i in range(0, count, 3)]
    words, shown = 0, list[int]()
    began = time.process_time()
    async with MultiModalStream(text(), images(), 3, cues=cues) as stream:
        async for event in stream:
            if isinstance(event, Text):
                words += event.token_count
            elif isinstance(event, Reveal):
                shown.append(words)
    spent = time.process_time() - began
    if (words, shown) != (count, [cue.anchor for cue in cues]):
        raise AssertionError(f"the stream gave {words} of {count} tokens and {len(shown)} pictures, or not in step")
    return spent / count * 1e6
