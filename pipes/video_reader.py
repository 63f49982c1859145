"""A product video, decoded frame by frame: upright, in square pixels, by its own time stamps (W1, W2, W4, W5).

The rules stand at the head of `multimodal.pipes.video`; these two modules are the only ones of the pipes that import
PyAV.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import av.error
import av.logging
import numpy as np
from numpy.typing import NDArray

from multimodal.pipes.intake import ImageSettings, PictureRefused

__all__ = ["Frame", "VideoReader", "opened"]

Frame = NDArray[np.uint8]
"""RGB, [height, width, 3]."""

LONGEST = 3600.0
"""Seconds of a video at most: a product's clip is not a film."""
FRAMES_AT_MOST = 400
"""Frames decoded in search of a time: a video has a key frame every few seconds."""

# The decoder would write every oddity of a file to standard error; what matters of it is raised.
av.logging.set_level(av.logging.PANIC)


class VideoReader:
    """One open video; made by `opened`.

    Args:
        path: its file, for messages.
        container: as PyAV opened it.
    """

    def __init__(self, path: Path, container: Any) -> None:
        self.path, self._container = path, container
        self._stream: Any = container.streams.video[0]
        # One thread: viewers share the processors, and the order of work stays the same.
        self._stream.thread_type, self._stream.thread_count = "NONE", 1
        self._aspect = float(self._stream.sample_aspect_ratio or 1)

    @property
    def stored_pixels(self) -> tuple[int, int]:
        """Width and height as they are stored."""
        return self._stream.width, self._stream.height

    @property
    def seconds(self) -> float:
        """Its length as the header says it; 0 = it says none."""
        if self._stream.duration is not None and self._stream.time_base is not None:
            return float(self._stream.duration * self._stream.time_base)
        return self._container.duration / 1_000_000 if self._container.duration else 0.0

    def frames(self, start: float) -> Iterator[Any]:
        """Frames from the key frame before `start` seconds on; what a cut or broken file still holds (W4).

        Raises:
            PictureRefused: there is no key frame near.
        """
        stream = self._stream
        try:
            if start > 0:
                place = round(start / stream.time_base) + (stream.start_time or 0)
                self._container.seek(place, stream=stream, backward=True)
            for count, frame in enumerate(self._container.decode(stream)):
                if frame.time is None:
                    continue
                if count >= FRAMES_AT_MOST and frame.time < start:
                    message = f"{self.path}: {count} frames before {start:g} s without a key frame"
                    raise PictureRefused("unreadable", message)
                yield frame
        except av.error.FFmpegError:
            return

    def length(self, frame: Any) -> float:
        """Seconds that a frame stays."""
        if frame.duration:
            return float(frame.duration * frame.time_base)
        return 1 / float(self._stream.average_rate) if self._stream.average_rate else 0.04

    def shape(self, frame: Any) -> tuple[int, int]:
        """Width and height of what is shown (W2)."""
        width, height = frame.width, frame.height
        # The longer way is made shorter: no pixel is invented.
        if self._aspect < 1:
            width = max(1, round(width * self._aspect))
        else:
            height = max(1, round(height / self._aspect))
        return (height, width) if rotation(frame) in {90, 270} else (width, height)

    def upright(self, frame: Any, size: tuple[int, int] | None = None) -> Frame:
        """What is shown, at its own size or another (W2)."""
        width, height = size or self.shape(frame)
        turned = rotation(frame)
        stored = (height, width) if turned in {90, 270} else (width, height)
        plain = frame.reformat(width=stored[0], height=stored[1], format="rgb24", interpolation="AREA").to_ndarray()
        upright: Frame = np.ascontiguousarray(np.rot90(plain, turned // 90))
        return upright


def rotation(frame: Any) -> int:
    """Degrees, counter-clockwise, by which the display matrix turns the frame: 0, 90, 180 or 270."""
    return round((frame.rotation or 0) / 90) * 90 % 360


@contextmanager
def opened(path: Path, settings: ImageSettings) -> Iterator[VideoReader]:
    """A video within the limits, closed when left (W5).

    Raises:
        PictureRefused: no video in it, or more pixels or seconds than allowed.
    """
    try:
        size = path.stat().st_size
        if size > settings.max_bytes:
            limit = f"{settings.max_bytes:,}"
            raise PictureRefused("too_many_bytes", f"{path}: {size:,} bytes, above the limit of {limit}; cut it")
        container = av.open(str(path), metadata_errors="ignore")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise _unopened(path, error) from error
    with container:
        if not container.streams.video:
            raise PictureRefused("unreadable", f"{path}: there is sound in it and no video")
        reader = VideoReader(path, container)
        width, height = reader.stored_pixels
        if width * height > settings.max_pixels:
            limit = f"{settings.max_pixels / 1e6:g} megapixels"
            raise PictureRefused("too_many_pixels", f"{path}: {width} x {height} is above the limit of {limit}")
        if reader.seconds > LONGEST:
            longer = f"{reader.seconds:,.0f} s is above the limit of {LONGEST:,.0f} s"
            raise PictureRefused("too_long", f"{path}: {longer}; cut it")
        yield reader


def _unopened(path: Path, error: Exception) -> PictureRefused:
    if isinstance(error, FileNotFoundError):
        return PictureRefused("not_found", f"{path}: no such file")
    try:
        data = path.read_bytes()
    except OSError as unread:
        return PictureRefused("unreadable", f"{path}: {unread.strerror or unread}")
    # An MP4 that was not written or copied to its end lacks the table of what is in it.
    if data[4:8] == b"ftyp" and b"moov" not in data:
        return PictureRefused("truncated", f"{path}: the mp4 file ends too early; copy it again")
    return PictureRefused("unreadable", f"{path}: no video that can be opened ({error})")
