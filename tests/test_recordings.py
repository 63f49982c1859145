"""What the command does with recordings: check, timeline, redact, golden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from multimodal.cli import main
from multimodal.events import Reveal, StreamEnd
from multimodal.recordings import write_golden
from multimodal.sync.log import SyncLog
from multimodal.sync.redact import redacted
from tests.sync.tours import changed, index, tour


@pytest.fixture
def good(tmp_path: Path) -> Path:
    tour().write(tmp_path / "good tour.jsonl")
    return tmp_path / "good tour.jsonl"


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """The mug's picture is said to be the lamp's."""
    log = tour()
    place = index(log, Reveal, 1)
    changed(log, place, product="lamp").write(tmp_path / "faulty.jsonl")
    return tmp_path / "faulty.jsonl"


def test_check_says_ok_and_its_exit_code_too(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("OK: in sync by the preset default\n3 of 3 pictures shown\n")
    assert main(["check", str(good), "--preset", "strict", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["ok"], result["preset"], result["faults"]) == (True, "strict", [])
    assert result["drift"]["reveals_shown"] == 3


def test_check_tells_every_fault(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT OK: ")
    assert "words     …the Moss Mug,| glazed by hand." in out
    assert f"multimodal timeline {faulty} -o timeline.html" in out
    assert main(["check", str(faulty), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert {"verdict", "cause", "why", "token", "where", "words"} == result["faults"][0].keys()


@pytest.mark.parametrize(
    "words",
    [
        ["check", "nowhere.jsonl"],
        ["timeline", "nowhere.jsonl", "-o", "x.html"],
        ["redact", "nowhere.jsonl", "-o", "x.jsonl"],
        ["golden", "nowhere.jsonl", "-o", "x"],
    ],
)
def test_a_recording_that_is_not_there_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert "cannot read the recording nowhere.jsonl" in printed.err
    assert printed.out == ""


def test_timeline_writes_one_page(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(good), "-o", str(tmp_path / "page.html")]) == 0
    assert "one file" in capsys.readouterr().out
    assert "good tour.jsonl: drift timeline" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["timeline", str(good), "-o", str(tmp_path / "no" / "page.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_redact_writes_another_file_and_never_the_same(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "redacted.jsonl"
    assert main(["redact", str(good), "-o", str(out)]) == 0
    assert SyncLog.read(out).events == redacted(SyncLog.read(good)).events
    before = good.read_bytes()
    capsys.readouterr()
    assert main(["redact", str(good), "-o", str(good)]) == 2
    assert "is the recording itself" in capsys.readouterr().err
    assert good.read_bytes() == before
    assert main(["check", str(out)]) == 0


def run_golden(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_golden_test_holds_a_recording_to_what_it_is(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "golden"
    assert main(["golden", str(good), "-o", str(folder), "--preset", "strict"]) == 0
    assert "read the test before you commit it" in capsys.readouterr().out
    assert (folder / "good_tour.jsonl").read_bytes() == good.read_bytes()
    done = run_golden(folder)
    assert "5 passed" in done.stdout, done.stdout
    source = (folder / "test_good_tour.py").read_text()
    assert 'Outcome("reveal", "mug-1", 17, 18),' in source
    # Another outcome, another text: the recording itself is held, too.
    log = SyncLog.read(folder / "good_tour.jsonl")
    changed(log, index(log, Reveal, 1), mark=21).write(folder / "good_tour.jsonl")
    assert run_golden(folder).returncode == 1


def test_a_golden_test_pins_a_fault_as_it_is(faulty: Path, tmp_path: Path) -> None:
    told = write_golden(faulty, tmp_path / "golden", "default")
    assert "pinned as a fault: wrong product: 'mug-1'" in told
    assert "pytest.raises(DriftError, match=" in (tmp_path / "golden" / "test_faulty.py").read_text()
    assert "passed" in run_golden(tmp_path / "golden").stdout
    assert run_golden(tmp_path / "golden").returncode == 0


def test_nothing_is_written_over_and_half_a_recording_is_no_golden(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "golden"
    assert main(["golden", str(good), "-o", str(folder)]) == 0
    (folder / "good_tour.jsonl").unlink()
    test = (folder / "test_good_tour.py").read_bytes()
    assert main(["golden", str(good), "-o", str(folder)]) == 2
    assert "is not written over" in capsys.readouterr().err
    assert (folder / "test_good_tour.py").read_bytes() == test
    log = SyncLog.read(good)
    events = tuple(event for event in log.events if not isinstance(event, StreamEnd))
    msgspec.structs.replace(log, events=events).write(good)
    assert main(["golden", str(good), "-o", str(tmp_path / "other")]) == 2
    assert "breaks off before its end" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_what_the_aligner_makes_otherwise_is_left_out_and_told(tmp_path: Path) -> None:
    log = tour()
    # As a dwell would have it: the mug came a mark later than the aligner, fed once more, puts it.
    place = index(log, Reveal, 1)
    changed(log, place, mark=21).write(tmp_path / "dwell.jsonl")
    assert "left out: fed to the aligner once more" in write_golden(tmp_path / "dwell.jsonl", tmp_path / "g", "relaxed")
    assert "rerun(" not in (tmp_path / "g" / "test_dwell.py").read_text()
