"""What a server needs of this machine beside its network: ports, a clock, open files. Only looks."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from multimodal.doctor_network_finding import Finding, broken, good, note, skipped

__all__ = ["clock_of_the_kernel", "examine_files", "examine_port", "examine_proxies", "examine_udp_ports"]

_FILES_WANTED = 1024
"""Open files that 64 viewers need, with a socket each for some ten addresses, and room for what makes the text."""
_NOT_SYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2)."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def examine_port(port: int) -> Finding:
    """Whether a server can have this TCP port on loopback, and who has it otherwise."""
    name, tried = f"port {port}", f"bound 127.0.0.1:{port}, as a server would"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                holder = _holder(port)
                came = f"taken{f' by {holder}' if holder else ''}"
                return note(name, tried, came, "end that program, or choose another port with --port")
            came = f"refused: {error.strerror or error}"
            return note(name, tried, came, "ports below 1024 need a right of their own; choose another with --port")
    return good(name, tried, "free")


def _holder(port: int) -> str:
    """The program that listens on a port, where the kernel lets us see it."""
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for entry in folder.iterdir():
                if os.readlink(entry) in inodes:
                    return f"{(folder.parent / 'comm').read_text().strip()} (process {folder.parent.name})"
    return ""


def examine_udp_ports() -> Finding:
    """The UDP ports that connections use, for whoever keeps the firewall."""
    tried = "read net.ipv4.ip_local_port_range: connections take any free port of it"
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return skipped("UDP ports", "this system does not tell which ports it gives")
    advice = f"a firewall in front of this machine has to let UDP in on {low}-{high}, or viewers need TURN"
    return good("UDP ports", tried, f"{low}-{high}", advice)


def clock_of_the_kernel() -> Finding:
    """Whether a time service steers this machine's clock."""
    tried = "asked the kernel whether its clock is steered (adjtimex; nothing was set)"
    now = time.time()
    if now < 1.7e9:
        came = f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}, which is past"
        return broken("clock", tried, came, "set it: every join token and every certificate would be refused")
    try:
        # modes = 0 in the first field: only read. The rest of the struct is smaller than this on every Linux.
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(1024))
    except (OSError, AttributeError):
        return skipped("clock", "this system does not tell whether its clock is steered")
    if state == _NOT_SYNCHRONISED:
        advice = "start chrony or systemd-timesyncd: join tokens and TURN passwords carry times; --url compares clocks"
        return note("clock", tried, "no time service steers it, so it may drift", advice)
    if state < 0:
        return skipped("clock", "the kernel did not say whether its clock is steered")
    return good("clock", tried, "a time service steers it")


def examine_files() -> Finding:
    """How many sockets a server may have open."""
    tried = "read the limit of open files (RLIMIT_NOFILE)"
    try:
        import resource
    except ImportError:
        return skipped("open files", "this system has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES_WANTED:
        came = f"{soft}: every viewer takes a socket for each address"
        return note("open files", tried, came, f"ulimit -n {_FILES_WANTED} (this shell may go up to {hard})")
    return good("open files", tried, "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,}")


def examine_proxies(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """A proxy that programs of this shell are told to use, without its password; nothing where there is none."""
    named = sorted({name.lower() for name, value in environment.items() if value and name.lower() in _PROXIES})
    if not named:
        return []
    came = f"{', '.join(named)} set: browsers may go through a proxy that this command does not use"
    advice = "compare: run it again on a machine that reaches the server without the proxy"
    return [note("proxy", "looked for proxies in the environment", came, advice)]
