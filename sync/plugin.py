"""The pytest plugin: one fixture, `sync_log`, that plays a tour and gives back its log.

pytest loads this module in every run of every project that has the package installed, so it imports nothing but
pytest itself until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from os import PathLike
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from multimodal.sync.log import SyncLog

__all__ = ["sync_log"]

_LOGS: pytest.StashKey[list[SyncLog]] = pytest.StashKey()


@pytest.fixture
def sync_log(request: pytest.FixtureRequest) -> Callable[..., SyncLog]:
    """Play a tour to its end, or read a recording: `sync_log(text_pipe=..., image_pipe=..., sync_interval=3)`.

    Args of what it returns:
        path: a recording to read in place of playing; then nothing else may be given.
        limit: seconds that the tour may take.
        everything else: the arguments of `multimodal.MultiModalStream`.

    The tour runs on an event loop of its own, in real time. A test that fails gets a drift report per log among its
    captured output.

    Raises:
        UsageError: a broken recording, a wrong argument, or a call from inside a running event loop.
        PipeError: a pipe failed.
        SyncError: the tour did not end within `limit`.
    """
    logs: list[SyncLog] = request.node.stash.setdefault(_LOGS, [])

    def make(*, path: str | PathLike[str] | None = None, limit: float = 60.0, **stream: Any) -> SyncLog:
        log = _play(stream, limit) if path is None else _read(path, stream)
        logs.append(log)
        return log

    return make


def _read(path: str | PathLike[str], stream: dict[str, Any]) -> SyncLog:
    from multimodal.errors import UsageError
    from multimodal.sync.log import SyncLog

    if stream:
        raise UsageError(f"sync_log: path= reads a recording, so {', '.join(stream)} would be ignored; leave it out")
    return SyncLog.read(path)


def _play(stream: dict[str, Any], limit: float) -> SyncLog:
    import asyncio

    from multimodal.errors import UsageError
    from multimodal.stream import MultiModalStream
    from multimodal.sync.kit import record

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            "sync_log runs an event loop of its own and cannot be called inside one;"
            " in an async test use `await multimodal.sync.kit.record(MultiModalStream(...))`"
        )

    async def play() -> SyncLog:
        # Built inside the loop: a pipe may bind to the loop that is running when it is handed over.
        return await record(MultiModalStream(**stream), limit=limit)

    return asyncio.run(play())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give a failed test the drift report of every log that it made."""
    report = yield
    if report.when == "call" and report.failed:
        from multimodal.sync.drift import drift_report

        logs: list[SyncLog] = item.stash.setdefault(_LOGS, [])
        for number, log in enumerate(logs):
            report.sections.append((f"drift of sync_log {number}", drift_report(log).text()))
    return report
