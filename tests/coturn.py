"""A real coturn for tests: on a free port, with the REST form of credentials, ended by its own process id."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["MISSING", "Coturn", "coturn", "credentials"]

MISSING = "no coturn here: .ci/setup dev installs it (Debian package coturn)"
"""Why a test that needs it is skipped."""

SECRET = "a secret of the tests"
_READY_LIMIT = 10.0
_STOP_LIMIT = 5.0


@dataclass
class Coturn:
    """A running server.

    Args:
        host: the address where it listens and relays.
        port: for UDP and TCP.
        secret: what credentials are made of.
        log: all that it said.
        tls_port: for TLS; 0 = it speaks none.
        certificate: its own, in PEM, signed by itself.
    """

    host: str
    port: int
    secret: str = SECRET
    log: Path = field(default_factory=Path)
    tls_port: int = 0
    certificate: Path = field(default_factory=Path)

    def url(self, transport: str = "udp") -> str:
        """As it stands in a list of ICE servers."""
        if transport == "tls":
            return f"turns:{self.host}:{self.tls_port}?transport=tcp"
        return f"turn:{self.host}:{self.port}?transport={transport}"

    @property
    def allocations(self) -> int:
        """Relayed addresses that clients were given."""
        return self.log.read_text(errors="replace").count("ALLOCATE processed, success")


def credentials(secret: str = SECRET, *, name: str = "test", lifetime: float = 600.0) -> tuple[str, str]:
    """A user name that expires, and its password, as draft-uberti-behave-turn-rest says."""
    user = f"{int(time.time() + lifetime)}:{name}"
    return user, base64.b64encode(hmac.new(secret.encode(), user.encode(), hashlib.sha1).digest()).decode()


@contextmanager
def coturn(
    host: str = "127.0.0.1",
    *,
    enter: Sequence[str] = (),
    port: int = 0,
    tls: bool = False,
    extra: Sequence[str] = (),
) -> Iterator[Coturn]:
    """Run one until the block ends.

    Args:
        host: where it listens and relays; on loopback it relays to loopback as well.
        enter: words put before its command, such as those that enter a network namespace.
        port: 0 = a free one of this process' own network.
        tls: it speaks TLS as well, with a certificate for `host` that only itself has signed.
        extra: further lines of its configuration.

    Raises:
        RuntimeError: it did not come up; with what it said.
    """
    program = shutil.which("turnserver")
    if program is None:
        raise RuntimeError(MISSING)
    port = port or _free_port(host)
    tls_port = _free_port(host) if tls else 0
    with tempfile.TemporaryDirectory(prefix="coturn-") as folder:
        base = Path(folder)
        lines = [
            f"listening-ip={host}",
            f"relay-ip={host}",
            f"listening-port={port}",
            # Its own default is 16,000 ports wide, and it opens a few at once.
            "min-port=49160",
            "max-port=49360",
            "use-auth-secret",
            # In a file and not on the command line, where every user could read it.
            f"static-auth-secret={SECRET}",
            "realm=tests.example",
            *([f"tls-listening-port={tls_port}", *_certificate(host, base)] if tls else ["no-tls"]),
            "no-dtls",
            "no-cli",
            "relay-threads=1",
            f"userdb={base}/turndb",
            f"pidfile={base}/pid",
            "log-file=stdout",
            "simple-log",
            "verbose",
            *(["allow-loopback-peers"] if host.startswith("127.") else []),
            *extra,
        ]
        (base / "turnserver.conf").write_text("\n".join(lines) + "\n")
        log = base / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*enter, program, "-c", str(base / "turnserver.conf")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            kinds = [kind for kind in ("UDP", "TCP") if f"no-{kind.lower()}" not in extra]
            _until_ready(process, log, kinds)
            yield Coturn(host, port, log=log, tls_port=tls_port, certificate=base / "cert.pem")
        finally:
            process.terminate()
            try:
                process.wait(_STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _certificate(host: str, base: Path) -> list[str]:
    """The lines of a configuration for a new certificate, whose files lie below `base`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "coturn of the tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (base / "cert.pem").write_bytes(made.public_bytes(pem))
    (base / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return [f"cert={base}/cert.pem", f"pkey={base}/key.pem"]


def _until_ready(process: subprocess.Popen[bytes], log: Path, kinds: Sequence[str]) -> None:
    limit = time.monotonic() + _READY_LIMIT
    while time.monotonic() < limit:
        said = log.read_text(errors="replace")
        if "admin thread" in said and all(f"{kind} listener opened" in said for kind in kinds):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"coturn did not come up within {_READY_LIMIT:g} s; it said:\n{log.read_text(errors='replace')}")


def _free_port(host: str) -> int:
    with socket.socket() as any_socket:
        any_socket.bind((host, 0))
        port: int = any_socket.getsockname()[1]
        return port
