"""What an assertion of the kit says: the verdict first, then the words, the token, the cause and how to see more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from multimodal.errors import DriftError
from multimodal.events import AnyEvent, AssetReserved, CueMissed, Reveal, Swap, SyncMark, Text
from multimodal.sync.context import current
from multimodal.sync.log import SyncLog

__all__ = ["Cause", "Fault", "describe", "raise_faults", "tokens"]

Cause = Literal["fetch", "decode", "queue", "network", "client", "anchor", "generator"]
"""Where a fault arose, as far as a log tells:

fetch      the picture's bytes came late or not at all
decode     the bytes were there, the picture still could not be shown
queue      between the sources and the wire: events lost, doubled, held too long or out of place
network    emitted in time, arrived late, twice or never
client     arrived in time, painted late or never
anchor     the cue stands at the wrong boundary or names the wrong picture
generator  the text came late, or is not the text that was expected
"""

ALSO = 3
"""Further verdicts that a message spells out; the rest is counted."""


class Fault(msgspec.Struct, frozen=True):
    """One broken promise.

    Args:
        verdict: what is wrong, in tokens and ms where it is a matter of time.
        cause: its class.
        why: what in the log speaks for that cause.
        boundary: the token boundary it is about.
        where: mark, cue and `seq`, as far as it has them.
    """

    verdict: str
    cause: Cause
    why: str
    boundary: int
    where: str = ""

    def text(self, log: SyncLog) -> str:
        """The verdict and its four lines; the place is told in both units, token and ms of the stream."""
        where = f" ({self.where})" if self.where else ""
        words = log.words_before(self.boundary)
        at = f", at {words.pts_ms:.0f} ms" if words else ", before the first word"
        return (
            f"{self.verdict}\n"
            f"  words     {log.words_around(self.boundary)}\n"
            f"  token     {self.boundary}{at}{where}\n"
            f"  cause     {self.cause}: {self.why}\n"
            f"  timeline  {_timeline(log)}"
        )


def _timeline(log: SyncLog) -> str:
    """Where the whole tour can be seen: the report of the test that runs, else how to draw it, or to record one."""
    report = current.get().report
    if report is not None:
        return report(log)
    return f"multimodal timeline {log.source} -o OUT.html" if log.source else "multimodal tour --check --record FILE"


def raise_faults(log: SyncLog, faults: Iterable[Fault]) -> None:
    """Raise if there are any: the first one in full, some more by their verdicts.

    Raises:
        DriftError: there are faults.
    """
    found = list(faults)
    if not found:
        return
    first, *others = found
    message = [first.text(log)]
    message += [f"  also      {other.verdict}" for other in others[:ALSO]]
    if len(others) > ALSO:
        message.append(f"  also      {len(others) - ALSO} more")
    if log.truncated:
        message.append(f"  recording {log.truncated}")
    raise DriftError("\n".join(message))


def describe(event: AnyEvent) -> str:
    """An event in a few words, for a verdict."""
    match event:
        case Text():
            return f"text {event.text!r}"
        case SyncMark():
            return f"mark {event.mark}"
        case Reveal() | Swap() | CueMissed() | AssetReserved():
            return f"{event.kind} of {event.key!r}"
        case _:
            return event.kind


def tokens(count: int) -> str:
    """``1 token``, ``3 tokens``."""
    return f"{count} token" if count == 1 else f"{count} tokens"
