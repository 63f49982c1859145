"""Networks that do harm, out of namespaces: a viewer's machine, a router, a server's machine, and what happens between.

    viewer 10.77.1.2 -- router 10.77.1.1 | 10.77.2.1 -- server 10.77.2.2

Everything lives in a namespace of its own (`alone`), so that the machine's own network is never touched. UDP is dropped
by a rule of the router's routing, silently, as a firewall drops it; no packet filter is needed for that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "SERVER", "VIEWER", "Lab", "alone", "cannot", "lab"]

ROOT = Path(__file__).parents[2]
VIEWER, SERVER = "10.77.1.2", "10.77.2.2"
_ROUTER = {"viewer": "10.77.1.1", "server": "10.77.2.1"}
_ALONE = ["unshare", "--map-root-user", "--net"]
_LIMIT = 10.0


def cannot() -> str:
    """Why there can be no such network here; "" = there can."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"no {program} here: it is in util-linux or iproute2"
    made = ["sh", "-c", "ip link add name a type veth peer name b && ip rule add pref 10 ipproto udp blackhole"]
    tried = subprocess.run([*_ALONE, *made], capture_output=True, text=True, timeout=_LIMIT, check=False)
    return "" if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()[:200]}"


def alone(module: str, *arguments: str, limit: float = 120.0) -> subprocess.Popen[str]:
    """Start a module of ours as root of a namespace that has no network yet; it reports on stdout.

    Args:
        module: such as ``tests.netns.hostile_tour``.
        arguments: its own.
        limit: seconds after which the kernel ends it, whatever it does.
    """
    command = ["timeout", "--kill-after=5", str(limit), *_ALONE, sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass
class Lab:
    """Three machines. `places` are the processes that hold the viewer's and the server's network."""

    places: dict[str, subprocess.Popen[bytes]]

    def enter(self, place: str) -> list[str]:
        """Words that run what follows them on that machine."""
        return ["nsenter", f"--net=/proc/{self.places[place].pid}/ns/net"]

    def start(self, place: str, *words: str) -> subprocess.Popen[str]:
        """Start a program on one of the machines."""
        return subprocess.Popen(
            [*self.enter(place), *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def drop_udp(self, but_port: int | None = None) -> None:
        """From now on no UDP passes the router, in either direction, but to and from one port of either side."""
        for end in ("sport", "dport") if but_port is not None else ():
            _ip("rule", "add", "pref", "9", "ipproto", "udp", end, str(but_port), "lookup", "main")
        _ip("rule", "add", "pref", "10", "ipproto", "udp", "blackhole")

    def pass_udp(self) -> None:
        """It passes again."""
        _ip("rule", "del", "pref", "10")

    def cut(self) -> None:
        """Nothing passes the router."""
        _ip("link", "set", "viewer", "down")

    def join(self) -> None:
        """Everything passes again."""
        _ip("link", "set", "viewer", "up")

    def mtu(self, size: int) -> None:
        """The server's network carries packets of at most so many bytes; the viewer's side does not know."""
        _ip("link", "set", "server", "mtu", str(size))
        _ip("link", "set", "eth0", "mtu", str(size), enter=self.enter("server"))


@contextmanager
def lab() -> Iterator[Lab]:
    """The three machines; this process is the router, and has to be in a namespace of its own already.

    Raises:
        CalledProcessError: the kernel refused; its output says what.
    """
    _ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    with ExitStack() as stack:
        places = {name: stack.enter_context(_place()) for name in ("viewer", "server")}
        made = Lab(places)
        for name, address in (("viewer", VIEWER), ("server", SERVER)):
            enter = made.enter(name)
            _ip("link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", str(places[name].pid))
            _ip("addr", "add", f"{_ROUTER[name]}/24", "dev", name)
            _ip("link", "set", name, "up")
            _ip("link", "set", "lo", "up", enter=enter)
            _ip("addr", "add", f"{address}/24", "dev", "eth0", enter=enter)
            _ip("link", "set", "eth0", "up", enter=enter)
            _ip("route", "add", "default", "via", _ROUTER[name], enter=enter)
        yield made


@contextmanager
def _place() -> Iterator[subprocess.Popen[bytes]]:
    # Its standard input ends when this process does, and then it ends, too.
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        own, limit = Path("/proc/self/ns/net").readlink(), time.monotonic() + _LIMIT
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            if holder.poll() is not None or time.monotonic() > limit:
                raise RuntimeError("a further network namespace could not be made")
            time.sleep(0.01)
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def _ip(*words: str, enter: Sequence[str] = ()) -> None:
    done = subprocess.run([*enter, "ip", *words], capture_output=True, text=True, timeout=_LIMIT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
