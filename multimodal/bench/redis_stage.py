"""A real redis-server on a free loopback port, to be measured, killed, and started again with what it kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from multimodal.errors import UsageError

__all__ = ["START_LIMIT", "RedisServer"]

START_LIMIT = 20.0
"""Seconds until it answers: loading a log of some megabytes on a busy machine included."""


class RedisServer:
    """A redis-server with `appendonly yes` and `appendfsync everysec`; `with` starts and stops it.

    Args:
        folder: its data, its own; it stays when the server ends.
        options: further settings, as on its command line: `("--requirepass", "secret")`.

    Raises:
        UsageError: redis-server is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str], *options: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise UsageError(
                "redis-server is not installed; `.ci/setup dev` does it, or `apt-get install redis-server`"
            )
        self.folder = Path(folder)
        self.port = 0
        self._program, self._options = program, options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is, for a journal."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Of its process; 0 = it does not run."""
        return 0 if self._process is None else self._process.pid

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start it with what its folder holds, on the port it had, and wait until it answers.

        Raises:
            UsageError: it runs already, or does not answer within `START_LIMIT`; its last words are in the message.
        """
        if self._process is not None:
            raise UsageError("this redis-server runs already; kill or stop it first")
        self.folder.mkdir(parents=True, exist_ok=True)
        # Another process may take the port before Redis does.
        for _ in range(1 if self.port else 5):
            port = self.port or _free_port()
            if self._answers(port):
                self.port = port
                return
        raise UsageError(f"redis-server does not answer within {START_LIMIT:g} s: {self._last_words()}")

    def kill(self) -> None:
        """End it by SIGKILL: nothing is written any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_LIMIT)
            self._process = None

    def stop(self) -> None:
        """End it in order, or by force; twice is once."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(START_LIMIT)
            self.kill()

    def log_bytes(self) -> int:
        """How long its append-only file is now."""
        return self._log_file().stat().st_size

    def lose_after(self, size_bytes: int) -> None:
        """Cut its append-only file, as a machine that loses its power cuts what was not yet on the disk.

        Raises:
            UsageError: it runs.
        """
        if self._process is not None:
            raise UsageError("kill this redis-server before its file is cut")
        os.truncate(self._log_file(), size_bytes)

    def forget(self) -> None:
        """Take away all it kept.

        Raises:
            UsageError: it runs.
        """
        if self._process is not None:
            raise UsageError("kill this redis-server before its data is taken away")
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def _log_file(self) -> Path:
        # Redis 7 has a folder of them, Redis 6 one file.
        files = [*self.folder.glob("appendonlydir/*.incr.aof"), *self.folder.glob("appendonly.aof")]
        return max(files, key=lambda path: path.stat().st_mtime)

    def _answers(self, port: int) -> bool:
        settings = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(self.folder.resolve()),
            "logfile": "redis.log",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        line = [part for name, value in settings.items() for part in (f"--{name}", value)]
        process = subprocess.Popen(
            [self._program, *line, *self._options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self._process = process
        until = time.monotonic() + START_LIMIT
        while time.monotonic() < until and process.poll() is None:
            if _ping(port):
                return True
            time.sleep(0.01)
        self.kill()
        return False

    def _last_words(self) -> str:
        try:
            return (self.folder / "redis.log").read_text(errors="replace")[-500:].strip()
        except OSError:
            return "it wrote no log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _ping(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as talk:
            talk.sendall(b"PING\r\n")
            # With a password, it answers that it wants one.
            return talk.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False
