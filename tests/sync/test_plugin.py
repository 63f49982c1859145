"""The pytest plugin: found by pytest, light to import, one fixture that plays or reads a tour, a report on failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from tests.sync.tours import tour

pytest_plugins = ["pytester"]

PIPES = """
import asyncio
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync
from multimodal.values import EncodedImage

async def words():
    for number in range(9):
        yield f"word{number} "
        await asyncio.sleep(0.001)

async def pictures():
    for key in ("a", "b", "c"):
        yield EncodedImage(key, b"x", "image/webp", 4, 3)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of its own that has the package installed; named here, so that a bare checkout finds the plugin too."""
    pytester.makeini("[pytest]\naddopts = -p multimodal.sync.plugin\nfilterwarnings = error")
    return pytester


def test_the_example_of_the_readme_runs(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
def test_the_tour_never_drifts(sync_log):
    assert_in_sync(sync_log(text_pipe=words(), image_pipe=pictures(), sync_interval=3), preset="strict")

def test_it_is_whole(sync_log):
    log = sync_log(text_pipe=words(), image_pipe=pictures(), sync_interval=4, late="hold", limit=20)
    assert_every_cue_settled(log, text="".join(f"word{number} " for number in range(9)))
    assert len(log.plan) == 3
"""
    )
    project.runpytest().assert_outcomes(passed=2)


def test_a_recording_may_be_read_in_place_of_playing(project: pytest.Pytester) -> None:
    tour().write(project.path / "recording.jsonl")
    project.makepyfile(
        PIPES
        + """
import pytest
from multimodal import UsageError

def test_a_recording(sync_log):
    assert_in_sync(sync_log(path="recording.jsonl"), preset="strict")
    with pytest.raises(UsageError, match="sync_interval would be ignored"):
        sync_log(path="recording.jsonl", sync_interval=3)
    with pytest.raises(UsageError, match="cannot read the recording gone.jsonl"):
        sync_log(path="gone.jsonl")
"""
    )
    project.runpytest().assert_outcomes(passed=1)


def test_a_failing_test_shows_the_drift_report_of_its_logs(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
def test_fails(sync_log):
    log = sync_log(text_pipe=words(), image_pipe=pictures())
    assert_in_sync(log, max_token_drift=-1)

def test_fails_without_a_log(sync_log):
    assert False
"""
    )
    result = project.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*DriftError: 'a' came late: 0 tokens*preset default)*",
            "*  words *",
            "*drift of sync_log 0*",
            "3 of 3 pictures shown",
            "token drift  at most 0 tokens",
        ]
    )
    assert result.stdout.str().count("drift of sync_log") == 1


def test_a_tour_that_hangs_fails_within_its_limit(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
import pytest
from multimodal import SyncError

async def hanging():
    yield "word "
    await asyncio.sleep(60)

def test_hangs(sync_log):
    with pytest.raises(SyncError, match="did not end within limit=0.2 s"):
        sync_log(text_pipe=hanging(), image_pipe=pictures(), limit=0.2)
"""
    )
    project.runpytest().assert_outcomes(passed=1)


def test_inside_a_running_loop_it_says_what_to_use(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + """
import pytest
from multimodal import UsageError

def test_async(sync_log):
    async def inside():
        with pytest.raises(UsageError, match="await multimodal.sync.kit.record"):
            sync_log(text_pipe=words(), image_pipe=pictures())
    asyncio.run(inside())
"""
    )
    project.runpytest().assert_outcomes(passed=1)


def test_the_plugin_loads_nothing_of_the_package_but_itself() -> None:
    """pytest imports it in every run of every project."""
    code = (
        "import sys, json, pytest; before = set(sys.modules); import multimodal.sync.plugin;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert set(json.loads(done.stdout)) <= {
        "multimodal",
        "multimodal._version",
        "multimodal.sync",
        "multimodal.sync.plugin",
    }


def test_wrong_arguments_are_the_streams_own_errors(project: pytest.Pytester) -> None:
    project.makepyfile(
        PIPES
        + f"""
import pytest
from multimodal.errors import {UsageError.__name__}

def test_wrong(sync_log):
    with pytest.raises(UsageError, match="wrap text in ScriptTextPipe"):
        sync_log(text_pipe="one two three", image_pipe=pictures())
"""
    )
    project.runpytest().assert_outcomes(passed=1)
