"""How many bytes a page pays for the player: raw, minified, and minified + gzip, which is what a browser fetches."""

from __future__ import annotations

import argparse
import gzip
import re
from importlib import resources
from typing import Any

from multimodal.bench.report import figure, report
from multimodal.errors import UsageError

__all__ = ["LIMIT_BYTES", "PLAYER", "measure", "run"]

PLAYER = "product-tour.js"

LIMIT_BYTES = 10_000
"""What a large shop platform asks of a theme extension's script file, compressed."""


def measure(source: str) -> dict[str, int]:
    """Sizes in bytes, and how many things the module would still fetch (`imports`) or that need Node (`node_only`).

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
        "imports": len(re.findall(r"\bimport\s*[\w{*'\"(]|\bexport\s*(?:\*[^;]*?|\{[^}]*\}\s*)from\s*['\"]", minified)),
        "node_only": len(re.findall(r"\brequire\(|\bprocess\.|\b__dirname\b|\bBuffer\.", minified)),
    }


def run(args: argparse.Namespace | None = None) -> dict[str, Any]:
    """The report of `multimodal bench player-size`.

    Args:
        args: takes no options of its own.

    Raises:
        UsageError: rjsmin is not installed.
    """
    sizes = measure(resources.files("multimodal.player").joinpath(PLAYER).read_text(encoding="utf-8"))
    figures = [
        figure("player_gzip", sizes["gzip"], "bytes", LIMIT_BYTES),
        figure("player_imports", sizes["imports"], "count", 0),
        figure("player_node_only", sizes["node_only"], "count", 0),
        figure("player_minified", sizes["minified"], "bytes"),
        figure("player_raw", sizes["raw"], "bytes"),
    ]
    return report("player-size", figures, ours={"files": [PLAYER]}, packages=["rjsmin"])
