"""Marker, options and fixtures of the plugin, in projects of their own; twelve planted faults, each told in full."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from multimodal.errors import UsageError
from multimodal.events import Reveal
from multimodal.sync.log import SyncLog
from multimodal.sync.testcase import TestCase
from multimodal.values import Cue
from tests.sync.planted import FAULTS
from tests.sync.test_kit_showing import planned_later
from tests.sync.test_plugin import PIPES, project
from tests.sync.tours import cues, tour, watched

__all__ = ["project"]
pytest_plugins = ["pytester"]

MUG = "the Moss Mug"
PLANTED: dict[str, tuple[Callable[[], SyncLog], str, str, str]] = {
    "late-mark-later": (FAULTS["late, a mark later"].damage, "came late: 4 tokens and 200 ms", "anchor", MUG),
    "off-its-mark": (FAULTS["late, off its mark"].damage, r"\d tokens and \d+ ms behind", "queue", MUG),
    "stalled-text": (FAULTS["late mark"].damage, "came late: 0 tokens and 700 ms", "generator", "Ember Lamp"),
    "network": (FAULTS["late on the network"].damage, r"came late: 1 token and 8\d\d ms", "network", MUG),
    "client": (FAULTS["late in the client"].damage, "came late: 1 token and 800 ms", "client", MUG),
    "before-its-words": (FAULTS["early by place"].damage, r"2 tokens and \d+ ms ahead", "queue", MUG),
    "arrives-early": (FAULTS["early on the network"].damage, "1 token and 680 ms ahead", "network", MUG),
    "other-words": (planned_later, "11 tokens and 550 ms ahead", "queue", MUG),
    "hold-over": (FAULTS["hold runs over"].damage, "0 tokens and 850 ms, 250 ms were allowed", "queue", MUG),
    "hold-early": (FAULTS["hold ends early"].damage, "0 tokens and 150 ms early", "queue", MUG),
    "wrong-product": (FAULTS["swapped, planned"].damage, "'mug-1' in place of 'kettle-1'", "anchor", "Kettle"),
    "lost": (FAULTS["lost on the way"].damage, r"event lost: seq \d+", "network", "litre"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_fails_with_words_token_units_cause_and_report(project: pytest.Pytester, name: str) -> None:
    damage, verdict, cause, words = PLANTED[name]
    damage().write(project.path / "recording.jsonl")
    project.makepyfile(
        """
import pytest

@pytest.mark.sync
def test_tour(sync_log):
    sync_log(path="recording.jsonl")
"""
    )
    result = project.runpytest("--sync-report=reports")
    result.assert_outcomes(failed=1)
    said = [line[1:].strip() for line in result.outlines if line.startswith("E  ")]
    told = next(at for at, line in enumerate(said) if re.search(verdict, line))
    assert words in said[told + 1]
    assert re.fullmatch(r"token     \d+, at \d+ ms \(.*\)", said[told + 2])
    assert said[told + 3].startswith(f"cause     {cause}: ")
    assert said[told + 4].startswith("timeline  reports/")
    (file,) = (project.path / "reports").glob("*.jsonl")
    page = file.with_suffix(".html")
    assert said[told + 4] == f"timeline  {page.relative_to(project.path)}"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert SyncLog.read(file).text == damage().text
    result.stdout.fnmatch_lines(["*drift of sync_log 0*", "recording *reports/*.jsonl", "timeline *reports/*.html"])


def test_there_are_twelve_of_them() -> None:
    assert len(PLANTED) == 12


# ---- the marker ------------------------------------------------------------------------------------------------------


def test_a_marked_test_without_fault_passes_and_its_limits_hold(project: pytest.Pytester) -> None:
    watched(tour(), lambda event: 320.0 if isinstance(event, Reveal) else 20.0).write(project.path / "late.jsonl")
    project.makepyfile(
        PIPES
        + """
import pytest
from multimodal import DriftError

@pytest.mark.sync(preset="strict")
def test_live(sync_log):
    assert_in_sync(sync_log(text_pipe=words(), image_pipe=pictures()))

@pytest.mark.sync(preset="strict")
def test_marked_limits_reach_the_assertion(sync_log):
    with pytest.raises(DriftError, match="preset strict"):
        assert_in_sync(sync_log(path="late.jsonl"))
    assert_in_sync(sync_log(path="late.jsonl"), "default")

@pytest.mark.sync
def test_default_takes_it(sync_log):
    sync_log(path="late.jsonl")

@pytest.mark.sync(max_ms=100)
def test_too_late_in_ms(sync_log):
    sync_log(path="late.jsonl")

@pytest.mark.sync(max_tokens=0)
def test_too_late_in_tokens(sync_log):
    sync_log(path="late.jsonl")

def test_not_marked_not_judged(sync_log):
    sync_log(path="late.jsonl")
