"""How many bytes a page pays for each of the player's files: raw, minified, and with gzip, as a browser fetches it."""

from __future__ import annotations

import argparse
import gzip
import re
from importlib import resources
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.errors import UsageError

__all__ = ["LIMIT_BYTES", "PLAYER", "ROADS", "measure", "run"]

PLAYER = "product-tour.js"
ROADS = "product-tour-roads.js"
"""What the player imports by itself while its first offer is on its way; it plays without it."""

LIMIT_BYTES = 10_000
"""What a large shop platform asks of a theme extension's script file, compressed."""


def measure(source: str) -> dict[str, int]:
    """Sizes in bytes, what the module cannot begin without (`imports`), what it fetches by itself later (`later`), and
    what needs Node (`node_only`).

    Raises:
        UsageError: rjsmin is not installed.
    """
    try:
        import rjsmin
    except ImportError as error:
        raise UsageError(
            "measuring the player needs rjsmin: install it with `pip install 'multimodal-stream[test]'`"
        ) from error
    minified = str(rjsmin.jsmin(source))
    # Only blanks and comments go, names stay: a shop that mangles them ships less than we claim.
    return {
        "raw": len(source.encode()),
        "minified": len(minified.encode()),
        "gzip": len(gzip.compress(minified.encode(), 9, mtime=0)),
        "imports": len(re.findall(r"\bimport\s*[\w{*'\"]|\bexport\s*(?:\*[^;]*?|\{[^}]*\}\s*)from\s*['\"]", minified)),
        "later": len(re.findall(r"\bimport\s*\(", minified)),
        "node_only": len(re.findall(r"\brequire\(|\bprocess\.|\b__dirname\b|\bBuffer\.", minified)),
    }


def run(args: argparse.Namespace | None = None) -> dict[str, Any]:
    """The report of `multimodal bench player-size`.

    Args:
        args: takes no options of its own.

    Raises:
        UsageError: rjsmin is not installed.
    """
    figures = []
    for name, file, later in (("player", PLAYER, 1), ("roads", ROADS, 0)):
        sizes = measure(resources.files("multimodal.player").joinpath(file).read_text(encoding="utf-8"))
        figures += [
            figure(f"{name}_gzip", sizes["gzip"], "bytes", LIMIT_BYTES),
            figure(f"{name}_imports", sizes["imports"], "count", 0),
            figure(f"{name}_later", sizes["later"], "count", later),
            figure(f"{name}_node_only", sizes["node_only"], "count", 0),
            figure(f"{name}_minified", sizes["minified"], "bytes"),
            figure(f"{name}_raw", sizes["raw"], "bytes"),
        ]
    return report("player-size", figures, ours={"files": [PLAYER, ROADS]}, packages=["rjsmin"])
