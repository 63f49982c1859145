"""The command `multimodal token`: a join token, from a secret that is in no command line. Options and printing only."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import Any

from multimodal.errors import UsageError

__all__ = ["SECRET_VARIABLE", "add_token", "secret_of"]

SECRET_VARIABLE = "MULTIMODAL_SECRET"
_FILE_LIMIT = 4096
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def add_token(commands: Any) -> None:
    """Add `token` to the command's sub-parsers."""
    token = commands.add_parser(
        "token",
        help="print a join token for one viewer",
        description="Prints a token that the server of a tour takes, if it has the same secret. A command line can be"
        f" read by everybody on a machine, so the secret comes from the variable {SECRET_VARIABLE} or from a file."
        " Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'",
    )
    token.add_argument("--tour", required=True, metavar="NAME", help="the tour it is for; '*' = all, for operators")
    token.add_argument(
        "--role",
        choices=("viewer", "host", "operator"),
        default="viewer",
        help="viewer: watches, and turns a session of its own (default); host: turns a shared session; operator:"
        " lists and ends sessions",
    )
    token.add_argument("--session", default="", metavar="NAME", help="a shared session; default: one of its own")
    token.add_argument(
        "--ttl", type=_seconds, default=300.0, metavar="TIME", help="good for so long: 90, 5m, 2h (default 300 s)"
    )
    token.add_argument("--secret-file", type=Path, metavar="FILE", help="holds the secret, and nothing else")
    token.add_argument(
        "--secret-env",
        default=SECRET_VARIABLE,
        metavar="VARIABLE",
        help=f"holds the secret (default {SECRET_VARIABLE})",
    )
    token.set_defaults(run=_token)


def secret_of(path: Path | None, variable: str = SECRET_VARIABLE) -> str:
    """The secret out of a file or, without one, a variable of the environment.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    if path is None:
        secret = os.environ.get(variable, "").strip()
        if not secret:
            raise UsageError(f"there is no secret: set the variable {variable[:80]}, or give --secret-file")
        return secret
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
            mode = os.fstat(file.fileno()).st_mode
        secret = data.decode().strip()
    except UnicodeDecodeError:
        raise UsageError(f"the secret in {path} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"the secret in {path} cannot be read: {error.strerror or error}") from error
    if not secret or len(data) > _FILE_LIMIT:
        raise UsageError(f"{path} holds no secret: it is {'empty' if not secret else f'over {_FILE_LIMIT} bytes'}")
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        print(f"warning: {path} can be read by others on this machine; chmod 600 it", file=sys.stderr)
    return secret


def _token(options: argparse.Namespace) -> int:
    from multimodal.serving.auth import Tokens

    tokens = Tokens(secret_of(options.secret_file, options.secret_env))
    issued = tokens.issue(
        tour=options.tour, now=time.time(), session=options.session, role=options.role, ttl=options.ttl
    )
    print(issued)
    return 0


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90, 5m or 2h")
    return float(int(found[1]) * _UNITS[found[2]])
