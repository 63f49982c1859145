"""What an answer on one of the roads means, and what to do about it. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from multimodal.doctor_network_finding import Finding, broken, good, note
from multimodal.doctor_network_here import kind_of
from multimodal.doctor_network_http import Reply

__all__ = ["HELD_BACK", "LISTEN", "judge_pongs", "judge_sse", "no_udp", "offered", "refusal_advice", "upgrade_advice"]

LISTEN = 3.6
"""Seconds of server-sent events: the server pings every second, so three come, and silence is no accident."""
HELD_BACK = 0.5
"""Seconds by which messages may be late against each other; a proxy that collects them makes it seconds."""
PACE = 0.1
"""A second on the server may be so much longer or shorter than one here: less is the load of either side."""
_CANDIDATE = re.compile(r"^a=candidate:(?:\S+ ){4}(\S+) \d+ typ ", re.MULTILINE)
_PINGS = 2


def offered(answer: str) -> str:
    """The addresses in an answer, for people."""
    return "the server offers " + (", ".join(dict.fromkeys(_CANDIDATE.findall(answer))) or "no address")


def no_udp(answer: str) -> str:
    """The next step where an answer came and no connection.

    Args:
        answer: the server's SDP.
    """
    kinds = {kind_of(host) for host in _CANDIDATE.findall(answer) if _is_address(host)}
    if kinds <= {"loopback"}:
        advice = "the server knows only its loopback address: start it with bind_addresses, or behind a TURN server"
    elif "public" not in kinds:
        advice = (
            "UDP is dropped on the way, or the server's private addresses are not of this network: let UDP in, or give"
            " it a TURN server (ice_servers)"
        )
    else:
        advice = "UDP is dropped on the way: let the server's UDP ports in, or offer a TURN server over TCP"
    return f"{advice}; until then players go by WebSocket after 4 s"


def refusal_advice(status: int, token: bool) -> str:
    """The next step after an error.

    Args:
        status: of HTTP.
        token: whether a join token was sent.
    """
    if status in {401, 403} and not token:
        return "it wants a join token: put one into a variable and give --join-token-env NAME"
    if status in {401, 403}:
        return "make a new token for this tour: each is for one viewer, and not for long"
    if status == 404:
        return "check the tour's name; a server before this version has WebRTC only"
    if status in {429, 503}:
        return "it is full, or was asked too often: wait as long as it says (Retry-After)"
    if status in {413, 502, 504} or status < 400:
        return "a proxy stands between: let it pass this path on as it is, with its method and body"
    return "look into the server's log"


def upgrade_advice(status: int, token: bool, code: str = "") -> str:
    """As `refusal_advice`, where an upgrade was refused; 0 = no answer.

    Args:
        status, token: as there.
        code: the server's own word; without one a 404 means that it was asked for a page, and for no upgrade.
    """
    if status in {401, 403, 429, 503} or code.startswith("no_such"):
        return refusal_advice(status, token)
    return (
        "a proxy between does not pass upgrades on (nginx: proxy_http_version 1.1; proxy_set_header Upgrade"
        " $http_upgrade; proxy_set_header Connection upgrade); until then players go by SSE"
    )


def judge_pongs(name: str, tried: str, opened: float, pongs: Sequence[tuple[float, float, float]]) -> Finding:
    """What pings on a road show.

    Args:
        name, tried: of the finding.
        opened: seconds until the road stood.
        pongs: when each ping left and its pong came (seconds), and the server's clock in it (milliseconds).
    """
    quickest = min(back - sent for sent, back, _ in pongs)
    came = f"open after {opened * 1000:.0f} ms, the quicker pong {quickest * 1000:.0f} ms after its ping"
    here = pongs[-1][0] + pongs[-1][1] - pongs[0][0] - pongs[0][1]
    there = 2 * (pongs[-1][2] - pongs[0][2]) / 1000
    unsure = sum(back - sent for sent, back, _ in (pongs[0], pongs[-1])) / 2
    if here > 0 and abs(there - here) / 2 > PACE * here / 2 + unsure:
        came += f"; a second here is {there / here:.2f} s there"
        return note(
            name, tried, came, "the server's machine stands still at times, or its clock does: look at its load"
        )
    return good(name, tried, came)


def judge_sse(name: str, tried: str, reply: Reply | None, pings: Sequence[tuple[float, float]]) -> Finding:
    """Whether a stream was passed on as it came.

    Args:
        name, tried: of the finding.
        reply: with the headers; None = not even they came.
        pings: when each came (seconds), and when the server sent it (milliseconds, on its own clock).
    """
    advice = (
        "a proxy collects the stream: turn its buffering and compression off for it (nginx: proxy_buffering off;"
        " gzip off), or let X-Accel-Buffering: no through"
    )
    if reply is None:
        return broken(name, tried, "not even the headers came: something holds the answer back until it ends", advice)
    kind = reply.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        return broken(
            name, tried, f"what came is {kind or 'of no type'}", "is this the path of a tour? does a proxy answer?"
        )
    if len(pings) < _PINGS:
        came = f"{len(pings)} of {int(LISTEN)} pings came: something holds the stream back"
        return broken(name, tried, came, advice)
    late = [at - sent / 1000 for at, sent in pings]
    spread = max(late) - min(late)
    packed = reply.headers.get("content-encoding", "")
    if spread > HELD_BACK:
        came = f"messages came up to {spread:.1f} s later than others{f', packed as {packed}' if packed else ''}"
        return broken(name, tried, came, advice)
    if packed:
        came = f"they come as they are sent, but packed as {packed}"
        return note(name, tried, came, "compression may hold single messages back: turn it off for text/event-stream")
    return good(name, tried, f"{len(pings)} pings came as they were sent, within {spread * 1000:.0f} ms of each other")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
