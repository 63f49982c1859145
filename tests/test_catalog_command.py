"""The command `multimodal catalog`."""

from __future__ import annotations

import json
import logging
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from multimodal.cli import main
from multimodal.picture_options import telling_failures
from multimodal.pipes.catalog import load_catalog
from tests.pipes.pictures import quarters, write

GOOD = (
    "id,title,image,price,variant_id,option1 name,option1 value\n"
    "k,Kettle,pictures/k.jpg,5 EUR,k-s,Size,S\n"
    "k,,,6 EUR,k-m,,M\n"
)
BAD = "id,title,image,price\nk,Kettle,k.jpg,5 EUR\nk,Again,k.jpg,\nm,Mug,m.jpg,soon\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write(tmp_path / "pictures" / "k.jpg", quarters())
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "bad.csv").write_text(BAD)
    return tmp_path


def test_an_import_is_our_own_json_and_loads_as_the_same_products(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shop / "catalog.json"
    assert main(["catalog", "import", str(shop / "good.csv"), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 products, 1 of 1 pictures found" in captured.err
    first, again = load_catalog(shop / "good.csv"), load_catalog(out)
    assert (again.products, again.format) == (first.products, "json")
    assert [picture.path for picture in again.pictures] == [shop / "pictures" / "k.jpg"]
    assert main(["catalog", "import", str(shop / "good.csv"), "--out", str(out)]) == 2
    assert "there already" in capsys.readouterr().err
    assert main(["catalog", "import", str(shop / "bad.csv"), "--out", str(out), "--force", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["format"], summary["products"], summary["ok"], summary["out"]) == ("csv", 2, False, str(out))
    assert not list(shop.glob(".*"))


def test_found_pictures_are_named_from_the_new_file(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "feeds").mkdir()
    (shop / "feeds" / "web.csv").write_text("id,title,image\nk,Kettle,https://x/k.jpg\nm,Mug,https://x/m.jpg\n")
    options = ["--images", str(shop / "pictures"), "--out", str(shop / "own.json")]
    assert main(["catalog", "import", str(shop / "feeds" / "web.csv"), *options]) == 0
    kettle, mug = load_catalog(shop / "own.json").products
    assert (kettle.images[0].source, mug.images[0].source) == ("pictures/k.jpg", "https://x/m.jpg")


def test_an_import_that_cannot_be_written_says_so(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "import", str(shop / "good.csv"), "--out", str(shop / "none" / "x.json")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_check_names_problems_by_line_and_its_exit_code_tells(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "check", str(shop / "good.csv")]) == 0
    found = "csv: 1 products, 1 of 1 pictures found\n"
    assert capsys.readouterr() == (found + "1 of 1 pictures can be shown\n", "")
    assert main(["catalog", "check", str(shop / "good.csv"), "--no-pictures"]) == 0
    assert capsys.readouterr().out == found
    assert main(["catalog", "check", str(shop / "bad.csv")]) == 1
    printed = capsys.readouterr().out
    assert "line 3: left out, duplicate_id" in printed
    assert "line 4: taken, bad_price: 'soon' is no price" in printed
    assert main(["catalog", "check", str(shop / "bad.csv"), "--limit", "1"]) == 1
    assert "  and 3 more\n0 of 2 pictures can be shown" in capsys.readouterr().out
    assert main(["catalog", "check", str(shop / "bad.csv"), "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert [(entry["line"], entry["reason"]) for entry in summary["rejected"]] == [(3, "duplicate_id")]


def test_check_looks_into_every_picture(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (shop / "pictures" / "k.jpg").read_bytes()
    broken = {"cut": whole[: len(whole) // 2], "none": b"", "drawn": b"<svg></svg>", "page": b"<html></html>"}
    broken["film"] = b"\x1aE\xdf\xa3" + bytes(99)
    for name, data in broken.items():
        (shop / "pictures" / f"{name}.jpg").write_bytes(data)
    rows = "".join(f"{name},The {name},{name}.jpg\n" for name in ("k", *broken, "gone"))
    (shop / "shop.csv").write_text("id,title,image\n" + rows)
    words = ["catalog", "check", str(shop / "shop.csv"), "--images", str(shop / "pictures")]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "6 of 7 pictures found" in out
    assert "1 of 7 pictures can be shown" in out
    for name, reason in (
        ("cut", "truncated"),
        ("none", "empty"),
        ("drawn", "svg"),
        ("page", "html"),
        ("film", "video"),
    ):
        assert f"picture {name} of {name}: {reason}: " in out
    assert out.count("gone.jpg") == 1
    assert "rename it to end in .mp4" in out
    assert main([*words, "--no-pictures"]) == 0
    assert main([*words, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["pictures_refused"]) == 6


def test_check_names_the_problems_of_a_file_without_any_product(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "none.csv").write_text("id,title,image\nk,,k.jpg\nm,,m.jpg\n")
    (shop / "bare.csv").write_text("id,title,image\n")
    assert main(["catalog", "check", str(shop / "none.csv")]) == 1
    assert "line 2: left out, no_title" in capsys.readouterr().out
    assert main(["catalog", "check", str(shop / "bare.csv")]) == 1
    assert "no_rows: it holds nothing below the row of column names" in capsys.readouterr().out
    assert main(["catalog", "show", str(shop / "bare.csv")]) == 2
    assert "nothing below the row of column names" in capsys.readouterr().err
    assert main(["catalog", "import", str(shop / "none.csv"), "--out", str(shop / "x.json")]) == 2
    assert "no product in the catalogue" in capsys.readouterr().err


def test_problems_of_several_formats_are_counted_as_each_file_does(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "own.json").write_text(json.dumps({"products": [{"id": "t", "title": "Tray"}, {"id": "u"}]}))
    (shop / "two.csv").write_text("id,title,image\nm,,m.jpg\n<b>,<script>alert(1)</script>,m.jpg\n<b>,,n.jpg\n")
    assert main(["catalog", "check", str(shop / "own.json"), str(shop / "two.csv")]) == 1
    out = capsys.readouterr().out
    assert out.startswith("json, csv: 1 products")
    assert "own.json, product 2: left out, no_title" in out
    assert "two.csv, line 2: left out, no_title" in out
    assert "two.csv, line 3: left out, malformed: its title '<script>alert(1)</script>' is markup" in out
    assert "two.csv, line 4: left out, continues_left_out" in out


def test_json_of_no_known_form_names_the_option(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "odd.json").write_text('[{"a": 1}]')
    assert main(["catalog", "check", str(shop / "odd.json")]) == 2
    assert "--format" in capsys.readouterr().err


def test_pictures_that_fail_while_a_tour_is_served_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("multimodal.pumps")
    logger.info("before")
    with telling_failures():
        logger.info("picture %r: %s", "cut", "truncated")
    logger.info("after")
    assert capsys.readouterr().err == "picture 'cut': truncated\n"


def test_show_prints_a_table_or_one_product(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalog", "show", str(shop / "good.csv"), str(shop / "bad.csv"), "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "title", "price", "stock", "pictures", "choices"]
    assert lines[1].split() == ["k", "Kettle", "5", "EUR", "1", "2"]
    assert lines[2] == "and 1 more"
    assert main(["catalog", "show", str(shop / "good.csv"), "--product", "k"]) == 0
    printed = capsys.readouterr().out
    assert "Kettle (k)" in printed
    assert "choice k-m: M; Size M; 6 EUR" in printed
    assert main(["catalog", "show", str(shop / "good.csv"), "--product", "k", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["products"][0]["title"] == "Kettle"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["show", "good.csv", "--product", "zebra"], "no product 'zebra'"),
        (["check", "none.csv"], "No such file"),
        (["check", "good.csv", "--map", "title"], "title=name,id=slug"),
        (["check", "good.csv", "--map", "title=nowhere"], "no column 'nowhere'"),
        (["check", "good.csv", "--format", "odt"], "no format 'odt'"),
        (["check", "good.csv", "--currency", "gold"], "no code of ISO 4217"),
        (["check", "good.csv", "--limit", "-1"], "0 or more"),
        (["check", "good.csv", "--no-pictures", "--fetch"], "give one of them"),
        (["check", "good.csv", "--fetch", "--fetch-allow", "banana"], "--fetch-allow (allow= in code) 'banana'"),
        (["check", "good.csv", "--encoding", "morse"], "no encoding is called 'morse'"),
    ],
)
def test_wrong_use_is_told_in_one_sentence(
    shop: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    assert main(["catalog", *words]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [True, False])
def test_a_progress_bar_is_for_terminals_only(shop: Path, terminal: bool) -> None:
    rows = "".join(f"k{number},Kettle {number},https://x/{number}.jpg\n" for number in range(3000))
    (shop / "many.csv").write_text("id,title,image\n" + rows)
    reader, writer = pty.openpty() if terminal else os.pipe()
    if terminal:
        termios.tcsetwinsize(writer, (24, 80))
    try:
        done = subprocess.Popen(
            [sys.executable, "-m", "multimodal", "catalog", "check", "many.csv"],
            cwd=shop,
            stdout=subprocess.PIPE,
            stderr=writer,
        )
        os.close(writer)
        seen = b""
        while True:
            try:
                part = os.read(reader, 65536)
            except OSError:  # how a terminal says that nobody writes any more
                break
            if not part:
                break
            seen += part
        assert done.communicate(timeout=60)[0].startswith(b"csv: 3000 products")
        assert done.returncode == 0
    finally:
        os.close(reader)
    assert (b"reading" in seen and b"3,000 rows" in seen) if terminal else seen == b""
