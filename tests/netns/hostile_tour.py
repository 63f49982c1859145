"""One tour over one hostile network, from within a namespace of its own; what came of it, as one line of JSON.

python -m tests.netns.hostile_tour SCENE ROLE        (see `tests.netns.hostile.alone`)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.coturn import coturn
from tests.netns.hostile import SERVER, Lab, alone, lab
from tests.netns.places import words

__all__ = ["SCENES", "Scene", "Tour", "tours"]

TURN_PORT = 3478
WORDS = 40
MIDWAY = 1.2
"""Seconds of the tour after which the network changes, where it changes in its middle."""


@dataclass(frozen=True)
class Scene:
    """A network.

    Args:
        before: what it is like from the beginning.
        midway: what happens to it while the tour is told.
        proxy: between viewer and server stands one that refuses upgrades.
        relay: "udp" or "tcp" = the viewer goes through a TURN server only, by that.
        roads: those on which the viewer should have been.
    """

    before: Callable[[Lab], None] | None = None
    midway: Callable[[Lab], None] | None = None
    proxy: bool = False
    relay: str = ""
    roads: tuple[str, ...] = ("whep",)


SCENES = {
    "relay-udp": Scene(before=lambda made: made.drop_udp(but_port=TURN_PORT), relay="udp"),
    "relay-tcp": Scene(before=Lab.drop_udp, relay="tcp"),
    "no-udp": Scene(before=Lab.drop_udp, roads=("ws",)),
    "udp-lost": Scene(midway=Lab.drop_udp, roads=("whep", "ws")),
    "no-upgrade": Scene(before=Lab.drop_udp, proxy=True, roads=("sse",)),
    "udp-lost-no-upgrade": Scene(midway=Lab.drop_udp, proxy=True, roads=("whep", "sse")),
    "small-mtu": Scene(before=lambda made: made.mtu(1280)),
}


@dataclass
class Tour:
    """What came of one: `seen` is the viewer's report, `emitted` what the server's streams gave."""

    seen: dict[str, Any]
    emitted: list[dict[str, Any]]
    allocations: int
    strangers: str

    def check(self) -> None:
        """Nothing was lost, nothing came twice, everything in order, all of one stream.

        Raises:
            AssertionError: else.
        """
        assert self.seen["seqs"] == [event["seq"] for event in self.emitted], self
        assert len({event["sid"] for event in self.emitted}) == 1, "more than one stream was told"
        assert self.seen["text"] == "".join(words(WORDS)), self
        assert self.emitted[-1]["kind"] == "end"


def tours(wanted: list[tuple[str, str]]) -> dict[tuple[str, str], Tour | str]:
    """Play (scene, role) pairs, all at the same time, each in a world of its own; a text = why it failed."""
    running = {pair: alone("tests.netns.hostile_tour", *pair, limit=100.0) for pair in wanted}
    done: dict[tuple[str, str], Tour | str] = {}
    for pair, process in running.items():
        out, err = process.communicate()
        try:
            done[pair] = Tour(**json.loads(out.splitlines()[-1]))
        except (ValueError, IndexError, TypeError):
            done[pair] = f"exit code {process.returncode}: {out[-2000:]}\n{err[-6000:]}"
    return done


def _play(scene: Scene, role: str) -> Tour:
    with ExitStack() as stack:
        made = stack.enter_context(lab())
        record = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "emitted"
        record.touch()
        relay = stack.enter_context(coturn(SERVER, enter=made.enter("server"), port=TURN_PORT)) if scene.relay else None
        words = ["--words", str(WORDS), "--record", str(record), *(["--proxy"] if scene.proxy else [])]
        server = _role(made, "server", "serve", *words)
        stack.callback(_stop, server)
        _line(server, "ready")
        if scene.before is not None:
            scene.before(made)
        viewer = _role(made, "viewer", role, *(["--relay", relay.url(scene.relay)] if relay is not None else []))
        stack.callback(_stop, viewer)
        _line(viewer, "begun")
        if scene.midway is not None:
            time.sleep(MIDWAY)
            scene.midway(made)
        out, err = viewer.communicate()
        if viewer.returncode != 0:
            raise RuntimeError(f"the viewer failed:\n{out[-2000:]}\n{err}")
        emitted = [json.loads(line) for line in record.read_text().splitlines()]
        return Tour(json.loads(out.splitlines()[-1]), emitted, relay.allocations if relay is not None else 0, err)


def _role(made: Lab, place: str, role: str, *words: str) -> subprocess.Popen[str]:
    return made.start(place, sys.executable, "-W", "error", "-m", "tests.netns.places", role, *words)


def _line(process: subprocess.Popen[str], wanted: str) -> None:
    out: IO[str] | None = process.stdout
    assert out is not None
    said = out.readline().strip()
    if said != wanted:
        rest, err = process.communicate()
        raise RuntimeError(f"{wanted!r} did not come but {said!r}:\n{rest[-2000:]}\n{err[-6000:]}")


def _stop(process: subprocess.Popen[str]) -> None:
    # Closing its standard input asks the server to end; a viewer has ended, or is of no use any more.
    killer = threading.Timer(5.0, process.kill)
    killer.start()
    try:
        if process.stdin is not None and process.poll() is None:
            process.stdin.close()
            process.stdin = None
        elif process.poll() is None:
            process.kill()
        process.communicate()
    finally:
        killer.cancel()


if __name__ == "__main__":
    found = _play(SCENES[sys.argv[1]], sys.argv[2])
    print(json.dumps(vars(found)))
