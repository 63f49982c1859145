"""Turntable clips: the model turns once on the paper, the light and the camera stay; frames become WebM and MP4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from PIL import Image

from .mesh import Model, placed
from .studio import Shot, developed, radiance

FRAMES, RATE = 36, 12

# The quality is the codec's own constant-quality scale; at these, edges and highlights are clean at 320 pixels.
CODECS: dict[str, tuple[str, dict[str, str]]] = {
    ".webm": ("libvpx-vp9", {"crf": "30", "b": "0", "deadline": "good", "cpu-used": "1", "row-mt": "0"}),
    ".mp4": ("libx264", {"crf": "22", "preset": "veryslow", "threads": "1"}),
}


def frames(shot: Shot, model: Model, size: int, samples: int) -> Iterator[Image.Image]:
    """One turn to the right, ten degrees a frame; the last frame leads on to the first."""
    for number in range(FRAMES):
        turned = placed(model, turn=360.0 * number / FRAMES)
        # Full grain, new in every frame, would take the codec's whole budget and be smeared anyway.
        yield developed(radiance(shot, turned, size, samples), shot.exposure, shot.seed + number, grain=0.3)


def encode(pictures: Sequence[Image.Image], path: Path) -> int:
    """Write the clip by its suffix, muted and without metadata, and say how many bytes it took."""
    import av

    codec, options = CODECS[path.suffix]
    # The index goes to the front of an MP4, so that it plays before it is whole.
    container: Any = av.open(str(path), "w", options={"movflags": "+faststart"} if path.suffix == ".mp4" else {})
    with container:
        stream = container.add_stream(codec, rate=RATE, options=options)
        stream.width, stream.height = pictures[0].size
        stream.pix_fmt = "yuv420p"
        stream.time_base = Fraction(1, RATE)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path.stat().st_size


__all__ = ["CODECS", "FRAMES", "RATE", "encode", "frames"]
