"""A machine with no interface but loopback: a namespace of its own, and the whole way through HTTP and WebRTC."""

from __future__ import annotations

import fcntl
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIOCSIFFLAGS, IFF_UP, IFF_LOOPBACK = 0x8914, 0x1, 0x8
ALONE = ["unshare", "--map-root-user", "--net"]


def _namespaces() -> bool:
    """Whether this machine lets us have a network namespace."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True, timeout=30, check=False).returncode == 0


def test_a_tour_plays_where_there_is_only_loopback() -> None:
    if not _namespaces():
        pytest.skip("no network namespaces here: needs util-linux's unshare and the right to use it")
    result = subprocess.run(
        [*ALONE, sys.executable, "-W", "error", "-m", "tests.netns.test_loopback_only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["addresses", "127.0.0.1", "words", "30", "pictures", "4", "ended", "end"]


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP | IFF_LOOPBACK)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


async def _play() -> None:
    from multimodal.serving.app import asgi
    from multimodal.transport.viewer import Viewer
    from multimodal.transport.webrtc import host_addresses
    from multimodal.transport.whep import join
    from tests.serving.test_app import make_stream, serving

    print("addresses", *host_addresses())
    async with serving(asgi(make_stream)) as served:
        link, _ = await join(f"{served.base}/tour/whep/demo")
        seen = await Viewer(link).watch()
        print("words", len(seen.text.split()), "pictures", len(seen.pictures), "ended", seen.ended)


if __name__ == "__main__":
    from tests.support import run

    _loopback_up()
    run(_play(), 30.0)
