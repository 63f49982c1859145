"""The folder of prepared pictures (D1-D5): it survives restarts, kills and spoilt files."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from multimodal.errors import UsageError
from multimodal.pipes.encode import Encoded
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import ImageSettings
from multimodal.pipes.ladder import AVIF, WEBP, Rung
from multimodal.pipes.picture_disk import STALE, PictureDisk
from multimodal.values import ViewerNeeds
from tests.pipes.pictures import quarters, write
from tests.support import run


def encoded(fill: bytes, size: int = 1000) -> Encoded:
    data = fill * size
    return Encoded(data, 30, 20, "data:image/webp;base64,xx", hashlib.sha256(data).hexdigest(), WEBP, "#102030")


def name(content: str) -> str:
    return PictureDisk.name(content, ImageSettings(), Rung())


def file_of(folder: Path) -> Path:
    (found,) = [path for path in folder.rglob("*") if path.is_file()]
    return found


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    disk = PictureDisk(tmp_path / "pictures")
    assert disk.get(name("a")) is None
    disk.put(name("a"), encoded(b"a"))
    for again in (disk, PictureDisk(tmp_path / "pictures")):
        assert again.get(name("a")) == encoded(b"a")
        assert again.get(name("b")) is None
    assert again.stats().entries == again.stats().hits == again.stats().misses == 1


def test_whatever_changes_the_bytes_changes_the_name() -> None:
    names = {
        PictureDisk.name(content, settings, rung)
        for content in ("a", "b")
        for settings in (ImageSettings(), ImageSettings(quality=70), ImageSettings(background="#000000"))
        for rung in (Rung(), Rung(AVIF), Rung(max_px=640), Rung(budget_bytes=1))
    }
    assert len(names) == 2 * 3 * 4


@pytest.mark.parametrize("place", [0, 10, 40, 60, -1])
def test_a_spoilt_file_is_no_picture(place: int, tmp_path: Path) -> None:
    disk = PictureDisk(tmp_path)
    disk.put(name("a"), encoded(b"a"))
    path = file_of(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)
    assert disk.get(name("a")) is None
    assert not path.exists()
    assert disk.stats().spoilt == 1
    assert disk.stats().bytes == 0


@pytest.mark.parametrize("length", [0, 3, 40, 41, 200, -1])
def test_a_cut_file_is_no_picture(length: int, tmp_path: Path) -> None:
    disk = PictureDisk(tmp_path)
    disk.put(name("a"), encoded(b"a"))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert disk.get(name("a")) is None
    assert disk.stats().spoilt == 1


def test_a_file_under_another_name_is_no_picture(tmp_path: Path) -> None:
    disk = PictureDisk(tmp_path)
    disk.put(name("a"), encoded(b"a"))
    other = tmp_path / name("b")[:2] / name("b")
    other.parent.mkdir(exist_ok=True)
    file_of(tmp_path).rename(other)
    assert disk.get(name("b")) is None


def test_the_least_recently_used_go_first_and_a_restart_remembers(tmp_path: Path) -> None:
    disk = PictureDisk(tmp_path)
    for number, content in enumerate("abc"):
        disk.put(name(content), encoded(content.encode()))
        os.utime(tmp_path / name(content)[:2] / name(content), (number, number))
    each = disk.stats().bytes // 3
    assert disk.get(name("a")) is not None  # touched: the newest now
    smaller = PictureDisk(tmp_path, limit_bytes=2 * each + 10)
    assert smaller.get(name("b")) is None
    assert smaller.get(name("c")) is not None
    assert smaller.get(name("a")) is not None
    smaller.put(name("d"), encoded(b"d"))
    assert smaller.get(name("c")) is None
    assert smaller.stats().bytes <= 2 * each + 10
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 2 * each + 10
    smaller.put(name("e"), encoded(b"e", 10 * each))
    assert smaller.get(name("e")) is None, "it alone is above the limit, and costs no other its place"
    assert smaller.stats().entries == 2


def test_half_written_files_of_a_dead_process_go_and_those_of_a_living_stay(tmp_path: Path) -> None:
    folder = tmp_path / "ab"
    folder.mkdir()
    old, new = folder / "x.1.1.part", folder / "y.2.1.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - STALE - 5,) * 2)
    disk = PictureDisk(tmp_path)
    assert [path.name for path in folder.iterdir()] == [new.name]
    assert disk.stats().entries == 0


def test_a_folder_that_cannot_be_used_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot keep pictures in"):
        PictureDisk(tmp_path / "file" / "below")
    with pytest.raises(UsageError, match="limit_bytes"):
        PictureDisk(tmp_path, 0)


def test_a_disk_that_fails_costs_no_picture(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", quarters())
    store = ImageStore(disk=tmp_path / "kept")
    (tmp_path / "kept").rmdir()
    (tmp_path / "kept").write_text("no folder any more")

    async def scenario() -> None:
        assert isinstance(await store.prepare(path), Encoded)

    run(scenario())
    assert store.disk is not None
    assert store.disk.stats().failed == 2


def test_a_store_encodes_once_for_two_names_and_two_processes(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jpg", quarters(800, 600))
    twin = write(tmp_path / "twin.jpg", first.read_bytes())

    async def play(store: ImageStore, viewer: ViewerNeeds | None = None) -> list[Encoded]:
        rungs = store.ladder.choose(viewer)
        results = [await store.prepare(path, rungs) for path in (first, twin)]
        return [result for result in results if isinstance(result, Encoded)]

    before, after = ImageStore(disk=tmp_path / "kept"), ImageStore(disk=tmp_path / "kept")
    assert run(play(before)) == run(play(after))
    assert before.stats().encoded == 1
    assert after.stats().encoded == 0
    assert after.stats().disk is not None
    phone = ViewerNeeds((AVIF, WEBP), 300)
    rung = after.ladder.choose(phone)[0]
    run(after.warm([first], [rung]))
    fresh = ImageStore(disk=tmp_path / "kept")
    assert {result.media_type for result in run(play(fresh, phone))} == {AVIF}, "made beforehand, by another process"


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.pipes.test_picture_disk import encoded, name
from multimodal.pipes.picture_disk import PictureDisk
disk = PictureDisk(sys.argv[1])
print("begun", flush=True)
for number in range(100000):
    content = str(number % 40)
    disk.put(name(content), encoded(content.encode(), 200_000))
"""


def test_a_kill_in_the_middle_of_a_write_spoils_nothing(tmp_path: Path) -> None:
    """Fifty processes are killed while they write; none leaves a picture that is served and is not whole."""
    chance, folder, survived = random.Random(7), tmp_path / "kept", 0
    script = WRITER.format(root=str(Path(__file__).parents[2]))
    for _ in range(int(os.environ.get("MULTIMODAL_KILLS", "8"))):
        writer = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        limit = time.monotonic() + 30.0
        while not any(path.is_file() for path in folder.rglob("*")) and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        disk = PictureDisk(folder)
        for number in range(40):
            found = disk.get(name(str(number)))
            survived += found is not None
            assert found in (None, encoded(str(number).encode(), 200_000))
        assert disk.stats().spoilt == 0, "D1: under its name a file is whole"
    assert survived, "nothing was written: nothing was shown"
    for path in folder.rglob("*.part"):
        os.utime(path, (0, 0))
    PictureDisk(folder)
    assert list(folder.rglob("*.part")) == []


def test_its_counts_are_one_struct(tmp_path: Path) -> None:
    stats = msgspec.to_builtins(PictureDisk(tmp_path).stats())
    assert stats == dict.fromkeys(("entries", "bytes", "hits", "misses", "spoilt", "evictions", "failed"), 0)
