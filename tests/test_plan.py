"""`multimodal plan`: the demo tour is free of remarks, a shop's own catalogue gets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multimodal.cli import main
from multimodal.pipes.samples import samples
from multimodal.plan import plan_text


def test_the_demo_tour_has_nothing_to_remark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--narrator", "script"]) == 0
    out = capsys.readouterr().out
    assert "tokens over" in out.splitlines()[0]
    assert "halo-kettle-hero        …The Halo Kettle| holds 1.6 litres…" in out
    assert out.endswith("nothing to remark\n")


@pytest.mark.parametrize("words", [[], ["--lang", "zh"], ["--seed", "3"], ["--lang", "zh", "--seed", "3"]])
def test_nor_has_the_extractive_narrators(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", *words]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["pictures"]) == 16
    assert result["findings"] == []


def test_speed_and_interval_change_the_timeline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", "--narrator", "script"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main(["plan", "--json", "--narrator", "script", "--speed", "2", "--sync-interval", "1"]) in (0, 1)
    fast = json.loads(capsys.readouterr().out)
    assert fast["seconds"] == pytest.approx(plain["seconds"] / 2, abs=0.01)
    assert all(place["mark"] == place["anchor"] for place in fast["pictures"])


def test_a_catalogue_is_linted_for_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = sorted(Path(str(samples("kettle"))).glob("*.jpg"))[0]
    (tmp_path / "kettle.jpg").write_bytes(picture.read_bytes())
    rows = "id,title,image,description\na,Halo Kettle,kettle.jpg,It boils.\nb,Moss Mug,,It holds tea.\n"
    (tmp_path / "shop.csv").write_text(rows)
    words = ["plan", "--catalog", str(tmp_path / "shop.csv"), "--link-kbps", "1", "--json"]
    assert main(words) == 1
    result = json.loads(capsys.readouterr().out)
    assert [(finding["code"], finding["key"]) for finding in result["findings"]] == [
        ("too_large", "a"),
        ("no_picture", "b"),
    ]
    assert result["pictures"][0]["size_bytes"] > 1000
    assert main([*words[:-2], "1e9"]) == 1
    out = capsys.readouterr().out
    assert "KiB)" in out
    assert out.endswith("\n1 remark\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--speed", "0"], "--speed 0.0 must be above 0"),
        (["--sync-interval", "0"], "at least 1"),
        (["--min-dwell", "-1"], "min_dwell=-1.0"),
        (["--link-kbps", "0"], "link_kbps=0.0"),
        (["--map", "title=name"], "describe a --catalog"),
    ],
)
def test_wrong_use_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_table_has_a_line_for_each_picture() -> None:
    place = {"key": "k", "at": 1.0, "anchor": 3, "mark": 3, "words": "over\n\nand out", "size_bytes": None}
    told = {"tour": "t", "tokens": 5, "seconds": 2.0, "sync_interval": 3, "pictures": [place], "findings": []}
    assert "k        over and out" in plan_text(told)
    assert plan_text(told).count("\n") == 5


def test_a_blocklist_masks_the_timeline_and_titles_among_its_words_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("# ours\nkettle\n")
    assert main(["plan", "--narrator", "script", "--blocklist", str(words)]) == 1
    printed = capsys.readouterr()
    assert "…The Halo ******| holds 1.6 litres…" in printed.out
    assert printed.out.count("not_mentioned") == 2
    assert (
        f"{words} holds words of these titles: 'Halo Kettle'; their pictures come beside a masked name" in printed.err
    )
    words.write_text("stovetop\n")
    assert main(["plan", "--blocklist", str(words)]) == 0
    assert capsys.readouterr().err == ""
