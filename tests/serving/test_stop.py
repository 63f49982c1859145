"""Ctrl-C on a server with a viewer in the middle of a tour: quiet, quick, and the viewer is told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from multimodal.errors import ChannelClosedError
from multimodal.transport.viewer import Viewer
from multimodal.transport.webrtc import WebRTCLink
from multimodal.transport.whep import join
from tests.support import run
from tests.transport.leaks import until

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def server(kind: str) -> AsyncIterator[tuple[Process, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-m", "tests.serving.stopping", kind, str(port)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        yield process, f"http://127.0.0.1:{port}/tour/whep/demo"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def joined(url: str) -> WebRTCLink:
    async with asyncio.timeout(60):
        while True:
            try:
                return (await join(url))[0]
            except ChannelClosedError:  # the server is not up yet
                await asyncio.sleep(0.1)


async def interrupted(process: Process, times: int) -> tuple[str, float]:
    """What it printed that it should not have, and how long it took to end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.05)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        printed = await process.stdout.read()
        await process.wait()
    # asyncio's debug mode reports a task that a busy machine held up.
    usual = ("Ready: ", "Executing <")
    said = [line for line in printed.decode().splitlines(True) if not line.startswith(usual)]
    return "".join(said), loop.time() - began


@pytest.mark.parametrize(("kind", "times"), [("mounted", 1), ("served", 1), ("served", 2), ("served", 4)])
def test_ctrl_c_in_the_middle_of_a_tour(kind: str, times: int) -> None:
    async def scenario() -> None:
        async with server(kind) as (process, url):
            viewer = Viewer(await joined(url))
            watching = asyncio.ensure_future(viewer.watch())
            await until(lambda: len(viewer.seen.text) > 20, 60)
            printed, seconds = await interrupted(process, times)
            assert printed == ""
            # Measured: 0.4 s; without its own end a mounted application took 5.4 s.
            assert seconds < 4.0
            assert (await watching).ended == "the server is stopping"

    run(scenario())


def test_ctrl_c_while_viewers_still_connect() -> None:
    async def scenario() -> None:
        async with server("mounted") as (process, url):
            silent = await joined(url)
            other = await joined(url)
            await asyncio.sleep(0.05)
            printed, seconds = await interrupted(process, 1)
            assert printed == ""
            assert seconds < 4.0
            await asyncio.gather(silent.aclose(), other.aclose())

    run(scenario())
