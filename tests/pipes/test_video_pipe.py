"""A video as an image pipe: frames at their times, a turntable, and clips among pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.folder import FolderImagePipe
from multimodal.pipes.images import ImageStore
from multimodal.pipes.intake import Moment, PictureRefused
from multimodal.pipes.ladder import MP4, WEBM, WEBP
from multimodal.pipes.video_pipe import VideoImagePipe
from multimodal.sync.conformance import check_image_pipe
from multimodal.values import EncodedImage, ImageFailure, ViewerNeeds
from tests.pipes.pictures import decoded, got, pixel, quarters, write
from tests.pipes.videos import gradient, write_video
from tests.support import run


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "kettle.mp4", [gradient(n, 40) for n in range(40)])


def red(item: EncodedImage | ImageFailure) -> int:
    return pixel(decoded(got(item).data), 0.75, 0.75)[0]


def test_frames_come_at_their_times(video: Path) -> None:
    async def scenario() -> None:
        pipe = VideoImagePipe(video, {"first": 0.0, "spout": 2.05, "late": 99.0}, product="kettle", window=0)
        assets = await pipe.describe(pipe.keys())
        items = [item async for item in pipe]
        assert [item.key for item in items] == ["first", "spout", "late"] == pipe.keys()
        assert abs(red(items[0]) - 20) <= 10
        assert abs(red(items[1]) - int(gradient(20, 40)[48, 72, 0])) <= 10
        assert isinstance(items[2], ImageFailure)
        assert (items[2].reason, got(items[0]).product, got(items[0]).alt) == ("not_found", "kettle", "first")
        assert [(asset.key, asset.width_px, asset.height_px) for asset in assets] == [
            ("first", 96, 64),
            ("spout", 96, 64),
        ]

    run(scenario())


def test_a_turntable_is_shown_all_around(video: Path) -> None:
    async def scenario() -> None:
        pipe = VideoImagePipe(video, views=4, alt="a kettle", window=0)
        items = [item async for item in pipe]
        assert [item.key for item in items] == [f"kettle-{view}" for view in (1, 2, 3, 4)]
        wanted = [int(gradient(number, 40)[48, 72, 0]) for number in (0, 10, 20, 30)]
        assert all(abs(red(item) - color) <= 12 for item, color in zip(items, wanted, strict=True))
        assert {got(item).alt for item in items} == {"a kettle"}

    run(scenario())


def test_it_keeps_the_contract_of_an_image_pipe(video: Path) -> None:
    check_image_pipe(lambda: VideoImagePipe(video, {"a": 0.0, "b": 1.0}))


@pytest.mark.parametrize(
    ("viewer", "media_type"),
    [
        (None, WEBP),
        (ViewerNeeds((WEBP,), 400), WEBP),
        (ViewerNeeds((WEBP, WEBM), 400), WEBM),
        (ViewerNeeds((WEBP, MP4), 400), MP4),
        (ViewerNeeds((WEBP, WEBM, MP4), 400, save_data=True), WEBP),
    ],
)
def test_a_video_among_pictures_is_a_clip_where_it_can_be_played(
    viewer: ViewerNeeds | None, media_type: str, video: Path, tmp_path: Path
) -> None:
    write(tmp_path / "mug.jpg", quarters())

    async def scenario() -> None:
        pipe = FolderImagePipe(tmp_path, store=ImageStore(disk=tmp_path / "kept"))
        if viewer is not None:
            pipe.fit(viewer)
        assets = await pipe.describe(pipe.keys())
        kettle, mug = [got(item) async for item in pipe]
        assert (kettle.key, kettle.media_type, mug.media_type) == ("kettle", media_type, WEBP)
        assert (kettle.width_px, kettle.height_px) == (96, 64)
        assert [asset.placeholder for asset in assets] == [kettle.placeholder, mug.placeholder]
        assert kettle.color

    run(scenario())


def test_a_video_is_no_picture_whatever_its_name(video: Path, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    video.rename(tmp_path / "pictures" / "kettle.jpg")
    write(tmp_path / "pictures" / "mug.mp4", b"no video")

    async def scenario() -> None:
        items = [item async for item in FolderImagePipe(tmp_path / "pictures")]
        assert [getattr(item, "reason", "") for item in items] == ["video", "unreadable"]
        store = ImageStore()
        missing = await store.prepare(Moment(tmp_path / "no.mp4"))
        assert isinstance(missing, PictureRefused)
        assert missing.reason == "not_found"

    run(scenario())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "either frames"),
        ({"frames": {}}, "either frames"),
        ({"frames": {"a": 0.0}, "views": 3}, "either frames"),
        ({"views": -1}, "either frames"),
        ({"views": "3"}, "views='3'"),
        ({"views": True}, "views=True"),
        ({"frames": [0.0, 1.0]}, "frames is a list"),
        ({"frames": {"a": "1"}}, r"frames\['a'\]='1'"),
        ({"frames": {"a": -1.0}}, r"frames\['a'\]=-1.0"),
        ({"views": 2, "window": -1}, "window"),
    ],
)
def test_refuses_wrong_arguments(options: dict[str, Any], told: str, video: Path) -> None:
    with pytest.raises(UsageError, match=told):
        VideoImagePipe(video, **options)


def test_a_file_that_is_no_video_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no video that can be opened"):
        VideoImagePipe(write(tmp_path / "a.mp4", b"text"), views=3)
    with pytest.raises(UsageError, match="no such file"):
        VideoImagePipe(tmp_path / "no.mp4", views=3)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "gif", "bmp"])
def test_a_still_picture_is_no_video(kind: str, tmp_path: Path) -> None:
    from PIL import Image

    # Named as a video, too: what is in it counts.
    for name in (f"a.{kind}", "a.mp4"):
        Image.new("RGB", (32, 24), "red").save(tmp_path / name, kind)
        with pytest.raises(UsageError, match=rf"{name} is a still picture \({kind}\)"):
            VideoImagePipe(tmp_path / name, frames={"a": 0.0})