"""
    )
    result = project.runpytest()
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(["FAILED *test_marked_limits*", "FAILED *in_ms*", "FAILED *in_tokens*"])
    said = result.stdout.str()
    assert "(limit: +100 ms, preset default)" in said
    assert "(limit: 0 tokens, preset default)" in said


def test_wrong_markers_are_errors_of_their_tests(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import pytest

@pytest.mark.sync("strict")
def test_positional(): pass

@pytest.mark.sync(preset="fierce")
def test_unknown(): pass

@pytest.mark.sync(tokens=3)
def test_other(): pass

@pytest.mark.sync
def test_without_a_log(): pass

def test_without_a_marker(): pass
"""
    )
    result = project.runpytest()
    result.assert_outcomes(errors=3, failed=1, passed=1)
    said = result.stdout.str()
    assert "takes preset=, max_tokens= and max_ms=, by name" in said
    assert "preset='fierce' is unknown; use one of strict, default, relaxed" in said
    assert "is marked sync and made no log, so nothing was judged" in said


def test_a_preset_of_the_command_line_holds_where_nobody_says_otherwise(project: pytest.Pytester) -> None:
    watched(tour(), lambda event: 320.0 if isinstance(event, Reveal) else 20.0).write(project.path / "late.jsonl")
    project.makepyfile(
        """
import pytest
from multimodal.sync.kit import assert_in_sync

def test_plain(sync_log):
    assert_in_sync(sync_log(path="late.jsonl"))

@pytest.mark.sync(preset="relaxed")
def test_marked(sync_log):
    assert_in_sync(sync_log(path="late.jsonl"))

def test_said(sync_log):
    assert_in_sync(sync_log(path="late.jsonl"), "default")
"""
    )
    project.runpytest().assert_outcomes(passed=3)
    result = project.runpytest("--sync-preset=strict")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*preset strict*"])
    refused = project.runpytest("--sync-preset=fierce")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*--sync-preset: preset='fierce' is unknown*"])


def test_without_a_report_folder_nothing_is_written(project: pytest.Pytester) -> None:
    FAULTS["late in the client"].damage().write(project.path / "recording.jsonl")
    project.makepyfile(
        """
from multimodal.sync.kit import assert_in_sync

def test_tour(sync_log):
    assert_in_sync(sync_log(path="recording.jsonl"))
"""
    )
    before = {file.name for file in project.path.iterdir()}
    result = project.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*timeline  multimodal timeline recording.jsonl -o OUT.html"])
    assert {file.name for file in project.path.iterdir()} - before <= {"__pycache__"}


def test_two_failing_logs_are_two_reports_and_one_log_is_one(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
import pytest

@pytest.mark.parametrize("case", ["a b", "c/d"])
def test_two(sync_log, case):
    sync_log(text_pipe=words(), image_pipe=pictures())
    log = sync_log(text_pipe=words(), image_pipe=pictures(), sync_interval=2)
    assert_in_sync(log, max_token_drift=-1)
"""
    )
    project.runpytest("--sync-report=out/deep").assert_outcomes(failed=2)
    names = sorted(file.name for file in (project.path / "out" / "deep").glob("*.jsonl"))
    assert len(names) == 4
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)


# ---- the other fixtures ----------------------------------------------------------------------------------------------


def test_steps_and_virtual_time(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
import time, pytest
from multimodal.events import Reveal, Text
from multimodal.sync.kit import assert_no_spoiler

async def slowly():
    for number in range(6):
        yield f"word{number} "
        await asyncio.sleep(600)

@pytest.mark.sync(preset="strict")
def test_an_hour(sync_stream, sync_clock):
    begun = time.monotonic()
    tour = sync_stream(text_pipe=slowly(), image_pipe=pictures(), sync_interval=2)
    assert tour.until(Reveal).key == "a"
    assert [event.text for event in tour.advance(1200) if isinstance(event, Text)][-1] == "word2 "
    assert len(tour.rest().of(Reveal)) == 3
    assert sync_clock.now >= 3000
    assert time.monotonic() - begun < 30

@pytest.mark.sync(max_tokens=-1)
def test_fails_by_its_marker(sync_stream):
    sync_stream(text_pipe=words(), image_pipe=pictures()).rest()

def test_left_in_the_middle(sync_stream):
    sync_stream(text_pipe=slowly(), image_pipe=pictures()).step()

def test_clock(sync_clock):
    sync_clock.run(asyncio.sleep(86400))
    assert sync_clock.now == 86400
"""
    )
    result = project.runpytest()
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*'a' came late: 0 tokens*"])


