"""What the pytest plugin keeps of one test: the logs it made, the limits that hold for it, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from multimodal.errors import UsageError
from multimodal.sync.context import Context
from multimodal.sync.drift import drift_report
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, assert_no_spoiler, assert_right_product
from multimodal.sync.log import SyncLog
from multimodal.sync.timeline import timeline_html
from multimodal.sync.timing import limits_of, marked_limits
from multimodal.sync.virtual import SteppedStream

__all__ = ["TestCase"]


class TestCase:
    """One test.

    Args:
        name: its node id.
        marker: positional and keyword arguments of its ``sync`` marker; None = it has none.
        preset: of `--sync-preset`.
        report: the folder of `--sync-report`.
        tell: where the changes of `--update-golden` go; None = goldens stay as they are.

    Raises:
        UsageError: a marker with arguments that it does not have.
    """

    __test__ = False

    def __init__(
        self,
        name: str,
        *,
        marker: tuple[tuple[Any, ...], Mapping[str, Any]] | None = None,
        preset: str | None = None,
        report: str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.logs: list[SyncLog] = []
        self.stepped: list[SteppedStream] = []
        self._folder = None if report is None else Path(report)
        self._written: list[tuple[SyncLog, str]] = []
        args, limits = marker or ((), {})
        if args or limits.keys() - {"preset", "max_tokens", "max_ms"}:
            raise UsageError(f"{name}: the sync marker takes preset=, max_tokens= and max_ms=, by name, nothing else")
        chosen = limits.get("preset") or preset or "default"
        tokens, ms = limits.get("max_tokens"), limits.get("max_ms")
        limits_of(chosen, marked_limits(tokens, ms))
        self.context = Context(chosen, tokens, ms, None if report is None else self.write, tell)

    def judge(self) -> None:
        """Every log is in sync and without a spoiler; those of whole tours are whole, too.

        Raises:
            DriftError: one is not.
            UsageError: the test made no log.
        """
        logs = self._all()
        if not logs:
            raise UsageError(
                f"{self.name} is marked sync and made no log, so nothing was judged;"
                " play a tour with sync_log, sync_stream or browser_player, or take the marker away"
            )
        unfinished = [stepped.log for stepped in self.stepped if not stepped.ended]
        for log in logs:
            # What a viewer notices first comes first: the other picture, then the early one, then the late one.
            assert_right_product(log)
            assert_no_spoiler(log)
            assert_in_sync(log)
            if log not in unfinished:
                assert_every_cue_settled(log)

    def write(self, log: SyncLog) -> str:
        """Write a log and its timeline to the report's folder, once; gives the timeline's file."""
        for known, name in self._written:
            if known == log:
                return name
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^\w.-]+", "-", self.name.replace("::", "-").replace(".py", "")).strip("-")
        file = self._folder / f"{stem}-{len(self._written)}.jsonl"
        log.write(file)
        page = file.with_suffix(".html")
        page.write_text(timeline_html(log, self.context.preset), encoding="utf-8")
        self._written.append((log, str(page)))
        return str(page)

    def sections(self) -> list[tuple[str, str]]:
        """What a failed test adds to its output: title and text."""
        found = []
        for number, log in enumerate(self._all()):
            text = drift_report(log).text()
            if self._folder is not None:
                page = Path(self.write(log))
                text += f"\nrecording    {page.with_suffix('.jsonl')}\ntimeline     {page}"
            found.append((f"drift of sync_log {number}", text))
        return found

    def _all(self) -> list[SyncLog]:
        return [*self.logs, *(log for log in (stepped.log for stepped in self.stepped) if log.events)]
