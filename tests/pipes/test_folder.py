"""The folder pipe, and through it what all prepared pipes owe (I1-I8)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes import images
from multimodal.pipes.base import Describes, HasKeys, Wants
from multimodal.pipes.encode import Encoded, encode_picture
from multimodal.pipes.folder import FolderImagePipe, readable
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import ImageSettings
from multimodal.pipes.prepared import PictureFile, PreparedImagePipe
from multimodal.values import EncodedImage, ImageFailure
from tests.pipes.pictures import data_of, got, picture_threads, png_header, quarters, reaches, write
from tests.support import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four good pictures, and files that are none."""
    for number, name in enumerate(["b.jpg", "a.PNG", "red_kettle-02.webp", "c"]):
        kind = {"a.PNG": "PNG", "red_kettle-02.webp": "WEBP"}.get(name, "JPEG")
        write(tmp_path / name, quarters(40 + number, 30), kind)
    for name in (".hidden.jpg", ".DS_Store", "Thumbs.db", "notes.txt", "catalog.json", "README.md", "readme", "x.html"):
        (tmp_path / name).write_bytes(b"not a picture")
    write(tmp_path / "sub" / "d.jpg", quarters(50, 30))
    return tmp_path


async def everything(pipe: FolderImagePipe) -> list[EncodedImage | ImageFailure]:
    return [item async for item in pipe]


def test_gives_all_pictures_in_the_order_of_their_names(folder: Path) -> None:
    pipe = FolderImagePipe(folder)
    assert pipe.keys() == ["a", "b", "c", "red_kettle-02"]
    for protocol in (HasKeys, Wants, Describes):
        assert isinstance(pipe, protocol)
    pictures = [got(item) for item in run(everything(pipe))]
    assert [(p.key, p.product, p.alt, p.width_px, p.media_type) for p in pictures] == [
        ("a", "a", "a", 41, "image/webp"),
        ("b", "b", "b", 40, "image/webp"),
        ("c", "c", "c", 43, "image/webp"),
        ("red_kettle-02", "red_kettle-02", "red kettle 02", 42, "image/webp"),
    ]
    assert all(picture.placeholder.startswith("data:image/webp") for picture in pictures)
    assert len({picture.sha256 for picture in pictures}) == 4


def test_sub_folders_on_request(folder: Path) -> None:
    write(folder / ".git" / "x.jpg", quarters())
    pipe = FolderImagePipe(str(folder), recursive=True)
    assert pipe.keys() == ["a", "b", "c", "red_kettle-02", "sub/d"]
    assert got(run(everything(pipe))[-1]).alt == "d"


@pytest.mark.parametrize(
    ("stem", "alt"), [("red_kettle-02", "red kettle 02"), ("IMG.0001", "IMG 0001"), ("--", "--"), ("水壶", "水壶")]
)
def test_names_are_made_readable(stem: str, alt: str) -> None:
    assert readable(stem) == alt


def test_bad_pictures_fail_alone_and_in_their_place(folder: Path) -> None:
    bad = {
        "bad1.jpg": (b"", "empty"),
        "bad2.jpg": (data_of(quarters())[:200], "truncated"),
        "bad3.png": (png_header(9000, 9000), "too_many_pixels"),
        "bad4.jpg": (b"<html><body>404</body></html>", "html"),
        "bad5.svg": (b"<svg/>", "svg"),
        "bad6.heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "unreadable"),
        "bad7.docx2": (b"PK", "unknown_format"),
    }
    for name, (data, _) in bad.items():
        write(folder / name, data)
    pipe = FolderImagePipe(folder)

    async def scenario() -> None:
        described = await pipe.describe(pipe.keys())
        assert [asset.key for asset in described] == ["a", "b", "c", "red_kettle-02"]
        items = await everything(pipe)
        assert [item.key for item in items] == pipe.keys()
        failures = {item.key: item for item in items if isinstance(item, ImageFailure)}
        wanted = {name.partition(".")[0]: reason for name, (_, reason) in bad.items()}
        assert {key: item.reason for key, item in failures.items()} == wanted
        assert "bad3.png" in failures["bad3"].detail

    run(scenario())


def test_a_file_that_vanishes_is_a_failure(folder: Path) -> None:
    pipe = FolderImagePipe(folder)
    (folder / "b.jpg").unlink()
    items = run(everything(pipe))
    assert isinstance(items[1], ImageFailure)
    assert (items[1].key, items[1].reason) == ("b", "not_found")


@pytest.mark.parametrize("name", ["empty", "foreign", "file", "none"])
def test_a_folder_without_pictures_is_refused_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").touch()
    (tmp_path / "file").touch()
    wanted = {"empty": "no pictures in", "foreign": "no pictures in", "file": "not a folder", "none": "no such folder"}
    with pytest.raises(UsageError, match=f"{wanted[name]}.*{name}"):
        FolderImagePipe(tmp_path / name)


def test_two_pictures_of_one_key_are_refused(folder: Path) -> None:
    write(folder / "a.jpg", quarters())
    with pytest.raises(UsageError, match=r"a\.PNG and .*a\.jpg would both be the picture 'a'"):
        FolderImagePipe(folder)
    with pytest.raises(UsageError, match="ahead=0"):
        FolderImagePipe(folder / "sub", ahead=0)


