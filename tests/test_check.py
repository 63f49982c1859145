"""`tour --check` in a real Chromium: the demo tour, the real-world catalogue, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from multimodal.bench.real_catalogue import MAPPING, real_catalogue
from multimodal.check import check_tour, serving, summary
from multimodal.cli import main
from multimodal.errors import SyncError, UsageError
from multimodal.sync.kit import assert_every_cue_settled, assert_in_sync, assert_right_product
from multimodal.sync.log import SyncLog
from tests.demos.test_narrators import FALSE, model, wrongly
from tests.pipes.pictures import quarters, write
from tests.pipes.videos import gradient, write_video

pytestmark = pytest.mark.browser

FIELDS = {
    *("products", "reveals_expected", "reveals_shown", "missed", "wrong_products", "token_drift_max", "skew_ms"),
    *("same_frame_share", "layout_shift", "events_lost", "events_duplicated", "first_text_ms", "total_ms"),
    *("transport", "sync_interval", "late", "receipts_agree", "pixel_same_frame_share", "ok", "log"),
}


def assert_holds(result: dict[str, Any], interval: int) -> SyncLog:
    """What a tour must show, whatever the machine's load: shares have their bars in the benchmark."""
    assert result.keys() >= FIELDS
    assert result["reveals_shown"] == result["reveals_expected"] > 0
    assert (result["wrong_products"], result["events_lost"], result["events_duplicated"]) == (0, 0, 0)
    assert result["token_drift_max"] <= interval - 1
    assert result["layout_shift"] == 0
    assert result["same_frame_share"] >= 0.9
    assert result["off_mark"] == result["holds_broken"] == 0
    log = SyncLog.read(result["log"])
    assert_every_cue_settled(log)
    assert_right_product(log)
    assert_in_sync(log, preset="default")
    return log


def test_the_demo_tour(tmp_path: Path) -> None:
    result = asyncio.run(check_tour(["--speed", "4"], record=tmp_path / "tour.jsonl"))
    log = assert_holds(result, 3)
    assert result["products"] == 8
    assert result["reveals_shown"] == 16
    assert log.start is not None
    assert result["narrator"] == log.start.narrator == "extractive"
    assert result["guard_told"] is None
    assert log.arrived
    assert log.painted
    assert f"{result['reveals_shown']} of 16 pictures of 8 products" in summary(result)


def test_the_demo_tour_in_chinese_at_every_token() -> None:
    result = asyncio.run(check_tour(["--lang", "zh", "--speed", "8", "--sync-interval", "1"]))
    assert_holds(result, 1)
    assert (result["narrator"], result["reveals_shown"], result["token_drift_max"]) == ("extractive", 16, 0)


@pytest.mark.slow
def test_the_real_world_catalogue() -> None:
    table, pictures = real_catalogue()
    words = ["--speed", "16", "--catalog", str(table), "--images", str(pictures)]
    words += ["--map", ",".join(f"{ours}={theirs}" for ours, theirs in MAPPING.items())]
    result = asyncio.run(check_tour(words))
    assert_holds(result, 3)
    assert result["reveals_shown"] == 54


def test_a_model_s_tour_says_how_often_its_guard_had_to_tell() -> None:
    async def scenario() -> dict[str, Any]:
        async with model([], says=wrongly(FALSE["after its name"])) as url:
            return await check_tour(["--narrator", url, "--model", "m", "--speed", "8", "--sync-interval", "1"])

    result = asyncio.run(scenario())
    assert_holds(result, 1)
    assert (result["narrator"], result["reveals_shown"], result["guard_told"]) == ("remote: m", 8, 1)
    assert result["never_named"] == []
    assert "the fact guard told of 1 sentence" in summary(result)


def test_what_a_stopped_tour_never_named_is_told_and_is_not_well() -> None:
    async def scenario() -> dict[str, Any]:
        async with model([], says=wrongly(FALSE["after its name"])) as url:
            return await check_tour(["--narrator", url, "--model", "m", "--speed", "8", "--guard", "stop"])

    result = asyncio.run(scenario())
    assert (result["reveals_shown"], result["reveals_expected"], len(result["never_named"])) == (3, 3, 5)
    assert not result["ok"]
    assert "never named         5 of the tour's products: " in summary(result)


def test_a_clip_is_not_judged_by_pixels(tmp_path: Path) -> None:
    write_video(tmp_path / "k.mp4", [gradient(n, 30, (320, 240)) for n in range(30)])
    write(tmp_path / "m.jpg", quarters())
    (tmp_path / "shop.csv").write_text("id,title,image\nm,Mug,m.jpg\nk,Kettle,k.mp4\n")
    result = asyncio.run(check_tour(["--speed", "4", "--catalog", str(tmp_path / "shop.csv")]))
    assert_holds(result, 3)
    assert (result["clips"], result["reveals_shown"]) == (1, 2)
    assert "1 clip not judged by pixels" in summary(result)


def test_slow_pictures_are_skipped_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["tour", "--check", "--json", "--speed", "4", "--slow-images", "800", "--late", "skip"])
    result = json.loads(capsys.readouterr().out)
    assert result["missed"] == {"late": 16}
    assert result["reveals_shown"] == 0
    assert result["same_frame_share"] is None
    assert code == (0 if result["ok"] else 1)


def test_what_goes_wrong_beside_the_server_comes_out_as_it_is() -> None:
    async def main() -> None:
        async with serving(["--port", "0"]):
            raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="own"):
        asyncio.run(main())


def test_a_tour_that_stops_is_told_with_the_server_s_reason() -> None:
    with pytest.raises(
        SyncError, match=r"'The narration stopped early\.'; the server said: .*127\.0\.0\.1:9/v1 cannot"
    ):
        asyncio.run(check_tour(["--narrator", "http://127.0.0.1:9/v1", "--model", "none"]))


def test_options_that_the_server_refuses_are_told_in_its_words() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        asyncio.run(check_tour(["--sync-interval", "0"]))


def test_without_a_chromium_the_command_to_install_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MULTIMODAL_CHROMIUM", raising=False)
    assert main(["tour", "--check", "--speed", "8"]) == 2
    assert "apt-get install chromium" in capsys.readouterr().err
