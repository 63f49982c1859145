"""What the command does with recordings: check, timeline, redact, golden. Each reads a file and gives what it found."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from multimodal.errors import DriftError, UsageError
from multimodal.sync.drift import drift_report
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, assert_right_product
from multimodal.sync.log import SyncLog
from multimodal.sync.redact import redacted
from multimodal.sync.rerun import outcomes, rerun
from multimodal.sync.timeline import timeline_html
from multimodal.sync.verdict import faults_of

__all__ = ["check_recording", "verdict_text", "write_golden", "write_redacted", "write_timeline"]


def check_recording(path: Path, preset: str) -> dict[str, Any]:
    """Run the kit's assertions on a recording; the result is ready for JSON.

    Returns:
        `file`, `preset`, `ok`, `faults` (verdict, cause, why, token, where, words) and `drift`, the drift report.

    Raises:
        UsageError: no such file, or not a recording.
    """
    log = SyncLog.read(path)
    faults = faults_of(log, preset)
    return {
        "file": str(path),
        "preset": preset,
        "ok": not faults,
        "faults": [
            {
                "verdict": fault.verdict,
                "cause": fault.cause,
                "why": fault.why,
                "token": fault.boundary,
                "where": fault.where,
                "words": log.words_around(fault.boundary),
            }
            for fault in faults
        ],
        "drift": msgspec.to_builtins(drift_report(log)),
    }


def verdict_text(path: Path, preset: str) -> tuple[bool, str]:
    """The same for people: whether all is well, and what to print."""
    log = SyncLog.read(path)
    faults = faults_of(log, preset)
    if not faults:
        return True, f"OK: in sync by the preset {preset}\n{drift_report(log).text()}"
    lines = [f"NOT OK: {len(faults)} {'fault' if len(faults) == 1 else 'faults'} by the preset {preset}"]
    for fault in faults:
        lines.append(f"\n{fault.verdict}\n  words     {log.words_around(fault.boundary)}")
        lines.append(f"  token     {fault.boundary}{f' ({fault.where})' if fault.where else ''}")
        lines.append(f"  cause     {fault.cause}: {fault.why}")
    lines.append(f"\n{drift_report(log).text()}\n\nSee it: multimodal timeline {path} -o timeline.html")
    return False, "\n".join(lines)


def write_timeline(path: Path, out: Path, preset: str) -> str:
    """Write a recording's timeline as one HTML file; gives a line for people.

    Raises:
        UsageError: the recording cannot be read, or `out` not be written.
    """
    page = timeline_html(SyncLog.read(path), preset)
    _write(out, page)
    return f"wrote {out} ({len(page.encode()) // 1024} KiB, one file)"


def write_redacted(path: Path, out: Path) -> str:
    """Write a recording without its words; gives a line for people.

    Raises:
        UsageError: the recording cannot be read, `out` is the recording itself, or cannot be written.
    """
    if out.exists() and path.exists() and out.samefile(path):
        raise UsageError(f"{out} is the recording itself; name another file, and delete the original when you are sure")
    redacted(SyncLog.read(path)).write(out)
    return f"wrote {out}; keys, ids, numbers and times are kept: look through it before you hand it on"


_ASSERTIONS: dict[str, tuple[str, Callable[[SyncLog, str], None]]] = {
    "every_cue_settled": ("assert_every_cue_settled(LOG)", lambda log, preset: assert_every_cue_settled(log)),
    "right_product": ("assert_right_product(LOG)", lambda log, preset: assert_right_product(log)),
    "in_sync": ('assert_in_sync(LOG, preset="{preset}")', lambda log, preset: assert_in_sync(log, preset=preset)),
}


def write_golden(path: Path, folder: Path, preset: str) -> str:
    """Write a recording and a small pytest file that holds it to what it is now; gives lines for people.

    A fault that the recording has is pinned as it is: the test says which verdict it must give. What is there already
    is never written over, for a golden that is made anew without a look proves nothing.

    Raises:
        UsageError: the recording cannot be read or is cut short, or the files are there already.
    """
    log = SyncLog.read(path)
    if log.end is None or log.truncated:
        raise UsageError(f"{path} breaks off before its end; a golden test needs a whole recording")
    name = re.sub(r"\W+", "_", path.stem.casefold()).strip("_") or "tour"
    recording, test = folder / f"{name}.jsonl", folder / f"test_{name}.py"
    for file in (recording, test):
        if file.exists():
            raise UsageError(
                f"{file} is there already and is not written over: compare it with the new recording"
                f" (multimodal timeline {path} -o timeline.html), and delete it if the new one is right"
            )
    source, remarks = _golden_source(log, name, preset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, recording)
    except OSError as error:
        raise UsageError(f"cannot write {recording}: {error.strerror}") from error
    _write(test, source)
    return "\n".join([f"wrote {recording} and {test}; read the test before you commit it", *remarks])


def _golden_source(log: SyncLog, name: str, preset: str) -> tuple[str, list[str]]:
    """The text of the test, and what is to be told about it."""
    remarks, tests, used = [], [], []
    for what, (call, judge) in _ASSERTIONS.items():
        line = call.format(preset=preset)
        used.append(line.partition("(")[0])
        try:
            judge(log, preset)
        except DriftError as error:
            verdict = str(error).splitlines()[0]
            remarks.append(f"pinned as a fault: {verdict}")
            line = f"with pytest.raises(DriftError, match=re.escape({_quoted(verdict)})):\n        {line}"
        tests.append((what, line))
    tests.append(("outcomes", "assert outcomes(LOG) == OUTCOMES"))
    again = outcomes(rerun(log)) == outcomes(log)
    if again:
        tests.append(("comes_out_the_same_today", "assert outcomes(rerun(LOG)) == OUTCOMES"))
    else:
        remarks.append(
            "left out: fed to the aligner once more it comes out otherwise (a dwell, a lead, an interruption)"
        )
    pinned = "".join(
        f"    Outcome({_quoted(o.what)}, {_quoted(o.key)}, {o.anchor}, {o.mark}),\n" for o in outcomes(log)
    )
    faulty = any(line.startswith("with ") for _, line in tests)
    parts = [
        f'"""The recording {name}.jsonl, held to what it was when it was reviewed."""\n',
        "from __future__ import annotations\n",
        "import re\nfrom pathlib import Path\n" if faulty else "from pathlib import Path\n",
        "import pytest\n" if faulty else "",
        "from multimodal.errors import DriftError" if faulty else "",
        f"from multimodal.sync.kit import {', '.join(sorted(used))}",
        "from multimodal.sync.log import SyncLog",
        f"from multimodal.sync.rerun import Outcome, outcomes{', rerun' if again else ''}\n",
        f'LOG = SyncLog.read(Path(__file__).with_name("{name}.jsonl"))',
        f"OUTCOMES = [\n    # what, picture, anchor, mark (-1 = missed)\n{pinned}]\n",
    ]
    body = "\n".join(f"\ndef test_{name}_{what}() -> None:\n    {line}\n" for what, line in tests)
    return "\n".join(part for part in parts if part) + "\n" + body, remarks


def _quoted(text: str) -> str:
    """A Python literal with double quotes: JSON's escapes are Python's too."""
    return json.dumps(text, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
