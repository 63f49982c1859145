"""STUN and TURN servers as configurations name them, and the credentials that expire."""

from __future__ import annotations

import asyncio
import re
import socket

import msgspec

from multimodal.errors import UsageError
from multimodal.serving.turn import turn_credentials

__all__ = [
    "CREDENTIAL_LIFETIME",
    "NAME_LIMIT",
    "Credentials",
    "IceUrl",
    "addresses_of",
    "parse_ice",
    "shared_secret",
    "told",
]

NAME_LIMIT = 5.0
"""Seconds that a name server has."""
CREDENTIAL_LIFETIME = 600.0
"""Seconds for which the credentials of this check are good: longer than it takes, shorter than is worth stealing."""

_FORM = re.compile(
    r"(?P<scheme>stun|turns?):(?P<host>[^?:\[\]/@]+)(?::(?P<port>\d{1,5}))?(?:\?transport=(?P<transport>udp|tcp))?"
)
_LINK = re.compile(r'<([^<>\s]+)>((?:\s*;\s*[\w-]+="[^"]*")*)')
_PARAMETER = re.compile(r'([\w-]+)="([^"]*)"')


class Credentials(msgspec.Struct, frozen=True):
    """What a TURN server asks for; `expires` is 0 where it does not."""

    user: str
    password: str
    expires: float = 0.0

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


class IceUrl(msgspec.Struct, frozen=True):
    """A STUN or TURN server as configurations name it (RFC 7064, 7065)."""

    url: str
    scheme: str
    host: str
    port: int
    transport: str


def parse_ice(url: str) -> IceUrl:
    """Read one URL, in the forms that both aiortc and browsers take.

    Raises:
        UsageError: it is none.
    """
    match = _FORM.fullmatch(url)
    if match is None or (match["scheme"] == "turns" and match["transport"] == "udp"):
        raise UsageError(
            f"{url!r} names no ICE server; write stun:HOST[:PORT], turn:HOST[:PORT][?transport=tcp] or"
            " turns:HOST[:PORT] (a name or an IPv4 address: aiortc takes no other)"
        )
    if match["scheme"] == "stun" and match["transport"]:
        raise UsageError(f"{url!r}: a stun: URL has no transport; leave ?transport= out")
    secure = match["scheme"] == "turns"
    port = int(match["port"] or (5349 if secure else 3478))
    if not 0 < port < 65536:
        raise UsageError(f"{url!r}: {port} is no port; give 1 to 65535")
    return IceUrl(url, match["scheme"], match["host"], port, match["transport"] or ("tcp" if secure else "udp"))


def shared_secret(secret: str, *, now: float) -> Credentials:
    """Credentials made of a secret that the server has, too; good for `CREDENTIAL_LIFETIME`.

    Args:
        secret: coturn's `static-auth-secret`.
        now: seconds since 1970.
    """
    made = turn_credentials(secret, user="doctor", ttl=CREDENTIAL_LIFETIME, now=now)
    return Credentials(made.username, made.password, now + CREDENTIAL_LIFETIME)


def told(header: str) -> list[tuple[str, Credentials | None]]:
    """The ICE servers in the `Link` headers of an answer to an offer (RFC 9725, 4.6), with what they ask for.

    Args:
        header: all of them, joined by commas.
    """
    found: list[tuple[str, Credentials | None]] = []
    for match in _LINK.finditer(header):
        fields = dict(_PARAMETER.findall(match[2]))
        if fields.get("rel") == "ice-server":
            user = fields.get("username", "")
            until = user.split(":", 1)[0]
            expires = float(until) if until.isdecimal() and len(until) < 12 else 0.0
            found.append((match[1], Credentials(user, fields.get("credential", ""), expires) if user else None))
    return found


async def addresses_of(server: IceUrl) -> list[tuple[str, int]] | str:
    """Where it can be: one address of each family; or why nowhere."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(NAME_LIMIT):
            found = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)
    except TimeoutError:
        return f"the name server did not answer within {NAME_LIMIT:g} s"
    except OSError as error:
        return f"the name {server.host} was not found ({error.strerror or error})"
    first: dict[int, tuple[str, int]] = {}
    for family, _, _, _, address in found:
        first.setdefault(family, (str(address[0]), int(address[1])))
    return list(first.values())
