"""Videos made for tests."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


def gradient(number: int, count: int = 30, size: tuple[int, int] = (96, 64)) -> Picture:
    """Frame `number`: its red tells which it is; green at the left, blue at the top, so that every turn shows."""
    width, height = size
    picture: Picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = 20 + 200 * number // max(1, count - 1)
    picture[:, : width // 2, 1] = 200
    picture[: height // 2, :, 2] = 200
    return picture


def write_video(
    path: Path,
    pictures: Sequence[Picture],
    *,
    codec: str = "libx264",
    times: Sequence[float] | None = None,
    fps: int = 10,
    aspect: Fraction | None = None,
    sound: bool = False,
    options: dict[str, str] | None = None,
) -> Path:
    """A video of these frames; `times` = seconds at which each appears (a variable rate), else `fps`."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=fps)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "12", **(options or {})}
        stream.codec_context.time_base = Fraction(1, 1000)
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.time_base = Fraction(1, 1000)
            frame.pts = round(1000 * (times[number] if times is not None else number / fps))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def turned(path: Path, degrees_clockwise: int) -> Path:
    """The same MP4 with a display matrix: what a phone writes when it was held upright (ISO 14496-12, tkhd)."""
    one = 0x10000
    matrix = {90: (0, one, -one, 0), 180: (-one, 0, 0, -one), 270: (0, -one, one, 0)}[degrees_clockwise]
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40  # version 0: the matrix stands 40 bytes behind the box's name
    a, b, c, d = matrix
    struct.pack_into(">9i", data, place, a, b, 0, c, d, 0, 0, 0, 0x40000000)
    path.write_bytes(data)
    return path


def near(color: Any, wanted: Sequence[int], tolerance: int = 24) -> bool:
    return all(abs(int(a) - int(b)) <= tolerance for a, b in zip(color, wanted, strict=True))


Make = Callable[[Path], Path]
