"""What `multimodal doctor --network` says of one thing: what was tried, what came, and the next step. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

__all__ = ["Finding", "State", "broken", "findings_text", "good", "note", "skipped"]

State = Literal["good", "note", "broken", "skipped"]
"""`note`: it works, and has a consequence that one should know; `skipped`: it was not tried, and why."""

_MARKS: dict[State, str] = {"good": "ok", "note": "note", "broken": "BROKEN", "skipped": "-"}


class Finding(msgspec.Struct, frozen=True):
    """One thing that was examined.

    Args:
        name: what, in a word or two.
        state: how it is.
        tried: what was done to find out.
        came: what came of it.
        advice: the next step ("" = none is needed).
    """

    name: str
    state: State
    tried: str
    came: str
    advice: str = ""


def good(name: str, tried: str, came: str, advice: str = "") -> Finding:
    """It is as it should be."""
    return Finding(name, "good", tried, came, advice)


def note(name: str, tried: str, came: str, advice: str) -> Finding:
    """It works, with a consequence."""
    return Finding(name, "note", tried, came, advice)


def broken(name: str, tried: str, came: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(name, "broken", tried, came, advice)


def skipped(name: str, why: str, advice: str = "") -> Finding:
    """It was not tried."""
    return Finding(name, "skipped", "nothing", why, advice)


def findings_text(findings: Iterable[Finding]) -> list[str]:
    """Lines for a person: what came, what was tried, what to do."""
    told: list[str] = []
    for finding in findings:
        told.append(f"  {_MARKS[finding.state]:7}{finding.name + ':':18}{finding.came}")
        if finding.state != "skipped":
            told.append(f"         tried: {finding.tried}")
        if finding.advice:
            told.append(f"         next:  {finding.advice}")
    return told
