"""The pytest plugin: fixtures that play tours, a marker that judges them, options that report and rewrite goldens.

    sync_log         play a tour in real time, or read a recording; gives its log
    sync_stream      a stream on virtual time, driven step by step
    sync_clock       virtual time for coroutines of the test's own
    sync_link        tours over a simulated network, on virtual time
    browser_player   a real, headless Chromium with the player on a tour that is served beside it

    @pytest.mark.sync(preset="strict", max_tokens=2, max_ms=150)
                         every log that the fixtures made is judged when the test has passed; the limits, of which each
                         may be left out, also hold for `assert_in_sync` where the test gives none
    --sync-report=DIR    a failing test leaves the recordings and timelines of its logs there
    --sync-preset=NAME   the preset where neither the test nor its marker names one
    --update-golden      `assert_same_log` writes its recordings; what changed stands at the end of the output

pytest loads this module in every run of every project that has the package installed, so it imports nothing but
pytest itself until a test asks for a fixture, the marker or an option.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from os import PathLike
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from multimodal.sync.browsing import BrowserPlayer
    from multimodal.sync.linked import LinkPlayer
    from multimodal.sync.log import SyncLog
    from multimodal.sync.testcase import TestCase
    from multimodal.sync.virtual import SteppedStream, VirtualClock

__all__ = ["browser_player", "sync_clock", "sync_link", "sync_log", "sync_stream"]

_CASE: pytest.StashKey[TestCase] = pytest.StashKey()
_CHANGES: pytest.StashKey[list[str]] = pytest.StashKey()


# ---- fixtures --------------------------------------------------------------------------------------------------------


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
    case = _case(request.node)

    def make(*, path: str | PathLike[str] | None = None, limit: float = 60.0, **stream: Any) -> SyncLog:
        log = _play(stream, limit) if path is None else _read(path, stream)
        case.logs.append(log)
        return log

    return make


@pytest.fixture
def sync_clock() -> Generator[VirtualClock]:
    """Virtual time. `sync_clock.run(coroutine)` sleeps an hour in milliseconds, `sync_clock.now` tells the time.

    For scripted pipes and memory links: while a worker thread or a socket is busy, timeouts fire at once.
    """
    from multimodal.sync.virtual import VirtualClock

    with VirtualClock() as clock:
        yield clock


@pytest.fixture
def sync_stream(request: pytest.FixtureRequest, sync_clock: VirtualClock) -> Generator[Callable[..., SteppedStream]]:
    """A stream on the test's `sync_clock`, driven by steps: `sync_stream(text_pipe=..., image_pipe=..., ...)`.

    What it returns has `step()`, `advance(seconds)`, `until(kind)`, `rest()`, `log` and the `stream` itself
    (`multimodal.sync.virtual.SteppedStream`). Its log counts among those that a ``sync`` marker judges and a failing
    test reports. It is closed with the test.
    """
    from multimodal.stream import MultiModalStream
    from multimodal.sync.virtual import SteppedStream

    case = _case(request.node)
    made: list[SteppedStream] = []

    def make(**stream: Any) -> SteppedStream:
        stepped = SteppedStream(MultiModalStream(**stream), sync_clock)
        made.append(stepped)
        case.stepped.append(stepped)
        return stepped

    yield make
    for stepped in made:
        stepped.close()


@pytest.fixture
def sync_link(request: pytest.FixtureRequest, sync_clock: VirtualClock) -> LinkPlayer:
    """Tours over a network that is data, on the test's `sync_clock`: `sync_link("4g", text_pipe=..., image_pipe=...)`.

    The first argument is a name of `multimodal.sync.link.PROFILES`, a `LinkProfile` or a `Network`; `seed=` is that of
    all chance. It gives the log, with what arrived and what was painted. `sync_link.pair("lossy")` gives both ends of a
    road for a test that sends by itself (`multimodal.sync.linked.LinkPlayer`).
    """
    from multimodal.sync.linked import LinkPlayer

    return LinkPlayer(sync_clock, _case(request.node).logs.append)


@pytest.fixture
def browser_player(request: pytest.FixtureRequest) -> Callable[..., BrowserPlayer]:
    """Tours on a real page: `browser_player("--speed", "4")`, with the options of `multimodal tour`.

    What it returns has `play()`, which plays the tour to its end in a headless Chromium and gives the log of all three
    vantage points, and `open()`, an async context manager that gives the page for a test that drives it by itself
    (`multimodal.sync.browsing.BrowserPlayer`).

    Raises:
        UsageError: no Chromium, or no Playwright; the message says how to install it.
    """
    from multimodal.sync.browsing import BrowserPlayer

    case = _case(request.node)
    return lambda *options: BrowserPlayer(options, case.logs.append)


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


# ---- options and the marker ------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The three options."""
    group = parser.getgroup("multimodal", "pictures in sync with their words")
    group.addoption("--sync-report", metavar="DIR", help="failing tests leave recordings and timelines of tours in DIR")
    group.addoption("--sync-preset", metavar="NAME", help="preset of assert_in_sync: strict, default or relaxed")
    group.addoption("--update-golden", action="store_true", help="assert_same_log writes its golden recordings")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; refuse an unknown preset before any test runs."""
    config.addinivalue_line(
        "markers",
        "sync(preset=None, max_tokens=None, max_ms=None): judge every log that the test's fixtures make;"
        " its limits also hold for assert_in_sync where the test names none",
    )
    preset = config.getoption("--sync-preset")
    if preset is not None:
        from multimodal.errors import UsageError
        from multimodal.sync.timing import limits_of

        try:
            limits_of(preset, {})
        except UsageError as error:
            raise pytest.UsageError(f"--sync-preset: {error}") from error


def _case(item: pytest.Item) -> TestCase:
    """What is kept of one test; made at first use."""
    if _CASE not in item.stash:
        from multimodal.sync.testcase import TestCase

        options, marker = item.config.option, item.get_closest_marker("sync")
        changes = item.config.stash.setdefault(_CHANGES, [])
        item.stash[_CASE] = TestCase(
            item.nodeid,
            marker=None if marker is None else (marker.args, marker.kwargs),
            preset=options.sync_preset,
            report=options.sync_report,
            tell=changes.append if options.update_golden else None,
        )
    return item.stash[_CASE]


def _speaks(item: pytest.Item) -> bool:
    """Whether an option or the marker has something to say about a test."""
    options = item.config.option
    asked = options.sync_report or options.sync_preset or options.update_golden
    return bool(asked) or item.get_closest_marker("sync") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What holds for one test ends with it."""
    if not _speaks(item):
        return (yield)
    from multimodal.sync.context import Context, current

    token = current.set(Context())
    try:
        return (yield)
    finally:
        current.reset(token)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell the kit what holds for this test; a marker with wrong arguments is an error of its test."""
    if _speaks(item):
        from multimodal.sync.context import current

        current.set(_case(item).context)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge the logs of a marked test that has passed."""
    result = yield
    if item.get_closest_marker("sync") is not None:
        _case(item).judge()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give a failed test the drift report of every log that it made, and write what was asked for."""
    report = yield
    if report.when == "call" and report.failed and _CASE in item.stash:
        report.sections.extend(item.stash[_CASE].sections())
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What `--update-golden` changed, to be reviewed."""
    changes = terminalreporter.config.stash.get(_CHANGES, [])
    if changes:
        terminalreporter.section("golden recordings written: review them")
        for change in changes:
            terminalreporter.write_line(change)
