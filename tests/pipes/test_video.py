"""Frames of product videos: the right one, upright, in its true shape, whatever the file says or lacks (W1-W5)."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from multimodal.errors import UsageError
from multimodal.pipes.intake import ImageSettings, PictureRefused
from multimodal.pipes.video import CLIP_SECONDS, MP4, WEBM, make_clip, read_facts, sharpest_frame
from tests.pipes.videos import gradient, near, turned, write_video

SETTINGS = ImageSettings()


def refused(path: Path, at: float = 0.0, settings: ImageSettings = SETTINGS) -> str:
    with pytest.raises(PictureRefused) as caught:
        sharpest_frame(path, settings, at)
    assert str(path) in str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "libx264"), ("a.webm", "libvpx-vp9"), ("a.mkv", "libx264")])
def test_the_frame_on_the_screen_at_a_time(name: str, codec: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / name, [gradient(n) for n in range(30)], codec=codec)
    for number in (0, 1, 14, 29):
        for within in (0.0, 0.05, 0.099):
            frame = sharpest_frame(path, SETTINGS, number / 10 + within, window=0)
            assert frame.shape == (64, 96, 3)
            assert abs(int(frame[48, 72, 0]) - int(gradient(number)[48, 72, 0])) <= 3, (number, within)
    facts = read_facts(path, SETTINGS)
    assert (facts.width_px, facts.height_px, facts.rotation) == (96, 64, 0)
    assert facts.seconds == pytest.approx(3.0, abs=0.11)


def test_where_the_rate_varies_the_stamps_count(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.15, 2.0, 2.05, 4.0]
    path = write_video(tmp_path / "a.mp4", [gradient(n, 6) for n in range(6)], times=times)
    for at, number in ((0.05, 0), (0.12, 1), (0.2, 2), (1.9, 2), (2.01, 3), (3.9, 4), (4.0, 5)):
        frame = sharpest_frame(path, SETTINGS, at, window=0)
        assert abs(int(frame[48, 72, 0]) - int(gradient(number, 6)[48, 72, 0])) <= 4, at


def test_near_a_time_the_sharpest_frame_is_taken(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    frames = []
    for number in range(20):
        sharp = chance.integers(0, 255, (64, 96, 1), np.uint8).repeat(3, 2)
        flat = np.full((64, 96, 3), 10 * number, np.uint8)
        frames.append(sharp if number == 12 else flat)
    path = write_video(tmp_path / "a.mp4", frames)
    assert sharpest_frame(path, SETTINGS, 1.0, window=0.3).std() > 40
    assert sharpest_frame(path, SETTINGS, 1.0, window=0.1).std() < 5
    assert near(sharpest_frame(path, SETTINGS, 0.5, window=0)[32, 48], (50, 50, 50), 6)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_phones_video_stands_upright(degrees: int, tmp_path: Path) -> None:
    picture = gradient(15)
    path = turned(write_video(tmp_path / "a.mp4", [picture] * 5), degrees)
    frame = sharpest_frame(path, SETTINGS, 0.2)
    wanted = np.rot90(picture, -degrees // 90)
    assert frame.shape == wanted.shape
    height, width = wanted.shape[:2]
    for y in (height // 4, 3 * height // 4):
        for x in (width // 4, 3 * width // 4):
            assert near(frame[y, x], wanted[y, x]), (x, y)
    facts = read_facts(path, SETTINGS)
    assert (facts.height_px, facts.width_px) == wanted.shape[:2]


@pytest.mark.parametrize(("aspect", "shape"), [(Fraction(1, 2), (64, 48)), (Fraction(2, 1), (32, 96))])
def test_pixels_that_are_not_square_are_shown_square(aspect: Fraction, shape: tuple[int, int], tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [gradient(1)] * 3, aspect=aspect)
    assert sharpest_frame(path, SETTINGS, 0.1).shape[:2] == shape
    facts = read_facts(path, SETTINGS)
    assert (facts.height_px, facts.width_px) == shape


def test_a_cut_file_gives_what_it_holds(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    frames = [chance.integers(0, 255, (64, 96, 3), np.uint8) for _ in range(30)]
    path = write_video(tmp_path / "a.mkv", frames, options={"g": "5"})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert sharpest_frame(path, SETTINGS, 0.2).shape == (64, 96, 3)
    assert refused(path, 2.9) == "truncated"
    mp4 = write_video(tmp_path / "a.mp4", frames)
    mp4.write_bytes(mp4.read_bytes()[: mp4.stat().st_size // 2])
    assert refused(mp4) == "truncated"


def test_what_is_no_video_or_too_much_of_one(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [gradient(n) for n in range(10)])
    assert refused(path, 5.0) == "not_found"
    assert refused(path, settings=ImageSettings(max_pixels=96 * 64 - 1)) == "too_many_pixels"
    assert refused(path, settings=ImageSettings(max_bytes=path.stat().st_size - 1)) == "too_many_bytes"
    assert refused(tmp_path / "no.mp4") == "not_found"
    for name, data in (("text.mp4", b"no video"), ("empty.mp4", b""), ("noise.webm", b"\x1aE\xdf\xa3" + b"x" * 500)):
        (tmp_path / name).write_bytes(data)
        assert refused(tmp_path / name) == "unreadable"
    with av.open(str(tmp_path / "sound.mka"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    assert refused(tmp_path / "sound.mka") == "unreadable"
    with pytest.raises(UsageError, match="0 or more seconds"):
        sharpest_frame(path, SETTINGS, -1.0)


@pytest.mark.parametrize("media_type", [WEBM, MP4])
def test_a_clip_is_short_silent_small_and_the_same_twice(media_type: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [gradient(n, 60, (640, 360)) for n in range(60)])
    clip, again = (make_clip(path, SETTINGS, media_type, 240, 60_000) for _ in range(2))
    assert clip == again
    assert (clip.media_type, clip.width_px, clip.height_px) == (media_type, 240, 136)
    assert clip.seconds == CLIP_SECONDS
    assert len(clip.data) <= 60_000
    with av.open(io.BytesIO(clip.data), "r") as made:
        assert [stream.type for stream in made.streams] == ["video"]
        shown = [frame.to_ndarray(format="rgb24") for frame in made.decode(video=0)]
    assert len(shown) == 45
    assert abs(int(shown[0][100, 180, 0]) - 20) <= 8
    assert abs(int(shown[-1][100, 180, 0]) - int(gradient(29, 60)[48, 72, 0])) <= 12
    late = make_clip(path, SETTINGS, media_type, 240, 60_000, start=5.0)
    assert late.seconds == pytest.approx(1.0, abs=0.1)


def test_a_clip_of_what_cannot_be_played_is_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [gradient(0)] * 3)
    with pytest.raises(UsageError, match="video/ogg"):
        make_clip(path, SETTINGS, "video/ogg", 240)
    with pytest.raises(PictureRefused, match="no frame from 9 s on"):
        make_clip(path, SETTINGS, WEBM, 240, start=9.0)
