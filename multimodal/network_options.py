"""The options of `multimodal doctor --network`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from multimodal.errors import UsageError

__all__ = ["add_network", "check_network", "run_network"]

_NAMES = ("url", "ice", "turn_secret_env", "turn_user", "turn_password_env", "join_token_env", "origin", "port", "bind")


def add_network(doctor: Any) -> None:
    """Add the options to the parser of `doctor`."""
    network = doctor.add_argument_group(
        "the network", "Passwords and tokens are named by the environment variable that holds them."
    )
    network.add_argument(
        "--network", action="store_true", help="examine the network instead; alone it looks at this machine only"
    )
    network.add_argument("--url", metavar="http://…/whep/TOUR", help="join this tour for a few seconds, by every road")
    network.add_argument(
        "--ice",
        action="append",
        metavar="stun:HOST|turn:HOST",
        help="ask this server, as a connection does; repeatable",
    )
    network.add_argument("--turn-secret-env", metavar="NAME", help="the secret shared with TURN servers (REST form)")
    network.add_argument("--turn-user", metavar="USER", help="a TURN user with a password of its own")
    network.add_argument("--turn-password-env", metavar="NAME", help="the password of --turn-user")
    network.add_argument("--join-token-env", metavar="NAME", help="a join token for --url, good for one viewer")
    network.add_argument("--origin", metavar="https://SHOP", help="may a page of this origin play --url")
    network.add_argument("--port", type=int, action="append", metavar="N", help="is this TCP port free; repeatable")
    network.add_argument("--bind", action="append", metavar="ADDRESS", help="offer this address only; repeatable")


def run_network(options: argparse.Namespace, port: int) -> int:
    """Run it, print what was found; 1 = something is broken.

    Args:
        options: of the command.
        port: what a tour's server takes where nothing else is said.

    Raises:
        UsageError: options that do not fit.
    """
    from multimodal.doctor_network import examine_network, network_text

    for number in options.port or ():
        if not 0 <= number <= 65535:
            raise UsageError(f"--port {number} is no port; give 1 to 65535, or 0 for any free one")
    for address in options.bind or ():
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise UsageError(f"--bind {address} is no IP address; give one of this machine's") from None
    report = asyncio.run(
        examine_network(
            options.url,
            ice=options.ice or (),
            credentials=_credentials(options, os.environ),
            token=_variable(options.join_token_env, "--join-token-env", os.environ),
            origin=options.origin or "",
            ports=tuple(options.port or (port, 8080)),
            bind_addresses=options.bind,
        )
    )
    print(json.dumps(report.as_dict()) if options.json else network_text(report))
    return 0 if report.ok else 1


def check_network(options: argparse.Namespace) -> None:
    """That options are given for one half only.

    Raises:
        UsageError: they are not.
    """
    given = [f"--{name.replace('_', '-')}" for name in _NAMES if getattr(options, name) is not None]
    if options.network and (options.model is not None or options.ttft or options.no_measure):
        raise UsageError("--network is one half and --model, --ttft, --no-measure are the other; run it twice")
    if given and not options.network:
        raise UsageError(f"{', '.join(given)}: of the network; add --network")
    for name in ("origin", "join_token_env"):
        if getattr(options, name) is not None and options.url is None:
            raise UsageError(f"--{name.replace('_', '-')} is about a server; name it with --url")


def _credentials(options: argparse.Namespace, environment: Mapping[str, str]) -> Any:
    from multimodal.doctor_network_ice import Credentials, shared_secret

    if options.turn_secret_env is not None:
        if options.turn_user is not None or options.turn_password_env is not None:
            raise UsageError("--turn-secret-env makes user and password; leave --turn-user and --turn-password-env out")
        secret = _variable(options.turn_secret_env, "--turn-secret-env", environment)
        return shared_secret(secret, now=time.time())
    if (options.turn_user is None) != (options.turn_password_env is None):
        raise UsageError("--turn-user and --turn-password-env belong together")
    if options.turn_user is None:
        return None
    return Credentials(options.turn_user, _variable(options.turn_password_env, "--turn-password-env", environment))


def _variable(name: str | None, option: str, environment: Mapping[str, str]) -> str:
    if name is None:
        return ""
    value = environment.get(name, "")
    if not value:
        raise UsageError(f"{option} {name[:80]}: there is no such environment variable; give its name, not its value")
    return value
