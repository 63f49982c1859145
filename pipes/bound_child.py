"""A module run in a process of its own, which ends with the process that began it, however that ends.

The parent holds one end of a pipe that the child's standard input is the other end of. The system closes it with the
parent, on every platform, and the child waits for just that.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading

__all__ = ["run_module"]


def run_module(module: str, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a module as a program, and wait for it.

    Args:
        module: its name, as `python -m` takes it.
        arguments: what it is given.
        timeout: seconds after which it is killed.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    theirs, ours = os.pipe()
    try:
        return subprocess.run(
            [sys.executable, "-m", __name__, module, *arguments],
            stdin=theirs,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    finally:
        os.close(theirs)
        os.close(ours)


def _end_with_the_parent() -> None:
    # Not by sys.stdin: a thread that waits in its buffer would hold up the interpreter's own end.
    while os.read(0, 64):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
