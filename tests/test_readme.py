"""The README says what is true: its examples run and print what it shows."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from tests.demos.test_narrators import model
from tests.pipes.pictures import quarters, write
from tests.support import TINY_LLAMA

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    found = [text for kind, text in blocks if kind == language and containing in text]
    assert len(found) == 1, f"README has {len(found)} blocks of {language!r} with {containing!r}"
    return found[0]


def stripped(line: str) -> str:
    """A printed event without what differs from run to run: its time, and what follows a shortening."""
    return re.sub(r"^\s*[\d.]+ s\s+", "", line).split("...")[0].rstrip()


def test_the_ten_lines_print_what_the_readme_shows(tmp_path: Path) -> None:
    script = block("python", "async for event in stream")
    assert len([line for line in script.splitlines() if line.strip()]) <= 12
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = [stripped(line) for line in done.stdout.splitlines()]
    shown = [stripped(line) for line in block("", "reveal").splitlines()]
    position = -1
    for line in shown:
        matching = [i for i, other in enumerate(printed) if i > position and other.startswith(line)]
        assert matching, f"README shows {line!r}, which is not printed after line {position}:\n{done.stdout}"
        position = matching[0]
    assert printed[-1].startswith("end")
    assert done.stderr == ""


def test_the_promise_runs_as_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_promise.py").write_text(block("python", "def test_the_tour_never_drifts"), encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_a_shops_own_catalogue_is_warmed_and_searched(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "kettle.jpg", quarters(60, 40))
    rows = "id,title,image,description\nkettle,Halo Kettle,kettle.jpg,To boil water in.\nmug,Pebble Mug,,For tea.\n"
    (tmp_path / "products.csv").write_text(rows)
    script = block("python", "Retriever(catalog.products)")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    warmed, found = done.stdout.splitlines()
    assert warmed.startswith("Warmed(ready=8, refused=()")
    assert found == "kettle"
    (tmp_path / "products.csv").write_text("id,title,image\nlamp,Lamp,kettle.jpg\n")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1, "something was found where no word fits"


def test_a_language_model_speaks_and_its_pictures_follow(tmp_path: Path) -> None:
    done = with_model(block("python", "text = LocalTextPipe("), tmp_path)
    lines = done.stdout.splitlines()
    spoken = "".join(re.findall(r"text='([^']*)'", "\n".join(line for line in lines if " text " in line)))
    assert spoken == "The Halo Kettle costs 89 euros."
    assert sum(" reveal " in line for line in lines) == 3
    assert lines[-1].endswith(" end")


def test_a_processor_stands_where_generate_stood(tmp_path: Path) -> None:
    done = with_model(block("python", "StreamProcessor("), tmp_path)
    text, _, shape = done.stdout.rpartition("torch.Size")
    assert text.startswith(" A stovetop kettle in deep green enamel.")
    words = re.search(r"\[1, (\d+)\]", shape)
    assert words is not None
    assert int(words[1]) > 24


def test_a_guided_prompt_s_markers_show_the_pictures(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "kettle.jpg", quarters(60, 40))
    (tmp_path / "products.csv").write_text("id,title,image\nkettle,Halo Kettle,kettle.jpg\n")
    script, asked = block("python", "guided_messages(sheets"), list[dict[str, Any]]()
    assert "http://127.0.0.1:8000/v1" in script

    async def scenario() -> tuple[bytes, bytes]:
        async with model(asked, says=lambda title: ["[[show:", "kettle]]Here", " it", f" is: {title}", "."]) as url:
            words = [sys.executable, "-W", "error", "-c", script.replace("http://127.0.0.1:8000/v1", url)]
            run = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, stdout=PIPE, stderr=PIPE)
            return await run.communicate()

    out, err = (each.decode() for each in asyncio.run(scenario()))
    assert err == ""
    assert "write [[show:ID]] right before it" in asked[0]["messages"][0]["content"]
    assert "[[" not in out
    assert sum(" reveal " in line for line in out.splitlines()) == 1


OTHER_NARRATOR = f"""
from multimodal.pipes import local_narrator
from multimodal.pipes.local_loading import LocalModel
from multimodal.pipes.narrator_prompt import Asked

def questions(sheets, shop, seed):
    assert (shop, seed) == ("Larkmoor", 1)
    return tuple(
        Asked([dict(role="user", content=f"How much is the {{sheet.title}}?")], sheet.product_id, "price", sheet.facts)
        for sheet in sheets
    )

local_narrator.plan_tour_prompts = questions
local_narrator.adapted_model = lambda quant_mode: LocalModel.load({str(TINY_LLAMA)!r}, quant_mode=quant_mode)
"""
"""The tests' own model in the place of the narrator's, asked what it has by heart."""


def test_the_local_narrator_tells_a_tour_in_code(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "kettle.jpg", quarters(60, 40))
    (tmp_path / "products.csv").write_text("id,title,image\nkettle,Halo Kettle,kettle.jpg\n")
    script = OTHER_NARRATOR + block("python", "LocalNarrator(")
    words = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    spoken = "".join(re.findall(r"text='([^']*)'", "\n".join(line for line in lines if " text " in line)))
    assert spoken == "The Halo Kettle costs 89 euros."
    assert sum(" reveal " in line for line in lines) == 1


def with_model(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run with the tests' own model in the place of the reader's."""
    assert "path/to/model" in script
    words = [sys.executable, "-W", "error", "-c", script.replace("path/to/model", str(TINY_LLAMA))]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)


def test_the_sum_that_is_shown_is_what_the_command_prints() -> None:
    shown = block("", "$ multimodal estimate").splitlines()
    words = [sys.executable, "-m", *shown[0].removeprefix("$ ").split(), "--no-bandwidth"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    printed = done.stdout.splitlines()
    assert [line for line in shown[1:] if line not in printed] == []


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_commands_and_options_exist() -> None:
    helps = ""
    for command in ("", "tour", "bench", "estimate", "doctor", "catalog check"):
        words = ["multimodal", *command.split(), "--help"]
        helps += subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=True).stdout
    # The plugin's own options are pytest's to list.
    helps += subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)):
        assert option in helps, option


def test_a_false_price_is_told_with_what_the_sheet_says(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "kettle.jpg", quarters(60, 40))
    rows = "id,title,price,currency,image,material\nkettle,Halo Kettle,89,EUR,kettle.jpg,brass\n"
    (tmp_path / "products.csv").write_text(rows)
    script = block("python", "guard.violations(")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "price 'ninety-nine euros' was said of kettle; its sheet says: 89 euros\n"