def test_sizes_and_previews_come_before_the_bytes(folder: Path) -> None:
    async def scenario() -> None:
        pipe = FolderImagePipe(folder)
        assets = await pipe.describe(["c", "zebra", "a"])
        assert [(asset.key, asset.width_px, asset.alt, asset.variants) for asset in assets] == [
            ("c", 43, "c", ()),
            ("a", 41, "a", ()),
        ]
        pictures = {item.key: got(item) for item in await everything(pipe)}
        for asset in assets:
            picture = pictures[asset.key]
            assert (asset.width_px, asset.height_px) == (picture.width_px, picture.height_px)
            assert asset.placeholder == picture.placeholder

    run(scenario())


def slow_for(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> list[str]:
    """Encoding takes this long for the pictures named; returns the log of what was encoded."""
    log: list[str] = []

    def encode(path: Path, settings: ImageSettings, *suits: Any) -> Encoded:
        log.append(path.stem)
        time.sleep(seconds.get(path.stem, 0))
        return encode_picture(path, settings, *suits)

    monkeypatch.setattr(images, "encode_picture", encode)
    return log


def test_the_plan_drives_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=1))
        pipe.want([])  # a plan without pictures: nothing is prepared of its own accord
        reader = asyncio.ensure_future(everything(pipe))
        await asyncio.sleep(0.1)
        assert not reader.done()
        assert log == []
        pipe.want(["c", "a", "c"])
        pipe.want(["zebra", "c"], final=True)
        items = await reader
        assert sorted(item.key for item in items) == ["a", "c", "zebra"]
        failure = next(item for item in items if isinstance(item, ImageFailure))
        assert (failure.key, failure.reason) == ("zebra", "unknown_key")
        assert log == ["c", "a"]

    run(scenario())


def test_a_pipe_that_is_held_begins_nothing_before_its_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {})
    files = [PictureFile(path.stem, path) for path in sorted(folder.iterdir()) if path.stem in "abc"]

    async def scenario() -> None:
        pipe = PreparedImagePipe(files, store=ImageStore(workers=1), held=True)
        pipe.want(["c", "a"])
        described, reader = asyncio.ensure_future(pipe.describe(["a"])), asyncio.ensure_future(anext(pipe))
        await asyncio.sleep(0.1)
        assert log == []
        assert not described.done()
        pipe.release()
        pipe.release()
        assert (await reader).key == "c"
        assert [asset.key for asset in await described] == ["a"]
        await pipe.aclose()
        # Closed while it is held: whoever waits goes on.
        other = PreparedImagePipe(files, store=ImageStore(workers=1), held=True)
        reader = asyncio.ensure_future(anext(other))
        await asyncio.sleep(0)
        await other.aclose()
        with pytest.raises(StopAsyncIteration):
            await reader
        assert set(log) <= {"c", "a"}

    run(scenario())


def test_the_newest_plan_is_the_most_urgent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {"a": 0.1})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=1), ahead=1)
        pipe.want(["a", "b", "c"])
        pipe.want(["red_kettle-02", "c"], final=True)
        await everything(pipe)
        assert log == ["a", "red_kettle-02", "c", "b"]

    run(scenario())


def test_a_slow_picture_holds_up_no_other_that_the_plan_wants(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_for(monkeypatch, {"a": 0.5})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=2))
        pipe.want(["a", "b", "c"], final=True)
        assert [item.key for item in await everything(pipe)] == ["b", "c", "a"]

    run(scenario())


def test_without_a_plan_the_order_of_the_names_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_for(monkeypatch, {"a": 0.3})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=2))
        assert [item.key for item in await everything(pipe)] == ["a", "b", "c", "red_kettle-02"]

    run(scenario())


def test_a_reader_who_stops_stops_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(), ahead=2)
        await anext(pipe)
        await reaches(log, 2)
        await asyncio.sleep(0.1)
        assert sorted(log) == ["a", "b"]  # two threads begin in any order
        assert len(await everything(pipe)) == 3

    run(scenario())


def test_a_picture_that_takes_for_ever_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_for(monkeypatch, {"b": 3.0})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=2, time_limit=1.5))
        items = {item.key: item for item in await everything(pipe)}
        failure = items.pop("b")
        assert isinstance(failure, ImageFailure)
        assert failure.reason == "timeout"
        assert all(isinstance(item, EncodedImage) for item in items.values())

    run(scenario())


def test_cancelling_a_pull_loses_no_picture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_for(monkeypatch, {"a": 1.0})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(pipe)
        assert [item.key for item in await everything(pipe)] == ["a", "b", "c", "red_kettle-02"]

    run(scenario())


def test_closing_leaves_nothing_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {"a": 0.5, "b": 0.5})

    async def scenario() -> None:
        pipe = FolderImagePipe(folder, store=ImageStore(workers=2))
        reader = asyncio.ensure_future(everything(pipe))
        await reaches(log, 2)
        assert picture_threads() == 2
        await pipe.aclose()
        await pipe.aclose()
        assert picture_threads() == 0
        assert await reader == []
        assert sorted(log) == ["a", "b"]
        with pytest.raises(StopAsyncIteration):
            await anext(pipe)
        assert len(asyncio.all_tasks()) == 1

    run(scenario())


def test_the_end_leaves_nothing_running(folder: Path) -> None:
    async def scenario() -> None:
        await everything(FolderImagePipe(folder, store=ImageStore()))
        assert picture_threads() == 0

    run(scenario())


def test_two_streams_encode_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = slow_for(monkeypatch, {"a": 0.05})

    async def scenario() -> None:
        store = ImageStore()
        first, second = await asyncio.gather(*(everything(FolderImagePipe(folder, store=store)) for _ in range(2)))
        assert first == second
        assert sorted(log) == ["a", "b", "c", "red_kettle-02"]

    run(scenario())
