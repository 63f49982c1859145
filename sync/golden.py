"""Golden logs: a tour compared with a recording that was reviewed and committed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import msgspec

from multimodal.errors import DriftError, UsageError
from multimodal.events import AnyEvent, CueMissed, Reveal, StreamEnd, StreamStart, SyncMark, Text
from multimodal.sync.context import current
from multimodal.sync.faults import Cause, Fault, describe, raise_faults
from multimodal.sync.log import SyncLog

__all__ = ["assert_same_log", "normalized"]

SHOWN = 40
"""Lines of a difference that a message shows."""
_TIMELESS = (StreamStart, Text, SyncMark, Reveal, CueMissed, StreamEnd)


def normalized(log: SyncLog, *, times: bool = False) -> SyncLog:
    """What two runs of one tour have in common: no stream id, nothing that a viewer said.

    Args:
        log: what was recorded.
        times: True = keep `pts_ms`, slots, swaps and previews, for tours on a virtual clock, which repeat to the byte.
            False = keep what does not hang on how fast the machine was: text, marks, which picture came
            where, what was missed, the end; text between two marks is one event.
    """
    events: list[AnyEvent] = []
    for event in log.events:
        if times:
            events.append(msgspec.structs.replace(event, sid=""))
        elif isinstance(event, Text) and events and isinstance(events[-1], Text):
            events[-1] = _joined(events[-1], event)
        elif isinstance(event, _TIMELESS):
            plain = msgspec.structs.replace(event, sid="", seq=len(events), pts_ms=0.0)
            events.append(msgspec.structs.replace(plain, preview=False) if isinstance(plain, Reveal) else plain)
    return SyncLog(tuple(events), plan=log.plan)


def _joined(before: Text, after: Text) -> Text:
    """How many tokens a hold let out at once hangs on time, their words do not."""
    count = before.token_count + after.token_count
    return msgspec.structs.replace(before, tok=after.tok, token_count=count, text=before.text + after.text)


def assert_same_log(log: SyncLog, path: str | PathLike[str], *, times: bool = False) -> None:
    """The tour is the one of the golden recording, event by event.

    A file that is missing, or differs, is written only under pytest's `--update-golden`; what changes stands at the end
    of pytest's output, to be reviewed before it is committed.

    Args:
        log: what was recorded.
        path: the golden recording, JSON lines as `multimodal tour --record` writes them.
        times: compare times too, and what hangs on them (`normalized`); for tours on a virtual clock.

    Raises:
        DriftError: the log differs; the message shows the lines.
        UsageError: the file is missing or broken.
    """
    file = Path(path)
    fresh = normalized(log, times=times)
    update = current.get().update_golden
    if not file.exists():
        if update is None:
            raise UsageError(f"there is no golden recording {file}; write it: pytest --update-golden, then review it")
        _write(fresh, file, update, f"golden recording {file}: new, {len(fresh.events)} events")
        return
    golden = normalized(SyncLog.read(file), times=times)
    was, now = _lines(golden), _lines(fresh)
    if was == now:
        return
    change = list(difflib.unified_diff(was, now, str(file), "this run", lineterm="", n=2))
    if update is not None:
        _write(fresh, file, update, "\n".join(change))
        return
    fault = _first(golden, fresh)
    shown = change[:SHOWN] + ([f"... and {len(change) - SHOWN} lines more"] if len(change) > SHOWN else [])
    try:
        raise_faults(log, [fault])
    except DriftError as error:
        hint = f"if that is meant: pytest --update-golden rewrites {file}"
        raise DriftError("\n".join([str(error), *(f"  {line}" for line in shown), f"  {hint}"])) from None


def _write(log: SyncLog, file: Path, tell: Callable[[str], None], change: str) -> None:
    tell(change)
    file.parent.mkdir(parents=True, exist_ok=True)
    log.write(file)


def _lines(log: SyncLog) -> list[str]:
    return [line.decode().rstrip("\n") for line in log.lines()]


def _first(golden: SyncLog, fresh: SyncLog) -> Fault:
    """The first event, or planned cue, in which the two differ."""
    place = next(
        (at for at, (a, b) in enumerate(zip(golden.events, fresh.events, strict=False)) if a != b),
        min(len(golden.events), len(fresh.events)),
    )
    was, now = _at(golden.events, place), _at(fresh.events, place)
    if was is None and now is None:
        verdict = "the tour has another plan than its golden recording: 0 tokens and 0 ms of it changed"
        return Fault(verdict, "anchor", "the events are the same, the cues are not", 0)
    event = now or was
    assert event is not None
    # Judged by what it is: text comes from the generator, a picture's place from its cue.
    cause: Cause = "generator" if Text in (type(was), type(now)) else "anchor"
    verdict = (
        f"not the golden tour from event {place} on, after {event.tok} tokens and {event.pts_ms:.0f} ms:"
        f" {describe(now) if now else 'nothing'} in place of {describe(was) if was else 'nothing'}"
    )
    return Fault(verdict, cause, f"the first of the events that differ, {_where(was, now)}", event.tok)


def _where(was: AnyEvent | None, now: AnyEvent | None) -> str:
    names = [name for name in (was.__struct_fields__ if was else ()) if type(was) is type(now)]
    changed = [name for name in names if getattr(was, name) != getattr(now, name)]
    return f"by its {', '.join(changed)}" if changed else "by its kind"


def _at(events: Sequence[AnyEvent], place: int) -> AnyEvent | None:
    return events[place] if place < len(events) else None
