"""Frames and short clips out of product videos: upright, in their true shape, by their own time stamps.

Blocking and free of state; the picture store runs it in worker threads.

W1. A frame is that which is on the screen at a time, by its presentation stamp: where the rate varies, numbers mean
    nothing.
W2. Rotation and sample aspect are applied; what is shown has square pixels and stands upright.
W3. Near a time the sharpest frame is taken (variance of the Laplacian, Pech-Pacheco et al. 2000), of equals the first.
W4. A file that ends too early gives the frames it has; a time behind them is refused, as is a file without any.
W5. Width, height, duration and the frames decoded for one picture are limited before, or while, they are decoded.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np

from multimodal.errors import UsageError
from multimodal.pipes.intake import ImageSettings, PictureRefused
from multimodal.pipes.video_reader import Frame, VideoReader, opened, rotation

__all__ = ["CLIP_SECONDS", "MP4", "WEBM", "Clip", "VideoFacts", "make_clip", "read_facts", "sharpest_frame"]

WEBM, MP4 = "video/webm", "video/mp4"
CLIP_SECONDS = 3.0
"""Seconds of a preview at most: a glance, as long as its sentence."""
CLIP_FPS = 15


class VideoFacts(msgspec.Struct, frozen=True):
    """What a video is: `width_px` and `height_px` as it is shown, upright, in square pixels; `seconds` 0 = unknown."""

    width_px: int
    height_px: int
    seconds: float
    rotation: int


class Clip(msgspec.Struct, frozen=True):
    """A short, silent video for the web."""

    data: bytes
    media_type: str
    width_px: int
    height_px: int
    seconds: float


def read_facts(path: Path, settings: ImageSettings) -> VideoFacts:
    """Size and length, from the header and the first frame.

    Raises:
        PictureRefused: no video in it, or more pixels or seconds than allowed.
    """
    with opened(path, settings) as video:
        first = next(video.frames(0.0), None)
        if first is None:
            raise _nothing(path)
        return VideoFacts(*video.shape(first), video.seconds, rotation(first))


def sharpest_frame(path: Path, settings: ImageSettings, at: float, window: float = 0.25) -> Frame:
    """The sharpest frame on the screen within `window` seconds around a time, upright.

    Args:
        path: the video.
        settings: limits.
        at: seconds from its beginning.
        window: seconds before and after; 0 = the very frame at that time.

    Raises:
        PictureRefused: no video, broken, over a limit, or shorter than `at`.
        UsageError: a negative number.
    """
    if not (at >= 0 and window >= 0):
        raise UsageError(f"a frame at {at} s within {window} s: give 0 or more seconds")
    low, high = max(0.0, at - window), at + window
    best: tuple[float, Any] | None = None
    held: Any = None
    end = 0.0
    with opened(path, settings) as video:
        for frame in video.frames(low):
            end = frame.time + video.length(frame)
            if frame.time <= low:
                held = frame  # it may still be on the screen when the window begins
                continue
            best = _sharper(best, held) if held is not None else best
            held = None
            if frame.time > high:
                best = best or (0.0, frame)  # the video begins later than the window
                break
            best = _sharper(best, frame)
        best = _sharper(best, held) if held is not None else best
        if best is None:
            raise _nothing(path)
        if low > end and video.seconds > end + 1:
            broken = f"the video breaks off after {end:.2f} s of {video.seconds:.2f} s"
            raise PictureRefused("truncated", f"{path}: {broken}; copy it again")
        if low > end:
            raise PictureRefused("not_found", f"{path}: the video ends after {end:.2f} s, and {at:g} s was asked for")
        return video.upright(best[1])


def make_clip(
    path: Path, settings: ImageSettings, media_type: str, max_px: int, budget_bytes: int = 0, start: float = 0.0
) -> Clip:
    """A silent clip of at most `CLIP_SECONDS`, to be played over and over.

    Args:
        path: the video.
        settings: limits.
        media_type: ``video/webm`` (VP9) or ``video/mp4`` (H.264).
        max_px: its long side; never enlarged.
        budget_bytes: what it may take, which its bit rate is set by; 0 = 40 kB a second.
        start: seconds from the video's beginning.

    Raises:
        PictureRefused: as `sharpest_frame`.
        UsageError: another media type.
    """
    if media_type not in {WEBM, MP4}:
        raise UsageError(f"a clip of {media_type!r} cannot be made; this version makes {WEBM} and {MP4}")
    pictures: list[Frame] = []
    held: Any = None
    with opened(path, settings) as video:
        end = 0.0
        for frame in video.frames(start):
            end = frame.time + video.length(frame)
            # One for each tick: what is on the screen then, whatever the rate it came at.
            while held is not None and start + len(pictures) / CLIP_FPS < frame.time and not _full(pictures):
                pictures.append(_small(video, held, max_px))
            held = frame
            if _full(pictures):
                break
        while held is not None and start + len(pictures) / CLIP_FPS < end and not _full(pictures):
            pictures.append(_small(video, held, max_px))
        if held is None:
            raise _nothing(path)
        if not pictures:
            raise PictureRefused("not_found", f"{path}: no frame from {start:g} s on; it ends after {end:.2f} s")
    return _encoded(pictures, media_type, budget_bytes or round(40_000 * len(pictures) / CLIP_FPS))


def _nothing(path: Path) -> PictureRefused:
    return PictureRefused("truncated", f"{path}: the video holds no frame that can be decoded; copy it again")


def _full(pictures: list[Frame]) -> bool:
    return len(pictures) >= CLIP_SECONDS * CLIP_FPS


def _small(video: VideoReader, frame: Any, max_px: int) -> Frame:
    width, height = video.shape(frame)
    scale = min(1.0, max_px / max(width, height))
    # Colour is stored for two by two pixels: sides are even.
    return video.upright(frame, (_even(width * scale), _even(height * scale)))


def _even(side: float) -> int:
    return max(2, round(side / 2) * 2)


def _sharper(best: tuple[float, Any] | None, frame: Any) -> tuple[float, Any]:
    sharp = _sharpness(frame)
    return best if best is not None and best[0] >= sharp else (sharp, frame)


def _sharpness(frame: Any) -> float:
    scale = min(1.0, 320 / max(frame.width, frame.height))
    size = (max(3, round(frame.width * scale)), max(3, round(frame.height * scale)))
    grey = frame.reformat(width=size[0], height=size[1], format="gray").to_ndarray().astype(np.float32)
    inner = grey[1:-1, 1:-1]
    laplacian = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * inner
    return float(laplacian.var())


def _encoded(pictures: list[Frame], media_type: str, budget_bytes: int) -> Clip:
    height, width = pictures[0].shape[:2]
    seconds = len(pictures) / CLIP_FPS
    out = io.BytesIO()
    webm = media_type == WEBM
    # Bit-exact: without it a WebM gets random ids, and the same clip another hash.
    with av.open(out, "w", format="webm" if webm else "mp4", options={"fflags": "+bitexact"}) as made:
        stream: Any = made.add_stream("libvpx-vp9" if webm else "libx264", rate=CLIP_FPS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        # Nine tenths, for the container; with one thread the bytes are always the same.
        stream.bit_rate = max(20_000, int(budget_bytes * 8 * 0.9 / seconds))
        stream.thread_count = 1
        stream.options = (
            {"deadline": "realtime", "cpu-used": "7", "row-mt": "0"}
            if webm
            else {"preset": "veryfast", "profile": "main", "x264-params": "threads=1"}
        )
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, 1 / stream.average_rate
            made.mux(stream.encode(frame))
        made.mux(stream.encode())
    return Clip(out.getvalue(), media_type, width, height, seconds)