def test_tours_over_simulated_networks(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
import pytest
from multimodal import SyncError
from multimodal.sync.link import LinkProfile
from multimodal.sync.kit import assert_no_growth

async def long():
    for number in range(60):
        yield f"word{number} "
        await asyncio.sleep(0.1)

async def many():
    for number in range(20):
        yield EncodedImage(f"p{number}", bytes(20_000), "image/webp", 4, 3)

@pytest.mark.parametrize("profile", ["good", "4g", "lossy", "slow", "jittery"])
@pytest.mark.sync(preset="strict")
def test_each(sync_link, profile):
    log = sync_link(profile, seed=3, text_pipe=long(), image_pipe=many())
    assert log.arrived and log.painted
    assert_no_growth(log)

@pytest.mark.sync(preset="strict")
def test_what_is_decoded_late_is_skipped(sync_link):
    sync_link("good", decode=0.9, text_pipe=long(), image_pipe=many(), late="skip")

def test_a_road_of_ones_own(sync_link, sync_clock):
    server, client = sync_link.pair(LinkProfile(delay=0.5))
    server.send_event("hello")
    assert sync_clock.run(client.receive()).data == "hello"
    assert sync_clock.now >= 0.5

def test_what_never_ends(sync_link):
    async def hanging():
        yield "word "
        await asyncio.sleep(10_000)
    with pytest.raises(SyncError, match="limit=50 virtual seconds"):
        sync_link("good", limit=50, text_pipe=hanging(), image_pipe=many())
"""
    )
    result = project.runpytest()
    result.assert_outcomes(passed=8)


def test_golden_recordings_are_written_only_when_asked_and_shown_for_review(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import asyncio, os
from multimodal.sync.kit import assert_same_log
from multimodal.values import EncodedImage

async def words():
    for number in range(6):
        yield f"{os.environ['WORD']}{number} "
        await asyncio.sleep(1)

async def pictures():
    for key in ("a", "b"):
        yield EncodedImage(key, b"x", "image/webp", 4, 3)

def test_real(sync_stream):
    assert_same_log(sync_stream(text_pipe=words(), image_pipe=pictures()).rest(), "golden/plain.jsonl")

def test_to_the_byte(sync_stream):
    assert_same_log(sync_stream(text_pipe=words(), image_pipe=pictures()).rest(), "golden/times.jsonl", times=True)
"""
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORD", "word")
        missing = project.runpytest()
        missing.assert_outcomes(failed=2)
        missing.stdout.fnmatch_lines(
            ["*there is no golden recording golden/*.jsonl; write it: pytest --update-golden*"]
        )
        written = project.runpytest("--update-golden")
        written.assert_outcomes(passed=2)
        written.stdout.fnmatch_lines(["*golden recordings written: review them*", "golden recording *: new, * events"])
        assert sorted(file.name for file in (project.path / "golden").iterdir()) == ["plain.jsonl", "times.jsonl"]
        project.runpytest().assert_outcomes(passed=2)
        kept = (project.path / "golden" / "times.jsonl").read_bytes()
        patch.setenv("WORD", "wort")
        differs = project.runpytest()
        differs.assert_outcomes(failed=2)
        differs.stdout.fnmatch_lines(
            [
                "*not the golden tour from event * on, after * and * ms: text 'wort*in place of text 'word*",
                "*cause     generator: *by its text*",
                "*--- golden/plain.jsonl",
                "*+{*wort*",
                "*if that is meant: pytest --update-golden rewrites golden/plain.jsonl*",
            ]
        )
        assert (project.path / "golden" / "times.jsonl").read_bytes() == kept
        changed = project.runpytest("--update-golden")
        changed.assert_outcomes(passed=2)
        changed.stdout.fnmatch_lines(["*review them*", "--- golden/*", "+{*wort*"])
        assert (project.path / "golden" / "times.jsonl").read_bytes() != kept
        project.runpytest().assert_outcomes(passed=2)


def test_without_chromium_the_browser_fixture_says_what_to_install(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import pytest
from multimodal import UsageError

def test_browser(browser_player, monkeypatch):
    monkeypatch.setenv("MULTIMODAL_CHROMIUM", "no-such-browser")
    with pytest.raises(UsageError, match="MULTIMODAL_CHROMIUM is 'no-such-browser'"):
        browser_player("--speed", "4")
    monkeypatch.delenv("MULTIMODAL_CHROMIUM")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="apt-get install chromium"):
        browser_player()
"""
    )
    project.runpytest().assert_outcomes(passed=1)


# ---- what is kept of a test ------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_test_is_judged_with_its_marker() -> None:
    case = TestCase("test_x.py::test_y", marker=((), {"preset": "strict"}))
    assert case.context.preset == "strict"
    with pytest.raises(UsageError, match="made no log"):
        case.judge()
    case.logs.append(tour())
    case.judge()
    plan = dict(enumerate([*cues(), Cue(3, "x")]))
    case.logs.append(msgspec.structs.replace(tour(), plan=plan))
    with pytest.raises(AssertionError, match=r"cue 3 \('x' at boundary 3\) has no outcome"):
        case.judge()
