"""`multimodal doctor --network`: what of a network keeps viewers from a tour, and the next step. The network half.

Without arguments it looks at this machine alone, and nothing leaves it. With STUN and TURN servers it asks them, with a
tour's URL it joins that tour for a few seconds, by every road that a player has.
"""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from multimodal.doctor_network_finding import Finding, broken, findings_text, skipped
from multimodal.doctor_network_formats import examine_formats, examine_versions
from multimodal.doctor_network_here import (
    check_own,
    examine_addresses,
    examine_families,
    examine_mtu,
    examine_udp,
    interfaces,
)
from multimodal.doctor_network_http import ask, examine_clock, examine_cors, examine_server, parse_place, why_not
from multimodal.doctor_network_ice import Credentials, IceUrl, parse_ice
from multimodal.doctor_network_roads import Visit
from multimodal.doctor_network_stun import compare_mappings, examine_stun
from multimodal.doctor_network_system import (
    clock_of_the_kernel,
    examine_files,
    examine_port,
    examine_proxies,
    examine_udp_ports,
)
from multimodal.doctor_network_turn import examine_turn
from multimodal.errors import UsageError

__all__ = ["NetworkReport", "examine_network", "network_text"]


class NetworkReport(msgspec.Struct, frozen=True):
    """What was found, in three groups: this machine, ICE servers, the tour's server."""

    here: list[Finding]
    ice: list[Finding] = []
    server: list[Finding] = []

    @property
    def findings(self) -> list[Finding]:
        """All of them."""
        return [*self.here, *self.ice, *self.server]

    @property
    def ok(self) -> bool:
        """Nothing is broken. A note is not broken."""
        return not any(finding.state == "broken" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**msgspec.to_builtins(self), "ok": self.ok}


async def examine_network(
    url: str | None = None,
    *,
    ice: Sequence[str] = (),
    credentials: Credentials | None = None,
    token: str = "",
    origin: str = "",
    ports: Sequence[int] = (),
    bind_addresses: Sequence[str] | None = None,
) -> NetworkReport:
    """Look at everything; three seconds without a URL, and at most half a minute with everything broken.

    Cancelling ends it; a seat that was taken in a tour is then ended by the server's own limits.

    Args:
        url: a tour, as a player has it in its `src`; it is joined for some seconds.
        ice: STUN and TURN servers, beside those that the tour's server tells its viewers of.
        credentials: for those that relay.
        token: a join token for the tour ("" = none).
        origin: of a page that is to play the tour, such as ``https://shop.example`` ("" = not looked at).
        ports: TCP ports that a server is to have.
        bind_addresses: as for `WebRTCLink`.

    Raises:
        UsageError: a URL that is none, or an address that this machine does not have.
    """
    place = None if url is None else parse_place(url)
    for one in ice:
        parse_ice(one)
    found = interfaces()
    check_own(found, bind_addresses or ())
    own = [address for addresses in found.values() for address in addresses]
    async with asyncio.TaskGroup() as group:
        here = group.create_task(asyncio.to_thread(_here, found, ports, bind_addresses))
        asked = group.create_task(_ice([(server, credentials) for server in ice], own))
    if place is None:
        return NetworkReport(here.result(), asked.result())
    visit = Visit(place, token=token, bind_addresses=bind_addresses)
    server = await _server(visit, origin)
    told = [entry for entry in visit.ice if entry[0] not in ice]
    return NetworkReport(here.result(), [*asked.result(), *await _ice(told, own)], server)


def _here(found: dict[str, list[str]], ports: Sequence[int], bind_addresses: Sequence[str] | None) -> list[Finding]:
    from multimodal.transport.webrtc import host_addresses

    offered = host_addresses() if bind_addresses is None else list(bind_addresses)
    return [
        examine_addresses(found, offered),
        *examine_families(),
        *examine_udp(dict.fromkeys([*(["127.0.0.1"] if "lo" in found else []), *offered])),
        examine_mtu(found),
        examine_udp_ports(),
        *(examine_port(port) for port in ports),
        clock_of_the_kernel(),
        examine_files(),
        *examine_proxies(),
        *examine_formats(),
        examine_versions(),
    ]


async def _ice(servers: Sequence[tuple[str, Credentials | None]], own: Sequence[str]) -> list[Finding]:
    found: list[Finding] = []
    checks: list[Coroutine[Any, Any, Finding]] = []
    stuns: list[IceUrl] = []
    for url, credentials in servers:
        try:
            server = parse_ice(url)
        except UsageError as error:
            found.append(skipped(url, str(error)))
            continue
        if server.scheme == "stun":
            stuns.append(server)
            checks.append(examine_stun(server, own))
        else:
            checks.append(examine_turn(server, credentials))
    if len(stuns) > 1:
        checks.append(compare_mappings(stuns, own))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(check) for check in checks]
    return [*found, *(task.result() for task in tasks)]


async def _server(visit: Visit, origin: str) -> list[Finding]:
    place = visit.place
    try:
        reply = await asyncio.to_thread(ask, place, "OPTIONS", place.path("whep"))
    except (OSError, http.client.HTTPException) as error:
        return [broken("server", f"OPTIONS {place.url('whep')}", *why_not(error, place))]
    found = [examine_server(reply, place), examine_clock(reply)]
    if found[0].state == "broken":
        return found
    found.append(await _cors(visit, origin))
    # Of a page that may not play the tour every road would be refused, and of the roads nothing would be known.
    visit.origin = origin if found[-1].state == "good" else ""
    # One after the other: a seat has one connection at a time, and the newer takes it over.
    try:
        found.append(await visit.webrtc())
        found.append(await visit.websocket())
        found.append(await visit.sse())
    finally:
        await visit.leave()
    return found


async def _cors(visit: Visit, origin: str) -> Finding:
    if not origin:
        return skipped("CORS", "no page was named", "give --origin https://SHOP, where pages come from another host")
    try:
        return await asyncio.to_thread(examine_cors, visit.place, origin)
    except (OSError, http.client.HTTPException) as error:
        return broken("CORS", f"OPTIONS {visit.place.url('whep')}", *why_not(error, visit.place))


def network_text(report: NetworkReport) -> str:
    """For a person: every finding, and what is broken again in the last lines, where it is seen."""
    told: list[str] = []
    for title, findings in (("this machine", report.here), ("STUN and TURN", report.ice), ("server", report.server)):
        if findings:
            told += [title, *findings_text(findings)]
    return "\n".join([*told, *_faults(report.findings)])


def _faults(findings: Iterable[Finding]) -> list[str]:
    faults = [f"BROKEN: {f.name}: {f.came}. Next: {f.advice}" for f in findings if f.state == "broken"]
    return faults or ["nothing is broken"]
