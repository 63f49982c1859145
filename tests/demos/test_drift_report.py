"""The drift report: its command, its figures, and a page that asks nobody else for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.routing import Route

from multimodal.demos.drift_report.__main__ import app_of, main
from multimodal.demos.drift_report.play import CONDITIONS, DEFAULT, HIDDEN, choose
from multimodal.errors import UsageError
from multimodal.sync.drift import drift_report
from multimodal.sync.log import SyncLog


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole report, by its one command."""
    folder = tmp_path_factory.mktemp("drift") / "report"
    command = [sys.executable, "-m", "multimodal.demos.drift_report", "--speed", "2", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("wrote 11 files")
    return folder


def test_every_condition_stays_in_sync_and_has_its_own_figures(written: Path) -> None:
    reports = {name: drift_report(SyncLog.read(written / f"{name}.jsonl")) for name in DEFAULT}
    for report in reports.values():
        assert report.reveals_shown == report.reveals_expected == 16
        assert report.token_drift_max is not None
        assert report.token_drift_max <= 2
        assert report.same_frame_share == 1.0
    assert {name: report.previews for name, report in reports.items() if report.previews} == {"slow-cdn": 16}
    assert {name for name, report in reports.items() if report.apart} == {"hidden-tab"}
    delays = {name: report.latency_ms["painted"].p50 or 0.0 for name, report in reports.items()}
    assert delays["good"] < delays["lossy"] < delays["4g"]
    hidden = SyncLog.read(written / "hidden-tab.jsonl").painted
    share = sum(not receipt.visible for receipt in hidden) / len(hidden)
    assert share == pytest.approx(HIDDEN[1] - HIDDEN[0], abs=0.05)


def test_the_page_says_that_it_is_simulated_and_shows_every_timeline(written: Path) -> None:
    page = (written / "index.html").read_text(encoding="utf-8")
    assert "Simulated." in page
    assert "the clock is virtual" in page
    assert page.count('class="ok">in sync<') == len(DEFAULT)
    assert re.findall(r'<iframe src="([^"]+)"', page) == [f"{name}.html" for name in DEFAULT]
    assert page.count('class="preview"') == 16 + 1, "those of the slow CDN, and the legend's"
    assert page.count('class="away"') == 1 + 1


def test_nothing_is_loaded_from_elsewhere(written: Path) -> None:
    for path in written.glob("*.html"):
        page = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in page
        assert "<script" not in page
        assert re.findall(r'(?:src|href)="((?:https?:)?//[^"]*)"|url\(|@import', page) == []


def test_it_is_served_as_it_is_written(written: Path) -> None:
    files = {path.name: path.read_bytes() for path in written.iterdir()}
    routes = [route.path for route in app_of(files).routes if isinstance(route, Route)]
    assert sorted(routes) == sorted(["/", *(f"/{name}" for name in files if name != "index.html")])


def test_an_unknown_profile_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no profile '5g'; there are: good, 4g, lossy, slow-cdn, hidden-tab"):
        choose(["good", "5g"])
    assert list(choose(["4G", " good"])) == ["4g", "good"]
    assert main(["--profiles", "5g"]) == 2
    assert ", ".join(CONDITIONS) in capsys.readouterr().err


def test_a_wrong_speed_and_a_place_that_cannot_be_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--speed", "0"]) == 2
    assert "--speed 0.0 must be above 0" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["--profiles", "good", "--speed", "20", "-o", str(tmp_path / "file")]) == 2
    assert "cannot write the report to" in capsys.readouterr().err
