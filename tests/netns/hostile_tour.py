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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.coturn import coturn
from tests.netns.hostile import SERVER, Lab, alone, lab
from tests.netns.places import words

__all__ = [
    "BUSY_LIMIT",
    "SCENES",
    "SWITCH_LIMIT",
    "TURN_PORT",
    "Results",
    "Scene",
    "Tour",
    "start_role",
    "stop",
    "tours",
    "until_line",
]

TURN_PORT = 3478
WORDS = 40
AT_ONCE = 2
"""Each world runs a server and a viewer or two, and figures are read off a clock."""
SWITCH_LIMIT = 6.0
"""Seconds in which a viewer has to be on its new road: four for the old one, and the rest to get there."""
BUSY_LIMIT = 9.0
"""The same where other tests run beside it; a road that does not stand is itself given up after ten."""
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
    """What came of one: `seen` is the viewer's report, `emitted` what the server's stream for it gave."""

    seen: dict[str, Any]
    emitted: list[dict[str, Any]]
    streams: int
    """Streams that the server made in all, for `viewers` viewers."""
    viewers: int
    allocations: int
    said: str

    def check(self) -> None:
        """Nothing was lost, nothing came twice, everything in order, and it was one stream from first to last.

        Raises:
            AssertionError: else.
        """
        assert self.seen["seqs"] == [event["seq"] for event in self.emitted], self
        assert self.seen["text"] == "".join(words(WORDS)), self
        assert self.emitted[-1]["kind"] == "end", self
        assert self.streams == self.viewers, "a viewer that came back was told another stream"


Results = dict[tuple[str, str], Tour | str]
"""By scene and role; a text = why it failed."""


def tours(scenes: Sequence[str], *roles: str) -> Results:
    """Play scenes, each with all these viewers at once, in a world of its own; `AT_ONCE` worlds at one time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = pool.map(lambda scene: _alone(scene, roles), scenes)
        return {pair: tour for scene, found in zip(scenes, played, strict=True) for pair, tour in found.items()}


def _alone(scene: str, roles: Sequence[str]) -> Results:
    process = alone("tests.netns.hostile_tour", scene, *roles, limit=100.0)
    out, err = process.communicate()
    try:
        return {(scene, role): Tour(**told) for role, told in json.loads(out.splitlines()[-1]).items()}
    except (ValueError, IndexError, TypeError):
        why = f"exit code {process.returncode}: {out[-2000:]}\n{err[-6000:]}"
        return {(scene, role): why for role in roles}


def _play(scene: Scene, roles: Sequence[str]) -> dict[str, Tour]:
    with ExitStack() as stack:
        made = stack.enter_context(lab())
        record = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "emitted"
        record.touch()
        relay = stack.enter_context(coturn(SERVER, enter=made.enter("server"), port=TURN_PORT)) if scene.relay else None
        given = ["--words", str(WORDS), "--record", str(record), *(["--proxy"] if scene.proxy else [])]
        server = start_role(made, "server", "serve", *given)
        stack.callback(stop, server)
        until_line(server, "ready")
        viewers: dict[str, subprocess.Popen[str]] = {}
        for role in roles:
            through = ["--relay", relay.url(scene.relay)] if relay is not None else []
            viewers[role] = start_role(made, "viewer", role, *through)
            stack.callback(stop, viewers[role])
        for viewer in viewers.values():
            until_line(viewer, "here")
        if scene.before is not None:
            scene.before(made)
        for viewer in viewers.values():
            assert viewer.stdin is not None
            viewer.stdin.write("go\n")
            viewer.stdin.flush()
        for viewer in viewers.values():
            until_line(viewer, "begun")
        if scene.midway is not None:
            time.sleep(MIDWAY)
            scene.midway(made)
        ends = {role: (viewer, *viewer.communicate()) for role, viewer in viewers.items()}
        emitted = [json.loads(line) for line in record.read_text().splitlines()]
        streams = len({event["sid"] for event in emitted})
        allocations = relay.allocations if relay is not None else 0
        found: dict[str, Tour] = {}
        for role, (viewer, out, err) in ends.items():
            if viewer.returncode != 0:
                raise RuntimeError(f"the viewer failed:\n{out[-2000:]}\n{err}")
            seen = json.loads(out.splitlines()[-1])
            own = [event for event in emitted if event["sid"] == seen["sid"]]
            found[role] = Tour(seen, own, streams, len(roles), allocations, err)
        return found


def start_role(made: Lab, place: str, role: str, *words: str) -> subprocess.Popen[str]:
    """Start a role of `tests.netns.places` on one of the machines."""
    return made.start(place, sys.executable, "-W", "error", "-m", "tests.netns.places", role, *words)


def until_line(process: subprocess.Popen[str], wanted: str) -> None:
    """Wait for the next line that a role says.

    Raises:
        RuntimeError: it said another, or ended; with all that it said.
    """
    out: IO[str] | None = process.stdout
    assert out is not None
    said = out.readline().strip()
    if said != wanted:
        rest, err = process.communicate()
        raise RuntimeError(f"{wanted!r} did not come but {said!r}:\n{rest[-2000:]}\n{err[-6000:]}")


def stop(process: subprocess.Popen[str]) -> None:
    """End a role, by asking first."""
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
    played = _play(SCENES[sys.argv[1]], sys.argv[2:])
    print(json.dumps({role: vars(tour) for role, tour in played.items()}))
